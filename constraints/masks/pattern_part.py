"""The tokens below a node of a trie from a state within a pattern: the pattern's automaton and the trie, level by level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata.arrays import spans
from ..automata.lazy import Pattern
from ..vocabulary.trie import Trie
from .text_part import Ranks


class PatternPart(NamedTuple):
    """``ranks``: the tokens that stay within the pattern. ``leaving``: the nodes that the byte after the pattern leads to, and
    ``ends`` a state of the pattern before one of them."""

    ranks: Ranks
    leaving: Int[ndarray, " node"]
    ends: tuple[int, int] | None


def pattern_part(pattern: Pattern, trie: Trie, node: int) -> PatternPart:
    """Read all tokens below a node."""
    nodes, state, count = np.array([node]), np.array([pattern.state]), np.array([pattern.count])
    ranks, leaving, ends, first = list[Ranks](), [np.empty(0, np.int64)], None, True
    while len(nodes):
        if not first:
            ranks.append(spans(trie.low[nodes], trie.own[nodes]))
        first = False
        children = trie.first[nodes + 1] - trie.first[nodes]
        nodes, parent = spans(trie.first[nodes], children), np.repeat(np.arange(len(nodes)), children)
        byte = trie.byte[nodes]
        out = np.flatnonzero(byte == pattern.leaves)
        out = out[pattern.final(state[parent[out]], count[parent[out]])]
        if len(out):
            leaving.append(nodes[out])
            ends = ends or (int(state[parent[out[0]]]), int(count[parent[out[0]]]))
        state, count = pattern.after(state[parent], count[parent], byte)
        if not (kept := state >= 0).all():
            nodes, state, count = nodes[kept], state[kept], count[kept]
    return PatternPart(
        np.concatenate(ranks) if ranks else np.empty(0, np.int64), np.concatenate(leaving), ends
    )
