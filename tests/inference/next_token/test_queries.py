"""The incremental next-token queries, generic and fast, against enumeration at every prefix."""

import itertools
from unittest.mock import Mock

import games
import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.errors import BudgetTooSmall, CircuitError, TooManyStates
from tractile.inference import Boolean, Log, Real
from tractile.inference.next_token import finite_masks as masks
from tractile.inference.next_token import product_tables
from tractile.inference.next_token.token_scores import ScaledTable

FEW = settings(max_examples=15, deadline=None)
SHAPES = [(2, 5), (3, 4), (4, 3), (2, 1), (1, 3)]  # (vocabulary, horizon)
GCD, LCD = games.MASKS


def test_gcd_with_a_cache_of_one_mask(monkeypatch):
    monkeypatch.setattr(masks, "MASK_CACHE_BYTES", 1)
    fsa = oracle.random_fsa(np.random.default_rng(5), 4, 3, False)
    one = games.Problem(None, fsa, 5)
    query, rows = tt.gcd(fsa.build(), 5).start(1), games.Rows([5])
    for v in (0, 1, 2, 1, 0):
        games.check(GCD, one, query, rows)
        query.advance(torch.tensor([v]))
        rows.advance([v])


def test_bits_of_a_vocabulary_of_many_words():
    """The layout of the bitmask beyond one word: token v is bit v mod 32 of word v div 32, and bit 31 is the sign."""
    tokens = [0, 31, 32, 33, 63, 64, 95, 99]
    fsa = oracle.OracleFSA([(0, v, 1) for v in tokens], [0], [1], 100)
    query = tt.gcd(fsa.build(), 1).start(2)
    expected = np.isin(np.arange(100), tokens)
    assert query.bitmask().tolist() == oracle.bits(np.stack([expected] * 2)).tolist()
    assert query.bitmask().shape == (2, 4)
    assert int(query.bitmask()[0, 0]) == 1 - 2**31


# ------------------------------------------------------------------------------------------------------------ P-GCD


def nth_from_the_end(k, first):
    """Edges of "the k-th token before some later one is 1": 2^k states once deterministic."""
    states = [0, *range(first, first + k)]
    edges = [(0, 0, 0), (0, 1, 0), (0, 1, first)]
    edges += [(s, v, d) for s, d in itertools.pairwise(states[1:]) for v in (0, 1)]
    return edges, states[-1]


def test_pgcd_counts_once_where_determinising_is_dear(monkeypatch):
    """An unambiguous automaton stays as it is; an ambiguous one is determinised at any price, or refused."""
    hmm = oracle.random_hmm(np.random.default_rng(0), 2, 2)
    edges, last = nth_from_the_end(9, 1)
    one = oracle.OracleFSA(edges, [0], [last], 2)
    query = tt.pgcd(hmm.build(), one.build(), 12).start(1)
    assert not query.automaton.is_deterministic
    assert_log_close(query.log_lookahead(), [log((hmm.total(12) * one.best(12)).sum())])
    more, other = nth_from_the_end(9, 20)
    both = oracle.OracleFSA([*edges, *more], [0], [last, other], 2)
    assert both.total(12).max() > 1
    query = tt.pgcd(hmm.build(), both.build(), 12).start(1)
    assert_log_close(query.log_lookahead(), [log((hmm.total(12) * both.best(12)).sum())])
    (edges, last), (more, other) = nth_from_the_end(40, 1), nth_from_the_end(40, 50)
    hopeless = oracle.OracleFSA([*edges, *more], [0], [last, other], 2)
    determinize = tt.Automaton.determinize
    monkeypatch.setattr(tt.Automaton, "determinize", lambda self, limit=1_000: determinize(self, limit))
    with pytest.raises(TooManyStates):
        tt.pgcd(hmm.build(), hopeless.build(), 12)


# ---------------------------------------------------------------------------------------------------------- generic


@given(data=st.data())
@FEW
def test_an_hmm_needs_no_horizon(data):
    """Without a horizon: p(v | prefix) of the HMM itself."""
    vocab_size = data.draw(st.integers(1, 4))
    hmm = data.draw(oracle.hmms(vocab_size))
    query = tt.NextToken(hmm.build(), None, Real()).start(1)
    prefix = ()
    for v in np.random.default_rng(0).integers(0, vocab_size, 3).tolist():
        weights = hmm.total(len(prefix) + 1)[prefix]
        if weights.sum() == 0:
            break
        assert_log_close(query.scores(), log(weights / weights.sum())[None])
        query.advance(torch.tensor([v]))
        prefix = (*prefix, v)


def test_a_chain_that_is_not_normalised_needs_a_horizon():
    fsa = oracle.OracleFSA([(0, 0, 0), (0, 1, 0)], [0], [0], 2)
    with pytest.raises(CircuitError, match="horizon"):
        tt.NextToken(fsa.build(), None, Real())


# ----------------------------------------------------------------------------------------------------------- budgets


def queries(fsa, hmm, horizon):
    return {
        "gcd": tt.gcd(fsa.build(), horizon),
        "boolean": tt.NextToken(fsa.build(), horizon, Boolean()),
        "pgcd": tt.pgcd(hmm.build(), fsa.build(), horizon),
        "real": tt.NextToken(fsa.build(), horizon, Real()),
    }


@given(data=st.data())
@FEW
def test_budget_too_small_exactly_where_enumeration_says_so(data):
    vocab_size, horizon = data.draw(st.sampled_from(SHAPES))
    hmm, fsa = data.draw(oracle.hmms(vocab_size)), data.draw(oracle.fsas(vocab_size))
    lengths = [n for n in range(horizon + 1) if fsa.total(n).sum() > 0]
    for name, query in queries(fsa, hmm, horizon).items():
        assert query.feasible_lengths().tolist() == [n in lengths for n in range(horizon + 1)], name
        for budget in range(horizon + 1):
            if budget in lengths:
                assert query.start(2, budget).remaining.tolist() == [budget] * 2
                continue
            with pytest.raises(BudgetTooSmall) as caught:
                query.start(2, budget)
            assert caught.value.given == budget
            limit = horizon if name in ("boolean", "real") else budget + len(fsa.build().initial[0])
            longer = [n for n in range(budget + 1, limit + 1) if oracle.alive(fsa, fsa.start, n)]
            assert caught.value.needed == min(longer, default=None), name
        if lengths and len(lengths) <= horizon:
            bad = min(set(range(horizon + 1)) - set(lengths))
            with pytest.raises(BudgetTooSmall) as caught:
                query.start(2, torch.tensor([lengths[-1], bad]))
            assert caught.value.given == bad


def test_queries_of_an_hmm_share_its_table_until_it_is_written_to(monkeypatch):
    made = Mock(wraps=ScaledTable)
    monkeypatch.setattr(product_tables, "ScaledTable", made)
    hmm, fa = tt.HMM.random(3, 4), tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1)], 0, [1], 4)
    found = [tt.pgcd(hmm, fa, 5).start(1).log_weights() for _ in range(2)]
    hmm.emission_probs.copy_(hmm.emission_probs.flip(1))
    found += [tt.pgcd(one, fa, 5).start(1).log_weights() for one in (hmm, hmm, hmm.map(torch.clone))]
    assert [torch.equal(found[0], one) for one in found] == [True, True, False, False, False]
    assert [torch.equal(found[-1], one) for one in found] == [False, False, True, True, True]
    assert made.call_count == 3


def test_a_query_of_many_steps_keeps_one_copy_of_the_parameters():
    """A next-token query in log space lifts the transition once, not at every step."""
    semiring = Log()
    query = tt.NextToken(tt.HMM.random(8, 3), 60, semiring).start(2)
    kept = []
    for _ in range(50):
        query.advance(torch.tensor([0, 1]))
        query.scores()
        kept.append(len(semiring._lifted))
    assert kept[-1] == kept[1]


def test_pgcd_in_half_precision_keeps_to_the_exact_lookahead():
    """bfloat16 tables, 64 states and 400 tokens: probabilities of the constraint within two parts in a hundred."""
    g = torch.Generator().manual_seed(0)
    rows = lambda *shape: (2 * torch.randn(*shape, generator=g, dtype=torch.float64)).softmax(-1)  # noqa: E731
    exact = tt.HMM(rows(64), rows(64, 64), rows(64, 400))
    rest = list(range(3, 400))
    fa = tt.Automaton.from_edges(
        [(0, rest, 0), (0, [0, 1], 1), (1, [2], 2), (1, rest, 0), (2, [*rest, 0, 1, 2], 2)], 0, [2], 400
    )
    half = exact.map(lambda w: w.float())
    a, b = tt.pgcd(exact, fa, 12).start(4), tt.pgcd(half, fa, 12, torch.bfloat16).start(4)
    for _ in range(6):
        x, y = a.lookahead(), b.lookahead()
        assert torch.equal(x.isneginf(), y.isneginf())
        live = x > -torch.inf
        assert float((x - y)[live].abs().max()) < 0.02
        tokens = torch.multinomial(a.log_weights().softmax(1), 1, generator=g).squeeze(1)
        a.advance(tokens)
        b.advance(tokens)
        assert float((a.log_lookahead() - b.log_lookahead()).abs().max()) < 0.02


def test_pgcd_refuses_tables_of_too_small_a_range():
    fa = tt.Automaton.from_edges([(0, [0, 1], 0)], 0, [0], 2)
    with pytest.raises(tt.errors.ShapeError, match="float16"):
        tt.pgcd(tt.HMM.random(1, 2), fa, 3, torch.float16)
