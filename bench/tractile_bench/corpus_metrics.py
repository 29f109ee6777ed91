"""Corpus-level metrics, such as BLEU: computed when all examples have run, stored beside the results."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from tractile.errors import FormatError
from tractile.storage import write_atomically

from .base import Example, Task
from .results import read

FILE = "together.json"


def write_corpus_metrics(task: Task, examples: Sequence[Example], folder: Path) -> None:
    """Write :meth:`Task.aggregate` of each (method, particles, seed) that has run all examples to ``together.json``.

    Writes no file for a task without such metrics."""
    found = []
    runs: dict[tuple[str, int, int], dict[str, dict[str, float]]] = defaultdict(dict)
    for line in read(folder)[1]:
        weights: dict[str, float] = defaultdict(float)
        for text, weight in zip(line.get("texts", []), line.get("weights", []), strict=True):
            weights[text] += weight
        runs[line["method"], line["k"], line["seed"]][line["example"]] = weights
    for (method, k, seed), answers in runs.items():
        if all(example.id in answers for example in examples):
            scores = task.aggregate([(example, answers[example.id]) for example in examples])
            if scores:
                found.append({"method": method, "k": k, "seed": seed, "scores": scores})
    if found:
        text = json.dumps({"examples": len(examples), "runs": found}, allow_nan=False)
        write_atomically(folder / FILE, text.encode())


def read_corpus_metrics(folder: Path) -> tuple[int, dict[str, dict[tuple[str, int], float]]]:
    """Read (number of examples, {metric: {(method, particles): mean over seeds}}); (0, {}) if there is no file.

    Raises :class:`FormatError` for a damaged file."""
    path = folder / FILE
    if not path.is_file():
        return 0, {}
    values: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        for run in held["runs"]:
            for name, value in run["scores"].items():
                values[name][run["method"], run["k"]].append(float(value))
        return int(held["examples"]), {
            name: {cell: fmean(of_seeds) for cell, of_seeds in cells.items()}
            for name, cells in values.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path} does not hold corpus metrics: {error!r}") from error
