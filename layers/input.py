"""Input layers: J units over one variable with V values (V = 0: a real number; see :mod:`tractile.layers.gaussian`).

An input layer is a matrix B of shape (J, V), held in factors: for each value v, column B[:, v] is an outer product over
the unit axes ``unit_dims``. Evidence about its variable requires four contractions of B:

    observed value      B[:, x]                 columns(x)
    weighted values     Σ_v B[:, v] w(v)        one of a set (0/1), marginalised (ones), soft (any non-negative w): value(w)
    total               Σ_v B[:, v]             value()
    open                B itself, its token axis kept: the query variable

For learning a layer has the constraints of its parameters (``constraints``) and the M-step of EM (``maximise``), given the
derivatives of log p (expected counts are parameter × derivative).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from ..errors import CircuitError, ShapeError
from .operator import Factor, Index, Label, TensorMap
from .weights import check_weights


def normalised_counts(
    weight: Float[Tensor, "*rows cols"], derivative: Float[Tensor, "*rows cols"], pseudocount: float = 0.0
) -> Float[Tensor, "*rows cols"]:
    """Normalise the rows of expected counts w ∘ ∂ log p/∂w: the M-step of EM.

    ``pseudocount`` is added where the weight is not zero; a row without counts keeps its weights, as one does whose sum is too
    small to be accurate.
    """
    counts = weight * derivative + pseudocount * (weight > 0)
    total = counts.sum(-1, keepdim=True)
    tiny = torch.finfo(total.dtype).tiny
    return torch.where(total >= tiny, counts / total.clamp(min=tiny), weight)


class InputLayer(ABC):
    """J units over a variable with V values: the non-negative matrix B (J, V).

    A subclass sets ``unit_dims`` and ``vocab_size`` and gives ``factors``, ``columns``, ``map`` and ``parameters``.
    ``stacks``: the attribute ``weight`` is B, so that several layers of one shape can be stacked and contracted at once.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Categorical
    >>> layer = Categorical(torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]))
    >>> layer.num_units, layer.vocab_size
    (2, 3)
    >>> layer.value(torch.tensor([1.0, 1.0, 0.0]))  # each unit's weight of {0, 1}
    tensor([0.5000, 1.0000])
    >>> layer.reweighted(torch.tensor([1.0, 1.0, 0.0])).table()
    tensor([[0.2000, 0.3000, 0.0000],
            [0.6000, 0.4000, 0.0000]])
    """

    stacks: bool = False
    unit_dims: tuple[int, ...]
    vocab_size: int

    @property
    def num_units(self) -> int:
        """J, the product of ``unit_dims``."""
        return prod(self.unit_dims)

    @abstractmethod
    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        """Return the factors of B under one label for each unit axis and one for the token; inner labels start at ``fresh``."""

    @abstractmethod
    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        """Return blocks over consecutive unit axes whose outer product is B[:, tokens]: several for a product of layers."""

    @abstractmethod
    def map(self, fn: TensorMap) -> InputLayer:
        """Return a copy with ``fn`` applied to every parameter tensor."""

    @abstractmethod
    def parameters(self) -> list[Tensor]:
        """Return the real-valued parameter tensors, in a fixed order."""

    def times(self, other: InputLayer) -> InputLayer:
        """Multiply two layers: x ↦ a(x) ⊗ b(x), one unit for each pair of units."""
        return KhatriRao(self, other)

    def constraints(self) -> list[Constraint]:
        """Return the constraint on each parameter (``torch.distributions.constraints``); default: rows are distributions."""
        return [constraints.simplex for _ in self.parameters()]

    def free_parameters(self) -> InputLayer:
        """Return an equal layer whose parameters are the weights themselves: derivatives by these give EM's expected counts."""
        return self

    def maximise(self, derivatives: Sequence[Tensor], pseudocount: float) -> list[Tensor]:
        """Return the parameters that maximise the expected log-likelihood (the M-step of EM).

        ``derivatives``: ∂ log p/∂θ for each parameter θ of ``free_parameters()``. Raises :class:`CircuitError` for a layer
        without a closed form.
        """
        if self.parameters():
            raise CircuitError(f"{self!r} has no closed-form maximum for EM: learn it by gradients")
        return []

    def take(self, units: Index) -> InputLayer:
        """Return the layer restricted to some indices of each unit axis; the layer itself if all are kept."""
        if all(len(i) == d for i, d in zip(units, self.unit_dims, strict=True)):
            return self
        return self._take(units)

    def _take(self, units: Index) -> InputLayer:
        return Categorical(self.table()[torch.meshgrid(*units, indexing="ij")])

    def reweighted(self, weights: Float[Tensor, " vocab"]) -> InputLayer:
        """Return the layer B · diag(w)."""
        return Categorical(self.table() * weights)

    def condensed(self, kind: Int[Tensor, " vocab"]) -> tuple[InputLayer, Int[Tensor, " fewer"]]:
        """Return a layer over fewer values and their kinds, if values of one kind are all alike to the units; else the same.

        A value of the new layer has the sum of the columns of the values that it stands for.
        """
        return self, kind

    def value(self, weights: Float[Tensor, " vocab"] | None = None) -> Float[Tensor, "*units"]:
        """Compute Σ_v B[:, v] w(v) in ordinary arithmetic; without weights, the sum of all columns."""
        axes = list(range(len(self.unit_dims)))
        token = len(axes)
        factors = [
            (x if isinstance(x, Tensor) else x.dense(), own)
            for x, own in self.factors(axes, token, token + 1)
        ]
        if weights is not None:
            factors.append((weights, (token,)))
        like = self.parameters()[0] if self.parameters() else factors[-1][0].double()
        dtype = torch.promote_types(like.dtype, torch.float32 if weights is None else weights.dtype)
        tensors, labels = [x.to(like.device, dtype) for x, _ in factors], [list(own) for _, own in factors]
        if labels == [[0, token], [1, token]]:  # two tables: quicker than einsum
            return tensors[0] @ tensors[1].T
        result: Tensor = torch.einsum(
            *(item for pair in zip(tensors, labels, strict=True) for item in pair), axes
        )
        return result

    def log_rows(self, unit: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Return the logarithms of rows of B, in float64; units are numbered along the flattened unit axes."""
        return self.table().flatten(0, -2).to(unit.device)[unit].double().log()

    def table(self) -> Float[Tensor, "*units vocab"]:
        """Return B as one tensor; float64 for a layer without parameters."""
        parameters = self.parameters()
        every = torch.arange(self.vocab_size, device=parameters[0].device if parameters else None)
        out, *others = self.columns(every)
        for block in others:
            out = out[(..., *[None] * (block.ndim - 1), slice(None))] * block
        return out if parameters else out.double()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(units={self.unit_dims}, vocab_size={self.vocab_size})"


class Categorical(InputLayer):
    """J categorical distributions, or any non-negative weights.

    ``weight``: B of shape (J, V), or (J_1, …, J_k, V) for k unit axes. Raises :class:`ShapeError` for another shape, integers,
    and weights that are negative, infinite or NaN.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Categorical
    >>> dice = Categorical(torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]))  # two units, three values
    >>> dice.columns(torch.tensor([2]))[0].squeeze(1)  # each unit's weight of value 2
    tensor([0.5000, 0.0000])
    """

    stacks = True

    def __init__(self, weight: Float[Tensor, "*units vocab"]) -> None:
        if weight.ndim < 2 or 0 in weight.shape or not weight.is_floating_point():
            raise ShapeError(
                "Categorical: the weight must be a non-empty floating-point (units, vocab) tensor, "
                f"not of shape {tuple(weight.shape)} and {weight.dtype}"
            )
        check_weights(weight, "Categorical")
        self.weight = weight
        self.unit_dims, self.vocab_size = tuple(weight.shape[:-1]), weight.shape[-1]

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(self.weight, (*units, token))]

    def table(self) -> Float[Tensor, "*units vocab"]:
        return self.weight

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        if len(tokens) < self.vocab_size:
            return (self.weight.index_select(-1, tokens),)
        rows = self.weight.movedim(-1, 0).contiguous()  # a copy pays off: columns are then read as rows
        return (rows.index_select(0, tokens).movedim(0, -1),)

    def map(self, fn: TensorMap) -> Categorical:
        return Categorical(fn(self.weight))

    def parameters(self) -> list[Tensor]:
        return [self.weight]

    def maximise(self, derivatives: Sequence[Tensor], pseudocount: float) -> list[Tensor]:
        return [normalised_counts(self.weight, derivatives[0], pseudocount)]


class KhatriRao(InputLayer):
    """The row-wise Kronecker product: B[:, v] = A[:, v] ⊗ B[:, v] for each token v (Dang et al. 2026, Thm 4.4); lazy.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Bernoulli
    >>> from tractile.layers.input import KhatriRao
    >>> pair = KhatriRao(Bernoulli(torch.tensor([0.5, 0.1])), Bernoulli(torch.tensor([0.9])))
    >>> pair.unit_dims
    (2, 1)
    >>> pair.table().squeeze(1)  # both are 0, both are 1
    tensor([[0.0500, 0.4500],
            [0.0900, 0.0900]])
    """

    def __init__(self, a: InputLayer, b: InputLayer) -> None:
        if not a.vocab_size or not b.vocab_size:
            raise ShapeError(
                f"KhatriRao: {a!r} and {b!r} must be tables; multiply continuous layers by ``a.times(b)``"
            )
        if a.vocab_size != b.vocab_size:
            raise ShapeError(f"KhatriRao: the vocabularies differ, {a.vocab_size} and {b.vocab_size} tokens")
        self.a, self.b = a, b
        self.unit_dims, self.vocab_size = a.unit_dims + b.unit_dims, a.vocab_size

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        split = len(self.a.unit_dims)
        first = self.a.factors(units[:split], token, fresh)
        used = [label for _, labels in first for label in labels]
        return first + self.b.factors(units[split:], token, max(fresh, max(used) + 1))

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        return self.a.columns(tokens) + self.b.columns(tokens)

    def _take(self, units: Index) -> KhatriRao:
        k = len(self.a.unit_dims)
        return KhatriRao(self.a.take(units[:k]), self.b.take(units[k:]))

    def reweighted(self, weights: Float[Tensor, " vocab"]) -> KhatriRao:
        return KhatriRao(self.a.reweighted(weights), self.b)

    def log_rows(self, unit: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        size = self.b.num_units
        return self.a.log_rows(unit // size) + self.b.log_rows(unit % size)

    def map(self, fn: TensorMap) -> KhatriRao:
        return KhatriRao(self.a.map(fn), self.b.map(fn))

    def parameters(self) -> list[Tensor]:
        return self.a.parameters() + self.b.parameters()

    def constraints(self) -> list[Constraint]:
        return self.a.constraints() + self.b.constraints()

    def free_parameters(self) -> KhatriRao:
        return KhatriRao(self.a.free_parameters(), self.b.free_parameters())


class Constant(InputLayer):
    """One unit of weight one over no variable: the end of an unrolled chain. It has ``axes`` unit axes of size one.

    Examples
    --------
    >>> from tractile.layers.input import Constant
    >>> Constant(axes=2).unit_dims
    (1, 1)
    """

    def __init__(self, axes: int = 1) -> None:
        self.unit_dims, self.vocab_size = (1,) * axes, 0

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(torch.ones(1), (u,)) for u in units]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        return tuple(torch.ones(1, 1, device=tokens.device) for _ in self.unit_dims)

    def map(self, fn: TensorMap) -> Constant:
        return self

    def parameters(self) -> list[Tensor]:
        return []
