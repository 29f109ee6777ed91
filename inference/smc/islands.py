"""Islands: independent populations of one target, each with its own proposal, potential and share of the particles.

    Ẑ = Σ_i n_i Ẑ_i / Σ_i n_i,        so E[Ẑ] = Z, and Ẑ ≥ n_i Ẑ_i / Σ_j n_j for every island i

(Vergé et al. 2015, "On parallel implementation of sequential Monte Carlo methods", without exchange between islands.)
Particles are resampled within their island alone. With an island of GCD that has a share s of the particles, log Ẑ is at least
the island's own log Ẑ + log s, however bad the other islands' proposals are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from ...errors import EvidenceError
from ..arguments import short, whole
from .posterior import Posterior
from .potentials import Potential
from .proposals import Proposal
from .settings import a_proposal
from .strength import Strength


@dataclass(frozen=True)
class Island:
    """One population of :func:`.smc`, with its own proposal and its own share of the particles.

    ``proposal`` is a name or a :class:`Proposal`. ``potential`` steers the island's particles instead of the proposal's default
    one; it must be 1 at the end (a twist: :class:`PrefixPotential`, :class:`LookaheadPotential`), as the target of all islands
    is the same. ``particles`` is their number; by default the islands without one share equally what the others leave.

    >>> import tractile as tt
    >>> tt.inference.smc.Island("gcd", particles=4)
    Island(proposal='gcd', potential=None, particles=4)
    """

    proposal: str | Proposal = "pgcd"
    potential: Potential | None = None
    particles: int | None = None


class Population(NamedTuple):
    """An island with all defaults but the potential filled in; ``potential`` None: the proposal's default.

    ``strength`` is the strength of the lookahead that a pilot found, if one was needed.
    """

    proposal: Proposal
    potential: Potential | None
    particles: int
    strength: Strength | None = None

    @property
    def strength_used(self) -> float | None:
        """The power of p_hmm(C | x_≤t) in the proposal, None if it uses no HMM."""
        return self.proposal.strength_used if self.strength is None else self.strength.value


def populations(
    islands: Sequence[Island | str | Proposal] | None, proposal: Proposal, particles: int
) -> list[Population]:
    """Return the population of each island; if ``islands`` is None, one population of all particles.

    Raises :class:`EvidenceError` for an entry that is no island, and if an island would have no particle.
    """
    if islands is None:
        return [Population(proposal, None, particles)]
    if isinstance(islands, str) or not isinstance(islands, Sequence) or not islands:
        raise EvidenceError(
            f'smc: islands must be a list such as ["gcd", tt.inference.smc.Island("pgcd", particles=12)], not {short(islands)}'
        )
    given = [one if isinstance(one, Island) else Island(one) for one in islands]
    sizes = [None if i.particles is None else whole(i.particles, "Island: particles") for i in given]
    open_, left = sizes.count(None), particles - sum(n for n in sizes if n is not None)
    if open_ > left and open_:
        raise EvidenceError(
            f"smc: {open_} of the islands have no number of particles, and of particles={particles} only {max(left, 0)} "
            "are left for them"
        )
    # The remainder of the division goes to the first islands, one particle each.
    shares = iter([left // open_ + (i < left % open_) for i in range(open_)])
    found = []
    for i, (island, size) in enumerate(zip(given, sizes, strict=True)):
        if island.potential is not None and not isinstance(island.potential, Potential):
            raise EvidenceError(
                f"smc: the potential of islands[{i}] is a {type(island.potential).__name__}; give a tt.inference.smc.Potential"
            )
        made = a_proposal(island.proposal, name=f"smc: islands[{i}]")
        found.append(Population(made, island.potential, next(shares) if size is None else size))
    return found


def stream(seed: int, island: int) -> int:
    """Return the seed of an island's random numbers; the first island has the run's own seed."""
    if not island:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}|island {island}".encode()).digest()[:7])


def pool(posteriors: Sequence[Posterior], sizes: Sequence[int]) -> Posterior:
    """Return all particles as one posterior whose Ẑ is the mean of the posteriors' Ẑ, weighted by ``sizes``."""
    total, count = sum(len(post.token_ids) for post in posteriors), sum(sizes)
    shares = [
        math.log(total * size / count / len(post.token_ids))
        for post, size in zip(posteriors, sizes, strict=True)
    ]
    potentials = [post.log_potentials for post in posteriors if post.log_potentials is not None]
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
    )


def joined(lineages: Sequence[Int[Tensor, "particles resamplings"]]) -> Int[Tensor, "particles resamplings"]:
    """Concatenate the lineages of independent populations, aligned at the last column; no two share an ancestor."""
    width, first, found = max(table.shape[1] for table in lineages), 0, []
    for table in lineages:
        wide = torch.cat([table[:, :1].expand(-1, width - table.shape[1]), table], 1)
        found.append(wide + first)
        first += int(wide.max()) + 1 if wide.numel() else 0
    return torch.cat(found)


def pool_islands(posteriors: Sequence[Posterior], sizes: Sequence[int]) -> Posterior:
    """Return :func:`pool` with each island's posterior kept in ``islands``; a single posterior is returned as it is."""
    return (
        posteriors[0] if len(posteriors) == 1 else replace(pool(posteriors, sizes), islands=tuple(posteriors))
    )
