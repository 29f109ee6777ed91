"""P-GCD for any automaton: the query that suits HMM, constraint and device."""

from __future__ import annotations

from pathlib import Path

import torch

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import TooManyStates
from ..arguments import an_automaton, an_hmm, whole
from .coarse import CoarseQuery
from .gcd import gcd
from .pgcd_query import PGCDQuery


def pgcd(
    hmm: HMM | str | Path,
    automaton: Automaton,
    horizon: int,
    dtype: torch.dtype | None = None,
    memory: int | None = None,
) -> PGCDQuery | CoarseQuery:
    """Probabilistic GCD: p_hmm(next token | prefix, constraint within the budget) (Dang et al. 2026, Algorithm 1).

    ``hmm`` may be the folder of one. ``dtype`` is the precision in which the emission and the backward messages are kept
    (default: the HMM's). bfloat16 takes half the memory and is faster where a processor multiplies it; its scores are right
    to about one part in a hundred.

    ``memory`` is how many bytes the backward messages may take, the work space of their sweep included (default: as
    many as they need, horizon × hidden states × automaton states numbers). Where they do not fit they are computed again
    from checkpoints as the budgets go down; the scores are the same.

    On an accelerator (where the HMM's parameters are) a deterministic automaton without a limit of memory gets a
    query with ``fixed_shapes``, whose steps do not wait for it.

    A constraint whose automaton is not written out gives a
    :class:`~tractile.inference.next_token.coarse.CoarseQuery`: exact masks, and the HMM
    multiplied with a finite automaton that accepts at least the same texts.

    Every accepted sequence counts once: an automaton that is not deterministic is determinised if that costs few states
    or if it is ambiguous. Raises :class:`VocabularyMismatch` where HMM and automaton differ in their tokens,
    :class:`TooManyStates` where an ambiguous automaton has no deterministic one of reasonable size,
    :class:`MemoryTooSmall` where not even one message fits.

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
    if (coarse := an_automaton(automaton, "pgcd: automaton").guide()) is not automaton:
        guide = pgcd(hmm, coarse, horizon, dtype, memory)
        assert isinstance(guide, PGCDQuery)
        return CoarseQuery(gcd(automaton, horizon), guide)
    if not automaton.is_deterministic:
        try:
            automaton = automaton.determinize(limit=4 * automaton.num_states + 64)
        except TooManyStates:
            if not automaton.is_unambiguous:
                automaton = automaton.determinize()
    fixed_shapes = hmm.device.type != "cpu" and memory is None and automaton.is_deterministic
    return PGCDQuery(hmm, automaton, horizon, dtype, memory, fixed_shapes)
