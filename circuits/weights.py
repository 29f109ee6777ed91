"""Operations that change the weights and leave the function: normalise and prune.

With z_u = Σ_x u(x) for every unit u, a circuit is locally normalised by

    B[j, :] → B[j, :] / z_j         L[r, c] → L[r, c] z_c / z_r

(the rows of a sum's operators, taken together, then sum to one), and the root becomes a distribution (Peharz et al.
2015). Parameters stop being tied, since two uses of one tensor need two scales.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import CircuitError
from ..layers import (
    Categorical,
    Constant,
    Dense,
    Diagonal,
    Identity,
    Incidence,
    InputLayer,
    KhatriRao,
    Kron,
    Operator,
    Product,
    Sum,
    TokenSets,
)
from ..layers.dense_tensor import DenseTensor
from ..layers.discrete import Table
from ..layers.gaussian import Continuous
from .circuit import Circuit
from .graph_transforms import check_circuit, kron, rewrite, table
from .properties import check_decomposable, check_smooth
from .support import Supports

Index = tuple[Tensor, ...]  # the units kept along each unit axis


def normalise(circuit: Circuit) -> Circuit:
    """x ↦ c(x) / Σ_x c(x), with every unit that is not zero a distribution and every sum's weights too.

    Operators are written out. Raises :class:`CircuitError` where the circuit is zero everywhere.
    """
    from ..inference import Evidence, Real
    from ..inference.engine import passes

    check_circuit(circuit, "normalise")
    semiring: Any = Real()
    values = passes.upward(circuit, semiring, Evidence(1, circuit.device))
    log_z = {n: semiring.log(v)[..., 0].expand(circuit.unit_dims(n)) for n, v in values.items()}
    if bool((log_z[circuit.root] == -torch.inf).any()):
        raise CircuitError("normalise: the circuit is zero everywhere, so there is no distribution")

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer = circuit.layer(node)
        if isinstance(layer, Continuous):
            return out.input(layer.normalised(), *circuit.scope(node))
        if isinstance(layer, InputLayer) and not isinstance(layer, Constant):
            b = table(layer, "normalise")
            return out.input(Categorical(_divide(b, -log_z[node][..., None])), *circuit.scope(node))
        if not isinstance(layer, Sum):
            return None
        children = circuit.children(node)
        operators = [
            _scaled(op, log_z[node], log_z[c]) for op, c in zip(layer.operators, children, strict=True)
        ]
        return out.sum(Sum(*operators), *(done[c] for c in children))

    return rewrite(circuit, change)


def _divide(weight: Tensor, log_factor: Tensor) -> Tensor:
    """weight · exp(log_factor), zeros staying zeros."""
    factor = torch.where((weight > 0) & log_factor.isfinite(), log_factor, -torch.inf).exp()
    return (weight * factor).to(weight.dtype)


def _scaled(op: Operator, rows: Float[Tensor, "*rows"], cols: Float[Tensor, "*cols"]) -> Operator:
    """L[r, c] exp(cols[c] − rows[r]) over the axes of both."""
    weight = op.dense().to(op.parameters()[0] if op.parameters() else rows)
    shift = cols.flatten()[None] - rows.flatten()[:, None]
    weight = _divide(weight, shift).view(*rows.shape, *cols.shape)
    return Dense(weight) if weight.ndim == 2 else DenseTensor(weight, rows.ndim)


def prune(circuit: Circuit) -> Circuit:
    """The same function without the units that no x uses and the terms of weight zero.

    An axis of units loses an index where no unit along it is used. For an automaton, see ``Automaton.trim``. Raises
    :class:`CircuitError` where the circuit is zero everywhere.
    """
    check_circuit(circuit, "prune")
    check_smooth(circuit)
    check_decomposable(circuit)
    used = Supports(circuit).used()
    if not bool(used[circuit.root].all()):
        raise CircuitError("prune: the circuit is zero everywhere, so nothing is left of it")
    keep = {n: _axes_used(u.view(circuit.unit_dims(n))) for n, u in used.items() if bool(u.any())}
    out, done, layers = Circuit(), dict[int, int](), dict[tuple[int, str], Any]()

    def chosen(child: int, index: Index) -> int:
        """The pruned child, narrowed further to ``index``."""
        if all(map(torch.equal, index, keep[child])):
            return done[child]
        narrow = [_select(torch.searchsorted(k, i), len(k)) for i, k in zip(index, keep[child], strict=True)]
        return out.sum(Sum(kron(narrow)), done[child])

    for node in (n for n in circuit.nodes() if n in keep):
        layer, children, index = circuit.layer(node), circuit.children(node), keep[node]
        if isinstance(layer, InputLayer):
            key = (
                id(layer),
                str([i.tolist() for i in index]),
            )  # a layer that several nodes share stays shared
            new = layers[key] if key in layers else layers.setdefault(key, _narrow(layer, index))
            done[node] = out.input(new, *circuit.scope(node))
        elif isinstance(layer, Sum):
            terms = [
                (_slice(op, index, _merged(keep[c], circuit.unit_dims(c), op.col_dims)), done[c])
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
    return tuple(
        used.movedim(axis, 0).reshape(used.shape[axis], -1).any(1).nonzero()[:, 0]
        for axis in range(used.ndim)
    )


def _merged(index: Index, dims: tuple[int, ...], grouped: tuple[int, ...]) -> Index:
    """The indices along axes that an operator reads as one."""
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


def _slice(op: Operator, rows: Index, cols: Index) -> Operator:
    """The operator on the rows and columns kept."""
    if all(len(i) == d for i, d in zip((*rows, *cols), op.row_dims + op.col_dims, strict=True)):
        return op
    if isinstance(op, Kron):
        r, c = len(op.a.row_dims), len(op.a.col_dims)
        return Kron(_slice(op.a, rows[:r], cols[:c]), _slice(op.b, rows[r:], cols[c:]))
    if isinstance(op, DenseTensor):
        return DenseTensor(op.weight[torch.meshgrid(*rows, *cols, indexing="ij")], len(rows))
    (row,), (col,) = rows, cols
    if isinstance(op, Diagonal | Identity) and torch.equal(row, col):
        return Diagonal(op.weight[row]) if isinstance(op, Diagonal) else Identity(len(row))
    (leaf,) = op.leaves()
    matrix = leaf.matrix()[row][:, col]
    if isinstance(op, Identity | Incidence):
        ones = matrix.nonzero()
        return Incidence(ones[:, 0], ones[:, 1], (len(row), len(col)))
    return Dense(matrix)


def _narrow(layer: InputLayer, index: Index) -> InputLayer:
    """The layer with the units kept."""
    if all(len(i) == d for i, d in zip(index, layer.unit_dims, strict=True)):
        return layer
    if isinstance(layer, KhatriRao):
        k = len(layer.a.unit_dims)
        return KhatriRao(_narrow(layer.a, index[:k]), _narrow(layer.b, index[k:]))
    if isinstance(layer, TokenSets):
        place = torch.full((layer.unit_dims[0],), -1).index_put((index[0],), torch.arange(len(index[0])))
        unit = place[layer.incidence.row]
        return TokenSets(unit[unit >= 0], layer.incidence.col[unit >= 0], layer.tokens, len(index[0]))
    grid = torch.meshgrid(*index, indexing="ij")
    if isinstance(layer, Table | Continuous):  # their parameters have the unit axes first
        return layer.map(lambda parameter: parameter[grid])
    return Categorical(table(layer, "prune")[grid])
