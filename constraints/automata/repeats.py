"""Counted repeats: a copy of the automaton for each word, without superfluous paths (``core/repeats.h``)."""

from __future__ import annotations

from ..._core import copied
from .nfa import Nfa, concat, empty, optional, plus, star
from .work import metered

SMALL = 3_000
"""Edges in all copies up to which repeats are cached: an address, say, repeats one digit many times."""


def repeat(nfa: Nfa, low: int, high: int | None) -> Nfa:
    """Return the automaton of ``low`` to ``high`` words in a row (``None``: any number).
    Raises :class:`TooManyStates`."""
    if high is None:
        if low <= 1:
            return plus(nfa) if low else star(nfa)
        return concat([repeat(nfa, low - 1, low - 1), plus(nfa)])
    if high < low:
        return empty()
    if high < 2:
        return concat([nfa] * high) if low or not high else optional(nfa)
    if high * (nfa.num_moves + len(nfa.skips)) > SMALL:
        return copied(nfa, low, high)
    return known(Same(nfa), low, high)


class Same:
    """An automaton that equals those of the same states and moves."""

    def __init__(self, nfa: Nfa) -> None:
        self.nfa, self.content = nfa, nfa.to_bytes()

    def __hash__(self) -> int:
        return hash(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.content == other.content


@metered(maxsize=512)
def known(word: Same, low: int, high: int) -> Nfa:
    """Return ``low`` to ``high`` words in a row, of an automaton that may have been repeated before."""
    return copied(word.nfa, low, high)
