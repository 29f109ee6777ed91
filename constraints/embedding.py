"""Where the letters of cells are found in a deterministic byte automaton.

A state between two letters follows a cell if its bytes lead where the cell's do, all letters ending in one state, the
*next*. It may differ on a few bytes, its *exceptions*: a closing quote, or the first letters of a name that is treated
apart. A state whose exceptions begin no letter is *pure*. Cells are guessed from the automaton, and every state is checked
against its cell, edge by edge, before it is said to follow it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int, Int16
from numpy import ndarray

from .arrays import spans
from .cells import MAX_CELLS, Cell, Cells
from .moves import Dfa

MAX_LOCAL, MAX_DEPTH = 400, 13  # states of a letter; bytes of one: \ud83d\ude00 has twelve
MIN_WIDTH = 4  # bytes with one target, for a state to be looked at


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
        columns = self.cell, self.local, self.next, self.depth, self.pure
        self.views = tuple(column.data for column in columns)  # to read one by one
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

    def wide(self, state: int, onward: int) -> bool:
        """Whether so many bytes lead from a state to its most frequent target that letters are looked for."""
        return bool(self.width[state] >= MIN_WIDTH or (onward == state and self.width[state] > 0))

    def of(self, state: int) -> Cell | None:
        """The cell that a state follows, if any."""
        if not self.cells and not self._plain:  # first the one with most letters, which others are like
            self._plain.add(-1)
            self.of(int(self.width.argmax()))
        found = int(self.cell[state])
        if found < 0 and state not in self._plain:
            onward = int(self.most_target[state])
            if self.wide(state, onward) and len(self.cells) < MAX_CELLS:
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
        """A known cell whose letters are a state's, else the one extracted from it."""
        onward = int(self.most_target[model])
        single = frozenset(byte for byte, target in self.dfa.moves(model).items() if target == onward)
        for cell in self.known.recent():
            new = cell.single_bytes == single and all(cell is not c for c in self.cells)
            if new and self._fits(cell, model, onward):
                return cell
        table = self._extract(model)
        return None if table is None else self.known.cell(table)

    def _fits(self, cell: Cell, model: int, onward: int) -> bool:
        """Whether a state reads all letters of a cell, as far as the ends of ranges tell, and no further ones."""
        moves, place = self.dfa.moves, {0: onward}
        for q, runs in enumerate(cell.ranges):
            after = moves(place[q] if q else model)
            for low, high, target in runs:
                there = after.get(low, -1)
                if there < 0 or after.get(high) != there or place.setdefault(target, there) != there:
                    return False
        closed = self._closed(model, onward)
        return not any(closed(to) for byte, to in moves(model).items() if byte not in cell.first_bytes)

    def _closed(self, model: int, onward: int) -> Callable[[int], bool]:
        """Whether all words from a state lead to ``onward``, soon."""
        moves, letters = self.dfa.moves, dict[int, bool]()

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

        return closed

    def _extract(self, model: int) -> Int16[ndarray, "local 256"] | None:
        """The cell whose letters lead from a state to its next, its exceptions left out."""
        onward, moves = int(self.most_target[model]), self.dfa.moves
        if onward < 0 or not self.width[model]:
            return None
        closed = self._closed(model, onward)
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
