"""Bounds on the fewest tokens from each state to acceptance, from one shortest text each: nothing is lifted for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ..circuits.automaton import NEVER
from .arrays import spans
from .moves import Dfa
from .trie import Trie

FEW_EDGES = 50_000


class Texts(NamedTuple):
    """For each state, a shortest text to acceptance: its length in bytes (and EOS), its first byte, the state after it."""

    length: Int[ndarray, " states+1"]
    byte: Int[ndarray, " states"]
    onward: Int[ndarray, " states"]


def shortest_texts(dfa: Dfa, single: Bool[ndarray, " 256"], ends: Int[ndarray, " end"], eos: int) -> Texts:
    """Texts of bytes that are tokens by themselves. The last state, after the others, is the sink; ``eos``: 1 to get there."""
    n = dfa.num_states
    out, byte, onward = np.full(n + 1, NEVER), np.zeros(n, np.int64), np.full(n, n)
    least = np.minimum.accumulate(np.where(single, np.arange(256), 256)[::-1])[::-1]  # from each byte on
    order = np.argsort(dfa.target, kind="stable")
    pointer = np.searchsorted(dfa.target[order], np.arange(n + 1))
    out[n], out[ends] = 0, eos
    if len(order) <= FEW_EDGES:
        length, taken, after = out.tolist(), byte.tolist(), onward.tolist()
        source, low, bounds = dfa.source[order].tolist(), least[dfa.low[order]].tolist(), pointer.tolist()
        queue: list[int] = ends.tolist()
        for there in queue:
            for edge in range(bounds[there], bounds[there + 1]):
                if length[here := source[edge]] == NEVER:
                    length[here], taken[here], after[here] = length[there] + 1, low[edge], there
                    queue.append(here)
        return Texts(np.array(length), np.array(taken), np.array(after))
    reached, distance = ends, eos
    while len(reached):
        distance += 1
        edge = order[spans(pointer[reached], pointer[reached + 1] - pointer[reached])]
        edge = edge[out[dfa.source[edge]] == NEVER]
        reached, first = np.unique(dfa.source[edge], return_index=True)
        out[reached] = distance
        byte[reached], onward[reached] = least[dfa.low[edge[first]]], dfa.target[edge[first]]
    return Texts(out, byte, onward)


def token_steps(
    texts: Texts, ends: Int[ndarray, " end"], trie: Trie
) -> tuple[Int[ndarray, " step"], Int[ndarray, " step"]]:
    """(source, target) by one token on the way of the texts."""
    length, byte, onward = texts
    source, target = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    ended = np.zeros(len(length), bool)
    ended[ends] = True
    start = here = np.flatnonzero(~ended[:-1])
    node = np.zeros(len(start), np.int64)
    while len(start):
        node, here = trie.child(node, byte[here]), onward[here]
        start, here, node = start[node >= 0], here[node >= 0], node[node >= 0]
        taken = trie.own[node] > 0
        source.append(start[taken])
        target.append(here[taken])
        start, here, node = start[~ended[here]], here[~ended[here]], node[~ended[here]]
    return np.concatenate(source), np.concatenate(target)


def fewest_tokens(texts: Texts, ends: Int[ndarray, " end"], trie: Trie) -> Int[ndarray, " states+1"]:
    """The fewest tokens that the texts can be written with, from each state on."""
    length, (sources, targets) = texts.length, token_steps(texts, ends, trie)
    order = np.argsort(length[sources], kind="stable")
    tokens = length.tolist()
    for s, after in zip(sources[order].tolist(), targets[order].tolist(), strict=True):
        if tokens[after] + 1 < tokens[s]:
            tokens[s] = tokens[after] + 1
    return np.array(tokens)
