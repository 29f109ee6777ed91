"""Checks of numbers and token ids that callers give: the value as meant, else an error that names the argument.

They serve every public function, so that 2.0, "3", True, NaN and ids of other types are read or refused alike.
"""

from __future__ import annotations

import math
from operator import index
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from .errors import EvidenceError, ShapeError, TractileError


def whole(value: Any, name: str, least: int | None = 1, error: type[TractileError] = EvidenceError) -> int:
    """The whole number of 64 bits, at least ``least``; ``name`` says whose argument it is ("smc: particles")."""
    low, high = (-(2**63), 2**64) if least is None else (least, 2**63)
    if type(value) is int and low <= value < high:  # quick, and readable for torch.compile
        return value
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not low <= number < high:
        more = " of 64 bits" if least is None or (number or 0) >= high else f", {least} or more"
        raise error(f"{name} must be a whole number{more}, not {short(value)}")
    return number


def not_negative(value: Any, name: str) -> float:
    """The number, 0 or more; it may be infinite."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not number >= 0:
        raise EvidenceError(f"{name} must be a number, 0 or more, not {short(value)}")
    return number


def each_whole(values: Any, count: int, name: str) -> list[int]:
    """A whole number for each of ``count`` rows, from one for all or one for each."""
    if type(values) is int and abs(values) < 2**63:  # quick
        return [values] * count
    given = whole_numbers(values, name, ShapeError)
    if given.ndim > 1 or given.numel() not in (1, count):
        raise ShapeError(f"{name} has {given.numel()} entries for {count} rows; give one, or one for each")
    return [int(each) for each in given.expand(count).tolist()]


def whole_numbers(
    values: Any, name: str, error: type[TractileError] = EvidenceError
) -> Int[Tensor, "*shape"]:
    """Integers of any type (a tensor, an array, nested lists) as an int64 tensor; an empty tensor may be of any type.

    Raises ``error`` for anything else: numbers with a point, truth values, texts.
    """
    try:
        given = values if isinstance(values, Tensor) else torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        given = torch.ones(1)
    if given.numel() and (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool):
        raise error(f"{name} must be whole numbers, not {getattr(values, 'dtype', None) or short(values)}")
    return given.long()


def short(value: Any) -> str:
    """A value for a message: in one line, and never all numbers of a tensor."""
    shown = repr(value)
    if len(shown) > 60 or "\n" in shown:
        return f"a {type(value).__name__}"
    return f"{shown} ({type(value).__name__})"
