"""Scores of all answers together, such as corpus BLEU: made when a run is whole, kept beside the results."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from ..errors import FormatError
from ..storage import write_atomically
from .base import Example, Task
from .results import former_names, read

FILE = "together.json"


def write_together(task: Task, examples: Sequence[Example], folder: Path) -> None:
    """``together.json``: of each method, number of particles and seed that has run all examples, what
    :meth:`Task.aggregate` says of its answers. No file where the task says nothing."""
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


def read_together(folder: Path) -> tuple[int, dict[str, dict[tuple[str, int], float]]]:
    """The number of examples, and by name the score of each method and number of particles, the mean of its seeds; nothing
    where there is no file. Raises :class:`FormatError` for a file that is broken."""
    path = folder / FILE
    if not path.is_file():
        return 0, {}
    values: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    try:
        held, names = json.loads(path.read_text(encoding="utf-8")), former_names(folder)
        for run in held["runs"]:
            method = names.get(run["method"], run["method"])
            for name, value in run["scores"].items():
                values[name][method, run["k"]].append(float(value))
        return int(held["examples"]), {
            name: {cell: fmean(of_seeds) for cell, of_seeds in cells.items()}
            for name, cells in values.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path} does not hold scores of answers together: {error!r}") from error
