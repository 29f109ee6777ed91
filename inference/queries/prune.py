"""Pruning: remove the units that contribute to the root for no value of the variables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...circuits.checks import check_tractable
from ...circuits.circuit import Circuit, check_circuit
from ...circuits.graph_transforms import kron
from ...errors import CircuitError
from ...layers import Identity, Incidence, InputLayer, Operator, Product, Sum
from ...layers.operator import Index
from .determinism import SupportAnalysis


def prune(circuit: Circuit) -> Circuit:
    """Return a circuit of the same function without unused units and terms of weight zero.

    A unit is used if it contributes to the root for some x. An index of a unit axis is removed if none of its units is
    used. For an automaton, see ``Automaton.trim``. Raises :class:`CircuitError` if the circuit is zero everywhere.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coins = tt.layers.Bernoulli(torch.tensor([0.5, 0.9, 0.1]))
    >>> mixed = tt.circuits.builders.cp([coins, coins], torch.tensor([0.5, 0.5, 0.0]))  # the third component has no weight
    >>> sum(p.numel() for p in mixed.parameters()), sum(p.numel() for p in tt.inference.prune(mixed).parameters())
    (6, 4)
    """
    check_circuit(circuit, "prune")
    check_tractable(circuit)
    used = SupportAnalysis(circuit).used()
    if not bool(used[circuit.root].all()):
        raise CircuitError("prune: the circuit is zero everywhere, so nothing is left of it")
    keep = {n: _axes_used(u.view(circuit.unit_dims(n))) for n, u in used.items() if bool(u.any())}
    out, done, layers = Circuit(), dict[int, int](), dict[tuple[int, str], Any]()

    def chosen(child: int, index: Index) -> int:
        """Return the pruned child, restricted to the units at ``index``."""
        if all(map(torch.equal, index, keep[child])):
            return done[child]
        narrow = [_select(torch.searchsorted(k, i), len(k)) for i, k in zip(index, keep[child], strict=True)]
        return out.sum(Sum(kron(narrow)), done[child])

    for node in (n for n in circuit.nodes() if n in keep):
        layer, children, index = circuit.layer(node), circuit.children(node), keep[node]
        if isinstance(layer, InputLayer):
            # a layer that several nodes share stays shared
            key = (id(layer), str([i.tolist() for i in index]))
            new = layers[key] if key in layers else layers.setdefault(key, layer.take(index))
            done[node] = out.input(new, *circuit.scope(node))
        elif isinstance(layer, Sum):
            terms = [
                (op.take(index, _merged(keep[c], circuit.unit_dims(c), op.col_dims)), done[c])
                for op, c in zip(layer.operators, children, strict=True)
                if c in keep and bool((op.dense() > 0)[used[node]][:, used[c]].any())
            ]
            done[node] = out.sum(Sum(*(op for op, _ in terms)), *(c for _, c in terms))
        elif isinstance(layer, Product):
            below, labels = layer.labels([circuit.unit_dims(c) for c in children])
            kept = dict(zip(labels, index, strict=True))
            parts = (chosen(c, tuple(kept[i] for i in own)) for c, own in zip(children, below, strict=True))
            done[node] = out.product(layer, *parts)
    out.root = done[circuit.root]
    return out


def _axes_used(used: Tensor) -> Index:
    """Return, for each axis, the indices that have a used unit."""
    return tuple(
        used.movedim(axis, 0).reshape(used.shape[axis], -1).any(1).nonzero()[:, 0]
        for axis in range(used.ndim)
    )


def _merged(index: Index, dims: tuple[int, ...], grouped: tuple[int, ...]) -> Index:
    """Return the kept indices along the axes ``grouped`` of an operator, each of which joins one or more of ``dims``."""
    if dims == grouped:
        return index
    mask = torch.ones(())
    for i, d in zip(index, dims, strict=True):
        mask = mask[..., None] * torch.zeros(d).index_fill(0, i, 1.0)
    return _axes_used(mask.reshape(grouped) > 0)


def _select(index: Tensor, size: int) -> Operator:
    if len(index) == size:
        return Identity(size)
    return Incidence(torch.arange(len(index)), index, (len(index), size))
