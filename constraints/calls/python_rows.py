"""Values in a row as automata: the items of Python lists, tuples and dicts, and the arguments of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...errors import TooManyStates
from ..automata.nfa import Nfa, byte_ranges, concat, literal, network, star, union


class Style(NamedTuple):
    """The separators of Python literals: between items, between key and value, inside brackets, after a tuple's only item."""

    comma: Nfa
    colon: Nfa
    padding: Nfa
    comma_at_end: Nfa


BLANK = star(byte_ranges([(9, 10), (13, 13), (32, 32)]))
FREE_COMMA, FREE_COLON = (concat([BLANK, literal(mark), BLANK]) for mark in (b",", b":"))
STYLES = {
    "none": Style(literal(b","), literal(b":"), literal(b""), literal(b",")),
    "space": Style(literal(b", "), literal(b": "), literal(b""), literal(b",")),
    "flexible": Style(FREE_COMMA, FREE_COLON, BLANK, FREE_COMMA),
}


def in_order(
    items: Sequence[tuple[Nfa, bool]], comma: Nfa, others: Nfa | None = None, padding: Nfa | None = None
) -> Nfa:
    """The (text, required) items one after the other, then any number of ``others``, with ``comma`` between each two.

    Nodes: 3i none so far, before item i; 3i + 1 some so far; 3i + 2 about to write item i.
    """
    arcs: list[tuple[int, Nfa | None, int]] = []
    for i, (item, required) in enumerate(items):
        arcs += [(3 * i, None, 3 * i + 2), (3 * i + 1, comma, 3 * i + 2), (3 * i + 2, item, 3 * i + 4)]
        if not required:
            arcs += [(3 * i, None, 3 * i + 3), (3 * i + 1, None, 3 * i + 4)]
    end = 3 * len(items)
    if others is not None:
        arcs += [(end, None, end + 2), (end + 1, comma, end + 2), (end + 2, others, end + 1)]
    arcs += [(end, None, end + 3), (end + 1, padding, end + 3)]
    return network(end + 4, arcs, 0, end + 3)


def in_any_order(items: Sequence[tuple[Nfa, bool]], comma: Nfa, padding: Nfa | None = None) -> Nfa:
    """The (text, required) items in any order, separated by ``comma``: a node for each set of items written, 2^n of them.

    Raises ``TooManyStates`` for more than 16 items."""
    if len(items) > 16:
        raise TooManyStates(f"{len(items)} arguments in any order need {len(items)}! paths", limit=2**16)
    full = 1 << len(items)
    needed = sum(1 << i for i, (_, required) in enumerate(items) if required)

    def arcs() -> Iterator[tuple[int, Nfa | None, int]]:
        for done in range(full):
            for i, (item, _) in enumerate(items):
                if not done >> i & 1:
                    yield done, concat([comma, item]) if done else item, done | 1 << i
            if done & needed == needed:
                yield done, padding if done else None, full

    return network(full + 1, arcs(), 0, full)


def row(style: Style, first: Sequence[Nfa], least: int, more: Nfa | None) -> Nfa:
    """At least ``least`` of the items in turn, then any number of ``more``. Node i is the place after i items."""
    items = list(first)
    if more is not None:
        items += [more] * max(least - len(items), not items)
    size = len(items)
    arcs: list[tuple[int, Nfa | None, int]] = [
        (i, concat([style.comma, item]) if i else item, i + 1) for i, item in enumerate(items)
    ]
    if more is not None:
        arcs.append((size, concat([style.comma, more]), size))
    arcs += [(i, style.padding if i else None, size + 1) for i in range(least, size + 1)]
    return network(size + 2, arcs, 0, size + 1)


def tuples(style: Style, first: Sequence[Nfa], least: int, more: Nfa | None) -> Nfa:
    """Tuples of at least ``least`` of the items in turn, then any number of ``more``; a tuple of one item ends in a comma."""
    one = first[:1] or ([more] if more is not None else [])
    parts = [row(style, first, max(least, 2), more)]
    if least <= 1 and one:
        parts.append(concat([one[0], style.comma_at_end]))
    if least == 0:
        parts.append(literal(b""))
    return brackets(b"(", union(parts), b")", style)


def brackets(left: bytes, inside: Nfa, right: bytes, style: Style) -> Nfa:
    """Something in brackets, with white space after the first where the style has it."""
    return concat([literal(left), style.padding, inside, literal(right)])
