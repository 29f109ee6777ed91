"""The trie of a vocabulary with equal subtrees merged: a directed acyclic graph of bytes.

A *node* stands for what may still follow of a token that has been begun; two beginnings with the same rests share a node. The
root is node :attr:`TokenDag.root`: no token has been begun. What a byte automaton reads of a token depends on the node alone.
"""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
from jaxtyping import Int, UInt64
from numpy import ndarray

from ...circuits.automaton import UNREACHABLE
from ..automata.arrays import distinct
from ..automata.lazy import Letters
from ..automata.request_limits import search
from ..vocabulary.trie import Trie
from .text_steps import TextTokens

MAX_TEXTS = 200  # kinds of letters kept
UNITS_A_BYTE = 2  # of work, to split a text into tokens
FAR = 1 << 20  # tokens: a rest that no tokens spell


class TokenDag:
    """The graph of a trie. ``longest``: the bytes of the longest token.

    ``node[i]`` is the node of trie node i; ``model[n]`` is a trie node of node n; ``ends[n]`` says whether a token may end at
    it.
    """

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        _, first, node = np.unique(hashes(trie), return_index=True, return_inverse=True)
        self.node: Int[ndarray, " trie_node"] = node.reshape(-1)
        self.model: Int[ndarray, " node"] = first  # a trie node of each node
        self._check()
        self.root = int(self.node[0])
        self.ends: list[bool] = (trie.own[first] > 0).tolist()
        self.longest = len(trie.bounds) - 2  # bytes
        self._model: list[int] = first.tolist()
        self._rest_after: dict[bytes, int] = {}
        self._ahead: dict[bytes | None, list[bool]] = {}
        self._texts: dict[Letters, TextTokens] = {}
        self._by_table: dict[bytes, TextTokens] = {}
        self._children: list[dict[int, int] | None] = [None] * len(first)

    def _check(self) -> None:
        """Compare all trie nodes with the models of their nodes: hashes might be equal by accident."""
        trie, node = self.trie, self.node
        count, own = np.diff(trie.first), trie.own > 0
        same = (count == count[self.model][node]) & (own == own[self.model][node])
        key = node[trie.parent[1:]] * 256 + trie.byte[1:]
        order = np.argsort(key, kind="stable")
        equal = key[order][1:] == key[order][:-1]
        to = node[1:][order]
        if not same.all() or (to[1:] != to[:-1])[equal].any():
            raise AssertionError("two beginnings of tokens with different rests have one hash")

    def children(self, node: int) -> dict[int, int]:
        """Return the node after each byte that a token may go on with."""
        found = self._children[node]
        if found is None:
            model, of = self._model[node], self.node
            a, b = self.trie.views.first[model], self.trie.views.first[model + 1]
            found = dict(zip(self.trie.byte[a:b].tolist(), of[a:b].tolist(), strict=True))
            self._children[node] = found
        return found

    @cached_property
    def rest(self) -> list[int]:
        """By node, the most tokens that a rest of a token needs when it is written by itself.

        So to be inside a token at node n saves at most ``rest[n] − 1`` tokens against a token's beginning. ``FAR`` if a rest
        cannot be written.
        """
        trie = self.trie
        most = np.zeros(len(trie.parent), np.int32)
        fewest: list[Int[ndarray, "node length"]] = [np.zeros((1, 1), np.int32)]
        suffix: list[Int[ndarray, "node length"]] = [np.zeros((1, 1), np.int64)]
        for depth, (low, high) in enumerate(itertools.pairwise(trie.bounds[1:]), 1):
            parent, byte = trie.parent[low:high], trie.byte[low:high].astype(np.int64)
            before = suffix[-1][
                parent - trie.bounds[depth - 1]
            ]  # the trie nodes of the suffixes of the parent
            here = np.zeros((high - low, depth + 1), np.int64)  # of length 0 … depth
            for length in range(1, depth + 1):
                known = before[:, length - 1]
                child = trie.child(np.maximum(known, 0), byte)
                here[:, length] = np.where(known >= 0, child, -1)
            cost = np.full((high - low, depth + 1), FAR, np.int32)
            cost[:, 0] = 0
            ancestor = np.arange(low, high)
            for last in range(1, depth + 1):  # bytes of the last token
                ancestor = trie.parent[ancestor]
                node = here[:, last]
                some = np.flatnonzero((node >= 0) & (trie.own[np.maximum(node, 0)] > 0))
                if len(some):
                    base = fewest[depth - last][ancestor[some] - trie.bounds[depth - last]]
                    cost[some, last:] = np.minimum(cost[some, last:], base + 1)
            np.minimum(cost, FAR, out=cost)
            own = np.flatnonzero(trie.own[low:high] > 0)
            ancestor = own + low
            for length in range(1, depth + 1):
                ancestor = trie.parent[ancestor]
                np.maximum.at(most, ancestor, cost[own, length])
            fewest.append(cost)
            suffix.append(here)
        return [int(x) for x in most[self.model]]

    @cached_property
    def most_rest(self) -> int:
        """The largest of :attr:`rest`, but for the root's; at least 1."""
        return max([1, *(rest for node, rest in enumerate(self.rest) if node != self.root)])

    def nodes_after(self, last: bytes) -> list[int]:
        """Return the nodes after a byte of ``last`` from which a token may go on, and the root."""
        some = np.isin(self.trie.byte[1:], np.frombuffer(last, np.uint8))
        nodes = distinct(self.node[1:][some]).tolist()
        return [*(node for node in nodes if self.children(node)), self.root]

    def rest_after(self, last: bytes) -> int:
        """Return the largest :attr:`rest` of the nodes after a byte of ``last``.
        At least 1, which a token's beginning is worth."""
        found = self._rest_after.get(last)
        if found is None:
            some = np.isin(self.trie.byte[1:], np.frombuffer(last, np.uint8))
            nodes = distinct(self.node[1:][some]).tolist()
            found = self._rest_after[last] = max([1, *(self.rest[node] for node in nodes)])
        return found

    def text(self, letters: Letters) -> TextTokens:
        """Return the steps of tokens in free text of some letters (cached)."""
        found = self._texts.get(letters)
        if found is None:
            table = np.full((letters.nfa.num_states, 256), -1)
            for source, low, high, target in letters.nfa.edges.tolist():
                table[source, low : high + 1] = target
            key = table.tobytes()
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
                self._by_table.clear()
            if key not in self._by_table:
                self._by_table[key] = TextTokens(self, table)
            found = self._texts[letters] = self._by_table[key]
        return found

    def ahead(self, last: bytes | None) -> list[bool]:
        """Return, by node, whether a byte of ``last`` can come in the rest of a token.
        Always True at the root, and everywhere if ``last`` is ``None``."""
        key = None if last is None else bytes(sorted(set(last)))
        if key not in self._ahead:
            trie = self.trie
            found = np.full(len(trie.parent), key is None)
            if key is not None:
                wanted = np.isin(trie.byte, np.frombuffer(key, np.uint8))
                for low, high in reversed(list(itertools.pairwise(trie.bounds[1:]))):
                    some = found[low:high] | wanted[low:high]
                    found[trie.parent[low:high][some]] = True
            found[0] = True
            self._ahead[key] = found[self.model].tolist()
        return self._ahead[key]

    def fewest(self, text: bytes, after: list[int]) -> list[int]:
        """Return the fewest tokens from each place of a text to the end.
        ``after``: the known ones of its last places."""
        known = len(text) + 1 - len(after)
        costs = [UNREACHABLE] * known + after
        children, ends, root = self.children, self.ends, self.root
        search(UNITS_A_BYTE * known)
        for place in range(known - 1, -1, -1):
            node, best = root, UNREACHABLE
            for end in range(place, len(text)):
                step = children(node).get(text[end])
                if step is None:
                    break
                node = step
                if ends[node] and costs[end + 1] + 1 < best:
                    best = costs[end + 1] + 1
            costs[place] = best
        return costs


def hashes(trie: Trie) -> UInt64[ndarray, " trie_node"]:
    """Return a hash of each trie node that is equal for equal subtrees."""
    salt = np.random.default_rng(0).integers(1, 1 << 63, 256).astype(np.uint64)
    found = mixed((trie.own > 0).astype(np.uint64) + np.uint64(1))
    for low, high in reversed(list(itertools.pairwise(trie.bounds[1:]))):
        np.add.at(found, trie.parent[low:high], mixed(mixed(found[low:high]) + salt[trie.byte[low:high]]))
    return found


def mixed(x: UInt64[ndarray, " n"]) -> UInt64[ndarray, " n"]:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
