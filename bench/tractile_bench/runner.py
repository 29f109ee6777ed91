"""Run a task: every example by every method with every number of particles, in batches, into a folder of results.

A batch is one method, one number of particles and one seed on many examples, which share the language model's calls. Equal
constraints are compiled once, and all methods share the backward messages of an automaton. A failed run counts: its line has
the error's name, and it scores zero.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from tractile.circuits.hmm import HMM
from tractile.constraints import Vocabulary
from tractile.errors import EvidenceError, TractileError
from tractile.inference.smc import Posterior, smc
from tractile.inference.smc.query_cache import forget, keeping
from tractile.lm import LanguageModel
from tractile.lm.base import Prompt

from .answers import Answers, answers_of
from .base import Example, Task
from .counting_lm import CountingLM
from .methods import METHODS, potential, proposal
from .pilot import CALIBRATED, find_strength
from .prepare import HMM_MEMORY, Prepared, Preparer, split_by_memory
from .results import Key, Results
from .stop_at_newline import NewlineStopLM

DRAWS_AT_ONCE = 1024
"""Draws of rejection sampling in one batch, over all its examples: each needs its own keys and values in the model."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    ``draws``: the most texts that rejection sampling draws for an example; ``wanted``: the number of accepted texts at which
    it stops; ``w``: the language model's weight in pgcd's mixture; ``strength``: strength of the lookahead, "auto": found by
    pilots on the first examples, one for runs of one particle and one for several; ``batch``: examples at once."""

    methods: Sequence[str]
    particles: Sequence[int]
    seeds: Sequence[int] = (0,)
    max_new_tokens: int = 64
    batch: int = 16
    draws: int = 256
    wanted: int = 64
    w: float = 0.5
    strength: float | Literal["auto"] = "auto"


def choose(task: Task, split: str, limit: int | None, seed: int) -> list[Example]:
    """Choose ``limit`` examples at random by ``seed``, None: all; a smaller limit chooses a subset of a larger one."""
    examples = list(task.examples(split))
    random.Random(seed).shuffle(examples)
    return examples[:limit]


class Bench:
    """A task with a language model; :meth:`run` resumes where the results end.

    ``prompt`` returns the model's prompt for an example (default: its text); ``hmm`` is an HMM or a function of the prompt.
    """

    def __init__(
        self,
        task: Task,
        lm: LanguageModel,
        vocab: Vocabulary,
        settings: Settings,
        hmm: HMM | Callable[[Prompt], HMM] | None = None,
        prompt: Callable[[Example], Prompt] = lambda example: example.prompt,
    ) -> None:
        self.task, self.settings = task, settings
        self.lm = CountingLM(NewlineStopLM(lm, vocab) if task.one_line else lm)
        self._strengths = {True: 1.0, False: 1.0}  # for runs of one particle, for runs of several
        self._preparer = Preparer(task, vocab, hmm, prompt)
        for name in settings.methods:
            if METHODS[name].guided and hmm is None:
                raise EvidenceError(f"the method {name} needs an HMM")
            if METHODS[name].potential and type(task).potential is Task.potential:
                raise self._no_potential(name)

    def _no_potential(self, name: str) -> EvidenceError:
        return EvidenceError(f"{name} weighs texts by a potential, and the task {self.task.name} has none")

    def run(
        self, examples: Sequence[Example], results: Results, tick: Callable[[int], None] = lambda runs: None
    ) -> None:
        """Run everything that ``results`` lack; ``tick`` is called with the number of runs just done.

        Raises :class:`EvidenceError` if two examples have the same id."""
        if len({example.id for example in examples}) < len(examples):
            raise EvidenceError(f"{self.task.name}: two examples have the same id")
        if any(METHODS[name].looks_ahead for name in self.settings.methods):
            self._find_strengths(examples[:CALIBRATED], results)
        size = self.settings.batch
        # A batch is as wide as its longest prompt.
        examples = sorted(examples, key=lambda example: len(example.prompt))
        for chunk in (examples[i : i + size] for i in range(0, len(examples), size)):
            cells = [
                Key(e.id, m, k, s) for e in chunk for m in self.settings.methods for k, s in self._sizes(m)
            ]
            missing = sum(cell not in results.done for cell in cells)
            tick(len(cells) - missing)
            if missing:
                self._chunk(chunk, results, tick)

    def _find_strengths(self, examples: Sequence[Example], results: Results) -> None:
        """Set the strengths of the lookahead: as given, from ``results``, or found by pilots and stored in ``results``."""
        prepared = None
        for single in sorted({k == 1 for k in self.settings.particles}):
            if self.settings.strength != "auto":
                self._strengths[single] = self.settings.strength
                continue
            if (kept := results.strength(single)) is None:
                if prepared is None:
                    prepared = [one for one in self._preparer.prepare(examples) if one.error is None]
                k = 1 if single else min(k for k in self.settings.particles if k > 1)
                found = find_strength(self.lm, prepared, k, self.settings.max_new_tokens)
                if found is None or found.value is None:
                    continue
                results.keep_strength(found, single)
                kept = found.value
            self._strengths[single] = kept

    def _sizes(self, name: str) -> list[tuple[int, int]]:
        """List (particles, seed) of a method's runs; rejection sampling has one size, its maximal number of draws."""
        sizes = [self.settings.draws] if name == "rs" else self.settings.particles
        return [(k, seed) for k in sizes for seed in self.settings.seeds]

    def number(self, examples: Sequence[Example]) -> int:
        """Return the number of runs on these examples."""
        return len(examples) * sum(len(self._sizes(name)) for name in self.settings.methods)

    def _chunk(self, chunk: Sequence[Example], results: Results, tick: Callable[[int], None]) -> None:
        begun = time.perf_counter()
        prepared = self._preparer.prepare(chunk)
        first = chunk[0].id
        results.time({"example": first, "compile": time.perf_counter() - begun, "examples": len(chunk)})
        plain = [name for name in self.settings.methods if not METHODS[name].guided]
        guided = [name for name in self.settings.methods if METHODS[name].guided]
        self._methods(plain, prepared, results, tick)
        if guided:
            for part in split_by_memory(prepared, self.settings.max_new_tokens):
                with keeping(HMM_MEMORY):
                    self._methods(guided, part, results, tick)
                for one in part:
                    if one.fa is not None:
                        forget(one.fa)

    def _methods(
        self,
        names: Sequence[str],
        prepared: Sequence[Prepared],
        results: Results,
        tick: Callable[[int], None],
    ) -> None:
        for name in names:
            if METHODS[name].potential and any(
                one.failed(METHODS[name]) is None and one.potential is None for one in prepared
            ):
                raise self._no_potential(name)
            for k, seed in self._sizes(name):
                keys = [Key(one.example.id, name, k, seed) for one in prepared]
                if missing := sum(key not in results.done for key in keys):
                    lines, took = self._batch(name, k, seed, prepared)
                    results.add([{**key._asdict(), **line} for key, line in zip(keys, lines, strict=True)])
                    results.time({"example": keys[0].example, "method": name, "k": k, "seed": seed, **took})
                    tick(missing)

    def _batch(
        self, name: str, k: int, seed: int, prepared: Sequence[Prepared]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Run a batch; return (a line of results for each example, the times of the batch)."""
        self.lm.reset()
        begun, busy = time.perf_counter(), time.process_time()
        setup: list[float] = []
        found: dict[int, Answers | TractileError] = {}
        ready = []
        for one in prepared:
            if (error := one.failed(METHODS[name])) is not None:
                found[id(one)] = error
            else:
                ready.append(one)
        try:
            together = self._sample(name, k, seed, ready, setup)
            found |= {id(one): answers for one, answers in zip(ready, together, strict=True)}
        except TractileError:  # one example failed: run each alone
            for one in ready:
                try:
                    found[id(one)] = self._sample(name, k, seed, [one], setup)[0]
                except TractileError as error:
                    found[id(one)] = error
        took = {
            "setup": sum(setup),
            "seconds": time.perf_counter() - begun - sum(setup),
            "cpu": time.process_time() - busy,
            "calls": self.lm.calls,
            "rows": self.lm.rows,
            "tokens": sum(a.tokens for a in found.values() if isinstance(a, Answers)),
            "examples": len(ready),
        }
        return [self._line(one, found[id(one)]) for one in prepared], took

    def _sample(
        self, name: str, k: int, seed: int, prepared: Sequence[Prepared], setup: list[float]
    ) -> list[Answers]:
        """Sample the particles of every example; append the seconds before the language model's first call to ``setup``.

        Raises the error of any of the examples."""
        if not prepared:
            return []
        begun, self.lm.started = time.perf_counter(), None
        try:
            if name == "rs":
                return self._rejection(prepared, seed)
            seeds = [_stream(seed, one.example.id, name) for one in prepared]
            return [answers_of(post, METHODS[name]) for post in self._posteriors(name, k, prepared, seeds)]
        finally:
            setup.append((self.lm.started or time.perf_counter()) - begun)

    def _posteriors(
        self, name: str, k: int, prepared: Sequence[Prepared], seeds: Sequence[int]
    ) -> list[Posterior]:
        method = METHODS[name]
        return smc(
            self.lm,
            prompts=[one.prompt for one in prepared],
            fa=[one.fa if method.constrained else None for one in prepared],
            proposal=proposal(method, self.settings.w, self._strengths[k == 1]),
            hmm=[one.hmm if method.guided else None for one in prepared],
            particles=k,
            max_new_tokens=self.settings.max_new_tokens,
            seed=seeds,
            potential=[potential(method, one.potential) for one in prepared],
            resampling=method.resampling,
            ess_threshold=method.ess_threshold,
            beam_factor=method.beam_factor,
            align=[self.task.align(one.example) if method.aligned else None for one in prepared],
        )

    def _rejection(self, prepared: Sequence[Prepared], seed: int) -> list[Answers]:
        """Rejection sampling: draw in rounds until each example has enough accepted texts."""
        found = [Answers.none() for _ in prepared]
        left, settings, number = list(range(len(prepared))), self.settings, 0
        while left:
            size = min(64, settings.draws - found[left[0]].draws)
            width = max(1, DRAWS_AT_ONCE // size)
            for some in (left[i : i + width] for i in range(0, len(left), width)):
                seeds = [_stream(seed, prepared[i].example.id, "rs", number) for i in some]
                posteriors = self._posteriors("rs", size, [prepared[i] for i in some], seeds)
                for i, post in zip(some, posteriors, strict=True):
                    found[i] = found[i].with_draws(post, settings.wanted)
            left = [
                i for i in left if found[i].accepted < settings.wanted and found[i].draws < settings.draws
            ]
            number += 1
        return found

    def _line(self, one: Prepared, answers: Answers | TractileError) -> dict[str, Any]:
        """Make the line of results of a run: scores and meanings of its texts, or its error."""
        if isinstance(answers, TractileError):
            return {"error": type(answers).__name__, "message": str(answers)}
        assert one.constraint is not None
        for text in answers.texts:
            if text not in one.judged:
                scores = {name: float(value) for name, value in self.task.scores(one.example, text).items()}
                if bad := [name for name, value in scores.items() if not math.isfinite(value)]:
                    raise EvidenceError(
                        f"{self.task.name}, {one.example.id}: {bad[0]} of {text!r} is no number"
                    )
                one.judged[text] = scores, one.constraint.accepts(text)
        line = answers.line([one.judged[text] for text in answers.texts])
        meanings = [self.task.meaning(one.example, text) for text in answers.texts]
        return line if meanings == list(answers.texts) else line | {"meanings": meanings}


def _stream(seed: int, example: str, method: str, number: int = 0) -> int:
    """Return the seed of a run, a hash of ``seed`` and the example.

    All methods have the same seed, except rejection sampling ("rs"), their reference, which has another one in each round.
    """
    apart = f"rs{number or ''}" if method == "rs" else ""
    return int.from_bytes(hashlib.sha256(f"{seed}|{example}|{apart}".encode()).digest()[:7])


def fingerprint(tensors: Sequence[torch.Tensor]) -> str:
    """Hash parameters by their shapes and first values."""
    out = hashlib.sha256()
    for tensor in tensors:
        out.update(str(tuple(tensor.shape)).encode())
        out.update(tensor.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return out.hexdigest()[:16]
