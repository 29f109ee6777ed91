"""The engine: one einsum over factors, its path planned and cached by shape, executed pairwise by a semiring.

``contract`` takes operands that are semiring values, :class:`~tractile.layers.operator.Delta` (two labels are one) or
:class:`~tractile.layers.operator.AxisOperator` operators (applied along an axis). Plans depend only on labels and shapes
and are cached. The layer operations below are that one contraction with different operands:

    apply(M, x)             M · x                   a sum layer
    observe(B, x, tokens)   x ∘ B[:, tokens]        an input layer at observed tokens
    expect(B, w)            Σ_v B[:, v] w(v)        … under weights (soft, one of a set), in their own precision
    total(B)                Σ_v B[:, v]             … marginalised
    adjoint(B, x)           Bᵀ x                    … with its variable open: a score for each token
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...layers.functorch_utils import is_abstract
from ...layers.gaussian import Continuous
from ...layers.incidence import Identity
from ...layers.inner import regroup
from ...layers.input import InputLayer
from ...layers.operator import AxisOperator, Delta, Factor, Leaf, Operator
from ..semirings.base import Semiring
from .contraction_path import Labels, best_path


def contract(semiring: Semiring[Any], operands: Sequence[tuple[Any, Labels]], out: Labels) -> Any:
    """Compute the ⊗ of the operands, ⊕-summed over every label that is not in ``out``."""
    operands, out = _unify(operands, out)
    terms = tuple((labels, _shape(semiring, x), isinstance(x, AxisOperator)) for x, labels in operands)
    live = list(operands)
    for positions in best_path(terms, out):
        group = [live.pop(i) for i in sorted(positions, reverse=True)]
        kept = {*out, *(label for _, labels in live for label in labels)}
        x, labels = group[0]
        for y, more in group[1:]:
            x, labels = _pair(semiring, (y, more), (x, labels), kept)
        live.append((x, labels))
    x, labels = live[0]
    if isinstance(x, AxisOperator):
        x = semiring.lift(x.dense())  # a structured operator alone, nothing says where it should be
    gone = [i for i, label in enumerate(labels) if label not in out]
    x, labels = semiring.reduce(x, gone), tuple(label for label in labels if label in out)
    return x if labels == out else semiring.permute(x, [labels.index(label) for label in out])


def _unify(operands: Sequence[tuple[Any, Labels]], out: Labels) -> tuple[list[tuple[Any, Labels]], Labels]:
    """Drop every Delta and give its two labels one name."""
    names: dict[int, int] = {}

    def name(label: int) -> int:
        while label in names:
            label = names[label]
        return label

    for x, labels in operands:
        if isinstance(x, Delta) and name(labels[0]) != name(labels[1]):
            names[name(labels[0])] = name(labels[1])
    rest = [(x, tuple(map(name, labels))) for x, labels in operands if not isinstance(x, Delta)]
    return rest, tuple(map(name, out))


def _shape(semiring: Semiring[Any], x: Any) -> tuple[int, ...]:
    return x.shape if isinstance(x, AxisOperator) else semiring.shape(x)


def _pair(
    semiring: Semiring[Any], a: tuple[Any, Labels], b: tuple[Any, Labels], kept: set[int]
) -> tuple[Any, Labels]:
    """Contract two operands; labels outside ``kept`` are summed out."""
    for (op, (row, col)), (x, labels) in (
        pair for pair in ((a, b), (b, a)) if isinstance(pair[0][0], AxisOperator)
    ):
        if isinstance(x, AxisOperator):
            continue
        if col in labels and row not in labels and col not in kept:
            return op.apply(semiring, x, labels.index(col)), tuple(row if i == col else i for i in labels)
        if row in labels and col not in labels and row not in kept:
            return op.T.apply(semiring, x, labels.index(row)), tuple(col if i == row else i for i in labels)
    devices = [semiring.device(v) for v, _ in (a, b) if not isinstance(v, AxisOperator)]
    device = devices[0] if devices else None
    (x, x_labels), (y, y_labels) = (
        (semiring.lift(v.dense().to(device)) if isinstance(v, AxisOperator) else v, i) for v, i in (a, b)
    )
    out = tuple(i for i in dict.fromkeys((*x_labels, *y_labels)) if i in kept)
    return semiring.einsum(x, list(x_labels), y, list(y_labels), list(out)), out


def apply_many(
    semiring: Semiring[Any], operators: Sequence[Operator], x: Any, *, transposed: bool = False
) -> Any:
    """Compute M_f·x_f (or M_fᵀ·x_f) for operators of one shape: from x (fold, *col_dims, batch) to (fold, *row_dims, batch)."""
    first = operators[0].T if transposed else operators[0]
    fold, *dims, batch = semiring.shape(x)
    if isinstance(first, Identity):
        return x if len(dims) == 1 else semiring.merge(x, 1, len(dims))
    if any(op is not operators[0] for op in operators):
        stacked: Sequence[Any] = operators  # they stack: see ``Operator.stacks``
        weight = torch.stack([op.weight for op in stacked])
        for axis, count in enumerate(regroup(tuple(dims), first.col_dims) or ()):
            x = semiring.merge(x, axis + 1, count) if count > 1 else x
        return semiring.along(weight.mT if transposed else weight, x, 1)
    if fold == 1:
        y = apply(semiring, first, semiring.merge(x, 0, 2))
        return semiring.split(y, 0, (1, semiring.shape(y)[0]))
    last = len(dims) + 1  # one operator for all: the fold is more batch
    x = semiring.merge(semiring.permute(x, [*range(1, last), 0, last]), last - 1, 2)
    y = apply(semiring, first, x)
    last = semiring.ndim(y) - 1
    return semiring.permute(semiring.split(y, last, (fold, batch)), [last, *range(last), last + 1])


def ungroup(
    semiring: Semiring[Any], x: Any, dims: tuple[int, ...], grouped: tuple[int, ...], first: int
) -> Any:
    """Reshape a message's axes ``grouped``, from axis ``first`` on, to the axes ``dims``."""
    counts, at = regroup(dims, grouped) or [], 0
    for count in counts:
        if count > 1:
            x = semiring.split(x, first + at, dims[at : at + count])
        at += count
    return x


def _lifted(semiring: Semiring[Any], factors: Sequence[Factor]) -> list[tuple[Any, Labels]]:
    return [(semiring.lift(x) if isinstance(x, Tensor) else x, labels) for x, labels in factors]


def apply(semiring: Semiring[Any], op: Operator, x: Any) -> Any:
    """Compute M·x for a message x (*col_dims, batch); the result is (*row_dims, batch)."""
    dims = semiring.shape(x)[:-1]
    if dims != op.col_dims:
        for axis, count in enumerate(regroup(dims, op.col_dims) or ()):
            x = semiring.merge(x, axis, count) if count > 1 else x
    return applier(semiring, op)(x)


def applier(semiring: Semiring[Any], op: Operator) -> Callable[[Any], Any]:
    """Return the function x ↦ M·x for messages of shape (*col_dims, batch), prepared for many x.

    Kronecker components are applied along one axis after the other, (A ⊗ B) u = (B (A u)ᵀ)ᵀ (Dang et al. 2026, Eq. 5),
    those first that make x smaller.
    """
    if (steps := axis_steps(op)) is not None:

        def each_axis(x: Any) -> Any:
            for axis, leaf in steps:
                x = leaf.apply(semiring, x, axis)
            return x

        return each_axis
    r, c = len(op.row_dims), len(op.col_dims)
    row, col, batch = tuple(range(r)), tuple(range(r, r + c)), r + c
    factors = _lifted(semiring, op.factors(row, col))
    return lambda x: contract(semiring, [*factors, (x, (*col, batch))], (*row, batch))


def axis_steps(op: Operator) -> list[tuple[int, Leaf]] | None:
    """Return the leaves of M with the axes to apply them along, in this order, for M·x; None if M must be contracted."""
    leaves = op.leaves()
    if not len(leaves) == len(op.row_dims) == len(op.col_dims) or not all(leaf.direct for leaf in leaves):
        return None
    steps = [(axis, leaf) for axis, leaf in enumerate(leaves) if not isinstance(leaf, Identity)]
    return sorted(steps, key=lambda step: step[1].shape[0] / step[1].shape[1]) if len(steps) > 1 else steps


def observe(
    semiring: Semiring[Any],
    layer: InputLayer,
    x: Any | None,
    tokens: Int[Tensor, " batch"],
    gaps: bool = False,
) -> Any:
    """Compute x ∘ B[:, tokens], one run of unit axes after the other (B[:, v] is an outer product); B[:, tokens] if x is None."""
    for value in columns(semiring, layer, tokens, gaps):
        x = value if x is None else semiring.mul(x, value)
    return x


def columns(
    semiring: Semiring[Any], layer: InputLayer, tokens: Int[Tensor, " batch"], gaps: bool = False
) -> list[Any]:
    """Return B[:, tokens] as one value for each run of unit axes, with the other axes of size one.

    With ``gaps`` a row whose token is −1 is marginalised, as is a row of a continuous layer whose value is nan; the result is
    then one value.
    """
    if isinstance(layer, Continuous):
        missing = tokens.isnan()
        values = [semiring.lift_log(layer.log_density(tokens.nan_to_num()))]
        some = is_abstract(missing) or bool(missing.any())
    else:
        missing, values, at, axes = tokens < 0, [], 0, len(layer.unit_dims)
        some = gaps
        for column in layer.columns(tokens.clamp(min=0) if gaps else tokens):
            values.append(semiring.lift(_placed(column, at, axes), batched=True))
            at += column.ndim - 1
    if not some:
        return values
    first, *others = values
    for x in others:
        first = semiring.mul(first, x)
    both = semiring.cat([first, total(semiring, layer, tokens.device)])
    rows = torch.arange(len(tokens), device=tokens.device)
    return [semiring.gather(both, torch.where(missing, len(tokens), rows), len(layer.unit_dims))]


def _placed(column: Float[Tensor, "*units batch"], axis: int, axes: int) -> Tensor:
    """Insert unit axes of size one, ``axes`` in all, before and after those of a column (*units, batch)."""
    after = axes - axis - (column.ndim - 1)
    return column.reshape(*[1] * axis, *column.shape[:-1], *[1] * after, column.shape[-1])


def expect(semiring: Semiring[Any], layer: InputLayer, weights: Float[Tensor, "vocab batch"]) -> Any:
    """Compute Σ_v B[:, v] w(v): (*unit_dims, batch)."""
    units, token, batch, fresh = _labels(layer)
    operands = [
        *_lifted(semiring, layer.factors(units, token, fresh)),
        (semiring.lift(in_precision(weights, layer), batched=True), (token, batch)),
    ]
    return contract(semiring, operands, (*units, batch))


def in_precision(weights: Tensor, layer: InputLayer) -> Tensor:
    """Return the weights in a dtype at least as precise as the layer's parameters; float64 for a layer that has none."""
    parameters = layer.parameters()
    dtype = parameters[0].dtype if parameters else torch.float64
    return weights.to(torch.promote_types(weights.dtype, dtype))


def total(semiring: Semiring[Any], layer: InputLayer, device: torch.device | None = None) -> Any:
    """Compute Σ_v B[:, v]: (*unit_dims, 1); a layer without parameters is summed on ``device``."""
    if isinstance(layer, Continuous):
        return semiring.integral(layer.log_mass()[..., None], layer.log_peak()[..., None])
    units, token, _, fresh = _labels(layer)
    operands = _lifted(semiring, layer.factors(units, token, fresh))
    if sum(token in labels for _, labels in operands) == 1:  # nothing else sums over the tokens
        parameters = layer.parameters()
        dtype, device = (parameters[0].dtype, parameters[0].device) if parameters else (torch.float64, device)
        operands.append((semiring.lift(torch.ones(layer.vocab_size, dtype=dtype, device=device)), (token,)))
    x = contract(semiring, operands, units)
    last = len(units) - 1
    return semiring.split(x, last, (semiring.shape(x)[last], 1))


def adjoint(semiring: Semiring[Any], layer: InputLayer, x: Any) -> Any:
    """Compute Bᵀ x for a message x (*unit_dims, batch): (vocab, batch); for a continuous layer a score for each unit."""
    if isinstance(layer, Continuous):
        mass = total(semiring, layer, semiring.device(x))
        return semiring.merge(semiring.mul(x, mass), 0, len(layer.unit_dims))
    units, token, batch, fresh = _labels(layer)
    operands = [*_lifted(semiring, layer.factors(units, token, fresh)), (x, (*units, batch))]
    return contract(semiring, operands, (token, batch))


def _labels(layer: InputLayer) -> tuple[Labels, int, int, int]:
    k = len(layer.unit_dims)
    return tuple(range(k)), k, k + 1, k + 2


def outer(semiring: Semiring[Any], vectors: Sequence[Tensor], batch: int) -> Any:
    """Compute v_1 ⊗ … ⊗ v_k, repeated over a batch: (*dims, batch), with a scale for each row."""
    first, *others = on_axes(vectors, len(vectors) + 1)
    x = semiring.lift(first if batch == 1 else first.expand(*first.shape[:-1], batch), batched=True)
    for vector in others:
        x = semiring.mul(x, semiring.lift(vector))
    return x


def on_axes(vectors: Sequence[Tensor], ndim: int) -> list[Tensor]:
    """Return vectors as tensors of ``ndim`` axes, each along an axis of its own, that broadcast to their outer product."""
    return [v.view([-1 if i == axis else 1 for i in range(ndim)]) for axis, v in enumerate(vectors)]
