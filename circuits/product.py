"""Circuit multiplication by structural recursion; nothing is materialised (Vergari et al. 2021; Dang et al. 2026, Thm 4.4)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..errors import CircuitError
from ..layers import Identity, InputLayer, Kron, Operator, Product, Sum
from ..layers.input import Constant
from .graph import Graph, Scope
from .graph_transforms import LabelledNode, copy_node, kron, read_product, write_product

Pair = tuple[int, int]
Steps = Generator[Pair, Any, int]  # yields pairs whose products it needs, returns its own product's node


def multiply_nodes(a: Graph, b: Graph, out: Graph) -> int:
    """Add the product of two smooth and decomposable circuits to ``out``; return its root.

    Auxiliary nodes are added to ``a`` and ``b``, too. Raises :class:`CircuitError` if the circuits split the variables that they
    share in ways that do not nest.
    """
    return _Product(a, b, out).node(a.root, b.root)


class _Product:
    """The multiplication of pairs of nodes, each pair once; factors over variables of one circuit alone are copied."""

    def __init__(self, a: Graph, b: Graph, out: Graph) -> None:
        self.a, self.b, self.out = a, b, out
        self.done: dict[tuple[int, int], int] = {}
        self.copies: dict[int, dict[int, int]] = {id(a): {}, id(b): {}}

    def node(self, i: int, j: int) -> int:
        """Return the product of two nodes; an explicit stack replaces recursion, since chains are deep."""
        waiting: list[tuple[Pair, Steps]] = []
        pair = (i, j)
        while True:
            result = self.done.get(pair)
            if result is None:
                waiting.append((pair, self._node(*pair)))
            while waiting:
                try:
                    pair = waiting[-1][1].send(result)
                    break
                except StopIteration as stop:
                    result = self.done[waiting.pop()[0]] = stop.value
            else:
                assert result is not None
                return result

    def _node(self, i: int, j: int) -> Steps:
        a, b = self.a, self.b
        x, y = a.layer(i), b.layer(j)
        if isinstance(x, InputLayer) and isinstance(y, InputLayer) and a.scope(i) == b.scope(j):
            if isinstance(x, Constant) and isinstance(y, Constant):
                return self.out.input(Constant(len(x.unit_dims) + len(y.unit_dims)))
            (variable,) = a.scope(i)
            return self.out.input(x.times(y), variable)
        if isinstance(x, Sum) or isinstance(y, Sum):
            return (yield from self._sums(i, j))
        return (yield from self._products(i, j))

    def _sums(self, i: int, j: int) -> Steps:
        """Multiply sums: (Σ_k L_k x_k) ⊗ (Σ_l M_l y_l) = Σ_kl (L_k ⊗ M_l)(x_k ⊗ y_l); another node counts as a sum of itself."""
        operators, children = list[Operator](), list[int]()
        for op_a, child_a in _terms(self.a, i):
            for op_b, child_b in _terms(self.b, j):
                operators.append(Kron(op_a, op_b))
                children.append((yield child_a, child_b))
        return self.out.sum(Sum(*operators), *children)

    def _products(self, i: int, j: int) -> Steps:
        """Multiply products, pairing factors over the same variables; if one side splits finer, its factors are nested."""
        (left, rows), (right, cols) = read_product(self.a, i), read_product(self.b, j)
        while True:
            groups = _groups(self.a, left, self.b, right)
            many = [(ours, theirs) for ours, theirs in groups if len(ours) > 1 < len(theirs)]
            if not many:
                break
            left, right, before = _open(self.a, left, many), _open(self.b, right, many), (left, right)
            if (left, right) == before:
                scopes = [
                    [sorted(c.scope(n)) for n, _ in fs]
                    for c, fs in ((self.a, many[0][0]), (self.b, many[0][1]))
                ]
                raise CircuitError(
                    f"multiply: nodes {i} ({self.a.layer(i)!r}) and {j} ({self.b.layer(j)!r}) are not compatible: "
                    f"they split {scopes[0]} and {scopes[1]}"
                )
        factors: list[LabelledNode] = []
        for ours, theirs in groups:
            if ours and theirs:
                (k, labels_a), (m, labels_b) = _nest(self.a, ours), _nest(self.b, theirs)
                factors.append(((yield k, m), labels_a + labels_b))
            else:  # a constant without a partner on the other side
                circuit, ((node, labels),) = (self.a, ours) if ours else (self.b, theirs)
                factors.append((self._copy(circuit, node), labels))
        return write_product(self.out, factors, rows + cols)

    def _copy(self, circuit: Graph, node: int) -> int:
        done = self.copies[id(circuit)]
        for below in circuit.nodes(node):
            if below not in done:
                done[below] = copy_node(circuit, below, self.out, done)
        return done[node]


def _groups(
    a: Graph, left: list[LabelledNode], b: Graph, right: list[LabelledNode]
) -> list[tuple[list[LabelledNode], list[LabelledNode]]]:
    """Group the factors of both sides by common variables, as finely as possible; constants come last, in pairs or alone."""
    groups: list[tuple[Scope, tuple[list[LabelledNode], list[LabelledNode]]]] = []
    for side, (circuit, factors) in enumerate(((a, left), (b, right))):
        for factor in factors:
            scope = circuit.scope(factor[0])
            met = [g for g in groups if g[0] & scope]
            merged = ([f for _, (x, _) in met for f in x], [f for _, (_, y) in met for f in y])
            merged[side].append(factor)
            if scope:
                groups = [g for g in groups if g not in met]
                groups.append((scope.union(*(s for s, _ in met)), merged))
    ours, theirs = ([f for f in fs if not c.scope(f[0])] for c, fs in ((a, left), (b, right)))
    pairs = [([f], [g]) for f, g in zip(ours, theirs, strict=False)]
    alone_a = [([f], list[LabelledNode]()) for f in ours[len(pairs) :]]
    return [pair for _, pair in groups] + pairs + alone_a + [([], [f]) for f in theirs[len(pairs) :]]


def _open(
    circuit: Graph, factors: list[LabelledNode], groups: list[tuple[list[LabelledNode], list[LabelledNode]]]
) -> list[LabelledNode]:
    """Replace the factors in ``groups`` that are products by their own factors."""
    out: list[LabelledNode] = []
    for node, labels in factors:
        asked = any((node, labels) in group for pair in groups for group in pair)
        if asked and isinstance(circuit.layer(node), Product):
            inner, own = read_product(circuit, node)
            name = dict(zip(own, labels, strict=True))
            out += [(child, tuple(name[label] for label in below)) for child, below in inner]
        else:
            out.append((node, labels))
    return out


def _nest(circuit: Graph, factors: list[LabelledNode]) -> LabelledNode:
    """Combine several factors into one node, which is added to the circuit (a working copy)."""
    if len(factors) == 1:
        return factors[0]
    labels = tuple(dict.fromkeys(label for _, own in factors for label in own))
    return write_product(circuit, factors, labels), labels


def _terms(circuit: Graph, node: int) -> list[tuple[Operator, int]]:
    layer = circuit.layer(node)
    if isinstance(layer, Sum):
        return list(zip(layer.operators, circuit.children(node), strict=True))
    return [(kron([Identity(d) for d in circuit.unit_dims(node)]), node)]
