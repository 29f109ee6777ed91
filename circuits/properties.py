"""Structural properties, computed from the graph, not declared (Vergari et al. 2021).

smooth: the children of a sum share their scope. decomposable: the children of a product have disjoint scopes. Both
together make every marginal a single contraction. structured-decomposable: products over one scope split it alike, so
that the circuit can be multiplied by itself; compatible: the same across two circuits.
"""

from __future__ import annotations

from ..errors import CircuitError
from ..layers import Hadamard, Kronecker, Sum
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
        if isinstance(circuit.layer(node), Hadamard | Kronecker):
            scopes = [circuit.scope(child) for child in circuit.children(node)]
            if sum(map(len, scopes)) != len(circuit.scope(node)):
                shown = [sorted(s) for s in scopes]
                raise CircuitError(
                    f"node {node} ({circuit.layer(node)!r}) is not decomposable: its children have scopes {shown}"
                )


def is_smooth(circuit: Circuit) -> bool:
    """Whether every sum's children share their scope."""
    return _holds(check_smooth, circuit)


def is_decomposable(circuit: Circuit) -> bool:
    """Whether every product's children have disjoint scopes."""
    return _holds(check_decomposable, circuit)


def _holds(check: object, circuit: Circuit) -> bool:
    assert callable(check)
    try:
        check(circuit)
    except CircuitError:
        return False
    return True


def _splits(circuit: Circuit) -> dict[Scope, set[frozenset[Scope]]]:
    """For each scope, the ways in which products split it (children over no variable do not count)."""
    splits: dict[Scope, set[frozenset[Scope]]] = {}
    for node in circuit.nodes():
        if isinstance(circuit.layer(node), Hadamard | Kronecker):
            parts = frozenset(
                circuit.scope(child) for child in circuit.children(node) if circuit.scope(child)
            )
            if len(parts) > 1:
                splits.setdefault(circuit.scope(node), set()).add(parts)
    return splits


def is_structured_decomposable(circuit: Circuit) -> bool:
    """Whether the circuit is decomposable and products over one scope all split it alike."""
    return is_decomposable(circuit) and all(len(ways) == 1 for ways in _splits(circuit).values())


def is_compatible(a: Circuit, b: Circuit) -> bool:
    """Whether both are smooth and decomposable and split the scopes that they share alike, so that ``a * b`` exists."""
    if (
        not (is_smooth(a) and is_smooth(b) and is_decomposable(a) and is_decomposable(b))
        or a.variables != b.variables
    ):
        return False
    ours, theirs = _splits(a), _splits(b)
    return all(len(ours[s] | theirs[s]) == 1 for s in ours.keys() & theirs.keys())
