"""Algorithms on finite automata as arrays; :class:`~tractile.Automaton` wraps them.

Transitions are labelled with token *classes*, numbers from 0 up. Algorithms that follow sets of states (determinisation, for
example) require classes that share no token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ..errors import TooManyStates

UNREACHABLE = 1 << 60  # tokens: the distance of a state that cannot accept
DETERMINIZE_LIMIT = 100_000  # states

States = Bool[ndarray, " states"]
Edges = Int[ndarray, " edges"]


class StateGraph(NamedTuple):
    """States 0 … ``num_states`` − 1 and transitions, a row (state, token class, state) for each."""

    transitions: Int[ndarray, "transitions 3"]
    start: list[int]
    accept: list[int]
    num_states: int

    def by_class(self) -> list[dict[int, list[int]]]:
        """Return for each state the states reached by each token class."""
        out: list[dict[int, list[int]]] = [{} for _ in range(self.num_states)]
        for s, c, d in self.transitions.tolist():
            out[s].setdefault(c, []).append(d)
        return out


def members(states: list[int], num_states: int) -> States:
    """Return which of ``num_states`` states are in a list."""
    out = np.zeros(num_states, bool)
    out[states] = True
    return out


def distances(source: Edges, target: Edges, accepting: States) -> Int[ndarray, " states"]:
    """Compute the fewest tokens from each state to acceptance (``UNREACHABLE``: none), by breadth-first search backwards."""
    out = np.full(len(accepting), UNREACHABLE)
    reached, r = accepting, 0
    while reached.any():
        out[reached] = r
        before = np.zeros_like(reached)
        before[source[reached[target]]] = True
        reached, r = before & (out == UNREACHABLE), r + 1
    return out


def acceptance_extends(source: Edges, target: Edges, accepting: States) -> bool:
    """Return whether every accepting state has an edge to an accepting one."""
    again = np.zeros_like(accepting)
    again[source[accepting[target]]] = True
    return not bool((accepting & ~again).any())


def closure(states: States, tail: Edges, head: Edges) -> States:
    """Return the states reachable from ``states``, themselves included, by edges from ``tail`` to ``head``."""
    while True:
        reached = states.copy()
        reached[head[states[tail]]] = True
        if (reached == states).all():
            return reached
        states = reached


def useful(graph: StateGraph) -> States:
    """Return which states lie on a path from start to acceptance."""
    source, _, target = graph.transitions.T
    kept = closure(members(graph.start, graph.num_states), source, target)
    kept &= closure(members(graph.accept, graph.num_states), target, source)
    return kept


def restrict(graph: StateGraph, kept: States) -> StateGraph:
    """Restrict an automaton to the states ``kept``, numbered anew in their order."""
    number = np.cumsum(kept) - 1
    s, c, d = graph.transitions.T
    rows = kept[s] & kept[d]
    return StateGraph(
        np.stack([number[s[rows]], c[rows], number[d[rows]]], 1),
        [int(number[i]) for i in graph.start if kept[i]],
        [int(number[i]) for i in graph.accept if kept[i]],
        int(kept.sum()),
    )


def trim(graph: StateGraph) -> StateGraph:
    """Restrict an automaton to its useful states; to its first start state if there are none."""
    kept = useful(graph)
    kept[graph.start[0]] |= not kept.any()
    return restrict(graph, kept)


def determinize(graph: StateGraph, limit: int = DETERMINIZE_LIMIT) -> StateGraph:
    """Determinise an automaton by the subset construction.

    Raises :class:`TooManyStates` past ``limit`` states.
    """
    moves = graph.by_class()
    start = frozenset(graph.start)
    number, queue = {start: 0}, [start]
    rows: list[tuple[int, int, int]] = []
    while queue:
        subset = queue.pop()
        reached: dict[int, set[int]] = {}
        for s in subset:
            for klass, targets in moves[s].items():
                reached.setdefault(klass, set()).update(targets)
        for klass, union in reached.items():
            key = frozenset(union)
            if key not in number:
                if len(number) >= limit:
                    raise TooManyStates(
                        f"the deterministic automaton has more than {limit:,} states; pass a larger limit",
                        limit=limit,
                    )
                number[key] = len(number)
                queue.append(key)
            rows.append((number[subset], klass, number[key]))
    accept = set(graph.accept)
    accepting = [i for key, i in number.items() if key & accept]
    return StateGraph(np.array(rows, np.int64).reshape(-1, 3), [0], accepting, len(number))


def minimize(graph: StateGraph) -> StateGraph:
    """Minimise a trimmed deterministic automaton by partition refinement (Moore 1956)."""
    dead = graph.num_states
    s, c, d = graph.transitions.T
    table = np.full((dead + 1, int(c.max(initial=-1)) + 1), dead)
    table[s, c] = d
    block = members(graph.accept, dead + 1).astype(np.int64)
    while True:
        rows = np.concatenate([block[:, None], block[table]], 1)
        refined = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        if refined.max() == block.max():
            break
        block = refined
    accept = sorted({int(block[i]) for i in graph.accept})
    merged = np.unique(np.stack([block[s], c, block[d]], 1), axis=0)
    return trim(StateGraph(merged, [int(block[graph.start[0]])], accept, int(block.max()) + 1))


def is_unambiguous(graph: StateGraph) -> bool:
    """Return whether every accepted sequence has one accepting path: the self-product has no useful pair of distinct states."""
    graph = trim(graph)
    moves = graph.by_class()
    frontier = [(p, q) for p in graph.start for q in graph.start if p <= q]
    seen, back = set(frontier), dict[tuple[int, int], set[tuple[int, int]]]()
    while frontier:
        p, q = frontier.pop()
        for klass in moves[p].keys() & moves[q].keys():
            for a in moves[p][klass]:
                for b in moves[q][klass]:
                    pair = (min(a, b), max(a, b))
                    back.setdefault(pair, set()).add((p, q))
                    if pair not in seen:
                        seen.add(pair)
                        frontier.append(pair)
    accept = set(graph.accept)
    waiting = [pair for pair in seen if pair[0] in accept and pair[1] in accept]
    alive = set(waiting)
    while waiting:
        for previous in back.get(waiting.pop(), ()):
            if previous not in alive:
                alive.add(previous)
                waiting.append(previous)
    return all(p == q for p, q in alive)


def token_partition(
    klass: Int[ndarray, " ones"], token: Int[ndarray, " ones"], num_classes: int, vocab_size: int
) -> tuple[Int[ndarray, " vocab"], Int[ndarray, "pairs 2"]]:
    """Split overlapping classes, given as (class, token) pairs, into a partition of the tokens.

    Returns the new class of each token (−1: in none) and the pairs (old class, new class within it), sorted.
    """
    rng = np.random.default_rng(4)
    names = rng.integers(1, 2**63, size=(2, num_classes), dtype=np.uint64)
    sums = np.zeros((2, vocab_size), np.uint64)  # hashes of each token's set of classes, 128 bits
    for total, name in zip(sums, names, strict=True):
        np.add.at(total, token, name[klass])
    _, first, inverse = np.unique(sums, axis=1, return_index=True, return_inverse=True)
    inside = np.bincount(token, minlength=vocab_size) > 0
    used = np.flatnonzero(inside[first])
    number = np.full(len(first), -1)
    number[used] = np.arange(len(used))
    token_class = number[inverse.reshape(-1)]
    return token_class, np.unique(np.stack([klass, token_class[token]], 1), axis=0)


def split_classes(graph: StateGraph, pairs: Int[ndarray, "pairs 2"]) -> StateGraph:
    """Replace each transition by one for every new class within its old class; ``pairs`` (old class, new class), sorted."""
    s, c, d = graph.transitions.T
    begin, end = (np.searchsorted(pairs[:, 0], c, side=side) for side in ("left", "right"))
    count = end - begin
    at = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    rows = np.stack([np.repeat(s, count), pairs[at, 1], np.repeat(d, count)], 1)
    return graph._replace(transitions=rows)
