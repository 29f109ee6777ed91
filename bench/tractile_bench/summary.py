"""Summarise a folder of results: one value per example for each method and number of particles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from tractile.errors import FormatError

from .corpus_metrics import read_corpus_metrics
from .intervals import total_variation
from .methods import METHODS
from .results import read, read_times

Line = dict[str, Any]
ENOUGH = 16
"""Accepted draws at which rejection sampling counts as a sample of p_lm(x | C) for an example; fewer are not used."""


class Summary:
    """The results in a folder, by method, number of particles and example.

    ``examples``: those that every method has run equally often with every number of particles; ``left_out``: the number of
    the others, of an interrupted run, which are ignored. ``repeats``: runs of each, "1" or "1 to 3"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head, lines = read(folder)
        self.metric: str = self.head["metric"]
        if unknown := {line["method"] for line in lines} - METHODS.keys():
            raise FormatError(f"{folder}: results of unknown methods: {', '.join(sorted(unknown))}")
        self._lines: dict[tuple[str, int], dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
        for line in lines:
            self._lines[line["method"], line["k"]][line["example"]].append(line)
        present = {method for method, _ in self._lines}
        self.methods = [name for name in METHODS if name in present]
        numbers = [{e: len(runs) for e, runs in by_example.items()} for by_example in self._lines.values()]
        whole = [{e for e, n in found.items() if n == max(found.values())} for found in numbers]
        self.examples = [
            e for e in dict.fromkeys(line["example"] for line in lines) if all(e in one for one in whole)
        ]
        self.left_out = len({line["example"] for line in lines}) - len(self.examples)
        if not self.examples:
            raise FormatError(f"{folder}: no example has been run by every method yet; go on with the run")
        repeats = sorted({max(found.values()) for found in numbers})
        self.repeats = " to ".join(map(str, (repeats[0], repeats[-1])[: len(repeats)]))

    def sizes(self, method: str) -> list[int]:
        """Return the numbers of particles that a method was run with, ascending."""
        return sorted(k for name, k in self._lines if name == method)

    @cached_property
    def particles(self) -> list[int]:
        """The numbers of particles over all methods except rejection sampling, ascending."""
        return sorted({k for name, k in self._lines if name != "rs"})

    def has(self, method: str, k: int) -> bool:
        """Return whether there are results of a method with a number of particles."""
        return (method, k) in self._lines

    def runs(self, method: str, k: int) -> list[list[Line]]:
        """Return the runs of a method with k particles, one list for each example."""
        by_example = self._lines[method, k]
        return [by_example[example] for example in self.examples]

    def values(self, method: str, k: int, of: Callable[[Line], float]) -> Float[ndarray, " examples"]:
        """Return the mean of ``of`` over the runs of each example."""
        return np.array([fmean(map(of, runs)) for runs in self.runs(method, k)])

    def scores(self, method: str, k: int, name: str | None = None) -> Float[ndarray, " examples"]:
        """Return the expected score of a text drawn by weight (default: the task's metric), by example; 0 for failed runs."""
        name = name or self.metric
        return self.values(method, k, lambda line: line.get("expected", {}).get(name, 0.0))

    def satisfied(self, method: str, k: int) -> Float[ndarray, " examples"]:
        """Return the weight of the texts that satisfy the constraint, by example; for "rs" the share of accepted draws."""
        name = "alive" if method == "rs" else "satisfied"
        return self.values(method, k, lambda line: line.get(name, 0.0))

    def errors(self) -> dict[str, Counter[str]]:
        """Count the errors of each method by their names; methods without errors are left out."""
        found: dict[str, Counter[str]] = {name: Counter() for name in self.methods}
        for (method, _), by_example in self._lines.items():
            for runs in by_example.values():
                found[method].update(line["error"] for line in runs if "error" in line)
        return {name: counts for name, counts in found.items() if counts}

    def answers(self, method: str, k: int) -> tuple[list[list[float]], list[list[float]]]:
        """Return (weights, scores) of the answers of each run; texts of equal meaning are merged (Loula et al. 2025, §3.3)."""
        weights, scores = [], []
        for runs in self.runs(method, k):
            for line in runs:
                total: dict[str, float] = defaultdict(float)
                score: dict[str, float] = {}
                for i, weight in enumerate(line.get("weights", [])):
                    meaning: str = (line.get("meanings") or line["texts"])[i]
                    total[meaning] += weight
                    score[meaning] = max(score.get(meaning, 0.0), line["scores"][i].get(self.metric, 0.0))
                weights.append(list(total.values()))
                scores.append([score[meaning] for meaning in total])
        return weights, scores

    def divergences(
        self, methods: Sequence[str]
    ) -> tuple[int, dict[tuple[str, int], Float[ndarray, " some"]]]:
        """Estimate upper bounds on KL(method ‖ target) in nats, for methods with one target (Loula et al. 2025, Appendix D).

        Returns the number of examples and, by (method, number of particles), the bound of each example. A run that dies (all
        weights zero) makes the bound infinite: its (method, number of particles) is left out, the others are over all
        examples. If runs of every properly weighted method died, only the examples in which no run died are used. log Z is
        estimated from all properly weighted runs with the most particles, so a small bound may come out negative; without
        such runs the result is (0, {}).
        """
        cells = [(name, k) for name in methods for k in self.particles if self.has(name, k)]
        runs = {cell: self.runs(*cell) for cell in cells}
        alive = {
            cell: [all(line.get("quality") is not None for line in lines) for lines in runs[cell]]
            for cell in cells
        }
        corrected = [cell for cell in cells if METHODS[cell[0]].corrected]
        if any(all(alive[cell]) for cell in corrected):
            cells = [cell for cell in cells if all(alive[cell])]
        lived = [i for i in range(len(self.examples)) if all(alive[cell][i] for cell in cells)]
        corrected = [cell for cell in corrected if cell in cells]
        if not corrected:
            return 0, {}
        largest = [cell for cell in corrected if cell[1] == max(k for _, k in corrected)]
        found = {cell: np.zeros(len(lived)) for cell in cells}
        for place, i in enumerate(lived):
            log_z = np.array([line["log_z"] for cell in largest for line in runs[cell][i]])
            reference = np.logaddexp.reduce(log_z) - np.log(len(log_z))
            for cell in cells:
                found[cell][place] = reference - fmean(line["quality"] for line in runs[cell][i])
        return len(lived), found

    def died(self, method: str, k: int) -> int:
        """Count the examples in which some run died, so that log Ẑ is −∞."""
        return sum(any(line.get("quality") is None for line in lines) for lines in self.runs(method, k))

    def divergence_differences(self, method: str, other: str, k: int) -> Float[ndarray, " some"]:
        """Return bound of ``method`` − bound of ``other`` in nats, for each example in which no run of the two died.

        Both have the same target, so the unknown log Z cancels."""
        found = []
        for lines, against in zip(self.runs(method, k), self.runs(other, k), strict=True):
            if all(line.get("quality") is not None for line in (*lines, *against)):
                found.append(
                    fmean(line["quality"] for line in against) - fmean(line["quality"] for line in lines)
                )
        return np.array(found)

    @cached_property
    def together(self) -> tuple[int, dict[str, dict[tuple[str, int], float]]]:
        """The corpus-level metrics, as :func:`.read_corpus_metrics` returns them."""
        return read_corpus_metrics(self.folder)

    @cached_property
    def truth(self) -> dict[str, list[str]]:
        """The accepted draws of rejection sampling, for the examples with at least ``ENOUGH`` of them."""
        found = {}
        for k in self.sizes("rs"):
            for example, runs in zip(self.examples, self.runs("rs", k), strict=True):
                texts = [text for line in runs for text in line.get("texts", [])]
                if len(texts) >= ENOUGH:
                    found[example] = texts
        return found

    def distances(self, method: str, k: int) -> Float[ndarray, " examples"]:
        """Return the total variation between a run's texts and exact draws, for each example in :attr:`truth`.

        The exact draws are the second half of the accepted draws of rejection sampling. The method "rs" stands for k draws of
        the first half: the distance that exact sampling would have."""
        found = []
        for example, runs in zip(self.examples, self._of(method, k), strict=True):
            if example in self.truth:
                draws = self.truth[example]
                target = _shares(draws[len(draws) // 2 :])
                if method == "rs":
                    found.append(total_variation(_shares(draws[: min(k, len(draws) // 2)]), target))
                    continue
                texts = [dict(zip(r.get("texts", []), r.get("weights", []), strict=True)) for r in runs]
                # Weights may sum to less than 1: the rest is mass on no text.
                found.append(fmean(total_variation(t, target) + (1 - sum(t.values())) / 2 for t in texts))
        return np.array(found)

    def _of(self, method: str, k: int) -> list[list[Line]]:
        return [[] for _ in self.examples] if method == "rs" else self.runs(method, k)

    @cached_property
    def latency(self) -> dict[tuple[str, int], list[float]]:
        """The milliseconds for a token of a particle in each batch, without compilation and backward messages."""
        found: dict[tuple[str, int], list[float]] = defaultdict(list)
        for line in read_times(self.folder):
            if "method" in line and line["tokens"]:
                found[line["method"], line["k"]].append(1000 * line["seconds"] / line["tokens"])
        return dict(found)

    def setup(self) -> tuple[float, float]:
        """Return the seconds for an example: to compile its constraint, and to compute the tables of the HMM's queries."""
        times = read_times(self.folder)
        compiled = [line for line in times if "compile" in line]
        examples = sum(line["examples"] for line in compiled)
        swept = sum(line["setup"] for line in times if "setup" in line and METHODS[line["method"]].guided)
        return sum(line["compile"] for line in compiled) / examples, swept / examples


def _shares(texts: Sequence[str]) -> dict[str, float]:
    return {text: count / len(texts) for text, count in Counter(texts).items()}
