"""The tokens below one trie node, read from one state in free text, by what they do there."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from ..automata.lazy import Body
from ..vocabulary.trie import Ranges, Trie
from .text_tokens import Ranks
from .texts import Texts
from .walk import Pairs, Walk


class TextPart:
    """The tokens below one trie node from one state in free text, in parts.

    ``text`` and ``before``: the :class:`~.text_tokens.TextTokens` of this node, or of one ``before`` letters above it.
    ``most``: the letters that may follow. ``exceptional``: children where the text is left at once or is treated apart;
    ``apart``: nodes further down where it is left after an exception. ``others``: (state, node) pairs to be walked. ``moved``:
    the states moved on from.
    """

    def __init__(
        self, walk: Walk, texts: Texts, state: int, trie: Trie, node: int, targets: bool = False
    ) -> None:
        body = walk.body(state)
        assert body is not None
        self.body: Body = body
        self.body_of = walk.body
        self.states, self.state, self.trie, self.node = walk.states, state, trie, node
        self.table = table = texts.table(body.letters)
        self.text, self.before = texts.below(table, trie, node)
        within = self.text.most - self.before
        self.most = within if body.most is None else min(body.most, within)
        children, after, self.no_letter = trie.children(node), self.states.after, table.no_letter
        self.exceptional, self.others = list[int](), Pairs()
        self.apart = list[int]()  # children of nodes below, where the text is left from an exception
        self.moved = {state}  # states that it has moved on from
        together = body.within and body.most is None and not targets
        if together:
            self._within(body.exceptions)
        for byte in () if together else body.exceptions:
            if (child := children.get(byte)) is not None:
                self.exceptional.append(child)
                if (target := after(state, byte)) >= 0:
                    self.others.append((target, child))
        if body.leaves is None:
            for low, high, target in self.states.moves(state):
                out = table.no_letter[table.before[low] : table.before[high + 1]]
                for byte in out if body.most != 0 else range(low, high + 1):
                    if byte not in body.exceptions and (child := children.get(byte)) is not None:
                        self.others.append((target, child))
        else:
            some = bytes([byte for byte in body.leaves if byte not in body.exceptions])
            self.others += self._leave(state, some, children)
        if body.most is not None and body.leaves is None and body.most <= self.text.most - self.before:
            self._after_most(table.begins)

    def _within(self, exceptions: bytes) -> None:
        """Follow exceptions along the paths on which tokens leave the text."""
        paths, no_letter, after, letters_at = (
            self.text.paths_out,
            self.no_letter,
            self.states.after,
            self.text.letters_at,
        )
        todo: list[tuple[int, int, bytes | None]] = [(self.state, self.node, exceptions)]
        while todo:
            state, node, some = todo.pop()
            self.moved.add(state)
            out = paths.get(node)
            if out is None:
                continue
            for byte, child in out.items():
                if some is not None and byte not in some:
                    if byte in no_letter and node != self.node:
                        self.apart.append(child)
                        if (target := after(state, byte)) >= 0:
                            self.others.append((target, child))
                    continue
                target = after(state, byte)
                if (letters := letters_at(child)) < 0:
                    todo.append((target, child, None))
                elif target != self.after(letters - self.before):
                    body = self.body_of(target)
                    todo.append((target, child, b"" if body is None else body.exceptions))

    def _after_most(self, begins: frozenset[int]) -> None:
        """Find tokens that go on, after the last letter, with a byte that elsewhere begins a letter."""
        onward = self.after(self.body.most or 0)
        self.moved.add(onward)
        moves = [(low, high) for low, high, _ in self.states.moves(onward)]
        bytes_on = [b for low, high in moves for b in range(low, high + 1) if b in begins]
        if not bytes_on or not self.body.most:
            return
        nodes = self.text.between[self.text.between[:, 1] == self.body.most + self.before, 0]
        trie = self.trie
        nodes = nodes[self.inside(trie.low[nodes])]
        for byte in bytes_on:
            child = trie.child(nodes, np.full(len(nodes), byte))
            target = self.states.after(onward, byte)
            self.others += [(target, c) for c in child.tolist() if c >= 0]

    def after(self, letters: int) -> int:
        """Return the state after some letters."""
        if letters == 0:
            return self.state
        settled = self.body.settled
        return self.states.number(
            self.body.after(letters if settled is None else min(letters, max(settled, 1)))
        )

    def inside(self, ranks: Ranks) -> Bool[ndarray, " token"]:
        """Mark the ranks that lie below the node, but not where tokens are treated apart."""
        trie, node = self.trie, self.node
        out = Ranges([(int(trie.low[c]), int(trie.high[c])) for c in self.exceptional + self.apart]).outside(
            ranks
        )
        if self.text.node != node:
            out &= (ranks >= trie.low[node] + trie.own[node]) & (ranks < trie.high[node])
        return np.asarray(out)

    def chosen(self, ranks: Ranks, least: int, most: int) -> Ranks:
        """Return those remainders that follow ``least`` to ``most`` letters, inside the part."""
        exits, whole = (
            self.text.exits,
            self.text.node == self.node and not self.exceptional and not self.apart,
        )
        if least == 1 and most >= self.text.most_leaving - self.before and not self.before:
            return ranks if whole else np.asarray(ranks[self.inside(exits.origin[ranks])])
        letters = exits.letters_before[ranks] - self.before
        kept = (letters >= least) & (letters <= most)
        if not whole:
            kept &= self.inside(exits.origin[ranks])
        return np.asarray(ranks[kept])

    def counts(self) -> tuple[int, ...]:
        """Return numbers of letters, one of which gives the longest completion."""
        if self.most == 0:
            return ()
        settled = self.body.settled
        return (1,) if settled is None else tuple(range(1, max(1, min(settled, self.most)) + 1))

    def leaving(self) -> list[tuple[int, int, int, int]]:
        """Return the ways to leave the text after letters, by a byte that begins none.

        Each is (least letters, most letters, state after the byte, node of the remainders there).
        """
        last, settled, children = (
            self.text.most_leaving - self.before,
            self.body.settled,
            self.text.exits.children(0),
        )
        if self.body.most is not None:
            last = min(last, self.body.most)
        if last < 1:
            return []
        if settled is None:  # a counter: what is equal at both ends is equal between them
            runs, todo = list[tuple[int, int, tuple[tuple[int, int], ...]]](), [(1, last)]
            while todo:
                low, high = todo.pop()
                if (found := self._out(low, children)) == self._out(high, children):
                    runs.append((low, high, found))
                else:
                    middle = (low + high) // 2
                    todo += [(low, middle), (middle + 1, high)]
        else:
            settled = max(1, min(settled, last))
            runs = [(k, k if k < settled else last, self._out(k, children)) for k in range(1, settled + 1)]
        return [(low, high, target, child) for low, high, out in runs for target, child in out]

    def _out(self, letters: int, children: dict[int, int]) -> tuple[tuple[int, int], ...]:
        """Return (state, node of the remainders) after some letters and a byte that leaves the text."""
        out = list[tuple[int, int]]()
        state = self.after(letters)
        self.moved.add(state)
        if self.body.leaves is not None:
            return tuple(self._leave(state, self.body.leaves, children))
        for low, high, target in self.states.moves(state):
            for byte in range(low, high + 1) if high - low < len(children) else children:
                if low <= byte <= high and (child := children.get(byte)) is not None:
                    out.append((target, child))
        return tuple(out)

    def _leave(self, state: int, leaves: bytes, children: dict[int, int]) -> Pairs:
        """Return (state, child node) after some bytes, where they may come."""
        after = self.states.after
        return [
            (target, child)
            for byte in leaves
            if (child := children.get(byte)) is not None and (target := after(state, byte)) >= 0
        ]
