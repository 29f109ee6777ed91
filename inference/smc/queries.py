"""Queries made once and kept with their automaton: the guiding query's backward sweep is the costly part of a short run,
and masks that were built for one prompt serve the next."""

from __future__ import annotations

from copy import copy

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...layers.visible import version
from ..guided import ProductQuery, pgcd
from ..masks import MaskQuery, gcd, lcd


def guided(hmm: HMM, fa: Automaton, horizon: int) -> ProductQuery:
    """:func:`pgcd`, the latest kept with the automaton, for the same HMM with untouched parameters, and horizon.

    Every call gives an object of its own, to be started; they share tables.
    """
    parameters = [hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs]
    versions = [version(tensor) for tensor in parameters]
    if None in versions:  # nothing says whether such parameters are untouched
        return pgcd(hmm, fa, horizon)
    key = (horizon, *zip(map(id, parameters), versions, strict=True))
    kept = vars(fa).get("_guided")
    if kept is None or kept[0] != key:
        # The tensors are held too, so that no other takes their identity.
        kept = vars(fa)["_guided"] = (key, parameters, pgcd(hmm, fa, horizon))
    query: ProductQuery = kept[-1]
    return copy(query)


def masking(fa: Automaton, horizon: int | None) -> MaskQuery:
    """:func:`gcd`, or :func:`lcd` without a horizon; every call gives an object of its own, to be started."""
    kept: dict[int | None, MaskQuery] = vars(fa).setdefault("_masking", {})
    if horizon not in kept:
        if len(kept) > 8:
            kept.clear()
        kept[horizon] = lcd(fa) if horizon is None else gcd(fa, horizon)
    return copy(kept[horizon])
