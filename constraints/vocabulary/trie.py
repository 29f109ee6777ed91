"""The prefix tree of a vocabulary.

Tokens are ranked in the lexicographic order of their bytes, so the tokens below a node are one range of ranks, and those
that end at the node itself come first in it. Nodes are numbered level by level: the children of a node are a range too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int, UInt8
from numpy import ndarray


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
    def has_all_bytes(self) -> bool:
        """Whether each byte is a token by itself."""
        return bool(self.single.all())

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
