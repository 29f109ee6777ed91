"""The preferred match of a pattern at the beginning of a text.

    preferred = { u ⊙ v : on the text u v, the match that ``re`` prefers is u }

``re`` tries the paths through a pattern in an order of preference and takes the first that succeeds. The automaton keeps the
open paths (threads) in that order while it reads u (Thompson, 1968; Cox, 2010). At ⊙ one of them must match, and none of those
preferred to it may match in v. Look-behinds are decided by the text before them, from the beginning of u.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import limits
from ..automata import dfa, nfa, utf8
from ..automata.arrays import check_limit
from ..automata.nfa import Move, Nfa, Rows
from ..automata.work import spend
from . import anchors, lookaround
from .pattern import REFUSED, Builder
from .syntax import CHARACTER, LOOK, REPEAT, Item, constants, refused, scoped

END = 0
"""The node of a match."""
MARK = 0xFF
"""The byte of ⊙, which UTF-8 does not have."""
EVERY = nfa.star(utf8.utf8(utf8.EVERY))
ThreadState = tuple[bool, tuple[int, ...], tuple[int, ...]]
"""Whether ⊙ is read, the threads, and the state of each look-behind's table after the text so far."""


class ByteThreads:
    """The pattern as a graph of threads.

    Node ``i`` leads without reading to ``choices[i]`` in order of preference, or reads a byte by ``edges[i]``, rows (low,
    high, node). A thread passes a node of ``tests`` only if that look-behind holds.
    """

    def __init__(self, builder: Builder, items: Sequence[Item], flags: int) -> None:
        self.builder = builder
        self.choices: list[list[int]] = [[]]
        self.edges: list[list[tuple[int, int, int]]] = [[]]
        self.tests: dict[int, int] = {}
        self.behind: list[Nfa] = []
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
        if operation in LOOK and argument[0] < 0:
            entry = self.node([then])
            self.tests[entry] = len(self.behind)
            self.behind.append(after_which(self.builder, item, flags))
            return entry
        if operation not in REPEAT:
            what = "a look-ahead or anchor where the match that is preferred depends on it: say what may not follow as a text"
            raise refused(*REFUSED.get(operation, (what, r"\(\?[=!]|[$^]|\\[bBAZ]")), self.builder.pattern)
        return self.repeat(argument, flags, then, then, lazy=operation is constants.MIN_REPEAT)

    def repeat(self, repeated: Any, flags: int, then: int, early: int, lazy: bool) -> int:
        """Add the nodes of a repeat, and return the first. After its most rounds ``then`` follows, after fewer ``early``."""
        low, high, body = repeated
        if high == constants.MAXREPEAT:
            again = self.node([])
            entry = self.sequence(body, flags, again)
            if again in self.reach([entry]):
                what = "a repeat of what may be empty: write x* for (x*)*"
                raise refused(what, r"[*+}]", self.builder.pattern)
            self.choices[again] = [early, entry] if lazy else [entry, early]
            entry = again
        else:
            entry = then
            for _ in range(high - low):
                more = self.sequence(body, flags, entry)
                entry = self.node([early, more] if lazy else [more, early])
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

    def reach(self, nodes: Iterable[int], passes: Callable[[int], bool] = lambda node: True) -> list[int]:
        """Return the nodes reached without reading, in order of preference; ``passes``: whether a thread passes a node."""
        found: dict[int, None] = {}
        stack = list(nodes)[::-1]
        while stack:
            node = stack.pop()
            if node not in found:
                found[node] = None
                if passes(node):
                    stack += reversed(self.choices[node])
        return list(found)

    def ways(self, nodes: Iterable[int], passes: Callable[[int], bool]) -> tuple[int, ...]:
        """Return the nodes that read a byte or match, by preference, up to the first match."""
        reached = self.reach(nodes, passes)
        reached = reached[: reached.index(END) + 1] if END in reached else reached
        return tuple(node for node in reached if self.edges[node] or node == END)


def after_which(builder: Builder, item: Item, flags: int) -> Nfa:
    """Return the DFA of the texts after which a look-behind holds, which may be none."""
    within = builder._replace(marked=[], level=0, numbers=itertools.count(1))
    found = nfa.concat([EVERY, *within.plain([item], flags)])
    found = anchors.resolve(lookaround.resolve(found, within.marked, utf8.utf8), utf8.utf8)
    found = dfa.minimize(found)
    return found if found.num_states else nfa.literal(b"\xff")


def preferred(builder: Builder, items: Sequence[Item], flags: int) -> Nfa:
    """Return the automaton of ``preferred``. Raises ``UnsupportedConstraint`` and ``TooManyStates``."""
    program = ByteThreads(builder, items, flags)
    behind = program.behind
    ends = [frozenset(each.accept.tolist()) for each in behind]
    number: dict[ThreadState, int] = {(True, (), ()): 0}
    queue = list(number)
    rows: Rows = []

    def opened(after: bool, nodes: Iterable[int], read: tuple[int, ...]) -> int | None:
        """Return the state between two bytes; None if a preferred match rules it out."""
        holds = [at in end for at, end in zip(read, ends, strict=True)]
        ways = program.ways(nodes, lambda node: node not in program.tests or holds[program.tests[node]])
        if after and END in ways:
            return None
        state = (after, tuple(sorted(ways)) if after else ways, read if ways else ())
        if state not in number:
            number[state] = len(number)
            queue.append(state)
            check_limit(len(number), limits.PART_STATES)
        return number[state]

    start = opened(False, [program.entry], tuple(int(each.start[0]) for each in behind))
    for state in queue:
        row, (after, ways, read) = list[Move](), state
        leaving = [edge for way in ways for edge in program.edges[way]]
        cuts = {0, 256}.union(*({low, high + 1} for low, high, _ in leaving))
        if leaving:
            moves = [
                move for each, at in zip(behind, read, strict=True) if at >= 0 for move in each.moves(at)
            ]
            cuts = cuts.union(*({low, high + 1} for low, high, _ in moves))
        spend(10 + 2 * len(cuts) + len(leaving))
        for low, end in itertools.pairwise(sorted(cuts)):
            onward = dict.fromkeys(node for a, b, node in leaving if a <= low <= b)
            target: int | None = 0 if after else None
            if onward:
                then = (each.after(at, low) if at >= 0 else -1 for each, at in zip(behind, read, strict=True))
                target = opened(after, onward, tuple(then))
            if target is not None:
                row.append((low, end - 1, target))
        if not after and END in ways:
            rest = opened(True, ways[: ways.index(END)], read)
            assert rest is not None
            row.append((MARK, MARK, rest))
        rows.append(row)
    assert start is not None
    return nfa.of_rows(rows, [start], [i for (after, _, _), i in number.items() if after]).plain
