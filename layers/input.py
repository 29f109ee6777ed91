"""Input layers: J units over one categorical variable with V values.

An input layer is a matrix B of shape (J, V), held in factors: for each value v, column B[:, v] is an outer product over
the unit axes ``unit_dims``. Against evidence it is asked four things, all of them contractions of B:

    observed value      B[:, x]                 columns(x)
    weighted values     Σ_v B[:, v] w(v)        one of a set (0/1), marginalised (ones), soft (any non-negative w)
    total               Σ_v B[:, v]             totals(), computed once
    open                B itself, its token axis kept: the query variable
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ShapeError
from .operator import Factor, Incidence, Label, TensorMap


class InputLayer(ABC):
    """J units over a variable with V values."""

    unit_dims: tuple[int, ...]
    vocab_size: int

    @property
    def num_units(self) -> int:
        """J, the Kronecker components multiplied out."""
        return prod(self.unit_dims)

    @abstractmethod
    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        """The factors of B under one label for each unit axis and one for the token; inner labels count up from ``fresh``."""

    @abstractmethod
    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "units batch"], ...]:
        """B[:, tokens] as one matrix for each unit axis: given the token, the row-wise Kronecker product is an outer product."""

    @abstractmethod
    def map(self, fn: TensorMap) -> InputLayer:
        """The same layer with ``fn`` applied to every parameter tensor."""

    @abstractmethod
    def parameters(self) -> list[Tensor]:
        """The real-valued parameter tensors, in a fixed order."""

    def dense(self) -> Float[Tensor, "units vocab"]:
        """B written out as (J, V). For tests and small layers only."""
        columns = self.columns(torch.arange(self.vocab_size))
        out = columns[0]
        for c in columns[1:]:
            out = (out[:, None, :] * c[None]).flatten(0, 1)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(units={self.unit_dims}, vocab_size={self.vocab_size})"


class Categorical(InputLayer):
    """J categorical distributions (or any non-negative weights): B of shape (J, V) is given."""

    def __init__(self, weight: Float[Tensor, "units vocab"]) -> None:
        if weight.ndim != 2 or 0 in weight.shape or not weight.is_floating_point():
            raise ShapeError(
                "Categorical: the weight must be a non-empty floating-point (units, vocab) matrix, "
                f"not of shape {tuple(weight.shape)} and {weight.dtype}"
            )
        self.weight = weight
        self.unit_dims, self.vocab_size = (weight.shape[0],), weight.shape[1]

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(self.weight, (units[0], token))]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "units batch"], ...]:
        return (self.weight.index_select(1, tokens),)

    def map(self, fn: TensorMap) -> Categorical:
        return Categorical(fn(self.weight))

    def parameters(self) -> list[Tensor]:
        return [self.weight]


class Labels(InputLayer):
    """J sets of tokens (edge labels of an automaton), stored by token class.

    Tokens that no edge tells apart form a class, so B_f = C · K with C ∈ {0,1}^{J × classes} (``unit``, ``klass``: the
    positions of its ones) and K the class of each token (``token_class``; −1 where no set holds the token).
    """

    def __init__(
        self,
        unit: Int[Tensor, " ones"],
        klass: Int[Tensor, " ones"],
        token_class: Int[Tensor, " vocab"],
        num_units: int,
    ) -> None:
        if token_class.ndim != 1 or not len(token_class):
            raise ShapeError(
                f"Labels: token_class must be a non-empty vector, not of shape {tuple(token_class.shape)}"
            )
        self.num_classes = int(token_class.max()) + 1 if int(token_class.max()) >= 0 else 1
        if len(klass) and int(klass.max()) >= self.num_classes:
            raise ShapeError(
                f"Labels: class {int(klass.max())} has no token; there are {self.num_classes} classes"
            )
        self.token_class = token_class.long()
        self.incidence = Incidence(unit, klass, (num_units, self.num_classes))
        allowed = (self.token_class >= 0).nonzero().squeeze(1)
        self.classes = Incidence(self.token_class[allowed], allowed, (self.num_classes, len(token_class)))
        self.unit_dims, self.vocab_size = (num_units,), len(token_class)

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(self.incidence, (units[0], fresh)), (self.classes, (fresh, token))]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "units batch"], ...]:
        device = tokens.device
        klass = self.token_class.to(device)[tokens]
        onehot = torch.zeros(self.num_classes, len(tokens), device=device)
        onehot[klass.clamp(min=0), torch.arange(len(tokens), device=device)] = (klass >= 0).float()
        out = torch.zeros(self.unit_dims[0], len(tokens), device=device)
        return (out.index_add_(0, self.incidence.row.to(device), onehot[self.incidence.col.to(device)]),)

    def class_sizes(self) -> Int[Tensor, " classes"]:
        """The number of tokens in each class."""
        return torch.bincount(self.token_class[self.token_class >= 0], minlength=self.num_classes)

    def map(self, fn: TensorMap) -> Labels:
        return self

    def parameters(self) -> list[Tensor]:
        return []


class RowKron(InputLayer):
    """The row-wise Kronecker product: B[:, v] = A[:, v] ⊗ B[:, v] for each token v (Dang et al. 2026, Thm 4.4); lazy."""

    def __init__(self, a: InputLayer, b: InputLayer) -> None:
        if a.vocab_size != b.vocab_size:
            raise ShapeError(f"RowKron: the vocabularies differ, {a.vocab_size} and {b.vocab_size} tokens")
        self.a, self.b = a, b
        self.unit_dims, self.vocab_size = a.unit_dims + b.unit_dims, a.vocab_size

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        split = len(self.a.unit_dims)
        first = self.a.factors(units[:split], token, fresh)
        used = [label for _, labels in first for label in labels]
        return first + self.b.factors(units[split:], token, max(fresh, max(used) + 1))

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "units batch"], ...]:
        return self.a.columns(tokens) + self.b.columns(tokens)

    def map(self, fn: TensorMap) -> RowKron:
        return RowKron(self.a.map(fn), self.b.map(fn))

    def parameters(self) -> list[Tensor]:
        return self.a.parameters() + self.b.parameters()


class Constant(InputLayer):
    """One unit of weight one over no variable: the end of an unrolled chain."""

    def __init__(self, axes: int = 1) -> None:
        self.unit_dims, self.vocab_size = (1,) * axes, 0

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(torch.ones(1), (u,)) for u in units]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "units batch"], ...]:
        return tuple(torch.ones(1, 1) for _ in self.unit_dims)

    def map(self, fn: TensorMap) -> Constant:
        return self

    def parameters(self) -> list[Tensor]:
        return []
