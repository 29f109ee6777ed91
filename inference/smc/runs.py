"""Several independent runs of one sampler: log Z with its standard error, and how close the sampler is to its target.

    log Z − KL(distribution of a particle drawn by weight from a run ‖ target) ≥ E[log Ẑ]    (Loula et al. 2025, Appendix D.1)

If all particles of a run may die, log Ẑ may be −∞ and the divergence is infinite. For the sampler that restarts until a run
survives,

    log Z − KL ≥ E[log Ẑ | Ẑ > 0] + log p(Ẑ > 0)                                             (Appendix D.2)

Z depends on the target alone, so among samplers of one target a larger right-hand side bounds the divergence lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from ...errors import EvidenceError
from .confidence import Estimate
from .posterior import Particle, Posterior

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Runs:
    """Posteriors of independent runs, at least two, on one prompt: ``Runs(tt.smc(lm, prompts=[prompt] * 20, fa=fa, …))``.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> posts = tt.smc(lm, prompts=[[]] * 5, fa=second, proposal="lm", particles=200, max_new_tokens=2, seed=0)
    >>> runs = tt.inference.smc.Runs(posts)
    >>> shares = runs.group_by(lambda particle: particle.token_ids[0])
    >>> {token: round(shares[token].value, 1) for token in sorted(shares)}  # of the first token: 0.8 and 0.2
    {0: 0.8, 1: 0.2}
    """

    posteriors: Sequence[Posterior]

    def __post_init__(self) -> None:
        if len(self.posteriors) < 2:
            raise EvidenceError(f"Runs: a standard error needs two runs or more, not {len(self.posteriors)}")

    @property
    def _log_z(self) -> torch.Tensor:
        return torch.tensor([post.log_evidence for post in self.posteriors], dtype=torch.float64)

    @property
    def alive(self) -> float:
        """The share of runs in which some particle satisfies the constraint."""
        return float((self._log_z > -math.inf).double().mean())

    @property
    def log_evidence(self) -> float:
        """The logarithm of the mean of Ẑ over the runs, in nats (E[mean] = Z); −∞ if all runs failed."""
        return float(self._log_z.logsumexp(0)) - math.log(len(self.posteriors))

    @property
    def log_evidence_error(self) -> float:
        """The standard error of :attr:`log_evidence` in nats, to first order; infinite if all runs failed."""
        if not self.alive:
            return math.inf
        share = (self._log_z - self.log_evidence).exp()
        return float(share.std()) / math.sqrt(len(share))

    @property
    def quality(self) -> float:
        """An estimate of a lower bound on log Z − KL(sampler ‖ target) in nats, for the sampler that restarts failed runs."""
        log_z = self._log_z[self._log_z > -math.inf]
        return float(log_z.mean()) + math.log(self.alive) if len(log_z) else -math.inf

    @property
    def quality_error(self) -> float:
        """The standard error of :attr:`quality` in nats, to first order; NaN if fewer than two runs survived."""
        log_z, n = self._log_z[self._log_z > -math.inf], len(self.posteriors)
        if len(log_z) < 2:
            return math.nan
        return math.sqrt(float(log_z.var()) / len(log_z) + (1 - self.alive) / (n * self.alive))

    def pooled(self) -> Posterior:
        """Return all particles as one posterior, each run weighted by its Ẑ: expectations are Σ Ẑ·E[f] / Σ Ẑ."""
        return pool(self.posteriors, [1] * len(self.posteriors))

    def group_by(self, key: Callable[[Particle], K], level: float = 0.95) -> dict[K, Estimate]:
        """Return :meth:`.Posterior.group_by` of the pooled particles, with intervals from the differences between runs."""
        return self._by_run().group_by(key, level)

    def expectation(self, f: Callable[[Particle], float], level: float = 0.95) -> Estimate:
        """Return :meth:`.Posterior.expectation` of the pooled particles, with an interval from the differences between runs."""
        return self._by_run().expectation(f, level)

    def _by_run(self) -> Posterior:
        """Return the pooled particles with a lineage in which each run is one group."""
        sizes = torch.tensor([len(post.token_ids) for post in self.posteriors])
        return replace(self.pooled(), lineage=torch.arange(len(sizes)).repeat_interleave(sizes)[:, None])


def pool(posteriors: Sequence[Posterior], sizes: Sequence[int]) -> Posterior:
    """Return all particles as one posterior whose Ẑ is the mean of the posteriors' Ẑ, weighted by ``sizes``."""
    total, count = sum(len(post.token_ids) for post in posteriors), sum(sizes)
    shares = [
        math.log(total * size / count / len(post.token_ids))
        for post, size in zip(posteriors, sizes, strict=True)
    ]
    potentials = [post.log_potentials for post in posteriors if post.log_potentials is not None]
    kept = [post.log_kept for post in posteriors if post.log_kept is not None]
    return Posterior(
        [ids for post in posteriors for ids in post.token_ids],
        [text for post in posteriors for text in post.texts],
        torch.cat([post.log_weights + share for post, share in zip(posteriors, shares, strict=True)]),
        torch.cat([post.log_probs for post in posteriors]),
        log_potentials=torch.cat(potentials) if len(potentials) == len(posteriors) else None,
        cut_off=torch.cat([post.cut_off + share for post, share in zip(posteriors, shares, strict=True)]),
        refused=tuple(text for post in posteriors for text in post.refused),
        narrowed=tuple(dict.fromkeys(cut for post in posteriors for cut in post.narrowed)),
        lineage=joined([post.lineage_or_own for post in posteriors]),
        log_kept=[row for rows in kept for row in rows] if len(kept) == len(posteriors) else None,
    )


def joined(lineages: Sequence[Int[Tensor, "particles resamplings"]]) -> Int[Tensor, "particles resamplings"]:
    """Concatenate the lineages of independent populations, aligned at the last column; no two share an ancestor."""
    width, first, found = max(table.shape[1] for table in lineages), 0, []
    for table in lineages:
        wide = torch.cat([table[:, :1].expand(-1, width - table.shape[1]), table], 1)
        found.append(wide + first)
        first += int(wide.max()) + 1 if wide.numel() else 0
    return torch.cat(found)
