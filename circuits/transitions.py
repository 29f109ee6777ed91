"""Validation of an automaton's transitions, rows (state, token class, state): checked, sorted, without duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import whole, whole_numbers
from ..errors import ShapeError, TooManyStates

MOST = 10**8  # states or tokens: each has an entry in several vectors
Ints = Sequence[int] | np.ndarray[Any, Any] | Tensor


def ints(values: Ints) -> Int[Tensor, " entries"]:
    """Convert integers to an int64 tensor. Raises :class:`ShapeError` for other numbers."""
    return whole_numbers(values, "Automaton: states and token classes", ShapeError)


def numbers(given: int | Iterable[int], name: str, least: int | None = 0) -> list[int]:
    """Return one whole number or several as a list. Raises :class:`ShapeError` for anything else."""
    several = given if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
    return [whole(number, name, least, ShapeError) for number in several]


def too_many(count: int, what: str) -> TooManyStates:
    """Return the error for more states or tokens than ``MOST``."""
    return TooManyStates(f"Automaton: {count:,} {what}; number them from 0 without gaps", limit=MOST)


def indicator(states: Sequence[int], size: int) -> Float[Tensor, " states"]:
    """Return a vector that is 1 for the given states and 0 for all others."""
    out = torch.zeros(size)
    out[list(states)] = 1.0
    return out


def rows(transitions: Ints, starts: list[int], accepts: list[int], num_states: int) -> Int[Tensor, "rows 3"]:
    """Sort transitions and remove duplicates. Raises :class:`ShapeError` if an index is out of range."""
    triples = ints(transitions).view(-1, 3)
    if num_states < 1 or not starts:
        raise ShapeError(
            f"Automaton: needs at least one state and one start state, not {num_states} and {starts}"
        )
    states = torch.cat([triples[:, 0], triples[:, 2], ints([*starts, *accepts])])
    if len(states) and (int(states.min()) < 0 or int(states.max()) >= num_states):
        raise ShapeError(f"Automaton: a state lies outside 0 … {num_states - 1}")
    if len(triples) and int(triples[:, 1].min()) < 0:
        raise ShapeError("Automaton: a transition has a negative token class")
    classes = int(triples[:, 1].max()) + 1 if len(triples) else 1
    if num_states > MOST or num_states**2 * classes >= 2**63:  # what is packed needs 64 bits
        raise too_many(num_states, "states")
    packed = torch.unique((triples[:, 0] * classes + triples[:, 1]) * num_states + triples[:, 2])
    rest = packed // num_states
    return torch.stack([rest // classes, rest % classes, packed % num_states], 1)
