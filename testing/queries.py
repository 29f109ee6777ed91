"""What a next-token query promises: its answers after random moves, against sums over all sequences."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..inference.next_token.protocol import NextTokenQuery
from .query_game import Game, Weights


def check_next_token_query(
    make: Callable[[], NextTokenQuery],
    weights: Weights | None = None,
    allowed: Weights | None = None,
    *,
    moves: int = 14,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> None:
    """Check that a query keeps to the protocol :class:`tractile.inference.NextTokenQuery`.

    Three rows with budgets of their own play a random game: they are advanced, wait, are selected with repetitions, taken back
    and forked. After each move all answers are compared with what the rows stand for. Then come drafts of tokens, what a query
    takes (positions, Booleans, prefixes, no rows at all) and what it refuses.

    Parameters
    ----------
    make
        Returns a new query; on small vocabularies, horizons of a few tokens and chains with few states.
    weights
        ``weights(prefix, left)``: for each token v the ⊕-total of the accepted sequences that begin with the prefix and v and
        have ``left`` tokens after the prefix. By default ``log_marginal`` of the query's chain under its semiring.
    allowed
        The same for masks: positive where a token may come, where that is not where its weight is positive.
    moves
        How many moves the game has.
    tolerance
        The largest difference of two logarithms that should be equal, relative to the larger of 1 and their size.
    seed
        The seed of the moves.

    Raises
    ------
    AssertionError
        If a promise is broken; it says which, and after which tokens.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.testing import check_next_token_query
    >>> hmm = tt.HMM.random(3, 2, seed=0)
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> check_next_token_query(lambda: tt.NextToken(hmm * one, 4, tt.inference.Real()))
    """
    game = Game(make, weights, allowed, tolerance, random.Random(seed))
    if game.begin():
        game.play(moves)
        game.takes()
        game.refuses()
