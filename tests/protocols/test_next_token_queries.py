"""Every next-token query (``games.KINDS``) answers as enumeration does, after any moves, and refuses the same things."""

import games
import numpy as np
import oracle
import pytest
import torch

import tractile as tt
from tractile.inference import MaxProduct, Real
from tractile.testing import check_next_token_query

SHAPES = [(2, 4), (3, 3), (4, 2), (1, 3)]  # (vocabulary, horizon)


def problems(seed):
    """An HMM, an automaton and a horizon at random; other shapes for other seeds."""
    rng = np.random.default_rng(seed)
    for vocab_size, horizon in SHAPES[seed % 3 :: 2]:
        hmm = oracle.random_hmm(rng, 3, vocab_size, zeros=0.2)
        fsa = oracle.random_fsa(rng, 3, vocab_size, bool(rng.integers(2)))
        yield games.Problem(hmm, fsa, horizon)


@pytest.mark.parametrize("kept", [pytest.param(0, marks=pytest.mark.long), 2, 100])
@pytest.mark.parametrize("kind", games.KINDS, ids=repr)
def test_answers_are_those_of_enumeration(kind, kept, monkeypatch):
    """With tokens taken back within the steps that are kept, and beyond."""
    for name, value in (*kind.patches, ("tractile.inference.next_token.history.KEPT_STEPS", kept)):
        monkeypatch.setattr(name, value)
    for problem in problems(seed=kept):
        check_next_token_query(
            lambda one=problem: kind.make(one),
            lambda prefix, left, one=problem: kind.weights(one, prefix, left),
            lambda prefix, left, one=problem: kind.allowed(one, prefix, left),
            seed=kept,
        )


def test_a_query_is_compared_with_its_chain():
    """As an outsider does, who has no enumeration of his own."""
    hmm = tt.HMM.random(3, 3, seed=0, dtype=torch.float64)
    fa = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 2], 1)], 0, [1], 3)
    for make in (
        lambda: tt.gcd(fa, 4), lambda: tt.lcd(fa), lambda: tt.pgcd(hmm, fa, 4), lambda: tt.NextToken(hmm * fa, 4, MaxProduct()),
        lambda: tt.NextToken(hmm, 3, Real()),
    ):  # fmt: skip
        check_next_token_query(make)
