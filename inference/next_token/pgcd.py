"""P-GCD for any automaton: :func:`pgcd` chooses the query that suits HMM, constraint and device."""

from __future__ import annotations

from pathlib import Path

import torch

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import TooManyStates
from ..arguments import an_automaton, an_hmm, not_negative, whole
from .coarse import CoarseQuery
from .gcd import gcd
from .guide_query import GuideQuery, can_guide
from .pgcd_query import PGCDQuery, check_guide

GUIDE_TOLERANCE = 0.1
"""Nats; the tolerance for guiding a sampler or a decoder, far below the error of an HMM's lookahead."""


def pgcd(
    hmm: HMM | str | Path,
    automaton: Automaton,
    horizon: int,
    dtype: torch.dtype | None = None,
    memory: int | None = None,
    tolerance: float = 0.0,
) -> PGCDQuery | CoarseQuery:
    """Make the query of probabilistic GCD: p_hmm(next token | prefix, constraint within the budget).

    Dang et al. 2026, Algorithm 1. ``hmm`` is an HMM or the folder of one, ``horizon`` the largest budget in tokens.

    ``dtype`` is the precision in which the emission and the backward messages are stored (default: the HMM's). bfloat16 takes
    half the memory and is faster on processors that multiply it; its scores are right to about one part in a hundred.

    ``memory`` limits the bytes of the backward messages and the work space of their sweep (default: no limit; they have
    horizon × hidden states × automaton states numbers). Messages that do not fit are recomputed from checkpoints as the budgets
    go down; the scores are the same.

    ``tolerance`` is the error in nats that a lookahead may have, as estimated. With 0.1 the query costs a fraction of the exact
    one; a sampler's weights correct for the error. The backward sweep ends once its messages hardly change, and a positive
    probability below 1e-30 of the largest is raised to this bound: lookaheads that depend on it may be off by more. Used on the
    CPU, without ``dtype`` and ``memory``, for HMMs of float32 or float64; otherwise the query is exact.

    If the HMM's parameters are on an accelerator, the automaton is deterministic and ``memory`` is not given, the query has
    ``fixed_shapes``: its steps do not wait for the accelerator.

    A lazy automaton gives a :class:`~tractile.inference.next_token.coarse.CoarseQuery`: exact masks, and the HMM multiplied
    with a finite automaton that accepts at least the same texts.

    Parameters are read as numbers: no derivative goes through the query (:class:`~.generic.NextToken` gives derivatives).

    Every accepted sequence counts once: an automaton that is not deterministic is determinised if that costs few states
    or if it is ambiguous. Raises :class:`VocabularyMismatch` if HMM and automaton differ in their tokens,
    :class:`TooManyStates` if an ambiguous automaton has no deterministic one of reasonable size,
    :class:`MemoryTooSmall` if not even one message fits, :class:`EvidenceError` for a tolerance that is negative or no number.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> query = tt.pgcd(coin, one, horizon=3).start(batch=1)
    >>> [round(p, 4) for p in query.scores()[0].exp().tolist()]  # two of the three sequences begin with 0
    [0.6667, 0.3333]
    """
    hmm, horizon = an_hmm(hmm, "pgcd: hmm"), whole(horizon, "pgcd: horizon", None)
    tolerance = not_negative(tolerance, "pgcd: tolerance")
    memory = None if memory is None else whole(memory, "pgcd: memory", 0)
    check_guide(hmm, an_automaton(automaton, "pgcd: automaton"))
    if (coarse := automaton.guide()) is not automaton:
        query = pgcd(hmm, coarse, horizon, dtype, memory, tolerance)
        return CoarseQuery(gcd(automaton, horizon), query.guide if isinstance(query, CoarseQuery) else query)
    if not automaton.is_deterministic:
        try:
            automaton = automaton.determinize(limit=4 * automaton.num_states + 64)
        except TooManyStates:
            if not automaton.is_unambiguous:
                automaton = automaton.determinize()
    if tolerance > 0 and dtype is None and memory is None and can_guide(hmm, automaton):
        return CoarseQuery(gcd(automaton, horizon), GuideQuery(hmm, automaton, horizon, tolerance))
    fixed_shapes = hmm.device.type != "cpu" and memory is None and automaton.is_deterministic
    return PGCDQuery(hmm, automaton, horizon, dtype, memory, fixed_shapes)
