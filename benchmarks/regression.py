"""Figures of speed, each a ratio to a floor or to a loop written by hand in the same run, and their history.

Both sides of a ratio run in interleaved rounds on one core; a figure is the median of the ratios of CPU times. So it says the
same on a faster machine, and nearly the same on a busy one. Floors:

    python     20,000 entries put into a dict: for what Tractile does in Python
    copy       the words of a mask copied: for masks
    torch      the loop or the matrix product that one would write for the question alone

    python benchmarks/regression.py              the figures beside those recorded last
    python benchmarks/regression.py --smoke      with fewer rounds; exits with 1 where one is over twice the last
    python benchmarks/regression.py --record     into benchmarks/regression.json, and the picture docs/regression.png

A figure over the limit is measured again, twice at most, before it counts.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from masks import TASKS
from peers.circuits import Problem, plain_em, plain_forward, plain_partition
from smc import PROMPT, forward_only

import tractile as tt
from circuits import race
from decoding import phrases, random_hmm, rescored, warmed
from tractile import constraints, distill

HISTORY = Path(__file__).with_suffix(".json")
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "regression.png"
LIMIT = 2.0
"""Times the figure recorded last. Caches shared with other work raise a ratio to 1.6 times."""
IMPORTS = "import tractile", "import torch, transformers"
Sides = tuple[Callable[[], Any], Callable[[], Any]]


def python() -> None:
    """Work for the interpreter."""
    found: dict[int, int] = {}
    for i in range(20_000):
        found[i * 7 % 5_003] = found.get(i, 0) + 1


@cache
def language_model() -> tuple[tt.TransformersLM, tt.Vocabulary]:
    """The embedded model and its vocabulary."""
    model, tokenizer = tt.embedded.load_lm()
    return tt.TransformersLM(model, tokenizer), tt.Vocabulary.from_tokenizer(tokenizer)


def schema(name: str) -> tuple[Any, str]:
    """A schema of benchmarks/masks.py, and an instance."""
    return next((given, json.dumps(instance)) for task, given, instance in TASKS if task == name)


def compiled(make: Callable[[], tt.Constraint]) -> Sides:
    """A constraint made, compiled, and its first mask."""
    vocab = language_model()[1]
    vocab.trie  # noqa: B018
    return lambda: tt.gcd(make().compile(vocab), 200).start().bitmask(), python


def walked(make: Callable[[], tt.Constraint], text: str) -> Sides:
    """Masks along a text, all met before."""
    lm, vocab = language_model()
    query = tt.gcd(make().compile(vocab), 256)
    tokens = lm.tokenizer.encode(text, add_special_tokens=False)
    out = torch.empty(1, -(-len(vocab) // 32), dtype=torch.int32)
    words = np.zeros(out.shape[1], np.int32)
    line, source = words.data, words.copy().data

    def walk() -> None:
        query.start()
        for token in tokens:
            query.bitmask(out=out)
            query.advance([token])

    def copy() -> None:
        for _ in tokens:
            line[:] = source

    walk()
    return walk, copy


def guided(batch: int) -> Sides:
    """A step of P-GCD beside the matrix product over the vocabulary that each step needs."""
    automaton, hmm = phrases(4096), random_hmm(256, 4096)
    query = warmed(tt.pgcd(hmm, automaton, 32), automaton, batch)
    x = torch.rand(batch, 256)
    return lambda: rescored(query), lambda: (x @ hmm.emission_probs).softmax(1)


def sampled() -> Sides:
    """GCD with 8 particles beside the model alone on as many rows."""
    lm, vocab = language_model()
    automaton = constraints.regex("[a-z ]{30,40}").compile(vocab)
    return (
        lambda: tt.smc(lm, PROMPT, automaton, "gcd", None, 8, 20, 0),
        lambda: forward_only(lm, [1] + [8] * 19),
    )


def figures() -> dict[str, Callable[[], Sides]]:
    """Both sides of each ratio by name."""
    problem, wide = Problem.random(128, 500, 32, 32), Problem.random(64, 2000, 24, 16)
    a, b = Problem.random(32, 300, 1, 1), Problem.random(24, 300, 1, 1)
    both, hmm = a.hmm * b.hmm, problem.hmm
    words = [["house", "houses"], ["garden"], ["river", "rivers"]]
    regex = "([0-9]{4}-[0-9]{2}-[0-9]{2}|[a-z]+@[a-z]+\\.com)( .{0,40})?"
    grammar = 'start: "[" (start ("," start)*)? "]" | /[a-z]+/ | NUMBER\nNUMBER: /[0-9]+/\n'
    rows = distill.sharding.ShardedHMM.of(hmm)
    json_schema = constraints.json_schema
    found: dict[str, Callable[[], Sides]] = {
        "HMM: forward / torch": lambda: (
            lambda: tt.log_marginal(hmm, problem.tokens),
            lambda: plain_forward(*problem.parameters, problem.tokens),
        ),
        "HMM: EM / torch": lambda: (
            lambda: tt.inference.em_step(hmm, problem.tokens),
            lambda: plain_em(*problem.parameters, problem.tokens),
        ),
        "HMM: EM of distillation / torch": lambda: (
            lambda: distill.em.em_step(rows, problem.tokens, 1.0, 1e-3, 32, None),
            lambda: plain_em(*problem.parameters, problem.tokens),
        ),
        "HMM: forward, wide / torch": lambda: (
            lambda: tt.log_marginal(wide.hmm, wide.tokens),
            lambda: plain_forward(*wide.parameters, wide.tokens),
        ),
        "product: partition / torch": lambda: (
            lambda: tt.partition(both, n=20),
            lambda: plain_partition(a, b, 20),
        ),
        "P-GCD: a step of 1 / torch": lambda: guided(1),
        "P-GCD: a step of 16 / torch": lambda: guided(16),
        "sampler: GCD / model": sampled,
        "masks: regex / copy": lambda: walked(lambda: constraints.regex(regex), "2026-11-23 and some text"),
        "masks: grammar / copy": lambda: walked(lambda: constraints.grammar(grammar), "[one,[2,three],4]"),
        "compile: regex / python": lambda: compiled(lambda: constraints.regex(regex)),
        "compile: grammar / python": lambda: compiled(lambda: constraints.grammar(grammar)),
        "compile: keywords / python": lambda: compiled(lambda: constraints.keywords(words)),
        "vocabulary: trie / python": lambda: (
            lambda: tt.Vocabulary(language_model()[1].token_bytes, language_model()[1].eos_token_id).trie,
            python,
        ),
    }
    for name, *_ in TASKS[:3]:
        given, text = schema(name)
        found[f"compile: {name} / python"] = lambda given=given: compiled(lambda: json_schema(given))  # type: ignore[misc]
        found[f"masks: {name} / copy"] = lambda given=given, text=text: walked(
            lambda: json_schema(given), text
        )  # type: ignore[misc]
    return found


def measured(sides: Sides, rounds: int) -> float:
    """The median ratio of CPU times."""
    for side in sides:
        side()
    return statistics.median(
        race(dict(zip(("first", "second"), sides, strict=True)), rounds, 30)["second"].ratio
    )


def import_ratio(rounds: int) -> float:
    """The CPU time of importing Tractile over that of torch and transformers, in processes of their own."""

    def spent(program: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", program], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return statistics.median(spent(IMPORTS[0]) / spent(IMPORTS[1]) for _ in range(rounds))


def machine() -> str:
    """The class of this machine: figures are compared within it."""
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__.split('.')[0]}"


def draw(records: list[dict[str, Any]]) -> None:
    """Draw the history of each figure over its first record."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = sorted(records[-1]["figures"])
    figure, axes = pyplot.subplots(-(-len(names) // 4), 4, figsize=(13, 10), sharex=True)
    for axis, name in zip(axes.flat, names, strict=False):
        values = [record["figures"].get(name, float("nan")) for record in records]
        axis.plot(range(len(values)), values, marker="o", markersize=3)
        axis.axhline(LIMIT * values[-1], color="0.7", linewidth=0.8, linestyle="--")
        axis.set_title(name, fontsize=8)
        axis.set_ylim(0, None)
        axis.set_xticks(range(len(records)), [record["date"] for record in records], rotation=45, fontsize=6)
        axis.tick_params(axis="y", labelsize=7)
    for axis in list(axes.flat)[len(names) :]:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=90)


def main() -> None:
    """Measure, compare, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="fewer rounds; exit with 1 over the limit")
    parser.add_argument("--record", action="store_true", help="write the figures and the picture")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 7 if arguments.smoke else 21
    records = json.loads(HISTORY.read_text()) if HISTORY.exists() else []
    last = next((one["figures"] for one in reversed(records) if one["machine"] == machine()), {})
    now, over = dict[str, float](), list[str]()
    wanted: dict[str, Callable[[], float]] = {"import / torch, transformers": lambda: import_ratio(3)}
    wanted |= {name: lambda make=make: measured(make(), rounds) for name, make in figures().items()}  # type: ignore[misc]
    print("| figure | ratio | last |\n| --- | --- | --- |")
    for name, measure in wanted.items():
        limit = LIMIT * last.get(name, float("inf"))
        now[name] = measure()
        for _ in range(2):
            if now[name] > limit:
                now[name] = min(now[name], measure())
        over += [name] * (now[name] > limit)
        print(
            f"| {name} | {now[name]:.3g}{' **over the limit**' * (name in over)} | {last.get(name, '–')} |",
            flush=True,
        )
    if arguments.record:
        rounded = {name: float(f"{value:.3g}") for name, value in now.items()}
        records.append({"date": datetime.date.today().isoformat(), "machine": machine(), "figures": rounded})
        HISTORY.write_text(json.dumps(records, indent=1) + "\n")
        draw(records)
    if over:
        print(f"over {LIMIT:g} times what was recorded last: {', '.join(over)}")
    sys.exit(bool(over) and arguments.smoke)


if __name__ == "__main__":
    main()
