"""The loop of :mod:`.sampler`: particles of many prompts take their tokens together.

Language model and potentials hold the states of all prompts in one batch, one state for each different unfinished prefix:
finished and dead particles leave it, copies made by resampling share a state until their next tokens differ, equal prompts
are read once. Everything random is each prompt's own: its particles are what they would be without the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...lm.base import Prompt
from .boundaries import Texts
from .particles import Particles
from .posterior import Posterior
from .potentials import Potential, check_values
from .resampling import effective_sample_size
from .step import BatchedStep, Extension, Step
from .trace import Recorder

if TYPE_CHECKING:
    from .sampler import Sampler


@dataclass
class Drawn:
    """Particles of a run and the tokens just drawn for them."""

    run: Run
    rows: Int[Tensor, " rows"]
    step: Step
    tokens: Int[Tensor, " rows"]
    log_weight: Float[Tensor, " rows"]

    def extended(self) -> Extension:
        """What a potential is shown."""
        return Extension(self.step, self.tokens, self.step.ends(self.tokens), ~self.log_weight.isneginf())


class Run:
    """One prompt's particles. Raises :class:`BudgetTooSmall` before the language model is called."""

    def __init__(self, sampler: Sampler, prompt: Prompt, count: int, generator: Generator) -> None:
        self.sampler, self.prompt, self.count, self.generator = sampler, prompt, count, generator
        copy(sampler.budget_query).start(1, sampler.max_new_tokens)
        self.query = copy(sampler.query).start(1, sampler.max_new_tokens)
        self.particles = Particles.start(count, sampler.max_new_tokens)
        self.states = 1
        self.ess_trace: list[float] = []
        self.resampled: list[int] = []
        self.recorder: Recorder | None = None
        # Log-weights of particles that hit the token budget before the constraint was satisfied.
        self.cut_off: Float[Tensor, " lost"] = torch.zeros(0, dtype=torch.float64)

    def extend(self, table: Float[Tensor, "states vocab"], texts: Texts) -> Iterator[Drawn]:
        """Draw a token for every particle that moves; those whose budget it uses up apart from the others."""
        sampler = self.sampler
        if sampler.beam_factor > 1:
            self.particles = self.particles.split(sampler.beam_factor)
        particles = self.particles
        moving = particles.moving.nonzero()[:, 0]
        at_last = particles.length[moving] + 1 == sampler.max_new_tokens
        for last in (False, True):
            rows = moving[at_last == last]
            if not len(rows):
                continue
            step = Step(
                table,
                self.query,
                particles.prefixes(rows),
                particles.state[rows],
                decode=texts,
                eos_token_id=sampler.eos,
                last=last,
            )
            tokens, log_weight = sampler.proposal.draw_checked(step, self.generator)
            log_prob = table[particles.state[rows].to(table.device), tokens.to(table.device)].cpu().double()
            if self.recorder is not None:
                self.recorder.drawn(step, rows, tokens)
            particles.append(rows, tokens, log_prob)
            if last and self.query.horizon is None:  # a proposal that does not know the budget
                accepted = sampler.accepts(particles.tokens[rows])
                lost = (particles.log_weight[rows] + log_weight)[~accepted]
                # Particles that wait for others come to their budget's end at different times.
                self.cut_off = torch.cat([self.cut_off, lost[~lost.isneginf()]])
                log_weight = log_weight.masked_fill(~accepted, -torch.inf)
            yield Drawn(self, rows, step, tokens, log_weight)

    def reweigh(self, drawn: Drawn, shown: Extension, log_psi: Float[Tensor, " rows"]) -> None:
        """Weights and potentials of particles just extended; some end here, or die."""
        particles, rows = self.particles, drawn.rows
        check_values(self.sampler.potential, shown, log_psi)
        change = (drawn.log_weight + log_psi - particles.log_psi[rows]).masked_fill(~shown.alive, -torch.inf)
        particles.log_weight[rows] += change
        particles.log_psi[rows] = log_psi
        particles.growing[rows] = ~shown.ended & ~change.isneginf()
        if self.sampler.align is not None:
            grows = particles.growing[rows].tolist()
            reached = [grows[i] and shown.moved(i, self.sampler.align) for i in range(len(rows))]
            particles.waiting[rows] = torch.tensor(reached)

    def resample(self) -> None:
        """Draw ancestors if the weights have become too uneven: of all, or where particles wait, of those that wait."""
        particles, sampler = self.particles, self.sampler
        self.ess_trace.append(effective_sample_size(particles.log_weight))
        if self.recorder is not None:
            self.recorder.step(particles)
        if not bool(particles.growing.any()) or (sampler.align is not None and bool(particles.moving.any())):
            return
        among, ess = torch.arange(len(particles)), self.ess_trace[-1]
        if sampler.align is not None:  # the finished keep their weights, the dead make room
            among = (particles.growing | particles.log_weight.isneginf()).nonzero()[:, 0]
            ess = effective_sample_size(particles.log_weight[among])
            particles.waiting[:] = False
        count = self.count if sampler.align is None else len(among)
        if len(particles) > self.count or ess < sampler.ess_threshold * count:
            self.particles = particles.put(among, self._descendants(particles.take(among), count))
            self.resampled.append(len(self.ess_trace) - 1)

    def _descendants(self, particles: Particles, count: int) -> Particles:
        """About ``count`` particles drawn by weight, of the same total weight in expectation."""
        total = particles.log_weight.logsumexp(0)
        drawn = self.sampler.resampling(particles.log_weight.softmax(0), self.generator, count)
        ancestors, weights = drawn if isinstance(drawn, tuple) else (drawn, None)
        chosen = particles.take(ancestors)
        share = (
            chosen.log_weight.new_full((len(chosen),), -math.log(count)) if weights is None else weights.log()
        )
        chosen.log_weight = total + share
        return chosen

    def move(self, source: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        """The query follows the particles."""
        if not torch.equal(source, torch.arange(self.states)):
            self.query.select(source)
        if bool((tokens < 0).any()):
            self.query.advance_some(tokens, tokens >= 0)
        else:
            self.query.advance(tokens)
        self.states = len(source)

    def posterior(self) -> Posterior:
        """The particles as they are."""
        particles = self.particles
        token_ids = [
            tuple(row[:n].tolist()) for row, n in zip(particles.tokens, particles.length, strict=True)
        ]
        texts = [self.sampler.lm.decode(row) for row in token_ids]
        # A split particle has its share of a weight; the posterior's Ẑ is the mean over all.
        share = math.log(len(particles) / self.count)
        trace = None if self.recorder is None else self.recorder.end(particles, self.resampled)
        return Posterior(
            token_ids,
            texts,
            particles.log_weight + share,
            particles.log_prob,
            tuple(self.ess_trace),
            tuple(self.resampled),
            trace,
            log_potentials=particles.log_psi,
            cut_off=self.cut_off + share,
            narrowed=self.sampler.fa.narrowed,
        )


def run_together(runs: Sequence[Run], progress: bool = False) -> None:
    """Every run from its prompt to the end; they share a language model and a potential."""
    with _bar(progress, max(run.sampler.max_new_tokens for run in runs)) as tick:
        _run_together(runs, tick)


@contextmanager
def _bar(shown: bool, steps: int) -> Iterator[Callable[[int], None]]:
    """Calls tell how many particles still grow."""
    if not shown:
        yield lambda growing: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("tokens, {task.fields[growing]} particles grow"))
    with Progress(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=steps, growing="all")
        yield lambda growing: bar.update(task, advance=1, growing=growing)


def _run_together(runs: Sequence[Run], tick: Callable[[int], None]) -> None:
    lm, potential = runs[0].sampler.lm, runs[0].sampler.potential
    prompts = [run.prompt if isinstance(run.prompt, str) else tuple(run.prompt) for run in runs]
    places = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompts))}
    lm.start(list(places))
    if len(places) < len(prompts):
        lm.select(torch.tensor([places[prompt] for prompt in prompts]))
    potential.start(lm, prompts, [run.sampler.max_new_tokens for run in runs])
    texts = Texts(lm.decode)
    live = list(runs)
    while live:
        table = lm.log_probs().detach()
        tables = table.split([run.states for run in live])
        first = torch.tensor([0, *(run.states for run in live)]).cumsum(0).tolist()
        drawn = [(part, first[i]) for i, run in enumerate(live) for part in run.extend(tables[i], texts)]
        _reweigh(drawn, potential)
        source: list[Tensor] = []
        tokens: list[Tensor] = []
        growing: list[Run] = []
        for i, run in enumerate(live):
            run.resample()
            if bool(run.particles.growing.any()):
                former, token = run.particles.merge(lm.vocab_size)
                run.move(former, token)
                growing.append(run)
                source.append(former + first[i])
                tokens.append(token)
        live = growing
        tick(sum(int(run.particles.growing.sum()) for run in live))
        if live:
            states, new = torch.cat(source), torch.cat(tokens)
            potential.advance(states, new)
            if not torch.equal(states, torch.arange(len(table))):
                lm.select(states)
            lm.advance(new)


def _reweigh(drawn: Sequence[tuple[Drawn, int]], potential: Potential) -> None:
    """Ask the potential about all together."""
    shown = [part.extended() for part, _ in drawn]
    if len(shown) == 1:
        log_psi = potential.log_value(shown[0])
        drawn[0][0].run.reweigh(drawn[0][0], shown[0], log_psi)
        return
    everything = Extension(
        BatchedStep([part.step for part, _ in drawn], [first for _, first in drawn]),
        *(torch.cat([getattr(e, name) for e in shown]) for name in ("tokens", "ended", "alive")),
    )
    values = potential.log_value(everything).split([len(e.tokens) for e in shown])
    for (part, _), e, log_psi in zip(drawn, shown, values, strict=True):
        part.run.reweigh(part, e, log_psi)
