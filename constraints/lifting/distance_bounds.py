"""Bounds on the fewest tokens from each state to acceptance, from one shortest text each: nothing is lifted for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ...circuits.automaton import UNREACHABLE
from ..automata.dfa_table import Dfa
from ..vocabulary.trie import Trie


class Texts(NamedTuple):
    """For each state, a shortest text to acceptance: its length in bytes (and EOS), its first byte, the state after it."""

    length: Int[ndarray, " states+1"]
    byte: Int[ndarray, " states"]
    onward: Int[ndarray, " states"]


def shortest_texts(dfa: Dfa, single: Bool[ndarray, " 256"], eos: int) -> Texts:
    """Texts of bytes that are tokens by themselves. The last state, after the others, is the sink; ``eos``: 1 to get there."""
    n = dfa.num_states
    least = np.minimum.accumulate(np.where(single, np.arange(256), 256)[::-1])[::-1]  # from each byte on
    reached, onward = dfa.nfa.to_accept
    place = np.zeros(n + 1, np.int64)  # in the order of distance, the sink first
    place[reached] = np.arange(1, len(reached) + 1)
    before = place[onward[reached]]
    length, distance, begin, end = np.full(n + 1, UNREACHABLE), eos, 0, 1
    length[n] = 0
    while end <= len(reached):  # all states with the same distance
        begin, end = end, 1 + int(np.searchsorted(before, end))
        length[reached[begin - 1 : end - 1]] = distance
        distance += 1
    byte, edge = np.zeros(n, np.int64), np.flatnonzero(dfa.target == onward[dfa.source])[::-1]
    byte[dfa.source[edge]] = least[dfa.low[edge]]  # the first one is written last
    return Texts(length, byte, np.where(onward < 0, n, onward))


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
