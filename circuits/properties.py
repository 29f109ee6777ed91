"""Structural properties, computed from the graph and the weights, not declared (Vergari et al. 2021).

    smooth                     the children of a sum share their scope
    decomposable               the children of a product have disjoint scopes; with smooth: marginals are one contraction
    structured-decomposable    products over one scope all split it alike: the circuit can be multiplied by itself
    compatible                 the products of two circuits split what they share alike, up to nesting: ``a * b`` exists
    omni-compatible            no product is over a sum of several variables: compatible with every circuit
    deterministic              for each x a sum adds at most one term: maxima, powers, entropies are one contraction

:mod:`tractile.inference.queries.determinism` decides determinism. The properties of a chain are those of its unrolled circuit.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import CircuitError
from .chain import Chain
from .checks import check_decomposable, check_omni_compatible, check_smooth, check_structured_decomposable
from .circuit import Circuit


def is_smooth(circuit: Circuit | Chain) -> bool:
    """Whether every sum's children share their scope."""
    return _holds(check_smooth, circuit)


def is_decomposable(circuit: Circuit | Chain) -> bool:
    """Whether every product's children have disjoint scopes."""
    return _holds(check_decomposable, circuit)


def is_structured_decomposable(circuit: Circuit | Chain) -> bool:
    """Whether the circuit is decomposable and products over one scope all split it alike."""
    return _holds(check_structured_decomposable, circuit)


def is_omni_compatible(circuit: Circuit | Chain) -> bool:
    """Whether the circuit, a mixture of fully factorised parts, can be multiplied by any smooth and decomposable one."""
    return _holds(check_omni_compatible, circuit)


def _holds(check: Callable[..., None], model: Circuit | Chain) -> bool:
    try:
        check(model.unroll(3) if isinstance(model, Chain) else model)
    except CircuitError:
        return False
    return True
