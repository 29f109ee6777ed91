"""The prefix tree of a vocabulary, and token sets as ranges of it.

Tokens are ranked in the lexicographic order of their bytes, so the tokens below a node are one range of ranks, and those
that end at the node itself come first in it. Nodes are numbered level by level: the children of a node are a range too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt8
from numpy import ndarray

Range = tuple[int, int]  # (low, high) of ranks, high excluded
TEXT_BYTES = [*range(0xC0), *range(0xC2, 0xF5)]
"""The bytes of UTF-8."""


class Views(NamedTuple):
    """Arrays of a :class:`Trie` as memory views, which are fast to read one entry at a time."""

    first: memoryview[int]
    own: memoryview[int]
    low: memoryview[int]
    high: memoryview[int]
    order: memoryview[int]


class Trie:
    """The prefix tree of a vocabulary, its nodes numbered level by level.

    Node 0 is the root; the nodes at depth d are ``bounds[d] .. bounds[d + 1]``. ``parent[i]`` and ``byte[i]``: the parent of
    node i and the byte on the edge to it. ``node[t]``: the node at which token t ends, −1 for tokens without bytes.
    ``order[r]``: the token of rank r.
    """

    def __init__(
        self,
        parent: Int[ndarray, " node"],
        byte: UInt8[ndarray, " node"],
        bounds: Sequence[int],
        node: Int[ndarray, " token"],
        order: Int[ndarray, " rank"],
    ) -> None:
        self.parent, self.byte, self.bounds, self.node, self.order = parent, byte, list(bounds), node, order

    @classmethod
    def of(cls, token_bytes: Sequence[bytes | None]) -> Trie:
        """Build the tree of these tokens; ``None`` and empty ones are left out."""
        ids = sorted((i for i, b in enumerate(token_bytes) if b), key=lambda i: token_bytes[i] or b"")
        words = [token_bytes[i] or b"" for i in ids]
        data = np.frombuffer(b"".join(words), np.uint8)
        length = np.array([len(word) for word in words], np.int64)
        begin = np.cumsum(length) - length
        token, at = np.array(ids, np.int64), np.zeros(len(ids), np.int64)  # live tokens and their nodes
        node = np.full(len(token_bytes), -1)
        parents, letters, bounds = [np.zeros(1, np.int64)], [np.zeros(1, np.uint8)], [0, 1]
        for depth in range(int(length.max(initial=0))):
            live = length > depth
            token, length, begin, at = token[live], length[live], begin[live], at[live]
            byte = data[begin + depth]
            new = np.concatenate([[True], (at[1:] != at[:-1]) | (byte[1:] != byte[:-1])])
            parents.append(at[new])
            letters.append(byte[new])
            at = bounds[-1] + np.cumsum(new) - 1
            bounds.append(bounds[-1] + int(new.sum()))
            ends = length == depth + 1
            node[token[ends]] = at[ends]
        return cls(
            np.concatenate(parents),
            np.concatenate(letters),
            bounds,
            node,
            np.array(ids, np.int64),
        )

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("views", "letters", "_children")}

    def arrays(self) -> dict[str, Int[ndarray, " n"]]:
        """Return the arrays of the tree and of its main derived attributes, for :meth:`from_arrays`."""
        names = ("parent", "byte", "node", "order", "first", "own", "low", "high")
        small = {name: getattr(self, name).astype(np.int32) for name in names}
        return {**small, "byte": self.byte, "bounds": np.array(self.bounds)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Int[ndarray, " n"]]) -> Trie:
        """Rebuild a tree from its :meth:`arrays`."""
        wide = {k: v if k == "byte" else v.astype(np.int64) for k, v in arrays.items()}
        trie = cls(wide["parent"], wide["byte"], wide["bounds"].tolist(), wide["node"], wide["order"])
        trie.__dict__.update(
            {"first": wide["first"], "own": wide["own"], "_ranks": (wide["low"], wide["high"])}
        )
        return trie

    @cached_property
    def first(self) -> Int[ndarray, " node+1"]:
        """Child ranges: the children of node i are the nodes ``first[i] .. first[i + 1]``."""
        return np.searchsorted(self.parent[1:], np.arange(len(self.parent) + 1)) + 1

    @cached_property
    def own(self) -> Int[ndarray, " node"]:
        """The number of tokens that end at each node."""
        return np.bincount(self.node[self.order], minlength=len(self.parent))

    @cached_property
    def single(self) -> Bool[ndarray, " 256"]:
        """The bytes that are tokens by themselves."""
        found, level = np.zeros(256, bool), slice(1, self.bounds[2] if len(self.bounds) > 2 else 1)
        found[self.byte[level][self.own[level] > 0]] = True
        return found

    @cached_property
    def spells_all(self) -> bool:
        """Whether tokens of one byte write every text: all bytes of UTF-8 are tokens by themselves."""
        return bool(self.single[TEXT_BYTES].all())

    @cached_property
    def low(self) -> Int[ndarray, " node"]:
        """The first rank of each subtree: node i has ranks ``low[i] .. high[i]``, its own first."""
        return self._ranks[0]

    @cached_property
    def high(self) -> Int[ndarray, " node"]:
        """One past the last rank of each subtree."""
        return self._ranks[1]

    @cached_property
    def _ranks(self) -> tuple[Int[ndarray, " node"], Int[ndarray, " node"]]:
        size = self.own.copy()
        for low, high in reversed(list(itertools.pairwise(self.bounds[1:]))):
            np.add.at(size, self.parent[low:high], size[low:high])
        begin = np.zeros(len(size), np.int64)
        for low, high in itertools.pairwise(self.bounds[1:]):
            before = np.cumsum(size[low:high]) - size[low:high]  # ranks of the earlier nodes of this level
            parent = self.parent[low:high]
            begin[low:high] = begin[parent] + self.own[parent] + before - before[self.first[parent] - low]
        return begin, begin + size

    @cached_property
    def _children(self) -> dict[int, dict[int, int]]:
        return {}

    def children(self, node: int) -> dict[int, int]:
        """Return the children of a node as a dict from byte to node (cached)."""
        found = self._children.get(node)
        if found is None:
            a, b = self.views.first[node], self.views.first[node + 1]
            found = dict(zip(self.byte[a:b].tolist(), range(a, b), strict=True))
            self._children[node] = found
        return found

    @cached_property
    def _key(self) -> Int[ndarray, " node-1"]:
        return np.asarray(self.parent[1:] * 256 + self.byte[1:])

    def child(self, node: Int[ndarray, " n"], byte: Int[ndarray, " n"]) -> Int[ndarray, " n"]:
        """Look up the child of each node by its byte, −1 for none."""
        want = node * 256 + byte
        at = np.minimum(np.searchsorted(self._key, want), max(0, len(self._key) - 1))
        return np.where(self._key[at] == want, at + 1, -1) if len(self._key) else np.full(len(node), -1)

    @cached_property
    def views(self) -> Views:
        """Memory views of the arrays ``first``, ``own``, ``low``, ``high`` and ``order``."""
        arrays = (self.first, self.own, self.low, self.high, self.order)
        return Views(*(np.ascontiguousarray(a, np.int64).data for a in arrays))

    @cached_property
    def letters(self) -> bytes:
        """``byte`` as a ``bytes`` object, for bisection."""
        return self.byte.tobytes()

    @cached_property
    def of_two_names(self) -> list[tuple[int, bytes]]:
        """(token id, bytes) of the tokens with a quote, a colon, a comma and a quote, in this order.

        In JSON and Python these may end the name of one member and begin the name of the next.
        """
        part = np.zeros(len(self.parent), np.int64)  # of the four, how many have been read
        wanted = [np.isin(np.arange(256), list(some)) for some in (b"\"'", b":", b",", b"\"'", b"")]
        for low, high in itertools.pairwise(self.bounds[1:]):
            before = part[self.parent[low:high]]
            part[low:high] = before + np.array(wanted)[before, self.byte[low:high]]
        return [
            (token, self.text(self.node[token]))
            for token in self.order[part[self.node[self.order]] == 4].tolist()
        ]

    def text(self, node: int) -> bytes:
        """Return the bytes on the path from the root to a node."""
        out = bytearray()
        while node:
            out.append(int(self.byte[node]))
            node = int(self.parent[node])
        return bytes(reversed(out))

    @property
    def num_bytes(self) -> int:
        """The size in bytes of a packed token set: a bit for each token, in words of 32 bits."""
        return -(-len(self.node) // 32) * 4


class Ranges:
    """A union of disjoint ranges of ranks."""

    def __init__(self, pieces: list[Range]) -> None:
        self.pieces = sorted(pieces)
        self._ends = np.array(self.pieces, np.int64).reshape(-1, 2) if pieces else None

    def outside(self, ranks: Int[ndarray, " n"]) -> Bool[ndarray, " n"]:
        """Return whether each rank lies in none of the ranges."""
        if self._ends is None:
            return np.ones(len(ranks), bool)
        at = np.searchsorted(self._ends[:, 0], ranks, side="right") - 1
        return np.asarray((at < 0) | (ranks >= self._ends[at, 1]))


def put(packed: UInt8[ndarray, " bytes"], tokens: Int[ndarray, " some"], value: bool) -> None:
    """Set or clear the bits of some tokens in a packed token set, in place."""
    if len(tokens) <= 16:
        bits = packed.data
        for token in tokens.tolist():
            if value:
                bits[token >> 3] |= 1 << (token & 7)
            else:
                bits[token >> 3] &= 255 - (1 << (token & 7))
    else:
        mask = np.left_shift(1, tokens & 7).astype(np.uint8)
        if value:
            np.bitwise_or.at(packed, tokens >> 3, mask)
        else:
            np.bitwise_and.at(packed, tokens >> 3, ~mask)
