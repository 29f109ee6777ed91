"""Reduce automata without determinising them, by simulation.

    p ⪯ q :  if p accepts so does q,  and every  p --k--> p'  has a  q --k--> q'  with  p' ⪯ q'

Merge states that simulate each other. Of two transitions that differ in the target alone, drop the one to the smaller target;
likewise of two starts. Do the same to the reversed automaton, and repeat while anything changes (Bustan and Grumberg 2003,
Clemente and Mayr 2013). Every step keeps the language, but not the paths: a word may have more or fewer of them than
before, so what counts paths (a product with an HMM, ``count``) still needs an unambiguous automaton (``ambiguity.py``).
"""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy import ndarray

from ...errors import TooManyStates
from .arrays import check_limit, unique_rows
from .dfa import from_classes
from .nfa import Nfa, trim
from .work import spend

MOST_STATES = 4_000
"""The most states of a simulation, which keeps a flag for every pair of states."""


def simulation(nfa: Nfa) -> Bool[ndarray, "state state"]:
    """Compute the largest simulation of a plain automaton: ``[p, q]`` is whether q simulates p.

    Raises :class:`TooManyStates` beyond :data:`MOST_STATES`.
    """
    n, rows = nfa.num_states, nfa.transitions
    check_limit(n, MOST_STATES)
    accepting = np.zeros(n, bool)
    accepting[nfa.accept] = True
    below = ~accepting[:, None] | accepting[None, :]
    while True:
        before = below.copy()
        for klass in range(int(rows[:, 1].max(initial=-1)) + 1):
            source, _, target = rows[rows[:, 1] == klass].T  # sorted by source
            if not len(source):
                continue
            states, first = np.unique(source, return_index=True)
            spend(100 + (len(source) + 4 * len(states)) * n / 2_000)
            above = np.packbits(below.T[target], axis=1)  # what each target simulates, eight to a byte
            met = np.unpackbits(np.bitwise_or.reduceat(above, first, axis=0), axis=1, count=n)
            by = np.packbits(met.T[target], axis=1)  # by which states each transition is met
            found = np.unpackbits(np.bitwise_and.reduceat(by, first, axis=0), axis=1, count=len(states))
            kept = np.zeros((len(states), n), bool)
            kept[:, states] = found.view(bool)
            below[states] &= kept
        if np.array_equal(below, before):
            return np.asarray(below)


def bisimulation(nfa: Nfa) -> Int[ndarray, " state"]:
    """Return the block of each state of a plain automaton in the coarsest bisimulation.

    States of a block accept alike and reach the same blocks with every byte. Blocks are split by 64-bit sums of weights, drawn
    anew in each round, so up to hashing. It is quick for any size, but for long chains, which take a round for each state.
    """
    n, rows = nfa.num_states, nfa.transitions
    rng = np.random.default_rng(5)
    block = np.isin(np.arange(n), nfa.accept).astype(np.int64)
    blocks = len(np.unique(block))
    while True:
        reached = unique_rows(np.column_stack([rows[:, :2], block[rows[:, 2]]]))
        weight: UInt64[ndarray, " block"] = rng.integers(1, 2**63, size=n + 1, dtype=np.uint64)
        factor = (rng.integers(1, 2**63, size=257, dtype=np.uint64) | np.uint64(1))[reached[:, 1]]
        total = np.zeros(n, np.uint64)
        np.add.at(total, reached[:, 0], factor * weight[reached[:, 2]])
        _, low = np.unique(total, return_inverse=True)
        _, block = np.unique(block * (n + 1) + low, return_inverse=True)
        spend(100 + len(rows) / 4)
        if int(block.max(initial=-1)) + 1 == blocks:
            return np.asarray(block)
        blocks = int(block.max()) + 1


def merge(nfa: Nfa, block: Int[ndarray, " state"]) -> Nfa:
    """Return the quotient automaton, whose states are the blocks."""
    edges = np.column_stack([block[nfa.edges[:, 0]], nfa.edges[:, 1:3], block[nfa.edges[:, 3]]])
    start, accept = np.unique(block[nfa.start]), np.unique(block[nfa.accept])
    return trim(Nfa(int(block.max(initial=-1)) + 1, edges, nfa.epsilons, start, accept))


def by_simulation(nfa: Nfa) -> Nfa:
    """Merge states and drop transitions once, by simulation. Raises :class:`TooManyStates`."""
    below = simulation(nfa)
    _, block = np.unique(below & below.T, axis=0, return_inverse=True)
    block = np.asarray(block).reshape(-1)
    some = np.zeros(int(block.max(initial=-1)) + 1, np.int64)
    some[block] = np.arange(nfa.num_states)
    below = below[np.ix_(some, some)]
    np.fill_diagonal(below, False)
    edges = np.column_stack([block[nfa.edges[:, 0]], nfa.edges[:, 1:3], block[nfa.edges[:, 3]]])
    start, accept = np.unique(block[nfa.start]), np.unique(block[nfa.accept])
    start = start[~below[np.ix_(start, start)].any(axis=1)]
    nfa = Nfa(len(some), edges, nfa.epsilons, start, accept)
    rows = unique_rows(nfa.transitions)
    same = rows[:, 0] * 256 + rows[:, 1]
    bounds = np.flatnonzero(np.diff(same, prepend=-1, append=-1)).tolist()
    needed = np.ones(len(rows), bool)
    for begin, end in itertools.pairwise(bounds):
        if end > begin + 1:
            targets = rows[begin:end, 2]
            needed[begin:end] = ~below[np.ix_(targets, targets)].any(axis=1)
    classes = int(nfa.byte_class.max()) + 1
    return from_classes(rows[needed], nfa.byte_class, nfa.num_states, start, accept, classes)


def reduce(nfa: Nfa) -> Nfa:
    """Return a plain automaton of the same language with no more states; not the smallest.

    If simulation is too much work only bisimilar states are merged, if bisimulation is too much, none.
    """
    nfa = nfa.plain
    for once in (bisimilar, by_simulation):
        while nfa.num_states:
            size = nfa.num_states, len(nfa.transitions)
            try:
                nfa = once(once(nfa).reverse().plain).reverse().plain
            except TooManyStates:
                break
            if (nfa.num_states, len(nfa.transitions)) >= size:
                break
    return nfa


def bisimilar(nfa: Nfa) -> Nfa:
    """Merge bisimilar states."""
    return merge(nfa, bisimulation(nfa))
