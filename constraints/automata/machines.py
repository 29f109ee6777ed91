"""Machines that read a finite automaton's language, a text, or one machine after another."""

from __future__ import annotations

from collections.abc import Sequence

from .nfa import Nfa
from .stack import Local, Machine, Region


class DfaMachine(Region):
    """The language of a deterministic, trimmed byte automaton; the local state is its state."""

    def __init__(self, nfa: Nfa) -> None:
        self.nfa = nfa
        edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
        self._moves: dict[int, list[tuple[int, int, int]]] = {}
        for source, low, high, target in edges.tolist():
            self._moves.setdefault(source, []).append((low, high, target))
        self._ends = frozenset(nfa.accept.tolist())
        last = {
            byte for _, low, high, to in edges.tolist() if to in self._ends for byte in range(low, high + 1)
        }
        self.ends_with = None if int(nfa.start[0]) in self._ends else bytes(sorted(last))
        self._shortest: dict[int, bytes] | None = None

    def start(self) -> Local:
        return int(self.nfa.start[0])

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return self._moves.get(local, ())

    def final(self, local: Local) -> bool:
        return local in self._ends

    def completion(self, local: Local) -> bytes:
        if self._shortest is None:
            self._shortest = shortest_words(self._moves, self._ends)
        return self._shortest[local]


def shortest_words(moves: dict[int, list[tuple[int, int, int]]], ends: frozenset[int]) -> dict[int, bytes]:
    """The shortest text from each state to an accepting one, found backwards, all states of one length at a time."""
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
        self.text, self.ends_with = text, text[-1:]

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        at: int = local
        return ((self.text[at], self.text[at], at + 1),) if at < len(self.text) else ()

    def final(self, local: Local) -> bool:
        return bool(local == len(self.text))

    def completion(self, local: Local) -> bytes:
        return self.text[local:]


class Choice(Region):
    """The texts of any one of some machines."""

    def __init__(self, options: Sequence[Machine]) -> None:
        self.options = tuple(options)

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return ()

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return tuple((option, 1) for option in self.options) if local == 0 else ()

    def final(self, local: Local) -> bool:
        return bool(local == 1)

    def completion(self, local: Local) -> bytes:
        if local:
            return b""
        return min((option.completion(option.start()) for option in self.options), key=len)


class Concatenation(Region):
    """The texts of some machines, one after another; the local state is how many have ended."""

    def __init__(self, parts: Sequence[Machine]) -> None:
        self.parts = tuple(parts)

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return ()

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        at: int = local
        return ((self.parts[at], at + 1),) if at < len(self.parts) else ()

    def final(self, local: Local) -> bool:
        return bool(local == len(self.parts))

    def completion(self, local: Local) -> bytes:
        return b"".join([part.completion(part.start()) for part in self.parts[local:]])
