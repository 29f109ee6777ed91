"""P-GCD's backward messages and emission table: against the generic sweep, in little memory, in other layouts."""

import random

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.errors import MemoryTooSmall
from tractile.inference import Evidence, Log, Real
from tractile.inference.engine.contract import outer
from tractile.inference.engine.filter import Filter
from tractile.inference.next_token import backward as future
from tractile.inference.next_token import token_scores as scores
from tractile.inference.next_token.backward import Backward, size_of, tensors
from tractile.inference.next_token.token_scores import EdgeLabels
from tractile.layers import Monarch

FEW = settings(max_examples=20, deadline=None)
HORIZON = 17


def probabilities(rng, *shape):
    x = rng.random(shape) + 0.01
    return torch.tensor(x / x.sum(-1, keepdims=True))


def monarch(rng, dims, vocab_size, factors=None):
    """An HMM whose hidden states are indexed by ``dims``."""
    axes = factors or tuple(reversed(range(len(dims))))
    hidden = int(np.prod(dims))
    transition = Monarch([probabilities(rng, *dims, dims[a]) for a in axes], axes)
    return tt.HMM(probabilities(rng, hidden), transition, probabilities(rng, hidden, vocab_size))


def ten_tokens(rng, states=6):
    """An automaton with edges of one token, of several and of most, and states that go nowhere."""
    fsa = oracle.random_fsa(rng, states, 10, True, 0.5)
    return fsa.build()


def generic(chain, steps):
    """β of 0 … steps tokens left, at the states."""
    messages = Filter(chain, Real())
    ahead = messages.backward(Evidence(1), range(steps))
    return [outer(Real(), chain.final, 1), *map(messages.states, ahead)]


def swept(hmm, fa, horizon, semiring=None, **options):
    return Backward(semiring or Real(), hmm, fa, EdgeLabels(fa), horizon, **options)


@given(
    seed=st.integers(0, 2**31),
    blocks=st.sampled_from([1, 1 << 22]),
    semiring=st.sampled_from([Real(), Log()]),
)
@FEW
def test_the_sweep_is_the_generic_backward_sweep(seed, blocks, semiring):
    rng = np.random.default_rng(seed)
    fa = oracle.random_fsa(rng, 4, 6, bool(seed % 2), 0.4).build()
    hmm = monarch(rng, (2, 3), 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(future, "BLOCK_ELEMENTS", blocks)
        sweep = swept(hmm, fa, 9, semiring)
    betas = generic(hmm * fa, 8)
    for r in range(9):
        expected = hmm.transition.dense() @ Real().log(betas[r])[..., 0].exp()
        after = sweep.lengths(torch.tensor([r + 1]))
        found = semiring.log(sweep.message(int(after))).exp()
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-300)
        assert torch.equal(sweep.alive[int(after)], expected.sum(0) > 0)


def test_what_does_not_fit_is_computed_again_to_the_bit(monkeypatch):
    fa, hmm = ten_tokens(rng := np.random.default_rng(0)), monarch(rng, (4, 4), 10)
    every = swept(hmm, fa, HORIZON)
    size, pick, partial = size_of(every.message(1)), random.Random(1), 0
    monkeypatch.setattr(future, "KEPT_BYTES", 5 * size)  # where no `memory` is given
    for messages in (2, 3, 5, 8, 13, 16, 17, 19, None):
        little = swept(hmm, fa, HORIZON, memory=messages and messages * size)
        partial += little.nbytes < every.nbytes
        for left in [*range(HORIZON - 1, -1, -1), *(pick.randrange(HORIZON) for _ in range(8))]:
            after = torch.tensor([left, max(0, left - 3), left, pick.randrange(HORIZON)])
            states = torch.tensor([pick.randrange(fa.num_states) for _ in range(4)])
            for a, b in zip(*(tensors(x.ahead(after, states)) for x in (little, every)), strict=True):
                assert torch.equal(a, b)
            assert little.nbytes <= (messages or 8) * size
    assert partial == 7


def test_budgets_that_go_down_cost_at_most_a_second_sweep(monkeypatch):
    """With room for 2√n messages, a whole sequence computes each of them twice at most."""
    rng = np.random.default_rng(0)
    fa, hmm, n, count = ten_tokens(rng), monarch(rng, (4, 4), 10), 64, []
    before, size = Backward._before, size_of(swept(hmm, fa, 2).message(1))
    monkeypatch.setattr(Backward, "_before", lambda self, ahead: count.append(1) or before(self, ahead))
    little = swept(hmm, fa, n, memory=17 * size)
    for left in reversed(range(n)):
        little.ahead(torch.tensor([left]), torch.tensor([0]))
        assert little.nbytes <= 17 * size
    assert n < len(count) <= 2 * n


def test_a_budget_of_memory_that_cannot_be_met_is_refused():
    rng = np.random.default_rng(0)
    fa, hmm = ten_tokens(rng), monarch(rng, (4, 4), 10)
    with pytest.raises(MemoryTooSmall, match="do not fit `memory`") as caught:
        tt.pgcd(hmm, fa, HORIZON, memory=1000)
    assert caught.value.given == 1000
    query = tt.pgcd(hmm, fa, HORIZON, memory=caught.value.needed).start(1)
    with pytest.raises(MemoryTooSmall):
        tt.pgcd(hmm, fa, HORIZON, memory=caught.value.needed - 1)
    assert torch.equal(query.log_weights(), tt.pgcd(hmm, fa, HORIZON).start(1).log_weights())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_a_table_in_a_layout_of_its_own_is_the_plain_product(rows, dtype, monkeypatch):
    g = torch.Generator().manual_seed(0)
    emission = torch.rand(96, 1000, generator=g).softmax(1)
    x = torch.rand(rows, 96, generator=g)
    packed = scores.ScaledTable(emission, dtype).products(x)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for elements in (scores.BLOCK_ELEMENTS, 96 * 300):
        monkeypatch.setattr(scores, "BLOCK_ELEMENTS", elements)
        plain = scores.ScaledTable(emission, dtype).products(x)
        torch.testing.assert_close(packed, plain, rtol=tolerance, atol=0)
    exact = x.double() @ (emission / emission.amax(0)).double()
    torch.testing.assert_close(packed.double(), exact, rtol=tolerance, atol=0)
