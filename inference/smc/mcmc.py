"""Markov chains on complete sequences whose stationary distribution is p_lm(x | C) · Ψ(x) (Gonzalez et al. 2025).

One move: cut x of L tokens at a place i drawn with c(i | L), draw another suffix from the proposal, and keep the result y with

    probability  min(1,  c(i | L_y) Ψ(y) Π_{t≥i} W_t(y)  /  c(i | L_x) Ψ(x) Π_{t≥i} W_t(x))           (Metropolis–Hastings)

where W_t is the weight with which a token was drawn. For a tabular proposal that is p_lm / q. Where the weight is random
itself (AWRS, top-k, characters) the state of the chain is the sequence *with its weights*: they are properly weighted, so
the sequences are distributed as they should (a pseudo-marginal chain: Andrieu & Roberts 2009). A weight is never drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...circuits.hmm import HMM
from ...errors import EvidenceError, NoParticleSurvived
from ...lm.base import LanguageModel, Prompt
from ..arguments import whole
from .arguments import ConstraintLike, PotentialLike, check_proposal, check_seed, read
from .potentials import PrefixPotential, check_values
from .prompted import prompted
from .proposals import Proposal, draw_tokens
from .resampling import systematic
from .sampler import PROPOSALS, Sampler, lookup, unconstrained
from .step import Extension, Step

K = TypeVar("K", bound=Hashable)
Cut = Callable[[int], Sequence[float]]


@dataclass
class Paths:
    """Sequences with the weight of every token as it was drawn, and log Ψ of the whole; −inf where a sequence died."""

    tokens: Int[Tensor, "paths tokens"]
    length: Int[Tensor, " paths"]
    log_weight: Float[Tensor, "paths tokens"]
    log_prob: Float[Tensor, "paths tokens"]
    log_psi: Float[Tensor, " paths"]

    @classmethod
    def empty(cls, count: int, width: int) -> Paths:
        """``count`` empty sequences with room for ``width`` tokens."""
        zeros = torch.zeros(count, width, dtype=torch.float64)
        return cls(zeros.long(), zeros[:, 0].long(), zeros, zeros.clone(), zeros[:, 0].clone())

    def take(self, index: Int[Tensor, " some"]) -> Paths:
        """Copies of some of them."""
        return Paths(*(getattr(self, field.name)[index] for field in fields(self)))

    def where(self, chosen: Bool[Tensor, " paths"], other: Paths) -> Paths:
        """The other's path where ``chosen``."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Paths(*(torch.where(chosen if a.ndim == 1 else chosen[:, None], b, a) for a, b in pairs))

    def log_value(self, start: Int[Tensor, " paths"]) -> Float[Tensor, " paths"]:
        """log of Ψ times the weights of the tokens from ``start`` on."""
        suffix = torch.arange(self.tokens.shape[1]) >= start[:, None]
        return self.log_psi + self.log_weight.masked_fill(~suffix, 0.0).sum(1)


class Walk:
    """Paths that grow together from the prompt, one state of language model, query and potential for each different prefix."""

    def __init__(self, settings: Sampler, prompt: Prompt, paths: Paths) -> None:
        self.settings, self.paths, self.taken = settings, paths, 0
        self.growing = torch.ones(len(paths.length), dtype=torch.bool)
        self._state, self._states = torch.zeros(len(paths.length), dtype=torch.long), 1
        self._query = copy(settings.query).start(1, settings.max_new_tokens)
        settings.lm.start([prompt])
        settings.potential.start(settings.lm, [prompt], [settings.max_new_tokens])

    def step(self, generator: Generator, known: Paths, keep: Int[Tensor, " paths"]) -> bool:
        """A token more for all that grow, where ``keep`` says so that of ``known``; whether any grows on."""
        sampler, out, t = self.settings, self.paths, self.taken
        if t:
            self._follow()
        rows, last = self.growing.nonzero()[:, 0], t + 1 == sampler.max_new_tokens
        step = Step(
            sampler.lm.log_probs(),
            self._query,
            out.tokens[rows, :t],
            self._state[rows],
            decode=sampler.lm.decode,
            eos_token_id=sampler.eos,
            last=last,
        )
        tokens, log_weight = known.tokens[rows, t].clone(), known.log_weight[rows, t].clone()
        free = (keep[rows] <= t).nonzero()[:, 0]
        if len(free):
            tokens[free], log_weight[free] = sampler.proposal.draw_checked(step.take(free), generator)
        out.tokens[rows, t], out.length[rows] = tokens, t + 1
        ended = step.ends(tokens)
        if last and self._query.horizon is None:  # a proposal that does not know the budget
            log_weight[~sampler.accepts(out.tokens[rows])] = -torch.inf
        alive = ~log_weight.isneginf()
        extended = Extension(step, tokens, ended, alive)
        log_psi = sampler.potential.log_value(extended)
        check_values(sampler.potential, extended, log_psi)
        out.log_weight[rows, t], out.log_psi[rows] = log_weight, log_psi.masked_fill(~alive, -torch.inf)
        table = step.log_probs
        out.log_prob[rows, t] = table.gather(1, tokens[:, None].to(table.device))[:, 0].cpu().double()
        self.growing[rows] = ~ended & ~out.log_psi[rows].isneginf()
        self.taken = t + 1
        return bool(self.growing.any()) and not last

    def _follow(self) -> None:
        """ConstraintLike model, query and potential take the tokens drawn last."""
        lm, potential, growing = self.settings.lm, self.settings.potential, self.growing
        pair = self._state[growing] * lm.vocab_size + self.paths.tokens[growing, self.taken - 1]
        distinct, self._state[growing] = pair.unique(return_inverse=True)
        source, tokens = distinct // lm.vocab_size, distinct % lm.vocab_size
        potential.advance(source, tokens)
        if not torch.equal(source, torch.arange(self._states)):
            lm.select(source)
            self._query.select(source)
        lm.advance(tokens)
        self._query.advance(tokens)
        self._states = len(source)


@dataclass(frozen=True)
class Kernel:
    """The move, with the sampler's settings; ``cut`` gives the weights of the places 0 … L − 1 at which to cut L tokens."""

    settings: Sampler
    prompt: Prompt
    cut: Cut | None = None

    def start(self, count: int, generator: Generator, tries: int = 100) -> Paths:
        """A sequence of positive weight for each of ``count`` chains, each chosen by weight from as many draws as chains.

        Raises :class:`NoParticleSurvived` if ``tries`` times no draw satisfies the constraint.
        """
        width = self.settings.max_new_tokens
        nothing = torch.zeros(max(count, 16), dtype=torch.long)
        for _ in range(tries):
            drawn = self.extend(Paths.empty(len(nothing), width), nothing, width, generator)
            weight = drawn.log_value(nothing)
            if bool((weight > -torch.inf).any()):
                index, _ = draw_tokens(weight.softmax(0).expand(count, -1), generator)
                return drawn.take(index)
        raise NoParticleSurvived(
            f"mcmc: none of {tries * len(nothing)} draws satisfies the constraint, so no chain can begin; use another "
            'proposal, such as "gcd" or "pgcd", or a larger max_new_tokens'
        )

    def move(
        self, paths: Paths, generator: Generator, limit: int | None = None
    ) -> tuple[Paths, Bool[Tensor, " paths"]]:
        """Every path after one move, and whether it was accepted; sequences end after ``limit`` tokens (default: the budget)."""
        limit = self.settings.max_new_tokens if limit is None else limit
        place, _ = draw_tokens(self._cuts(paths.length, limit).exp(), generator)
        proposed = self.extend(paths, place, limit, generator)
        chance = torch.rand(len(place), dtype=torch.float64, generator=generator).log()
        accepted = chance < self.log_acceptance(paths, proposed, place, limit)
        return paths.where(accepted, proposed), accepted

    def log_acceptance(
        self, paths: Paths, proposed: Paths, place: Int[Tensor, " paths"], limit: int
    ) -> Float[Tensor, " paths"]:
        """log of the probability of keeping what was proposed, up to positive values; −inf for what died."""
        dead = proposed.log_value(place).isneginf()
        before, after = (
            path.log_value(place) + self._cuts(path.length, limit).gather(1, place[:, None])[:, 0]
            for path in (paths, proposed)
        )
        return (after - before).masked_fill(dead, -torch.inf)

    def _cuts(self, length: Int[Tensor, " paths"], limit: int) -> Float[Tensor, "paths places"]:
        """log c(i | L)."""
        rows = torch.full((limit + 1, limit), -torch.inf, dtype=torch.float64)
        for n in length.unique().tolist():
            weights = torch.as_tensor([1.0] * n if self.cut is None else self.cut(n), dtype=torch.float64)
            if weights.shape != (n,) or not bool((weights > 0).all()) or not bool(weights.isfinite().all()):
                raise EvidenceError(f"mcmc: cut({n}) must give {n} positive numbers, one for each place")
            rows[n, :n] = (weights / weights.sum()).log()
        return rows[length]

    def extend(self, paths: Paths, keep: Int[Tensor, " paths"], limit: int, generator: Generator) -> Paths:
        """The first ``keep`` tokens of each path, and what the proposal makes of them up to ``limit`` tokens."""
        return self.walk(paths, keep, limit, generator).paths

    def walk(self, paths: Paths, keep: Int[Tensor, " paths"], limit: int, generator: Generator) -> Walk:
        """:meth:`extend`, with language model, query and potential where it stopped."""
        walk = Walk(self.settings, self.prompt, Paths.empty(len(keep), paths.tokens.shape[1]))
        for _ in range(limit):
            if not walk.step(generator, paths, keep):
                break
        return walk


@dataclass(frozen=True)
class Draw:
    """One state of a chain: its tokens (end-of-sequence included), text, and log p_lm(tokens) in nats."""

    token_ids: tuple[int, ...]
    text: str
    log_prob: float


@dataclass(frozen=True)
class Chains:
    """Samples of several chains: ``draws[c]`` are those kept of chain c, one after another.

    ``trace`` has log p_lm(x) + log Ψ(x) of every chain's start and after each move, burn-in included, in nats.
    """

    draws: Sequence[Sequence[Draw]]
    acceptance_rate: float
    trace: Float[Tensor, "chains moves"]

    @property
    def samples(self) -> list[Draw]:
        """The samples of all chains, of equal weight."""
        return [draw for chain in self.draws for draw in chain]

    def expectation(self, f: Callable[[Draw], float]) -> float:
        """The mean of f over the samples: the estimate of E[f(x)] under p_lm(x | C) · Ψ(x)."""
        return sum(f(draw) for draw in self.samples) / len(self.samples)

    def group_by(self, key: Callable[[Draw], K]) -> dict[K, float]:
        """The share of each group of samples with equal ``key``, the largest first."""
        counts: dict[K, float] = {}
        for draw in self.samples:
            group = key(draw)
            counts[group] = counts.get(group, 0.0) + 1 / len(self.samples)
        return dict(sorted(counts.items(), key=lambda item: -item[1]))


def mcmc(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | str | Path | None = None,
    samples: int = 100,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    chains: int = 4,
    burn_in: int = 20,
    thin: int = 1,
    potential: PotentialLike | None = None,
    tokenizer: Any = None,
    cut: Cut | None = None,
) -> Chains:
    """``samples`` samples from p_lm(x | prompt, x satisfies ``fa`` within ``max_new_tokens`` tokens) · ``potential``.

    They come from ``chains`` chains side by side (one batch of the language model), every ``thin``-th state after
    ``burn_in`` moves. A move cuts a sequence at a place of weight ``cut(length)[place]`` (default: each the same) and draws
    the rest from ``proposal``. Only the potential's final value counts. Samples of a chain depend on each other, and on its
    start until it has forgotten it: look at ``trace`` and ``acceptance_rate``.

    Errors are those of :func:`.smc`; :class:`NoParticleSurvived` if no chain can begin.
    """
    lm, [prompt], automaton, guide, worth = read("mcmc", lm, tokenizer, prompt, None, fa, hmm, potential)
    samples, chains, thin = (
        whole(n, f"mcmc: {name}") for n, name in ((samples, "samples"), (chains, "chains"), (thin, "thin"))
    )
    burn_in, seed = whole(burn_in, "mcmc: burn_in", 0), check_seed(seed, "mcmc: seed")
    check_proposal(proposal, "mcmc: proposal")
    proposal = lookup(proposal, PROPOSALS, "proposal")() if isinstance(proposal, str) else proposal
    guide = None if guide is None else prompted(guide, lm, prompt)
    worth = PrefixPotential() if worth is None else worth
    automaton = automaton or unconstrained(lm)
    settings = Sampler(lm, automaton, guide, proposal, worth, systematic, 0.0, max_new_tokens)
    copy(settings.budget_query).start(1, max_new_tokens)  # raises BudgetTooSmall
    generator, kernel = torch.Generator().manual_seed(seed), Kernel(settings, prompt, cut)
    paths = kernel.start(chains, generator)
    trace, kept, accepted = [_log_target(paths)], list[Paths](), 0
    moves = burn_in + thin * -(-samples // chains)
    for n in range(1, moves + 1):
        paths, moved = kernel.move(paths, generator)
        accepted += int(moved.sum())
        trace.append(_log_target(paths))
        if n > burn_in and (n - burn_in) % thin == 0:
            kept.append(paths)
    found = [[_draw(lm, paths, chain) for paths in kept] for chain in range(chains)]
    surplus = chains * len(kept) - samples
    for chain in found[chains - surplus :]:
        chain.pop()
    return Chains(found, accepted / (moves * chains), torch.stack(trace, 1))


def _log_target(paths: Paths) -> Float[Tensor, " paths"]:
    return paths.log_prob.sum(1) + paths.log_psi


def _draw(lm: LanguageModel, paths: Paths, row: int) -> Draw:
    tokens = tuple(paths.tokens[row, : int(paths.length[row])].tolist())
    return Draw(tokens, lm.decode(tokens), float(paths.log_prob[row].sum()))
