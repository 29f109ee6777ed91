"""Which tokens may follow, by the definition: the oracle of the compiled core, for small programs.

    mask(c)        = { t : some tokens after t reach acceptance }
    mask(c, left)  = { t : at most ``left`` tokens after t reach acceptance }

A configuration c is the set of stacks after a text, one for each way to read it on. Distances come from a search that visits all
stacks in the order of the tokens that lead to them. What takes more than :data:`MOST` of them is refused: :class:`TooLarge`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from frames import Frame, Stack, begin, closure, read, reads, token_end

from tractile import Vocabulary
from tractile.constraints.program.left_recursion import left_recursive
from tractile.constraints.program.node import Node
from tractile.constraints.program.prune import pruned

Configuration = frozenset[Stack]

NEVER = 1 << 62
"""The distance of a configuration that has no end."""
MOST = 20_000
"""Stacks that one search visits."""


class TooLarge(Exception):
    """The program is too large for the definition."""


class Definition:
    """A program over the tokens of a vocabulary."""

    def __init__(self, node: Node, vocab: Vocabulary) -> None:
        assert not left_recursive(node), "a rule begins with itself: it has no next byte"
        node = pruned(node)
        self.vocab, self.trie = vocab, vocab.trie
        self.known = dict[Configuration, int]()  # distances
        self.start: Configuration = closure([] if node.is_nothing else [begin(node, None)])

    # ------------------------------------------------------------ steps

    def byte(self, at: Configuration, byte: int) -> Configuration:
        """Return the configuration after a byte, whether or not it has an end."""
        return closure(after for stack in at if stack is not None for after in read(stack, byte))

    def step(self, at: Configuration, token: int) -> Configuration:
        """Return the configuration after a token, whether or not it has an end."""
        for byte in self.vocab.token_bytes[token] or b"":
            at = self.byte(at, byte)
        return frozenset(map(token_end, at))

    def accepting(self, at: Configuration) -> bool:
        """Return whether the text may end."""
        return None in at

    def accepts(self, text: bytes) -> bool:
        """Return whether a text is accepted, byte by byte."""
        at = self.start
        for byte in text:
            at = self.byte(at, byte)
        return self.accepting(at)

    # ------------------------------------------------------------ masks

    def mask(self, at: Configuration, left: int = NEVER - 1) -> set[int]:
        """Return the tokens that may follow and after which ``left`` tokens suffice, the end token among them."""
        found = {self.vocab.eos_token_id} if self.accepting(at) and left >= 0 else set()
        todo = [(0, at)]
        while todo:
            place, here = todo.pop()
            for byte, child in self.after(place):
                if after := self.byte(here, byte):
                    todo.append((child, after))
                    if tokens := self.tokens(child):
                        found |= tokens if self.fewest(frozenset(map(token_end, after))) <= left else set()
        return found

    def tokens(self, place: int) -> set[int]:
        """Return the tokens that end in a node of the trie."""
        low, own = self.trie.low[place], self.trie.own[place]
        return set(self.trie.order[low : low + own].tolist())

    def after(self, place: int) -> Iterator[tuple[int, int]]:
        """Yield the bytes that lead on from a node of the trie, each with the node to which it leads."""
        inner = range(*self.trie.first[place : place + 2])
        yield from zip(self.trie.byte[inner].tolist(), inner, strict=True)

    # ------------------------------------------------------------ distances

    def fewest(self, at: Configuration) -> int:
        """Return the fewest tokens to the end, the end token included; ``NEVER`` if there is none. Raises ``TooLarge``."""
        if at not in self.known:
            self.known[at] = self._search(at)
        return self.known[at]

    def _search(self, at: Configuration) -> int:
        layer: Iterable[tuple[int, Stack]] = [(0, stack) for stack in at]
        seen = set(layer)
        for cost in itertools.count(1):
            todo, layer = list(layer), []
            for place, stack in todo:  # grows meanwhile: a token goes on
                if stack is None:
                    if place == 0:
                        return cost
                    continue
                for child, after in self._read(place, stack):
                    inside, ended = (child, after), (0, token_end(after))
                    if inside not in seen:
                        seen.add(inside)
                        todo.append(inside)
                    if self.trie.own[child] and ended not in seen:
                        seen.add(ended)
                        layer.append(ended)
                if len(seen) > MOST:
                    raise TooLarge
            if not layer:
                return NEVER

    def _read(self, place: int, stack: Frame) -> Iterator[tuple[int, Stack]]:
        """Yield the nodes of the trie and stacks after each byte that may come."""
        rows = reads(stack.node, stack.register)
        for byte, child in self.after(place):
            if any(low <= byte <= high for low, high, _ in rows):
                for after in closure(read(stack, byte)):
                    yield child, after
