"""Minimal deterministic byte automata in a canonical form."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray

import tractile as tt
from tractile.constraints.automata.dfa import minimize
from tractile.constraints.automata.epsilon import NO_EPSILONS
from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.automata.subsets import determinize

MAX_STATES = 400_000


@dataclass(frozen=True)
class Dfa:
    """A minimal automaton whose states are numbered breadth first by byte, so that equal languages have equal arrays.

    ``edges``: rows (source, lowest byte, highest byte, target), sorted, ranges as wide as they can be. State 0 is the
    start, if there are any states. ``accept``: accepting states, ascending.
    """

    num_states: int
    edges: Int[ndarray, "edge 4"]
    accept: Int[ndarray, " accept"]

    @property
    def fingerprint(self) -> str:
        """A digest of the language."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The arrays as bytes: :meth:`from_bytes` reads them."""
        header = np.array([self.num_states, len(self.edges), len(self.accept)])
        return b"".join(a.astype("<i4").tobytes() for a in (header, self.edges, self.accept))

    @staticmethod
    def from_bytes(data: bytes) -> Dfa:
        """The automaton of :meth:`to_bytes`."""
        file = io.BytesIO(data)
        states, edges, _ = np.frombuffer(file.read(12), "<i4")
        rows = np.frombuffer(file.read(16 * int(edges)), "<i4").reshape(-1, 4).astype(np.int64)
        return Dfa(int(states), rows, np.frombuffer(file.read(), "<i4").astype(np.int64))


def canonical(constraint: tt.constraints.Constraint, limit: int = MAX_STATES) -> Dfa:
    """The minimal automaton of a constraint. Raises ``TooManyStates`` beyond ``limit`` states."""
    small = minimize(determinize(constraint.bytes_automaton, limit), limit)
    edges = small.edges[np.lexsort((small.edges[:, 1], small.edges[:, 0]))]
    if len(edges):
        joins = np.zeros(len(edges), bool)
        joins[1:] = (
            (edges[1:, 0] == edges[:-1, 0])
            & (edges[1:, 3] == edges[:-1, 3])
            & (edges[1:, 1] == edges[:-1, 2] + 1)
        )
        first = np.flatnonzero(~joins)
        last = np.append(first[1:], len(edges)) - 1
        edges = np.column_stack([edges[first, 0], edges[first, 1], edges[last, 2], edges[first, 3]])
    number = np.full(small.num_states, -1)
    begin = np.searchsorted(edges[:, 0], np.arange(small.num_states + 1))
    level = small.start.astype(np.int64)
    number[level] = np.arange(len(level))
    count = len(level)
    while len(level):
        targets = np.concatenate([edges[begin[s] : begin[s + 1], 3] for s in level.tolist()])
        fresh = targets[number[targets] < 0]
        _, first = np.unique(fresh, return_index=True)
        level = fresh[np.sort(first)]
        number[level] = count + np.arange(len(level))
        count += len(level)
    edges = np.column_stack([number[edges[:, 0]], edges[:, 1:3], number[edges[:, 3]]])
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    return Dfa(small.num_states, edges, np.sort(number[small.accept]))


def constraint_of(dfa: Dfa) -> tt.constraints.Constraint:
    """The constraint of an automaton's language."""
    start = np.arange(min(dfa.num_states, 1))
    return tt.constraints.Constraint(Nfa(dfa.num_states, dfa.edges, NO_EPSILONS, start, dfa.accept))
