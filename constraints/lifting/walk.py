"""The tokens that may follow a state of a deterministic byte automaton, and where each leads.

The walk goes down the trie and through the automaton together. At states with few bytes it looks at each in turn. At a
state that follows a cell (``embedding.py``) it takes the tokens within letters as one set from the cell's view, walks on
only where they leave it, and at the exceptions of the state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata.arrays import spans
from ..automata.dfa_table import Dfa
from ..automata.nfa import Nfa
from ..vocabulary.trie import Range, Ranges
from .regions import Embedding
from .rows import Letters, Row
from .slices import Cell, Cells, View

NO_LIMIT = 1 << 60
MAX_SUFFIXES = 20_000  # looked at for one state where tokens leave letters
MAX_NODES = 64  # children of a node of the trie that are looked at one by one
MANY = 128  # tokens that are looked at one by one

Exits = tuple[tuple[int, int], ...]  # (byte, target)


class ManySuffixes(Exception):
    """Tokens leave the letters of a state in too many ways to look at each."""


class Walk:
    """The walks from the states of one automaton, over the trie of one vocabulary."""

    def __init__(self, nfa: Nfa, cells: Cells) -> None:
        self.trie, self.cells = cells.trie, cells
        self.dfa = Dfa(nfa)
        self.embedding = Embedding(self.dfa, cells)
        self._swept = self._limited = False
        self._suffixes = 0  # that may still be looked at for a state
        self._left: dict[tuple[View, Exits, int, int], list[tuple[int, Int[ndarray, " token"]]]] = {}
        self._exits: dict[tuple[int, Cell], Exits] = {}

    def row(self, state: int, limit: int = NO_LIMIT) -> Row | None:
        """Everything that may follow a state; None where that takes more than ``limit`` steps."""
        self._suffixes = MAX_SUFFIXES
        try:
            return self._row(state, limit)
        except ManySuffixes:
            if self._limited:
                return None
        row = Row([], [], [])
        self._sweep(row, np.array([0]), np.array([state]))
        return row

    def _row(self, state: int, limit: int) -> Row | None:
        trie, dfa, row = self.trie, self.dfa, Row([], [], [])
        cell_of, (_, own, low, high, _) = self.embedding.cell.data, trie.views
        stack = [(state, 0)]
        self._swept, self._limited = False, limit < NO_LIMIT
        while stack:
            state, node = stack.pop()
            limit -= 1
            if limit < 0 or (self._swept and self._limited):
                return None
            if node and (ends := own[node]):
                row.ranges.append((state, low[node], low[node] + ends))
            known = cell_of[state]
            if known >= 0 and high[node] - low[node] > MANY:
                self._letters(row, self.embedding.cells[known], state, node, stack)
                continue
            shared = dfa.below(state, trie, node)
            if not shared:
                continue
            tokens = [high[child] - low[child] for _, child in shared]
            if sum(tokens) <= MANY or (len(shared) <= MAX_NODES and not self._wide(state, shared, tokens)):
                stack += shared
            elif (cell := self.embedding.of(state)) is not None:
                self._letters(row, cell, state, node, stack)
            elif len(shared) > MAX_NODES:
                self._sweep(row, np.array([c for _, c in shared]), np.array([s for s, _ in shared]))
            else:
                stack += shared
        return None if self._swept and self._limited else row

    def _wide(self, state: int, shared: list[tuple[int, int]], tokens: list[int]) -> bool:
        """Whether most bytes of a state lead to one other, with many tokens below them."""
        onward = int(self.embedding.most_target[state])
        return sum([n for (target, _), n in zip(shared, tokens, strict=True) if target == onward]) > MANY

    def _letters(self, row: Row, cell: Cell, state: int, node: int, stack: list[tuple[int, int]]) -> None:
        """The tokens below a node from a state that follows a cell; what its exceptions lead to goes on the stack."""
        found, trie, dfa = self.embedding, self.trie, self.dfa
        local, depth = int(found.local[state]), int(found.depth[state])
        view = self.cells.view(cell, local, node)
        pieces: list[Range] = []
        if local == 0:
            self._exceptional(row, cell, state, node, depth >= view.most, pieces, stack)
        without = Ranges(pieces)
        row.letters.append(Letters(view, state, depth, without))
        for exits, begin, end in self.leaving(view, state):
            self._leave(row, view, exits, begin, end, without)
        # bytes of letters at the first state between two letters that does not follow the cell
        if depth < view.most:
            here = self.between(state, depth + 1)
            if self.reads(here, cell):
                nodes = view.between[view.between[:, 1] == depth + 1, 0]
                nodes = nodes[without.outside(trie.low[nodes])]
                count = trie.first[nodes + 1] - trie.first[nodes]
                child = spans(trie.first[nodes], count)
                child = child[cell.begins[trie.byte[child]]]
                to, _ = dfa.step(np.full(len(child), here), trie.byte[child].astype(np.int64))
                self._sweep(row, child[to >= 0], to[to >= 0])

    def _exceptional(
        self,
        row: Row,
        cell: Cell,
        state: int,
        node: int,
        ample: bool,
        without: list[Range],
        stack: list[tuple[int, int]],
    ) -> None:
        """Tokens that an exception of the state takes elsewhere: their ranks, and on the stack where to.

        An exception may lead to a state of the same kind (the first letters of a name that is treated apart): from there
        all but its own exceptions is as if it had not been one, so they are followed in the same way.
        """
        found, trie, dfa = self.embedding, self.trie, self.dfa
        index, onward = found.cell[state], int(found.next[state])
        loop = ample and int(found.next[onward]) == onward
        todo = [(state, node)]
        while todo:
            here, at = todo.pop()
            children = trie.children(at)
            known = found.exceptions(here)
            if here != state or at != node:
                known = [*known, *(b for b in found.exceptions(onward) if b not in known)]
            for byte in known:
                child = children.get(byte)
                if child is None:
                    continue
                target = dfa.after(here, byte)
                if (
                    loop
                    and target >= 0
                    and cell.table[0, byte] == 0
                    and found.cell[target] == index
                    and found.local[target] == 0
                    and found.next[target] == onward
                ):
                    low, high = trie.ends(child)
                    if high > low:
                        without.append((low, high))
                        row.ranges.append((target, low, high))
                    todo.append((target, child))
                    continue
                if at != node or byte in cell.first_bytes:
                    without.append((int(trie.low[child]), int(trie.high[child])))
                if target >= 0:
                    stack.append((target, child))

    def between(self, state: int, letters: int) -> int:
        """The state after some letters, at least one."""
        onwards = self.embedding.views[2]
        for _ in range(letters):
            onward = onwards[state]
            if onward == state:
                break
            state = onward
        return state

    def reads(self, state: int, cell: Cell) -> bool:
        """Whether a byte that begins a letter of a cell takes a state anywhere."""
        (pointer, low, high, _), count = self.dfa.views, cell.first_below
        return any(
            count[high[edge] + 1] > count[low[edge]] for edge in range(pointer[state], pointer[state + 1])
        )

    def exits(self, state: int, cell: Cell) -> Exits:
        """(byte, target) for the bytes of a state that begin no letter."""
        found = self._exits.get((state, cell))
        if found is None:
            table, after = self.embedding, self.dfa.after
            cells, _, _, _, pures = table.views
            if pures[state] and table.cells[cells[state]] is cell:
                there = [(b, after(state, b)) for b in table.exceptions(state)]
                found = tuple([x for x in there if x[1] >= 0])
            else:
                moves = self.dfa.moves(state)
                found = tuple((b, moves[b]) for b in sorted(moves.keys() - cell.first_bytes))
            self._exits[state, cell] = found
        return found

    def leaving(self, view: View, state: int) -> Iterator[tuple[Exits, int, int]]:
        """(exits, low, high): the bytes by which a token may leave the letters after ``low`` to ``high`` of them."""
        _, _, onwards, depths, _ = self.embedding.views
        depth, here = depths[state], onwards[state]
        begin, most = 1, min(depth + 1, view.most_leaving)
        exits = self.exits(here, view.cell) if most else ()
        for k in range(1, most + 1):
            onward = onwards[here] if k <= depth else -1
            last = k == most or onward == here
            after = () if last or onward < 0 else self.exits(onward, view.cell)
            if last or after != exits:
                yield exits, begin, most if onward == here else k
                if onward == here:
                    break
                begin, exits = k + 1, after
            here = onward

    def _leave(
        self,
        row: Row,
        view: View,
        exits: Exits,
        low: int,
        high: int,
        without: Ranges,
    ) -> None:
        """The tokens that leave the letters after ``low`` to ``high`` of them."""
        key = (view, exits, low, high)
        found = self._left.get(key)
        if found is None:
            found = []
            for byte, target in exits:
                tree = view.after(byte)
                stack = [(target, 0)]
                while stack:
                    self._suffixes -= 1
                    if self._suffixes < 0:
                        raise ManySuffixes
                    state, suffix = stack.pop()
                    ranks = tree.at(suffix, low, high)
                    if len(ranks):
                        found.append((state, ranks))
                    if children := tree.children[suffix]:
                        stack += self.dfa.common(state, children)
            self._left[key] = found
        for state, ranks in found:
            kept = without.drop(ranks)
            if len(kept):
                row.sets.append((state, kept))

    def _sweep(self, row: Row, nodes: Int[ndarray, " n"], state: Int[ndarray, " n"]) -> None:
        """All tokens at and below nodes that are reached in given states, all at the same time."""
        self._swept = True
        trie, rank, target = self.trie, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while len(nodes):
            own = trie.own[nodes]
            rank.append(spans(trie.low[nodes], own))
            target.append(np.repeat(state, own))
            count = trie.first[nodes + 1] - trie.first[nodes]
            nodes, state = spans(trie.first[nodes], count), np.repeat(state, count)
            state, _ = self.dfa.step(state, trie.byte[nodes].astype(np.int64))
            nodes, state = nodes[state >= 0], state[state >= 0]
        ranks, targets = np.concatenate(rank), np.concatenate(target)
        if not len(ranks):
            return
        order = np.argsort(targets, kind="stable")
        kinds, begin = np.unique(targets[order], return_index=True)
        row.sets.extend(zip(kinds.tolist(), np.split(ranks[order], begin[1:]), strict=True))
