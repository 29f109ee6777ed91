"""Token shapes: the trie of a vocabulary over classes of bytes, for walks of patterns.

Bytes that patterns seldom tell apart, such as ``g`` to ``z``, are one class, so the trie has far fewer nodes. Two tokens have
one *shape* if their classes agree byte by byte. Bytes after a backslash, and after the lead bytes of characters that include
white space, are told apart. An automaton that reads all bytes of a class alike reads all tokens of a shape alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int, Int32, UInt8
from numpy import ndarray

from ..automata.lazy import PatternTable
from ..vocabulary.trie import Trie
from .text_tokens import Bits, LetterTable, TextTokens

APART = {ord("\\"): 5, 0xC2: 1, 0xE1: 2, 0xE2: 2, 0xE3: 2, 0xEF: 2}
"""By byte, how many bytes after it are told apart."""
Classes = UInt8[ndarray, " 256"]
"""The class of each byte: the first byte in it."""


def classes_of(ranges: Iterable[tuple[int, int]]) -> Classes:
    """Return the classes that are these ranges of bytes; other bytes are classes of their own."""
    found = np.arange(256, dtype=np.uint8)
    for low, high in ranges:
        found[low : high + 1] = low
    return found


USUAL = classes_of(
    [
        (0x00, 0x1F),
        *((0x41, 0x46), (0x47, 0x53), (0x55, 0x59), (0x61, 0x66), (0x67, 0x7A)),
        *((0x80, 0x8F), (0x90, 0x9F), (0xA0, 0xBF), (0xC3, 0xDF), (0xE4, 0xEC), (0xF1, 0xF3)),
    ]
)
"""The usual classes: hexadecimal digits, other letters but the T and the Z of dates,
and what UTF-8 tells apart."""


def told_apart(table: PatternTable, leaves: int) -> Int[ndarray, "row 256"]:
    """Return the transitions of a DFA at all places where bytes are put into classes.

    There is a row for each state, and one for the byte ``leaves`` that may come after its texts.
    """
    after, within = table.after, np.append(~table.between, False)
    others = [byte for byte in range(256) if byte not in APART]
    here = np.flatnonzero(table.between)
    rows, escaped = [after[here]], np.unique(after[here, ord("\\")])
    for _ in range(APART[ord("\\")]):
        escaped = np.unique(after[escaped[within[escaped]]])
    rows.append(after[escaped[within[escaped]]])
    while len(here):
        here = np.unique(after[here][:, others])
        here = here[within[here]]
        rows.append(after[here])
    last = (np.arange(256) == leaves).astype(np.int32)
    return np.concatenate([*rows, last[None]])


def are_alike(rows: Int[ndarray, "row 256"], classes: Classes) -> bool:
    """Return whether these transitions are alike for all bytes of a class."""
    return bool((rows == rows[:, classes]).all())


def own_classes(rows: Int[ndarray, "row 256"]) -> Classes:
    """Return the largest classes of bytes for which these transitions are alike."""
    first: dict[bytes, int] = {}
    columns = np.ascontiguousarray(rows.T)
    return np.array(
        [first.setdefault(column.tobytes(), byte) for byte, column in enumerate(columns)], np.uint8
    )


class Shapes:
    """The shapes of a vocabulary's tokens as a trie: level d is ``bounds[d] .. bounds[d + 1]``.

    Node 0 is the root. ``of_token``: the node of each token, ``size`` for those without bytes. ``ends``: whether some token ends
    at a node. ``letters``: by node, how many letters end on the way to it; 0 if none are counted.
    """

    def __init__(self, trie: Trie, classes: Classes, letters: LetterTable | None) -> None:
        self.trie = trie
        count = len(trie.parent)
        of_node, apart = np.zeros(count, np.int64), np.zeros(count, np.int8)
        steps = np.zeros(256, np.int8)
        steps[list(APART)] = list(APART.values())
        parents, byte, bounds = [np.zeros(1, np.int64)], [np.zeros(1, np.uint8)], [0, 1]
        for low, high in pairwise(trie.bounds[1:]):
            parent, read = trie.parent[low:high], trie.byte[low:high]
            before = apart[parent]
            apart[low:high] = np.maximum(steps[read], before - 1)
            key = of_node[parent] * 256 + np.where(before > 0, read, classes[read])
            new, where = np.unique(key, return_inverse=True)
            of_node[low:high] = bounds[-1] + where
            parents.append(new // 256)
            byte.append((new % 256).astype(np.uint8))
            bounds.append(bounds[-1] + len(new))
        self.parent, self.byte, self.bounds = np.concatenate(parents), np.concatenate(byte), bounds
        self.size = bounds[-1]
        self.of_node: Int32[ndarray, " node"] = of_node.astype(np.int32)
        self.of_token = np.where(trie.node >= 0, self.of_node[trie.node], self.size)
        self.of_token = np.concatenate([self.of_token, np.full(-len(trie.node) % 32, self.size)])
        self.ends = np.zeros(self.size + 1, bool)
        self.ends[self.of_token] = True
        self._columns = [self.byte[a:b].astype(np.int64) for a, b in pairwise(bounds)]
        self._parents = [self.parent[a:b] for a, b in pairwise(bounds)]
        self.letters = np.zeros(self.size, np.int64) if letters is None else self._letters(letters)
        self._with_byte: dict[int, Int[ndarray, " some"]] = {}
        self._leaving: dict[tuple[TextTokens, int], Int32[ndarray, " rank"]] = {}

    def _letters(self, table: LetterTable) -> Int[ndarray, " shape"]:
        letters, state = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        for (low, high), parent, byte in zip(
            pairwise(self.bounds), self._parents, self._columns, strict=True
        ):
            if low:
                state[low:high] = np.maximum(table.after[state[parent], byte], 0)
                letters[low:high] = letters[parent] + (state[low:high] == 0)
        return letters

    def states(self, table: PatternTable, start: int) -> Int[ndarray, " shape"]:
        """Return the state of a DFA after each shape; the number of states if it cannot be read."""
        dead, width, classes = len(table.between), table.after.shape[1], table.classes
        after = table.after.ravel()
        found = np.full(self.size + 1, dead, after.dtype)
        found[0] = start
        for low, parent, byte in zip(self.bounds[1:], self._parents[1:], self._columns[1:], strict=False):
            some = after[found[parent].astype(np.int64) * width + classes[byte]]
            if some.min() == dead:
                break
            found[low : low + len(some)] = some
        return found

    def with_byte(self, byte: int) -> Int[ndarray, " some"]:
        """Return the shapes whose last byte, or its class, is this one."""
        found = self._with_byte.get(byte)
        if found is None:
            found = self._with_byte[byte] = np.flatnonzero(self.byte[1:] == byte) + 1
        return found

    def nodes(self, shapes: Int[ndarray, " some"]) -> Int[ndarray, " node"]:
        """Return the nodes of the vocabulary's trie that have one of these shapes."""
        marked = np.zeros(self.size, bool)
        marked[shapes] = True
        return np.flatnonzero(marked[self.of_node])

    def tokens(self, shapes: Bool[ndarray, " shape"]) -> Bits:
        """Return the tokens of the marked shapes as a packed set."""
        return np.packbits(shapes[self.of_token], bitorder="little")

    def leaving(self, text: TextTokens, byte: int) -> Int32[ndarray, " rank"]:
        """Return, by rank, the shape of the start of a token up to a byte that leaves the text.

        That byte is included. Tokens that do not leave the text with it get ``size``.
        """
        found = self._leaving.get((text, byte))
        if found is None:
            trie = self.trie
            nodes = text.leaving[trie.byte[text.leaving] == byte]
            found = np.full(len(trie.order), self.size, np.int32)
            for node in nodes.tolist():
                found[trie.low[node] : trie.high[node]] = self.of_node[node]
            self._leaving[text, byte] = found
        return found
