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
from tractile.inference import Evidence, Real
from tractile.inference.engine.messages import backward
from tractile.inference.next_token import backward_table as future
from tractile.inference.next_token import emission_table as scores
from tractile.inference.next_token.backward_table import BackwardRecursion, BackwardTable
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


@given(seed=st.integers(0, 2**31), blocks=st.sampled_from([1, 1 << 22]))
@FEW
def test_the_sweep_is_the_generic_backward_sweep(seed, blocks):
    rng = np.random.default_rng(seed)
    fa = oracle.random_fsa(rng, 4, 6, bool(seed % 2), 0.4).build()
    hmm = monarch(rng, (2, 3), 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(future, "BLOCK_ELEMENTS", blocks)
        table = BackwardTable(hmm, fa, 9, torch.float64).table
    betas = list(backward(hmm * fa, Real(), Evidence(1), 9))
    for r in range(9):
        expected = hmm.transition.dense() @ Real().log(betas[r])[..., 0].exp()
        found = table.columns[r] * table.scale[r].exp()[:, None]
        torch.testing.assert_close(found.T, expected, rtol=1e-10, atol=1e-300)


@given(seed=st.integers(0, 2**31), zeros=st.sampled_from([0, 0, 0.3]))
@FEW
def test_the_sweep_knows_a_lower_bound_of_what_is_positive(seed, zeros):
    """No positive entry of β_{r+1} = Σ_e b_e · F_r is below the bound, by which the sweep tells whether range was lost."""
    rng = np.random.default_rng(seed)
    fa = oracle.random_fsa(rng, 4, 6, True, 0.4).build()
    emission = probabilities(rng, 5, 6) ** 8 * torch.tensor(rng.random((5, 6)) >= zeros)
    emission[:, 0] += 1e-30
    hmm = tt.HMM(probabilities(rng, 5), probabilities(rng, 5, 5), emission / emission.sum(1, keepdim=True))
    sweep = BackwardRecursion(hmm, fa)
    ahead, low = sweep.first(), torch.zeros(0)
    for beta in list(backward(hmm * fa, Real(), Evidence(1), 9))[1:]:
        low, beta = sweep._low(ahead), Real().log(beta)[..., 0].T
        for state in range(fa.num_states):
            positive = beta[state][beta[state] > -torch.inf]
            assert not len(positive) or low[state] <= positive.min() + 1e-9
            assert len(positive) or low[state] == torch.inf
        ahead = sweep.before(ahead)


def test_one_short_way_to_the_end_takes_no_second_look(monkeypatch):
    """Where a state has an edge to the end beside others, its messages are far from the end of the range."""
    rng = np.random.default_rng(0)
    edges = [(0, list(range(1, 9)), 0), (0, 0, 1), (1, 0, 1)]
    fa = tt.Automaton.from_edges(edges, start=0, accept=[1], vocab_size=9)
    weight = torch.cat([torch.full((4, 1), 1e-9), probabilities(rng, 4, 8)], 1)
    hmm = tt.HMM(probabilities(rng, 4), probabilities(rng, 4, 4), weight / weight.sum(1, keepdim=True))
    looked = []
    monkeypatch.setattr(BackwardRecursion, "_lost", lambda self, *args: looked.append(1))
    BackwardTable(hmm.to(dtype=torch.float32), fa, 60, torch.float32)
    assert not looked


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_what_does_not_fit_is_computed_again_to_the_bit(dtype):
    rng = np.random.default_rng(0)
    fa, hmm = ten_tokens(rng), monarch(rng, (4, 4), 10)
    every, sweep = BackwardTable(hmm, fa, HORIZON, dtype), BackwardRecursion(hmm, fa)
    pick, partial = random.Random(1), 0
    for messages in (1, 2, 3, 5, 8, 13, 16, 17, 19):
        little = BackwardTable(
            hmm, fa, HORIZON, dtype, sweep.work_bytes + messages * sweep.size * dtype.itemsize
        )
        assert (little.table is None) == (messages < HORIZON)
        partial += little.table is None
        for left in [*range(HORIZON - 1, -1, -1), *(pick.randrange(HORIZON) for _ in range(8))]:
            lefts = torch.tensor([left, max(0, left - 3), left, pick.randrange(HORIZON)])
            states = torch.tensor([pick.randrange(fa.num_states) for _ in range(4)])
            for a, b in zip(little.columns(lefts, states), every.columns(lefts, states), strict=True):
                assert torch.equal(a, b)
        kept = (
            len(little._kept) * dtype.itemsize + len(little._checkpoints) * 8
        )  # bytes for each number of a message
        assert little.table is not None or kept <= messages * dtype.itemsize
    assert partial == 7


def test_budgets_that_go_down_cost_at_most_a_second_sweep(monkeypatch):
    """With room for 2√n messages, a whole sequence computes each of them twice at most."""
    rng = np.random.default_rng(0)
    fa, hmm, n = ten_tokens(rng), monarch(rng, (4, 4), 10), 64
    sweep, count = BackwardRecursion(hmm, fa), []
    before = BackwardRecursion.before
    monkeypatch.setattr(
        BackwardRecursion, "before", lambda self, ahead: count.append(1) or before(self, ahead)
    )
    little = BackwardTable(hmm, fa, n, torch.float64, sweep.work_bytes + 16 * sweep.size * 8)
    for left in reversed(range(n)):
        little.columns(torch.tensor([left]), torch.tensor([0]))
    assert little.table is None
    assert len(count) <= 2 * n


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_pgcd_in_little_memory_gives_the_same_scores(dtype):
    rng = np.random.default_rng(3)
    fa, hmm = ten_tokens(rng), monarch(rng, (3, 2, 2), 10)
    sweep = BackwardRecursion(hmm, fa)
    memory = sweep.work_bytes + 5 * sweep.size * (dtype or torch.float64).itemsize
    budgets = torch.tensor([HORIZON, HORIZON - 5, HORIZON, HORIZON - 1])
    queries = [tt.pgcd(hmm, fa, HORIZON, dtype, m).start(4, budgets) for m in (None, memory)]
    assert queries[1]._backward.table is None
    g = torch.Generator().manual_seed(0)
    for _ in range(HORIZON):
        a, b = (q.log_weights() for q in queries)
        assert torch.equal(a, b)
        tokens = torch.multinomial(a.softmax(1).nan_to_num(1.0), 1, generator=g).squeeze(1)
        for q in queries:
            q.advance(tokens)
            q.select(torch.tensor([0, 1, 3, 3]))


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


@pytest.mark.parametrize("dims", [(6,), (2, 3), (3, 2, 2), (2, 2, 2, 3)])
def test_monarch_transitions_of_any_factorisation_are_their_matrix(dims):
    """Forward, backward and in the product: as the HMM with the transition written out."""
    rng = np.random.default_rng(len(dims))
    hmm, fa = monarch(rng, dims, 10), ten_tokens(rng)
    dense = tt.HMM(hmm.initial_probs, hmm.transition.dense(), hmm.emission_probs)
    x = torch.tensor(rng.integers(0, 10, (5, 7)))
    torch.testing.assert_close(hmm.log_prob(x), dense.log_prob(x), rtol=1e-10, atol=0)
    for query in (lambda m: tt.partition(m * fa, n=7), lambda m: tt.log_marginal(m * fa, x)):
        torch.testing.assert_close(query(hmm), query(dense), rtol=1e-10, atol=0)
    queries = [tt.pgcd(m, fa, 8).start(3) for m in (hmm, dense)]
    for _ in range(6):
        a, b = (q.lookahead() for q in queries)
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
        tokens = a.argmax(1)
        for q in queries:
            q.advance(tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_a_table_in_a_layout_of_its_own_is_the_plain_product(rows, dtype, monkeypatch):
    g = torch.Generator().manual_seed(0)
    emission = torch.rand(96, 1000, generator=g).softmax(1)
    x = torch.rand(rows, 96, generator=g)

    def table():
        return scores.EmissionTable(emission, None, dtype)

    packed = table().all_tokens(x)
    monkeypatch.setattr(scores, "packs", lambda table: False)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(packed, table().all_tokens(x), rtol=tolerance, atol=0)
    monkeypatch.setattr(scores, "BLOCK_ELEMENTS", 96 * 300)
    torch.testing.assert_close(packed, table().all_tokens(x), rtol=tolerance, atol=0)
    exact = x.double() @ (emission / emission.amax(0)).double()
    torch.testing.assert_close(packed.double(), exact, rtol=tolerance, atol=0)


def test_a_table_that_learns_stays_in_the_plain_layout():
    assert not scores.packs(torch.rand(4, 5, requires_grad=True))
