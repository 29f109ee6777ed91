"""Values that a schema lists, and their texts."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from ...automata.dfa import minimize
from ...automata.nfa import Nfa, literal, union
from ...program import tables
from ...program.tables import Table
from .. import numbers, strings
from ..numbers import number_automaton
from ..shapes import NEVER, Need, Numbers
from ..text import Style
from .leaves import BLANKS, around
from .names import chain, rows_of

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
        found |= {v: number_text(v, writer) for v in each}
    for string in value.string:
        if string.among is None:
            return None
        found |= {v: string_text(v, writer.style) for v in string.among if strings.has(v, string.atoms)}
    return {value: text for value, text in found.items() if not text.is_empty}


def number_text(value: Decimal, writer: Writer) -> Nfa:
    """Return the automaton of the texts of one number."""
    return number_automaton(Numbers(among=frozenset([value])), writer.notation)


def string_text(value: str, style: Style) -> Nfa:
    """Return the automaton of the texts of one string."""
    found = [around(strings.words([value], spelling), spelling) for spelling in style.spellings]
    return found[0] if len(found) == 1 else minimize(union(found))


def text_table(values: Sequence[Nfa], before: bytes, style: Style) -> Table:
    """Return the table of the texts of some values behind a text, by their number.

    A state in which a value ends has no moves: where a longer text goes on, the last byte leads to two states.
    """
    size = len(before) + 1
    edges = chain(before, 0, style, False)
    if style.blank and before:
        edges += [(size - 1, byte, byte, size - 1) for byte in BLANKS]
    rows = [rows_of(value) for value in values]
    ends = [frozenset(value.accept.tolist()) for value in values]
    label = [-1] * size
    leaves: dict[int, int] = {}
    start = frozenset((i, int(value.start[0])) for i, value in enumerate(values))
    place, todo = {start: size - 1}, [start]
    for at in todo:
        moves = [(low, high, (i, to)) for i, q in at for low, high, to in rows[i][q]]
        cuts = sorted({low for low, _, _ in moves} | {high + 1 for _, high, _ in moves})
        for low, past in itertools.pairwise(cuts):
            target = frozenset(to for a, b, to in moves if a <= low <= b)
            for i, q in target:
                if q in ends[i]:
                    if i not in leaves:
                        leaves[i] = len(label)
                        label.append(i)
                    edges.append((place[at], low, past - 1, leaves[i]))
            if any(rows[i][q] for i, q in target):
                if target not in place:
                    place[target] = len(label)
                    label.append(-1)
                    todo.append(target)
                edges.append((place[at], low, past - 1, place[target]))
    return tables.table(np.array(edges), label)
