"""Atomic groups and possessive repeats: the preferred match is never given up for another.

    first(E) = { u ⊙ v : on the text u v, the first match of E is u }

``(?>E)`` followed by ``R`` matches ``u v`` if ``u ⊙ v`` is in ``first(E)`` and ``v`` in ``R``. While it reads ``u``, the
automaton of ``first(E)`` keeps the threads in order of preference (as a matcher without backtracking does: Thompson 1968,
Cox 2010). At ⊙ one of them must match, and none of those preferred to it may match in ``v``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from ... import limits
from ...automata import dfa, nfa
from ...automata.arrays import check_limit, reachable
from ...automata.epsilon import NO_EPSILONS, trim
from ...automata.nfa import Nfa
from ...automata.work import spend
from ..anchors import ALL_MARKS
from ..syntax import ATOMIC, CHARACTER, REPEAT, Item, atomic_items, constants, scoped

if TYPE_CHECKING:
    from ..pattern import Builder

END = 0  # the node of a match
SIGN = r"\(\?>|[*+?}]\+"


class Program:
    """The pattern as a graph of threads.

    Node ``i`` leads without reading to ``choices[i]`` in order of preference, or reads a byte by ``edges[i]``, rows (low,
    high, node).
    """

    def __init__(self, builder: Builder, items: Sequence[Item], flags: int) -> None:
        self.builder = builder
        self.choices: list[list[int]] = [[]]
        self.edges: list[list[tuple[int, int, int]]] = [[]]
        self.entry = self.sequence(items, flags, END)

    def node(self, choices: list[int]) -> int:
        """Add a node and return it."""
        self.choices.append(choices)
        self.edges.append([])
        check_limit(len(self.choices), limits.PART_STATES)
        return len(self.choices) - 1

    def sequence(self, items: Sequence[Item], flags: int, then: int) -> int:
        """Add the items, followed by node ``then``, and return their entry."""
        for item in reversed(items):
            then = self.item(item, flags, then)
        return then

    def item(self, item: Item, flags: int, then: int) -> int:
        """Add an item, followed by node ``then``, and return its entry."""
        operation, argument = item
        if operation in CHARACTER:
            return self.character(self.builder.character(item, flags), then)
        if operation is constants.SUBPATTERN:
            _, added, removed, body = argument
            return self.sequence(body, scoped(flags, added, removed), then)
        if operation is constants.BRANCH:
            return self.node([self.sequence(branch, flags, then) for branch in argument[1]])
        if operation is constants.FAILURE:
            return self.node([])
        if operation in ATOMIC and then == END:  # at the end its first match is the first of the whole
            return self.sequence(atomic_items(item), flags, then)
        if operation not in REPEAT:
            what = "what looks around, refers to a group or is atomic, within an atomic group or possessive repeat,"
            raise self.builder.refused(what, SIGN)
        low, high, body = argument
        lazy = operation is constants.MIN_REPEAT
        if high == constants.MAXREPEAT:
            again = self.node([])
            entry = self.sequence(body, flags, again)
            if again in self.reach([entry]):
                raise self.builder.refused("a repeat of what may be empty, within an atomic group,", SIGN)
            self.choices[again] = [then, entry] if lazy else [entry, then]
            entry = again
        else:
            entry = then
            for _ in range(high - low):
                more = self.sequence(body, flags, entry)
                entry = self.node([then, more] if lazy else [more, then])
        for _ in range(low):
            spend(3)  # an empty body makes no nodes to count
            entry = self.sequence(body, flags, entry)
        return entry

    def character(self, automaton: Nfa, then: int) -> int:
        """Add one character, given by a DFA in which no accepted word is a prefix of another."""
        states = [self.node([]) for _ in range(automaton.num_states)]
        accept = set(automaton.accept.tolist())
        for source, low, high, target in automaton.edges.tolist():
            self.edges[states[source]].append((low, high, then if target in accept else states[target]))
        return states[int(automaton.start[0])] if len(automaton.start) else self.node([])

    def reach(self, nodes: Sequence[int]) -> list[int]:
        """Return the nodes reached without reading, in order of preference."""
        found: dict[int, None] = {}
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if node not in found:
                found[node] = None
                stack += reversed(self.choices[node])
        return list(found)

    def ways(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes that read a byte or match, by preference, up to the first match."""
        reached = self.reach(nodes)
        reached = reached[: reached.index(END) + 1] if END in reached else reached
        return tuple(node for node in reached if self.edges[node] or node == END)


def first(builder: Builder, items: Sequence[Item], flags: int, mark: int) -> Nfa:
    """Return the automaton of ``first(E)``; ⊙ is the byte ``mark``, and any marks may follow it.

    Raises ``UnsupportedConstraint`` and ``TooManyStates``.
    """
    program = Program(builder, items, flags)
    rows = [(i, low, high, node) for i, some in enumerate(program.edges) for low, high, node in some]
    marks = [(0, low, high, 0) for low, high in ALL_MARKS]
    nothing = np.empty(0, np.int64)
    byte_class = Nfa(len(program.edges), np.array(rows + marks), NO_EPSILONS, nothing, nothing).byte_class
    begins = np.concatenate([[0], np.flatnonzero(np.diff(byte_class)) + 1])
    runs = list(zip(begins.tolist(), [*(begins[1:] - 1).tolist(), 255], strict=True))
    of_class: dict[int, list[tuple[int, int]]] = {}
    for low, high in runs:
        of_class.setdefault(int(byte_class[low]), []).append((low, high))
    is_mark = {int(byte_class[low]) for low, _ in ALL_MARKS}
    moves: list[dict[int, list[int]]] = [{} for _ in program.edges]
    classes: dict[tuple[int, int], list[int]] = {}  # byte classes by range of bytes
    spend(len(rows))
    for source, low, high, node in rows:
        if (low, high) not in classes:
            classes[low, high] = np.unique(byte_class[low : high + 1]).tolist()
        for klass in classes[low, high]:
            moves[source].setdefault(klass, []).append(node)

    number: dict[tuple[bool, tuple[int, ...]], int] = {(True, ()): 0}  # (whether ⊙ is read, threads)
    queue = list(number)
    edges: list[tuple[int, int, int, int]] = []

    def state(after: bool, ways: tuple[int, ...]) -> int:
        key = (after, tuple(sorted(ways)) if after else ways)
        if key not in number:
            number[key] = len(number)
            queue.append(key)
        return number[key]

    start = state(False, program.ways([program.entry]))
    for after, ways in queue:
        source = number[after, ways]
        onward: dict[int, list[int]] = {}
        for way in ways:
            for klass, nodes in moves[way].items():
                onward.setdefault(klass, []).extend(nodes)
        spend(3 * (len(of_class) + len(onward)) + sum(map(len, onward.values())))
        check_limit(len(number), limits.PART_STATES)
        for klass, ranges in of_class.items():
            if klass in is_mark:
                target = source if after else None
            elif klass in onward:
                then = program.ways(onward[klass])
                target = None if after and END in then else state(after, then)
            else:
                target = 0 if after else None
            edges += [(source, low, high, target) for low, high in ranges if target is not None]
        if not after and END in ways:
            edges.append((source, mark, mark, state(True, ways[: ways.index(END)])))
    accept = np.array([i for (after, _), i in number.items() if after])
    return trim(Nfa(len(number), np.array(edges, np.int64), NO_EPSILONS, np.array([start]), accept))


def before(automaton: Nfa, mark: int) -> Bool[ndarray, " edge"]:
    """Return whether each edge reads the mark and can be reached without reading it before."""
    marks = (automaton.edges[:, 1] == mark) & (automaton.edges[:, 2] == mark)
    pairs = automaton.edges[~marks][:, [0, 3]]
    return np.asarray(marks & reachable(pairs, automaton.start, automaton.num_states)[automaton.edges[:, 0]])


def meeting(first: Nfa, rest: Nfa, every: Nfa, mark: int) -> Nfa:
    """Return the words ``u v`` with ``u ⊙ v`` in ``first`` and ``v`` in ``rest``."""
    both = dfa.intersect(first, nfa.concat([every, nfa.literal(bytes([mark])), rest]))
    gone = before(both, mark)
    epsilons = both.edges[gone][:, [0, 3]]
    return Nfa(both.num_states, both.edges[~gone], epsilons, both.start, both.accept)
