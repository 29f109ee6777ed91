"""Input layers whose table B (J, V) is a function of other parameters, or has none.

Bernoulli(p)       B[j, 1] = p_j            V = 2
Indicator(V)       B[j, v] = [j = v]        one unit for each value
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from ..argument_checks import whole
from ..errors import ShapeError
from .functorch_utils import any_if_concrete
from .incidence import Incidence
from .input import Categorical, InputLayer
from .operator import Factor, Index, Label, TensorMap


class Table(InputLayer):
    """A layer whose B is computed from its parameters at each use, so that gradients reach the parameters.

    The first axis of every parameter is that of the units. A subclass sets ``unit_dims`` (J,) and ``vocab_size`` and gives
    ``weight``, ``map`` and ``parameters``.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Table
    >>> class Zipf(Table):  # B[j, v] ∝ (v + 1)^(−s_j)
    ...     def __init__(self, s, vocab_size): self.s, self.unit_dims, self.vocab_size = s, (len(s),), vocab_size
    ...     def map(self, fn): return Zipf(fn(self.s), self.vocab_size)
    ...     def parameters(self): return [self.s]
    ...     @property
    ...     def weight(self): return torch.softmax(-self.s[:, None] * torch.arange(1, self.vocab_size + 1).log(), 1)
    >>> Zipf(torch.tensor([0.0, 1.0]), 3).table()
    tensor([[0.3333, 0.3333, 0.3333],
            [0.5455, 0.2727, 0.1818]])
    """

    stacks = True

    @property
    @abstractmethod
    def weight(self) -> Float[Tensor, "units vocab"]:
        """B, computed from the parameters."""

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(self.weight, (units[0], token))]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        return (self.weight.index_select(1, tokens),)

    def table(self) -> Float[Tensor, "units vocab"]:
        return self.weight

    def _take(self, units: Index) -> InputLayer:
        return self.map(lambda parameter: parameter[units])

    def free_parameters(self) -> Categorical:
        return Categorical(self.weight)


class Bernoulli(Table):
    """J coins: p (J,) is the probability of 1. Raises :class:`ShapeError` for anything but a vector in [0, 1].

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Bernoulli
    >>> Bernoulli(torch.tensor([0.5, 0.9])).table()  # a row for each coin: P(0), P(1)
    tensor([[0.5000, 0.5000],
            [0.1000, 0.9000]])
    """

    def __init__(self, probs: Float[Tensor, " units"]) -> None:
        if probs.ndim != 1 or not len(probs) or not probs.is_floating_point():
            raise ShapeError(
                f"Bernoulli: the probabilities must be a non-empty vector, not {tuple(probs.shape)}"
            )
        if any_if_concrete(~((probs >= 0) & (probs <= 1))):
            raise ShapeError("Bernoulli: the probabilities must lie in [0, 1]")
        self.probs, self.unit_dims, self.vocab_size = probs, (len(probs),), 2

    @property
    def weight(self) -> Float[Tensor, "units vocab"]:
        return torch.stack([1 - self.probs, self.probs], 1)

    def map(self, fn: TensorMap) -> Bernoulli:
        return Bernoulli(fn(self.probs))

    def parameters(self) -> list[Tensor]:
        return [self.probs]

    def constraints(self) -> list[Constraint]:
        return [constraints.unit_interval]

    def maximise(self, derivatives: Sequence[Tensor], pseudocount: float) -> list[Tensor]:
        counts = self.weight * derivatives[0] + pseudocount
        total = counts.sum(1)
        share = counts[:, 1] / total.clamp(min=torch.finfo(total.dtype).tiny)
        return [torch.where(total > 0, share, self.probs)]


class Indicator(InputLayer):
    """One unit for each of V values, 1 where the variable has that value: the variable itself, as units.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Indicator
    >>> Indicator(3).columns(torch.tensor([1]))[0].squeeze(1)  # the variable is 1: so is unit 1, and no other
    tensor([0., 1., 0.])
    """

    def __init__(self, vocab_size: int) -> None:
        vocab_size = whole(vocab_size, "Indicator: the number of values", 1, ShapeError)
        self.unit_dims, self.vocab_size = (vocab_size,), vocab_size
        self.identity = Incidence(
            torch.arange(vocab_size), torch.arange(vocab_size), (vocab_size, vocab_size)
        )

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(self.identity, (units[0], token))]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        return (torch.nn.functional.one_hot(tokens, self.vocab_size).T.to(torch.get_default_dtype()),)

    def map(self, fn: TensorMap) -> Indicator:
        return self

    def parameters(self) -> list[Tensor]:
        return []
