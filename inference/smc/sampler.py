"""Sequential Monte Carlo for p_lm(x) · 1[x ∈ C] · Ψ(x): one loop of extend, reweight, resample (Loula et al. 2025, §2).

Each of K particles draws a token from a proposal; its weight is multiplied by the proposal's weight and by the ratio of
potentials; when the effective sample size falls below a threshold, K ancestors are drawn and all weights become equal.
The estimate of Z = Σ_x p_lm(x) 1[x ∈ C] Ψ(x) is the product of the mean weights at each resampling and at the end:
E[Ẑ] = Z. Every other method here is this loop with other settings: see :mod:`.presets`.

Language model, query and potentials hold one state for each different unfinished prefix: finished and dead particles
leave the batch, copies made by resampling share a state until their next tokens differ, and all share the prompt's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import EvidenceError, PotentialError, VocabularyMismatch
from ..masks import MaskQuery, gcd, lcd
from ..query import support
from .lm import LanguageModel, Prompt
from .particles import Particles
from .posterior import Posterior
from .potentials import LookaheadPotential, Potential, PrefixPotential
from .proposals import (
    GCDProposal,
    LCDProposal,
    LMProposal,
    LookaheadProposal,
    MixtureProposal,
    Proposal,
)
from .queries import guided
from .resampling import SCHEMES, Resampling, effective_sample_size
from .step import Extended, Knowledge, Step

T = TypeVar("T")

PROPOSALS: dict[str, type[Proposal]] = {
    "lm": LMProposal,
    "lcd": LCDProposal,
    "gcd": GCDProposal,
    "pgcd": LookaheadProposal,
    "pgcd-mixture": MixtureProposal,
}


def smc(
    lm: LanguageModel,
    prompt: Prompt,
    fa: Automaton | None,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    potential: Potential | None = None,
    resampling: str | Resampling = "systematic",
    ess_threshold: float = 0.5,
    beam_factor: int = 1,
) -> Posterior:
    """Weighted samples from p_lm(x | prompt, x satisfies ``fa`` within ``max_new_tokens`` tokens), times ``potential``.

    ``proposal`` is one of "lm", "lcd", "gcd", "pgcd" (lookahead), "pgcd-mixture", or a :class:`Proposal`. Those that
    use the HMM come with φ_pgcd as a potential beside any that you give, unless yours steers by itself (a twist, or
    :class:`PrefixPotential`); the rest with the prefix potential. Particles are resampled when the effective sample
    size is below ``ess_threshold`` · ``particles``: 0 never, above 1 always. With a ``beam_factor`` above 1 each
    particle is first split into so many, and the scheme brings their number down again after every token.

    An automaton without an end-of-sequence token is asked about exactly ``max_new_tokens`` tokens; None for no
    constraint at all: then a text may also stop where the budget does.

    Same seed, same result. Raises :class:`BudgetTooSmall` before the language model is called if nothing fits the
    budget, :class:`VocabularyMismatch`, :class:`PotentialError` if a potential fails, and :class:`EvidenceError` if an
    HMM is missing or rules out possible tokens.
    """
    proposal = _named(proposal, PROPOSALS, "proposal")() if isinstance(proposal, str) else proposal
    scheme = _named(resampling, SCHEMES, "resampling") if isinstance(resampling, str) else resampling
    if potential is None:
        potential = LookaheadPotential() if proposal.needs is Knowledge.HMM else PrefixPotential()
    elif proposal.needs is Knowledge.HMM and not potential.steers:
        potential = LookaheadPotential() * potential
    if particles < 1:
        raise EvidenceError(f"smc: the number of particles must be positive, it is {particles}")
    fa = unconstrained(lm) if fa is None else fa
    sampler = Sampler(lm, fa, hmm, proposal, potential, scheme, ess_threshold, max_new_tokens, beam_factor)
    return sampler.run(prompt, particles, torch.Generator().manual_seed(seed))


def importance_sampling(
    lm: LanguageModel,
    prompt: Prompt,
    fa: Automaton | None,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    potential: Potential | None = None,
) -> Posterior:
    """Independent weighted samples: :func:`smc` that never resamples, so only a potential's final value matters."""
    return smc(
        lm,
        prompt,
        fa,
        proposal,
        hmm,
        particles,
        max_new_tokens,
        seed,
        potential=PrefixPotential() if potential is None else PrefixPotential() * potential,
        ess_threshold=0.0,
    )


def unconstrained(lm: LanguageModel) -> Automaton:
    """The automaton that accepts every sequence of the language model's tokens."""
    tokens = list(range(lm.vocab_size))
    return Automaton.from_edges([(0, tokens, 0)], 0, [0], lm.vocab_size, eos_token_id=lm.eos_token_id)


@dataclass
class Sampler:
    """The loop with its settings filled in; :meth:`run` may be called again."""

    lm: LanguageModel
    fa: Automaton
    hmm: HMM | None
    proposal: Proposal
    potential: Potential
    resampling: Resampling
    ess_threshold: float
    max_new_tokens: int
    beam_factor: int = 1

    def __post_init__(self) -> None:
        lm, fa = self.lm, self.fa
        if lm.vocab_size != fa.vocab_size:
            raise VocabularyMismatch(
                f"the language model has {lm.vocab_size} tokens and the automaton {fa.vocab_size}; "
                "compile the constraint with the vocabulary of the model's tokenizer"
            )
        if None not in (lm.eos_token_id, fa.eos_token_id) and lm.eos_token_id != fa.eos_token_id:
            raise VocabularyMismatch(
                f"the language model ends a sequence with token {lm.eos_token_id}, the automaton with {fa.eos_token_id}"
            )
        if self.max_new_tokens < 1:
            raise EvidenceError(f"smc: max_new_tokens must be positive, it is {self.max_new_tokens}")
        if self.beam_factor < 1:
            raise EvidenceError(f"smc: beam_factor must be positive, it is {self.beam_factor}")
        # Where both end a sequence with this token, what follows it is certain: padding.
        self.eos = fa.eos_token_id if lm.eos_token_id == fa.eos_token_id else None
        # The query that guides, and the one that knows the budget.
        needs = max(self.proposal.needs, self.potential.needs)
        if needs is Knowledge.HMM:
            if self.hmm is None:
                raise EvidenceError(
                    f"{type(self.proposal).__name__} with {type(self.potential).__name__} needs hmm=…"
                )
            self.query: MaskQuery = guided(self.hmm, fa, self.max_new_tokens)
        else:
            self.query = gcd(fa, self.max_new_tokens)
        self.referee = self.query
        if needs is Knowledge.LOCAL:
            self.query = lcd(fa)

    def run(self, prompt: Prompt, count: int, generator: Generator) -> Posterior:
        """``count`` particles from the prompt to the end."""
        self.referee.start(1)  # raises BudgetTooSmall
        lm, query, states = self.lm, self.query.start(1), 1
        lm.start([prompt])
        self.potential.start(lm, prompt, self.max_new_tokens)
        particles = Particles.start(count, self.max_new_tokens)
        log_evidence, ess_trace, resampled = 0.0, [], []
        for t in range(self.max_new_tokens):
            if self.beam_factor > 1:
                particles = particles.split(self.beam_factor)
            self._extend(particles, t, generator)
            ess_trace.append(effective_sample_size(particles.log_weight))
            if not bool(particles.growing.any()):
                break
            if len(particles) > count or ess_trace[-1] < self.ess_threshold * count:
                log_evidence += float(particles.log_weight.logsumexp(0)) - math.log(count)
                particles = self._resample(particles, count, generator)
                resampled.append(t)
                if not bool(particles.growing.any()):
                    break
            source, tokens = _merge(particles, t, lm.vocab_size)
            self.potential.advance(source, tokens)
            if not torch.equal(source, torch.arange(states)):
                lm.select(source)
                query.select(source)
            lm.advance(tokens)
            query.advance(tokens)
            states = len(source)
        token_ids = [
            tuple(row[:n].tolist()) for row, n in zip(particles.tokens, particles.length, strict=True)
        ]
        texts = [lm.decode(row) for row in token_ids]
        # A split particle has its share of a weight; the posterior's Ẑ is the mean over all.
        log_weights = particles.log_weight + (log_evidence + math.log(len(particles) / count))
        return Posterior(
            token_ids, texts, log_weights, particles.log_prob, tuple(ess_trace), tuple(resampled)
        )

    def _extend(self, particles: Particles, t: int, generator: Generator) -> None:
        """Extend and reweight the growing particles, in place."""
        rows = particles.growing.nonzero()[:, 0]
        last = t + 1 == self.max_new_tokens
        step = Step(
            self.lm.log_probs(),
            self.query,
            particles.tokens[rows, :t],
            particles.state[rows],
            decode=self.lm.decode,
            eos_token_id=self.eos,
            last=last,
        )
        drawn, log_weight = self.proposal.draw(step, generator)
        log_prob = step.log_probs.gather(1, drawn[:, None].to(step.log_probs.device))[:, 0].cpu().double()
        drawn, log_weight = drawn.cpu(), log_weight.cpu()
        particles.tokens[rows, t] = drawn
        particles.length[rows] = t + 1
        ended = step.ends(drawn)
        if last and self.query.horizon is None:  # a proposal that does not know the budget
            stopped = drawn == self.eos if self.eos is not None else torch.zeros_like(ended)
            accepted = stopped | support(self.fa, particles.tokens[rows])
            log_weight = log_weight.masked_fill(~accepted, -torch.inf)
        alive = ~log_weight.isneginf()
        log_psi = self.potential.log_value(Extended(step, drawn, ended, alive))
        bad = (alive & (log_psi.isnan() | log_psi.isposinf())).nonzero()[:, 0]
        if len(bad):
            text = self.lm.decode(particles.tokens[rows[bad[0]], : t + 1].tolist())
            raise PotentialError(type(self.potential).__name__, "is infinite or no number", text)
        change = (log_weight + log_psi - particles.log_psi[rows]).masked_fill(~alive, -torch.inf)
        particles.log_weight[rows] += change
        particles.log_psi[rows] = log_psi
        particles.log_prob[rows] += log_prob
        particles.growing[rows] = ~ended & ~change.isneginf()

    def _resample(self, particles: Particles, count: int, generator: Generator) -> Particles:
        """About ``count`` particles of mean weight one."""
        drawn = self.resampling(particles.log_weight.softmax(0), generator, count)
        ancestors, weights = drawn if isinstance(drawn, tuple) else (drawn, None)
        chosen = particles.take(ancestors)
        if weights is None:
            chosen.log_weight = torch.zeros_like(chosen.log_weight)
        else:
            chosen.log_weight = weights.log() + math.log(count)
        return chosen


def _merge(particles: Particles, t: int, vocab_size: int) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """New states, one for each different prefix that grows: the former state and the token of each."""
    growing = particles.growing
    pair = particles.state[growing] * vocab_size + particles.tokens[growing, t]
    distinct, particles.state[growing] = pair.unique(return_inverse=True)
    return distinct // vocab_size, distinct % vocab_size


def _named(name: str, table: dict[str, T], what: str) -> T:
    if name not in table:
        raise EvidenceError(f"unknown {what} {name!r}: choose one of {', '.join(table)}")
    return table[name]
