"""Products and minimisation of byte-level automata, level by level as array operations.

    intersect:  (a, b) --k--> (a', b')

Products work on ranges of bytes, complement and minimisation on byte classes. Arguments may have epsilon transitions; results
are plain (no epsilon transitions, no useless states). Only :func:`determinize` can be exponential, and it has a limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy import ndarray

from ...errors import TooManyStates
from .. import limits
from .arrays import check_limit, check_transitions, csr_index, ragged_arange
from .epsilon import NO_EPSILONS, merge_ranges, minimal, ranged
from .nfa import Nfa, trim
from .subsets import determinize
from .work import spend

MANY_STATES = 10_000
CHUNK = 1024
"""States whose moves :func:`together` finds at once."""


def intersect(a: Nfa, b: Nfa, limit: int = limits.STATES) -> Nfa:
    """Return the automaton of the words of both, deterministic if both are.

    Edges are paired range by range: states within a UTF-8 character read many classes of bytes in few ranges. Raises
    :class:`TooManyStates`.
    """
    a, b = a.plain, b.plain
    if not a.num_states or not b.num_states:
        return trim(Nfa(0, a.edges[:0], a.epsilons, a.start[:0], a.accept[:0]))
    left = a.edges
    right = b.edges[np.argsort(b.edges[:, 0] * 256 + b.edges[:, 1], kind="stable")]
    by_left, _ = csr_index(left[:, 0], a.num_states)
    bottom = right[:, 0] * 256 + right[:, 1]
    top = np.maximum.accumulate(right[:, 0] * 256 + right[:, 2])  # running maximum by state
    width = b.num_states
    new = np.unique((a.start[:, None] * width + b.start[None, :]).ravel())
    start, found, total = new, [], 0
    seen = set(new.tolist())
    while len(new):
        p, q = np.divmod(new, width)
        count = by_left[p + 1] - by_left[p]
        source, q = np.repeat(new, count), np.repeat(q, count) * 256
        _, low, high, target = left[ragged_arange(by_left[p], count)].T  # the edges on the left ...
        first = np.searchsorted(top, q + low)
        count = np.searchsorted(bottom, q + high, side="right") - first
        total += int(count.sum())
        check_transitions(total)
        spend(100 + len(new) / 4 + int(count.sum()) / 5)
        other = right[ragged_arange(first, count)]  # ... met by every edge on the right that overlaps
        low = np.maximum(np.repeat(low, count), other[:, 1])
        high = np.minimum(np.repeat(high, count), other[:, 2])
        target = np.repeat(target, count) * width + other[:, 3]
        edges = np.column_stack([np.repeat(source, count), low, high, target])
        found.append(edges[low <= high])
        fresh = [pair for pair in np.unique(found[-1][:, 3]).tolist() if pair not in seen]
        seen.update(fresh)
        check_limit(len(seen), limit)
        new = np.array(fresh, np.int64)
    edges = np.concatenate(found)
    pairs = np.array(sorted(seen), np.int64)
    edges[:, 0], edges[:, 3] = np.searchsorted(pairs, edges[:, 0]), np.searchsorted(pairs, edges[:, 3])
    accept = np.flatnonzero(np.isin(pairs // width, a.accept) & np.isin(pairs % width, b.accept))
    return trim(Nfa(len(pairs), edges, NO_EPSILONS, np.searchsorted(pairs, start), accept))


def together(parts: Sequence[Nfa], limit: int) -> tuple[Int[ndarray, "edge 4"], Bool[ndarray, "state part"]]:
    """Read several DFAs at once, as long as one of them goes on; state 0 is the start.

    Return the edges, and which of the automata accept in each state. Raises :class:`TooManyStates` beyond ``limit`` states.
    """
    *first, dead = itertools.accumulate((part.num_states for part in parts), initial=0)
    edges = np.concatenate([np.add(part.edges, (i, 0, 0, i)) for i, part in zip(first, parts, strict=True)])
    beside = replace(parts[0], num_states=dead, edges=edges)
    byte_class, classes = beside.byte_class, int(beside.byte_class.max()) + 1
    after = np.full((dead + 1, classes), dead)
    after[beside.transitions[:, 0], beside.transitions[:, 1]] = beside.transitions[:, 2]
    accepting = np.zeros(dead + 1, bool)
    accepting[np.concatenate([i + part.accept for i, part in zip(first, parts, strict=True)])] = True
    start = (
        i + int(part.start[0]) if part.num_states else dead for i, part in zip(first, parts, strict=True)
    )
    states, rows, at = [tuple(start)], list[Int[ndarray, "row 3"]](), 0
    place = {states[0]: 0}
    while at < len(states):
        here = np.array(states[at : at + CHUNK])
        source, klass = np.divmod(np.arange(len(here) * classes), classes)
        targets = after[here[source], klass[:, None]]
        live = (targets < dead).any(axis=1)
        source, klass, targets = source[live], klass[live], targets[live]
        key = np.zeros(len(targets), np.int64)
        for column in targets.T:
            _, index, key = np.unique(key * (dead + 1) + column, return_index=True, return_inverse=True)
        number = [place.setdefault(state, len(place)) for state in map(tuple, targets[index].tolist())]
        rows.append(np.column_stack([at + source, klass, np.array(number, np.int64)[key]]))
        at += len(here)
        states += itertools.islice(place, len(states), None)
        check_limit(len(states), limit)
    edges = merge_ranges(ranged(np.concatenate(rows), byte_class, classes))
    return edges, accepting[np.array(states)]


def complement(nfa: Nfa) -> Nfa:
    """Return the automaton of all other byte strings. Raises :class:`TooManyStates`."""
    dfa = determinize(nfa)
    n, states = dfa.num_states, np.arange(dfa.num_states + 1) * 512
    spend(100 + (n + len(dfa.edges)) / 2)
    # the bytes between two ranges of a state, before the first and after the last, lead to a new one, as all of its own do
    begin = np.sort(np.concatenate([states, dfa.edges[:, 0] * 512 + dfa.edges[:, 2] + 1]))
    end = np.sort(np.concatenate([states + 256, dfa.edges[:, 0] * 512 + dfa.edges[:, 1]]))
    begin, end = begin[begin < end], end[begin < end]
    rest = np.column_stack([begin // 512, begin % 512, end % 512 - 1, np.full(len(begin), n)])
    accept = np.setdiff1d(np.arange(n + 1), dfa.accept)
    start = dfa.start if n else np.array([0])
    return trim(Nfa(n + 1, np.concatenate([dfa.edges, rest]), NO_EPSILONS, start, accept))


def difference(a: Nfa, b: Nfa) -> Nfa:
    """Return the automaton of the words of ``a`` but not ``b``. Raises :class:`TooManyStates`."""
    return intersect(a, complement(b))


def minimize(nfa: Nfa, limit: int = limits.STATES // 5) -> Nfa:
    """Return the minimal DFA of the language. Raises :class:`TooManyStates`.

    Partition refinement: states are told apart by the blocks of their targets, compared through 64-bit sums of random weights;
    only predecessors of states that changed block are looked at again. A last exact check guards against equal sums of different
    states.
    """
    if nfa.minimal:
        return nfa
    dfa = determinize(nfa, limit)
    spend(200 + dfa.num_rows / 4)
    n, rows = dfa.num_states, dfa.transitions
    if n < 2 or (n == 2 and len(dfa.accept) == 1):
        return minimal(dfa)
    classes = int(dfa.byte_class.max()) + 1
    for seed in itertools.count(2):
        block = refine(n, rows, dfa.accept, classes, seed)
        key, first, inverse, count = np.unique(
            block[rows[:, 0]] * classes + rows[:, 1],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        target = block[rows[:, 2]]
        if np.all(target == target[first][inverse]) and np.all(count == np.bincount(block)[key // classes]):
            break
    if block.max() + 1 == n:
        return minimal(dfa)
    edges = np.column_stack([block[dfa.edges[:, 0]], dfa.edges[:, 1:3], block[dfa.edges[:, 3]]])
    start, accept = np.unique(block[dfa.start]), np.unique(block[dfa.accept])
    return minimal(trim(Nfa(int(block.max()) + 1, edges, dfa.epsilons, start, accept)))


def first_matches(texts: Nfa) -> Nfa:
    """Return the automaton of the accepted texts that have no accepted proper prefix."""
    found = minimize(texts)
    rest = found.edges[~np.isin(found.edges[:, 0], found.accept)]
    return minimize(Nfa(found.num_states, rest, found.epsilons, found.start, found.accept))


def simplify(nfa: Nfa) -> Nfa:
    """Return the minimal DFA, or the plain automaton if the DFA would be much larger.

    A deterministic automaton of more than :data:`MANY_STATES` states, as of counted repeats, stays as it is: minimising it
    costs seconds and saves little.
    """
    plain = nfa.plain
    if plain.num_states > MANY_STATES and plain.is_deterministic:
        return plain
    try:
        return minimize(plain, limit=min(3 * plain.num_states + 2_000, 50_000))
    except TooManyStates:
        return plain


def refine(
    n: int, rows: Int[ndarray, "row 3"], accept: Int[ndarray, " accept"], classes: int, seed: int
) -> Int[ndarray, " state"]:
    """Return the block of each state in the coarsest stable partition (up to hashing)."""
    rng = np.random.default_rng(seed)
    source, target = rows[:, 0], rows[:, 2]
    factor = (rng.integers(1, 2**63, size=classes, dtype=np.uint64) | np.uint64(1))[rows[:, 1]]
    weight = rng.integers(1, 2**63, size=n + 2, dtype=np.uint64)
    backward, order = csr_index(target, n)
    block = np.isin(np.arange(n), accept).astype(np.int64)
    value: UInt64[ndarray, " state"] = np.zeros(n, np.uint64)  # for each state the sum over its transitions
    np.add.at(value, source, factor * weight[block[target]])
    size, common = (
        np.zeros(n + 2, np.int64),
        np.zeros(n + 2, np.uint64),
    )  # for each block: the value of all its members
    size[:2] = np.bincount(block, minlength=2)
    blocks, touched = 2, np.arange(n)
    while len(touched):
        spend(70 + len(touched) / 2.5)
        # Split the touched states of each block by value. The untouched ones, or else the largest part, keep the number.
        touched = touched[np.lexsort((value[touched], block[touched]))]
        owner, found = block[touched], value[touched]
        head = np.flatnonzero(np.concatenate([[True], (owner[1:] != owner[:-1]) | (found[1:] != found[:-1])]))
        count = np.diff(np.append(head, len(touched)))
        parent, part = owner[head], found[head]
        first = np.flatnonzero(np.concatenate([[True], parent[1:] != parent[:-1]]))
        whole = np.repeat(
            np.add.reduceat(count, first) == size[parent[first]], np.diff(np.append(first, len(head)))
        )
        stays = ~whole & (part == common[parent])
        largest = np.lexsort((-count, parent))[first]
        stays[largest[whole[largest]]] = True
        common[parent[stays]] = part[stays]
        moves = np.flatnonzero(~stays)
        number = blocks + np.arange(len(moves))
        np.subtract.at(size, parent[moves], count[moves])
        size[number], common[number] = count[moves], part[moves]
        blocks += len(moves)
        changed = touched[ragged_arange(head[moves], count[moves])]
        old = block[changed]
        block[changed] = np.repeat(number, count[moves])
        degree = backward[changed + 1] - backward[changed]
        edge = order[ragged_arange(backward[changed], degree)]
        np.add.at(
            value, source[edge], factor[edge] * (weight[block[target[edge]]] - weight[np.repeat(old, degree)])
        )
        touched = np.unique(source[edge])
    return np.unique(block, return_inverse=True)[1]
