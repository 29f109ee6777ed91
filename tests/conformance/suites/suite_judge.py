"""What Tractile answers to a case of a peer's suite, as tests/conformance/suites/suite_recorder.py writes it.

right       the same answer as the suite's; the specification refused by both, or read where the suite only reads it
W+          accepts a text that the suite rejects
W-          rejects a text that the suite accepts
narrowed    rejects it, and says in ``Constraint.narrowed`` that its language is smaller than asked
refused     an error that names what is not supported
reads more  reads a specification that the suite refuses
not asked   the case sets an option that Tractile has no word for
slow        no answer within the time given
"""

import json
import logging
import re
import signal
from collections.abc import Callable
from typing import Any

import torch

import tractile as tt
from tractile.errors import EmptyLanguage, TractileError

Case = dict[str, Any]
VERDICTS = ("right", "W+", "W-", "narrowed", "refused", "reads more", "not asked", "slow", "error")


class NotAsked(Exception):
    """The case sets an option that cannot be expressed."""


class Slow(Exception):
    """The time for a case is over."""


def schema_options(suite: str, options: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The options of ``json_schema`` that stand for the peer's, or for its defaults."""
    if suite.startswith("JSON-Schema-Test-Suite"):
        return options
    asked: dict[str, Any] = {"order": "declared", "formats": "assert"}
    if suite == "xgrammar":
        if options.get("json_format", "json") != "json":
            raise NotAsked(f"the format {options['json_format']}")
        asked["order"] = "any" if options.get("any_order") else "declared"
        asked["open_objects"] = not options.get("strict_mode", True)
        if options.get("max_whitespace_cnt") is not None or options.get("indent") is not None:
            raise NotAsked("indent, max_whitespace_cnt")
        separators = options.get("separators")
        if options.get("any_whitespace", True):
            asked["whitespace"] = "flexible"
        elif [each.strip() for each in separators or (",", ":")] == [",", ":"]:
            asked["separators"] = separators
        else:
            raise NotAsked(f"separators {separators}")
    elif suite.startswith("outlines"):
        if options.get("positional") or any(options.values()):
            raise NotAsked("a pattern for white space, a depth")
        asked |= {"whitespace": "flexible", "open_objects": False}
    elif suite == "llama.cpp":
        asked |= {"whitespace": "flexible"}
    elif suite.startswith("llguidance"):
        asked |= {"whitespace": "none" if suite.endswith("(Rust)") else "flexible"}
        given = [schema.get("x-guidance")] if isinstance(schema, dict) else []
        given += [*options.get("positional", []), options.get("defaults"), options.get("overrides")]
        for name, value in [item for part in given if isinstance(part, dict) for item in part.items()]:
            if name == "whitespace_flexible":
                asked["whitespace"] = "flexible" if value else "none"
            elif name not in ("coerce_one_of", "lenient"):
                raise NotAsked(name)
    elif suite == "genlm-control":
        asked |= {"whitespace": "flexible", "order": "any"}
    elif suite == "smoke":
        asked = options
    return asked


def as_gbnf(printed: str) -> str:
    """A grammar as xgrammar prints it, in the spelling of llama.cpp; the hints for masks after a rule are no part of it."""
    text = re.sub(r" \(=\(.*\)\)$", "", printed, flags=re.M)
    text = re.sub(r"\{(\d+), -1\}", r"{\1,}", text)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\0", r"\1\\x00", text)


def build(case: Case) -> tt.constraints.Constraint:
    """The constraint of a case, with Tractile's own bounds on depths and lengths."""
    spec, options, kind = case["spec"], case["options"], case["kind"]
    if kind == "json_schema":
        schema = json.loads(spec) if isinstance(spec, str) else spec
        asked = schema_options(case["suite"], options, schema)
        return tt.constraints.json_schema(schema, **asked)
    if kind == "regex":
        return tt.constraints.regex(spec)
    if kind == "gbnf":
        spec = as_gbnf(spec) if case["suite"] == "xgrammar, printed" else spec
        return tt.constraints.grammar(spec, syntax="gbnf", start=options.get("root_rule_name"))
    if options.get("tokenizer_info") or options.get("named_grammars"):
        raise NotAsked("named grammars, special tokens")
    return tt.constraints.grammar(spec)


def related(case: Case) -> str:
    """The verdict on a relation of two patterns: equal, a subset, a superset."""
    first, second = (tt.constraints.regex(pattern) for pattern in case["spec"])
    below, above = (first & ~second).is_empty(), (second & ~first).is_empty()
    answer = {"isequal": below and above, "issubset": below, "issuperset": above}[case["options"]["relation"]]
    return "right" if answer == case["accepts"] else "W+" if answer else "W-"


def hidden(case: Case) -> str:
    """The verdict on an answer about a hidden Markov model, to a relative 1e-4, since dynamax counts in float32.

    The observations are soft evidence on the states themselves: each state emits its own number.
    """
    names = ("initial", "transition", "log_likelihoods")
    initial, transition, scores = (torch.tensor(case["spec"][name], dtype=torch.float64) for name in names)
    most = scores.amax(1, keepdim=True)
    model = tt.HMM(initial, transition, torch.eye(len(initial), dtype=torch.float64))
    evidence = (scores - most).exp()[None]
    expected = torch.tensor(case["accepts"], dtype=torch.float64)
    if case["text"] == "log_likelihood":
        answer = tt.log_marginal(model, evidence)[0] + most.sum()
    elif case["text"] == "posterior":
        found = tt.inference.marginals(model, evidence)
        answer = torch.stack([found[step][0] for step in range(len(scores))]).exp()
    else:
        answer = tt.mpe(model, evidence)[1][0] + most.sum()
        if case["text"] == "path":  # there may be several of the highest probability
            path, steps = expected.long(), torch.arange(len(scores))
            moves = transition[path[:-1], path[1:]].log().sum()
            expected = initial[path[0]].log() + moves + scores[steps, path].sum()
    near = torch.allclose(answer, expected, rtol=1e-4, atol=1e-4)
    return "right" if near else "W-"


class Judge:
    """Verdicts on cases; a specification is compiled once for all cases that follow one another with it."""

    def __init__(self, seconds: float = 20.0) -> None:
        self.seconds = seconds
        self.built: dict[str, Any] = {}
        logging.getLogger("tractile").setLevel(logging.ERROR)  # what is narrowed is a verdict here
        signal.signal(signal.SIGALRM, self.stop)

    @staticmethod
    def stop(*_: Any) -> None:
        raise Slow

    def constraint(self, case: Case) -> Any:
        """The constraint, or the error that it raised."""
        key = json.dumps([case[name] for name in ("suite", "kind", "spec", "options")], sort_keys=True)
        if key not in self.built:
            if len(self.built) > 50:
                self.built.clear()
            self.built[key] = self.timed(lambda: build(case))
        return self.built[key]

    def timed(self, call: Callable[[], Any]) -> Any:
        """What the call gives, or the error that it raises."""
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            return call()
        except (Exception, RecursionError) as error:
            return error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def verdict(self, case: Case) -> tuple[str, str]:
        """The verdict, and what there is to say about it."""
        if case["kind"] == "unread":
            return "not asked", "the test has to be run to be read"
        if case["kind"] in ("languages", "hmm"):
            judge = related if case["kind"] == "languages" else hidden
            return self.outcome(self.timed(lambda: judge(case)))
        return self.accepts(self.constraint(case), case)

    def accepts(self, made: Any, case: Case) -> tuple[str, str]:
        text, expected = case["text"], case["accepts"]
        if isinstance(made, Exception):
            if isinstance(made, EmptyLanguage) and expected is False:
                return "right", str(made)
            if isinstance(made, TractileError) and text is None:
                return "right", str(made)
            return self.outcome(made)
        if expected is None:
            return "right", "read"
        if text is None:
            if self.timed(made.is_empty) is True:
                return "right", "the language is empty"
            return "reads more", "the suite refuses the specification"
        answer = self.timed(lambda: made.accepts(text))
        if isinstance(answer, Exception):
            return self.outcome(answer)
        if answer == expected:
            return "right", ""
        if answer:
            return "W+", "accepted"
        exponent = re.search("[0-9][eE]", text)
        if cuts := [cut for cut in made.narrowed if cut.loses_values or exponent]:
            return "narrowed", "; ".join(map(str, cuts))
        return "W-", "rejected"

    @staticmethod
    def outcome(result: Any) -> tuple[str, str]:
        """The verdict for an error, or for a verdict itself."""
        if isinstance(result, str):
            return result, ""
        if isinstance(result, NotAsked):
            return "not asked", str(result)
        if isinstance(result, Slow):
            return "slow", ""
        if isinstance(result, TractileError):
            return "refused", f"{type(result).__name__}: {result}"
        return "error", f"{type(result).__name__}: {result}"


def shown(case: Case, verdict: str, why: str) -> str:
    """A line for ``--show``."""
    spec = case["spec"] if isinstance(case["spec"], str) else json.dumps(case["spec"], ensure_ascii=False)
    spec = re.sub(r"\s+", " ", spec)
    return f"  {verdict}  {case.get('test', '')}  {case['kind']} {spec[:300]}  text {case['text']!r:.120}  {why[:200]}"
