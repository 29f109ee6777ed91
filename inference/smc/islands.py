"""Islands: independent populations of one target, each with its own proposal, potential and share of the particles.

    Ẑ = Σ_i n_i Ẑ_i / Σ_i n_i,        so E[Ẑ] = Z, and Ẑ ≥ n_i Ẑ_i / Σ_j n_j for every island i

(Vergé et al. 2015, "On parallel implementation of sequential Monte Carlo methods", without exchange between islands.)
Particles are resampled within their island alone. So with an island of GCD the estimate is never below GCD's own, on its share of
the particles, by more than the logarithm of this share: whatever the other islands believe.
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
    """A population of :func:`.smc`.

    ``proposal`` is a name or a :class:`Proposal`. ``potential`` steers the island's particles instead of the proposal's default
    one; it must be 1 at the end (a twist: :class:`PrefixPotential`, :class:`LookaheadPotential`), as the target of all islands
    is the same. ``particles``: how many (default: an equal share of those that the islands with a number leave).

    >>> import tractile as tt
    >>> tt.inference.smc.Island("gcd", particles=4)
    Island(proposal='gcd', potential=None, particles=4)
    """

    proposal: str | Proposal = "pgcd"
    potential: Potential | None = None
    particles: int | None = None


class Population(NamedTuple):
    """Particles that are resampled among themselves; ``potential`` None: the proposal's. ``strength`` is what a pilot found."""

    proposal: Proposal
    potential: Potential | None
    particles: int
    strength: Strength | None = None

    @property
    def strength_used(self) -> float | None:
        """The power of p_hmm(C | x_≤t) in its proposal."""
        return self.proposal.strength_used if self.strength is None else self.strength.value


def populations(
    islands: Sequence[Island | str | Proposal] | None, proposal: str | Proposal, particles: int
) -> list[Population]:
    """The populations; one of all the particles where ``islands`` is None.

    Raises :class:`EvidenceError` for what is no island, and where no particle is left for one.
    """
    if islands is None:
        return [Population(a_proposal(proposal), None, particles)]
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
    # The first islands get what equal shares leave.
    shares = iter([left // open_ + (i < left % open_) for i in range(open_)])
    found = []
    for i, (island, size) in enumerate(zip(given, sizes, strict=True)):
        if island.potential is not None and not isinstance(island.potential, Potential):
            raise EvidenceError(
                f"smc: the potential of islands[{i}] is a {type(island.potential).__name__}; give a tt.inference.smc.Potential"
            )
        made = a_proposal(island.proposal, f"smc: islands[{i}]")
        found.append(Population(made, island.potential, next(shares) if size is None else size))
    return found


def stream(seed: int, island: int) -> int:
    """The seed of an island's random numbers; the first has that of the run."""
    if not island:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}|island {island}".encode()).digest()[:7])


def pool(posteriors: Sequence[Posterior], sizes: Sequence[int]) -> Posterior:
    """All particles as one posterior whose Ẑ is the mean of theirs, weighted by ``sizes``."""
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
        narrowed=tuple(dict.fromkeys(cut for post in posteriors for cut in post.narrowed)),
        lineage=joined([post.lineage_or_own for post in posteriors]),
    )


def joined(lineages: Sequence[Int[Tensor, "particles resamplings"]]) -> Int[Tensor, "particles resamplings"]:
    """The lineages of independent populations as one: numbers differ between them, the last columns are aligned."""
    width, first, found = max(table.shape[1] for table in lineages), 0, []
    for table in lineages:
        wide = torch.cat([table[:, :1].expand(-1, width - table.shape[1]), table], 1)
        found.append(wide + first)
        first += int(wide.max()) + 1 if wide.numel() else 0
    return torch.cat(found)


def pool_islands(posteriors: Sequence[Posterior], sizes: Sequence[int]) -> Posterior:
    """:func:`pool`, which keeps the posterior of each island; the posterior itself if there is one only."""
    return (
        posteriors[0] if len(posteriors) == 1 else replace(pool(posteriors, sizes), islands=tuple(posteriors))
    )
