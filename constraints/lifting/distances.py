"""The fewest tokens from each state to acceptance, without writing transitions out.

Upper bounds from one shortest text of each state (``shortest.py``) are lowered until no token improves any: then they are
exact. A token is looked for down the trie from all states together, and only where one could help: a part of the trie of
height h is left out at a state q if no state within h bytes of q is near enough to acceptance. Tokens with the bytes
that bring states with many bytes nearer to acceptance (a closing quote) have a bound of their own, so that within strings
only the few tokens with such a byte are looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np
from jaxtyping import Bool, Int, Int32
from numpy import ndarray

from ...circuits.automaton import UNREACHABLE
from ..automata.arrays import distinct, group_by, spans
from ..automata.dfa_table import Dfa
from ..automata.epsilon import NO_SKIPS
from ..automata.nfa import Nfa
from ..vocabulary.trie import Trie

FAR = 32  # bytes; heights from here on are not told apart
WIDE = 32  # bytes
OFTEN = 16  # one in so many of the most frequent
AT_ONCE = 1 << 12  # states whose tokens are looked for together
Pairs = tuple[Int[ndarray, " pair"], Int[ndarray, " pair"]]  # (source, target) by one token


def exact(
    dfa: Dfa, trie: Trie, length: Int[ndarray, " states"], bounds: Int[ndarray, " states"], known: Pairs
) -> Int[ndarray, " states"]:
    """The distances of the states, from those in bytes (``length``) and bounds that single steps (``known``) attain."""
    if not len(dfa.source):
        return bounds
    fewest, leave = bounds.copy(), delimiters(dfa, length)
    if dfa.num_states > AT_ONCE:
        dfa, trie, leave = by_class(dfa, trie, leave)
    heights = Heights(trie, leave)
    changed = np.ones(len(fewest), bool)
    while changed.any():
        before = fewest.copy()
        near = tuple(
            nearest(dfa, np.where(changed, fewest, UNREACHABLE), some)
            for some in (leave, np.zeros(256, bool))
        )
        pairs = list(improvements(dfa, trie, heights, near, fewest))
        sources, targets = zip(known, *pairs, strict=True)
        known = np.concatenate(sources), np.concatenate(targets)
        relax(fewest, known)
        changed = fewest < before
    return fewest


def by_class(dfa: Dfa, trie: Trie, some: Bool[ndarray, " 256"]) -> tuple[Dfa, Trie, Bool[ndarray, " 256"]]:
    """The automaton, the tree of tokens and some bytes with one byte for all that no edge tells apart: tokens that the
    automaton reads alike are one."""
    cut = np.zeros(257, bool)
    cut[dfa.low] = cut[dfa.high + 1] = True
    klass = np.cumsum(cut[:256]) - cut[0]
    node, parents, letters = np.zeros(len(trie.parent), np.int64), [trie.parent[:1]], [trie.byte[:1]]
    bounds = [0, 1]
    for low, high in itertools.pairwise(trie.bounds[1:]):
        key = node[trie.parent[low:high]] * 256 + klass[trie.byte[low:high]]
        found, place = np.unique(key, return_inverse=True)
        node[low:high] = bounds[-1] + place
        parents.append(found >> 8)
        letters.append((found & 255).astype(np.uint8))
        bounds.append(bounds[-1] + len(found))
    ends = distinct(node[trie.own > 0])
    tree = Trie(np.concatenate(parents), np.concatenate(letters), bounds, ends, np.arange(len(ends)))
    edges = np.column_stack([dfa.source, klass[dfa.low], klass[dfa.high], dfa.target])
    none = np.empty(0, np.int64)
    kept = np.zeros(256, bool)
    kept[klass[some]] = True
    return Dfa(Nfa(dfa.num_states, edges, NO_SKIPS, none, none)), tree, kept


def relax(fewest: Int[ndarray, " states"], known: Pairs) -> None:
    """Lower the bounds, in place, until the given steps improve none. Every step is looked at once, from its target, the
    targets in the order of their distance."""
    source, target = known
    if not (fewest[target] + 1 < fewest[source]).any():
        return
    pointer, order = group_by(target, len(fewest))
    states = np.argsort(fewest, kind="stable")
    value, begin = np.unique(fewest[states], return_index=True)
    levels = value.tolist()
    waiting = dict(zip(levels, np.split(states, begin[1:]), strict=True))
    while levels and (distance := heappop(levels)) < UNREACHABLE:
        here = waiting.pop(distance)
        here = here[fewest[here] == distance]
        count = pointer[here + 1] - pointer[here]
        before = source[order[spans(pointer[here], count)]]
        before = distinct(before[fewest[before] > distance + 1])
        if len(before):
            fewest[before] = distance + 1
            if distance + 1 not in waiting:
                heappush(levels, distance + 1)
            waiting[distance + 1] = np.concatenate([before, waiting.get(distance + 1, before[:0])])


def delimiters(dfa: Dfa, length: Int[ndarray, " states"]) -> Bool[ndarray, " 256"]:
    """The bytes that take many of the states with many bytes nearer to acceptance."""
    _, width = dfa.most
    wide = (dfa.low == dfa.high) & (width[dfa.source] >= WIDE)
    nearer = wide & (length[dfa.target] < length[dfa.source])
    count = np.bincount(dfa.low[nearer], minlength=256)
    return np.asarray((count > 0) & (OFTEN * count >= count.max()))


class Heights:
    """How many bytes a token may still have below each node, at most ``FAR``; −1 where there is none.

    ``without`` of the tokens that have a delimiter nowhere below the node, ``within`` of the others.
    """

    def __init__(self, trie: Trie, leave: Bool[ndarray, " 256"]) -> None:
        without = np.where(trie.own > 0, 0, -1)
        within = np.full(len(without), -1)
        for low, high in reversed(list(itertools.pairwise(trie.bounds[1:]))):
            parent, here, there = trie.parent[low:high], without[low:high], within[low:high]
            cut = leave[trie.byte[low:high]]
            with_it = np.where(cut, np.maximum(here, there), there)
            for heights, below in ((without, np.where(cut, -1, here)), (within, with_it)):
                some = below >= 0
                np.maximum.at(heights, parent[some], below[some] + 1)
        self.without, self.within = np.minimum(without, FAR), np.minimum(within, FAR)


def nearest(
    dfa: Dfa, fewest: Int[ndarray, " states"], leave: Bool[ndarray, " 256"]
) -> Int32[ndarray, "height states"]:
    """The least of the bounds of the states within 0, 1, … bytes of each, by edges with other bytes than ``leave``."""
    others = np.concatenate([[0], np.cumsum(~leave)])
    edge = np.flatnonzero(others[dfa.high + 1] > others[dfa.low])
    source, target = dfa.source[edge], dfa.target[edge]
    head = np.flatnonzero(np.concatenate([[True], source[1:] != source[:-1]])) if len(edge) else edge
    out = np.empty((FAR + 1, len(fewest)), np.int32)
    out[0] = np.minimum(fewest, np.iinfo(np.int32).max)
    for h in range(1, FAR):
        out[h] = out[h - 1]
        if len(edge):
            at = source[head]
            out[h, at] = np.minimum(out[h, at], np.minimum.reduceat(out[h - 1, target], head))
    out[FAR] = out[0].min()
    return out


def improvements(
    dfa: Dfa,
    trie: Trie,
    heights: Heights,
    near: tuple[Int32[ndarray, "height states"], ...],
    fewest: Int[ndarray, " states"],
) -> Iterator[Pairs]:
    """Lower the bounds, in place, by single tokens; (source, target) of those that attain them."""
    width = np.bincount(dfa.source, dfa.high - dfa.low + 1, minlength=dfa.num_states).astype(np.int64)
    least = int(near[1][FAR].min())

    def helps(
        source: Int[ndarray, " n"], here: Int[ndarray, " n"], node: Int[ndarray, " n"]
    ) -> Bool[ndarray, " n"]:
        """Whether a token below a node may end near enough."""
        enough = fewest[source] - 2
        without, within = heights.without[node], heights.within[node]
        found = (without >= 0) & (near[0][without, here] <= enough)
        some = np.flatnonzero(~found & (within >= 0))
        found[some] = near[1][within[some], here[some]] <= enough[some]
        return np.asarray(found)

    begin = np.flatnonzero(fewest[: dfa.num_states] - 2 >= least)
    for at in range(0, len(begin), AT_ONCE):
        source = begin[at : at + AT_ONCE]
        here, node = source, np.zeros(len(source), np.int64)
        steps: list[Pairs] = []
        while len(source):
            source, here, node = onward(dfa, trie, width, source, here, node)
            keep = helps(source, here, node)
            source, here, node = source[keep], here[keep], node[keep]
            ends = np.flatnonzero((trie.own[node] > 0) & (fewest[here] + 1 < fewest[source]))
            if len(ends):
                steps.append((source[ends], here[ends]))
                np.minimum.at(fewest, source[ends], fewest[here[ends]] + 1)
        for begins, there in steps:
            attained = fewest[there] + 1 <= fewest[begins]
            yield begins[attained], there[attained]


def onward(
    dfa: Dfa,
    trie: Trie,
    width: Int[ndarray, " states"],
    source: Int[ndarray, " n"],
    here: Int[ndarray, " n"],
    node: Int[ndarray, " n"],
) -> tuple[Int[ndarray, " m"], Int[ndarray, " m"], Int[ndarray, " m"]]:
    """One byte further, by the bytes of the node or of the state, whichever has fewer."""
    count = trie.first[node + 1] - trie.first[node]
    few = count <= width[here]
    by_node, by_state = np.flatnonzero(few), np.flatnonzero(~few)
    child, row = spans(trie.first[node[by_node]], count[by_node]), np.repeat(by_node, count[by_node])
    there, _ = dfa.step(here[row], trie.byte[child].astype(np.int64))
    found = there >= 0
    parts = [(source[row[found]], there[found], child[found])]
    edges = dfa.pointer[here[by_state] + 1] - dfa.pointer[here[by_state]]
    edge, row = spans(dfa.pointer[here[by_state]], edges), np.repeat(by_state, edges)
    bytes_ = dfa.high[edge] - dfa.low[edge] + 1
    byte, edge, row = spans(dfa.low[edge], bytes_), np.repeat(edge, bytes_), np.repeat(row, bytes_)
    child = trie.child(node[row], byte)
    found = child >= 0
    parts.append((source[row[found]], dfa.target[edge[found]], child[found]))
    source, there, child = (np.concatenate(part) for part in zip(*parts, strict=True))
    return source, there, child
