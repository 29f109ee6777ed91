"""The posterior beyond its particles: complete texts with their exact masses, and draws from all others.

With S the texts that a :class:`.PrefixTree` has found, the mass of texts with a property A is

    p_lm(A ∩ C) = Σ_{x ∈ S ∩ A} p_lm(x) Ψ(x)  +  E[ W · 1{X ∈ A} ],       X drawn among the texts that are not in S,

the second term by the posterior's particles whose texts are not in S, together with others that begin at the prefixes that were
not read: ``DRAWS`` for each particle, at least as many as the tree reads in a pass. A lookahead guides both. S does not depend
on them, so the sum is unbiased, and the first term has no variance (Rao–Blackwell). Where S has nearly all of the mass and
Ψ ≤ 1, the unread mass bounds the second term and nothing is drawn. Where the sampler's estimate of p_lm(C) is less than half of
what S alone has, its weights vary too much for a standard error, and only the bounds are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch.nn.utils.rnn import pad_sequence

from .field import TOLERANCE, Listed
from .loop import run_together
from .particles import Particles
from .posterior import Posterior
from .prefix_tree import PrefixTree, log_sum
from .proposals import Local, LookaheadProposal, MixtureProposal
from .request import Request
from .run import Run
from .runs import pool
from .step import Extension, Step
from .user_potential import FunctionPotential

PASSES = 256
"""The most passes of the language model of :attr:`Source.listed`, beside those of its draws."""
DRAWS = 16
"""The texts that :attr:`Source.listed` draws for each particle of the posterior, where it draws any."""
SEED = 0xF1E1D


@dataclass
class Source:
    """The request of a posterior, from which more is drawn, once, when a field is asked for.

    ``passes``: the most calls of the language model for the tree, beside one sweep and the draws.
    ``at_most_one``: whether the potential is known to be at most 1, so that unread mass bounds what it leaves.
    """

    request: Request
    posterior: Posterior
    passes: int = PASSES
    at_most_one: bool = False

    @cached_property
    def listed(self) -> Listed | None:
        """The complete texts and the draws; None if the target is not p_lm · 1[C] · Ψ with a Ψ of complete texts."""
        request = self.request
        if not isinstance(request.proposal, Local | LookaheadProposal | MixtureProposal):
            return None
        if not isinstance(request.potential, FunctionPotential | None):
            return None
        if not getattr(request.lm, "is_normalised", True):
            return None
        tree = PrefixTree(request, seed=request.seed ^ SEED)
        tree.sweep()
        while tree.unfinished and tree.passes + request.max_new_tokens <= self.passes:
            passes, unread = tree.passes, tree.log_unread
            if unread <= tree.log_found + math.log(TOLERANCE):
                break
            tree.sweep()
            left = tree.log_unread - tree.log_found - math.log(TOLERANCE)
            if left * (tree.passes - passes) > (unread - tree.log_unread) * (self.passes - tree.passes):
                break  # at this rate the passes do not suffice
        texts = [request.lm.decode(tokens) for tokens in tree.complete]
        masses = torch.tensor(list(tree.complete.values()), dtype=torch.float64) + self._log_psi(tree)
        known = torch.tensor([tokens in tree.complete for tokens in self.posterior.token_ids])
        own = replace(self.posterior, log_weights=self.posterior.log_weights.masked_fill(known, -torch.inf))
        found = log_sum(masses)
        bounded = request.potential is None or self.at_most_one
        if tree.log_unread > (found + math.log(TOLERANCE) if bounded else -math.inf) and (
            not bounded or self.posterior.log_evidence > found - math.log(2)
        ):
            drawn = self._drawn(tree)
            sizes = [request.particles, *(len(one.texts) for one in drawn)]
            return Listed(texts, masses, tree.log_unread, pool([own, *drawn], sizes))
        # The particles' own texts have known masses too; they are part of what the tree has not read.
        log_psi = torch.zeros_like(own.log_probs) if own.log_potentials is None else own.log_potentials
        more = {
            p.token_ids: (p.text, p.log_prob + psi)
            for p, psi in zip(own.particles, log_psi.tolist(), strict=True)
            if p.log_weight > -math.inf
        }
        masses = torch.cat([masses, torch.tensor([mass for _, mass in more.values()], dtype=torch.float64)])
        return Listed([*texts, *(text for text, _ in more.values())], masses, tree.log_unread, None)

    def _log_psi(self, tree: PrefixTree) -> torch.Tensor:
        """Return the request's potential of each complete text, in nats."""
        count, potential = len(tree.complete), self.request.potential
        if potential is None or not count:
            return torch.zeros(count, dtype=torch.float64)
        prefixes = [torch.tensor(tokens[:-1], dtype=torch.long) for tokens in tree.complete]
        step = Step(torch.zeros(count, 1), tree.request.query, prefixes, decode=self.request.lm.decode)
        yes = torch.ones(count, dtype=torch.bool)
        last = torch.tensor([tokens[-1] for tokens in tree.complete])
        return potential.log_value(Extension(step, last, ended=yes, alive=yes))

    def _drawn(self, tree: PrefixTree) -> list[Posterior]:
        """Return particles that go on from the prefixes that were not read; their mean weight estimates the mass of C there.

        There is a posterior for each batch of the language model, which is no larger than the tree's or the request's own.
        """
        request, particles = tree.request, self.request.particles
        prefixes, log_weights = tree.draw(max(DRAWS * particles, tree.width))
        factors = [one for one in (request.proposal.potential, self.request.potential) if one is not None]
        generator = torch.Generator().manual_seed(request.seed ^ SEED)
        size, width, found = max(particles, tree.width), max(map(len, prefixes)), list[Posterior]()
        tokens = pad_sequence([torch.tensor(prefix) for prefix in prefixes], batch_first=True)
        lengths = torch.tensor([len(prefix) for prefix in prefixes])
        parts = (x.split(size) for x in (tokens, lengths, log_weights))
        for rows, length, weights in zip(*parts, strict=True):
            known = Particles.start(len(rows), width)
            known.widen(width)
            known.tokens[:, :width], known.length, known.token_log_weights[:, 0] = rows, length, weights
            run = Run(request, factors, len(rows), generator, (known, known.length), width)
            run_together([run])
            found.append(run.posterior())
        return found


def with_sources(
    posteriors: Sequence[Posterior], requests: Sequence[Request], at_most_one: bool = False
) -> list[Posterior]:
    """Return the posteriors of requests, each of which can ask the language model again (:meth:`.Posterior.field`).

    ``at_most_one``: whether the requests' potentials are known to be at most 1.
    """
    pairs = zip(posteriors, requests, strict=True)
    return [replace(one, source=Source(request, one, at_most_one=at_most_one)) for one, request in pairs]
