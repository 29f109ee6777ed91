"""A deterministic byte automaton as it is quick to read: byte by byte, word by word, many states at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..vocabulary.trie import Trie
from .nfa import Nfa

FEW = 16  # edges that are looked at one by one


class Dfa:
    """A deterministic automaton with its edges by source and lowest byte."""

    def __init__(self, nfa: Nfa) -> None:
        edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
        self.num_states, self.edges = nfa.num_states, edges
        self.nfa = nfa
        self.source, self.low, self.high, self.target = (np.ascontiguousarray(c) for c in edges.T)
        self.key = self.source * 256 + self.low
        self.pointer = np.concatenate([[0], np.cumsum(np.bincount(self.source, minlength=self.num_states))])
        self._moves: dict[int, dict[int, int]] = {}
        self.views = tuple(
            x.data for x in (self.pointer, self.low, self.high, self.target)
        )  # to read one by one

    @cached_property
    def most(self) -> tuple[Int[ndarray, " state"], Int[ndarray, " state"]]:
        """For each state, the target that takes most bytes, and how many: continuation bytes not counted."""
        return most(self.nfa)

    def moves(self, state: int) -> dict[int, int]:
        """The state after each byte."""
        found = self._moves.get(state)
        if found is None:
            found = {}
            pointer, low, high, target = self.views
            for edge in range(pointer[state], pointer[state + 1]):
                first, last = low[edge], high[edge]
                if first == last:
                    found[first] = target[edge]
                else:
                    found.update(dict.fromkeys(range(first, last + 1), target[edge]))
            self._moves[state] = found
        return found

    def after(self, state: int, byte: int) -> int:
        """The state after a byte, −1 if there is none."""
        found = self._moves.get(state)
        if found is not None:
            return found.get(byte, -1)
        pointer, low, high, target = self.views
        a = pointer[state]
        edge = bisect_right(low, byte, a, pointer[state + 1]) - 1
        return target[edge] if edge >= a and high[edge] >= byte else -1

    def common(self, state: int, children: dict[int, int]) -> list[tuple[int, int]]:
        """(state after a byte, child by that byte) for the bytes that have both."""
        moves = self._moves.get(state)
        if moves is None:
            pointer, low, high, target = self.views
            edge = pointer[state]
            if pointer[state + 1] - edge == 1 and (byte := low[edge]) == high[edge]:
                return [(target[edge], children[byte])] if byte in children else []
            if len(children) <= 4:
                after = self.after
                return [(to, child) for byte, child in children.items() if (to := after(state, byte)) >= 0]
            moves = self.moves(state)
        if len(moves) < len(children):
            return [(moves[b], children[b]) for b in moves if b in children]
        return [(moves[b], child) for b, child in children.items() if b in moves]

    def below(self, state: int, trie: Trie, node: int) -> list[tuple[int, int]]:
        """(state after a byte, child of the node by that byte) for the bytes that have both."""
        pointer, low, high, target = self.views
        edge, end = pointer[state], pointer[state + 1]
        if end - edge > FEW:
            return self.common(state, trie.children(node))
        first, letters = trie.views.first, trie.letters
        begin, stop, find = first[node], first[node + 1], letters.find
        found = []
        while edge < end:
            byte, last, there = low[edge], high[edge], target[edge]
            if byte == last:
                if (child := find(byte, begin, stop)) >= 0:
                    found.append((there, child))
            else:  # children are in the order of their bytes
                child = bisect_left(letters, byte, begin, stop)
                while child < stop and letters[child] <= last:
                    found.append((there, child))
                    child += 1
            edge += 1
        return found

    def run(self, state: int, word: bytes) -> int:
        """The state after a word, −1 if there is none."""
        for byte in word:
            state = self.after(state, byte)
            if state < 0:
                return -1
        return state

    def step(
        self, state: Int[ndarray, " n"], byte: Int[ndarray, " n"] | int
    ) -> tuple[Int[ndarray, " n"], Int[ndarray, " n"]]:
        """(state after the byte or −1, last byte of the range that it is in)."""
        at = np.searchsorted(self.key, state * 256 + byte, side="right") - 1
        found = (at >= 0) & (self.source[at] == state) & (self.high[at] >= byte) & (state >= 0)
        return np.where(found, self.target[at], -1), self.high[at]


def most(nfa: Nfa) -> tuple[Int[ndarray, " state"], Int[ndarray, " state"]]:
    """See :attr:`Dfa.most`."""
    target, width = np.full(nfa.num_states, -1), np.zeros(nfa.num_states, np.int64)
    if not len(nfa.edges):
        return target, width
    source, low, high, there = nfa.edges.T
    pair = source * nfa.num_states + there
    if not bool((pair[1:] >= pair[:-1]).all()):
        order = np.argsort(pair, kind="stable")
        pair, low, high = pair[order], low[order], high[order]
    byte = np.arange(256)
    below = np.concatenate([[0], np.cumsum((byte < 0x80) | (byte >= 0xC0))])
    count = below[high + 1] - below[low]
    head = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    total = np.add.reduceat(count, head)
    state = pair[head] // nfa.num_states
    there = pair[head] - state * nfa.num_states
    first = np.concatenate([[True], state[1:] != state[:-1]])
    largest = np.maximum.reduceat(total, np.flatnonzero(first))[np.cumsum(first) - 1]
    best = np.flatnonzero(total == largest)[::-1]  # the first one is written last
    target[state[best]], width[state[best]] = there[best], total[best]
    return target, width
