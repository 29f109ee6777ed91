"""Graph: the layers of a circuit with their children, scopes and unit axes.

A node's *scope* is the set of variables below it. Nodes are numbered as they are added, so each after its children.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from numbers import Integral
from typing import Any, NamedTuple

from ..errors import CircuitError, ShapeError
from ..layers import InputLayer, Sum
from ..layers.inner import InnerLayer
from ..layers.input import Constant

Layer = InputLayer | InnerLayer
Scope = frozenset[int]


class Node(NamedTuple):
    """A layer in its place."""

    layer: Layer
    children: tuple[int, ...]
    scope: Scope
    unit_dims: tuple[int, ...]


class Graph:
    """A directed acyclic graph of layers; ``root`` is the node added last."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self.root: int = -1
        self.cache: dict[Hashable, Any] = {}
        """A place for results derived from the graph that live as long as it does, by name."""

    def input(self, layer: InputLayer, variable: int | None = None) -> int:
        """Add an input layer over ``variable``; return its node.

        Raises :class:`ShapeError` for a constant with a variable or another layer without one, :class:`CircuitError` for a
        variable that is not a whole number from 0 on.
        """
        if (variable is None) != isinstance(layer, Constant):
            raise ShapeError(f"{layer!r}: an input layer needs one variable, a constant none")
        scope = frozenset[int]() if variable is None else frozenset({variable})
        check_variables(scope)
        return self._add(Node(layer, (), scope, layer.unit_dims))

    def product(self, layer: InnerLayer, *children: int) -> int:
        """Add a product layer over children; return its node. Raises :class:`ShapeError` if their units do not fit."""
        return self._inner(layer, children)

    def sum(self, layer: Sum, *children: int) -> int:
        """Add a sum layer over children; return its node. Raises :class:`ShapeError` if their units do not fit."""
        return self._inner(layer, children)

    def _inner(self, layer: InnerLayer, children: tuple[int, ...]) -> int:
        for child in children:
            if child not in self:
                raise ShapeError(f"{layer!r}: there is no node {child} in this circuit")
        dims = layer.unit_dims([self.unit_dims(child) for child in children])
        scope = frozenset[int]().union(*(self.scope(child) for child in children))
        return self._add(Node(layer, children, scope, dims))

    def _add(self, node: Node) -> int:
        self._nodes.append(node)
        self.root = len(self._nodes) - 1
        return self.root

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Integral) and 0 <= int(node) < len(self._nodes)

    @property
    def num_layers(self) -> int:
        """The number of nodes, those that are not below the root included."""
        return len(self._nodes)

    def layer(self, node: int) -> Layer:
        """Return the layer of a node."""
        return self._nodes[node].layer

    def children(self, node: int) -> tuple[int, ...]:
        """Return the children of a node, in order."""
        return self._nodes[node].children

    def scope(self, node: int) -> Scope:
        """Return the variables below a node."""
        return self._nodes[node].scope

    def unit_dims(self, node: int) -> tuple[int, ...]:
        """Return the sizes of the unit axes of a node's output."""
        return self._nodes[node].unit_dims

    def nodes(self, top: int | None = None) -> list[int]:
        """List ``top`` (default: the root) and the nodes below it, children before parents."""
        if self.root not in self:
            raise CircuitError("the circuit is empty: add an input layer first")
        waiting = [self.root if top is None else top]
        found = set(waiting)
        while waiting:
            new = [child for child in self.children(waiting.pop()) if child not in found]
            found.update(new)
            waiting += new
        return sorted(found)


def check_variables(variables: Iterable[Any]) -> None:
    """Raise :class:`CircuitError` for a variable that is not a whole number from 0 on."""
    for v in variables:
        if isinstance(v, bool) or not isinstance(v, Integral) or v < 0:
            raise CircuitError(f"a variable is a whole number from 0 on, not {v!r}")
