"""Minimal deterministic byte automata, as arrays that are kept and compared."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray

import tractile as tt
from tractile.constraints.automata.dfa import determinize, minimize
from tractile.constraints.automata.nfa import Nfa

MAX_STATES = 400_000


@dataclass(frozen=True)
class Dfa:
    """A minimal automaton: ``edges`` are rows (source, lowest byte, highest byte, target); ``start`` has at most one state.

    Equal languages may have states in another order: equal arrays are equal languages, others are to be compared.
    """

    num_states: int
    edges: Int[ndarray, "edge 4"]
    start: Int[ndarray, " start"]
    accept: Int[ndarray, " accept"]

    @property
    def fingerprint(self) -> str:
        """A digest of the arrays."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The arrays as bytes: :meth:`from_bytes` reads them."""
        header = np.array([self.num_states, len(self.edges), len(self.start)])
        return b"".join(a.astype("<i4").tobytes() for a in (header, self.edges, self.start, self.accept))

    @staticmethod
    def from_bytes(data: bytes) -> Dfa:
        """The automaton of :meth:`to_bytes`."""
        file = io.BytesIO(data)

        def read(count: int) -> ndarray:
            return np.frombuffer(file.read(4 * count), "<i4").astype(np.int64)

        states, edges, start = read(3).tolist()
        return Dfa(states, read(4 * edges).reshape(-1, 4), read(start), read(len(data)))


def minimal(constraint: tt.constraints.Constraint, limit: int = MAX_STATES) -> Dfa:
    """The minimal automaton of a constraint. Raises ``TooManyStates`` beyond ``limit`` states."""
    small = minimize(determinize(constraint.bytes_automaton, limit), limit)
    edges = small.edges[np.lexsort((small.edges[:, 1], small.edges[:, 0]))]
    return Dfa(small.num_states, edges, small.start, np.sort(small.accept))


def constraint_of(dfa: Dfa) -> tt.constraints.Constraint:
    """The constraint of an automaton's language."""
    return tt.constraints.Constraint(Nfa(dfa.num_states, dfa.edges, (), dfa.start, dfa.accept))
