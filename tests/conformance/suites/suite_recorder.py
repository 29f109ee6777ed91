"""A pytest plugin that writes down what a peer's own tests ask of it: a specification, a text, and whether it is accepted.

Loaded into the peer's test run by tests/conformance/peer_suites.py, in the peer's own Python, which need not have Tractile:

    python -m pytest -p suite_recorder FOLDER        (with PEER_CASES naming the file to write)

The functions that build something from a specification and those that ask whether it accepts a text are replaced by ones that
also note what they are given and what they answer. A line of JSON for each question of a test that passes:

    {"suite", "test", "kind", "spec", "options", "text", "accepts"}

``kind`` is "json_schema", "regex", "gbnf", "lark" or "languages" (two patterns and whether they are related as ``options``
says). ``text`` is null where the peer refuses the specification itself.
"""

import contextlib
import functools
import importlib
import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

Case = dict[str, Any]
NOTED: list[Case] = []
MADE: dict[int, tuple[Any, Case]] = {}  # by identity: what was built, kept alive, and from what


def plain(value: Any) -> Any:
    """A specification or an option as JSON can hold it; a Pydantic class as its schema."""
    if hasattr(value, "model_json_schema"):
        return value.model_json_schema()
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value


def builder(suite: str, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, noting from which specification each of its results is made."""

    @functools.wraps(function)
    def build(spec: Any, *args: Any, **options: Any) -> Any:
        case = {"suite": suite, "kind": kind, "spec": plain(spec)}
        case["options"] = {key: plain(value) for key, value in options.items()}
        if args:
            case["options"]["positional"] = [plain(value) for value in args]
        try:
            made = function(spec, *args, **options)
        except Exception:
            NOTED.append({**case, "text": None, "accepts": False})
            raise
        MADE[id(made)] = made, case
        return made

    return build


def note(made: Any, text: Any, accepts: bool) -> None:
    """Write down that ``made`` accepts ``text`` or not, if it is known what it was made from."""
    if id(made) in MADE and isinstance(text, str):
        case = {**MADE[id(made)][1], "text": text, "accepts": bool(accepts)}
        NOTED.append(case)
        if case["suite"] == "xgrammar" and case["kind"] != "gbnf" and "::=" in str(made):
            NOTED.append(
                {**case, "suite": "xgrammar, printed", "kind": "gbnf", "spec": str(made), "options": {}}
            )


def record_xgrammar() -> None:
    """``Grammar.from_…`` and ``testing._is_grammar_accept_string``, which also takes the text of a grammar."""
    xgrammar = importlib.import_module("xgrammar")
    testing = importlib.import_module("xgrammar.testing")
    kinds = {
        "from_json_schema": "json_schema",
        "from_regex": "regex",
        "from_ebnf": "gbnf",
        "from_lark": "lark",
    }
    for name, kind in kinds.items():
        wrapped = builder("xgrammar", kind, getattr(xgrammar.Grammar, name))
        setattr(xgrammar.Grammar, name, staticmethod(wrapped))
    for name, kind in {"_json_schema_to_ebnf": "json_schema", "_regex_to_ebnf": "regex"}.items():
        setattr(testing, name, with_text(testing, name, kind))
    asked = testing._is_grammar_accept_string

    @functools.wraps(asked)
    def ask(grammar: Any, text: Any, **options: Any) -> bool:
        answer = bool(asked(grammar, text, **options))
        if options.get("require_termination", True):
            if isinstance(grammar, str):
                grammar = FROM_TEXT.get(grammar) or xgrammar.Grammar.from_ebnf(grammar)
            note(grammar, text, answer)
        return answer

    testing._is_grammar_accept_string = ask
    follow_matcher(xgrammar)


FROM_TEXT: dict[str, Any] = {}


class Written:
    """Stands for a grammar that is known by its text only."""


def with_text(module: Any, name: str, kind: str) -> Callable[..., Any]:
    """A function that writes a specification as a grammar; questions about that grammar are then about the specification."""
    function = getattr(module, name)

    @functools.wraps(function)
    def write(spec: Any, *args: Any, **options: Any) -> Any:
        text = function(spec, *args, **options)
        made = Written()
        case = {"suite": "xgrammar", "kind": kind, "spec": plain(spec)}
        MADE[id(made)] = made, {**case, "options": {key: plain(value) for key, value in options.items()}}
        FROM_TEXT[text] = made
        return text

    return write


def follow_matcher(xgrammar: Any) -> None:
    """``GrammarCompiler.compile_grammar`` and ``GrammarMatcher``: a whole text accepted at once, then asked for its end."""
    compiler, matcher = xgrammar.GrammarCompiler, xgrammar.GrammarMatcher
    compiled, begun = compiler.compile_grammar, matcher.__init__
    accepted, ended = matcher.accept_string, matcher.is_terminated
    fed: dict[int, list[Any]] = {}

    def compile_grammar(self: Any, grammar: Any, **options: Any) -> Any:
        made = compiled(self, grammar, **options)
        if id(grammar) in MADE:
            MADE[id(made)] = made, MADE[id(grammar)][1]
        return made

    def begin(self: Any, grammar: Any, *args: Any, **options: Any) -> None:
        begun(self, grammar, *args, **options)
        if options.get("terminate_without_stop_token"):
            fed[id(self)] = [grammar, []]

    def accept(self: Any, text: Any, **options: Any) -> bool:
        answer = bool(accepted(self, text, **options))
        if id(self) in fed and isinstance(text, str):
            fed[id(self)][1].append(text)
            if not answer and len(fed[id(self)][1]) == 1:
                note(fed[id(self)][0], text, False)
        return answer

    def is_terminated(self: Any) -> bool:
        answer = bool(ended(self))
        if id(self) in fed and len(fed[id(self)][1]) == 1:
            note(fed[id(self)][0], fed[id(self)][1][0], answer)
        return answer

    compiler.compile_grammar, matcher.__init__ = compile_grammar, begin
    matcher.accept_string, matcher.is_terminated = accept, is_terminated


def record_outlines_core() -> None:
    """The pattern for a schema, and what ``re`` says of it."""
    module = importlib.import_module("outlines_core.json_schema")
    build, asked = module.build_regex_from_schema, re.fullmatch
    written: dict[str, Case] = {}

    @functools.wraps(build)
    def write(spec: Any, *args: Any, **options: Any) -> Any:
        pattern = build(spec, *args, **options)
        case = {"suite": "outlines-core", "kind": "json_schema", "spec": plain(spec)}
        written[pattern] = {**case, "options": {**options, "positional": list(args)}}
        return pattern

    def ask(pattern: Any, text: Any, flags: int = 0) -> Any:
        answer = asked(pattern, text, flags)
        key = pattern if isinstance(pattern, str) else getattr(pattern, "pattern", None)
        default = {"suite": "outlines", "kind": "regex", "spec": key, "options": {}}
        if isinstance(key, str) and isinstance(text, str):
            NOTED.append({**written.get(key, default), "text": text, "accepts": answer is not None})
        return answer

    module.build_regex_from_schema = write
    re.fullmatch = ask  # type: ignore[assignment]


def record_llguidance() -> None:
    """Grammars from schemas, patterns and Lark; the suite's tests ask through a function of their own."""
    matcher = importlib.import_module("llguidance").LLMatcher
    for name, kind in {"json_schema": "json_schema", "regex": "regex", "lark": "lark"}.items():
        built = builder("llguidance", kind, getattr(matcher, f"grammar_from_{name}"))
        setattr(matcher, f"grammar_from_{name}", staticmethod(built))


def follow_llguidance(module: Any) -> None:
    """``check_one_grammar(grammar, text, passing)`` of the suite's own test module."""
    asked = module.check_one_grammar

    def ask(grammar: Any, text: str, passing: bool) -> None:
        asked(grammar, text, passing)
        if "\u2042" not in text:
            source = FROM_TEXT.get(grammar) or next((m for m, _ in MADE.values() if m == grammar), None)
            note(source, text.removeprefix("FINAL_REJECT:"), passing)

    module.check_one_grammar = ask


def record_automata() -> None:
    """``isequal``, ``issubset`` and ``issuperset`` of two patterns, and what an automaton made from one accepts."""
    module = importlib.import_module("automata.regex.regex")
    nfa = importlib.import_module("automata.fa.nfa").NFA
    for relation in ("isequal", "issubset", "issuperset"):
        setattr(module, relation, related(getattr(module, relation), relation))
    nfa.from_regex = staticmethod(builder("automata-lib", "regex", nfa.from_regex))
    asked = nfa.accepts_input

    def accepts_input(self: Any, text: Any) -> bool:
        answer = bool(asked(self, text))
        note(self, text, answer)
        return answer

    nfa.accepts_input = accepts_input


def related(function: Callable[..., bool], relation: str) -> Callable[..., bool]:
    """A function of two patterns, noting its answer."""

    @functools.wraps(function)
    def ask(first: Any, second: Any, **options: Any) -> bool:
        answer = bool(function(first, second, **options))
        case = {"suite": "automata-lib", "kind": "languages", "spec": [plain(first), plain(second)]}
        NOTED.append({**case, "options": {"relation": relation}, "text": "", "accepts": answer})
        return answer

    return ask


def record_genlm() -> None:
    """``JsonSchema(schema)``, and whether the texts that it is asked about, whole or as prefixes, are complete."""
    module = importlib.import_module("genlm.control.potential.built_in.json")
    module.JsonSchema = builder("genlm-control", "json_schema", module.JsonSchema)
    product = importlib.import_module("genlm.control.potential.product").Product
    complete = product.complete

    def wrap(name: str) -> None:
        asked = getattr(product, name)

        async def ask(self: Any, context: Any) -> Any:
            weight = await asked(self, context)
            if id(self) in MADE:
                with contextlib.suppress(TypeError, ValueError):
                    note(self, bytes(context).decode(), await complete(self, context) == 0)
            return weight

        setattr(product, name, ask)

    wrap("complete")
    wrap("prefix")


RECORDERS = {
    "genlm": record_genlm,
    "xgrammar": record_xgrammar,
    "outlines_core": record_outlines_core,
    "llguidance": record_llguidance,
    "automata": record_automata,
}


def pytest_configure(config: pytest.Config) -> None:
    """Replace the functions of the peer whose tests are about to be read."""
    package = os.environ["PEER_PACKAGE"]
    if package in RECORDERS:
        RECORDERS[package]()
    else:
        importlib.import_module("suite_recorder_hmm").record(package, NOTED)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget what the last test asked; follow the helpers that stand in the test module itself."""
    NOTED.clear()
    module = getattr(item, "module", None)
    if hasattr(module, "check_one_grammar") and not hasattr(module, "followed"):
        follow_llguidance(module)
        module.followed = True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """Write the questions of a test that passed."""
    report = (yield).get_result()
    if report.when == "call" and report.passed:
        with open(os.environ["PEER_CASES"], "a", encoding="utf-8") as file:
            for case in NOTED:
                file.write(json.dumps({**case, "test": item.nodeid}, ensure_ascii=True) + "\n")
