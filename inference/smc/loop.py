"""The sampler's loop: the particles of many prompts are extended together, token by token.

Each step draws a token for every growing particle, multiplies its weight by the proposal's weight and by the ratio of
potentials, and resamples if the effective sample size is low.

Language model and potentials hold the states of all prompts in one batch, one state for each distinct unfinished prefix:
finished and dead particles have none, copies made by resampling share a state until their next tokens differ, equal prompts
are read once. Each prompt has its own random numbers: its particles do not depend on the other prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..threads import callers_threads
from .boundaries import Texts
from .posterior import Posterior
from .potentials import LookaheadPotential, Potential, PrefixPotential, check_values
from .progress import progress_bar
from .proposals import Tabular
from .request import Request
from .run import Draw, Run
from .step import BatchedStep, Extension, is_range
from .trace import Recorder


class Batch:
    """The states of several runs, one run after the other: the rows of the language model, or the states of a potential.

    The states of a run begin at row ``first[run]``; ``size`` is their number.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._lay_out(runs)

    def _lay_out(self, runs: Sequence[Run]) -> None:
        self.runs, self.first, self.size = runs, dict[Run, int](), 0
        for run in runs:
            self.first[run] = self.size
            self.size += run.states

    def follow(self) -> tuple[Int[Tensor, " states"], Int[Tensor, " states"]]:
        """Lay out the states after :meth:`Run.follow`; return the former row and the last token (−1: waits) of each."""
        going = [run for run in self.runs if run.growing]
        moved = [(run.moved[0] + self.first[run], run.moved[1]) for run in going]
        self._lay_out(going)
        if len(moved) == 1:
            return moved[0]
        return torch.cat([rows for rows, _ in moved]), torch.cat([tokens for _, tokens in moved])

    def joined(self, runs: Sequence[Run], parts: Sequence[Extension]) -> Extension:
        """Concatenate the extensions of some runs, whose states are those of the batch."""
        if len(parts) == 1 and not self.first[runs[0]]:
            return parts[0]
        step = BatchedStep([one.step for one in parts], [self.first[run] for run in runs])
        columns = ([getattr(one, name) for one in parts] for name in ("tokens", "ended", "alive"))
        return Extension(step, *map(torch.cat, columns))


def run_requests(requests: Sequence[Request], trace: bool = False, progress: bool = False) -> list[Posterior]:
    """Run all requests in one batch of the language model and return a posterior for each."""
    runs = prepared(requests, trace)
    if runs:
        run_together(runs, progress)
    return [run.posterior() for run in runs]


def prepared(requests: Sequence[Request], trace: bool = False) -> list[Run]:
    """Return the run of each request. Raises :class:`BudgetTooSmall` before the language model is called.

    Requests with the same automaton object share queries, with their largest budget as the horizon.
    """
    horizons: dict[int, int] = {}
    for one in requests:
        horizons[id(one.fa)] = max(one.max_new_tokens, horizons.get(id(one.fa), 1))
    twists = {id(one.proposal): one.proposal.potential for one in requests if not one.steers}
    runs = []
    for one in requests:
        factors = [] if one.steers else [twists[id(one.proposal)]]
        factors += [] if one.potential is None else [one.potential]
        run = Run(
            one.prepare(*factors, horizon=horizons[id(one.fa)]), factors, one.particles, one.generator()
        )
        if trace:
            shown = one.prompt if isinstance(one.prompt, str) else one.lm.decode(one.prompt)
            run.recorder = Recorder(shown, one.lm, one.proposal)
        runs.append(run)
    return runs


def run_together(runs: Sequence[Run], progress: bool = False, limit: int | None = None) -> None:
    """Run all prompts to the end, or for ``limit`` steps; runs share a language model, and potentials that are one object."""
    most = max(run.request.max_new_tokens for run in runs)
    with progress_bar(progress, most) as tick:
        for growing in steps(runs, limit, each=progress):
            tick(growing)


def steps(runs: Sequence[Run], limit: int | None = None, each: bool = True) -> Iterator[int]:
    """Extend the particles of all prompts token by token; yield how many go on: after each token, or at least at the end.

    A language model with ``steps`` of its own does that (the seat of an :class:`.Engine`).
    """
    lm = runs[0].request.lm
    if (own := getattr(lm, "steps", None)) is not None:
        yield from own(runs, limit, each)
        return
    sampler = Sampler(runs)
    places = {prompt: i for i, prompt in enumerate(dict.fromkeys(sampler.prompts))}
    lm.start(list(places))
    if len(places) < len(runs):
        lm.select(torch.tensor([places[prompt] for prompt in sampler.prompts]))
    sampler.start()
    for taken in count() if limit is None else range(limit):  # may exceed the budget: particles wait
        if taken:
            size = sampler.rows.size
            source, tokens = sampler.follow()
            if not is_range(source, size):
                lm.select(source)
            lm.advance(tokens)
        draws = sampler.ask(lm.log_probs().detach())
        draw_together(draws)
        sampler.extend(draws)
        yield sampler.growing
        if not sampler.growing:
            return


class Sampler:
    """The runs of one call: all of a step but the pass of the language model, whose rows are those of ``rows``."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.lm, self.rows = runs[0].request.lm, Batch(runs)
        self.prompts = [p if isinstance(p, str) else tuple(p) for p in (run.request.prompt for run in runs)]
        self.growing, self._texts = len(runs), Texts(self.lm.decode)
        weighed: dict[int, tuple[Potential, list[Run]]] = {}
        for run in runs:
            for factor in run.factors:
                weighed.setdefault(id(factor), (factor, []))[1].append(run)
        self._factors = [(factor, Batch(some)) for factor, some in weighed.values()]

    def start(self) -> None:
        """Let the potentials begin."""
        for potential, part in self._factors:
            asked = [run.request for run in part.runs]
            potential.start(self.lm, [one.prompt for one in asked], [one.max_new_tokens for one in asked])

    def follow(self) -> tuple[Int[Tensor, " states"], Int[Tensor, " states"]]:
        """Advance queries and potentials; return the former row and the last token (−1: waits) of each row from now on."""
        for run in self.rows.runs:
            if run.growing:
                run.follow()
        for potential, part in self._factors:
            if any(run.growing for run in part.runs):
                potential.advance(*part.follow())
        return self.rows.follow()

    def ask(self, table: Float[Tensor, "states vocab"]) -> list[Draw]:
        """Return what is to be drawn, from the language model's log-probabilities."""
        first = self.rows.first.items()
        return [draw for run, n in first for draw in run.ask(table[n : n + run.states], self._texts)]

    def extend(self, draws: Sequence[Draw]) -> None:
        """Append the tokens drawn, weigh and resample the particles. Each potential is evaluated once, on all its runs."""
        for draw in draws:
            draw.run.extend(draw)
        for potential, part in self._factors:
            if mine := [draw for draw in draws if draw.run in part.first]:
                weigh(potential, part, mine)
        for draw in draws:
            draw.run.reweigh(draw)
        for run in self.rows.runs:
            run.resample()
            run.growing = sum(run.particles.growing.tolist())
        self.growing = sum(run.growing for run in self.rows.runs)


def weigh(potential: Potential, part: Batch, draws: Sequence[Draw]) -> None:
    """Multiply Ψ of the extended rows by a potential; those that another one gives zero are not asked for."""
    asked = [replace(draw.shown, alive=draw.shown.alive & ~draw.log_psi.isneginf()) for draw in draws]
    with nullcontext() if type(potential) in (PrefixPotential, LookaheadPotential) else callers_threads():
        value = potential.log_value(part.joined([draw.run for draw in draws], asked)).detach().double()
    values = value.split([len(draw.rows) for draw in draws])
    for draw, one, log_psi in zip(draws, asked, values, strict=True):
        check_values(potential, one, log_psi)
        draw.log_psi = draw.log_psi + log_psi.masked_fill(~one.alive, 0.0)


def draw_together(draws: Sequence[Draw]) -> None:
    """Draw for runs with equal elementwise proposals at once; others draw when they are extended.

    Where one of the runs fails, each draws alone.
    """
    alike: dict[Tabular, list[Draw]] = {}
    for draw in draws:
        one = draw.run.request.proposal
        if isinstance(one, Tabular) and type(one).draw is Tabular.draw and draw.run.draws_once:
            alike.setdefault(one, []).append(draw)
    for proposal, some in alike.items():
        if len(some) > 1:
            asked = [draw.step for draw in some], [draw.run.generator for draw in some]
            with suppress(Exception):
                for draw, drawn in zip(some, proposal.draw_sparsely(*asked), strict=True):
                    draw.drawn = drawn
