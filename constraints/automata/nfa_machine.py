"""A machine that reads an NFA by the subset construction, on demand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .nfa import Nfa
from .region import Local, Region


class NfaMachine(Region):
    """A trimmed, epsilon-free byte automaton as a machine; a local state is a set of states."""

    def __init__(self, nfa: Nfa) -> None:
        self.nfa, self._ends = nfa, frozenset(nfa.accept.tolist())
        self._edges: dict[int, list[tuple[int, int, int]]] = {}
        for source, low, high, target in nfa.edges.tolist():
            self._edges.setdefault(source, []).append((low, high, target))
        self._moves: dict[frozenset[int], list[tuple[int, int, Local]]] = {}

    def start(self) -> Local:
        return frozenset(self.nfa.start.tolist())

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = self._moves.get(local)
        if found is None:
            edges = [edge for state in local for edge in self._edges.get(state, ())]
            cuts = sorted({low for low, _, _ in edges} | {high + 1 for _, high, _ in edges})
            found = self._moves[local] = []
            for low, end in pairwise(cuts):
                if to := frozenset([target for a, b, target in edges if a <= low <= b]):
                    found.append((low, end - 1, to))
        return found

    def final(self, local: Local) -> bool:
        return not self._ends.isdisjoint(local)

    def completion(self, local: Local) -> bytes:
        nearest, onward = self.nfa.to_accept
        state, out = next(state for state in nearest.tolist() if state in local), bytearray()
        while state not in self._ends:
            target = int(onward[state])
            out.append(next(low for low, _, to in self._edges[state] if to == target))
            state = target
        return bytes(out)
