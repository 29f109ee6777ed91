"""Answers in the range of numbers: scaled arithmetic first, a wider range where it lost something.

Weights of 16 bits are read as float32: sums and products in 16 bits would keep three digits, or two.

Real marks the columns of messages that lost a positive entry to underflow; answers that depend on one are NaN
(:mod:`~tractile.inference.semirings.scaled_real`). Their rows are computed again in float64, then in log space.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from ...circuits.chain import Chain
from ...circuits.circuit import Circuit
from ...layers.functorch_utils import any_if_concrete
from ..engine.folding import folded, has_narrow
from ..semirings.base import Semiring
from ..semirings.logarithms import Log
from ..semirings.scaled_real import Real

Model = Chain | Circuit
M = TypeVar("M", bound=Chain | Circuit)
Rows = Tensor | None
Compute = Callable[[Model, Semiring[Any], Rows], list[Tensor]]
"""(model, semiring, row numbers or None for all) → tables of logarithms, each with a row for each of them."""


def at_least_single(model: M) -> M:
    """Return the model with its weights in float32 where they have 16 bits."""
    narrow = folded(model).narrow if isinstance(model, Circuit) else has_narrow(model.parameters())
    if not narrow:
        return model
    single: Any = model.map(lambda t: t.float() if t.dtype.itemsize < 4 else t)
    return cast(M, single)


def arithmetics(model: Model) -> list[tuple[Model, Semiring[Any]]]:
    """Return the model and the semiring of each attempt: Real in the model's precision, in float64, and Log in float64."""
    if all(t.dtype == torch.float64 for t in model.parameters()):
        return [(model, Real()), (model, Log())]
    wide = model.map(lambda t: t.double())
    return [(at_least_single(model), Real()), (wide, Real()), (wide, Log())]


def within_range(model: Model, compute: Compute) -> list[Tensor]:
    """Return tables of logarithms, computed again in a wider range in the rows that lost something."""
    found = compute(at_least_single(model), Real(), None)
    lost = lost_rows(found)
    if not any_if_concrete(lost):
        return found
    for wider in arithmetics(model)[1:]:
        (rows,) = lost.nonzero(as_tuple=True)
        again = compute(*wider, rows)
        # The rows that stay are selected, not overwritten: the derivative of a lost row may be infinite, and 0 · ∞ is NaN.
        (kept,) = (~lost).nonzero(as_tuple=True)
        order = torch.cat([kept, rows]).argsort()
        found = [torch.cat([x[kept], y.to(x.dtype)])[order] for x, y in zip(found, again, strict=True)]
        lost = lost_rows(found)
        if not bool(lost.any()):
            break
    return found


def lost_rows(tables: list[Tensor]) -> Tensor:
    """Tell which rows have a logarithm that is NaN or +∞ in any table."""
    wrong = [~(t.detach() < torch.inf) for t in tables]
    return reduce(torch.logical_or, (w.flatten(1).any(1) if w.ndim > 1 else w for w in wrong))
