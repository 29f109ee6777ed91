"""Building blocks of operations on circuits: copy nodes into another circuit, read products, write them again.

A product node is read as an einsum without sums: each child carries labels, one for each of its unit axes, and
out[labels] = Π_c child_c[labels_c]. Children of a Hadamard product share their labels, children of a Kronecker product have
disjoint labels. Any other product is written as a Kronecker product, followed by a sum with 0/1 operators that takes the
diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from ..errors import CircuitError
from ..layers import (
    Continuous,
    Dense,
    Hadamard,
    Identity,
    Incidence,
    InputLayer,
    Kron,
    Kronecker,
    Operator,
    Product,
    Sum,
)
from ..layers.dense_tensor import DenseTensor
from ..layers.input import Constant
from .graph import Graph, Layer

LabelledNode = tuple[int, tuple[Hashable, ...]]  # a node, and a label for each of its unit axes


def copy_node(circuit: Graph, node: int, out: Graph, done: dict[int, int]) -> int:
    """Copy one node, whose children are in ``done``, into ``out``; layers are shared."""
    layer = circuit.layer(node)
    if isinstance(layer, InputLayer):
        return out.input(layer, next(iter(circuit.scope(node)), None))
    children = [done[c] for c in circuit.children(node)]
    return out.sum(layer, *children) if isinstance(layer, Sum) else out.product(layer, *children)


G = TypeVar("G", bound=Graph)
Change = Callable[[int, G, dict[int, int]], int | None]


def rewrite(circuit: G, change: Change[G], out: G | None = None) -> G:
    """Copy a circuit with changes, into ``out`` if given.

    ``change(node, out, done)`` adds a replacement for a node to ``out``, or returns None to copy the node; ``done`` maps nodes
    to their copies.
    """
    out, done = type(circuit)() if out is None else out, dict[int, int]()
    for node in circuit.nodes():
        new = change(node, out, done)
        done[node] = copy_node(circuit, node, out, done) if new is None else new
    out.root = done[circuit.root]
    return out


def constant(out: Graph, weight: Tensor) -> int:
    """Add a node over no variable whose units have these weights."""
    return out.sum(Sum(DenseTensor(weight[..., None], weight.ndim)), out.input(Constant()))


def read_product(circuit: Graph, node: int) -> tuple[list[LabelledNode], tuple[Hashable, ...]]:
    """Read a product as labelled factors and the labels of the result; any other node counts as a product of itself alone."""
    layer, children = circuit.layer(node), circuit.children(node)
    if isinstance(layer, Product):
        below, out = layer.labels([circuit.unit_dims(c) for c in children])
    else:
        children, out = (node,), tuple(range(len(circuit.unit_dims(node))))
        below = [out]

    def named(labels: tuple[int, ...]) -> tuple[Hashable, ...]:
        return tuple((id(circuit), node, label) for label in labels)

    return [(c, named(own)) for c, own in zip(children, below, strict=True)], named(out)


def write_product(out: Graph, factors: Sequence[LabelledNode], labels: Sequence[Hashable]) -> int:
    """Add the product of factors, its axes in the order of ``labels``, which are exactly the labels of the factors."""
    if all(own == tuple(labels) for _, own in factors):
        return factors[0][0] if len(factors) == 1 else out.product(Hadamard(), *(n for n, _ in factors))
    flat = [label for _, own in factors for label in own]
    places = {label: [i for i, other in enumerate(flat) if other == label] for label in labels}
    order = [i for label in labels for i in places[label]]
    node = out.product(Kronecker(order), *(n for n, _ in factors))
    if len(flat) == len(labels):
        return node
    dims = [d for n, _ in factors for d in out.unit_dims(n)]
    diagonal = [_diagonal(dims[places[label][0]], len(places[label])) for label in labels]
    return out.sum(Sum(kron(diagonal)), node)


def _diagonal(size: int, copies: int) -> Operator:
    """Return the operator that takes the diagonal of ``copies`` axes of equal size, which are read as one axis."""
    if copies == 1:
        return Identity(size)
    every = torch.arange(size)
    return Incidence(every, every * sum(size**k for k in range(copies)), (size, size**copies))


def monomial(operator: Operator) -> Operator:
    """Return an equal operator whose entries are single products of parameters: other components are written out as Dense."""
    leaves = operator.leaves()
    if all(leaf.monomial for leaf in leaves):
        return operator
    return kron([leaf if leaf.monomial else Dense(leaf.dense()) for leaf in leaves])


def free_weights(layer: Layer, operation: str) -> Layer:
    """Return an equal layer whose parameters are its weights. Raises :class:`CircuitError` for a continuous one."""
    if isinstance(layer, Continuous):
        raise CircuitError(
            f"{operation}: {layer!r} is over a continuous variable, which has no table of weights"
        )
    if isinstance(layer, InputLayer):
        return layer.free_parameters()
    return Sum(*map(monomial, layer.operators)) if isinstance(layer, Sum) else layer


def kron(operators: Sequence[Operator]) -> Operator:
    """Return the Kronecker product O_1 ⊗ … ⊗ O_k."""
    result = operators[0]
    for operator in operators[1:]:
        result = Kron(result, operator)
    return result
