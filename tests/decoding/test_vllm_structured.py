"""Structured output for vLLM against imitations of what it is called by: the manager, the request and their protocol."""

import asyncio
import inspect
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import ModuleType, SimpleNamespace

import pytest
import torch
from counting import HANGS

import tractile as tt
from tractile.decoding import grammar_rows
from tractile.decoding.vllm import VLLMLogitsProcessor, adapter, batch, plugin
from tractile.decoding.vllm.structured_output import Spec, TractileBackend, TractileGrammar, fill_together
from tractile.embedded import load_lm

TOKENIZER = load_lm()[1]
V = len(TOKENIZER)
EOS = TOKENIZER.eos_token_id
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
PROTOCOL = {  # vllm.v1.structured_output.backend_types
    "accept_tokens": ["request_id", "tokens"], "validate_tokens": ["tokens"], "rollback": ["num_tokens"],
    "fill_bitmask": ["bitmask", "batch_index"], "is_terminated": [], "reset": [],
}  # fmt: skip


def letter(character):
    """The token of a byte."""
    return TOKENIZER.convert_tokens_to_ids(f"<0x{ord(character):02X}>")


def spelled(tokens):
    """What tokens spell: most letters have two, of which one is a byte."""
    return {tt.Vocabulary.from_tokenizer(TOKENIZER).token_bytes[token] for token in tokens}


def backend(columns=V + 40):
    return TractileBackend(None, TOKENIZER, columns)


def allowed(grammar, columns=V + 40):
    mask = backend().allocate_token_bitmask(3)
    assert mask.shape == (3, -(-columns // 32))
    grammar.fill_bitmask(mask, 1)
    assert mask[[0, 2]].eq(-1).all()
    bits = (mask[1][:, None] >> torch.arange(32)) & 1
    return set(bits.flatten().nonzero()[:, 0].tolist())


def test_the_signatures_are_those_of_the_protocol():
    for name, expected in PROTOCOL.items():
        assert list(inspect.signature(getattr(TractileGrammar, name)).parameters)[1:] == expected
    compile_grammar = inspect.signature(TractileBackend.compile_grammar).parameters
    assert list(compile_grammar)[1:] == ["request_type", "grammar_spec", "stop_token_ids"]


def test_a_text_is_read_taken_back_and_ended():
    grammar = backend().grammar(Spec("REGEX", "(a|b)*c"), {EOS}, lambda: 4)
    a, b, c = map(letter, "abc")
    assert {a, b, c} <= allowed(grammar)
    assert grammar.accept_tokens("r", [a, b])
    assert spelled(allowed(grammar)) == {b"c"}  # one token and the end are left
    assert grammar.validate_tokens([c, EOS, a]) == [c, EOS]
    assert not grammar.accept_tokens("r", [a])
    assert grammar.accept_tokens("r", [c, EOS])
    assert grammar.is_terminated()
    assert grammar.accept_tokens("r", [a])  # after the end: ignored
    grammar.rollback(2)
    assert not grammar.is_terminated()
    assert spelled(allowed(grammar)) == {b"c"}
    grammar.reset()
    assert a in allowed(grammar)


def test_what_reasoning_has_spent_is_not_left_for_the_text():
    left = iter([20, 3])  # asked when the grammar is compiled, and as the text begins
    grammar = backend().grammar(Spec("REGEX", "(a|b)*c"), None, lambda: next(left))
    a = letter("a")
    assert grammar.accept_tokens("r", [a])  # the request counts it already: four tokens, one of them taken
    assert grammar.validate_tokens([a, a]) == [a]
    assert grammar.accept_tokens("r", [a])
    assert spelled(allowed(grammar)) == {b"c"}


def test_too_few_tokens_after_reasoning_are_reported(caplog):
    left = iter([20, 1])
    grammar = backend().grammar(Spec("REGEX", "abc"), None, lambda: next(left))
    assert letter("a") in allowed(grammar)  # the engine cuts it: its finish_reason is "length"
    assert "too few tokens" in caplog.text


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Spec("JSON", json.dumps(SCHEMA)), '{"a": 1}'),
        (Spec("JSON", json.dumps(SCHEMA), {"whitespace": "none"}), '{"a":1}'),
        (Spec("JSON_OBJECT", ""), "{}"),
        (Spec("CHOICE", '["yes", "no"]'), "no"),
        (Spec("GRAMMAR", 'root ::= "a" [b]'), "ab"),
        (Spec("GRAMMAR", 'start: "a" /b/'), "ab"),
        (
            Spec(
                "STRUCTURAL_TAG",
                '{"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}',
            ),
            "ab",
        ),
    ],
)
def test_every_kind(asked, text):
    grammar = backend().grammar(asked, {EOS}, lambda: 30)
    assert grammar.accept_tokens("r", [*map(letter, text), EOS])


def test_a_kind_that_there_is_none_of_is_refused():
    for asked in (Spec("POEM", ""), Spec("JSON", "{")):
        with pytest.raises(tt.errors.UnsupportedConstraint):
            asked.constraint()


# ------------------------------------------------------------ the plug-in


class ValidationError(ValueError):
    def __init__(self, message, parameter=None):
        super().__init__(message)


@pytest.fixture
def vllm(monkeypatch):
    """Modules with the functions that the plug-in wraps."""

    class InputProcessor:
        def __init__(self, vllm_config, renderer=None):
            self.structured_outputs_config = vllm_config.structured_outputs_config
            self.model_config, self.tokenizer = vllm_config.model_config, TOKENIZER

    class SamplingParams:
        def __init__(self, max_tokens, **settings):
            self.max_tokens, self.all_stop_token_ids = max_tokens, {EOS}
            defaults = {"whitespace_pattern": None, "disable_any_whitespace": False,
                        "disable_additional_properties": False, "_backend": None}  # fmt: skip
            self.structured_outputs = SimpleNamespace(**(defaults | settings))

        def _validate_structured_outputs(self, model_config, config, tokenizer):
            self.structured_outputs._backend = "xgrammar"

    class AsyncLLM:
        def __init__(self, vllm_config, processor=None):
            self.input_processor = InputProcessor(vllm_config)
            self.input_processor.validate_logits_processors_params = getattr(
                processor, "validate_params", None
            )

        async def add_request(self, request_id, prompt, params, priority=0):
            reading = self.input_processor
            if hasattr(params, "_validate_structured_outputs"):
                params._validate_structured_outputs(
                    reading.model_config, reading.structured_outputs_config, TOKENIZER
                )
            return request_id, priority

    class StructuredOutputManager:
        _use_async_grammar_compilation, enable_in_reasoning, reasoner = True, False, None

        def __init__(self, vllm_config):
            self.vllm_config, self.tokenizer, self.backend = vllm_config, TOKENIZER, None
            self.executor = ThreadPoolExecutor(1)

        def grammar_init(self, request):
            request.structured_output_request.grammar = "xgrammar"

        def _get_reasoner(self, request):
            return self.reasoner

        def grammar_bitmask(self, requests, ids, drafts):
            rows = iter(range(len(self._grammar_bitmask)))
            for name in ids:
                for token in (*drafts.get(name, ()), None):
                    self._fill_bitmasks(((requests[name], next(rows), token != -1),))
                    if token is not None and token >= 0:
                        assert requests[name].accept_tokens(name, [token])
                requests[name].rollback(len(drafts.get(name, ())))
            return self._grammar_bitmask.numpy()

        def _fill_bitmasks(self, batch):
            for grammar, row, applies in batch:
                if applies and not grammar.is_terminated():
                    grammar.fill_bitmask(self._grammar_bitmask, row)
                else:
                    self._grammar_bitmask[row].fill_(-1)

    class EngineCore:
        def __init__(self, vllm_config):
            self.vllm_config, self.structured_output_manager = (
                vllm_config,
                StructuredOutputManager(vllm_config),
            )

        def preprocess_add_request(self, request):
            return request, 0

    class Scheduler:
        running = ()

        def _handle_blocked_waiting_request(self, request):
            return request.structured_output_request.grammar is not None

    statuses = SimpleNamespace(WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR="waits")
    for name, content in {
        "vllm.v1.engine.core": {"EngineCore": EngineCore},
        "vllm.v1.engine.async_llm": {"AsyncLLM": AsyncLLM},
        "vllm.v1.core.sched.scheduler": {"Scheduler": Scheduler},
        "vllm.v1.request": {"RequestStatus": statuses},
        "vllm.v1.engine.input_processor": {"InputProcessor": InputProcessor},
        "vllm.sampling_params": {"SamplingParams": SamplingParams},
        "vllm.v1.structured_output": {"StructuredOutputManager": StructuredOutputManager},
        "vllm.v1.structured_output.request": {
            "get_structured_output_key": lambda p: (SimpleNamespace(name=p.kind), p.text)
        },
        "vllm.exceptions": {"VLLMValidationError": ValidationError},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    plugin.register()
    plugin.register()  # vLLM calls it in each process, and may do so twice
    return SimpleNamespace(
        InputProcessor=InputProcessor, SamplingParams=SamplingParams, Manager=StructuredOutputManager,
        EngineCore=EngineCore, Scheduler=Scheduler, AsyncLLM=AsyncLLM,
    )  # fmt: skip


def config(asked):
    return SimpleNamespace(
        additional_config={} if asked is None else {"tractile": asked},
        structured_outputs_config=SimpleNamespace(backend="auto"),
        model_config=SimpleNamespace(max_model_len=64, get_vocab_size=lambda: V + 40),
    )


def admitted(vllm, engine, params):
    processor = vllm.InputProcessor(engine)
    params._validate_structured_outputs(engine.model_config, processor.structured_outputs_config, TOKENIZER)
    return params


def begun(vllm, engine, params, prompt=10, written=0):
    asked = SimpleNamespace(
        grammar=None,
        reasoning_ended=None,
        params=params.structured_outputs,
        structured_output_key=(
            SimpleNamespace(name=params.structured_outputs.kind),
            params.structured_outputs.text,
        ),
    )
    request = SimpleNamespace(
        structured_output_request=asked, sampling_params=params, max_tokens=params.max_tokens,
        num_prompt_tokens=prompt, prompt_token_ids=[1] * prompt, num_output_tokens=written,
    )  # fmt: skip
    vllm.Manager(engine).grammar_init(request)
    assert vllm.Manager.reasoner is None or asked.reasoning_ended
    return asked.grammar


def test_an_engine_that_names_it_gets_grammars_with_budgets(vllm):
    engine = config({"whitespace": "none"})
    params = admitted(vllm, engine, vllm.SamplingParams(8, kind="JSON", text=json.dumps(SCHEMA)))
    assert params.structured_outputs._backend == "tractile"
    assert engine.structured_outputs_config.backend == "auto"
    grammar = begun(vllm, engine, params).result()
    assert grammar.accept_tokens("r", [letter(c) for c in '{"a":'])
    assert spelled(allowed(grammar)) == {b"%d" % digit for digit in range(10)}  # two tokens are left
    with pytest.raises(tt.errors.BudgetTooSmall):
        begun(vllm, engine, params, prompt=62).result()  # two tokens are left of the context
    with pytest.raises(tt.errors.BudgetTooSmall):
        begun(vllm, engine, params, written=6).result()  # the reasoning has left two of eight


def test_masks_of_a_step_are_filled_together(vllm, monkeypatch):
    engine, batches = config(True), []
    monkeypatch.setattr(
        plugin, "fill_together", lambda rows, mask: (batches.append(len(rows)), fill_together(rows, mask))
    )
    grammars = {}
    for name, kind, text in (("a", "JSON", "{}"), ("b", "REGEX", "[ab]{3}"), ("c", "REGEX", "a?")):
        params = admitted(vllm, engine, vllm.SamplingParams(8, kind=kind, text=text))
        grammars[name] = begun(vllm, engine, params).result()
    assert grammars["c"].accept_tokens("c", [EOS])
    manager = vllm.Manager(engine)
    for drafts in ({}, {"b": [letter("a"), letter("b")]}):
        manager._grammar_bitmask = torch.zeros(3 + 2 * len(drafts), -(-V // 32), dtype=torch.int32)
        found = manager.grammar_bitmask(grammars, ["a", "b", "c"], drafts)
        want = torch.zeros(2, -(-V // 32), dtype=torch.int32)
        for row, name in enumerate("ab"):
            grammars[name].fill_bitmask(want, row)
        assert (found[:2] == want.numpy()).all()
        assert (found[-1] == -1).all()  # that text has ended
    assert (found[1] != found[3]).any()  # before the drafted tokens, and after both of them
    assert batches == [2]


def test_reasoning_ends_while_the_tokens_left_suffice_for_the_text(vllm):
    end, opens, dot = TOKENIZER.get_vocab()["!"], letter("a"), letter(".")
    vllm.Manager.reasoner = SimpleNamespace(
        is_reasoning_end=lambda prompt: end in prompt,
        reasoning_end_str="!",
        reasoning_end_token_ids={end, opens},
    )
    grammar = begun(vllm, config(True), vllm.SamplingParams(7, kind="REGEX", text="a?bc")).result()
    assert {dot, end, opens} <= allowed(grammar)
    assert grammar.accept_tokens("r", [dot, dot, dot])
    assert allowed(grammar) == {end}
    assert grammar.validate_tokens([dot, end]) == []
    assert grammar.accept_tokens("r", [end])
    assert spelled(allowed(grammar)) == {b"b"}
    grammar.rollback(2)
    assert grammar.accept_tokens("r", [opens])  # the answer has begun
    assert spelled(allowed(grammar)) == {b"b"}


def test_an_engine_that_does_not_is_left_alone(vllm):
    params = vllm.SamplingParams(7, kind="JSON", text=json.dumps(SCHEMA))
    for asked in (None, False):
        admitted(vllm, config(asked), params)
        assert params.structured_outputs._backend == "xgrammar"
        assert begun(vllm, config(asked), params) == "xgrammar"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "REGEX", "text": "("}, "at position"),
        ({"kind": "REGEX", "text": "(abc ){40}"}, "are needed"),
        ({"kind": "JSON", "text": "{}", "whitespace_pattern": " "}, "white space"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(vllm, settings, message):
    with pytest.raises(ValidationError, match=message):
        admitted(vllm, config(True), vllm.SamplingParams(16, **settings))


def test_options_that_there_are_none_of_are_refused():
    with pytest.raises(tt.errors.UnsupportedConstraint, match="whitespace"):
        plugin.settings(config({"colour": 1}))


class Masks(VLLMLogitsProcessor):
    tokenizer = TOKENIZER


@pytest.mark.parametrize("door", ["structured output", "logits processor"])
def test_a_servers_event_loop_goes_on_while_a_request_is_checked(vllm, monkeypatch, door):
    owner = grammar_rows if door == "structured output" else adapter
    may_go_on, compile_request = Event(), owner.compile_request
    monkeypatch.setattr(
        owner, "compile_request", lambda *given: may_go_on.wait(HANGS) and compile_request(*given)
    )
    engine = vllm.AsyncLLM(config(True), Masks)

    def params(pattern):
        if door == "structured output":
            return vllm.SamplingParams(16, kind="REGEX", text=pattern)
        return SimpleNamespace(max_tokens=16, extra_args={"tractile": {"regex": pattern}})

    async def served():
        new = asyncio.create_task(engine.add_request("new", "", params(f"[a-{door[0]}]+"), priority=3))
        free = SimpleNamespace(extra_args=None)
        await asyncio.sleep(0)  # the check of the new request begins
        for name in "abc":  # requests and their texts go on
            assert await engine.add_request(name, "", free) == (name, 0)
        assert not new.done()
        may_go_on.set()
        assert await new == ("new", 3)
        with pytest.raises(ValueError, match="at position"):
            await engine.add_request("wrong", "", params("("))

    asyncio.run(asyncio.wait_for(served(), HANGS))


def test_requests_of_logits_processors_wait_for_their_tables(vllm, monkeypatch):
    class Guided(VLLMLogitsProcessor):
        tokenizer = TOKENIZER
        hmm = tt.HMM.random(2, V, seed=0)

    engine, other, may_go_on = config(None), config(None), Event()
    processor = Guided(engine, torch.device("cpu"), False)
    pgcd = batch.pgcd
    monkeypatch.setattr(batch, "pgcd", lambda *given, **more: may_go_on.wait() and pgcd(*given, **more))

    def added(core, wish):
        params = SimpleNamespace(max_tokens=16, extra_args=wish and {"tractile": wish})
        request = SimpleNamespace(
            sampling_params=params, num_prompt_tokens=5, structured_output_request=None, status="runs"
        )
        assert core.preprocess_add_request(request) == (request, 0)
        return request

    core, scheduler = vllm.EngineCore(engine), vllm.Scheduler()
    asked = {"regex": "[a-z]+"}
    assert added(core, None).status == added(vllm.EngineCore(other), asked).status == "runs"
    request = added(core, asked)
    assert request.status == "waits"
    assert not scheduler._handle_blocked_waiting_request(request)
    may_go_on.set()
    core.structured_output_manager.executor.shutdown()
    assert scheduler._handle_blocked_waiting_request(request)
    assert request.structured_output_request is None
    assert request.tractile_tables is processor.batch.query(('["regex", "[a-z]+", {}]', 16, True))
    assert added(core, asked).status == "runs"  # its tables are there
    monkeypatch.setattr(vllm.Manager, "_use_async_grammar_compilation", False)
    assert added(core, {"regex": "[a-y]+"}).status == "runs"  # all ranks decide alike
