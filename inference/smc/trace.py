"""The trace of a run: every particle at every step, its ancestry, and the probabilities of its next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Int
from numpy import ndarray
from torch import Tensor

from ...lm.base import LanguageModel
from .particles import Particles
from .proposals import Proposal, Tabular
from .step import Step

END = "‹end›"  # the end-of-sequence token
SHOWN = 6  # the most probable tokens of each distribution that are recorded, beside those drawn


@dataclass(frozen=True)
class Candidate:
    """A candidate for the next token, with its probabilities under language model and proposal (None: not tabular)."""

    token: int
    text: str
    lm: float
    proposal: float | None
    allowed: bool


@dataclass(frozen=True)
class Belief:
    """The next-token distributions of one prefix; the constraint allows ``allowed`` of the ``vocab`` tokens."""

    allowed: int
    vocab: int
    candidates: Sequence[Candidate]


@dataclass(frozen=True)
class TraceStep:
    """All particles after one step.

    For particle i: ``parent[i]`` is the particle of the step before that it continues, ``text[i]`` the text added in this step
    ("" if it waited or had ended), ``weight[i]`` its normalised weight, ``status[i]`` one of "grows", "waits", "ended", "dead",
    and ``belief[i]`` the index in ``beliefs`` of the distributions from which its token was drawn (None if none was drawn).
    ``resampled`` says whether particles were resampled after this step.
    """

    parent: Sequence[int]
    text: Sequence[str]
    weight: Sequence[float]
    status: Sequence[str]
    belief: Sequence[int | None]
    beliefs: Sequence[Belief]
    resampled: bool


@dataclass
class Trace:
    """The steps of a run; ``final`` has for each final particle its index in the last step, before any resampling."""

    prompt: str
    steps: list[TraceStep] = field(default_factory=list)
    final: Sequence[int] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain JSON values."""
        return asdict(self)


class Recorder:
    """A recorder of the trace of one run."""

    def __init__(self, prompt: str, lm: LanguageModel, proposal: Proposal) -> None:
        self.trace, self._lm, self._proposal = Trace(prompt), lm, proposal
        self._seen: dict[int, int] = {}  # particle → its belief's index in this step
        self._beliefs: list[Belief] = []
        self._texts: list[str] = []  # the particles' texts after the last step

    def drawn(self, step: Step, rows: Int[ndarray, " rows"], tokens: Int[Tensor, " rows"]) -> None:
        """Record the next-token distributions of the particles ``rows``, for which these tokens were drawn."""
        place: dict[int, int] = {}
        for i, state in enumerate(step.rows.tolist()):
            if state not in place:
                place[state] = len(self._beliefs)
                here = {int(t) for t in tokens[step.rows == state]}
                self._beliefs.append(self._belief(step.take(torch.tensor([i])), here))
            self._seen[int(rows[i])] = place[state]

    def _belief(self, step: Step, drawn: set[int]) -> Belief:
        log_p, mask = step.log_probs[0].double().cpu(), step.mask[0].cpu()
        q = None
        if isinstance(self._proposal, Tabular):
            q = self._proposal.belief(step)[0].double().cpu().log_softmax(0).exp()
        shown = set(drawn)
        for table in (log_p.exp(), log_p.exp() * mask if q is None else q):
            shown |= set(table.topk(min(SHOWN, len(table))).indices.tolist())
        candidates = [
            Candidate(
                token,
                self._lm.decode([token]) if token != self._lm.eos_token_id else END,
                float(log_p[token].exp()),
                None if q is None else float(q[token]),
                bool(mask[token]),
            )
            for token in shown
        ]
        candidates.sort(key=lambda c: (-(c.lm if c.proposal is None else c.proposal), -c.lm))
        return Belief(int(mask.sum()), len(mask), candidates)

    def step(self, particles: Particles) -> None:
        """Record all particles after this step, before any resampling."""
        texts = [self._lm.decode(particles.token_ids(i)) for i in range(len(particles))]
        before = self._texts or [""] * (int(particles.origin.max()) + 1)
        parents = particles.origin.tolist()
        kinds = particles.log_weight.isneginf(), particles.waiting, particles.growing
        status = [
            "dead" if dead else "waits" if waits else "grows" if grows else "ended"
            for dead, waits, grows in torch.stack(kinds, 1).tolist()
        ]
        weight = particles.log_weight.softmax(0).nan_to_num(0.0).tolist()
        new = [text.removeprefix(before[p]) for text, p in zip(texts, parents, strict=True)]
        seen = [self._seen.get(i) for i in range(len(particles))]
        self.trace.steps.append(TraceStep(parents, new, weight, status, seen, self._beliefs, False))
        self._texts, self._seen, self._beliefs = texts, {}, []
        particles.origin[:] = torch.arange(len(particles))

    def end(self, particles: Particles, resampled: Sequence[int]) -> Trace:
        """Finish and return the trace; ``resampled`` has the steps after which particles were resampled."""
        for i in resampled:
            self.trace.steps[i] = replace(self.trace.steps[i], resampled=True)
        self.trace.final = particles.origin.tolist()
        return self.trace
