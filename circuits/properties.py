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
from ..layers import Product, Sum
from .chain import Chain
from .circuit import Circuit, Scope


def check_smooth(circuit: Circuit) -> None:
    """Raise :class:`CircuitError` at the first sum whose children differ in scope."""
    for node in circuit.nodes():
        scopes = {circuit.scope(child) for child in circuit.children(node)}
        if isinstance(circuit.layer(node), Sum) and len(scopes) > 1:
            raise CircuitError(
                f"node {node} ({circuit.layer(node)!r}) is not smooth: its children have scopes {[sorted(s) for s in scopes]}"
            )


def check_decomposable(circuit: Circuit) -> None:
    """Raise :class:`CircuitError` at the first product whose children share a variable."""
    for node in circuit.nodes():
        if isinstance(circuit.layer(node), Product):
            scopes = [circuit.scope(child) for child in circuit.children(node)]
            if sum(map(len, scopes)) != len(circuit.scope(node)):
                shown = [sorted(s) for s in scopes]
                raise CircuitError(
                    f"node {node} ({circuit.layer(node)!r}) is not decomposable: its children have scopes {shown}"
                )


def check_structured_decomposable(circuit: Circuit) -> None:
    """Raise :class:`CircuitError` at the first product that splits its scope as no other does."""
    check_decomposable(circuit)
    ways: dict[Scope, frozenset[Scope]] = {}
    for node in circuit.nodes():
        parts = frozenset(circuit.scope(child) for child in circuit.children(node)) - {frozenset()}
        if isinstance(circuit.layer(node), Product) and len(parts) > 1:
            known = ways.setdefault(circuit.scope(node), parts)
            if known != parts:
                shown = [sorted(map(sorted, way)) for way in (known, parts)]
                raise CircuitError(
                    f"node {node} ({circuit.layer(node)!r}) is not structured-decomposable: "
                    f"it splits {sorted(circuit.scope(node))} into {shown[1]}, another product into {shown[0]}"
                )


def check_omni_compatible(circuit: Circuit) -> None:
    """Raise :class:`CircuitError` at the first product over a sum of several variables."""
    check_smooth(circuit)
    check_decomposable(circuit)
    mixed: set[int] = set()  # nodes below which, through products alone, is a sum of several variables
    for node in circuit.nodes():
        children = circuit.children(node)
        if isinstance(circuit.layer(node), Sum):
            mixed |= {node} if len(circuit.scope(node)) > 1 else set()
        elif mixed.intersection(children):
            if sum(bool(circuit.scope(child)) for child in children) > 1:
                raise CircuitError(
                    f"node {node} ({circuit.layer(node)!r}) is not omni-compatible: a factor of it is a sum of several variables"
                )
            mixed.add(node)


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
