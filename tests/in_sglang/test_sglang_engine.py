"""The grammar back end with SGLang's own classes, as far as they can be had on a CPU: registry, hooks, manager, base classes.

    PYTHONPATH=build/typing python -m pytest --confcutdir=tests/in_sglang tests/in_sglang

in an environment with ``sglang`` (installed without its dependencies, and what it then misses by name) and the package.
"""

import json
from types import SimpleNamespace

import pytest
import torch

sglang = pytest.importorskip("sglang", reason="SGLang is not installed here")
grammar_manager = pytest.importorskip(
    "sglang.srt.constrained.grammar_manager",
    reason="SGLang's classes cannot be imported",
    exc_type=ImportError,
)

from sglang.srt.constrained.base_grammar_backend import (  # noqa: E402
    GRAMMAR_BACKEND_REGISTRY,
    BaseGrammarBackend,
    BaseGrammarObject,
    InvalidGrammarObject,
)
from sglang.srt.plugins.hook_registry import HookRegistry  # noqa: E402

import tractile.decoding.sglang as ours  # noqa: E402
from tractile.embedded import load_lm  # noqa: E402

TOKENIZER = load_lm()[1]
SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


@pytest.fixture(scope="module")
def manager():
    """A ``GrammarManager`` with the back end, without the scheduler."""
    ours.register()
    HookRegistry.apply_hooks()
    settings = SimpleNamespace(reasoning_parser="deepseek-r1", constrained_json_disable_any_whitespace=False)
    made = object.__new__(grammar_manager.GrammarManager)
    made.grammar_backend = GRAMMAR_BACKEND_REGISTRY["tractile"](
        settings, TOKENIZER, len(TOKENIZER), {TOKENIZER.eos_token_id}
    )
    made.grammar_queue, made._enable_strict_thinking = [], False
    made.scheduler = SimpleNamespace(model_config=SimpleNamespace())
    made.pp_rank, made.pp_size, made.pp_group, made.grammar_sync_size = 0, 1, None, 1
    made.SGLANG_GRAMMAR_POLL_INTERVAL, made.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS = 0.01, 10_000
    return made


def request(budget, **asked):
    asked = {
        "json_schema": None, "regex": None, "ebnf": None, "ebnf_full_assistant": False, "structural_tag": None,
    } | asked  # fmt: skip
    params = SimpleNamespace(max_new_tokens=budget, custom_params=None, **asked)
    made = SimpleNamespace(sampling_params=params, origin_input_ids=[1], require_reasoning=False, grammar=None, grammar_key=None,
                           grammar_wait_ct=0, aborted=None, rid="r", finished=lambda: False)  # fmt: skip
    made.set_finish_with_abort = lambda message: setattr(made, "aborted", message)
    return made


def serve(manager, req):
    if manager.process_req_with_grammar(req):
        while req not in manager.get_ready_grammar_requests():
            pass
    return req.grammar


def test_the_classes_are_those_of_sglang(manager):
    assert isinstance(manager.grammar_backend, BaseGrammarBackend)
    assert issubclass(ours.SGLangGrammar, BaseGrammarObject)
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES

    assert "tractile" in GRAMMAR_BACKEND_CHOICES


def test_a_request_goes_through_the_manager_with_its_budget(manager):
    for budget in (12, 20, 12):
        req = request(budget, json_schema=SCHEMA)
        grammar = serve(manager, req)
        tokens, mask = 0, grammar.allocate_vocab_mask(len(TOKENIZER), 1, "cpu")
        while not grammar.is_terminated():
            BaseGrammarObject.fill_vocab_mask_batched([SimpleNamespace(grammar=grammar, row=0)], mask)
            allowed = ((mask[0][:, None] >> torch.arange(32)) & 1).flatten().nonzero()[:, 0]
            grammar.accept_token(int(allowed[(7 * tokens + 3) % len(allowed)]))
            tokens += 1
        assert tokens <= budget
        grammar.rollback(2)
        assert not grammar.is_terminated()


def test_reasoning_leaves_room_for_the_answer(manager):
    """DeepSeek R1's parser, whose end of the reasoning is several tokens here."""
    end = TOKENIZER.encode("</think>", add_special_tokens=False)
    for thinking, most in ((None, 30 - 8 - len(end)), (3, 3)):
        req = request(30, json_schema=SCHEMA)
        req.require_reasoning, req.sampling_params.custom_params = True, {"thinking_budget": thinking}
        grammar, tokens = serve(manager, req), []
        mask = grammar.allocate_vocab_mask(len(TOKENIZER), 1, "cpu")
        while not grammar.is_terminated():
            grammar.fill_vocab_mask(mask, 0)
            allowed = ((mask[0][:, None] >> torch.arange(32)) & 1).flatten().nonzero()[:, 0]
            tokens.append(int(allowed[(7 * len(tokens) + 3) % len(allowed)]))
            grammar.accept_token(tokens[-1])
        assert len(tokens) <= 30
        assert next(n for n in range(30) if tokens[n : n + len(end)] == end) <= most


def test_a_budget_that_is_too_small_aborts_the_request(manager):
    for _ in range(2):
        req = request(2, json_schema=SCHEMA)
        assert isinstance(serve(manager, req), InvalidGrammarObject)
        assert "2" in req.aborted
