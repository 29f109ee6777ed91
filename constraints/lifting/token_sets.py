"""What may follow a state of a byte automaton, by nodes of the trie and views of letters, and the mask that it makes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from numpy import ndarray

from ..vocabulary.trie import Range, Ranges, Trie, put
from .slices import NONE, Suffixes, View

ONE_BY_ONE = 96  # tokens that are set one by one
# (tree, least letters, most, nodes at which a token may end)
Leaving = tuple[Suffixes, int, int, tuple[int, ...]]


class Found(NamedTuple):
    """What may follow a state: tokens that end at nodes of the trie, those of a view within so many letters, and those
    that leave letters, but for ranges of ranks. What it is made of names a mask, whichever automaton it comes from."""

    nodes: list[int]
    within: list[tuple[View, int]]
    leaving: list[tuple[tuple[Leaving, ...], tuple[Range, ...]]]
    swept: list[Int[ndarray, " token"]]  # ranks of tokens found together; such a mask is not kept

    def tokens(self, trie: Trie) -> list[int]:
        """Those that end at the nodes."""
        (_, own, low, _, order), out = trie.views, list[int]()
        for node in self.nodes:
            if (count := own[node]) == 1:
                out.append(order[low[node]])
            else:
                out.extend(order[low[node] : low[node] + count])
        return out

    def packed(self, trie: Trie) -> UInt8[ndarray, " bytes"]:
        """All of these tokens, eight to a byte."""
        tokens, sets = self.tokens(trie), list[UInt8[ndarray, " bytes"]]()
        for view, depth in self.within:
            view.put(depth, tokens, sets)
        out = sets[0].copy() if sets else np.zeros(trie.num_bytes, np.uint8)
        for more in sets[1:]:
            np.bitwise_or(out, more, out=out)
        for parts, apart in self.leaving:
            pieces = [tree.at(node, least, most) for tree, least, most, nodes in parts for node in nodes]
            ranks = np.concatenate([NONE, *pieces])
            put(out, trie.order[Ranges(list(apart)).drop(ranks) if apart else ranks], True)
        for ranks in self.swept:
            put(out, trie.order[ranks], True)
        if len(tokens) > ONE_BY_ONE:
            put(out, np.array(tokens), True)
            return out
        bits = out.data
        for token in tokens:
            bits[token >> 3] |= 1 << (token & 7)
        return out
