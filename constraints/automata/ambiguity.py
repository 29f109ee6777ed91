"""The number of accepting paths of a word: one, bounded, polynomial or exponential.

It is measured against the word's length. The product of an automaton with itself reads a word on two paths at once; a third
copy tells polynomial growth from none (Weber and Seidl 1991; Allauzen, Mohri and Rastogi 2011):

    exponential   some q has two different ways back to q on one word:     (q, q) and (p, p'), p ≠ p', lead to each other
    polynomial    some p ≠ q with a word from p to p, from p to q and from q to q, and not exponential
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from .arrays import check_transitions, csr_index, ragged_arange
from .dfa import intersect
from .nfa import Nfa

Ambiguity = Literal["unambiguous", "finite", "polynomial", "exponential"]


def is_unambiguous(nfa: Nfa) -> bool:
    """Return whether no word has two accepting paths. Raises :class:`TooManyStates`.

    This holds if the product with itself has no useful pair of different states.
    """
    plain = nfa.plain
    return plain.is_deterministic or intersect(plain, plain).num_states == plain.num_states


def ambiguity(nfa: Nfa) -> Ambiguity:
    """Classify how the number of accepting paths grows with the length of the word.

    Epsilon transitions are removed first. Raises :class:`TooManyStates`: the product has up to n³ states for n states.
    """
    plain = nfa.plain
    if is_unambiguous(plain):
        return "unambiguous"
    n = plain.num_states
    states = np.arange(n)
    pairs = product(plain, states * n + states, 2)
    if any(len({s // n == s % n for s in part}) > 1 for part in components(pairs)):
        return "exponential"
    p, q = np.divmod(np.unique(pairs[:, 1]), n)
    p, q = p[p != q], q[p != q]
    triples = product(plain, (p * n + p) * n + q, 3)
    parted, together = (
        (p * n + q) * n + q,
        (p * n + p) * n + q,
    )  # a path from (p, p, q) to (p, q, q) and this edge make a cycle
    for part in components(np.concatenate([triples, np.column_stack([parted, together])])):
        if any(
            end in part and begin in part
            for end, begin in zip(parted.tolist(), together.tolist(), strict=True)
        ):
            return "polynomial"
    return "finite"


def product(nfa: Nfa, start: Int[ndarray, " start"], copies: int) -> Int[ndarray, "move 2"]:
    """Return the moves (source, target) of ``copies`` copies of an automaton that read alike.

    They begin at the ``start`` tuples. A tuple of states is a number in base n, the number of states.
    """
    n, rows = nfa.num_states, nfa.transitions
    classes = int(nfa.byte_class.max()) + 1
    pointer, _ = csr_index(rows[:, 0] * classes + rows[:, 1], n * classes)
    digits = n ** np.arange(copies - 1, -1, -1)
    new, seen, found, total = np.unique(start), np.unique(start), [np.empty((0, 2), np.int64)], 0
    while len(new):
        states = new[:, None] // digits % n
        source = np.repeat(np.arange(len(new)), classes)
        klass = np.tile(np.arange(classes), len(new))
        target = np.zeros(len(source), np.int64)
        for copy in range(copies):
            key = states[source, copy] * classes + klass
            count = pointer[key + 1] - pointer[key]
            total += int(count.sum())
            check_transitions(total)
            onward = rows[ragged_arange(pointer[key], count), 2]
            source, klass = np.repeat(source, count), np.repeat(klass, count)
            target = np.repeat(target, count) * n + onward
        found.append(np.column_stack([new[source], target]))
        new = np.setdiff1d(target, seen)
        seen = np.union1d(seen, new)
    return np.concatenate(found)


def components(moves: Int[ndarray, "move 2"]) -> list[set[int]]:
    """Return the strongly connected components of two tuples or more."""
    import networkx as nx

    graph = nx.DiGraph(moves.tolist())
    return [c for c in nx.strongly_connected_components(graph) if len(c) > 1]
