"""Islands: independent populations of one target, each with a proposal and a number of particles of its own.

    Ẑ = Σ_i n_i Ẑ_i / Σ_i n_i,        so E[Ẑ] = Z, and Ẑ ≥ n_i Ẑ_i / Σ_j n_j for every island i

(Vergé et al. 2015, "On parallel implementation of sequential Monte Carlo methods", without exchange between islands.) With an
island of GCD that has a share s of the particles, log Ẑ is at least the island's own log Ẑ + log s, however bad the other
islands' proposals are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tractile.inference.smc import Posterior, Proposal, smc
from tractile.inference.smc.runs import pool


@dataclass(frozen=True)
class Island:
    """A population: its proposal, its number of particles, and further settings of :func:`tractile.smc` for it alone.

    >>> Island("gcd", 4).particles
    4
    """

    proposal: str | Proposal
    particles: int
    settings: dict[str, Any] | None = None


def run_islands(
    islands: Sequence[Island], seed: int = 0, **settings: Any
) -> tuple[Posterior, list[Posterior]]:
    """Run :func:`tractile.smc` for each island; return all particles as one posterior, and the posterior of each island.

    ``settings`` are arguments of :func:`tractile.smc` for one prompt, which all islands share. The first island has the seed
    itself, so it is the run that it would be alone.

    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> whole, parts = run_islands([Island("gcd", 4), Island("lm", 12)], lm=lm, prompt=[], fa=second, max_new_tokens=2)
    >>> len(whole.particles), round(parts[0].log_evidence, 4)  # log 0.2
    (16, -1.6094)
    """
    posteriors = []
    for i, island in enumerate(islands):
        given = settings | (island.settings or {})
        one: Posterior = smc(
            proposal=island.proposal, particles=island.particles, seed=stream(seed, i), **given
        )
        posteriors.append(one)
    return pool(posteriors, [island.particles for island in islands]), posteriors


def stream(seed: int, island: int) -> int:
    """Return the seed of an island's random numbers; the first island has the run's own seed."""
    if not island:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}|island {island}".encode()).digest()[:7])
