"""A step of P-GCD on an accelerator: no read-back, no copy between devices, fixed shapes; the same scores as elsewhere."""

import copy

import pytest
import torch
from product_queries import padded, product
from stand_ins import CUDA, Sliced
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import tractile as tt
from tractile.errors import CircuitError
from tractile.inference import NextToken, Real

HORIZON = 12
ALL = torch.tensor([True, True, True])
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
WAITS = {  # operations whose answer decides a shape or a Python value
    "aten::_local_scalar_dense", "aten::nonzero", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
    "aten::masked_select", "aten::equal", "aten::is_nonzero", "aten::repeat_interleave.Tensor", "aten::bincount",
}  # fmt: skip


class NoWaiting(TorchDispatchMode):
    """Refuses operations that wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.name() not in WAITS, f"{func.name()} waits for the device"
        if func.name().startswith(("aten::index.", "aten::index_put")):
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "a Boolean index waits"
        return func(*args, **(kwargs or {}))


def simple(transition="dense", dtype=torch.float64):
    """Some token of two, one of two others, then anything; and the same where only an exact length is accepted."""
    rest = list(range(4, 12))
    edges = [(0, [0, 1], 1), (0, rest, 0), (1, [2, 3], 2), (1, rest, 0), (2, [*range(12)], 2)]
    return tt.HMM.random(6, 12, transition, dtype=dtype), tt.Automaton.from_edges(edges, 0, [2], 12)


def exact_length():
    """Acceptance that cannot be kept up: which states are alive depends on the budget in another way."""
    return tt.HMM.random(6, 12, dtype=torch.float64), tt.Automaton.from_edges(
        [(0, [1, 2], 1), (1, [*range(12)], 0), (0, [3], 2)], 0, [2], 12
    )


def steps(query, tokens):
    """The lookahead before and after each of the tokens."""
    found = [query.lookahead().cpu()]
    for step in tokens:
        query.advance(step.to(query.device))
        found.append(query.lookahead().cpu())
    return found


TOKENS = torch.tensor([[0, 5, 6], [2, 0, 7], [9, 3, 0], [1, 1, 2]])


@pytest.mark.parametrize("model", [simple, lambda: simple("monarch"), exact_length])
def test_a_step_waits_for_nothing(model):
    query = padded(*model(), HORIZON).start(3, torch.tensor([HORIZON - 1, HORIZON - 3, HORIZON - 1]))
    with NoWaiting():
        steps = query._messages
        now = steps._rows
        for tokens in TOKENS:
            now = steps.moved(now, tokens, ALL)
            found = steps.scored(now)
    assert found.product.shape == (3, 12)
    with pytest.raises(AssertionError, match="waits"), NoWaiting():
        product(*model(), HORIZON).start(3)._messages.scores()  # as the mode would notice


@pytest.mark.parametrize("model", [simple, lambda: simple("monarch"), exact_length])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_step_stays_on_its_device(model, dtype):
    """With every table and row on a stand-in for a GPU, which refuses operands on two devices and answers no questions."""
    query = padded(*model(), HORIZON, dtype=dtype).start(3, HORIZON - 1)
    with FakeTensorMode(), Sliced():

        def put(thing):
            if isinstance(thing, torch.Tensor):
                return torch.empty(thing.shape, dtype=thing.dtype, device=CUDA)
            if isinstance(thing, tuple):
                return type(thing)(*map(put, thing)) if hasattr(thing, "_fields") else tuple(map(put, thing))
            return thing

        def moved(thing):
            out = copy.copy(thing)
            for name, value in vars(thing).items():
                setattr(out, name, put(value))
            return out

        steps, tables, table = moved(query._messages), moved(query._tables), moved(query._tables.tokens.table)
        steps._tables, steps.edges, steps._table = tables, moved(steps.edges), table
        tables.backward, tables.device = moved(tables.backward), CUDA
        steps._chain = tables.chain = moved(query.factor)
        tables.chain.right, tables.chain.inputs = query.factor.right.map(put), query.factor.inputs.map(put)
        steps._move = tables.chain.right.T.map(lambda t: put(t).double())
        table._rows = torch.empty(12, 6, dtype=table.dtype, device=CUDA)
        table._blocks = [lambda x: x @ table._rows.T]
        now, tokens, moving = steps._rows, torch.empty(3, dtype=torch.long, device=CUDA), put(ALL)
        for _ in range(3):
            now = steps.moved(now, tokens, moving)
            found = steps.scored(now)
        assert {x.device for x in (*now, *found)} == {CUDA}
        with pytest.raises(RuntimeError, match="device"):
            steps.moved(now, torch.empty(3, dtype=torch.long), moving)


def test_automata_that_are_not_deterministic_and_other_chains_are_refused():
    hmm, one = tt.HMM.random(2, 2), tt.Automaton.from_edges([(0, 0, 0)], 0, [0], 2)
    with pytest.raises(CircuitError, match="determin"):
        padded(hmm, tt.Automaton.from_edges([(0, 0, 0), (0, 0, 1)], 0, [1], 2), 3)
    with pytest.raises(CircuitError, match="an HMM"):
        padded(hmm * hmm, one, 3)


# ----------------------------------------------------------------------------------------------------- on a real GPU


@needs_gpu
@pytest.mark.parametrize("transition", ["dense", "monarch"])
@pytest.mark.parametrize("captured", [False, True])
def test_on_a_gpu_the_scores_are_those_of_the_processor(transition, captured):
    hmm, fa = simple(transition, torch.float32)
    exact = tt.pgcd(hmm, fa, HORIZON).start(3)
    query = tt.pgcd(hmm.to("cuda"), fa, HORIZON).start(3)
    assert query.padded
    if captured:
        query.capture()
    for a, b in zip(steps(exact, TOKENS), steps(query, TOKENS), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    for q in (exact, query):
        q.select(torch.tensor([2, 0, 0]))
    torch.testing.assert_close(exact.lookahead(), query.lookahead().cpu(), rtol=1e-4, atol=1e-4)
    for a, b in zip(steps(exact, TOKENS), steps(query, TOKENS), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@needs_gpu
def test_a_step_on_a_gpu_does_not_synchronise():
    hmm, fa = simple("monarch", torch.float32)
    query = tt.pgcd(hmm.to("cuda"), fa, HORIZON).start(3)
    query.advance(TOKENS[0].cuda())
    query.lookahead()
    tokens = TOKENS[1].cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        query.advance(tokens)
        query._messages.scores()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert query.lookahead().isfinite().any()


@needs_gpu
@pytest.mark.parametrize("memory", [None, 200_000])
def test_other_queries_run_on_a_gpu(memory):
    hmm, fa = simple("dense", torch.float64)
    nfa = tt.Automaton.from_edges([(0, [0, 1], 0), (0, [1], 1), (1, [0, 1], 2)], 0, [2], 12)
    for automaton in (fa, nfa):
        a = product(hmm, automaton, HORIZON, memory=memory).start(3)
        b = product(hmm.to("cuda"), automaton, HORIZON, memory=memory).start(3)
        for x, y in zip(steps(a, TOKENS % 2), steps(b, TOKENS % 2), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


@needs_gpu
def test_generic_queries_and_masks_run_on_a_gpu():
    hmm, fa = simple("monarch", torch.float64)
    here = NextToken(hmm * fa, HORIZON, Real()).start(3)
    there = NextToken(hmm.to("cuda") * fa.to("cuda"), HORIZON, Real()).start(3)
    masks = [tt.gcd(automaton, HORIZON).start(3) for automaton in (fa, fa.to("cuda"))]
    for tokens in TOKENS:
        for query in (here, *masks):
            query.advance(tokens)
        there.advance(tokens.cuda())
        torch.testing.assert_close(here.log_weights(), there.log_weights().cpu(), rtol=1e-9, atol=1e-9)
        assert torch.equal(masks[0].bitmask(), masks[1].bitmask())
        for query in (here, there, *masks):
            query.select(torch.tensor([1, 2, 0]))
