"""Continuous input layers: units that are densities over a real variable, so there is no table B.

    Gaussian     unit j at x is exp(log_mass_j) · N(x; μ_j, σ²_j)

The engine uses the logarithm of the density (so that values far from the mean do not underflow). For a marginalised variable
it uses the mass ∫ in sum semirings and the peak max_x in max semirings. A product of two Gaussians is a Gaussian times a mass,
so Gaussian layers are closed under multiplication.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import log, pi

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from ..errors import CircuitError, ShapeError
from .functorch_utils import any_if_concrete
from .input import InputLayer
from .operator import Factor, Index, Label, TensorMap


class Continuous(InputLayer):
    """J densities over a real variable; ``vocab_size`` is 0. The first axes of every parameter are the unit axes.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Gaussian
    >>> layer = Gaussian(torch.tensor([0.0]), torch.tensor([1.0]))
    >>> layer.log_density(torch.tensor([0.0, 1.0]))
    tensor([[-0.9189, -1.4189]])
    >>> layer.log_mass(), layer.log_peak(), layer.mode(torch.tensor([0]))
    (tensor([0.]), tensor([-0.9189]), tensor([0.]))
    """

    vocab_size = 0

    @abstractmethod
    def log_density(self, values: Float[Tensor, " batch"]) -> Float[Tensor, "*units batch"]:
        """Return the log-density of each unit at each value, its mass included."""

    @abstractmethod
    def log_mass(self) -> Float[Tensor, "*units"]:
        """Return log ∫ of each unit: 0 for a distribution."""

    @abstractmethod
    def log_peak(self) -> Float[Tensor, "*units"]:
        """Return log max_x of each unit."""

    def normalised(self) -> Continuous:
        """Divide each unit by its mass. Raises :class:`CircuitError` for a class with masses that does not override this."""
        if bool((self.log_mass() != 0).any()):
            raise CircuitError(
                f"{self!r} cannot be divided by its masses: give its class a method normalised()"
            )
        return self

    @abstractmethod
    def draw(
        self, unit: Int[Tensor, " batch"], generator: torch.Generator | None = None
    ) -> Float[Tensor, " batch"]:
        """Draw a value from each of these units (numbered along the flattened unit axes)."""

    @abstractmethod
    def mode(self, unit: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return the most probable value of each of these units."""

    def times(self, other: InputLayer) -> InputLayer:
        raise CircuitError(f"multiply: the class of {self!r} has no method times() for {other!r}")

    def value(self, weights: Float[Tensor, " vocab"] | None = None) -> Float[Tensor, "*units"]:
        """Return the mass of each unit."""
        return self.log_mass().exp()

    def _take(self, units: Index) -> InputLayer:
        return self.map(lambda parameter: parameter[torch.meshgrid(*units, indexing="ij")])

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        raise CircuitError(f"{self!r} is over a continuous variable: it has no table of weights")

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        raise CircuitError(f"{self!r} is over a continuous variable: it has no table of weights")


class Gaussian(Continuous):
    """Normal distributions with ``mean`` and ``variance`` (J,), each times exp(``log_mass``); ``log_mass`` defaults to 0.

    Several unit axes are allowed: (J_1, …, J_k). EM keeps variances at or above ``min_variance``. Raises
    :class:`ShapeError` if shapes differ or a variance is not positive.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Gaussian
    >>> a = Gaussian(torch.tensor([0.0]), torch.tensor([1.0]))
    >>> b = Gaussian(torch.tensor([2.0]), torch.tensor([1.0]))
    >>> product = a.times(b)  # a Gaussian again, with a mass of its own: ∫ N(x; 0, 1) N(x; 2, 1) dx
    >>> product.mean, product.variance, product.log_mass().exp()
    (tensor([[1.]]), tensor([[0.5000]]), tensor([[0.1038]]))
    """

    def __init__(
        self,
        mean: Float[Tensor, "*units"],
        variance: Float[Tensor, "*units"],
        log_mass: Float[Tensor, "*units"] | None = None,
        *,
        min_variance: float = 1e-6,
    ) -> None:
        if not mean.ndim or not mean.numel() or mean.shape != variance.shape or not mean.is_floating_point():
            raise ShapeError(
                f"Gaussian: mean and variance must have one non-empty shape, not {tuple(mean.shape)} and "
                f"{tuple(variance.shape)}"
            )
        if log_mass is not None and log_mass.shape != mean.shape:
            raise ShapeError(
                f"Gaussian: log_mass must have the shape {tuple(mean.shape)}, not {tuple(log_mass.shape)}"
            )
        if any_if_concrete(~((variance > 0) & variance.isfinite() & mean.isfinite())):
            raise ShapeError("Gaussian: means must be finite, variances finite and positive")
        if log_mass is not None and any_if_concrete(~(log_mass < torch.inf)):
            raise ShapeError("Gaussian: log_mass must be below infinity, and not NaN")
        self.mean, self.variance, self._log_mass, self.min_variance = mean, variance, log_mass, min_variance
        self.unit_dims = tuple(mean.shape)

    def log_density(self, values: Float[Tensor, " batch"]) -> Float[Tensor, "*units batch"]:
        x = values.to(self.mean.dtype)
        return self.log_mass()[..., None] + _log_normal(x, self.mean[..., None], self.variance[..., None])

    def log_mass(self) -> Float[Tensor, "*units"]:
        return torch.zeros_like(self.mean) if self._log_mass is None else self._log_mass

    def normalised(self) -> Gaussian:
        return Gaussian(self.mean, self.variance, min_variance=self.min_variance)

    def log_peak(self) -> Float[Tensor, "*units"]:
        return self.log_mass() + _log_normal(self.mean, self.mean, self.variance)

    def draw(
        self, unit: Int[Tensor, " batch"], generator: torch.Generator | None = None
    ) -> Float[Tensor, " batch"]:
        mean, deviation = self.mean.flatten()[unit], self.variance.flatten()[unit].sqrt()
        noise = torch.randn(unit.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return mean + deviation * noise

    def mode(self, unit: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        return self.mean.flatten()[unit]

    def times(self, other: InputLayer) -> Gaussian:
        if not isinstance(other, Gaussian):
            raise CircuitError(f"multiply: {self!r} times {other!r} is not a layer; both must be Gaussian")
        shape = (*self.unit_dims, *other.unit_dims)
        ones = (1,) * len(other.unit_dims)
        m, v, a = (t.reshape(*self.unit_dims, *ones) for t in (self.mean, self.variance, self.log_mass()))
        n, w, b = other.mean, other.variance, other.log_mass()
        variance = (v * w / (v + w)).expand(shape)
        return Gaussian((m * w + n * v) / (v + w), variance, a + b + _log_normal(m, n, v + w))

    def map(self, fn: TensorMap) -> Gaussian:
        log_mass = None if self._log_mass is None else fn(self._log_mass)
        return Gaussian(fn(self.mean), fn(self.variance), log_mass, min_variance=self.min_variance)

    def parameters(self) -> list[Tensor]:
        return [self.mean, self.variance, *([] if self._log_mass is None else [self._log_mass])]

    def constraints(self) -> list[Constraint]:
        return [constraints.real, constraints.positive, constraints.real][: len(self.parameters())]

    def free_parameters(self) -> Gaussian:
        return Gaussian(self.mean, self.variance, self.log_mass())

    def maximise(self, derivatives: Sequence[Tensor], pseudocount: float) -> list[Tensor]:
        """Return new means and variances: the derivative by log_mass is a unit's data count, the others give its moments."""
        if self._log_mass is not None:
            raise CircuitError(f"{self!r} has masses of its own: EM needs distributions")
        by_mean, by_variance, taken = derivatives
        total = taken + pseudocount  # pseudocounts are distributed like the current unit
        used = total > 0
        total = torch.where(used, total, 1)
        shift = self.variance * by_mean / total  # the new mean minus the old one
        spread = self.variance + 2 * self.variance**2 * by_variance / total - shift**2
        return [
            torch.where(used, self.mean + shift, self.mean),
            torch.where(used, spread.clamp(min=self.min_variance), self.variance),
        ]


def _log_normal(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * ((x - mean) ** 2 / variance + variance.log() + log(2 * pi))
