"""Basic machines: a DFA, a text, a lazy automaton; choices, sequences and repeats of machines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from . import request_limits
from .arrays import ragged_arange
from .graphs import Graph, of_automaton
from .lazy import Flags, LazyAutomaton, Numbers, Pattern, PatternTable
from .nfa import Nfa
from .region import Local, Machine, Region

FREE = 20  # bytes that a state of free text reads, at least
MOST_TABLE = 1 << 24  # entries of an array of transitions
EDGES = 1 << 16  # edges that are written out together


class DfaMachine(Region):
    """The language of a deterministic, trimmed byte automaton; the local state is its state."""

    def __init__(self, nfa: Nfa) -> None:
        self.nfa = nfa
        self._edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
        self._begin = np.searchsorted(self._edges[:, 0], np.arange(nfa.num_states + 1))
        self._moves: dict[int, list[tuple[int, int, int]]] = {}
        self._ends = frozenset(nfa.accept.tolist())

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
        """See ``Machine.longest``."""
        return max(self._sizes)

    @cached_property
    def ends_with(self) -> bytes | None:  # type: ignore[override]
        """See ``Machine.ends_with``."""
        if int(self.nfa.start[0]) in self._ends:
            return None
        last = set[int]()
        for _, low, high, to in self._edges.tolist():
            if to in self._ends:
                last.update(range(low, high + 1))
        return bytes(sorted(last))

    def start(self) -> Local:
        return int(self.nfa.start[0])

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = self._moves.get(local)
        if found is None:
            rows = self._edges[self._begin[local] : self._begin[local + 1], 1:].tolist()
            found = self._moves[local] = list(map(tuple, rows))
        return found

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        out = bytearray()
        while local not in self._ends and len(moves := self.moves(local)) == 1 and moves[0][0] == moves[0][1]:
            out.append(moves[0][0])
            local = moves[0][2]
        return (bytes(out), local) if out else None

    def final(self, local: Local) -> bool:
        return local in self._ends

    @cached_property
    def _is_large(self) -> bool:
        """Whether the transitions take too much memory as an array."""
        return self.nfa.num_states * (int(self.nfa.byte_class.max()) + 1) > MOST_TABLE

    def pattern(self, local: Local) -> Pattern | None:
        if sum([high - low + 1 for low, high, _ in self.moves(local)]) < FREE or self._is_large:
            return None
        return Pattern(
            self._table, local, None, -1, None, always, lambda state, letters: state, self._dead_ends
        )

    @cached_property
    def _table(self) -> PatternTable:
        """The transitions as an array."""
        size, classes = self.nfa.num_states, self.nfa.byte_class
        one_each = np.unique(classes, return_index=True)[1]  # a byte of each class
        width = len(one_each)
        after = np.full((size + 1, width), size, np.int32)
        for begin in range(0, len(self._edges), EDGES):
            source, low, high, target = self._edges[begin : begin + EDGES].T
            first, end = np.searchsorted(one_each, low), np.searchsorted(one_each, high + 1)
            count = end - first
            place = np.repeat(source * width, count) + ragged_arange(first, count)
            after.ravel()[place] = np.repeat(target, count)
        return PatternTable(after, np.ones(size, bool), classes)

    @cached_property
    def _dead_ends(self) -> Flags | None:
        """The final states, if no text goes on after one; otherwise ``None``."""
        found = np.zeros(self.nfa.num_states + 1, bool)
        found[self.nfa.accept] = True
        return None if found[self._edges[:, 0]].any() else found

    def graph(self, most: int) -> Graph:
        return of_automaton(self.nfa)

    def completion(self, local: Local) -> bytes:
        onward, out = self.nfa.to_accept[1], bytearray()
        while local not in self._ends:
            if not len(out) % 4096:
                request_limits.check()
            target = int(onward[local])
            out.append(next(low for low, _, to in self.moves(local) if to == target))
            local = target
        return bytes(out)

    def completion_size(self, local: Local) -> int:
        return self._sizes[local]

    @cached_property
    def _sizes(self) -> list[int]:
        """``completion_size`` by state; 0 where the end is out of reach."""
        reached, onward = self.nfa.to_accept
        found = [0] * (self.nfa.num_states + 1)
        for state in reached.tolist():
            if state not in self._ends:
                found[state] = found[int(onward[state])] + 1
        return found


def always(state: Numbers, letters: Numbers) -> Flags:
    """Return True for each state."""
    return np.ones(len(state), bool)


def shortest_words(moves: dict[int, list[tuple[int, int, int]]], ends: frozenset[int]) -> dict[int, bytes]:
    """Return the shortest text from each state to an accepting one, by a backward search."""
    before: dict[int, list[tuple[int, int]]] = {}
    for source, found in moves.items():
        for low, _, target in found:
            before.setdefault(target, []).append((source, low))
    shortest = dict.fromkeys(ends, b"")
    layer = list(ends)
    while layer:
        later = []
        for target in layer:
            for source, byte in before.get(target, ()):
                if source not in shortest:
                    shortest[source] = bytes([byte]) + shortest[target]
                    later.append(source)
        layer = later
    return shortest


class TextMachine(Region):
    """Exactly one text, not empty; the local state is the number of bytes read."""

    def __init__(self, text: bytes) -> None:
        self.text, self.ends_with, self.longest = text, text[-1:], len(text)

    def start(self) -> Local:
        return 0

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        return (self.text[local:], len(self.text)) if local < len(self.text) else None

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        at: int = local
        return ((self.text[at], self.text[at], at + 1),) if at < len(self.text) else ()

    def final(self, local: Local) -> bool:
        return bool(local == len(self.text))

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        return "bytes", self.text[local:]

    def completion(self, local: Local) -> bytes:
        return self.text[local:]


class Caller(Region):
    """A machine that reads nothing itself: it begins in local state 0 and calls others."""

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
        """See ``Machine.longest``."""
        return len(self.completion(self.start()))

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return ()

    def completion(self, local: Local) -> bytes:
        raise NotImplementedError(f"{type(self).__name__} has no completion: a machine must define one")


class Choice(Caller):
    """The union of the texts of some machines; the local state is 0 before and 1 after one."""

    def __init__(self, options: Sequence[Machine]) -> None:
        self.options = tuple(options)

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return tuple((option, 1) for option in self.options) if local == 0 else ()

    def final(self, local: Local) -> bool:
        return bool(local == 1)

    def completion(self, local: Local) -> bytes:
        if local:
            return b""
        return min((option.completion(option.start()) for option in self.options), key=len)


class Concatenation(Caller):
    """The texts of some machines in a row; the local state counts those that have ended."""

    def __init__(self, parts: Sequence[Machine]) -> None:
        self.parts = tuple(parts)

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        at: int = local
        return ((self.parts[at], at + 1),) if at < len(self.parts) else ()

    def final(self, local: Local) -> bool:
        return bool(local == len(self.parts))

    def completion(self, local: Local) -> bytes:
        return b"".join([part.completion(part.start()) for part in self.parts[local:]])


class Repetition(Caller):
    """Between ``low`` and ``high`` texts of a machine in a row (``None``: any number).

    The local state counts the texts read; without ``high`` it stops at ``low``.
    """

    def __init__(self, part: Machine, low: int, high: int | None) -> None:
        self.part, self.low, self.high = part, low, high

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if self.high is None:
            return ((self.part, min(local + 1, self.low)),)
        return ((self.part, local + 1),) if local < self.high else ()

    def final(self, local: Local) -> bool:
        return bool(local >= self.low)

    def completion(self, local: Local) -> bytes:
        left: int = self.low - local
        return self.part.completion(self.part.start()) * max(0, left)

    def coarse(self, level: int) -> Machine:
        return Repetition(self.part, 0, None) if level else self


class LazyMachine(Region):
    """A lazy automaton as a machine; its configurations are the local states."""

    def __init__(self, automaton: LazyAutomaton) -> None:
        self.automaton = automaton

    def start(self) -> Local:
        return self.automaton.start()

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return self.automaton.moves(local)

    def final(self, local: Local) -> bool:
        return self.automaton.accepting(local)

    def completion(self, local: Local) -> bytes:
        return self.automaton.completion(local)

    def view(self, local: Local, reach: int) -> Any:
        return self.automaton.view(local, reach)
