"""Several byte automata read together as one table, whose label says which of them has read the text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..automata.nfa import Nfa
from .tables import Table, table


def labelled(parts: Sequence[Nfa]) -> Table | None:
    """Return the table of the texts of some automata, labelled by their place; None if there is no text.

    No state that accepts has moves, as a ``BAG`` asks of its names: where a longer text goes on, the last byte leads to two
    states. None of the automata accepts the empty text.
    """
    plain = [part.plain for part in parts]
    moves = [[part._step(state) for state in range(part.num_states)] for part in plain]
    ends = [frozenset(part.accept.tolist()) for part in plain]
    start = frozenset((i, state) for i, part in enumerate(plain) for state in part.start.tolist())
    edges, label, place = list[tuple[int, int, int, int]](), [-1], {start: 0}
    leaves: dict[int, int] = {}
    for source in (todo := [start]):
        here = [(low, high, (i, to)) for i, state in source for low, high, to in moves[i][state]]
        cuts = sorted({cut for low, high, _ in here for cut in (low, high + 1)})
        number = {cut: n for n, cut in enumerate(cuts)}
        targets = [set[tuple[int, int]]() for _ in cuts]
        for low, high, to in here:
            for n in range(number[low], number[high + 1]):
                targets[n].add(to)
        for (low, past), each in zip(itertools.pairwise(cuts), targets, strict=False):
            target = frozenset(each)
            for i in sorted({i for i, state in target if state in ends[i]}):
                if i not in leaves:
                    leaves[i] = len(label)
                    label.append(i)
                edges.append((place[source], low, past - 1, leaves[i]))
            if any(moves[i][state] for i, state in target):
                if target not in place:
                    place[target] = len(label)
                    label.append(-1)
                    todo.append(target)
                edges.append((place[source], low, past - 1, place[target]))
    return table(edges, label) if leaves else None
