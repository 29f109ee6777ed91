"""P-GCD: :func:`pgcd` makes the query of a chain and a constraint."""

from __future__ import annotations

from pathlib import Path

import torch

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import TooManyStates
from ...layers import Categorical
from ..arguments import a_chain, an_automaton, not_negative, whole
from .finite_masks import FiniteMasks
from .gcd import GCDQuery, gcd
from .product_query import ProductQuery

GUIDE_TOLERANCE = 0.1
"""Nats; the tolerance for guiding a sampler or a decoder, far below the error of an HMM's lookahead."""


def pgcd(
    chain: Chain | str | Path,
    automaton: Automaton,
    horizon: int,
    dtype: torch.dtype | None = None,
    memory: int | None = None,
    tolerance: float = 0.0,
    guide: Automaton | None = None,
) -> ProductQuery:
    """Make the query of probabilistic GCD: p_hmm(next token | prefix, constraint within the budget).

    Dang et al. 2026, Algorithm 1. Every accepted sequence counts once: a guide that is not deterministic is determinised if that
    costs few states or if it is ambiguous. With an HMM on an accelerator and a deterministic guide, steps have fixed shapes and
    do not wait for the accelerator, unless ``memory`` is given. Parameters are read as numbers: no derivative goes through the
    query (:class:`.NextToken` gives derivatives).

    Parameters
    ----------
    chain
        An HMM, or the folder of one; or any other chain, such as a product of HMMs.
    automaton
        The constraint, which gives the masks.
    horizon
        The largest budget in tokens.
    dtype
        The precision of the table of emissions, on an accelerator of the backward messages, too (default: the chain's finest,
        at least float32). With bfloat16 scores are right to about one part in a hundred.
    memory
        A limit of the bytes of the backward messages (default: none; they have horizon × chain states × automaton states
        numbers). Messages that do not fit are computed again as the budgets go down; the scores are the same.
    tolerance
        The error in nats that a lookahead may have, as estimated. With 0.1 the query costs a fraction of the exact one; a
        sampler's weights correct for the error. The backward sweep ends once its messages hardly change, and a positive
        probability below 1e-30 of the largest is raised to this bound: lookaheads that depend on it may be off by more.
    guide
        The automaton that the chain is multiplied with; it accepts at least what ``automaton`` does. Default: that of a
        compiled constraint, which may be smaller than the constraint's own.

    Raises
    ------
    VocabularyMismatch
        Chain and automaton differ in their tokens.
    TooManyStates
        An ambiguous guide has no deterministic automaton of reasonable size.
    MemoryTooSmall
        ``memory`` does not hold two messages.
    EvidenceError
        The tolerance is negative or no number.

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
    chain, horizon = a_chain(chain, "pgcd: chain"), whole(horizon, "pgcd: horizon", None)
    tolerance = not_negative(tolerance, "pgcd: tolerance")
    memory = None if memory is None else whole(memory, "pgcd: memory", 0)
    automaton = an_automaton(automaton, "pgcd: automaton")
    guide = automaton.guide() if guide is None else an_automaton(guide, "pgcd: guide")
    if guide is automaton:
        automaton = guide = counted_once(automaton)
        masks = GCDQuery(automaton, horizon, FiniteMasks(automaton, horizon))
    else:
        guide, masks = counted_once(guide), gcd(automaton, horizon)
    table = type(chain.inputs) is Categorical and len(chain.inputs.unit_dims) == 1
    padded = chain.device.type != "cpu" and memory is None and guide.is_deterministic and table
    return ProductQuery(
        chain,
        masks,
        guide,
        horizon,
        dtype=dtype,
        memory=memory,
        tolerance=tolerance,
        padded=padded,
    )


def counted_once(automaton: Automaton) -> Automaton:
    """Return an automaton in which every accepted sequence has one path; a deterministic one where that costs few states."""
    if automaton.is_deterministic:
        return automaton
    try:
        return automaton.determinize(limit=4 * automaton.num_states + 64)
    except TooManyStates:
        return automaton if automaton.is_unambiguous else automaton.determinize()
