"""P-GCD to a tolerance, for guiding a sampler: near the exact query, of fewer messages, never zero where a token is allowed."""

import numpy as np
import oracle
import pytest
import torch

import tractile as tt
from tractile.errors import EvidenceError
from tractile.inference.next_token import backward
from tractile.inference.next_token.token_scores import EdgeLabels
from tractile.inference.semirings.floored import FLOOR, Floored
from tractile.inference.smc import LookaheadPotential, LookaheadProposal, MixtureProposal

HORIZON = 120


def settled_problem():
    """Any number of zeros, a 1, any number of zeros and ones, and 2 as the end, which the HMM has for ever once it has it."""
    edges = [(0, 0, 0), (0, 1, 1), (1, [0, 1], 1), (1, 2, 2), (2, 2, 2)]
    transition = torch.tensor([[0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0, 0, 1]], dtype=torch.float64)
    emission = torch.tensor([[0.7, 0.3, 0], [0.2, 0.8, 0], [0, 0, 1]], dtype=torch.float64)
    return tt.Automaton.from_edges(edges, 0, [2], 3), tt.HMM(transition[0], transition, emission)


def walked(automaton, hmm, horizon, tolerance, tokens):
    """Lookaheads along a text, exact and to a tolerance."""
    exact, near = (tt.pgcd(hmm, automaton, horizon, tolerance=t).start(1) for t in (0.0, tolerance))
    assert isinstance(near.semiring, Floored)
    assert not isinstance(exact.semiring, Floored)
    for token in tokens:
        yield exact, near
        exact.advance([token]), near.advance([token])


@pytest.mark.parametrize("tolerance", [0.5, 0.1, 1e-3])
def test_the_sweep_ends_where_messages_are_settled_within_the_tolerance(tolerance):
    automaton, hmm = settled_problem()
    worst = 0.0
    for exact, near in walked(automaton, hmm, HORIZON, tolerance, [0] * 50 + [1] * 60):
        assert torch.equal(near.mask(), exact.mask())
        allowed = exact.mask()
        worst = max(worst, float((near.lookahead() - exact.lookahead())[allowed].abs().max()))
        assert float((near.log_lookahead() - exact.log_lookahead()).abs()) <= tolerance
    assert worst <= tolerance
    assert near.nbytes < 0.7 * exact.nbytes
    assert worst > 1e-9  # what was left out is seen


def test_a_language_whose_lengths_are_multiples_never_settles():
    automaton = tt.Automaton.from_edges([(0, [0, 1], 1), (1, [0, 1], 2), (2, [0, 1], 0)], 0, [0], 2)
    hmm = oracle.random_hmm(np.random.default_rng(1), 3, 2).build()
    for exact, near in walked(automaton, hmm, 60, 0.5, [0, 1] * 20):
        torch.testing.assert_close(near.lookahead(), exact.lookahead(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(near.log_weights(), exact.log_weights(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("elements", [1, 40])
def test_messages_are_made_block_by_block(elements, monkeypatch):
    """Blocks of one state, and of a few: an automaton with states without edges, and edges that share label and target."""
    rng = np.random.default_rng(2)
    edges = [(int(s), int(v), int(rng.integers(9))) for s in range(8) for v in rng.permutation(6)[:4]]
    automaton = tt.Automaton.from_edges([e for e in edges if e[0] != 3], 0, [3, 8], 6)
    hmm = oracle.random_hmm(rng, 5, 6).build()
    monkeypatch.setattr(backward, "BLOCK_ELEMENTS", elements)
    parts = list(backward.blocks(automaton, EdgeLabels(automaton).number, hmm.hidden, hmm.device))
    assert len(parts) > 2
    assert sum(len(part.sources.row) for part in parts) == automaton.num_edges
    tokens = tt.sample(automaton, n=7, generator=torch.Generator().manual_seed(0))[0].tolist()
    for exact, near in walked(automaton, hmm, 7, 1e-9, tokens):
        torch.testing.assert_close(near.lookahead(), exact.lookahead(), rtol=1e-9, atol=1e-9)


def unlikely(dtype):
    """Two hidden states, each of which hardly emits what the other does: the prefix is of one, the rest of the other."""
    sure = 1 - 1e-12
    weights = torch.tensor([[sure, 1 - sure], [1 - sure, sure]], dtype=torch.float64)
    return tt.HMM(weights[0], weights, weights).to(dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_falls_below_the_precision_is_small_and_not_zero(dtype):
    forced = tt.Automaton.from_edges([(s, 0 if s < 4 else 1, s + 1) for s in range(12)], 0, [12], 2)
    for exact, near in walked(forced, unlikely(dtype), 12, 0.1, [0, 0, 0, 0, 1, 1, 1]):
        allowed = exact.mask()
        assert torch.equal(near.lookahead().isfinite(), allowed)
        found, right = near.lookahead()[allowed], exact.lookahead()[allowed]
        assert bool((found > np.log(FLOOR) * 13).all())
        torch.testing.assert_close(found[right > -60].double(), right[right > -60], rtol=1e-3, atol=1e-3)


def test_entries_that_are_raised_need_no_second_look():
    """Two states that never change: after four zeros the belief in the one that emits the rest is 1e-48."""
    hmm = tt.HMM(torch.full((2,), 0.5), torch.eye(2), unlikely(torch.float32).emission_probs)
    forced = tt.Automaton.from_edges([(s, 0 if s < 4 else 1, s + 1) for s in range(12)], 0, [12], 2)
    for exact, near in walked(forced, hmm, 12, 0.1, [0, 0, 0, 0, 1, 1, 1]):
        assert torch.equal(near.lookahead().isfinite(), exact.mask())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_score_that_was_lost_is_small_and_not_zero(dtype):
    """After a 0 only the second state is left, whose one way on is e⁻²⁰⁰ times as probable as what the first state could do."""
    emission = torch.tensor([[0, 0.5, 0, 0.5], [0.5, 0, 1e-12, 0.5]], dtype=torch.float64)
    hmm = tt.HMM([0.5, 0.5], torch.eye(2, dtype=torch.float64), emission / emission.sum(1, keepdim=True)).to(
        dtype=dtype
    )
    long = [(1, 2, 2), *((s, 2, s + 1) for s in range(2, 9)), (9, 3, 10)]
    automaton = tt.Automaton.from_edges([(0, 0, 1), (1, 1, 9), *long, (10, 3, 10)], 0, [10], 4)
    exact, near = (tt.pgcd(hmm, automaton, 12, tolerance=t).start(1) for t in (0.0, 0.1))
    assert -250 < float(exact.lookahead()[0, 0]) < -200
    assert -250 < float(near.lookahead()[0, 0]) < -60


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_prefix_that_was_lost_is_improbable_and_not_impossible(dtype):
    """Ones come from the second state, and from the third, which is almost never reached; the second cannot repeat."""
    hmm = tt.HMM(
        torch.tensor([0.5, 0.5, 1e-32], dtype=dtype),
        torch.tensor([[0.5, 0.5, 1e-26], [1.0, 0.0, 0.0], [0.1, 0.9, 1e-28]], dtype=dtype),
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-30]], dtype=dtype),
    )
    ones = tt.Automaton.from_edges([(0, 1, 0)], 0, [0], 2)
    exact, near = (tt.pgcd(hmm, ones, 40, tolerance=t).start(1) for t in (0.0, 0.1))
    found = []
    for _ in range(36):
        found.append(near.log_weights())
        assert torch.equal(found[-1].isneginf(), exact.log_weights().isneginf())
        assert near.scores()[0].tolist() == [-torch.inf, 0.0]
        assert bool(near.log_lookahead().isfinite())
        exact.advance([1]), near.advance([1])
    near.rollback(33)  # further than states are kept: the prefix is read again
    assert torch.equal(near.log_weights(), found[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_impossible_for_an_hmm_with_zeros_stays_impossible(dtype):
    """Along texts that the HMM can emit: the zeros are those of the exact query, and the rest is near."""
    zeros = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        hmm = oracle.random_hmm(rng, 4, 4, zeros=0.6).build(dtype)
        edges = [(0, [0, 1], 1), (0, 2, 2), (1, [0, 3], 0), (1, 1, 2), (2, [1, 2, 3], 2), (2, 0, 1)]
        automaton = tt.Automaton.from_edges(edges, 0, [2], 4)
        exact, near = (tt.pgcd(hmm, automaton, 6, tolerance=t).start(1) for t in (0.0, 1e-9))
        while int(exact.remaining[0]):
            found, right, allowed = near.lookahead()[0], exact.lookahead()[0], exact.mask()[0]
            assert torch.equal(found.isneginf(), right.isneginf())
            zeros += int((right.isneginf() & allowed).sum())
            torch.testing.assert_close(found.double(), right.double(), rtol=1e-4, atol=1e-4)
            likely = exact.log_weights()[0].exp()
            if not bool((likely > 0).any()):
                break
            token = [int(rng.choice(np.flatnonzero((likely > 0).numpy())))]
            exact.advance(token), near.advance(token)
    assert zeros > 8


def test_a_sampler_refuses_an_hmm_that_rules_out_what_model_and_constraint_allow():
    """After a 0 the HMM cannot emit the 1 that must follow: without an error a tenth of the mass would be all that is found."""
    transition = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    hmm = tt.HMM([0.5, 0.25, 0.25], transition, [[0.9, 0.0, 0.1], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]])
    second = tt.Automaton.from_edges([(0, [0, 1, 2], 1), (1, 1, 2)], 0, [2], 3)
    lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.1, 0.1]).log()})
    settings = {"particles": 20, "max_new_tokens": 2, "seed": 0, "potential": LookaheadPotential()}
    for proposal in (LookaheadProposal(), MixtureProposal(), "gcd"):
        with pytest.raises(EvidenceError, match=r"probability zero to token 0"):
            tt.smc(lm, [], second, proposal, hmm, **settings)


def test_a_tolerance_is_no_less_than_nothing():
    for wrong in (-0.1, float("nan"), "much"):
        with pytest.raises(EvidenceError, match="pgcd: tolerance"):
            tt.pgcd(settled_problem()[1], settled_problem()[0], 5, tolerance=wrong)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_an_hmm_of_half_precision_is_computed_with_in_single(dtype, tolerance):
    automaton, hmm = settled_problem()
    half = hmm.to(dtype=dtype)
    # the HMM's rows do not sum to one in double precision
    parts = (half.initial, half.left, half.inputs, half.right, half.final)
    query, exact = (
        tt.pgcd(h, automaton, 9, tolerance=tolerance).start(1)
        for h in (half, tt.circuits.Chain(*parts).to(dtype=torch.float64))
    )
    torch.testing.assert_close(query.lookahead().double(), exact.lookahead().double(), rtol=1e-5, atol=1e-5)


def test_rows_that_end_stay_and_texts_that_are_not_accepted_have_no_lookahead():
    automaton, hmm = settled_problem()
    query = tt.pgcd(hmm, automaton, 4, tolerance=0.1).start(3, [2, 2, 4])
    query.advance([1, 0, 2])  # the last is not accepted
    query.advance([2, 0, 2])
    before = query.log_lookahead()
    assert before.tolist()[0] == 0
    assert before[1:].isneginf().all()
    query.advance([0, 0, 0])
    assert query.remaining.tolist() == [0, 0, 1]
    assert torch.equal(query.log_lookahead(), before)
    assert query.lookahead().isneginf().all()
