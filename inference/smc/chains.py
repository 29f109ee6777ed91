"""The samples of Markov chains, and split R̂, a measure of whether the chains agree.

    R̂² = ((n − 1)/n · W + B/n) / W            over the halves of all chains, n samples each           (Gelman et al. 2013, §11.4)

W is the mean variance within a half, B/n the variance of the halves' means. R̂ falls to 1 as the chains mix.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import EvidenceError
from ...lm.base import LanguageModel
from .particles import Particles
from .user_function import check_function

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Draw:
    """One state of a chain: its tokens (end-of-sequence included), text, and log p_lm(tokens) in nats.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> draw = tt.inference.smc.mcmc(lm, [], second, "gcd", samples=2, max_new_tokens=2, seed=0).draws[0][0]
    >>> draw.token_ids[1], len(draw.token_ids)
    (1, 2)
    """

    token_ids: tuple[int, ...]
    text: str
    log_prob: float


def draw_of(lm: LanguageModel, particles: Particles, row: int) -> Draw:
    """Return the sequence of particle ``row`` as a sample."""
    tokens = particles.token_ids(row)
    return Draw(tokens, lm.decode(tokens), float(particles.log_prob[row]))


@dataclass(frozen=True)
class MarkovChains:
    """Samples of several Markov chains: ``draws[c]`` are the samples kept of chain c, in order.

    ``acceptance_rate`` is the share of accepted moves. ``trace`` has log p_lm(x) + log Ψ(x) of every chain at its start and
    after each move, burn-in included, in nats.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> chains = tt.inference.smc.mcmc(lm, [], second, "gcd", samples=40, max_new_tokens=2, seed=0, chains=2)
    >>> [len(draws) for draws in chains.draws], tuple(chains.trace.shape)
    ([20, 20], (2, 41))
    """

    draws: Sequence[Sequence[Draw]]
    acceptance_rate: float
    trace: Float[Tensor, "chains moves"]

    @property
    def samples(self) -> list[Draw]:
        """The samples of all chains, of equal weight."""
        return [draw for chain in self.draws for draw in chain]

    def r_hat(self, f: Callable[[Draw], float] | None = None) -> float:
        """Return split R̂ of ``f`` (default: log p_lm): near 1 if the chains agree; 1.01 to 1.05 are usual limits.

        Infinite if the chains stay at different values. A mode that no chain has visited does not raise it. Raises
        :class:`EvidenceError` for fewer than four samples of a chain.
        """
        length = min(len(chain) for chain in self.draws)
        if length < 4:
            raise EvidenceError(f"r_hat: four samples or more of each chain are needed, not {length}")
        of = (lambda draw: draw.log_prob) if f is None else check_function(f, "r_hat: f")
        values = [[float(of(draw)) for draw in chain[-length:]] for chain in self.draws]
        return split_r_hat(torch.tensor(values, dtype=torch.float64))

    def expectation(self, f: Callable[[Draw], float]) -> float:
        """Return the mean of f over the samples: the estimate of E[f(x)] under p_lm(x | C) · Ψ(x)."""
        total: float = sum(map(check_function(f, "expectation: f"), self.samples))
        return total / len(self.samples)

    def group_by(self, key: Callable[[Draw], K]) -> dict[K, float]:
        """Return the share of each group of samples with equal ``key``, the largest first."""
        counts: Counter[K] = Counter(map(check_function(key, "group_by: key"), self.samples))
        return {group: count / len(self.samples) for group, count in counts.most_common()}


def split_r_hat(values: Float[Tensor, "chains samples"]) -> float:
    """Return R̂ of the halves of chains; 1 if all values are equal."""
    half = values.shape[1] // 2
    halves = torch.cat([values[:, :half], values[:, -half:]])
    within, between = float(halves.var(1).mean()), float(halves.mean(1).var())
    if not within:
        return math.inf if between else 1.0
    return math.sqrt((half - 1) / half + between / within)
