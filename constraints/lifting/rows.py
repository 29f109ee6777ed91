"""What may follow a state, as a walk finds it (``walk.py``), and what that says: a bitmask, the tokens to each target."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from numpy import ndarray

from ..vocabulary.trie import Ranges, Trie, put
from .slices import View

if TYPE_CHECKING:
    from .walk import Walk


class Letters(NamedTuple):
    """Tokens that stay within the letters of a cell, from one of its states."""

    view: View
    state: int
    depth: int  # this many further letters may be followed by more bytes
    without: Ranges  # ranks that an exception of the state takes elsewhere


class Row(NamedTuple):
    """What follows a state: single nodes of the trie as (target, ranks), sets of tokens as (target, ranks), letters."""

    ranges: list[tuple[int, int, int]]
    sets: list[tuple[int, Int[ndarray, " token"]]]
    letters: list[Letters]


def packed(walk: Walk, row: Row) -> UInt8[ndarray, " bytes"]:
    """The tokens that may follow, eight to a byte, the lowest bit first; filled up to whole words of 32 bits."""
    order, out = walk.trie.order, None
    for x in sorted(row.letters, key=lambda x: -len(x.view.rank)):
        within = np.searchsorted(x.view.letters, x.depth, side="right")
        if out is None and 2 * within > len(x.view.rank):
            out = x.view.packed(x.depth).copy()
            for low, high in x.without.pieces:
                put(out, order[low:high], False)
        else:
            out = np.zeros(walk.trie.num_bytes, np.uint8) if out is None else out
            put(out, order[x.without.drop(x.view.inside(x.depth))], True)
    out = np.zeros(walk.trie.num_bytes, np.uint8) if out is None else out
    bits, tokens = out.data, walk.trie.views.order
    for _, low, high in row.ranges:
        for rank in range(low, high):
            token = tokens[rank]
            bits[token >> 3] |= 1 << (token & 7)
    for _, ranks in row.sets:
        put(out, order[ranks], True)
    return out


def edges(walk: Walk, row: Row) -> dict[int, list[Int[ndarray, " token"]]]:
    """The ranks of the tokens that lead to each target, in disjoint pieces."""
    out: dict[int, list[Int[ndarray, " token"]]] = {}
    for target, low, high in row.ranges:
        out.setdefault(target, []).append(np.arange(low, high))
    for target, ranks in row.sets:
        out.setdefault(target, []).append(ranks)
    for x in row.letters:
        for target, _, ranks in targets(walk, x):
            kept = x.without.drop(ranks)
            if len(kept):
                out.setdefault(target, []).append(kept)
    return out


def targets(walk: Walk, x: Letters) -> list[tuple[int, tuple[int, ...], Int[ndarray, " token"]]]:
    """(target, name of the set in the view, ranks) for the sets of tokens within letters, exceptions not yet left out."""
    view, table = x.view, walk.embedding
    found: list[tuple[int, tuple[int, ...], Int[ndarray, " token"]]] = []
    paths = view.cell.paths
    onward = int(table.next[x.state])
    loop = x.depth >= view.most and int(table.next[onward]) == onward
    here, done = x.state, 0
    for letters, local, begin, end in view.groups:
        if letters == 0:  # still in the first letter
            target = walk.dfa.run(x.state, word(walk.trie, int(view.rank[begin]), view.node))
        elif loop:
            break
        elif letters > x.depth and (letters > x.depth + 1 or local):
            continue
        else:
            if letters > done:
                here, done = walk.between(here, letters - done), letters
            target = walk.dfa.run(here, paths[local]) if local else here
        found.append((target, (begin, end), view.rank[begin:end]))
    if loop:
        place = int(table.place[onward])
        inner = table.inner[int(table.cell[x.state])]
        for q, ranks in enumerate(view.by_local):
            if len(ranks):
                found.append((int(inner[q, place]) if q else onward, (q,), ranks))
    return found


def word(trie: Trie, rank: int, node: int) -> bytes:
    """The bytes of a token below a node of the trie."""
    out = bytearray()
    at = int(trie.node[trie.order[rank]])
    while at != node:
        out.append(int(trie.byte[at]))
        at = int(trie.parent[at])
    return bytes(reversed(out))
