"""P-GCD to a tolerance beside the exact one, on the constraints and HMMs of the papers' tasks.

    python benchmarks/tolerance.py DATA [--examples 16] [--tolerance 0.1] [--tasks NAME …]
    python benchmarks/tolerance.py --smoke

DATA is a folder that holds one of each task (:data:`FOLDERS`). For each example both queries are made, and a text is drawn from
the exact one, p_hmm(x | C), in four rows. CPU time of one thread, medians over the examples; the differences are those of all
lookaheads, log p_hmm(C | x_≤t), of tokens that are allowed, in nats.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile.constraints import Vocabulary
from tractile.inference import NextTokenQuery
from tractile_bench import TASKS
from tractile_bench.cli import SAMPLE
from tractile_bench.guides import prompted
from tractile_bench.models import load_small_lm, small_hmm_path
from tractile_bench.prepare import Prepared, Preparer
from tractile_bench.runner import choose

FOLDERS = {
    "function-calling": "bfcl",
    "commongen": "commongen",
    "goal-inference": "planetarium",
    "molecules": "smiles",
    "spider": "spider",
}
ROWS = 4
LEAST = -60.0  # nats; smaller lookaheads are not compared
T = TypeVar("T")


class Figures(NamedTuple):
    """Of one example; the exact query's first, where there are two."""

    states: int
    tables: tuple[float, float]  # seconds
    mebibytes: tuple[float, float]
    step: tuple[float, float]  # milliseconds, of four rows
    largest: float  # difference of lookaheads, nats
    mean: float


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """The result of a call, and its seconds of CPU time."""
    begun = time.process_time()
    return call(), time.process_time() - begun


def figures(one: Prepared, budget: int, tolerance: float) -> Figures:
    """Make both queries, and draw a text in each row."""
    assert one.fa is not None
    assert one.hmm is not None
    fa, hmm = one.fa.guide(), one.hmm
    fa.labels  # noqa: B018  written out before the clock starts
    exact, exact_seconds = timed(lambda: tt.pgcd(hmm, fa, budget))
    near, seconds = timed(lambda: tt.pgcd(hmm, fa, budget, tolerance=tolerance))
    spent, steps, differences = [0.0, 0.0], 0, list[torch.Tensor]()
    generator = torch.Generator().manual_seed(0)
    exact.start(ROWS), near.start(ROWS)
    while bool((exact.remaining > 0).all()) and steps < 64:
        tables = []
        for i, query in enumerate[NextTokenQuery]((exact, near)):
            query.mask()
            found, took = timed(query.lookahead)
            tables.append(found.double())
            spent[i] += took
        known = exact.mask() & (tables[0] > LEAST)
        differences.append((tables[0] - tables[1])[known].abs())
        tokens = torch.multinomial(exact.scores().exp(), 1, generator=generator)[:, 0]
        for i, query in enumerate((exact, near)):
            spent[i] += timed(lambda query=query, tokens=tokens: query.advance(tokens))[1]
        steps += 1
    found = torch.cat(differences)
    return Figures(
        fa.num_states,
        (exact_seconds, seconds),
        (exact.nbytes / 2**20, near.nbytes / 2**20),
        (1e3 * spent[0] / steps, 1e3 * spent[1] / steps),
        float(found.max()),
        float(found.mean()),
    )


def examples(name: str, data: Path, count: int) -> Iterator[tuple[Prepared, int]]:
    """Examples of a task with their constraints and HMMs, and its budget."""
    task: Any = TASKS[name](data)
    network, tokenizer = load_small_lm()
    folder = small_hmm_path(name, "json" if "function" in name else None)
    model, hmm = tt.TransformersLM(network, tokenizer), tt.HMM.from_pretrained(folder)
    vocab = Vocabulary.from_tokenizer(tokenizer)
    preparer = Preparer(
        task, vocab, lambda prompt: prompted(hmm, folder, model, prompt), lambda one: one.prompt
    )
    for example in choose(task, "test", count, seed=0):
        one = preparer.prepare([example])[0]
        if one.error is None:
            yield one, task.max_new_tokens


def main() -> None:
    """Print a table with a row for each task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--examples", type=int, default=16)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--tasks", nargs="+", choices=list(FOLDERS), default=list(FOLDERS))
    given = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)
    if given.smoke:
        given.tasks, given.examples = ["goal-inference"], 1
    print("| task | states | tables, s | MiB | a step, ms | largest difference, nats | mean |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in given.tasks:
        data = SAMPLE / name if given.smoke or given.data is None else given.data / FOLDERS[name]
        rows = [figures(one, budget, given.tolerance) for one, budget in examples(name, data, given.examples)]

        def pair(name: str, digits: int, rows: list[Figures] = rows) -> str:
            both = (statistics.median(getattr(row, name)[i] for row in rows) for i in (0, 1))
            return " → ".join(f"{x:.{digits}f}" for x in both)

        states = round(statistics.median(row.states for row in rows))
        print(
            f"| {name} | {states:,} | {pair('tables', 3)} | {pair('mebibytes', 1)} | {pair('step', 2)} "
            f"| {max(row.largest for row in rows):.3f} | {statistics.mean(row.mean for row in rows):.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
