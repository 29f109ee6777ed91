"""Which name comes next: the deterministic automaton of an object's member names, each marked with the member it is."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata import nfa
from ..automata.arrays import spans
from ..automata.dfa import minimize
from ..automata.work import metered, spend
from . import strings
from .patterns import BODY
from .shapes import Strings

QUOTE = 34
Range = tuple[int, int, int]


class Others(NamedTuple):
    """The states in which a name is none of those listed, which is one class of names: they come after all other states, the
    one after the closing quote last, and are entered by ``edges``, rows (source, low, high, target), by source."""

    begin: int
    size: int
    mark: int
    edges: Int[ndarray, "edge 4"]

    def copies(self, asked: list[tuple[int, int, int]]) -> Int[ndarray, "edge 4"]:
        """For each (state, its number, number of the first of these states) the edges into them."""
        state, number, first = np.array(asked, np.int64).reshape(-1, 3).T
        begin, end = (np.searchsorted(self.edges[:, 0], state, side=side) for side in ("left", "right"))
        out: Int[ndarray, "edge 4"] = self.edges[spans(begin, end - begin)]
        out[:, 0] = np.repeat(number, end - begin)
        out[:, 3] += np.repeat(first - self.begin, end - begin)
        return out


class Names(NamedTuple):
    """From state 0, after the opening quote: the edges (low, high, target) of each state, the members that the state after
    a closing quote stands for, and those that may still come of a state (bits). Where all names that are not listed are
    one class, the states and edges for these are told apart."""

    edges: list[list[Range]]
    marks: list[int]
    reach: list[int]
    others: Others | None = None


@metered(maxsize=512)
def tell(names: tuple[str, ...], classes: tuple[Strings, ...]) -> Names:
    """The automaton of the names (members 0, 1, …) and then of classes of names."""
    spend(sum(map(len, names)))
    every = Strings(but=frozenset(names))
    if all(map(strings.is_simple, names)) and classes in ((), (every,)):
        found = trie(names, bool(classes))
    else:
        edges, marks = general(names, classes)
        found = Names(edges, marks, reached(edges, marks))
    size = len(found.edges) + (found.others.size if found.others else 0)
    spend(size * (2 + len(names) / 1_000))
    return found


def trie(names: tuple[str, ...], others: bool) -> Names:
    """Names that are written in one way each, and perhaps all other strings."""
    children: list[dict[int, int]] = [{}]
    ends: dict[int, int] = {}
    for i, name in enumerate(names):
        node = 0
        for byte in name.encode():
            if byte not in children[node]:
                children[node][byte] = len(children)
                children.append({})
            node = children[node][byte]
        ends[node] = i
    edges: list[list[Range]] = [[(b, b, t) for b, t in node.items()] for node in children]
    marks = [0] * len(edges)
    for node, i in ends.items():
        edges[node].append((QUOTE, QUOTE, len(edges)))
        edges.append([])
        marks.append(1 << i)
    reach = reached(edges, marks)
    if not others:
        return Names(edges, marks, reach)
    nodes, body, mark = len(children), letters(), 1 << len(names)
    table = np.concatenate([np.repeat(body[:1], nodes, axis=0), body])  # the states of names, then these
    table[
        [n for n, inner in enumerate(children) for _ in inner], [b for inner in children for b in inner]
    ] = -1
    table[[n for n in range(nodes + 1) if n not in ends], QUOTE] = len(body)
    state, low, high, there = runs(table)
    base = len(edges)
    state[state >= nodes] += base - nodes
    rows = np.column_stack([state, low, high, base + there])
    reach[:nodes] = [r | mark for r in reach[:nodes]]
    return Names(edges, marks, reach, Others(base, len(body) + 1, mark, rows))


def runs(table: Int[ndarray, "state 256"]) -> Int[ndarray, "4 run"]:
    """The runs of bytes that lead a state to the same one, −1 for none: (state, low, high, target) in order."""
    new = np.ones(table.shape, bool)
    new[:, 1:] = table[:, 1:] != table[:, :-1]
    state, low = np.nonzero(new)
    high = np.append(low[1:], 256) - 1
    high[high < 0] = 255  # the next run is of another state
    found = np.stack([state, low, high, table[state, low]])
    return np.asarray(found[:, found[3] >= 0])


@lru_cache(maxsize=1)
def letters() -> Int[ndarray, "state 256"]:
    """The state after each byte, inside of all strings, −1 for none; state 0 is between two letters."""
    body = BODY.plain
    number, start = np.arange(body.num_states), int(body.start[0])
    number[[0, start]] = start, 0
    table = np.full((body.num_states, 256), -1)
    for source, low, high, target in body.edges.tolist():
        table[number[source], low : high + 1] = number[target]
    return table


def general(names: tuple[str, ...], classes: tuple[Strings, ...]) -> tuple[list[list[Range]], list[int]]:
    """Any names and classes: after the closing quote each is told by a word of bytes that no text has."""
    bodies = [strings.words([name]) for name in names] + [strings.body(c) for c in classes]
    digits = len(f"{len(bodies):o}")
    marked = [
        nfa.concat([body, nfa.literal(b'"' + bytes(0xF8 + int(d, 8) for d in f"{i:0{digits}o}"))])
        for i, body in enumerate(bodies)
    ]
    found = minimize(nfa.union(marked))
    rows: list[list[Range]] = [[] for _ in range(found.num_states)]
    for source, low, high, target in found.edges.tolist():
        rows[source].append((low, high, target))

    def read(state: int, left: int) -> list[str]:
        if not left:
            return [""]
        return [
            f"{byte - 0xF8}{rest}"
            for low, high, target in rows[state]
            for byte in range(low, high + 1)
            for rest in read(target, left - 1)
        ]

    start = int(found.start[0]) if found.num_states else 0
    order, number, marks = [start], {start: 0}, []
    edges: list[list[Range]] = []
    for state in order:
        closing = bool(rows) and any(low >= 0xF8 for low, _, _ in rows[state])
        marks.append(sum(1 << int(word, 8) for word in read(state, digits)) if closing else 0)
        out = []
        for low, high, target in rows[state] if rows and not closing else []:
            if target not in number:
                number[target] = len(order)
                order.append(target)
            out.append((low, high, number[target]))
        edges.append(out)
    return edges, marks


def reached(edges: list[list[Range]], marks: list[int]) -> list[int]:
    """The marks that may still come of each state."""
    before: list[list[int]] = [[] for _ in edges]
    for source, rows in enumerate(edges):
        for _, _, target in rows:
            before[target].append(source)
    found = list(marks)
    stack = [s for s, mark in enumerate(marks) if mark]
    while stack:
        state = stack.pop()
        for source in before[state]:
            joined = found[source] | found[state]
            if joined != found[source]:
                found[source] = joined
                stack.append(source)
    return found
