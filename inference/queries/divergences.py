"""Powers of a circuit, and the divergences that they give, exact and in nats (Vergari et al. 2021, Table 2).

    power              x ↦ c(x)^a                                   deterministic
    renyi_divergence   log Σ p^α q^{1−α} / (α − 1)                  both deterministic, compatible
    alpha_divergence   (1 − Σ p^α q^{1−α}) / (α (1 − α))            …
    chi_squared        Σ p² / q − 1                                 …
    hellinger          (1 − Σ √(p q))^½                             …

A deterministic circuit has one path for each x, so that its power is the circuit with every weight raised to it. p and q are
normalised first; chains are taken at length ``n``. All are differentiable in the weights.
"""

from __future__ import annotations

from math import inf, isfinite

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits.circuit import Circuit
from ...circuits.graph_transforms import free_weights
from ...circuits.operations import multiply
from ...errors import CircuitError
from .exact import Model, at_least_single
from .information import check_compared, check_determined, covers
from .marginal import partition


def power(circuit: Circuit, exponent: float) -> Circuit:
    """Return the circuit x ↦ c(x)^exponent; where c(x) is zero it stays zero.

    Raises :class:`CircuitError` unless the circuit is deterministic and its inputs are discrete, and for an exponent that is not
    finite.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[0.25, 0.75]]))])
    >>> tt.log_marginal(tt.inference.power(coin, 2), torch.tensor([[0], [1]])).exp()
    tensor([0.0625, 0.5625], dtype=torch.float64)
    """
    if not isfinite(exponent):
        raise CircuitError(f"power: the exponent must be a finite number, not {exponent}")
    check_determined(circuit, "power", "the circuit")
    return _power(circuit, exponent, "power")


def _power(circuit: Circuit, exponent: float, name: str) -> Circuit:
    def raised(t: Tensor) -> Tensor:
        safe = torch.where(t > 0, t, 1).double()
        return torch.where(t > 0, safe**exponent, 0)

    return at_least_single(circuit).map_layers(lambda layer: free_weights(layer, name)).map(raised)


def renyi_divergence(p: Model, q: Model, alpha: float, *, n: int | None = None) -> Float[Tensor, ""]:
    """Return Rényi's divergence of order α > 0, α ≠ 1, in nats: log Σ p^α q^{1−α} / (α − 1); α = 1 is :func:`.kl_divergence`.

    Infinite if α > 1 and p has weight outside the support of q, or if the supports are disjoint. Raises :class:`CircuitError`
    unless p and q are deterministic and compatible.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> p, q = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1 - x, x]]))]) for x in (0.5, 0.9))
    >>> round(tt.inference.renyi_divergence(p, q, 2).item(), 4)  # log (0.25 / 0.1 + 0.25 / 0.9)
    1.0217
    """
    return _log_overlap(p, q, _order(alpha, "renyi_divergence"), n, "renyi_divergence") / (alpha - 1)


def alpha_divergence(p: Model, q: Model, alpha: float, *, n: int | None = None) -> Float[Tensor, ""]:
    """Return Amari's α-divergence (1 − Σ p^α q^{1−α}) / (α (1 − α)), α > 0, α ≠ 1; α → 1 is :func:`.kl_divergence`.

    Errors and infinite values are those of :func:`renyi_divergence`, but for disjoint supports and α < 1, where it is finite.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> p, q = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1 - x, x]]))]) for x in (0.5, 0.9))
    >>> round(tt.inference.alpha_divergence(p, q, 0.5).item(), 4)  # 4 (1 − √0.05 − √0.45)
    0.4223
    """
    overlap = _log_overlap(p, q, _order(alpha, "alpha_divergence"), n, "alpha_divergence")
    return -overlap.expm1() / (alpha * (1 - alpha))


def chi_squared(p: Model, q: Model, *, n: int | None = None) -> Float[Tensor, ""]:
    """Return Pearson's χ² of p from q, Σ p² / q − 1; infinite if p has weight outside the support of q.

    Raises :class:`CircuitError` unless p and q are deterministic and compatible.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> p, q = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1 - x, x]]))]) for x in (0.5, 0.9))
    >>> round(tt.inference.chi_squared(p, q).item(), 4)  # 0.25 / 0.1 + 0.25 / 0.9 − 1
    1.7778
    """
    return _log_overlap(p, q, 2.0, n, "chi_squared").expm1()


def hellinger(p: Model, q: Model, *, n: int | None = None) -> Float[Tensor, ""]:
    """Return the Hellinger distance (1 − Σ √(p q))^½, between 0 and 1.

    Raises :class:`CircuitError` unless p and q are deterministic and compatible.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> p, q = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1 - x, x]]))]) for x in (0.5, 0.9))
    >>> round(tt.inference.hellinger(p, q).item(), 4)
    0.3249
    """
    return (-_log_overlap(p, q, 0.5, n, "hellinger").expm1()).clamp(min=0).sqrt()


def _order(alpha: float, name: str) -> float:
    if not 0 < alpha < inf or alpha == 1:
        raise CircuitError(f"{name}: α is positive, finite and not 1, not {alpha}; at 1 it is kl_divergence")
    return float(alpha)


def _log_overlap(p: Model, q: Model, alpha: float, n: int | None, name: str) -> Float[Tensor, ""]:
    """Return log Σ p^α q^{1−α} of the normalised p and q."""
    a, b = check_compared(p, q, n, name)
    check_determined(a, name, "p")
    check_determined(b, name, "q")
    if alpha > 1 and not covers(b, a, name):
        return torch.tensor(inf, dtype=torch.float64)
    both = partition(multiply(_power(a, alpha, name), _power(b, 1 - alpha, name)))
    return both - alpha * partition(a) - (1 - alpha) * partition(b)
