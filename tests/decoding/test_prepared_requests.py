"""A request whose tables are made beside the step waits for them, and computes nothing in the step before its first token."""

from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.constraints.engine import cores
from tractile.decoding import grammar_rows
from tractile.decoding.request import read_request
from tractile.decoding.vllm import VLLMLogitsProcessor, VLLMRowProcessor, adapter, batch, preparation
from tractile.embedded import load_lm
from tractile.inference.next_token.finite_masks import FiniteMasks
from tractile.inference.next_token.token_scores import ScaledTable

TOKENIZER = load_lm()[1]
V, BUDGET, PROMPT = len(TOKENIZER), 24, 5
WISHES = [
    {"json_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
    {"json_schema": {"type": "array", "items": {"type": "integer"}}, "hmm": False},
    {"keywords": [["dog"]], "options": {"word_boundaries": False}},
    {"regex": "[a-z]{2,5}[.]", "max_new_tokens": 4, "mixture": 0.5},
]
CONFIG = SimpleNamespace(
    model_config=SimpleNamespace(max_model_len=BUDGET + PROMPT), parallel_config=SimpleNamespace()
)


class First(VLLMLogitsProcessor):
    tokenizer = TOKENIZER
    hmm = tt.HMM.random(4, V, seed=1)


class Second(VLLMRowProcessor):
    tokenizer = TOKENIZER
    hmm = tt.HMM.random(4, V, seed=1)


@pytest.fixture
def nothing_new(monkeypatch):
    """Return a function: from its call on constraints cannot be compiled, tables not be made and masks not be computed."""

    def refuse(*_, **__):
        raise AssertionError("computed in the step")

    def only_cached(owner, name, has):
        original = getattr(owner, name)

        def asked(self, *args):
            return original(self, *args) if has(self, *args) else refuse()

        monkeypatch.setattr(owner, name, asked)

    def work():
        return [shared.engine.core.work() for shared in cores._shared.values()]

    before = []

    def forbid():
        for owner, name in [
            (adapter, "compile_request"),
            (grammar_rows, "compile_request"),
            (batch, "gcd"),
            (batch, "pgcd"),
        ]:
            monkeypatch.setattr(owner, name, refuse)
        before.extend(work())
        only_cached(ScaledTable, "gathered", lambda table, ids: ids.numpy().tobytes() in table._gathered)
        only_cached(FiniteMasks, "_edges_of", lambda masks, state: state in masks._edges)

    yield forbid
    assert work() == before


def parameters(wish):
    return SimpleNamespace(max_tokens=BUDGET, extra_args={"tractile": wish})


@pytest.mark.parametrize("wish", WISHES)
def test_the_first_runner(wish, nothing_new):
    processor = First(CONFIG, torch.device("cpu"), False)
    logits = torch.randn(1, V)
    held = processor.batch.prepare(read_request(parameters(wish)), PROMPT)
    nothing_new()
    added = [(0, parameters(wish), [1] * PROMPT, [])]
    processor.update_state(SimpleNamespace(removed=[], added=added, moved=[]))
    out = processor.apply(logits.clone())
    assert 0 < int((~out.isneginf()).sum()) < V
    del held


@pytest.mark.parametrize("wish", WISHES)
def test_the_second_runner(wish, nothing_new):
    states = SimpleNamespace(
        device=torch.device("cpu"),
        all_token_ids=SimpleNamespace(gpu=torch.zeros(1, BUDGET + PROMPT, dtype=torch.int32)),
        prompt_len=SimpleNamespace(np=np.array([PROMPT], np.int32)),
        total_len=SimpleNamespace(gpu=torch.tensor([PROMPT], dtype=torch.int32)),
    )
    processor = Second(CONFIG, states)
    held = processor.batch.prepare(read_request(parameters(wish)), PROMPT)
    nothing_new()
    assert processor.add_request(0, parameters(wish))
    processor.apply_staged_writes()
    zero = torch.zeros(1, dtype=torch.int32)
    context = SimpleNamespace(
        idx_mapping_np=np.array([0]), expanded_idx_mapping=zero, expanded_local_pos=zero, input_ids=zero
    )
    out = processor.apply(torch.randn(1, V), context)
    assert 0 < int((~out.isneginf()).sum()) < V
    del held


def test_a_prompt_that_leaves_too_few_tokens_is_prepared_with_the_shortest_text(nothing_new):
    processor = First(CONFIG, torch.device("cpu"), False)
    wish, prompt = {"regex": "[a-z]( abc){7}"}, BUDGET + PROMPT - 2
    held = processor.batch.prepare(read_request(parameters(wish)), prompt)
    nothing_new()
    added = [(0, parameters(wish), [1] * prompt, [])]
    processor.update_state(SimpleNamespace(removed=[], added=added, moved=[]))
    assert 0 < int((~processor.apply(torch.randn(1, V)).isneginf()).sum()) < V
    del held


def scheduler_step(waited, running):
    """One look of the scheduler at a request; vLLM's own method lets it go once it has a grammar."""
    request = SimpleNamespace(structured_output_request=waited)
    goes = preparation.release(
        lambda self, asked: asked.structured_output_request.grammar is not None,
        SimpleNamespace(running=running),
        request,
    )
    return goes, request


@pytest.mark.parametrize(("running", "waits"), [([], 3), (["a text"], 0)])
def test_steps_that_have_nothing_else_to_do_leave_the_interpreter_to_the_tables(monkeypatch, running, waits):
    asked = []
    monkeypatch.setattr(preparation, "wait", lambda futures, timeout: asked.append((*futures, timeout)))
    tables = Future()
    for _ in range(3):
        goes, request = scheduler_step(preparation.Preparation(tables), running)
        assert not goes
        assert isinstance(request.structured_output_request, preparation.Preparation)
    assert len(asked) == waits
    assert all(future is tables and timeout > 0 for future, timeout in asked)
    tables.set_result("tables")
    goes, request = scheduler_step(preparation.Preparation(tables), running)
    assert goes
    assert request.structured_output_request is None
    assert request.tractile_tables == "tables"
    assert len(asked) == waits
