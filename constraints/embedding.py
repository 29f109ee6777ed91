"""Where the letters of cells are found in a deterministic byte automaton.

A state between two letters follows a cell if its bytes lead where the cell's do, all letters ending in one state, the
*next*. It may differ on a few bytes, its *exceptions*: a closing quote, or the first letters of a name that is treated
apart. A state whose exceptions begin no letter is *pure*. Cells are guessed from the automaton, and every state is checked
against its cell, edge by edge, before it is said to follow it.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

import numpy as np
from jaxtyping import Int, Int16
from numpy import ndarray

from .arrays import spans
from .cells import MAX_CELLS, Cell, Cells
from .nfa import Nfa

MAX_LOCAL, MAX_DEPTH = 400, 13  # states of a letter; bytes of one: \ud83d\ude00 has twelve
MIN_WIDTH = 4  # bytes with one target, for a state to be looked at


class Dfa:
    """A deterministic automaton with its edges by source and lowest byte."""

    def __init__(self, nfa: Nfa) -> None:
        edges = nfa.edges
        self.key = edges[:, 0] * 256 + edges[:, 1]
        if len(edges) and not bool((self.key[1:] > self.key[:-1]).all()):
            order = np.argsort(self.key, kind="stable")  # mostly in order
            edges, self.key = edges[order], self.key[order]
        self.num_states = nfa.num_states
        self._nfa = nfa
        self.source, self.low, self.high, self.target = (np.ascontiguousarray(c) for c in edges.T)
        self.pointer = np.searchsorted(self.source, np.arange(self.num_states + 1))
        self._moves: dict[int, dict[int, int]] = {}
        self._views = tuple(
            x.data for x in (self.pointer, self.low, self.high, self.target)
        )  # to read one by one

    @cached_property
    def most(self) -> tuple[Int[ndarray, " state"], Int[ndarray, " state"]]:
        """For each state, the target that takes most bytes, and how many: continuation bytes not counted."""
        return most(self._nfa)

    def moves(self, state: int) -> dict[int, int]:
        """The state after each byte."""
        found = self._moves.get(state)
        if found is None:
            found = {}
            pointer, low, high, target = self._views
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
        pointer, low, high, target = self._views
        a = pointer[state]
        edge = bisect_right(low, byte, a, pointer[state + 1]) - 1
        return target[edge] if edge >= a and high[edge] >= byte else -1

    def common(self, state: int, children: dict[int, int]) -> list[tuple[int, int]]:
        """(state after a byte, child by that byte) for the bytes that have both."""
        moves = self._moves.get(state)
        if moves is None:
            pointer, low, high, target = self._views
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
    count = np.maximum(np.minimum(high, 0x7F) - low + 1, 0) + np.maximum(high - np.maximum(low, 0xC0) + 1, 0)
    head = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    total, (state, there) = np.add.reduceat(count, head), np.divmod(pair[head], nfa.num_states)
    first = np.concatenate([[True], state[1:] != state[:-1]])
    largest = np.maximum.reduceat(total, np.flatnonzero(first))[np.cumsum(first) - 1]
    best = np.flatnonzero(total == largest)[::-1]  # the first one is written last
    target[state[best]], width[state[best]] = there[best], total[best]
    return target, width


class Embedding:
    """Which states of an automaton follow which cell: filled in as states are asked for.

    Of a state s: ``cell[s]`` (an index into ``cells``, −1 for none), ``local[s]``, ``next[s]`` the state after the letter,
    ``depth[s]`` how many of the states from there on, in a row, are pure and follow the same cell.
    """

    def __init__(self, dfa: Dfa, known: Cells) -> None:
        self.dfa, self.known = dfa, known
        n = dfa.num_states
        self.cells: list[Cell] = []
        self.cell, self.local = np.full(n, -1), np.zeros(n, np.int64)
        self.next, self.depth = np.full(n, -1), np.zeros(n, np.int64)
        self.pure = np.zeros(n, bool)
        self.inner: list[
            Int[ndarray, "local between"]
        ] = []  # of each cell: local states after each state ...
        self.place = np.zeros(n, np.int64)  # ... between two letters, which has this place
        self.exceptions: dict[int, list[int]] = {}
        self._plain: set[int] = set()

    @property
    def most_target(self) -> Int[ndarray, " state"]:
        """The state that most bytes lead to, from each state."""
        return self.dfa.most[0]

    @property
    def width(self) -> Int[ndarray, " state"]:
        """How many bytes do."""
        return self.dfa.most[1]

    def of(self, state: int) -> Cell | None:
        """The cell that a state follows, if any."""
        if not self.cells and not self._plain:  # first the one with most letters, which others are like
            self._plain.add(-1)
            self.of(int(self.width.argmax()))
        found = int(self.cell[state])
        if found < 0 and state not in self._plain:
            onward = int(self.most_target[state])
            wide = self.width[state] >= MIN_WIDTH or (onward == state and self.width[state] > 0)
            if wide and len(self.cells) < MAX_CELLS:
                for model in dict.fromkeys((onward, state)):
                    cell = self._guess(model)
                    if cell is not None and all(cell is not c for c in self.cells):
                        self._embed(cell)
                    if self.cell[state] >= 0:
                        break
            found = int(self.cell[state])
            if found < 0:
                self._plain.add(state)
        return self.cells[found] if found >= 0 else None

    def _guess(self, model: int) -> Cell | None:
        """A known cell whose letters of one byte are a state's, else the one extracted from it."""
        onward = int(self.most_target[model])
        single = frozenset(byte for byte, target in self.dfa.moves(model).items() if target == onward)
        for cell in self.known.recent():
            if cell.single_bytes == single and all(cell is not c for c in self.cells):
                return cell
        table = self._extract(model)
        return None if table is None else self.known.cell(table)

    def _extract(self, model: int) -> Int16[ndarray, "local 256"] | None:
        """The cell whose letters lead from a state to its next, its exceptions left out."""
        onward, moves = int(self.most_target[model]), self.dfa.moves
        if onward < 0 or not self.width[model]:
            return None
        letters: dict[int, bool] = {}  # whether all words from a state lead to ``onward``, soon

        def closed(start: int) -> bool:
            if start not in letters:
                level, seen = {start}, {start}
                for _ in range(MAX_DEPTH):
                    if model in level or not all(moves(s) for s in level) or len(seen) > MAX_LOCAL:
                        break
                    level = {t for s in level for t in moves(s).values() if t != onward}
                    seen |= level
                letters[start] = not level
                if not level:
                    letters.update(dict.fromkeys(seen, True))
            return letters[start]

        number, queue = {onward: 0}, [model]
        rows: list[Int16[ndarray, " 256"]] = []
        for state in queue:
            row = np.full(256, -1, np.int16)
            for byte, target in sorted(moves(state).items()):
                if target != onward and not closed(target):
                    continue  # an exception
                if target not in number:
                    number[target] = len(number)
                    queue.append(target)
                row[byte] = number[target]
            rows.append(row)
            if len(queue) > MAX_LOCAL:
                return None
        return np.array(rows)

    def _embed(self, cell: Cell) -> None:
        """Find all states that follow a cell."""
        dfa, index = self.dfa, len(self.cells)
        self.cells.append(cell)
        near = (2 * self.width >= cell.weight) & (self.width <= cell.weight)  # wider ones have more letters
        state = np.flatnonzero(near & (self.width > 0) & (self.cell < 0))
        onward = self.most_target[state]
        after = self._table(state)
        # the inner states of each letter, and whether their edges are the cell's
        inner: list[Int[ndarray, " n"] | None] = [None] * cell.size
        valid = [np.ones(len(state), bool) for _ in range(cell.size)]
        for byte, _, target in cell.ranges[0]:
            if target and inner[target] is None:
                inner[target] = after[:, byte]
        degree = np.diff(dfa.pointer)
        for q in range(1, cell.size):
            here = inner[q]
            assert here is not None  # local states are numbered as they are met
            ok = (here >= 0) & (degree[here] == len(cell.ranges[q]))
            edge = np.where(ok, dfa.pointer[here], 0)  # sorted by their bytes, as the cell's are
            for low, high, target in cell.ranges[q]:
                ok &= (dfa.low[edge] == low) & (dfa.high[edge] == high)
                known, there = onward if target == 0 else inner[target], dfa.target[edge]
                if known is None:
                    inner[target] = np.where(ok, there, -1)
                else:
                    ok &= known == there
                edge = np.minimum(edge + 1, len(dfa.low) - 1)
            valid[q] = ok
        for _ in range(MAX_DEPTH):  # what follows must be right, too
            for q in range(1, cell.size):
                for _, _, target in cell.ranges[q]:
                    valid[q] &= valid[target]
        expected = np.full((len(state), 256), -1, np.int32)
        for low, high, target in cell.ranges[0]:
            there = onward if target == 0 else np.where(valid[target], inner[target], -2)  # type: ignore[arg-type]
            expected[:, low : high + 1] = there[:, None]
        differs = after != expected
        right = (~differs[:, cell.begins]).sum(1)
        good = 2 * right >= cell.begins.sum()
        # one that is not pure is left to a cell of its own, unless the next one is
        pure = np.zeros(dfa.num_states, bool)
        pure[state] = good & ~differs[:, cell.begins].any(1)
        good &= pure[state] | pure[onward]
        self._record(index, state[good], onward[good], 0)
        self.place[state[good]] = np.arange(int(good.sum()))
        self.inner.append(np.full((cell.size, int(good.sum())), -1))
        self.pure |= pure
        exceptions: dict[int, list[int]] = {s: [] for s in state[good].tolist()}
        at, byte_ = np.nonzero(differs[good])
        for s, b in zip(state[good][at].tolist(), byte_.tolist(), strict=True):
            exceptions[s].append(b)
        self.exceptions.update(exceptions)
        for q in range(1, cell.size):
            inside = inner[q]
            assert inside is not None
            keep = good & valid[q] & (inside >= 0)
            self.inner[index][q] = np.where(keep, inside, -1)[good]
            keep[keep] &= self.cell[inside[keep]] < 0
            self._record(index, inside[keep], onward[keep], q)
        self._count(index)

    def _table(self, state: Int[ndarray, " n"]) -> Int[ndarray, "n 256"]:
        """The state after each byte, −1 for none."""
        dfa = self.dfa
        count = dfa.pointer[state + 1] - dfa.pointer[state]
        edge, row = spans(dfa.pointer[state], count), np.repeat(np.arange(len(state)), count)
        width = dfa.high[edge] - dfa.low[edge] + 1
        table = np.full((len(state), 256), -1, np.int32)
        table[np.repeat(row, width), spans(dfa.low[edge], width)] = np.repeat(dfa.target[edge], width)
        return table

    def _record(self, index: int, state: Int[ndarray, " n"], onward: Int[ndarray, " n"], local: int) -> None:
        self.cell[state], self.local[state], self.next[state] = index, local, onward

    def _count(self, index: int) -> None:
        """``depth`` of all states of a cell, by doubling."""
        members = np.flatnonzero(self.cell == index)
        onward = self.next[members]
        good = (self.cell[onward] == index) & (self.local[onward] == 0) & self.pure[onward]
        place = np.zeros(self.dfa.num_states, np.int64)
        place[members] = np.arange(len(members))
        jump = np.where(good, place[onward], np.arange(len(members)))
        depth = good.astype(np.int64)
        for _ in range(len(self.known.trie.bounds).bit_length()):
            depth, jump = depth + depth[jump], jump[jump]
        self.depth[members] = depth
