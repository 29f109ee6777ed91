"""Checks of the structural properties that queries require; :mod:`tractile.circuits.properties` defines the properties."""

from __future__ import annotations

from ..errors import CircuitError
from ..layers import Product, Sum
from .graph import Graph, Scope


def check_smooth(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first sum whose children differ in scope."""
    for node in circuit.nodes():
        scopes = {circuit.scope(child) for child in circuit.children(node)}
        if isinstance(circuit.layer(node), Sum) and len(scopes) > 1:
            raise CircuitError(
                f"node {node} ({circuit.layer(node)!r}) is not smooth: its children have scopes {sorted(map(sorted, scopes))}"
            )


def check_decomposable(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first product whose children share a variable."""
    for node in circuit.nodes():
        if isinstance(circuit.layer(node), Product):
            scopes = [circuit.scope(child) for child in circuit.children(node)]
            if sum(map(len, scopes)) != len(circuit.scope(node)):
                shown = [sorted(s) for s in scopes]
                raise CircuitError(
                    f"node {node} ({circuit.layer(node)!r}) is not decomposable: its children have scopes {shown}"
                )


def check_tractable(circuit: Graph) -> None:
    """Raise :class:`CircuitError` unless the circuit is smooth and decomposable, so that its marginals are one contraction."""
    check_smooth(circuit)
    check_decomposable(circuit)


def check_structured_decomposable(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first product that splits its scope differently from another product over that scope.

    Raises it also for a product that is not decomposable.
    """
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


def check_omni_compatible(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first product with a sum child whose scope has more than one variable.

    Raises it also for a circuit that is not smooth and decomposable.
    """
    check_tractable(circuit)
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
