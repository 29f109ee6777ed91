"""A finite automaton that accepts at least the texts of a program.

Two things are forgotten. Registers: counts, the members of a bag, what observers keep. And the stack: only the ``depth``
frames above the current one are kept, and a node whose caller was forgotten returns to every caller that it may have had. With
depth 0 this is the recursive transition network read as a finite automaton (Nederhof 2000, "Practical experiments with
regular approximation of context-free languages", section 5).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from ...errors import TooManyStates
from ..automata.nfa import Nfa
from ..program import nodes
from ..program.node import Kind, Node
from ..program.rewrite import rewritten
from . import kinds

Frames = tuple[tuple[Node, Hashable], ...]  # callers, the nearest first
Place = tuple[Node | None, Hashable, Frames]

CAP = (None, 3, 1)
"""By level: the largest bound on a count that is kept (None: all)."""


def coarse(node: Node, level: int, depth: int, most_states: int) -> Nfa:
    """Return an automaton with epsilon transitions that accepts at least the texts of a program.

    ``level``: 0 keeps counts and members, 1 counts up to 3 and no members, 2 tells only one from none. ``depth``: frames of the
    stack that are kept. Raises ``TooManyStates`` beyond ``most_states`` states.
    """
    cap = CAP[level]
    program = rewritten(node, lambda each: _without_registers(each, cap))
    places: dict[Place, int] = {}
    order: list[Place] = []
    edges: list[tuple[int, int, int, int]] = []
    skips: set[tuple[int, int]] = set()
    ends: dict[tuple[Node, Frames], list[int]] = {}
    waiting: dict[tuple[Node, Frames], list[int]] = {}

    def number(place: Place) -> int:
        if place not in places:
            if len(order) == most_states:
                raise TooManyStates("the approximation of the program grows too large", limit=most_states)
            places[place] = len(order)
            order.append(place)
        return places[place]

    def calls(here: int, called: Node, frames: Frames, back: int) -> None:
        skips.add((here, number((called, kinds.begin(called), frames))))
        waiting.setdefault((called, frames), []).append(back)
        skips.update((end, back) for end in ends.get((called, frames), ()))

    begin, accept = number((None, 0, ())), number((None, 1, ()))
    calls(begin, program, (), accept)
    for here, (found, register, frames) in enumerate(order):  # grows meanwhile
        if found is None:
            continue
        if register is None or kinds.ends(found, register):
            ends.setdefault((found, frames), []).append(here)
            skips.update((here, back) for back in waiting[found, frames])
        if register is not None:
            for low, high, after in kinds.reads(found, register):
                edges.append((here, low, high, number((found, after, frames))))
            for called, rest in kinds.calls(found, register):
                back = number((found, rest, frames))
                calls(here, called, ((found, rest), *frames)[:depth], back)
    return Nfa(
        len(order),
        np.array(edges, np.int64).reshape(-1, 4),
        np.array(sorted(skips), np.int64).reshape(-1, 2),
        np.array([begin]),
        np.array([accept]),
    )


def _without_registers(node: Node, cap: int | None) -> Node:
    """Return a node with at least the texts of ``node``, its bounds capped; observers are left out."""
    if node.kind in kinds.OBSERVERS:
        return node.parts[0]
    if cap is None:
        return node
    low, high = min(node.low, cap), node.high if node.high is None or node.high <= cap else None
    match node.kind:
        case Kind.COUNT:
            return nodes.count(node.tables[0], low, high)
        case Kind.REPEAT:
            return nodes.repeat(node.parts[0], low, high, node.parts[1])
        case Kind.BAG:
            first, later = node.tables
            return nodes.bag(first, later, node.parts, 0, (), low, high)
    return node
