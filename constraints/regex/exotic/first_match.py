"""The automaton that marks the preferred match of a pattern within a whole text.

    first = { x ⟨ u ⟩ v : beginning after x, the preferred match of the pattern in the text x u v is u }

``re`` tries the paths through a pattern in an order of preference and takes the first that succeeds. The open paths (threads)
are kept in that order while the text is read (``atomic.py``). Look-arounds and anchors are decided by the text before them,
or guessed if they depend on the text after; the rest of the text must then fulfil the guess.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ... import limits
from ...automata import dfa, nfa, utf8
from ...automata.arrays import check_limit, reachable
from ...automata.epsilon import NO_EPSILONS
from ...automata.nfa import Nfa
from ...automata.work import metered, spend
from .. import anchors, lookaround
from ..pattern import Builder
from ..syntax import LOOK, Item, constants
from . import atomic

BEGIN, END = 0xFE, 0xFF
"""Bytes that UTF-8 does not have: ``⟨`` and ``⟩``."""
EVERY = nfa.star(utf8.utf8(utf8.EVERY))


class Program(atomic.Program):
    """The graph of threads of a pattern; a thread passes a node in ``tests`` only if its assertion holds."""

    def __init__(self, builder: Builder, items: Sequence[Item], flags: int) -> None:
        self.tests: dict[int, int] = {}
        self.assertions: list[Nfa] = []
        self._known: dict[str, int] = {}
        super().__init__(builder, items, flags)

    def item(self, item: Item, flags: int, then: int) -> int:
        if item[0] is not constants.AT and item[0] not in LOOK:
            return super().item(item, flags, then)
        node = self.node([then])
        self.tests[node] = self.assertion(item, flags)
        return node

    def assertion(self, item: Item, flags: int) -> int:
        """Return the number of an assertion; equal assertions share one."""
        key = f"{item} {flags}"
        if key not in self._known:
            self._known[key] = len(self.assertions)
            self.assertions.append(places(Assertion(key, self.builder, item, flags)))
        return self._known[key]

    def open(self, nodes: Iterable[int], passed: Sequence[bool]) -> tuple[int, ...]:
        """Return the nodes that read a byte or match, by preference, up to a match.

        ``passed[k]``: whether assertion k holds here.
        """
        found, seen, stack = list[int](), set[int](), list(nodes)[::-1]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node == atomic.END or self.edges[node]:
                found.append(node)
                if node == atomic.END:
                    break
            elif node not in self.tests or passed[self.tests[node]]:
                stack += reversed(self.choices[node])
        return tuple(found)


@dataclass(frozen=True)
class Assertion:
    """A zero-width item, hashed and compared by its text."""

    key: str
    builder: Builder = field(compare=False)
    item: Item = field(compare=False)
    flags: int = field(compare=False)


@metered(maxsize=64)
def places(assertion: Assertion) -> Nfa:
    """Return the minimal DFA of the texts with ``⟨`` at a position where the assertion holds."""
    within = assertion.builder._replace(marked=[], level=0, numbers=itertools.count(1))
    here = nfa.concat(within.plain([assertion.item], assertion.flags))
    where = nfa.literal(
        lookaround.mark(1, 1)
    )  # a mark of look-arounds: anchors and the assertion itself ignore it
    found = lookaround.resolve(nfa.concat([EVERY, where, here, EVERY]), within.marked, utf8.utf8)
    found = anchors.resolve(found, utf8.utf8, looks=True)
    wanted = nfa.concat([EVERY, where, EVERY])
    found = dfa.intersect(found, wanted)
    low, high = found.edges[:, 1], found.edges[:, 2]
    digit, end = lookaround.LEVELS[1][1], lookaround.LEVELS[1][0]
    marks = ((low == digit) & (high == digit)) | ((low == end) & (high == end))
    renamed = found.edges.copy()
    middle = (low == digit) & (high == digit)
    renamed[middle, 1:3] = BEGIN
    keep = ~marks | middle
    epsilons = found.edges[marks & ~middle][:, [0, 3]]
    return dfa.minimize(Nfa(found.num_states, renamed[keep], epsilons, found.start, found.accept))


class Table(NamedTuple):
    """A DFA as a dense table of transitions.

    ``rows``: for each state the target of each byte (−1: none); ``changes``: the bytes at which its targets change. ``cut``:
    for each state the target of ``⟨``; ``sure``: the states after ``⟨`` from which every rest of a text is accepted.
    """

    rows: list[list[int]]
    changes: list[list[int]]
    start: int
    accept: frozenset[int]
    sure: frozenset[int]
    cut: list[int]


def table(automaton: Nfa) -> Table:
    """Return the table of a DFA."""
    states = automaton.num_states
    full = np.full((states, 256), -1)
    for source, low, high, target in automaton.edges.tolist():
        full[source, low : high + 1] = target
    sure = list[int]()
    for state in sorted({int(t) for t in full[:, BEGIN] if t >= 0}):
        rest = Nfa(states, automaton.edges, NO_EPSILONS, np.array([state]), automaton.accept)
        if dfa.difference(utf8.text(), rest).is_empty:
            sure.append(state)
    all_sure = np.flatnonzero(reachable(automaton.edges[:, [0, 3]], np.array(sure, np.int64), states))
    return Table(
        full.tolist(),
        [(np.flatnonzero(np.diff(row)) + 1).tolist() for row in full],
        int(automaton.start[0]) if states else -1,
        frozenset(automaton.accept.tolist()),
        frozenset(all_sure.tolist()),
        full[:, BEGIN].tolist(),
    )


Duty = tuple[int, int, bool]  # an assertion, the state of its table, whether it was guessed to hold
State = tuple[str, tuple[int, ...], int, tuple[int, ...], frozenset[Duty]]


class First:
    """The construction of the automaton of ``first``.

    A state is: phase ("before", "within" or "after" the match); threads; state within a UTF-8 character; the state of each
    assertion's table after the text so far; duties, the open guesses about assertions at earlier positions.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.text = table(utf8.text())
        self.tables = [table(a) for a in program.assertions]

    def relation(self, beside: bool) -> Nfa:
        """Return ``first``; without ``beside`` only for texts that begin with the match, without ``⟨``."""
        begin = tuple(t.start for t in self.tables)
        fresh: State = ("before", (), self.text.start, begin, frozenset())
        starts = [fresh] if beside else self.begin(fresh)
        number = {state: i for i, state in enumerate(dict.fromkeys(starts))}
        queue, edges, accept = list(number), list[tuple[int, int, int, int]](), list[int]()

        def at(state: State) -> int:
            if state not in number:
                number[state] = len(number)
                queue.append(state)
                check_limit(len(number), limits.PART_STATES)
            return number[state]

        for state in queue:
            source, (phase, ways, within, _, duties) = number[state], state
            whole = within in self.text.accept
            if whole and phase == "before":
                edges += [(source, BEGIN, BEGIN, at(then)) for then in self.begin(state)]
            if whole and phase == "within" and atomic.END in ways:
                after = tuple(sorted(ways[: ways.index(atomic.END)]))
                edges.append((source, END, END, at(("after", after, *state[2:]))))
            if (
                whole
                and phase == "after"
                and all((q in self.tables[k].accept) == sign for k, q, sign in duties)
            ):
                accept.append(source)
            for low, high in self.ranges(state):
                edges += [(source, low, high, at(then)) for then in self.step(state, low)]
        rows = np.array(edges, np.int64).reshape(-1, 4)
        begins = np.arange(len(dict.fromkeys(starts)))
        return Nfa(len(number), rows, NO_EPSILONS, begins, np.array(accept, np.int64)).plain

    def begin(self, state: State) -> list[State]:
        """Return the states in which a match begins here."""
        return self.opened("within", (self.program.entry,), *state[2:])

    def opened(
        self, phase: str, nodes: tuple[int, ...], within: int, read: tuple[int, ...], duties: frozenset[Duty]
    ) -> list[State]:
        """Return the states between two characters, one for each possible outcome of the assertions."""
        options: list[list[tuple[bool, frozenset[Duty]]]] = []
        met = {self.program.tests[node] for node in self.program.reach(nodes) if node in self.program.tests}
        for k, t in enumerate(self.tables):
            if k not in met:
                options.append([(False, frozenset())])
                continue
            place = t.cut[read[k]] if read[k] >= 0 else -1
            if place < 0 or place in t.sure:
                options.append([(place >= 0, frozenset())])
            else:
                options.append([(sign, frozenset([(k, place, sign)])) for sign in (True, False)])
        found = dict[State, None]()
        for chosen in itertools.product(*options):
            ways = self.program.open(nodes, [sign for sign, _ in chosen])
            if phase == "after":
                if atomic.END in ways:
                    continue
                ways = tuple(sorted(ways))
            if ways or phase == "after":
                found[phase, ways, within, read, duties.union(*(more for _, more in chosen))] = None
        return list(found)

    def ranges(self, state: State) -> list[tuple[int, int]]:
        """Return the next byte ranges in which all bytes act alike; within a match some thread reads them."""
        phase, ways, within, read, duties = state
        cuts = {0, 256, *self.text.changes[within]}
        cuts.update(*(t.changes[q] for t, q in zip(self.tables, read, strict=True) if q >= 0))
        cuts.update(*(self.tables[k].changes[q] for k, q, _ in duties))
        reads = {(low, high) for way in ways for low, high, _ in self.program.edges[way]}
        cuts.update(edge for low, high in reads for edge in (low, high + 1))
        found = [(a, b - 1) for a, b in itertools.pairwise(sorted(cuts)) if self.text.rows[within][a] >= 0]
        if phase == "within":
            found = [(a, b) for a, b in found if any(low <= a <= high for low, high in reads)]
        spend(10 + 2 * len(found) * (4 + len(ways) + len(duties)))
        return found

    def step(self, state: State, byte: int) -> list[State]:
        """Return the states after a byte."""
        phase, ways, within, read, duties = state
        within = self.text.rows[within][byte]
        read = tuple(t.rows[q][byte] if q >= 0 else -1 for t, q in zip(self.tables, read, strict=True))
        onward = set[Duty]()
        for k, q, sign in duties:
            q = self.tables[k].rows[q][byte]
            if q >= 0 and q not in self.tables[k].sure:
                onward.add((k, q, sign))
            elif (q >= 0) != sign:
                return []
        if phase == "before":
            return [(phase, (), within, read, frozenset(onward))]
        kept = ways[: ways.index(atomic.END)] if atomic.END in ways else ways
        onto = (node for way in kept for low, high, node in self.program.edges[way] if low <= byte <= high)
        nodes = tuple(dict.fromkeys(onto))
        if within not in self.text.accept:
            return [(phase, nodes, within, read, frozenset(onward))] if nodes or phase == "after" else []
        return self.opened(phase, nodes, within, read, frozenset(onward))
