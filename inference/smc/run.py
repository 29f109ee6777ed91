"""The run of one prompt: its particles are extended by a token, weighed and resampled, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Generator, Tensor

from ...errors import BudgetTooSmall
from ..next_token.shortest import with_shortest
from .boundaries import Texts
from .particles import Particles
from .posterior import Posterior
from .potentials import Potential, PrefixPotential
from .proposals import GCDProposal, LCDProposal
from .request import Request
from .resampling import effective_sample_size
from .step import Extension, Step, entries, is_range
from .trace import Recorder


@dataclass
class Draw:
    """Particles of a run in one step: ``drawn`` are tokens with log-weights that were drawn with those of other runs, if any.

    After the tokens are appended (:meth:`Run.extend`) there are ``log_weight`` (nats), the extension ``shown``, and log Ψ of it.
    """

    run: Run
    rows: Int[ndarray, " rows"]
    step: Step
    drawn: tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]] | None = None
    log_weight: Float[Tensor, " rows"] = field(init=False)
    shown: Extension = field(init=False)
    log_psi: Float[Tensor, " rows"] = field(init=False)


class Run:
    """The run of a prepared request. Raises :class:`BudgetTooSmall` before the language model is called.

    ``factors`` are the potentials of the target, the proposal's default one included; their product counts.

    ``replay`` is particles, at most ``count``, and the number of tokens of each to keep: these tokens are taken with the weights
    with which they were drawn, only the following ones are drawn. Nothing is resampled in the first ``undisturbed`` steps.
    """

    def __init__(
        self,
        request: Request,
        factors: Sequence[Potential],
        count: int,
        generator: Generator,
        replay: tuple[Particles, Int[Tensor, " particles"]] | None = None,
        undisturbed: int = 0,
    ) -> None:
        self.request, self.count, self.generator = request, count, generator
        self.factors = [one for one in factors if not isinstance(one, PrefixPotential)]
        try:
            if request.budget_query is not request.query:
                copy(request.budget_query).start(1, request.max_new_tokens)
            self.query = copy(request.query).start(1, request.max_new_tokens)
        except BudgetTooSmall as error:
            raise with_shortest(error, request.fa, (), request.lm.decode).of_prompt(request.number) from None
        alive = count if replay is None else len(replay[0])  # resampling without replacement may keep fewer
        self.particles = Particles.start(alive, request.max_new_tokens)
        if replay is not None:
            self.particles.lineage = replay[0].lineage
        self.states, self.growing = 1, alive  # distinct unfinished prefixes, unfinished particles
        self.moved = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)  # see `follow`
        self.ess_trace: list[float] = []
        self.resampled: list[int] = []
        self.recorder: Recorder | None = None
        # Log-weights of particles that hit the token budget before the constraint was satisfied.
        self.cut_off: Float[Tensor, " lost"] = torch.zeros(0, dtype=torch.float64)
        # Complete texts that satisfy the constraint and to which the potential gave zero.
        self.refused: list[str] = []
        self._replay, self._undisturbed, self._steps = replay, undisturbed, 0

    def resumed(self, particles: Particles, steps: int) -> Run:
        """Return a run that goes on from ``particles``, which have been extended ``steps`` times; it reads their tokens again.

        It keeps their weights and this run's records.
        """
        replay = particles, particles.length
        run = Run(self.request, self.factors, self.count, self.generator, replay, steps)
        run.particles.log_weight = particles.log_weight - particles.log_value(
            torch.zeros_like(particles.length)
        )
        dead = particles.log_weight.isneginf().nonzero()[:, 0]
        run.particles = run.particles.put(dead, particles.take(dead))
        last = self.ess_trace[-1:] * (steps - len(self.ess_trace))  # no particle grew in these steps
        run.ess_trace, run.resampled = self.ess_trace + last, self.resampled
        run.cut_off, run.refused = self.cut_off, self.refused
        return run

    @property
    def draws_once(self) -> bool:
        """Whether each step is one draw of the proposal."""
        return self._replay is None and self.request.align is None

    def ask(self, table: Float[Tensor, "states vocab"], texts: Texts) -> list[Draw]:
        """Return what is to be drawn: a token for every particle that does not wait, those at the budget's last token apart."""
        request = self.request
        if request.beam_factor > 1:
            self.particles = self.particles.split(request.beam_factor)
        particles = self.particles
        moving = particles.moving
        at_last = particles.length.numpy()[moving] + 1 == request.max_new_tokens
        groups = [(bool(at_last[0]), moving)]
        if request.align is not None:  # particles have different lengths
            groups = [(last, rows) for last in (False, True) if len(rows := moving[at_last == last])]
        return [
            Draw(self, rows, Step(
                table, self.query, particles.prefixes(rows), torch.from_numpy(particles.state.numpy()[rows]),
                decode=texts, eos_token_id=request.eos, last=last, prompt=request.number,
            ))
            for last, rows in groups
        ]  # fmt: skip

    def extend(self, draw: Draw) -> None:
        """Append the tokens of a draw."""
        particles, rows, step = self.particles, draw.rows, draw.step
        tokens, log_weight = self._tokens(draw)
        if self.recorder is not None:
            self.recorder.drawn(step, rows, tokens)
        particles.append(rows, tokens, entries(step.table, step.rows, tokens))
        if step.last and self.query.horizon is None:  # a proposal that does not know the budget
            accepted = self.request.accepts(particles.tokens[rows])
            lost = (particles.log_weight[rows] + log_weight)[~accepted]
            # Collected over steps: with `align` particles reach the end of the budget at different steps.
            self.cut_off = torch.cat([self.cut_off, lost[~lost.isneginf()]])
            log_weight = log_weight.masked_fill(~accepted, -torch.inf)
        draw.log_weight, draw.log_psi = log_weight, torch.zeros(len(rows), dtype=torch.float64)
        draw.shown = Extension(step, tokens, step.ends(tokens), ~log_weight.isneginf())

    def _tokens(self, draw: Draw) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Return a token and its log-weight for each row: from the replay while its tokens are kept, else from the proposal."""
        proposal, rows = self.request.proposal, draw.rows
        if self._replay is None:
            return proposal.draw_checked(draw.step, self.generator, draw.drawn)
        known, keep = self._replay
        place = self.particles.length[rows]
        there = place.clamp(max=known.tokens.shape[1] - 1)  # what is not kept may have no column
        tokens, log_weight = known.tokens[rows, there], known.token_log_weights[rows, there]
        free = (keep[rows] <= place).nonzero()[:, 0]
        if len(free):
            tokens[free], log_weight[free] = proposal.draw_checked(draw.step.take(free), self.generator)
        return tokens, log_weight

    def reweigh(self, draw: Draw) -> None:
        """Multiply weights by those of the last token and by Ψ(x_≤t) / Ψ(x_<t); mark particles that end, die or wait."""
        particles, rows, shown = self.particles, draw.rows, draw.shown
        weight, former, log_psi = draw.log_weight.numpy(), particles.log_psi.numpy(), draw.log_psi.numpy()
        psi = np.where(shown.alive.numpy(), log_psi, -np.inf)
        particles.token_log_weights.numpy()[rows, particles.length.numpy()[rows] - 1] = weight
        particles.log_weight.numpy()[rows] += weight + psi - former[rows]
        former[rows] = psi
        particles.growing.numpy()[rows] = (psi > -np.inf) & ~shown.ended.numpy()
        refused = (shown.ended & shown.alive).numpy() & (log_psi == -np.inf)
        self.refused += [shown.text(row) for row in refused.nonzero()[0].tolist()]
        if (align := self.request.align) is not None:
            grows = particles.growing[rows].tolist()
            particles.waiting[rows] = torch.tensor(
                [g and shown.reached(i, align) for i, g in enumerate(grows)]
            )

    def resample(self) -> None:
        """Resample if the effective sample size is below the threshold: all particles, or with ``align`` the waiting ones."""
        particles, request = self.particles, self.request
        self._steps += 1
        if self._steps <= self._undisturbed:
            return
        self.ess_trace.append(effective_sample_size(particles.log_weight))
        if self.recorder is not None:
            self.recorder.step(particles)
        if not any(particles.growing.tolist()) or (request.align is not None and len(particles.moving)):
            return
        among, ess = None, self.ess_trace[-1]
        if request.align is not None:  # the finished are left out, the dead are replaced
            among = (particles.growing | particles.log_weight.isneginf()).nonzero()[:, 0]
            ess = effective_sample_size(particles.log_weight[among])
            particles.waiting[:] = False
        count = self.count if among is None else len(among)
        if len(particles) > self.count or ess < request.ess_threshold * count:
            own = torch.arange(len(particles))[:, None]
            particles = replace(particles, lineage=torch.cat([particles.lineage, own], 1))
            drawn_from = particles if among is None else particles.take(among)
            chosen = drawn_from.descendants(request.resampling, count, self.generator)
            self.particles = chosen if among is None else particles.put(among, chosen)
            self.resampled.append(len(self.ess_trace) - 1)

    def follow(self) -> None:
        """Advance the query to the new prefixes; ``moved`` is the former state and last token (−1: waits) of each."""
        source, tokens = self.moved = self.particles.merge()
        if not is_range(source, self.states):
            self.query.select(source)
        if self.request.align is not None and bool((tokens < 0).any()):
            self.query.advance_some(tokens, tokens >= 0)
        else:
            self.query.advance(tokens)
        self.states = source.shape[0]

    def posterior(self) -> Posterior:
        """Return the particles as a posterior."""
        particles = self.particles
        token_ids = [particles.token_ids(row) for row in range(len(particles))]
        texts = {ids: self.request.lm.decode(ids) for ids in set(token_ids)}
        # Split particles share a weight, so the mean over more particles is corrected.
        share = math.log(len(particles) / self.count)
        own = self.request.proposal
        masks = isinstance(own, LCDProposal | GCDProposal) and own.temperature == 1
        kept = [
            row[:n] for row, n in zip(particles.token_log_weights, particles.length.tolist(), strict=True)
        ]
        trace = None if self.recorder is None else self.recorder.end(particles, self.resampled)
        return Posterior(
            token_ids,
            [texts[ids] for ids in token_ids],
            particles.log_weight + share,
            particles.log_prob,
            tuple(self.ess_trace),
            tuple(self.resampled),
            trace,
            log_potentials=particles.log_psi,
            cut_off=self.cut_off + share,
            refused=tuple(self.refused),
            narrowed=self.request.fa.narrowed,
            lineage=particles.lineage,
            strength=self.request.strength_used,
            calibration=self.request.strength,
            log_kept=kept if masks else None,
        )
