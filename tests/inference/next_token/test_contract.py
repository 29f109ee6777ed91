"""The next-token queries (``games.KINDS``) beside what tests/protocols says of each: lookaheads, budgets that nothing fits,
ranges of floats, work that is not done twice, and which of them is chosen."""

import copy

import games
import numpy as np
import oracle
import pytest
import torch
from product_queries import padded

import tractile as tt
from tractile.errors import VocabularyMismatch
from tractile.inference import Boolean, Log, MaxProduct, Real
from tractile.inference.next_token.gcd import GCDQuery
from tractile.inference.next_token.generic import DenseQuery
from tractile.inference.next_token.product_query import ProductQuery
from tractile.inference.next_token.product_tables import ProductTables

every_kind = pytest.mark.parametrize("kind", games.KINDS, ids=repr)


def problem(seed=0, horizon=4):
    """Two or three ways on from each state, some of one length only; and an HMM without zeros."""
    rng = np.random.default_rng(seed)
    edges = [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 2, 0), (2, 1, 2), (2, 2, 0)]
    return games.Problem(oracle.random_hmm(rng, 3, 3), oracle.OracleFSA(edges, [0], [0, 2], 3), horizon)


# ---------------------------------------------------------------------------------------------------------- answers


def test_a_wrong_token_in_one_copy_is_no_error_of_another():
    """As on a device, where tokens are not read back before the next score."""
    one = problem()
    query = padded(*one.parts, one.horizon).start(1)
    other = copy.copy(query)
    other._messages.advance_some(torch.tensor([3]), torch.tensor([True]))
    with pytest.raises(VocabularyMismatch, match="outside"):
        other.scores()
    assert query.scores().isfinite().any()


# ---------------------------------------------------------------------------------------------------------- budgets


@every_kind
def test_parameters_made_in_inference_mode(kind):
    with torch.inference_mode():
        one = problem()
        query, rows = kind.make(one).start(1, 4), games.Rows([4])
        query.advance([0])
        rows.advance([0])
        games.check(kind, one, query, rows)


# ------------------------------------------------------------------------------------ what falls out of the precision

REAL = ["real", "log", "pgcd", "pgcd, weighted by paths", "pgcd in fixed shapes"]
kept_exact = pytest.mark.parametrize("kind", [k for k in games.KINDS if k.name in REAL], ids=repr)
anything = oracle.OracleFSA([(0, v, 0) for v in range(3)], [0], [0], 3)


def rare(tiny, dtype=torch.float64):
    """Token 2 is emitted by the last state alone, which a step from the first reaches with probability tiny²."""
    one = games.Problem(
        oracle.OracleHMM(
            np.array([1.0, 0, 0]),
            np.array([[1 - tiny, tiny, 0], [0, 1 - tiny, tiny], [0, 0, 1]]),
            np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]]),
        ),
        anything,
        4,
        dtype,
    )
    return one


@kept_exact
@pytest.mark.parametrize(("tiny", "dtype"), [(1e-25, torch.float32), (1e-140, torch.float64)])
def test_possible_tokens_keep_their_probability_whatever_it_is(kind, tiny, dtype):
    one = rare(tiny, dtype)
    query, rows = kind.make(one).start(2), games.Rows([4, 4])
    for tokens in ([0, 0], [0, 1], [2, 2], [2, 2]):
        games.check(kind, one, query, rows, 1e-5)
        query.advance(tokens)
        rows.advance(tokens)
    games.check(kind, one, query, rows, 1e-5)


def builds(monkeypatch, classes):
    """A list to which the name of each of these queries is written when it is made."""
    made = []
    for cls in classes:

        def init(self, *args, cls=cls, plain=cls.__init__, **kwargs):
            made.append(cls.__name__)
            plain(self, *args, **kwargs)

        monkeypatch.setattr(cls, "__init__", init)
    return made


@pytest.mark.parametrize("name", ["pgcd", "pgcd in fixed shapes"])
def test_a_token_that_the_hmm_cannot_emit_now_costs_no_new_sweep(name, monkeypatch):
    """The automaton allows token 1 for ever; after the first step the HMM cannot emit it, and nothing was lost."""
    hmm = oracle.OracleHMM(np.array([0.5, 0.5]), np.eye(2), np.array([[1.0, 0, 0], [0, 0.5, 0.5]]))
    one = games.Problem(hmm, oracle.OracleFSA([(0, v, 0) for v in range(3)], [0], [0], 3), 9, torch.float32)
    kind = next(k for k in games.KINDS if k.name == name)
    query, rows = kind.make(one).start(2), games.Rows([9, 9])
    made = builds(monkeypatch, [ProductTables, DenseQuery])
    for _ in range(5):
        query.advance([0, 0])
        rows.advance([0, 0])
        games.check(kind, one, query, rows, 1e-5)
        query.select([1, 0])
    assert not made


@pytest.mark.parametrize("name", ["real", "pgcd", "pgcd in fixed shapes"])
def test_recovering_a_row_at_every_step_sweeps_once(name, monkeypatch):
    """Token 2 stays possible with probability 10⁻⁵⁰ and less, beyond float32: what recovers it is made once and kept."""
    kind = next(k for k in games.KINDS if k.name == name)
    one = rare(1e-25, torch.float32)
    one.horizon = 6
    query, rows = kind.make(one).start(2), games.Rows([6, 6])
    made = builds(monkeypatch, [DenseQuery, ProductTables])
    for step in range(5):
        query.advance([0, 1])
        rows.advance([0, 1])
        games.check(kind, one, query, rows, 1e-5)
        query.select([1, 0])
        rows.select([1, 0])
        games.check(kind, one, copy.copy(query), rows, 1e-5)
        if step == 2:
            query.select([0, 0, 1])
            query.select([0, 2])
    assert len(made) == 1  # that in a wider range


def test_the_fastest_query_is_chosen():
    hmm, fa = problem().parts
    learned = hmm.map(lambda t: t.clone().requires_grad_())
    kinds = {
        GCDQuery: [(fa, 3, Boolean()), (fa, None, Boolean()), (fa * fa, 3, Boolean())],
        ProductQuery: [
            *((chain, 3, Real()) for chain in (hmm * fa, fa * hmm * hmm, fa * hmm * fa)),
            (hmm * fa, 3, Boolean()),
        ],
        DenseQuery: [
            (hmm, 3, Real()),
            (hmm, None, Real()),
            (fa, 3, Real()),  # as fast, a few edges a state
            (hmm * fa, 3, Log()),
            (hmm * fa, 3, MaxProduct()),
            (learned * fa, 3, Real()),
        ],
    }
    for kind, asked in kinds.items():
        for question in asked:
            assert type(tt.NextToken(*question)) is kind
