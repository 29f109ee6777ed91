"""Counting: exact numbers of sequences or paths, of any size.

Below 2^53 floating point counts exactly. Larger numbers are counted modulo primes below 2^20, as many as their product needs to
exceed the number, and put together by the Chinese remainder theorem.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from ...circuits.automaton import Automaton
from ...errors import CircuitError, EvidenceError
from ..semirings.linear import Counting, Residue
from .evidence import EvidenceLike
from .exact import Model
from .marginal import prepare, root, vocab_size


def count(model: Model, evidence: EvidenceLike = None, *, n: int | None = None, paths: bool = False) -> int:
    """Return the number of accepted sequences; with ``paths``, of (sequence, latent path) pairs.

    The count is exact. An ambiguous automaton is determinised first. Raises :class:`CircuitError` for models other than automata
    without ``paths``, for continuous variables, and for counts beyond 10^308 (``log_marginal`` on the automaton gives the
    logarithm), :class:`EvidenceError` for evidence of several rows.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> [tt.count(one, n=n) for n in range(1, 6)]
    [1, 2, 3, 4, 5]
    >>> tt.count(tt.Automaton.from_edges([(0, [0, 1], 0)], 0, [0], vocab_size=2), n=100) - 2**100
    0
    """
    if not paths:
        if isinstance(model, Automaton):
            model = model if model.is_unambiguous else model.determinize()
        else:
            raise CircuitError(
                "count: latent states make several paths for one sequence; count an automaton, or give paths=True"
            )
    evidence, variables = prepare(model, evidence, n)
    if evidence.batch != 1:
        raise EvidenceError(f"count: evidence of one row, not of {evidence.batch}")
    if not all(vocab_size(model, v) for v in variables):
        raise CircuitError("count: the model has continuous variables, whose values cannot be counted")
    total = float(root(model, Counting(), evidence, len(variables), None))
    if total < 2.0**53:
        return round(total)
    if total == inf:
        raise CircuitError("count: more than 10^308 sequences; log_marginal gives the log of their number")
    found, modulus = 0, 1
    for prime in _primes():
        remainder = round(float(root(model, Residue(prime), evidence, len(variables), None)))
        found += modulus * ((remainder - found) * pow(modulus, -1, prime) % prime)
        modulus *= prime
        if modulus > 2 * int(total):
            break
    return found


def _primes() -> Iterator[int]:
    """Yield the primes below 2^20, descending; the 38,635 above 2^19 are more than enough."""
    for n in range((1 << 20) - 1, 1 << 19, -2):
        if all(n % d for d in range(3, 1025, 2)):
            yield n
