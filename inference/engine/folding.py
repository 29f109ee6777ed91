"""Folding: the nodes of a circuit in groups, each evaluated by one contraction.

Nodes of one depth whose layers have one kind and one shape form a group. A group's value has a leading axis, the *fold*,
with one entry for each node: (fold, *unit_dims, batch). The plan says which nodes form a group and where each finds its
children; it depends only on the structure of a circuit and the shapes of its layers, and is cached.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from ...circuits.checks import check_tractable
from ...circuits.circuit import Circuit
from ...errors import CircuitError
from ...layers import InputLayer, Operator, Product, Sum
from ...layers.inner import Dims

Key = tuple[Any, ...]
UnitLabels = tuple[Hashable, ...]


@dataclass(frozen=True)
class Slot:
    """The i-th children of a group's nodes: entry ``index[k]`` of the joined ``groups`` is the child of the k-th node."""

    groups: tuple[int, ...]
    index: tuple[int, ...]
    whole: bool  # the children are all of one group, in its order


@dataclass(frozen=True)
class Group:
    """Nodes that are contracted together; ``dims`` are the unit axes of each.

    ``labels`` and ``out``, of products: the labels of the children's unit axes, and of the nodes' own.
    """

    nodes: tuple[int, ...]
    dims: Dims
    slots: tuple[Slot, ...]
    labels: tuple[UnitLabels, ...]
    out: UnitLabels

    @cached_property
    def by_unit(self) -> bool:
        """Whether the unit axes of children and nodes have the same labels: a product unit by unit."""
        return all(own == self.out for own in self.labels)


@dataclass(frozen=True)
class Plan:
    """The groups, children before parents. ``place[node]``: the number of the node's group, and its entry of the fold."""

    groups: tuple[Group, ...]
    place: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class FoldedCircuit:
    """A circuit by groups: its plan, and for each group the layers and, for inputs, their variables (−1: none).

    ``operators``: for each group of sums, slot by slot, the operator of each node.
    """

    plan: Plan
    layers: list[list[Any]]
    operators: list[list[tuple[Operator, ...]]]
    variables: list[list[int]]
    vocab_sizes: dict[int, int]
    root: int
    device: torch.device  # where its parameters are
    narrow: bool  # whether some of them have 16 bits
    num_layers: int  # of the circuit when it was planned

    def fits(self, circuit: Circuit) -> bool:
        """Return whether the circuit still has this root and no further nodes."""
        return (self.root, self.num_layers) == (circuit.root, circuit.num_layers)


def folded(circuit: Circuit) -> FoldedCircuit:
    """Return the groups of a circuit, which are planned at the first call and cached with the circuit.

    Raises :class:`CircuitError` if the circuit is not smooth and decomposable.

    ``torch.compile`` needs a circuit that has been planned: call this, or any query, first.
    """
    known: FoldedCircuit | None = circuit.cache.get("folded")
    if torch.compiler.is_compiling():
        if known is None:
            raise CircuitError(
                "torch.compile: ask the circuit a query once before compiling, so that it is planned"
            )
        return known
    if known is None or not known.fits(circuit):
        check_tractable(circuit)
        plan = _plan(_structure(circuit))
        layers: list[list[Any]] = [[circuit.layer(node) for node in group.nodes] for group in plan.groups]
        variables = [[min(circuit.scope(node), default=-1) for node in group.nodes] for group in plan.groups]
        parameters = circuit.parameters()
        known = FoldedCircuit(
            plan,
            layers,
            [
                list(zip(*(n.operators for n in g), strict=True)) if isinstance(g[0], Sum) else []
                for g in layers
            ],
            variables,
            circuit.vocab_sizes(),
            circuit.root,
            parameters[0].device if parameters else torch.device("cpu"),
            has_narrow(parameters),
            circuit.num_layers,
        )
        circuit.cache["folded"] = known
    return known


def has_narrow(parameters: Sequence[Tensor]) -> bool:
    """Return whether some of the parameters are floats of 16 bits or less."""
    return any(t.dtype.itemsize < 4 and t.is_floating_point() for t in parameters)


def _structure(circuit: Circuit) -> tuple[tuple[int, Key, Dims, tuple[int, ...]], ...]:
    """Return (node, kind and shape of its layer, unit axes, children) for every node."""
    number: dict[int, int] = {}  # numbers of layers and operators that equal only themselves, by id
    rows = []
    for node in circuit.nodes():
        children = circuit.children(node)
        dims = [circuit.unit_dims(child) for child in children]
        key = _kind(node, circuit.layer(node), dims, number)
        rows.append((node, key, circuit.unit_dims(node), children))
    return tuple(rows)


def _kind(node: int, layer: Any, below: list[Dims], number: dict[int, int]) -> Key:
    """Return a key that is equal for layers that may form a group."""
    if isinstance(layer, InputLayer):
        matrix = _matrix(layer, number) if layer.vocab_size else None  # none: densities, and the constant
        return "input", layer.vocab_size, matrix
    if isinstance(layer, Product):
        own, out = layer.labels(below)
        return "product", tuple(own), out, tuple(below)
    if isinstance(layer, Sum):
        maps = [(op.row_dims, op.col_dims, _matrix(op, number)) for op in layer.operators]
        return "sum", tuple(maps), tuple(below)
    raise CircuitError(f"node {node}: the engine does not know the layer {layer!r}")


def _matrix(of: InputLayer | Operator, number: dict[int, int]) -> Hashable:
    """Return a key that is equal for matrices that can be stacked; a matrix that cannot has a key of its own."""
    if of.stacks:
        return tuple(parameter.dtype for parameter in of.parameters()[:1])
    return number.setdefault(id(of), len(number))


@lru_cache(maxsize=256)
def _plan(structure: tuple[tuple[int, Key, Dims, tuple[int, ...]], ...]) -> Plan:
    depth: dict[int, int] = {}
    members: dict[tuple[int, Key, Dims], list[int]] = {}
    below: dict[int, tuple[int, ...]] = {}
    for node, key, dims, children in structure:
        below[node] = children
        depth[node] = 1 + max((depth[child] for child in children), default=-1)
        members.setdefault((depth[node], key, dims), []).append(node)
    ordered = sorted(members.items(), key=lambda item: (item[0][0], item[1][0]))
    place = {node: (g, i) for g, (_, nodes) in enumerate(ordered) for i, node in enumerate(nodes)}
    size = [len(nodes) for _, nodes in ordered]
    groups = []
    for (_, key, dims), nodes in ordered:
        slots = zip(*(below[node] for node in nodes), strict=True)
        labels, out = key[1:3] if key[0] == "product" else ((), ())
        found = tuple(_slot(children, place, size) for children in slots)
        groups.append(Group(tuple(nodes), dims, found, labels, out))
    return Plan(tuple(groups), place)


def _slot(children: tuple[int, ...], place: dict[int, tuple[int, int]], size: list[int]) -> Slot:
    groups = tuple(sorted({place[child][0] for child in children}))
    first, at = {}, 0
    for g in groups:
        first[g], at = at, at + size[g]
    index = tuple(first[place[child][0]] + place[child][1] for child in children)
    return Slot(groups, index, len(groups) == 1 and index == tuple(range(size[groups[0]])))
