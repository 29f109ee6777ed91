"""Which tokens may follow a state of a deterministic byte automaton, without asking where they lead.

Every state can still be accepted, so a token may follow where its bytes can be read at all. A state is *free* if it goes on
reading the letters of a cell (``cells.py``), whatever they are, for longer than any token: all tokens within letters may
follow it, and what is left to look at are the points at which a token leaves them, few in a vocabulary. That its letters
lead to states of many kinds does not matter here: names of members, a pattern that is searched for.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, UInt8
from numpy import ndarray

from ..automata.arrays import group_by, spans
from ..vocabulary.trie import Range
from .slices import Cell, Suffixes, View
from .token_sets import ONE_BY_ONE, Found, Leaving
from .walk import MANY, Exits, ManySuffixes, Walk

FEW = 24  # tokens that are looked at one by one
MAX_STEPS = 2000  # of a walk node by node
MAX_SUFFIXES = 2000  # looked at for one state where tokens leave letters
Stack = list[tuple[int, int]]  # (state, node of the trie)


class Liveness:
    """The masks of the states of one automaton, for one vocabulary."""

    def __init__(self, walk: Walk) -> None:
        self.walk, self.embedding, self.trie = walk, walk.embedding, walk.trie
        n = walk.dfa.num_states
        self.free, self.local = (
            np.full(n, -1),
            np.zeros(n, np.int64),
        )  # the cell that it goes on reading, where in it
        self._free, self._local = self.free.data, self.local.data  # to read one by one
        self._exits: list[frozenset[int]] = []  # of each cell: the bytes that leave it at free states
        self._weight = np.empty(0, np.int64)  # of each cell
        self._ends: dict[tuple[Suffixes, int], tuple[int, ...]] = {}
        self._suffixes = 0  # that may still be looked at for a state

    def mask(self, state: int, more: int | None = None) -> UInt8[ndarray, " bytes"] | list[int] | None:
        """The tokens that may follow, and one ``more`` where it is given: as they are where each was found by itself,
        else eight to a byte, in whole words, not to be written to. None where letters are counted unevenly."""
        self._suffixes = MAX_SUFFIXES
        try:
            found = self._find(state)
        except ManySuffixes:
            found = Found([], [], [], [])
            self._sweep(found, np.array([state]), np.array([0]))
        if found is None:
            return None
        if not (found.within or found.leaving or found.swept) and len(found.nodes) <= ONE_BY_ONE:
            return found.tokens(self.trie) + ([] if more is None else [more])
        known = self.walk.cells.masks
        key = (more, tuple(found.nodes), tuple(found.within), tuple(found.leaving))
        out = None if found.swept else known.get(key)
        if out is None:
            out = found.packed(self.trie)
            if more is not None:
                out[more >> 3] |= 1 << (more & 7)
            if not found.swept:
                known.put(key, out)
        return out

    def _find(self, state: int) -> Found | None:
        """What may follow a state."""
        found = Found([], [], [], [])
        nodes, trie, dfa = found.nodes, self.trie, self.walk.dfa
        (first, own, low, high, _), find = trie.views, trie.letters.find
        pointer, least, most, targets = dfa.views
        self._update()
        free, cells = self._free, self.embedding.views[0]
        stack = [(state, 0)]
        for _ in range(MAX_STEPS):
            if not stack:
                return found
            state, node = stack.pop()
            while True:  # along a path
                if ends := own[node]:
                    nodes.append(node)
                begin, stop = first[node], first[node + 1]
                if begin == stop:
                    break
                if (free[state] >= 0 or cells[state] >= 0) and high[node] - low[node] - ends > FEW:
                    if not self._letters(found, state, node, stack):
                        return None
                    break
                edge = pointer[state]
                if pointer[state + 1] - edge == 1 and least[edge] == most[edge]:
                    if (node := find(least[edge], begin, stop)) < 0:
                        break
                    state = targets[edge]
                    continue
                shared = dfa.below(state, trie, node)
                many = len(shared) > 3 and high[node] - low[node] - ends > MANY
                if many and self._guess(state, shared):
                    stack.append((state, node))
                    if ends:
                        nodes.pop()
                else:
                    stack += shared
                break
        self._sweep(found, *np.array(stack).reshape(-1, 2).T)
        return found

    def _sweep(self, found: Found, state: Int[ndarray, " n"], node: Int[ndarray, " n"]) -> None:
        """All tokens at and below nodes that are reached in given states, all at the same time."""
        trie = self.trie
        while len(node):
            found.swept.append(spans(trie.low[node], trie.own[node]))
            count = trie.first[node + 1] - trie.first[node]
            node, state = spans(trie.first[node], count), np.repeat(state, count)
            state, _ = self.walk.dfa.step(state, trie.byte[node].astype(np.int64))
            node, state = node[state >= 0], state[state >= 0]

    def _guess(self, state: int, shared: Stack) -> bool:
        """Look for a cell that a state follows where most bytes lead to one other, with many tokens below them."""
        table, (_, _, low, high, _) = self.embedding, self.trie.views
        onward = int(table.most_target[state])
        if (
            not table.wide(state, onward)
            or sum([high[node] - low[node] for target, node in shared if target == onward]) <= MANY
        ):
            return False
        if table.cell[state] >= 0 or table.of(state) is None:
            return False
        self._update()
        return True

    def _update(self) -> None:
        """Take in the cells found since."""
        for index in range(len(self._exits), len(self.embedding.cells)):
            self._exits.append(self._mark(index, self.embedding.cells[index]))

    # ------------------------------------------------------------ letters

    def _letters(self, found: Found, state: int, node: int, stack: Stack) -> bool:
        """The tokens below a node from a state that reads letters; False if these do not tell."""
        table, index = self.embedding, self._free[state]
        cells, locals_, _, depths, pures = table.views
        if free := index >= 0:
            local = self._local[state]
        else:
            index, local = cells[state], locals_[state]
            if not (local or pures[state]):
                return False
        cell, depth = table.cells[index], depths[state]
        view = self.walk.cells.view(cell, local, node)
        most = view.most
        if free:
            found.within.append((view, most))
            if depth < view.most_leaving or cells[state] != index or not (local or pures[state]):
                self._go_on(found, view, state, node, index, stack)
                return True
        else:
            if depth < most and self.walk.reads(self.walk.between(state, depth + 1), cell):
                return False
            found.within.append((view, min(depth, most)))
        if local == 0:
            children = self.trie.children(node)
            stack += [(target, children[b]) for b, target in self.walk.exits(state, cell) if b in children]
        for exits, begin, end in self.walk.leaving(view, state):
            found.leaving.append((self._leave(view, exits, begin, end), ()))
        return True

    def _leave(self, view: View, exits: Exits, low: int, high: int) -> tuple[Leaving, ...]:
        """The tokens that leave the letters after ``low`` to ``high`` of them. Raises ``ManySuffixes``."""
        parts = list[Leaving]()
        for byte, target in exits:
            tree = view.after(byte)
            ends = self._ends.get((tree, target))
            if ends is None:
                at, stack, common = list[int](), [(target, 0)], self.walk.dfa.common
                ends_of, children_of = tree.ends, tree.children
                while stack:
                    self._suffixes -= 1
                    if self._suffixes < 0:
                        raise ManySuffixes
                    state, suffix = stack.pop()
                    if ends_of[suffix]:
                        at.append(suffix)
                    if children := children_of[suffix]:
                        stack += common(state, children)
                ends = self._ends[tree, target] = tuple(at)
            parts.append((tree, low, high, ends))
        return tuple(parts)

    def _go_on(self, found: Found, view: View, state: int, node: int, index: int, stack: Stack) -> None:
        """The tokens that leave the letters, below a node from a free state whose letters lead here and there.

        Where all but exceptions lead to one loop, so do the tokens' ways but for some, and only these are followed.
        """
        table, after, letter = self.embedding, self.walk.dfa.after, view.cell.single_bytes
        children, points = view.paths_out(self._exits[index])
        onward, apart = table.views[2][state], list[Range]()
        loop = self._follows(state, index, onward) and self._follows(onward, index, onward)
        loop = loop and bool(table.views[4][onward])
        todo = [(state, node)] if loop else []
        rest = [] if loop else [(state, node)]
        low, high = self.trie.views.low, self.trie.views.high
        while todo:
            state, node = todo.pop()
            below = children.get(node)
            if below is None:
                continue
            for byte in {*table.exceptions(state), *table.exceptions(onward)}:
                if (child := below.get(byte)) is not None:
                    target = after(state, byte)
                    if target >= 0 and byte in letter and self._follows(target, index, onward):
                        todo.append((target, child))
                        continue
                    apart.append((low[child], high[child]))
                    if target >= 0:
                        (stack if child in points else rest).append((target, child))
        common = self.walk.dfa.common
        while rest:
            state, node = rest.pop()
            if below := children.get(node):
                for there in common(state, below):
                    (stack if there[1] in points else rest).append(there)
        if loop:
            exits = self._leave(view, self.walk.exits(onward, view.cell), 1, view.most_leaving)
            found.leaving.append((exits, tuple(apart)))

    def _follows(self, state: int, index: int, onward: int) -> bool:
        """Whether a state follows a cell, but for exceptions, and leads to the given next one."""
        cells, locals_, onwards, _, _ = self.embedding.views
        return bool(cells[state] == index and locals_[state] == 0 and onwards[state] == onward)

    # ------------------------------------------------------------ free states

    def _mark(self, index: int, cell: Cell) -> frozenset[int]:
        """Find the states that are free with a cell; which bytes leave its letters there."""
        table, dfa = self.embedding, self.walk.dfa
        mine = table.cell == index
        free = mine & (table.local == 0) & table.pure & (table.depth >= len(self.trie.bounds) - 1)
        # states of which all letters lead to free ones and to each other
        letters = np.concatenate([[0], np.cumsum(cell.begins)])
        read = np.bincount(dfa.source, letters[dfa.high + 1] - letters[dfa.low], minlength=dfa.num_states)
        maybe = ~free & (read == letters[-1])
        edges = np.flatnonzero(maybe[dfa.source])
        low, high, place = np.array(cell.ranges[0]).T
        first = np.searchsorted(high, dfa.low[edges])
        count = np.searchsorted(low, dfa.high[edges], side="right") - first
        rows, place = np.repeat(edges, count), place[spans(first, count)]
        source, there = dfa.source[rows], dfa.target[rows]
        inside = mine[there] & (table.local[there] == place)
        onward = np.where(place == 0, there, np.where(inside, table.next[there], -1))
        free |= maybe
        lost = np.unique(source[(onward < 0) | ~free[onward]])
        pointer, order = group_by(onward + 1, dfa.num_states + 1) if len(lost) else (lost, lost)
        while len(lost):
            free[lost] = False
            before = source[order[spans(pointer[lost + 1], pointer[lost + 2] - pointer[lost + 1])]]
            lost = np.unique(before[free[before]])
        within = mine & (table.local > 0) & free[table.next]
        self._weight = np.append(self._weight, cell.weight)
        new = (free | within) & ((self.free < 0) | (self._weight[self.free] < cell.weight))
        self.free[new], self.local[new] = index, np.where(within, table.local, 0)[new]
        used = np.zeros(257, np.int64)
        leaving = free[dfa.source]
        np.add.at(used, dfa.low[leaving], 1)
        np.subtract.at(used, dfa.high[leaving] + 1, 1)
        return frozenset(np.flatnonzero((np.cumsum(used)[:256] > 0) & ~cell.begins).tolist())
