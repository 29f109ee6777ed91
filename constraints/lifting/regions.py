"""Where the letters of cells are found in a deterministic byte automaton.

A state between two letters follows a cell if its bytes lead where the cell's do, all letters ending in one state, the
*next*. It may differ on a few bytes, its *exceptions*: a closing quote, or the first letters of a name that is treated
apart. A state whose exceptions begin no letter is *pure*. Cells are guessed from the automaton, and every state is checked
against its cell, edge by edge, before it is said to follow it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int, Int16
from numpy import ndarray

from ..automata.arrays import spans
from ..automata.dfa_table import Dfa
from .slices import MAX_CELLS, Cell, Cells

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
        self._from, self._to = np.zeros(n, np.int64), np.zeros(n, np.int64)  # where its exceptions are in ...
        self._differing: list[Int[ndarray, " byte"]] = []  # ... those of all states of its cell
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

    def exceptions(self, state: int) -> list[int]:
        """The bytes by which a state between two letters differs from its cell, in order."""
        differing: list[int] = self._differing[self.cell[state]][self._from[state] : self._to[state]].tolist()
        return differing

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
        cut = Cut(dfa, state, cell)
        # the inner states of each letter, and whether their edges are the cell's
        inner: list[Int[ndarray, " n"] | None] = [None] * cell.size
        valid = [np.ones(len(state), bool) for _ in range(cell.size)]
        for place, (_, _, target) in enumerate(cell.ranges[0]):
            if target and inner[target] is None:
                inner[target] = cut.after(place)
        degree = np.diff(dfa.pointer)
        for q in range(1, cell.size):
            here = inner[q]
            assert here is not None  # local states are numbered as they are met
            ok = (here >= 0) & (degree[here] == len(cell.ranges[q]))
            edge = np.where(ok, dfa.pointer[here], 0)  # sorted by their bytes, as the cell's are
            for low, high, target in cell.ranges[q]:
                _, first, last, there = dfa.edges[edge].T
                ok &= (first == low) & (last == high)
                known = onward if target == 0 else inner[target]
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
        goal = [onward] + [np.where(v, i, -2) for v, i in zip(valid[1:], inner[1:], strict=True)]  # type: ignore[arg-type]
        right, unlike = cut.compare(goal)
        good = 2 * right >= cell.begins.sum()
        # one that is not pure is left to a cell of its own, unless the next one is
        pure = np.zeros(dfa.num_states, bool)
        pure[state] = good & ~unlike
        good &= pure[state] | pure[onward]
        self._record(index, state[good], onward[good], 0)
        self.place[state[good]] = np.arange(int(good.sum()))
        self.inner.append(np.full((cell.size, int(good.sum())), -1))
        self.pure |= pure
        pointer, differing = cut.differing(good)
        self._differing.append(differing)
        self._from[state[good]], self._to[state[good]] = pointer[:-1], pointer[1:]
        for q in range(1, cell.size):
            inside = inner[q]
            assert inside is not None
            keep = good & valid[q] & (inside >= 0)
            self.inner[index][q] = np.where(keep, inside, -1)[good]
            keep[keep] &= self.cell[inside[keep]] < 0
            self._record(index, inside[keep], onward[keep], q)
        self._count(index)

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


class Cut:
    """The edges of states, cut where the ranges of a cell's first bytes begin and end: a row for each piece."""

    def __init__(self, dfa: Dfa, state: Int[ndarray, " n"], cell: Cell) -> None:
        self.size, self.cell = len(state), cell
        lows, locals_ = [0], [-1]  # of all ranges of bytes; the local state after, -1 where no letter begins
        self.places = list[int]()  # of the cell's own ranges
        for low, high, target in cell.ranges[0]:
            lows.append(low)
            locals_.append(target)
            self.places.append(len(lows) - 1)
            lows.append(high + 1)
            locals_.append(-1)
        bottom = np.array(lows)
        top = np.append(bottom[1:], 256) - 1
        of_byte = np.searchsorted(bottom, np.arange(256), side="right") - 1
        count = dfa.pointer[state + 1] - dfa.pointer[state]
        edge, row = spans(dfa.pointer[state], count), np.repeat(np.arange(self.size), count)
        low, high, target = dfa.low[edge], dfa.high[edge], dfa.target[edge]
        first = of_byte[low]
        pieces = of_byte[high] - first + 1
        self.place, self.row, self.target = (
            spans(first, pieces),
            np.repeat(row, pieces),
            np.repeat(target, pieces),
        )
        self.low = np.maximum(np.repeat(low, pieces), bottom[self.place])
        self.high = np.minimum(np.repeat(high, pieces), top[self.place])
        self.whole = self.low == bottom[self.place]  # whether it has the first byte of its range
        self.local = np.array(locals_)[self.place]

    def after(self, index: int) -> Int[ndarray, " n"]:
        """The state after the first byte of one of the cell's ranges, -1 for none."""
        out, rows = np.full(self.size, -1), (self.place == self.places[index]) & self.whole
        out[self.row[rows]] = self.target[rows]
        return out

    def compare(self, goal: list[Int[ndarray, " n"]]) -> tuple[Int[ndarray, " n"], Bool[ndarray, " n"]]:
        """How many first bytes of letters lead each state where they should, by the local state after them; and whether
        any do not."""
        begins, width = self.local >= 0, self.high - self.low + 1
        wanted = np.stack([*goal, np.full(self.size, -3)])
        self.alike = wanted[self.local, self.row] == self.target
        right = np.bincount(self.row[self.alike], width[self.alike], self.size).astype(np.int64)
        covered = np.bincount(self.row[begins], width[begins], self.size)
        self.lacking = covered < self.cell.begins.sum()
        return right, right < self.cell.begins.sum()

    def differing(
        self, chosen: Bool[ndarray, " n"]
    ) -> tuple[Int[ndarray, " chosen+1"], Int[ndarray, " byte"]]:
        """(pointer, bytes): those by which each of the chosen states differs from the cell, in order."""
        number = np.cumsum(chosen) - 1
        rows = ~self.alike & chosen[self.row]
        width = self.high[rows] - self.low[rows] + 1
        row, byte = np.repeat(number[self.row[rows]], width), spans(self.low[rows], width)
        less = np.flatnonzero(self.lacking & chosen)
        if len(less):
            place = np.full(self.size, -1)
            place[less] = np.arange(len(less))
            rows = place[self.row] >= 0
            change = np.zeros((len(less), 257), np.int8)
            np.add.at(change, (place[self.row[rows]], self.low[rows]), 1)
            np.add.at(change, (place[self.row[rows]], self.high[rows] + 1), -1)
            at, lost = np.nonzero((np.cumsum(change[:, :256], axis=1) == 0) & self.cell.begins)
            row, byte = np.append(row, number[less[at]]), np.append(byte, lost)
            order = np.argsort(row * 256 + byte, kind="stable")
            row, byte = row[order], byte[order]
        return np.searchsorted(row, np.arange(int(chosen.sum()) + 1)), byte
