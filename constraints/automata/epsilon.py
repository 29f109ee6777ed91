"""Epsilon removal and trimming, each for all states of an automaton at once.

epsilon-free:  q --a--> r   for every   q --ε--> … --ε--> p --a--> r
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from .arrays import (
    check_transitions,
    csr_index,
    distinct,
    ragged_arange,
    reachable,
    unique_rows,
)
from .work import spend

if TYPE_CHECKING:
    from .nfa import Nfa

NO_EPSILONS: Int[ndarray, "0 2"] = np.empty((0, 2), np.int64)


def remove_epsilons(nfa: Nfa) -> Nfa:
    """Remove epsilon transitions: each state takes over the edges of its epsilon closure."""
    if not len(nfa.epsilons):
        return nfa
    n = nfa.num_states
    accepting = np.zeros(n, bool)
    accepting[nfa.accept] = True
    epsilons = nfa.epsilons[nfa.epsilons[:, 0] != nfa.epsilons[:, 1]]
    # Merge a state whose only transition is one epsilon into its target: closures stay small where many states meet.
    idle = (np.bincount(epsilons[:, 0], minlength=n) == 1) & (np.bincount(nfa.edges[:, 0], minlength=n) == 0)
    merge = epsilons[idle[epsilons[:, 0]] & (~accepting[epsilons[:, 0]] | accepting[epsilons[:, 1]])]
    same = np.arange(n)
    same[merge[:, 0]] = merge[:, 1]
    for _ in range(n.bit_length()):
        same = same[same]
    edges, epsilons, start = nfa.edges.copy(), unique_rows(same[epsilons]), np.unique(same[nfa.start])
    edges[:, 3] = same[edges[:, 3]]
    epsilons = epsilons[epsilons[:, 0] != epsilons[:, 1]]

    pointer, order = csr_index(epsilons[:, 0], n)
    onward, bounds = epsilons[order, 1].tolist(), pointer.tolist()
    anchors = distinct(np.concatenate([start, edges[:, 3]]))
    anchors = anchors[pointer[anchors + 1] > pointer[anchors]]
    far = np.zeros(n, bool)  # states with a path of two epsilons
    far[epsilons[pointer[epsilons[:, 1] + 1] > pointer[epsilons[:, 1]], 0]] = True
    near = anchors[~far[anchors]]
    count = pointer[near + 1] - pointer[near]
    total = int(count.sum())
    spend(len(near) + total / 4)
    origins, states = [np.repeat(near, count)], [epsilons[order[ragged_arange(pointer[near], count)], 1]]
    for anchor in anchors[far[anchors]].tolist():
        closure = {anchor}
        stack = [anchor]
        while stack:
            here = stack.pop()
            for there in onward[bounds[here] : bounds[here + 1]]:
                if there not in closure:
                    closure.add(there)
                    stack.append(there)
        closure.discard(anchor)
        states.append(np.fromiter(closure, np.int64, len(closure)))
        origins.append(np.full(len(closure), anchor))
        total += len(closure)
        check_transitions(total)
        spend(3 + len(closure) / 4)
    origin, state = np.concatenate(origins), np.concatenate(states)
    pointer, order = csr_index(edges[:, 0], n)
    count = pointer[state + 1] - pointer[state]
    check_transitions(int(count.sum()))
    spend(200 + int(count.sum()) / 5)
    taken = edges[order[ragged_arange(pointer[state], count)]]
    taken[:, 0] = np.repeat(origin, count)
    accept = distinct(np.concatenate([nfa.accept, origin[accepting[state]]]))
    edges = np.concatenate([edges, taken])
    return replace(nfa, edges=edges, epsilons=NO_EPSILONS, start=start, accept=accept)


def trim(nfa: Nfa) -> Nfa:
    """Drop the states that no accepted word visits, then sort and merge the edges.
    The automaton must have no epsilon transitions."""
    spend(150 + len(nfa.edges) / 4)
    small = only(nfa, useful(nfa))
    return plain(replace(small, edges=merge_ranges(small.edges)))


def useful(nfa: Nfa) -> Bool[ndarray, " state"]:
    """Mark the states that some accepted word visits. There must be no epsilon transitions."""
    return np.asarray(
        reachable(nfa.edges[:, [0, 3]], nfa.start, nfa.num_states)
        & reachable(nfa.edges[:, [3, 0]], nfa.accept, nfa.num_states)
    )


def only(nfa: Nfa, keep: Bool[ndarray, " state"]) -> Nfa:
    """Keep the marked states alone, edges in their order. There must be no epsilon transitions."""
    number = np.cumsum(keep) - 1
    rows = keep[nfa.edges[:, 0]] & keep[nfa.edges[:, 3]]
    edges = nfa.edges[rows]
    edges[:, 0], edges[:, 3] = number[edges[:, 0]], number[edges[:, 3]]
    start, accept = (np.unique(number[some[keep[some]]]) for some in (nfa.start, nfa.accept))
    return replace(
        nfa, num_states=int(keep.sum()), edges=edges, epsilons=NO_EPSILONS, start=start, accept=accept
    )


def plain(nfa: Nfa) -> Nfa:
    """Mark an automaton without epsilon transitions and useless states as its own plain form."""
    object.__setattr__(nfa, "trimmed", True)
    return nfa


def minimal(nfa: Nfa) -> Nfa:
    """Mark an automaton as plain and the minimal DFA of its language."""
    object.__setattr__(nfa, "minimal", True)
    return plain(nfa)


def merge_ranges(edges: Int[ndarray, "edge 4"]) -> Int[ndarray, "edge2 4"]:
    """Sort edges and merge those of one (source, target) whose ranges touch or overlap."""
    if not len(edges):
        return edges
    key = (edges[:, 0] * (int(edges[:, 3].max()) + 1) + edges[:, 3]) * 256 + edges[:, 1]
    if not (key[1:] >= key[:-1]).all():
        order = np.argsort(key, kind="stable")  # the quickest where little is out of order
        edges, key = edges[order], key[order]
    key >>= 8
    if not ((key[1:] == key[:-1]) & (edges[1:, 1] <= edges[:-1, 2] + 1)).any():
        return edges
    pair = np.cumsum(np.concatenate([[False], key[1:] != key[:-1]]))
    # The running maximum of `high` within a pair; adding 512 * pair keeps pairs apart.
    end = np.maximum.accumulate(edges[:, 2] + 512 * pair)
    first = np.concatenate([[True], edges[1:, 1] + 512 * pair[1:] > end[:-1] + 1])
    last = np.concatenate([first[1:], [True]])
    merged: Int[ndarray, "edge2 4"] = edges[first]
    merged[:, 2] = (end - 512 * pair)[last]
    return merged


def ranged(
    rows: Int[ndarray, "row 3"], byte_class: Int[ndarray, " 256"], classes: int
) -> Int[ndarray, "edge 4"]:
    """Return the edges of rows (source, byte class, target): one for each run of bytes."""
    first = np.concatenate([[0], np.flatnonzero(np.diff(byte_class)) + 1])
    last = np.concatenate([first[1:] - 1, [255]])
    pointer, order = csr_index(byte_class[first], classes)
    count = pointer[rows[:, 1] + 1] - pointer[rows[:, 1]]
    check_transitions(int(count.sum()))
    run = order[ragged_arange(pointer[rows[:, 1]], count)]
    ends = np.repeat(rows[:, [0, 2]], count, axis=0)
    return np.column_stack([ends[:, 0], first[run], last[run], ends[:, 1]])
