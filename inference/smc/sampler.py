"""Sequential Monte Carlo for p_lm(x | constraint): one loop of extend, reweight, resample (Loula et al. 2025, §2).

Each of K particles draws a token from a proposal; its weight is multiplied by the proposal's weight and by the ratio of
potentials; when the effective sample size falls below a threshold, K ancestors are drawn and all weights become equal.
The estimate of Z = p_lm(C) is the product of the mean weights at each resampling and at the end: E[Ẑ] = Z.

    importance sampling   the loop without resampling
    rejection sampling    … and the language model as proposal: weights are 0 or 1, and what is left is exact

Rows are the particles that still grow: language model and query hold no others. Finished and dead particles leave the
batch, and a particle that resampling drops is never extended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import EvidenceError, VocabularyMismatch
from ..guided import pgcd
from ..masks import MaskQuery, gcd, lcd
from ..query import support
from .lm import LanguageModel, Prompt
from .posterior import Posterior
from .potentials import LookaheadPotential, Potential, PrefixPotential
from .proposals import (
    GCDProposal,
    Knowledge,
    LCDProposal,
    LMProposal,
    LookaheadProposal,
    MixtureProposal,
    Proposal,
    Step,
)
from .resampling import SCHEMES, Resampling, effective_sample_size

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
    fa: Automaton,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    potential: Potential | None = None,
    resampling: str | Resampling = "systematic",
    ess_threshold: float = 0.5,
) -> Posterior:
    """Weighted samples from p_lm(x | prompt, x satisfies ``fa`` within ``max_new_tokens`` tokens).

    ``proposal`` is one of "lm", "lcd", "gcd", "pgcd" (lookahead), "pgcd-mixture", or a :class:`Proposal`. Those that
    use the HMM come with φ_pgcd as their potential unless another is given, the rest with the prefix potential.
    Particles are resampled when the effective sample size is below ``ess_threshold`` · ``particles``: 0 never, above 1
    always. An automaton without an end-of-sequence token is asked about exactly ``max_new_tokens`` tokens.

    Same seed, same result. Raises :class:`BudgetTooSmall` before the language model is called if nothing fits the
    budget, :class:`VocabularyMismatch`, and :class:`EvidenceError` if an HMM is missing or rules out possible tokens.
    """
    proposal = _named(proposal, PROPOSALS, "proposal")() if isinstance(proposal, str) else proposal
    scheme = _named(resampling, SCHEMES, "resampling") if isinstance(resampling, str) else resampling
    if potential is None:
        potential = LookaheadPotential() if proposal.needs is Knowledge.HMM else PrefixPotential()
    if particles < 1:
        raise EvidenceError(f"smc: the number of particles must be positive, it is {particles}")
    sampler = Sampler(lm, fa, hmm, proposal, potential, scheme, ess_threshold, max_new_tokens)
    return sampler.run(prompt, particles, torch.Generator().manual_seed(seed))


def importance_sampling(
    lm: LanguageModel,
    prompt: Prompt,
    fa: Automaton,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
) -> Posterior:
    """Independent weighted samples: :func:`smc` that never resamples, so potentials have nothing to say."""
    return smc(
        lm,
        prompt,
        fa,
        proposal,
        hmm,
        particles,
        max_new_tokens,
        seed,
        potential=PrefixPotential(),
        ess_threshold=0.0,
    )


@dataclass
class _Particles:
    """K particles, finished, dead or growing, on the CPU; ``log_psi`` is log Ψ of each prefix."""

    tokens: Int[Tensor, "particles tokens"]
    length: Int[Tensor, " particles"]
    log_weight: Float[Tensor, " particles"]
    log_psi: Float[Tensor, " particles"]
    log_prob: Float[Tensor, " particles"]
    growing: Bool[Tensor, " particles"]

    @classmethod
    def start(cls, count: int, max_new_tokens: int) -> _Particles:
        zeros = torch.zeros(count, dtype=torch.float64)
        tokens = torch.zeros(count, max_new_tokens, dtype=torch.long)
        growing = torch.ones(count, dtype=torch.bool)
        return cls(
            tokens, torch.zeros_like(growing, dtype=torch.long), zeros, zeros.clone(), zeros.clone(), growing
        )

    def resampled(self, ancestors: Int[Tensor, " particles"]) -> _Particles:
        """Copies of the ancestors, all of weight one."""
        return _Particles(
            self.tokens[ancestors],
            self.length[ancestors],
            torch.zeros_like(self.log_weight),
            self.log_psi[ancestors],
            self.log_prob[ancestors],
            self.growing[ancestors],
        )


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
        # Where both end a sequence with this token, what follows it is certain: padding.
        self.eos = fa.eos_token_id if lm.eos_token_id == fa.eos_token_id else None
        # The query that guides, and the one that knows the budget.
        needs = max(self.proposal.needs, self.potential.needs)
        if needs is Knowledge.HMM:
            if self.hmm is None:
                raise EvidenceError(
                    f"{type(self.proposal).__name__} with {type(self.potential).__name__} needs hmm=…"
                )
            self.query: MaskQuery = pgcd(self.hmm, fa, self.max_new_tokens)
        else:
            self.query = gcd(fa, self.max_new_tokens)
        self.referee = self.query
        if needs is Knowledge.LOCAL:
            self.query = lcd(fa)

    def run(self, prompt: Prompt, count: int, generator: Generator) -> Posterior:
        """``count`` particles from the prompt to the end."""
        self.referee.start(1)  # raises BudgetTooSmall
        query = self.query.start(count)
        lm = self.lm
        lm.start([prompt])
        lm.select(torch.zeros(count, dtype=torch.long))
        particles = _Particles.start(count, self.max_new_tokens)
        rows = torch.arange(count)  # the particle of each row of language model and query
        log_evidence, ess_trace, resampled = 0.0, [], []
        for t in range(self.max_new_tokens):
            step = Step(lm.log_probs(), query, particles.tokens[rows, :t])
            self._extend(particles, rows, step, t, generator)
            ess_trace.append(effective_sample_size(particles.log_weight))
            if not bool(particles.growing.any()):
                break
            source = torch.full((count,), -1)
            source[rows] = torch.arange(len(rows))
            if ess_trace[-1] < self.ess_threshold * count:
                log_evidence += float(particles.log_weight.logsumexp(0)) - math.log(count)
                ancestors = self.resampling(particles.log_weight.softmax(0), generator)
                particles, source = particles.resampled(ancestors), source[ancestors]
                resampled.append(t)
                if not bool(particles.growing.any()):
                    break
            batch, rows = len(rows), particles.growing.nonzero()[:, 0]
            indices = source[rows]
            if not torch.equal(indices, torch.arange(batch)):
                lm.select(indices)
                query.select(indices)
            tokens = particles.tokens[rows, t]
            lm.advance(tokens)
            query.advance(tokens)
        token_ids = [
            tuple(row[:n].tolist()) for row, n in zip(particles.tokens, particles.length, strict=True)
        ]
        texts = [lm.decode(row) for row in token_ids]
        log_weights = particles.log_weight + log_evidence
        return Posterior(
            token_ids, texts, log_weights, particles.log_prob, tuple(ess_trace), tuple(resampled)
        )

    def _extend(
        self, particles: _Particles, rows: Int[Tensor, " rows"], step: Step, t: int, generator: Generator
    ) -> None:
        """Extend and reweight the growing particles, in place."""
        drawn, log_weight = self.proposal.draw(step, generator)
        log_psi = self.potential.log_value(step, drawn).cpu()
        log_prob = step.log_probs.gather(1, drawn[:, None])[:, 0].cpu().double()
        drawn, log_weight = drawn.cpu(), log_weight.cpu()
        particles.tokens[rows, t] = drawn
        particles.length[rows] = t + 1
        ended = drawn == self.eos if self.eos is not None else torch.zeros_like(drawn, dtype=torch.bool)
        if t + 1 == self.max_new_tokens:
            if self.query.horizon is None:  # a proposal that does not know the budget
                log_weight = log_weight.masked_fill(
                    ~ended & ~support(self.fa, particles.tokens[rows]), -torch.inf
                )
            ended = torch.ones_like(ended)
        log_psi = log_psi.masked_fill(ended, 0.0)  # Ψ = 1[x ∈ C], which the weight has already
        change = (log_weight + log_psi - particles.log_psi[rows]).masked_fill(
            log_weight.isneginf(), -torch.inf
        )
        particles.log_weight[rows] += change
        particles.log_psi[rows] = log_psi
        particles.log_prob[rows] += log_prob
        particles.growing[rows] = ~ended & ~change.isneginf()


def _named(name: str, table: dict[str, T], what: str) -> T:
    if name not in table:
        raise EvidenceError(f"unknown {what} {name!r}: choose one of {', '.join(table)}")
    return table[name]
