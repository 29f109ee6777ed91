"""Several byte automata read together as one table, whose label says which of them has read the text."""

from __future__ import annotations

from collections.abc import Sequence

from .. import limits
from ..automata.dfa import together
from ..automata.nfa import Nfa
from .tables import Table, table


def labelled(parts: Sequence[Nfa]) -> Table | None:
    """Return one table of the texts of several automata; the label of a text is the index of its automaton. None: no texts.

    Accepting states have no moves, as ``BAG`` requires: where one text is the beginning of another, its last byte leads to two
    states. No automaton may accept the empty text.
    """
    rows, reads = together(parts, limits.STATES)
    label, place, leaves = [-1], {0: 0}, dict[int, int]()
    edges = list[tuple[int, int, int, int]]()

    def number(known: dict[int, int], key: int, mark: int) -> int:
        """Return the state of a set, or the one that accepts with a label."""
        if key not in known:
            known[key] = len(label)
            label.append(mark)
        return known[key]

    for source in (todo := [0]):
        for low, high, target in rows[source]:
            ends = [number(leaves, i, i) for i in reads[target]]
            if rows[target]:
                if target not in place:
                    todo.append(target)
                ends.append(number(place, target, -1))
            edges += [(place[source], low, high, end) for end in ends]
    return table(edges, label) if leaves else None
