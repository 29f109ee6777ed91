"""Values of a group's input layers at the evidence: (fold, *unit_dims, batch).

A layer shared by several variables is evaluated once on the tokens of all; different tables of one shape are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...layers import InputLayer
from ...layers.functorch_utils import any_if_concrete
from ..queries.evidence import Evidence
from ..semirings.base import Semiring
from .contract import adjoint, contract, expect, in_precision, observe, total

SR = Semiring[Any]


def input_values(
    semiring: SR, layers: Sequence[InputLayer], variables: Sequence[int], evidence: Evidence
) -> Any:
    """Compute the value of each layer at the evidence of its variable (−1: none); all layers have one shape."""
    kinds: dict[str, list[int]] = {}
    for i, v in enumerate(variables):
        kind = "tokens" if v in evidence.tokens else "weights" if v in evidence.weights else "total"
        kind = "none" if v < 0 else kind  # a layer over no variable
        kinds.setdefault(kind, []).append(i)
    parts = [
        _of_kind(semiring, kind, [layers[i] for i in rows], [variables[i] for i in rows], evidence)
        for kind, rows in kinds.items()
    ]
    if len(parts) == 1:
        return parts[0]
    x = join(semiring, same_batch(semiring, parts))
    position = torch.tensor([i for rows in kinds.values() for i in rows]).argsort()
    return semiring.gather(x, position.to(semiring.device(x)), 0)


def _of_kind(
    semiring: SR, kind: str, layers: Sequence[Any], variables: Sequence[int], evidence: Evidence
) -> Any:
    """Compute the values of layers whose variables have one kind of evidence."""
    first, fold = layers[0], len(layers)
    tied = all(layer is first for layer in layers)
    if kind == "none":
        token = torch.zeros(1, dtype=torch.long, device=evidence.device)
        return _repeated(semiring, observe(semiring, first, None, token), fold)
    if kind == "total" and tied:
        return _repeated(semiring, total(semiring, first, evidence.device), fold)
    tokens = torch.stack([evidence.tokens[v] for v in variables]) if kind == "tokens" else None
    gaps = tokens is not None and any_if_concrete(tokens < 0)
    if not tied and (gaps or not first.stacks):
        pairs = zip(layers, variables, strict=True)
        return join(semiring, [_of_kind(semiring, kind, [layer], [v], evidence) for layer, v in pairs])
    if tokens is not None:
        if tied:
            return _unfold(semiring, observe(semiring, first, None, tokens.flatten(), gaps), fold)
        return _tokens(semiring, layers, tokens)
    if kind == "total":
        return _totals(semiring, layers)
    weights = torch.stack([evidence.weights[v] for v in variables], 1)
    if tied:
        return _unfold(semiring, expect(semiring, first, weights.flatten(1)), fold)
    return _weights(semiring, layers, weights)


def open_values(semiring: SR, layers: Sequence[Any], x: Any) -> Any:
    """Compute Bᵀ_f x_f for each entry f of the fold, given x (fold, *unit_dims, batch): (fold, vocab, batch)."""
    fold, last = len(layers), semiring.ndim(x) - 1
    if all(layer is layers[0] for layer in layers):
        x = semiring.merge(semiring.permute(x, [*range(1, last), 0, last]), last - 1, 2)
        return _unfold(semiring, adjoint(semiring, layers[0], x), fold)
    units = tuple(range(2, last + 1))
    table = (semiring.lift(_stacked(layers)), (0, *units, last + 1))
    return contract(semiring, [table, (x, (0, *units, 1))], (0, last + 1, 1))


def join(semiring: SR, values: Sequence[Any]) -> Any:
    """Join values along the fold."""
    if len(values) == 1:
        return values[0]
    last = semiring.ndim(values[0]) - 1
    turned = [semiring.permute(x, [*range(1, last + 1), 0]) for x in values]
    return semiring.permute(semiring.cat(turned), [last, *range(last)])


def split(semiring: SR, x: Any) -> list[Any]:
    """Split a value along the fold into entries (1, *dims, batch): the inverse of :func:`join`."""
    last = semiring.ndim(x) - 1
    cut = semiring.chunk(semiring.permute(x, [*range(1, last + 1), 0]), semiring.shape(x)[0])
    return [semiring.permute(part, [last, *range(last)]) for part in cut]


def same_batch(semiring: SR, values: Sequence[Any]) -> list[Any]:
    """Expand values to one batch size (marginalised inputs have a single row)."""
    sizes = [semiring.shape(x)[-1] for x in values]
    batch = min(sizes) and max(sizes)  # no rows, where some value has none

    def widen(x: Any) -> Any:
        rows = torch.zeros(batch, dtype=torch.long, device=semiring.device(x))
        return x if semiring.shape(x)[-1] == batch else semiring.gather(x, rows, semiring.ndim(x) - 1)

    return [widen(x) for x in values]


def _repeated(semiring: SR, x: Any, count: int) -> Any:
    """Repeat x for ``count`` entries of the fold."""
    x = semiring.split(x, 0, (1, semiring.shape(x)[0]))
    if count == 1:
        return x
    return semiring.gather(x, torch.zeros(count, dtype=torch.long, device=semiring.device(x)), 0)


def _unfold(semiring: SR, x: Any, count: int) -> Any:
    """Reshape (*dims, fold · batch) to (fold, *dims, batch)."""
    last = semiring.ndim(x) - 1
    x = semiring.split(x, last, (count, semiring.shape(x)[last] // count))
    return semiring.permute(x, [last, *range(last), last + 1])


def _stacked(layers: Sequence[Any]) -> Tensor:
    return torch.stack([layer.weight for layer in layers])


def _tokens(semiring: SR, layers: Sequence[Any], tokens: Tensor) -> Any:
    """Gather each table's columns at its tokens, in one call if the tables are not larger than the result."""
    fold, batch = tokens.shape
    if layers[0].vocab_size <= batch:
        table = _stacked(layers).flatten(1, -2)
        found = table.gather(2, tokens[:, None].expand(fold, table.shape[1], batch))
    else:
        found = torch.stack(
            [layer.weight.flatten(0, -2).index_select(1, t) for layer, t in zip(layers, tokens, strict=True)]
        )
    columns = found.movedim(0, 1).reshape(*layers[0].unit_dims, fold * batch)
    return _unfold(semiring, semiring.lift(columns, batched=True), fold)


def _weights(semiring: SR, layers: Sequence[Any], weights: Tensor) -> Any:
    """Compute Σ_v B_f[:, v] w_f(v) for each entry f of the fold; ``weights`` (vocab, fold, batch)."""
    table = _stacked(layers)
    _, fold, batch = weights.shape
    w = semiring.lift(in_precision(weights.flatten(1), layers[0]), batched=True)
    w = semiring.split(w, 1, (fold, batch))
    units = tuple(range(2, 2 + len(layers[0].unit_dims)))
    token = units[-1] + 1
    return contract(
        semiring, [(semiring.lift(table), (0, *units, token)), (w, (token, 0, 1))], (0, *units, 1)
    )


def _totals(semiring: SR, layers: Sequence[Any]) -> Any:
    """Compute Σ_v B_f[:, v] for each entry f of the fold: (fold, *unit_dims, 1)."""
    table = semiring.lift(_stacked(layers).movedim(0, -1), batched=True)  # a scale for each entry of the fold
    axes = semiring.ndim(table)
    x = semiring.reduce(table, [axes - 2])
    x = semiring.permute(x, [axes - 2, *range(axes - 2)])
    return semiring.split(x, axes - 2, (semiring.shape(x)[axes - 2], 1))
