"""The parameters of a model in blocks: tensors that are fitted together.

    a sum over several children   [w_1 | w_2 | …]: each row, across all its operators, is one distribution
    a single operator             each row is one; in a Kronecker product the rows of each component, in Monarch of each factor
    initial vectors of a chain    one distribution each
    an input layer                by the layer's ``constraints`` and ``maximise``

A tensor that occurs at several places is one parameter: tied. ``final`` of a chain is no parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from ..errors import CircuitError
from ..layers import InputLayer, Operator, Sum
from .chain import Chain
from .circuit import Circuit

Model = TypeVar("Model", Chain, Circuit)


@dataclass(frozen=True)
class Block:
    """Tensors fitted together: those of an input layer, or (``layer`` None) weights whose rows are distributions.

    ``row_axes``: the number of leading axes that index rows; the other axes are flattened, and the tensors are concatenated
    along them.
    """

    tensors: tuple[Tensor, ...]
    row_axes: int = 0
    layer: InputLayer | None = None

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """Concatenate tensors to (*rows, all columns)."""
        return torch.cat([t.reshape(*t.shape[: self.row_axes], -1) for t in tensors], -1)

    def split(self, rows: Tensor) -> list[Tensor]:
        """Split rows into tensors of this block: the inverse of :meth:`join`."""
        widths = [t.numel() // t.shape[: self.row_axes].numel() for t in self.tensors]
        parts = rows.split(widths, -1)
        return [part.reshape(t.shape) for part, t in zip(parts, self.tensors, strict=True)]


def blocks(model: Chain | Circuit) -> list[Block]:
    """Partition the parameter tensors of a model into blocks.

    Raises :class:`CircuitError` if rows are not separate distributions: a sum over several children with Kronecker or Monarch
    operators, a transposed Monarch matrix, a tensor that is tied to others in different ways.
    """
    if isinstance(model, Chain):
        found = [Block((v,)) for v in model.initial]
        found += [*_operator(model.left), *_inputs(model.inputs), *_operator(model.right)]
    else:
        found = []
        for layer in (model.layer(node) for node in model.nodes()):
            if isinstance(layer, Sum):
                found += _sum(layer.operators)
            elif isinstance(layer, InputLayer):
                found += _inputs(layer)
    distinct = {(type(b.layer), *map(id, b.tensors)): b for b in found}.values()
    seen: set[int] = set()
    for block in distinct:
        ids = set(map(id, block.tensors))
        if ids & seen or len(ids) < len(block.tensors):
            raise CircuitError(
                f"a tensor of shape {tuple(block.tensors[0].shape)} is tied in ways that cannot be fitted together: as rows of "
                "its own at one place, beside other weights at another"
            )
        seen |= ids
    return list(distinct)


def replace(model: Model, tensors: Mapping[int, Tensor]) -> Model:
    """Return a copy of a model with other parameter tensors, given by the ``id`` of the tensors that they replace."""

    def new(old: Tensor) -> Tensor:
        return tensors.get(id(old), old)

    return model.map(new)


def _inputs(layer: InputLayer) -> list[Block]:
    tensors = tuple(layer.parameters())
    return [Block(tensors, layer=layer)] if tensors else []


def _operator(operator: Operator) -> list[Block]:
    return [Block((w,), k) for w, k in zip(operator.parameters(), operator.parameter_rows(), strict=True)]


def _sum(operators: Sequence[Operator]) -> list[Block]:
    if len(operators) == 1:
        return _operator(operators[0])
    return [_side_by_side(operators)] if any(op.parameters() for op in operators) else []


def _side_by_side(operators: Sequence[Operator]) -> Block:
    for operator in operators:
        if not operator.entrywise:
            raise CircuitError(
                f"the rows of {operator!r} in a sum of {list(operators)} are no weights that can be fitted on their own; "
                "use Dense operators, or a sum of its own below this one"
            )
    row_axes = {axes for op in operators for axes in op.parameter_rows()}
    if len(row_axes) > 1:
        raise CircuitError(f"the operators {list(operators)} differ in their row axes")
    return Block(tuple(p for op in operators for p in op.parameters()), row_axes.pop())
