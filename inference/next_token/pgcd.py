"""P-GCD for any automaton: the query that suits HMM, constraint and device."""

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
from .pgcd_query import PGCDQuery

GUIDE_TOLERANCE = 0.1
"""Nats, for what guides a sampler or a decoder: far below what an HMM's opinion is worth."""


def pgcd(
    hmm: HMM | str | Path,
    automaton: Automaton,
    horizon: int,
    dtype: torch.dtype | None = None,
    memory: int | None = None,
    tolerance: float = 0.0,
) -> PGCDQuery | CoarseQuery:
    """Probabilistic GCD: p_hmm(next token | prefix, constraint within the budget) (Dang et al. 2026, Algorithm 1).

    ``hmm`` may be the folder of one. ``dtype`` is the precision in which the emission and the backward messages are kept
    (default: the HMM's). bfloat16 takes half the memory and is faster where a processor multiplies it; its scores are right
    to about one part in a hundred.

    ``memory`` is how many bytes the backward messages may take, the work space of their sweep included (default: as
    many as they need, horizon × hidden states × automaton states numbers). Where they do not fit they are computed again
    from checkpoints as the budgets go down; the scores are the same.

    ``tolerance``: nats by which a lookahead may be off, as estimated; what guides a sampler, whose weights correct for it,
    costs a fraction of the exact query with 0.1. The sweep ends where its messages are settled, and a probability below 1e-30
    of the largest counts as that, unless it is zero: lookaheads that depend on it may be off by more. Used on the CPU, without
    ``dtype`` and ``memory``, for HMMs of float32 or float64; elsewhere the query is exact.

    On an accelerator (where the HMM's parameters are) a deterministic automaton without a limit of memory gets a
    query with ``fixed_shapes``, whose steps do not wait for it.

    A constraint whose automaton is not written out gives a
    :class:`~tractile.inference.next_token.coarse.CoarseQuery`: exact masks, and the HMM
    multiplied with a finite automaton that accepts at least the same texts.

    Every accepted sequence counts once: an automaton that is not deterministic is determinised if that costs few states
    or if it is ambiguous. Raises :class:`VocabularyMismatch` where HMM and automaton differ in their tokens,
    :class:`TooManyStates` where an ambiguous automaton has no deterministic one of reasonable size,
    :class:`MemoryTooSmall` where not even one message fits, :class:`EvidenceError` for a tolerance that is negative or no number.

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
    if (coarse := an_automaton(automaton, "pgcd: automaton").guide()) is not automaton:
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
