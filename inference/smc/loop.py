"""The sampler's loop: the particles of many prompts are extended together, token by token.

Each step draws a token for every growing particle, multiplies its weight by the proposal's weight and by the ratio of
potentials, and resamples if the effective sample size is low.

Language model and potentials hold the states of all prompts in one batch, one state for each distinct unfinished prefix:
finished and dead particles have none, copies made by resampling share a state until their next tokens differ, equal prompts
are read once. Each prompt has its own random numbers: its particles do not depend on the other prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
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
from .request import Request
from .run import Run
from .step import BatchedStep, Extension, is_range
from .trace import Recorder


class Batch:
    """The states of several runs, one run after the other: the rows of the language model, or the states of a potential."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = list(runs)
        self.lay_out()

    def lay_out(self) -> None:
        """Note at which row (``first``) the states of each run begin; finished runs have none."""
        self.runs = [run for run in self.runs if run.growing]
        self.first, self.size = dict[Run, int](), 0
        for run in self.runs:
            self.first[run] = self.size
            self.size += run.states

    def moves(self) -> tuple[Int[Tensor, " states"], Int[Tensor, " states"]]:
        """Return the former row and the last token (−1: waits) of each state after :meth:`Run.follow`."""
        going = [run for run in self.runs if run.growing]
        if len(self.runs) == 1:
            return going[0].moved
        rows = [run.moved[0] + self.first[run] for run in going]
        return torch.cat(rows), torch.cat([run.moved[1] for run in going])

    def joined(self, parts: Sequence[tuple[Run, Extension]]) -> Extension:
        """Concatenate the extensions of some runs, whose states are those of the batch."""
        run, shown = parts[0]
        if len(parts) == 1 and not self.first[run]:
            return shown
        step = BatchedStep([one.step for _, one in parts], [self.first[run] for run, _ in parts])
        columns = ([getattr(one, name) for _, one in parts] for name in ("tokens", "ended", "alive"))
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
        for growing in steps(runs, limit):
            tick(growing)


def steps(runs: Sequence[Run], limit: int | None = None) -> Iterator[int]:
    """Extend the particles of all prompts token by token; yield after each token how many go on."""
    lm, batch, factors = runs[0].request.lm, Batch(runs), _factors(runs)
    prompts = {
        run: p if isinstance(p, str) else tuple(p) for run, p in ((run, run.request.prompt) for run in runs)
    }
    places = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompts.values()))}
    lm.start(list(places))
    if len(places) < len(prompts):
        lm.select(torch.tensor([places[prompt] for prompt in prompts.values()]))
    for potential, part in factors:
        potential.start(
            lm, [prompts[run] for run in part.runs], [run.request.max_new_tokens for run in part.runs]
        )
    texts = Texts(lm.decode)
    for taken in count() if limit is None else range(limit):  # may exceed the budget: particles wait
        if taken:
            for run in batch.runs:
                if run.growing:
                    run.follow()
            for potential, part in factors:
                if any(run.growing for run in part.runs):
                    potential.advance(*part.moves())
            source, tokens = batch.moves()
            if not is_range(source, batch.size):
                lm.select(source)
            lm.advance(tokens)
            for part in (batch, *(part for _, part in factors)):
                part.lay_out()
        table = lm.log_probs().detach()
        drawn = [
            (run, *part)
            for run, first in batch.first.items()
            for part in run.extend(table[first : first + run.states], texts)
        ]
        values = log_values(factors, [(run, shown) for run, _, _, shown in drawn])
        for (run, rows, log_weight, shown), log_psi in zip(drawn, values, strict=True):
            run.reweigh(rows, log_weight, shown, log_psi)
        for run in batch.runs:
            run.resample()
            run.growing = sum(run.particles.growing.tolist())
        yield (growing := sum(run.growing for run in batch.runs))
        if not growing:
            return


def _factors(runs: Sequence[Run]) -> list[tuple[Potential, Batch]]:
    """Return each potential with the runs that it weighs."""
    found: dict[int, tuple[Potential, list[Run]]] = {}
    for run in runs:
        for factor in run.factors:
            found.setdefault(id(factor), (factor, []))[1].append(run)
    return [(factor, Batch(some)) for factor, some in found.values()]


def log_values(
    factors: Sequence[tuple[Potential, Batch]], drawn: Sequence[tuple[Run, Extension]]
) -> list[Float[Tensor, " rows"]]:
    """Return log Ψ of the extensions, the sum over the factors of each run; each factor is evaluated once, on all its runs.

    Rows to which one factor gives zero are not evaluated by those that follow.
    """
    found: dict[int, Tensor] = {}
    for potential, part in factors:
        mine = [i for i, (run, _) in enumerate(drawn) if run in part.first]
        asked = [
            replace(one, alive=one.alive & ~found[i].isneginf()) if i in found else one
            for i, one in ((i, drawn[i][1]) for i in mine)
        ]
        if not asked:
            continue
        joined = part.joined([(drawn[i][0], one) for i, one in zip(mine, asked, strict=True)])
        with nullcontext() if type(potential) in (PrefixPotential, LookaheadPotential) else callers_threads():
            value = potential.log_value(joined)
        value = value.detach().double()
        values = [value] if len(asked) == 1 else value.split([len(one.tokens) for one in asked])
        for i, one, log_psi in zip(mine, asked, values, strict=True):
            check_values(potential, one, log_psi)
            found[i] = found[i] + log_psi.masked_fill(~one.alive, 0.0) if i in found else log_psi
    return [
        found[i] if i in found else torch.zeros(len(one.tokens), dtype=torch.float64)
        for i, (_, one) in enumerate(drawn)
    ]
