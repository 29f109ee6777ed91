"""The insides of strings as machines: free text with a counter, patterns, and patterns whose letters are counted.

(letter state, letters so far)        free text; a letter counts when it begins
(automaton state, letters so far)     a pattern with bounds; a letter counts when it ends
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ...automata import dfa
from ...automata.epsilon import NO_SKIPS
from ...automata.lazy import Letters
from ...automata.machines import DfaMachine, shortest_words
from ...automata.nfa import Nfa
from ...automata.stack import Local, LocalBody, Machine, Region
from .. import strings
from ..patterns import BODY
from ..shapes import Strings

QUOTE = 34
Rows = dict[int, list[tuple[int, int, int]]]
"""By state: (low, high, state after such a byte), in the order of the bytes."""


def rows_of(nfa: Nfa) -> Rows:
    """The edges of a deterministic automaton by state."""
    edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
    found: Rows = {}
    for source, low, high, target in edges.tolist():
        found.setdefault(source, []).append((low, high, target))
    return found


def merged_rows(moves: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """The same moves, neighbours with one target joined."""
    found: list[tuple[int, int, Any]] = []
    for low, high, target in moves:
        if found and found[-1][1] == low - 1 and found[-1][2] == target:
            found[-1] = (found[-1][0], high, target)
        else:
            found.append((low, high, target))
    return found


# ---------------------------------------------------------------- letters

_letters: dict[tuple[tuple[int, int, int, int], ...], Letters] = {}


def letters_of(rows: Callable[[int], Sequence[tuple[int, int, int]]], start: int) -> Letters:
    """The letters between two visits of a state, one object for each set of letters."""
    order, number = [start], {start: 0}
    edges = []
    for state in order:
        moves = []
        for low, high, target in rows(state):
            if target not in number:
                number[target] = len(order)
                order.append(target)
            moves.append((low, high, number[target]))
        edges += [(number[state], low, high, to) for low, high, to in merged_rows(moves)]
    key = tuple(edges)
    if key not in _letters:
        zero = np.array([0], np.int64)
        _letters[key] = Letters(Nfa(len(order), np.array(edges, np.int64), NO_SKIPS, zero, zero), "json")
    return _letters[key]


_body_start = int(BODY.start[0])
LETTERS = letters_of(rows_of(BODY).__getitem__, _body_start)
"""The characters of JSON strings as they may be written."""
LETTER_ROWS = rows_of(LETTERS.nfa)
FINISH = shortest_words(LETTER_ROWS, frozenset([0]))
"""By state within a letter: the shortest end of it."""
TABLE = [[-1] * 256 for _ in range(BODY.num_states)]
"""By state of ``BODY``: the state after each byte."""
for _source, _low, _high, _target in BODY.edges.tolist():
    TABLE[_source][_low : _high + 1] = [_target] * (_high + 1 - _low)


# ---------------------------------------------------------------- machines


class FreeText(Region):
    """Any ``least`` to ``most`` letters (``None``: any number)."""

    def __init__(self, least: int, most: int | None) -> None:
        self.least, self.most = least, most

    def start(self) -> Local:
        return (0, 0)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        state, count = local
        if not state:
            if self.most is None:
                count = min(count + 1, self.least)
            elif count < self.most:
                count += 1
            else:
                return ()
        return [(low, high, (target, count)) for low, high, target in LETTER_ROWS[state]]

    def final(self, local: Local) -> bool:
        return bool(not local[0] and local[1] >= self.least)

    def completion(self, local: Local) -> bytes:
        state, count = local
        need: int = self.least - count
        return (FINISH[state] if state else b"") + b"a" * need

    def body(self, local: Local) -> LocalBody | None:
        state, count = local
        if state or count == self.most:
            return None
        if self.most is None:
            return LocalBody(LETTERS, None, b"", max(1, self.least - count))
        return LocalBody(LETTERS, self.most - count, b"", None)

    def after_letters(self, local: Local, count: int) -> Local:
        after = local[1] + count
        return (0, min(after, self.least) if self.most is None else after)

    def view(self, local: Local, reach: int) -> Any:
        state, count = local
        left = -1 if self.most is None else min(self.most - count, reach)
        return state, min(max(self.least - count, 0), reach), left


class PatternText(DfaMachine):
    """The texts of a deterministic automaton of insides, which knows the states whose letters all lead back to them."""

    def __init__(self, nfa: Nfa) -> None:
        super().__init__(nfa)
        self._loops: dict[int, LocalBody | None] = {}

    @cached_property
    def between(self) -> frozenset[int]:
        """The states between two letters."""
        return frozenset(state for state, phase in (self.phases or {}).items() if phase == _body_start)

    @cached_property
    def phases(self) -> dict[int, int] | None:
        """For each state where in a letter it is: a state of ``BODY``; ``None`` if a state is in two places."""
        start = int(self.nfa.start[0])
        rows: Rows = rows_of(self.nfa)
        found, queue = {start: _body_start}, [start]
        for state in queue:
            phases = TABLE[found[state]]
            for byte, _, target in rows.get(state, ()):
                phase = found.get(target)
                if phase is None:
                    found[target] = phases[byte]
                    queue.append(target)
                elif phase != phases[byte]:
                    return None
        return found

    def loop(self, state: int) -> LocalBody | None:
        """The body of a state whose letters all lead back to it."""
        if state not in self._loops:
            self._loops[state] = self._loop(state)
        return self._loops[state]

    def _loop(self, state: int) -> LocalBody | None:
        if state not in self.between or not self.moves(state):
            return None
        queue, seen = [state], {state}
        for inner in queue:
            for _, _, target in self.moves(inner):
                if target not in seen:
                    if target in self.between:
                        return None
                    seen.add(target)
                    queue.append(target)
        return LocalBody(letters_of(self.moves, state), None)

    def body(self, local: Local) -> LocalBody | None:
        return self.loop(local)

    def after_letters(self, local: Local, count: int) -> Local:
        return local


class CountedPattern(Region):
    """The texts of a pattern that have ``least`` to ``most`` letters; a state stays while the right number can be reached."""

    def __init__(self, shape: Strings) -> None:
        self.least, self.most = shape.least, shape.most
        found = strings.every(shape.atoms, shape.but)
        self.text = PatternText(found)
        if self.text.phases is None:
            self.text = PatternText(dfa.intersect(found, BODY))
        assert self.text.phases is not None
        self.between = self.text.between
        self._live: dict[tuple[int, int], bool] = {}

    @cached_property
    def fewest(self) -> dict[int, int]:
        """By state: the fewest letters that end from there to acceptance."""
        before: dict[int, list[int]] = {}
        for source, target in dict.fromkeys(map(tuple, self.text.nfa.edges[:, [0, 3]].tolist())):
            before.setdefault(target, []).append(source)
        fewest = dict.fromkeys(self.text.nfa.accept.tolist(), 0)
        queue = deque(fewest)
        while queue:  # breadth first, where only moves into a state between letters count
            target = queue.popleft()
            step = int(target in self.between)
            for source in before.get(target, ()):
                if fewest[target] + step < fewest.get(source, 1 << 60):
                    fewest[source] = fewest[target] + step
                    (queue.append if step else queue.appendleft)(source)
        return fewest

    def live(self, state: int, count: int) -> bool:
        """Whether the right number of letters can be reached."""
        known = self.known(state, count)
        if known is not None:
            return known
        stack = [(state, count)]
        while stack:  # depth first: more letters than the fewest are needed
            here = stack[-1]
            onward = self.onward(*here)
            answers = [self.known(*there) for there in onward]
            if True in answers:
                self._live[here] = True
            elif None in answers:
                stack.append(onward[answers.index(None)])
                continue
            else:
                self._live[here] = False
            stack.pop()
        return self._live[state, count]

    def known(self, state: int, count: int) -> bool | None:
        """The same, if it is known."""
        fewest = self.fewest[state]
        if count + fewest >= self.least:
            return self.most is None or count + fewest <= self.most
        return self._live.get((state, count))

    def onward(self, state: int, count: int) -> list[tuple[int, int]]:
        """The states after one byte, with the letters so far."""
        return [(target, self.counted(target, count)) for _, _, target in self.text.moves(state)]

    def counted(self, target: int, count: int) -> int:
        """The letters at a state that is entered."""
        if target not in self.between:
            return count
        return min(count + 1, self.least) if self.most is None else count + 1

    def start(self) -> Local:
        return (int(self.text.nfa.start[0]), 0)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        state, count = local
        found = []
        for low, high, target in self.text.moves(state):
            after = self.counted(target, count)
            if self.live(target, after):
                found.append((low, high, (target, after)))
        return found

    def final(self, local: Local) -> bool:
        state, count = local
        return count >= self.least and self.text.final(state)

    def completion(self, local: Local) -> bytes:
        out = bytearray()
        while not self.final(local):
            ways = []
            for low, _, after in self.moves(local):
                needed = max(self.fewest[after[0]], self.least - after[1])
                ways.append((needed, after[0] not in self.between, low, after))
            _, _, byte, local = min(ways)
            out.append(byte)
        return bytes(out)

    def body(self, local: Local) -> LocalBody | None:
        state, count = local
        found = self.text.loop(state) if self.text.final(state) else None
        if found is None or count == self.most:
            return None
        if self.most is None:
            return found._replace(settled=max(1, self.least - count))
        return found._replace(most=self.most - count, settled=None)

    def after_letters(self, local: Local, count: int) -> Local:
        after = local[1] + count
        return (local[0], min(after, self.least) if self.most is None else after)

    def view(self, local: Local, reach: int) -> Any:
        state, count = local
        if self.text.loop(state) is None or not self.text.final(state):
            return local
        left = -1 if self.most is None else min(self.most - count, reach)
        return state, min(max(self.least - count, 0), reach), left


class Quoted(Region):
    """A machine of insides between quotes."""

    def __init__(self, inside: Machine) -> None:
        self.inside = inside

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        if local in (0, 1):
            return () if local else ((QUOTE, QUOTE, (self.inside.start(),)),)
        (inner,) = local
        found = [(low, high, (after,)) for low, high, after in self.inside.moves(inner)]
        if self.inside.final(inner):
            at = bisect_left(found, QUOTE, key=lambda move: move[0])
            found.insert(at, (QUOTE, QUOTE, 1))  # type: ignore[arg-type]
        return found

    def reads(self, local: Local) -> bool:
        return bool(local != 1)

    def final(self, local: Local) -> bool:
        return bool(local == 1)

    def completion(self, local: Local) -> bytes:
        if local == 1:
            return b""
        if local == 0:
            return b'"' + self.inside.completion(self.inside.start()) + b'"'
        return self.inside.completion(local[0]) + b'"'

    def body(self, local: Local) -> LocalBody | None:
        return None if local in (0, 1) else self.inside.body(local[0])

    def after_letters(self, local: Local, count: int) -> Local:
        return (self.inside.after_letters(local[0], count),)

    def view(self, local: Local, reach: int) -> Any:
        return local if local in (0, 1) else (self.inside.view(local[0], reach),)


@lru_cache(maxsize=1024)
def inside(shape: Strings) -> Machine:
    """The machine of the insides of a shape that some string has."""
    if shape.among is not None:
        return DfaMachine(strings.body(shape))
    if not shape.atoms and not shape.but:
        return FreeText(shape.least, shape.most)
    if not shape.least and shape.most is None:
        return PatternText(strings.body(shape))
    return CountedPattern(shape)


@lru_cache(maxsize=1024)
def quoted(shape: Strings) -> Machine:
    """The machine of the texts of a shape that some string has."""
    return Quoted(inside(shape))


@lru_cache(maxsize=4096)
def shortest_string(shape: Strings) -> bytes | None:
    """A short text of a shape, ``None`` if no string has it."""
    if not shape.atoms and shape.among is None:
        if not shape.but:
            return b'"' + b"a" * shape.least + b'"'
        if shape.most is None or shape.most > 2:
            text, size = "a" * shape.least, shape.least
            while text in shape.but and (shape.most is None or size < shape.most):
                size += 1
                text = "a" * size
            if text not in shape.but:
                return b'"' + text.encode() + b'"'
    if shape.among is not None or (not shape.least and shape.most is None):
        if strings.empty(shape):
            return None
    elif strings.every(shape.atoms, shape.but).is_empty:
        return None
    else:
        counted = inside(shape)
        assert isinstance(counted, CountedPattern)
        if not counted.live(*counted.start()):
            return None
    machine = quoted(shape)
    return machine.completion(machine.start())
