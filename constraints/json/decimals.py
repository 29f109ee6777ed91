"""The decimals between two bounds, as an automaton that compares digits (``core/decimals.h``)."""

from __future__ import annotations

from ..automata.nfa import Nfa
from ..core import between_bounds
from .shapes import Bound


def between(low: Bound | None, high: Bound | None, integer: bool, point: bool) -> Nfa:
    """Return a DFA of the decimals between two bounds, of which one may be missing.

    ``integer``: whole numbers only, with ``point`` also before a point and zeros.
    """
    first, last = (None if each is None else (f"{each.value:f}", each.strict) for each in (low, high))
    return between_bounds(first, last, integer, point)
