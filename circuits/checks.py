"""Checks of the structural properties that queries require; :mod:`tractile.circuits.properties` defines the properties."""

from __future__ import annotations

from ..errors import CircuitError
from ..layers import Product, Sum
from .graph import Graph, Scope


def check_smooth(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first sum whose children differ in scope.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.circuits.checks import check_smooth
    >>> from tractile.layers import Bernoulli, Dense, Sum
    >>> c, coin, half = tt.Circuit(), Bernoulli(torch.tensor([0.5])), Dense(torch.tensor([[0.5]]))
    >>> root = c.sum(Sum(half, half), c.input(coin, 0), c.input(coin, 1))
    >>> try:
    ...     check_smooth(c)
    ... except tt.errors.CircuitError as error:
    ...     print(error)
    node 2 (Sum(Dense(1, 1), Dense(1, 1))) is not smooth: its children have scopes [[0], [1]]
    """
    for node in circuit.nodes():
        scopes = {circuit.scope(child) for child in circuit.children(node)}
        if isinstance(circuit.layer(node), Sum) and len(scopes) > 1:
            raise CircuitError(
                f"node {node} ({circuit.layer(node)!r}) is not smooth: its children have scopes {sorted(map(sorted, scopes))}"
            )


def check_decomposable(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first product whose children share a variable.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.circuits.checks import check_decomposable
    >>> from tractile.layers import Bernoulli, Hadamard
    >>> c, coin = tt.Circuit(), Bernoulli(torch.tensor([0.5]))
    >>> root = c.product(Hadamard(), c.input(coin, 0), c.input(coin, 0))
    >>> try:
    ...     check_decomposable(c)
    ... except tt.errors.CircuitError as error:
    ...     print(error)
    node 2 (Hadamard) is not decomposable: its children have scopes [[0], [0]]
    """
    for node in circuit.nodes():
        if isinstance(circuit.layer(node), Product):
            scopes = [circuit.scope(child) for child in circuit.children(node)]
            if sum(map(len, scopes)) != len(circuit.scope(node)):
                shown = [sorted(s) for s in scopes]
                raise CircuitError(
                    f"node {node} ({circuit.layer(node)!r}) is not decomposable: its children have scopes {shown}"
                )


def check_structured_decomposable(circuit: Graph) -> None:
    """Raise :class:`CircuitError` at the first product that splits its scope differently from another product over that scope.

    Raises it also for a product that is not decomposable.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits.checks import check_structured_decomposable
    >>> random, ways = tt.circuits.builders.RandomParameters(), [((0, 1), 2), (0, (1, 2))]
    >>> both = [tt.circuits.builders.regions(way, random.bernoulli(), random.rows, num_units=2) for way in ways]
    >>> try:
    ...     check_structured_decomposable(tt.circuits.mixture([0.5, 0.5], both))
    ... except tt.errors.CircuitError as error:
    ...     print(error)
    node 18 (Hadamard) is not structured-decomposable: it splits [0, 1, 2] into [[0], [1, 2]], another product into [[0, 1], [2]]
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

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits.checks import check_omni_compatible
    >>> try:
    ...     check_omni_compatible(tt.HMM.random(hidden=2, vocab_size=2).unroll(3))
    ... except tt.errors.CircuitError as error:
    ...     print(error)
    node 11 (Hadamard) is not omni-compatible: a factor of it is a sum of several variables
    """
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
