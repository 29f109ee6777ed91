"""The tokens that a pattern reads below a trie node: the product of its DFA and the trie.

It is made level by level. What the DFA reads is cached by its state, apart from what limits the number of letters. From the
root of a vocabulary the shapes of tokens are read instead, if the DFA allows that (:mod:`.letter_shapes`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ..automata.arrays import distinct, ragged_arange
from ..automata.lazy import Flags, Pattern, PatternTable
from ..vocabulary.trie import Trie
from .letter_shapes import USUAL, Classes, Shapes, are_alike, own_classes, told_apart
from .text_tokens import NONE, Bits, LetterTable, Ranks, TextTokens, keep

MAX_READ = 256  # DFA states whose readings are cached
MAX_KEPT = 20_000  # tokens of a reading that is cached
MAX_SHAPES = 8  # partitions of the bytes whose shapes are cached
OWN_SHAPES = 300_000  # tokens read by a DFA after which it gets its own shapes
Numbers = Int[ndarray, " n"]


class PatternPart(NamedTuple):
    """The tokens of one node and one state of a pattern.

    ``inside``: the tokens that stay within the pattern, as a set or as ranks. ``leaves(ranks)``: which of some tokens that
    leave the text do so where the pattern may end. ``onward``: nodes from which what follows reads on; of a pattern of letters
    only the one where nothing else comes before the byte that leaves. ``ends``: a DFA state and a number of letters after which
    some token leaves, if any. ``reached``: the states after the tokens inside.
    """

    inside: Bits | Ranks
    leaves: Callable[[Ranks], Bool[ndarray, " n"]]
    onward: list[int]
    ends: tuple[int, int] | None
    reached: Callable[[], list[int]]


class Read(NamedTuple):
    """What a DFA reads below a node.

    ``ranks``: the tokens, with the ``state`` and the ``letters`` after them if these are asked for. ``nodes``: the nodes after
    a byte that leaves the pattern, with ``state_there`` and ``letters_there`` before that byte; or the nodes at which the pattern
    has ended.
    """

    ranks: Ranks
    state: Numbers
    letters: Numbers
    nodes: Numbers
    state_there: Numbers
    letters_there: Numbers


class PatternTokens:
    """What patterns read through one vocabulary, shared by all automata."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self._read: OrderedDict[tuple[PatternTable, int, Trie, int, int, bool], Read] = OrderedDict()
        self._states: OrderedDict[tuple[PatternTable, int], Numbers] = OrderedDict()
        self._shapes: OrderedDict[tuple[bytes, LetterTable | None], Shapes] = OrderedDict()
        self._shapes_of: WeakKeyDictionary[PatternTable, Shapes] = WeakKeyDictionary()
        self._tokens_read: WeakKeyDictionary[PatternTable, int] = WeakKeyDictionary()

    def part(self, pattern: Pattern, trie: Trie, node: int, text: TextTokens | None) -> PatternPart:
        """Read all tokens below a node; ``text`` are its tokens in free text, ``None`` if no letters are counted."""
        table = None if text is None else text.table
        if trie is self.trie and node == 0 and (shapes := self.shapes(pattern, table)) is not None:
            return self.by_shapes(pattern, shapes, text)
        read = self.read(pattern, trie, node)
        inside = read.ranks
        state, letters, nodes = read.state_there, read.letters_there, read.nodes
        if pattern.live is not None:
            inside = inside[pattern.live(read.state, read.letters)]
            live = pattern.live(state, letters)
            state, letters, nodes = state[live], letters[live], nodes[live]
        out = pattern.final(state, letters)
        state, letters, nodes = state[out], letters[out], nodes[out]
        begin = np.sort(trie.low[nodes])
        end = np.sort(trie.high[nodes])

        def leaves(ranks: Ranks) -> Bool[ndarray, " n"]:
            at = np.searchsorted(begin, ranks, side="right") - 1
            return np.asarray((at >= 0) & (ranks < end[at]))

        return PatternPart(
            inside,
            leaves,
            (nodes if text is None else nodes[trie.parent[nodes] == node]).tolist(),
            (int(state[0]), int(letters[0])) if len(nodes) else None,
            lambda: distinct(read.state).tolist(),
        )

    # ------------------------------------------------------------ by tokens

    def read(self, pattern: Pattern, trie: Trie, node: int) -> Read:
        """Return all that the DFA of a pattern reads below a node (cached)."""
        counted, table = pattern.live is not None or pattern.letters is None, pattern.table
        key = (table, pattern.state, trie, node, pattern.leaves, pattern.ends is None)
        found = self._read.get(key)
        if found is None:
            found = read_below(table, pattern.state, trie, node, pattern.leaves, counted, pattern.ends)
            if len(found.ranks) <= MAX_KEPT:
                keep(self._read, key, found, MAX_READ)
            if trie is self.trie and node == 0:
                self._tokens_read[table] = self._tokens_read.get(table, 0) + len(found.ranks)
        return found

    # ------------------------------------------------------------ by shapes

    def shapes(self, pattern: Pattern, letters: LetterTable | None) -> Shapes | None:
        """Return the shapes for the DFA of a pattern, ``None`` if there are none yet."""
        table = pattern.table
        found = self._shapes_of.get(table)
        if found is None:
            tokens_read = self._tokens_read.get(table)
            if tokens_read is None:
                if alike_in(pattern, USUAL):
                    found = self._shapes_of[table] = self.shapes_by(USUAL, letters)
                else:
                    self._tokens_read[table] = 0
            elif tokens_read >= OWN_SHAPES:
                classes = classes_in(pattern)
                found = self._shapes_of[table] = self.shapes_by(classes, letters)
        return found

    def shapes_by(self, classes: Classes, letters: LetterTable | None) -> Shapes:
        """Return the shapes by some classes of bytes (cached)."""
        key = (classes.tobytes(), letters)
        found = self._shapes.get(key)
        if found is None:
            found = keep(self._shapes, key, Shapes(self.trie, classes, letters), MAX_SHAPES)
        return found

    def by_shapes(self, pattern: Pattern, shapes: Shapes, text: TextTokens | None) -> PatternPart:
        """Return :meth:`part` from the root of the vocabulary, by shapes."""
        key, dead = (pattern.table, pattern.state), len(pattern.table.between)
        states = self._states.get(key)
        if states is None:
            states = keep(self._states, key, shapes.states(*key), MAX_READ)
        live = states != dead
        if pattern.live is not None:
            some = np.flatnonzero(live)
            live[some] = pattern.live(states[some].astype(np.int64), shapes.letters[some])
        if text is None:
            return self._onward(pattern, shapes, states, live)
        out = shapes.with_byte(pattern.leaves)
        before = shapes.parent[out]
        known = live[before]
        out, before = out[known], before[known]
        final = pattern.final(states[before], shapes.letters[before])
        out, before = out[final], before[final]
        leaving = np.zeros(shapes.size + 1, bool)
        leaving[out] = True

        def leaves(ranks: Ranks) -> Bool[ndarray, " n"]:
            return np.asarray(leaving[shapes.leaving(text, pattern.leaves)[ranks]])

        return PatternPart(
            shapes.tokens(live),
            leaves,
            [self.trie.children(0)[pattern.leaves]] if len(out) and before[0] == 0 else [],
            (int(states[before[0]]), int(shapes.letters[before[0]])) if len(out) else None,
            list,
        )

    def _onward(
        self, pattern: Pattern, shapes: Shapes, states: Numbers, live: Bool[ndarray, " shape"]
    ) -> PatternPart:
        """Return :meth:`part` of a pattern without letters, after whose ends anything may follow."""
        out = NONE if pattern.ends is None else np.flatnonzero(pattern.ends[states[:-1]])
        return PatternPart(
            shapes.tokens(live),
            lambda ranks: np.zeros(len(ranks), bool),
            shapes.nodes(out).tolist() if len(out) else [],
            (int(states[out[0]]), 0) if len(out) else None,
            lambda: distinct(states[:-1][(live & shapes.ends)[:-1]]).tolist(),
        )


def alike_in(pattern: Pattern, classes: Classes) -> bool:
    """Return whether a pattern reads all bytes of a class alike."""
    if pattern.letters is None:
        return bool((pattern.table.classes == pattern.table.classes[classes]).all())
    return are_alike(told_apart(pattern.table, pattern.leaves), classes)


def classes_in(pattern: Pattern) -> Classes:
    """Return the largest classes of bytes that a pattern reads alike."""
    if pattern.letters is None:
        _, first, kind = np.unique(pattern.table.classes, return_index=True, return_inverse=True)
        return first[kind].astype(np.uint8)
    return own_classes(told_apart(pattern.table, pattern.leaves))


def read_below(
    table: PatternTable,
    start: int,
    trie: Trie,
    node: int,
    leaves: int,
    counted: bool,
    final: Flags | None = None,
) -> Read:
    """Read all that a DFA reads below a node, with the states after tokens if ``counted``; ``final``: where it has ended."""
    nodes, state, letters = np.array([node]), np.array([start]), np.zeros(1, np.int64)
    after, between, dead = table.after.ravel(), np.append(table.between, False), len(table.between)
    classes, width = table.classes, table.after.shape[1]
    ends, out = list[tuple[Numbers, ...]](), list[tuple[Numbers, ...]]()
    while len(nodes):
        if nodes[0] != node:
            own = trie.own[nodes]
            some = (np.repeat(state, own), np.repeat(letters, own)) if counted else (NONE, NONE)
            ends.append((ragged_arange(trie.low[nodes], own), *some))
        children = trie.first[nodes + 1] - trie.first[nodes]
        nodes = ragged_arange(trie.first[nodes], children)
        state, letters = np.repeat(state, children), np.repeat(letters, children)
        byte = trie.byte[nodes]
        leaving = np.flatnonzero(byte == leaves)
        if len(leaving):
            out.append((nodes[leaving], state[leaving], letters[leaving]))
        state = after[state * width + classes[byte]].astype(np.int64)
        kept = np.flatnonzero(state != dead)
        nodes, state = nodes[kept], state[kept]
        letters = letters[kept] + between[state]
        if final is not None and len(ended := np.flatnonzero(final[state])):
            out.append((nodes[ended], state[ended], letters[ended]))
    ranks, *there = (
        np.concatenate(column)
        for some in (ends, out)
        for column in (zip(*some, strict=True) if some else [[NONE]] * 3)
    )
    return Read(ranks, *there)
