"""Operations on the languages of finite automata, given as arrays; both operands use one partition of the tokens.

union, concatenate, star, reverse            by the disjoint union of the states
product, shuffle, left_/right_quotient       by pairs of states
complement                                   of a deterministic automaton, by its missing transitions

A *word* is an accepted sequence of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from .automaton_algorithms import StateGraph, closure, members, trim, useful

Rows = list[tuple[int, int, int]]
Pair = tuple[int, int]


def _graph(
    rows: Iterable[tuple[int, int, int]], start: list[int], accept: list[int], states: int
) -> StateGraph:
    return StateGraph(np.array(sorted(set(rows)), np.int64).reshape(-1, 3), start, accept, states)


def _rows(graph: StateGraph, shift: int = 0) -> Rows:
    return [(s + shift, c, d + shift) for s, c, d in graph.transitions.tolist()]


def common_partition(
    a: Int[ndarray, " vocab"], b: Int[ndarray, " vocab"]
) -> tuple[Int[ndarray, " vocab"], Int[ndarray, "pairs 2"], Int[ndarray, "pairs 2"]]:
    """Return the common refinement of two partitions: the class of each token, and for both the pairs (old class, new class).

    Every token gets a class, even one that has none (−1) in either partition.
    """
    found, token_class = np.unique(np.stack([a, b], 1), axis=0, return_inverse=True)
    pairs = (np.stack([old, np.arange(len(found))], 1)[old >= 0] for old in found.T)
    first, second = (p[np.lexsort(p.T[::-1])] for p in pairs)
    return token_class.reshape(-1), first, second


def union(a: StateGraph, b: StateGraph) -> StateGraph:
    """Return the automaton of the words of a or b."""
    n = a.num_states
    start, accept = a.start + [s + n for s in b.start], a.accept + [s + n for s in b.accept]
    return _graph([*_rows(a), *_rows(b, n)], start, accept, n + b.num_states)


def concatenate(a: StateGraph, b: StateGraph) -> StateGraph:
    """Return the automaton of the words of a followed by words of b."""
    n, rows = a.num_states, _rows(a)
    first = [(c, d + n) for s, c, d in b.transitions.tolist() if s in set(b.start)]
    rows += [*_rows(b, n), *((s, c, d) for s in a.accept for c, d in first)]
    accept = [s + n for s in b.accept] + (a.accept if set(b.start) & set(b.accept) else [])
    start = a.start + ([s + n for s in b.start] if set(a.start) & set(a.accept) else [])
    return _graph(rows, start, accept, n + b.num_states)


def star(graph: StateGraph) -> StateGraph:
    """Return the automaton of concatenations of any number of words, zero included."""
    fresh, starts = graph.num_states, set(graph.start)
    first = [(c, d) for s, c, d in graph.transitions.tolist() if s in starts]
    rows = _rows(graph) + [(s, c, d) for s in [fresh, *graph.accept] for c, d in first]
    return _graph(rows, [fresh], [*graph.accept, fresh], fresh + 1)


def reverse(graph: StateGraph) -> StateGraph:
    """Return the automaton of the reversed words."""
    rows = [(d, c, s) for s, c, d in graph.transitions.tolist()]
    return _graph(rows, graph.accept or [0], graph.start if graph.accept else [], graph.num_states)


def complement(dfa: StateGraph, num_classes: int) -> StateGraph:
    """Return the automaton of the sequences over all classes that a deterministic automaton does not accept."""
    dead, moves = dfa.num_states, dfa.by_class()
    missing = ((s, c, dead) for s in range(dead) for c in range(num_classes) if c not in moves[s])
    rows = [*_rows(dfa), *missing, *((dead, c, dead) for c in range(num_classes))]
    accept = sorted(set(range(dead + 1)) - set(dfa.accept))
    return _graph(rows, dfa.start, accept, dead + 1)


def pairs_of(a: StateGraph, b: StateGraph, *, interleaved: bool = False) -> tuple[dict[Pair, int], Rows]:
    """Return the reachable pairs of states, numbered, and their transitions: both states move, or one (``interleaved``)."""
    ours, theirs = a.by_class(), b.by_class()
    queue = [(p, q) for p in a.start for q in b.start]
    number, rows = {pair: i for i, pair in enumerate(queue)}, Rows()
    while queue:
        p, q = pair = queue.pop()
        if interleaved:
            after = [(c, (d, q)) for c, ds in ours[p].items() for d in ds]
            after += [(c, (p, d)) for c, ds in theirs[q].items() for d in ds]
        else:
            shared = ours[p].keys() & theirs[q].keys()
            after = [(c, (d, e)) for c in shared for d in ours[p][c] for e in theirs[q][c]]
        for c, reached in after:
            if reached not in number:
                number[reached] = len(number)
                queue.append(reached)
            rows.append((number[pair], c, number[reached]))
    return number, rows


def product(a: StateGraph, b: StateGraph, *, interleaved: bool = False) -> StateGraph:
    """Return the automaton of the words of both; ``interleaved``: of a word of a shuffled with a word of b."""
    number, rows = pairs_of(a, b, interleaved=interleaved)
    ends_a, ends_b = set(a.accept), set(b.accept)
    accept = [i for (p, q), i in number.items() if p in ends_a and q in ends_b]
    return _graph(rows, list(range(len(a.start) * len(b.start))), accept, len(number))


def right_quotient(a: StateGraph, b: StateGraph) -> StateGraph:
    """Return the automaton of the sequences w such that wu is a word of a for some word u of b."""
    number, rows = pairs_of(a._replace(start=list(range(a.num_states))), b)
    ends_a, ends_b = set(a.accept), set(b.accept)
    source, _, target = np.array(rows, np.int64).reshape(-1, 3).T
    ends = members([i for (p, q), i in number.items() if p in ends_a and q in ends_b], len(number))
    alive, starts = closure(ends, target, source), set(b.start)
    return a._replace(accept=sorted({p for (p, q), i in number.items() if q in starts and alive[i]}))


def left_quotient(a: StateGraph, b: StateGraph) -> StateGraph:
    """Return the automaton of the sequences w such that uw is a word of a for some word u of b."""
    ends = set(b.accept)
    start = sorted({p for p, q in pairs_of(a, b)[0] if q in ends})
    return a._replace(start=start or [0], accept=a.accept if start else [])


def is_finite(graph: StateGraph) -> bool:
    """Return whether there are finitely many words: no cycle of useful states."""
    return longest(graph) is not None


def longest(graph: StateGraph) -> int | None:
    """Return the length of the longest word; None if there are infinitely many words, −1 if there are none."""
    if not useful(graph).any():
        return -1
    graph = trim(graph)
    source, _, target = graph.transitions.T
    states, length = members(graph.start, graph.num_states), 0
    while True:
        reached = np.zeros_like(states)
        reached[target[states[source]]] = True
        if not reached.any():
            return length
        if length == graph.num_states:
            return None
        states, length = reached, length + 1


def counts(dfa: StateGraph, class_sizes: list[int]) -> Iterator[int]:
    """Yield the number of words of each length 0, 1, 2, …, without end."""
    rows, now = dfa.transitions.tolist(), {dfa.start[0]: 1}
    while True:
        yield sum(now.get(s, 0) for s in dfa.accept)
        after: dict[int, int] = {}
        for s, c, d in rows:
            if s in now:
                after[d] = after.get(d, 0) + now[s] * class_sizes[c]
        now = after


def words(dfa: StateGraph, class_tokens: list[list[int]], length: int) -> Iterator[tuple[int, ...]]:
    """Yield the words of one length, in lexicographic order."""
    source, _, target = dfa.transitions.T
    left = [
        members(dfa.accept, dfa.num_states)
    ]  # left[r]: from which states a sequence of exactly r more tokens is accepted
    for _ in range(length):
        before = np.zeros_like(left[0])
        before[source[left[-1][target]]] = True
        left.append(before)
    moves = [
        sorted((t, ds[0]) for c, ds in by_class.items() for t in class_tokens[c])
        for by_class in dfa.by_class()
    ]
    if not left[length][dfa.start[0]]:
        return
    stack, word = [iter(moves[dfa.start[0]])], list[int]()
    if not length:
        yield ()
        return
    while stack:
        step = next((m for m in stack[-1] if left[length - len(stack)][m[1]]), None)
        if step is None:
            stack.pop()
            del word[-1:]
            continue
        if len(stack) == length:
            yield (*word, step[0])
        else:
            word.append(step[0])
            stack.append(iter(moves[step[1]]))
