"""Semirings: the meaning of "sum" (⊕) and "product" (⊗) in the engine's contractions.

    semiring     value of a weight w    ⊕          ⊗     answers
    Real         w, mantissa × scale    +          ×     probabilities, partition functions, next-token distributions
    Log          log w                  logsumexp  +     the same, slower, exact over any dynamic range: the reference
    Boolean      [w > 0]                or         and   support, reachability: GCD, LCD
    Counting     [w > 0]                +          ×     accepting paths
    Residue      [w > 0]                + mod p    × mod p   whether two numbers of paths are equal, however large
    MaxProduct   log w                  max        +     most probable completion (Viterbi)
    MinPlus      −log w                 min        +     cheapest completion: with e⁻¹ for each token, fewest tokens

A value is a tensor, except in :class:`~tractile.inference.semirings.scaled_real.Real`, where it is a
:class:`~tractile.inference.semirings.scaled.Scaled`: a mantissa and a power of two that broadcasts
against it. The exponent has size one along axes that are summed by dense contractions (hidden states) and full size along
the batch and along axes touched by incidence (automaton states), so each (state, row) column has its own scale and no
length, vocabulary or state count drives a value to 0 or inf while its logarithm is finite.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...layers.functorch_utils import transformed, version
from ...layers.semiring import Semiring as Semiring
from .labelled_tensor import unflatten


class TensorSemiring(Semiring[Tensor]):
    """A semiring whose values are plain tensors: the structural operations, and a cache of lifted parameters; abstract."""

    def __init__(self) -> None:
        self._lifted: dict[tuple[Any, ...], tuple[Tensor, int, Tensor]] = {}

    @abstractmethod
    def _lift(self, weight: Tensor) -> Tensor: ...

    def lift(self, weight: Tensor, *, batched: bool = False) -> Tensor:
        if batched or weight.requires_grad or transformed(weight):
            return self._lift(weight)
        base = weight if weight._base is None else weight._base  # a transpose is a new view at each call
        key = (id(base), weight.storage_offset(), weight.shape, weight.stride())
        written, known = version(weight), self._lifted.get(key)
        if written is None:
            return self._lift(weight)
        if known is None or known[1] != written:
            known = self._lifted[key] = (base, written, self._lift(weight))
        return known[2]

    def gather(self, x: Tensor, index: Tensor, axis: int) -> Tensor:
        return x.index_select(axis, index)

    def permute(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return x.permute(list(order))

    def split(self, x: Tensor, axis: int, dims: Sequence[int]) -> Tensor:
        return unflatten(x, axis, dims)

    def merge(self, x: Tensor, axis: int, count: int) -> Tensor:
        return x.flatten(axis, axis + count - 1)

    def cat(self, values: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(values), -1)

    def chunk(self, x: Tensor, count: int) -> list[Tensor]:
        return list(x.chunk(count, -1))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def device(self, x: Tensor) -> torch.device:
        return x.device
