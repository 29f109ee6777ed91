"""Values that a schema lists, and their texts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from ...automata.nfa import Nfa, concat, literal, union
from ...program.labelled import labelled
from ...program.tables import Table
from .. import numbers, strings
from ..shapes import NEVER, Need, Numbers
from ..text import Style
from .leaves import blanks_nfa

if TYPE_CHECKING:
    from .values import Writer

MOST_LISTED = 200
"""The widest range of integers whose values are listed."""


def listed(writer: Writer, need: Need) -> dict[Hashable, Nfa] | None:
    """Return the values of a need, each with the automaton of its texts; None if the need does not list them."""
    if need == NEVER:
        return {}
    value = writer.value(need)
    if value.array or value.object:
        return None
    found: dict[Hashable, Nfa] = {text: literal(text) for text in writer.words(value)}
    for number in value.number:
        each = numbers.listed(number, MOST_LISTED)
        if each is None:
            return None
        found |= {v: numbers.number(Numbers(among=frozenset([v])), writer.notation) for v in each}
    for string in value.string:
        if string.among is None:
            return None
        for v in string.among:
            if strings.has(v, string.atoms):
                found[v] = union(
                    concat([literal(each.opening), strings.words([v], each), literal(bytes([each.closing]))])
                    for each in writer.style.spellings
                )
    return {value: text for value, text in found.items() if not text.is_empty}


def text_table(values: Sequence[Nfa], before: bytes, style: Style) -> Table:
    """Return the table of the texts of some values behind a text, by their number.

    A state in which a value ends has no moves: where a longer text goes on, the last byte leads to two states.
    """
    head = [literal(before), blanks_nfa(style.blank)] if before else []
    found = labelled([concat([*head, value]) for value in values])
    assert found is not None
    return found
