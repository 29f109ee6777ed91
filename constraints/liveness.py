"""Which tokens may follow a state of a deterministic byte automaton, without asking where they lead.

Every state can still be accepted, so a token may follow where its bytes can be read at all. A state is *free* if it goes on
reading the letters of a cell (``cells.py``), whatever they are, for longer than any token: all tokens within letters may
follow it, and what is left to look at are the points at which a token leaves them, few in a vocabulary. That its letters
lead to states of many kinds does not matter here: names of members, a pattern that is searched for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from numpy import ndarray

from .arrays import group_by, spans
from .cells import NONE, Cell, View
from .trie import Range, Ranges, Trie, put
from .walk import MANY, Exits, Walk

FEW = 24  # tokens that are looked at one by one
ONE_BY_ONE = 96  # tokens that are set one by one
MAX_STEPS = 2000  # of a walk node by node
Stack = list[tuple[int, int]]  # (state, node of the trie)


class Found(NamedTuple):
    """Tokens, ranks of tokens, and sets of tokens eight to a byte."""

    tokens: list[int]
    ranks: list[Int[ndarray, " token"]]
    sets: list[UInt8[ndarray, " bytes"]]

    def packed(self, trie: Trie) -> UInt8[ndarray, " bytes"]:
        """All of them."""
        out = self.sets[0].copy() if self.sets else np.zeros(trie.num_bytes, np.uint8)
        for more in self.sets[1:]:
            np.bitwise_or(out, more, out=out)
        for ranks in self.ranks:
            put(out, trie.order[ranks], True)
        if len(self.tokens) > ONE_BY_ONE:
            put(out, np.array(self.tokens), True)
            return out
        bits = out.data
        for token in self.tokens:
            bits[token >> 3] |= 1 << (token & 7)
        return out


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
        self._left: dict[tuple[View, Exits, int, int], Int[ndarray, " token"]] = {}

    def packed(self, state: int) -> UInt8[ndarray, " bytes"] | None:
        """The tokens that may follow, eight to a byte, in whole words; None where letters are counted unevenly."""
        trie, dfa, found = self.trie, self.walk.dfa, Found([], [], [])
        _, own, low, high, order = trie.views
        self._update()
        stack = [(state, 0)]
        for _ in range(MAX_STEPS):
            if not stack:
                return found.packed(trie)
            state, node = stack.pop()
            first, ends = low[node], own[node]
            if ends:
                found.tokens.extend(order[first : first + ends])
            below = high[node] - first - ends
            if below > FEW and (done := self._letters(found, state, node, stack)) is not None:
                if not done:
                    return None
            elif below:
                shared = dfa.below(state, trie, node)
                if below > MANY and len(shared) > 3 and self._guess(state, shared):
                    stack.append((state, node))
                    del found.tokens[len(found.tokens) - ends :]
                else:
                    stack += shared
        self._sweep(found, *np.array(stack).reshape(-1, 2).T)
        return found.packed(trie)

    def _sweep(self, found: Found, state: Int[ndarray, " n"], node: Int[ndarray, " n"]) -> None:
        """All tokens at and below nodes that are reached in given states, all at the same time."""
        trie = self.trie
        while len(node):
            found.ranks.append(spans(trie.low[node], trie.own[node]))
            count = trie.first[node + 1] - trie.first[node]
            node, state = spans(trie.first[node], count), np.repeat(state, count)
            state, _ = self.walk.dfa.step(state, trie.byte[node].astype(np.int64))
            node, state = node[state >= 0], state[state >= 0]

    def _guess(self, state: int, shared: Stack) -> bool:
        """Look for a cell that a state follows where most bytes lead to one other, with many tokens below them."""
        table, (_, _, low, high, _) = self.embedding, self.trie.views
        onward = int(table.most_target[state])
        if sum([high[node] - low[node] for target, node in shared if target == onward]) <= MANY:
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

    def _letters(self, found: Found, state: int, node: int, stack: Stack) -> bool | None:
        """The tokens below a node from a state that reads letters; None if it reads none, False if they do not tell."""
        table, index = self.embedding, self._free[state]
        cells, locals_, _, depths, pures = table.views
        free = index >= 0
        if not free and (index := cells[state]) < 0:
            return None
        local = self._local[state] if free else locals_[state]
        if not (free or local or pures[state]):
            return False
        cell, depth = table.cells[index], depths[state]
        view = self.walk.cells.view(cell, local, node)
        even = cells[state] == index and (local or pures[state])
        if free and not (even and depth >= view.most_leaving):
            view.put(view.most, found.tokens, found.sets)
            self._go_on(found, view, state, node, index, stack)
            return True
        if not free and depth < view.most:
            beyond = self.walk.dfa.moves(self.walk.between(state, depth + 1))
            if not cell.first_bytes.isdisjoint(beyond):
                return False
        view.put(view.most if free else depth, found.tokens, found.sets)
        if local == 0:
            children = self.trie.children(node)
            stack += [(target, children[b]) for b, target in self.walk.exits(state, cell) if b in children]
        for exits, begin, end in self.walk.leaving(view, state):
            found.ranks.append(self._leave(view, exits, begin, end))
        return True

    def _leave(self, view: View, exits: Exits, low: int, high: int) -> Int[ndarray, " token"]:
        """The ranks of the tokens that leave the letters after ``low`` to ``high`` of them."""
        key = (view, exits, low, high)
        if key not in self._left:
            found = [NONE]
            for byte, target in exits:
                tree, stack = view.after(byte), [(target, 0)]
                while stack:
                    state, suffix = stack.pop()
                    found.append(tree.at(suffix, low, high))
                    if children := tree.children[suffix]:
                        stack += self.walk.dfa.common(state, children)
            self._left[key] = np.concatenate(found)
        return self._left[key]

    def _go_on(self, found: Found, view: View, state: int, node: int, index: int, stack: Stack) -> None:
        """The tokens that leave the letters, below a node from a free state whose letters lead here and there.

        Where all but exceptions lead to one loop, so do the tokens' ways but for some, and only these are followed.
        """
        table, after, letter = self.embedding, self.walk.dfa.after, view.cell.single_bytes
        children, points = view.paths_out(self._exits[index])
        onward, apart = table.views[2][state], list[Range]()
        loop = self._follows(state, index, onward) and self._follows(onward, index, onward)
        loop = loop and bool(table.pure[onward])
        todo = [(state, node)] if loop else []
        rest = [] if loop else [(state, node)]
        while todo:
            state, node = todo.pop()
            below = children.get(node, {})
            for byte in {*table.exceptions[state], *table.exceptions[onward]}:
                if (child := below.get(byte)) is not None:
                    target = after(state, byte)
                    if target >= 0 and byte in letter and self._follows(target, index, onward):
                        todo.append((target, child))
                        continue
                    apart.append((self.trie.views.low[child], self.trie.views.high[child]))
                    if target >= 0:
                        (stack if child in points else rest).append((target, child))
        while rest:
            state, node = rest.pop()
            for target, child in self.walk.dfa.common(state, children.get(node, {})):
                (stack if child in points else rest).append((target, child))
        if loop:
            exits = self._leave(view, self.walk.exits(onward, view.cell), 1, view.most_leaving)
            found.ranks.append(Ranges(apart).drop(exits))

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
        pointer, order = group_by(onward + 1, dfa.num_states + 1)
        lost = np.concatenate([np.flatnonzero(~free), np.unique(source[onward < 0])])
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
