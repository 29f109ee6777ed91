"""NextToken, the next-token query of any chain in any semiring, and its special queries gcd, lcd and pgcd."""

from __future__ import annotations

from functools import reduce
from operator import mul
from pathlib import Path
from typing import Any, overload

import torch

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...circuits.intersection import intersect
from ...errors import TooManyStates
from ...layers.functorch_utils import is_plain
from ..arguments import a_chain, an_automaton, not_negative, whole
from ..semirings.base import Semiring
from ..semirings.linear import Boolean
from ..semirings.scaled_real import Real
from .finite_masks import FiniteMasks
from .gcd import GCDQuery
from .generic import DenseQuery
from .pgcd import PGCDQuery
from .product_query import ProductQuery
from .protocol import NextTokenQuery
from .rows import check_horizon

GUIDE_TOLERANCE = 0.1
"""Nats; the tolerance for guiding a sampler or a decoder, far below the error of an HMM's lookahead."""


@overload
def NextToken(chain: Automaton, horizon: int | None, semiring: Boolean) -> GCDQuery: ...
@overload
def NextToken(chain: Chain, horizon: int | None, semiring: Semiring[Any]) -> NextTokenQuery: ...
def NextToken(chain: Chain, horizon: int | None, semiring: Semiring[Any]) -> NextTokenQuery:
    """Make the next-token query of a chain in a semiring: what may follow a prefix, and with which weight.

    GCD is the query of an automaton in the Boolean semiring, LCD the same without a horizon, P-GCD that of HMM × automaton in
    Real. Automata in Boolean have cached masks. A product of other chains with automata, in Real or Boolean, visits live states
    only. Everything else is computed densely, as are chains whose parameters require derivatives.

    Parameters
    ----------
    chain
        An HMM, an automaton, a product of chains, any chain.
    horizon
        The largest budget in tokens; None for no budget. Without a budget, outside Boolean, a backward step must leave the
        final vector of the chain unchanged, as in an HMM (a vector of ones).
    semiring
        The semiring of the weights: see :mod:`tractile.inference`.

    Raises
    ------
    BudgetTooSmall
        The horizon is below one token.
    CircuitError
        The chain is not normalised and there is no horizon.
    TooManyStates
        The intersection of several automata has too many states.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import MaxProduct
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> query = tt.NextToken(hmm, 2, MaxProduct()).start(batch=1)
    >>> query.log_weights().exp()  # the best path of two tokens that begins with 0, and with 1
    tensor([[0.2240, 0.2835]])
    """
    check_horizon(horizon, "NextToken")
    automata = [one for one in chain.factors if isinstance(one, Automaton)]
    others = [one for one in chain.factors if not isinstance(one, Automaton)]
    kind = type(semiring)
    if kind is Boolean and not others:
        return GCDQuery(reduce(intersect, automata), horizon)
    fast = automata and others and kind in (Real, Boolean) and is_plain(chain.parameters())
    if fast and horizon is not None:
        return ProductQuery(reduce(mul, others), reduce(intersect, automata), horizon, semiring)
    return DenseQuery(chain, horizon, semiring)


def gcd(automaton: Automaton, horizon: int) -> GCDQuery:
    """Make the query of globally constrained decoding, GCD (Dang et al. 2026, Eq. 2).

    Its mask has the tokens after which the constraint can still be satisfied within the budget. ``horizon`` is the largest
    budget in tokens. Raises :class:`EvidenceError` for a constraint that has not been compiled or a horizon that is no whole
    number, :class:`BudgetTooSmall` for a horizon below one token.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> query = tt.gcd(one, horizon=1).start(batch=1)
    >>> query.scores().exp()  # with one token left it must be a 1
    tensor([[0., 1.]])
    """
    automaton, horizon = an_automaton(automaton, "gcd: automaton"), whole(horizon, "gcd: horizon", None)
    return NextToken(automaton, horizon, Boolean())


def lcd(automaton: Automaton) -> GCDQuery:
    """Make the query of locally constrained decoding, LCD (Dang et al. 2026, Eq. 1).

    Its mask has the tokens after which the constraint can be satisfied at some length. ``start(budgets=…)`` only says after how
    many tokens a row ends. Raises :class:`EvidenceError` for a constraint that has not been compiled.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> query = tt.lcd(one).start(batch=1)
    >>> query.scores().exp()  # either bit leaves a way to one 1, in some number of tokens
    tensor([[1., 1.]])
    """
    return NextToken(an_automaton(automaton, "lcd: automaton"), None, Boolean())


def pgcd(
    chain: Chain | str | Path,
    automaton: Automaton,
    horizon: int,
    dtype: torch.dtype | None = None,
    memory: int | None = None,
    tolerance: float = 0.0,
    guide: Automaton | None = None,
) -> PGCDQuery:
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
        The precision of the emission table and, on an accelerator, of the backward messages (default: the chain's finest,
        at least float32). With bfloat16 scores are right to about one part in a hundred. An HMM keeps the table for its queries
        until a parameter is written to; what is written through ``.data`` is not seen.
    memory
        The most bytes for the backward messages, which are horizon × chain states × automaton states numbers (default: about
        4 GiB; no limit with ``dtype`` or fixed shapes). Others are computed again as budgets go down; scores are the same.
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
    return PGCDQuery(chain, masks, guide, horizon, dtype=dtype, memory=memory, tolerance=tolerance)


def counted_once(automaton: Automaton) -> Automaton:
    """Return an automaton in which every accepted sequence has one path, without states that lead nowhere.

    It is deterministic where that costs few states.
    """
    if (trimmed := automaton.trim()).num_states < automaton.num_states:
        automaton = trimmed
    if automaton.is_deterministic:
        return automaton
    try:
        return automaton.determinize(limit=4 * automaton.num_states + 64)
    except TooManyStates:
        return automaton if automaton.is_unambiguous else automaton.determinize()
