"""The grammar back end for SGLang against imitations of what it is called by: manager, requests and plug-in registry."""

import json
import sys
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace

import pytest
import torch

import tractile as tt
from tractile.decoding import sglang
from tractile.decoding.sglang import SGLangBackend, SGLangGrammar
from tractile.embedded import load_lm

TOKENIZER = load_lm()[1]
V, EOS = len(TOKENIZER), TOKENIZER.eos_token_id
SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})


@pytest.fixture
def imitation(monkeypatch):
    """Modules of SGLang with what :func:`register` and the back end look up."""
    registered, hooked = {}, []
    base = ModuleType("sglang.srt.constrained.base_grammar_backend")
    base.register_grammar_backend = registered.__setitem__
    base.InvalidGrammarObject = lambda message: SimpleNamespace(error_message=message)
    arguments = ModuleType("sglang.srt.server_args")
    choices = ModuleType("sglang.srt.arg_groups.choices")
    choices.GRAMMAR_BACKEND_CHOICES = ["xgrammar"]
    arguments.add_grammar_backend_choices = choices.GRAMMAR_BACKEND_CHOICES.extend
    hooks = ModuleType("sglang.srt.plugins.hook_registry")
    hooks.HookRegistry = SimpleNamespace(register=lambda *given: hooked.append(given))
    hooks.HookType = SimpleNamespace(AROUND="around")
    for module in (base, arguments, choices, hooks):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in (
        "sglang",
        "sglang.srt",
        "sglang.srt.constrained",
        "sglang.srt.arg_groups",
        "sglang.srt.plugins",
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return SimpleNamespace(registered=registered, hooked=hooked, choices=choices.GRAMMAR_BACKEND_CHOICES)


class Backend(SGLangBackend):
    """A back end whose base class is not there."""

    @property
    def executor(self):
        def submit(function, *given):
            done = Future()
            done.set_result(function(*given))
            return done

        return SimpleNamespace(submit=submit)


def ask(backend, kind, text, budget, reasoning=False, thinking=None):
    """What SGLang's manager does with a request."""
    manager = SimpleNamespace(grammar_backend=backend)
    req = SimpleNamespace(sampling_params=SimpleNamespace(max_new_tokens=budget))

    def process(manager, req):
        key = backend.get_request_grammar_key((kind, text), input_ids=[1], thinking_budget=thinking)
        value, ready = backend.get_cached_or_future_value(key, reasoning)
        if ready:
            return value
        found = value.result()
        backend.set_cache(key, found.copy() if isinstance(found, SGLangGrammar) else found)
        return found

    return sglang.follow_budget(process, manager, req)


def write(grammar, seed, steps=200):
    """Random tokens within the masks, with tokens taken back on the way."""
    generator, tokens = torch.Generator().manual_seed(seed), []
    mask = grammar.allocate_vocab_mask(V + 7, 2, "cpu")
    for _ in range(steps):
        if grammar.is_terminated():
            return tokens
        grammar.reset_vocab_mask(mask)
        grammar.fill_vocab_mask(mask, 1)
        logits = torch.randn(2, V + 7, generator=generator)
        before = logits.clone()
        grammar.apply_vocab_mask(logits, grammar.move_vocab_mask(mask, "cpu"))
        assert torch.equal(logits[0], before[0])
        assert not logits[1, V:].isfinite().any()
        token = int(logits[1].argmax())
        grammar.accept_token(token)
        assert grammar.current_token == token
        tokens.append(token)
        if len(tokens) > 3 and float(torch.rand((), generator=generator)) < 0.2:
            grammar.rollback(2)
            del tokens[-2:]
    raise AssertionError("no end")


def text_of(tokens):
    assert tokens[-1] == EOS
    words = tt.Vocabulary.from_tokenizer(TOKENIZER).token_bytes
    return b"".join(words[token] for token in tokens[:-1]).decode()


@pytest.mark.parametrize("budget", [16, 24, 60])
def test_every_text_is_valid_within_the_tokens_of_its_request(budget):
    backend = Backend(TOKENIZER)
    for seed in range(3):
        tokens = write(ask(backend, "json", SCHEMA, budget), seed)
        assert len(tokens) <= budget
        assert isinstance(json.loads(text_of(tokens))["a"], str)
        for kind, text, right in (
            ("regex", "[a-c]+", lambda t: set(t) <= set("abc")),
            ("ebnf", 'root ::= "x" | "yy"', lambda t: t in ("x", "yy")),
            ("json", sglang.ANY_OBJECT, lambda t: isinstance(json.loads(t), dict)),
            ("structural_tag", json.dumps({"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}),
             lambda t: t == "ab"),
        ):  # fmt: skip
            tokens = write(ask(backend, kind, text, budget), seed)
            assert len(tokens) <= budget
            assert right(text_of(tokens))


def test_reasoning_and_answer_share_the_tokens_of_a_request():
    end = TOKENIZER.encode("</t>", add_special_tokens=False)
    backend = Backend(TOKENIZER, think_end=end)
    for seed in range(3):
        for thinking, most in ((4, 4), (None, 24 - 4 - len(end)), (-1, 24 - 4 - len(end))):
            grammar = ask(backend, "regex", "[0-9]{3}", 24, reasoning=True, thinking=thinking)
            assert grammar.try_jump_forward(None) is None
            tokens = write(grammar, seed)
            begun = next(n for n in range(len(tokens)) if tokens[n : n + len(end)] == end)
            assert begun <= most
            assert text_of(tokens[begun + len(end) :]).isdigit()
        assert text_of(write(ask(backend, "regex", "[0-9]{3}", 24), seed)).isdigit()


def test_what_must_come_is_jumped_to(imitation):
    words = [None, b"a", b"b", b"ab"]
    backend = Backend(TOKENIZER)
    backend.grammars = type(backend.grammars)(tt.Vocabulary(words, 0))
    grammar = ask(backend, "regex", "bbb", 9)
    template = grammar.copy()
    helper = grammar.try_jump_forward(None)
    assert helper == ([2, 2, 2], "")
    assert grammar.jump_forward_str_state(helper) == ("", -1)
    grammar.jump_and_retokenize([], [2, 2, 2], -1)
    assert grammar.try_jump_forward(None) is None
    grammar.jump_and_retokenize([2, 2, 2], [2, 2], -1)
    assert grammar.try_jump_forward(None) == ([2], "")
    assert template.try_jump_forward(None) == ([2, 2, 2], "")
    with pytest.raises(ValueError, match="not allowed"):
        grammar.accept_token(1)


def test_stop_tokens_end_a_text():
    stop = TOKENIZER.convert_tokens_to_ids("<0x7A>")  # z
    grammar = ask(Backend(TOKENIZER, [stop, EOS]), "regex", "z|[a-y]+", 5)
    grammar.accept_token(TOKENIZER.convert_tokens_to_ids("<0x61>"))
    grammar.accept_token(stop)
    assert grammar.is_terminated()


def test_what_cannot_be_served_is_answered_with_the_reason(imitation):
    backend = Backend(TOKENIZER)
    for kind, text, budget, reason in (
        ("json", SCHEMA, 2, "2"), ("json", "{", 9, "JSON"), ("regex", "(", 9, "at position"), ("lark", "x", 9, "lark"),
    ):  # fmt: skip
        for _ in range(2):
            assert reason in ask(backend, kind, text, budget).error_message


def test_the_entry_point_registers_the_back_end(imitation, monkeypatch):
    for _ in range(2):
        sglang.register()
    assert imitation.choices == ["xgrammar", "tractile"]
    target, around, kind = imitation.hooked[0]
    assert target.endswith("GrammarManager.process_req_with_grammar")
    assert (around, kind) == (sglang.follow_budget, "around")
    settings = SimpleNamespace(reasoning_parser=None, constrained_json_disable_any_whitespace=True)
    made = imitation.registered["tractile"](settings, TOKENIZER, V, {EOS})
    assert made.options == {"whitespace": "none"}
    assert not made.think_end
