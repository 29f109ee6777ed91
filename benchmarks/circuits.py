"""Circuits beside other engines: an HMM's forward pass and EM step, and the partition function of a product.

    forward    log p of B sequences of T tokens under one HMM (H states, V tokens)
    EM         one exact EM step on the same sequences, from the same parameters
    product    log Σ_x p(x) q(x) for chains of K and K' states
    long       log p of a chain of thousands of tokens, against float64 in log space
    Monarch    an EM step with 4,096 states, beside a dense transition

Everyone gets the same float32 parameters and tokens, on one core. Rounds are interleaved: each round times every engine
once, in an order of its own. Reported are medians:

    CPU, wall  milliseconds a call
    ratio      Tractile's CPU time over the engine's in the same round; below 1, Tractile is faster
    GFLOP/s    the multiplications and additions that the question needs, 2·B·T·H² and so on, over CPU time
    Δ          the largest difference from Tractile's answer, in nats

*plain torch* is the loop that one would write by hand for the question alone (see peers/circuits.py). Engines that are not
installed are named and left out: `pip install -e ".[peers]"` installs them.

    python benchmarks/circuits.py [--smoke] [--rounds N] [--budget SECONDS]
"""

import argparse
import importlib.metadata
import math
import os
import random
import statistics
import sys
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from peers.circuits import (
    ENGINES,
    Call,
    Engine,
    Problem,
    cirkit_partition,
    plain_em,
    plain_forward,
    plain_partition,
)

import tractile as tt


def version(distribution: str) -> str | None:
    """The installed version."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass
class Times:
    """Seconds a call, and Tractile's CPU time over the engine's in the same round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    ratio: list[float] = field(default_factory=list)


def race(calls: dict[str, Call], rounds: int, budget: float) -> dict[str, Times]:
    """Interleaved rounds; the first entry is what others are compared to. Each was called before.

    An engine leaves after three rounds if they took more than ``budget`` seconds. Calls under 10 ms are repeated.
    """
    times = {name: Times() for name in calls}
    names, first, repeats, rng = list(calls), next(iter(calls)), dict[str, int](), random.Random(0)

    def once(name: str) -> tuple[float, float]:
        number = repeats.get(name, 1)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(number):
            calls[name]()
        return (time.process_time() - cpu) / number, (time.perf_counter() - wall) / number

    for name in names:
        repeats[name] = max(1, math.ceil(0.01 / max(min(once(name)[0] for _ in range(3)), 1e-6)))
    for _ in range(rounds):
        running = [n for n in names if n == first or len(times[n].wall) < 3 or sum(times[n].wall) < budget]
        found = {name: once(name) for name in rng.sample(running, len(running))}
        for name, (cpu, wall) in found.items():
            times[name].cpu.append(cpu)
            times[name].wall.append(wall)
            times[name].ratio.append(found[first][0] / cpu)
    return times


def table(times: dict[str, Times], units: int, unit: str, flops: float, extra: dict[str, str]) -> str:
    """The Markdown table; ``units`` of work a call, and one more column."""
    lines = [
        f"| | CPU / wall, ms | {unit}/s | ratio | GFLOP/s | {extra['']} |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, t in times.items():
        cpu, wall = statistics.median(t.cpu), statistics.median(t.wall)
        lines.append(
            f"| {name} | {milliseconds(cpu)} / {milliseconds(wall)} | {units / cpu:,.0f} | {statistics.median(t.ratio):.3g} "
            f"| {flops / cpu / 1e9:.3g} | {extra[name]} |"
        )
    return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    """Three figures, or all before the point."""
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def difference(value: Any, ours: Any) -> str:
    """The largest difference in nats; of the sums, where a sum is all that there is."""
    a, b = (np.asarray(x, dtype=np.float64).ravel() for x in (value, ours))
    return f"{np.abs(a - b if len(a) == len(b) else a.sum() - b.sum()).max():.1e}"


def hmms(problem: Problem, rounds: int, budget: float) -> None:
    """The forward pass and the EM step."""
    (hidden, vocab_size), (batch, length) = problem.emission.shape, problem.tokens.shape
    engines: dict[str, Engine] = {}
    for name, (distribution, make) in ENGINES.items():
        if (number := version(distribution)) is None:
            print(f"{name}: not installed, left out", file=sys.stderr)
        else:
            engines[name if distribution == "torch" else f"{name} {number}"] = make(problem)
    exact, tokens = problem.exact, batch * length
    log_p = plain_forward(*exact.parameters, exact.tokens)
    flops, gathered = 2 * tokens * hidden**2, tokens * hidden

    scores = {name: engine.score for name, engine in engines.items() if engine.score}
    answers = {name: score() for name, score in scores.items()}
    delta = {name: difference(answer, answers["tractile"]) for name, answer in answers.items()}
    print(
        f"\nForward, H = {hidden}, V = {vocab_size:,}, T = {length}, B = {batch}: 2·B·T·H² = {flops / 1e6:.4g} MFLOP on at "
        f"least {4e-6 * (2 * gathered + hidden**2):.3g} MB. Tractile differs from float64 by at most "
        f"{difference(answers['tractile'], log_p)} nats of {-float(log_p.mean()):.0f}.\n"
    )
    print(table(race(scores, rounds, budget), tokens, "tokens", flops, delta | {"": "Δ, nats"}))

    steps = {name: engine.em for name, engine in engines.items() if engine.em}
    after = {"": "log p after it, nats a token"}
    for name, step in steps.items():
        step()
        reached, note = engines[name].reached, engines[name].note
        found = f"{float(reached()) / tokens:.6f}" if reached else "–"
        after[name] = f"{found} ({note})" if note else found
    best = plain_forward(*plain_em(*exact.parameters, exact.tokens), exact.tokens)
    print(
        f"\nEM step on the same: 6·B·T·H² = {3e-6 * flops:.4g} MFLOP on at least "
        f"{4e-6 * (5 * gathered + 2 * hidden * (hidden + vocab_size)):.3g} MB. In float64 it raises log p from "
        f"{float(log_p.sum()) / tokens:.6f} to {float(best.sum()) / tokens:.6f} nats a token.\n"
    )
    print(table(race(steps, rounds, budget), tokens, "tokens", 3 * flops, after))


def product(sizes: tuple[int, int], vocab_size: int, length: int, rounds: int, budget: float) -> None:
    """The partition function of a product of two chains."""
    (k, m), (a, b) = sizes, (Problem.random(hidden, vocab_size, 1, 1) for hidden in sizes)
    both = a.hmm * b.hmm
    calls: dict[str, Call] = {
        "tractile": lambda: tt.partition(both, n=length),
        "plain torch, factored": partial(plain_partition, a, b, length),
    }
    if version("libcirkit") is None:
        print("cirkit: not installed, left out", file=sys.stderr)
    else:
        calls["cirkit"] = cirkit_partition(a, b, length)
    exact = float(plain_partition(a.exact, b.exact, length))
    answers = {name: call() for name, call in calls.items()}
    delta = {name: difference(answer, answers["tractile"]) for name, answer in answers.items()}
    flops = 2 * (length - 1) * k * m * (k + m) + 2 * k * m * vocab_size
    print(
        f"\nPartition function of a product, K = {k}, K' = {m}, V = {vocab_size:,}, T = {length}: 2·(T − 1)·K·K'·(K + K') "
        f"+ 2·K·K'·V = {1e-6 * flops:.3g} MFLOP on at least {4e-6 * (k * k + m * m + (k + m) * vocab_size):.2g} MB. "
        f"Tractile differs from float64 by {difference(answers['tractile'], exact)} nats of {-exact:.0f}.\n"
    )
    print(table(race(calls, rounds, budget), 1, "calls", flops, delta | {"": "Δ, nats"}))


def long_chain(hidden: int, vocab_size: int, length: int) -> None:
    """One long sequence: float32 against a float64 loop in log space."""
    problem = Problem.random(hidden, vocab_size, length, 1)
    initial, transition, emission = (p.double().log() for p in problem.parameters)
    message = initial + emission[:, problem.tokens[0, 0]]
    for token in problem.tokens[0, 1:]:
        message = (message[:, None] + transition).logsumexp(0) + emission[:, token]
    exact, found = float(message.logsumexp(0)), float(tt.log_marginal(problem.hmm, problem.tokens))
    print(
        f"\nLong chain: H = {hidden}, V = {vocab_size:,}, T = {length:,}, float32: log p = {found:.4f} nats; in float64 log "
        f"space {exact:.4f}; relative difference {abs(found / exact - 1):.1e}."
    )


def monarch(hidden: int, vocab_size: int, length: int, batch: int, rounds: int) -> None:
    """An EM step with a Monarch transition beside one with a dense transition."""
    tokens = torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(0))
    forms = {form: tt.HMM.random(hidden, vocab_size, form) for form in ("dense", "monarch")}
    calls: dict[str, Call] = {form: partial(tt.inference.em_step, hmm, tokens) for form, hmm in forms.items()}
    print(f"\nEM step, H = {hidden:,}, V = {vocab_size:,}, T = {length}, B = {batch}\n")
    print("| transition | CPU, ms | times the dense time | transition, MB |\n| --- | --- | --- | --- |")
    for form, found in race(calls, rounds, 120).items():
        size = sum(4e-6 * weight.numel() for weight in forms[form].transition.parameters())
        cpu, ratio = milliseconds(statistics.median(found.cpu)), 1 / statistics.median(found.ratio)
        print(f"| {form} | {cpu} | {ratio:.3g} | {size:.3g} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--budget", type=float, default=10, help="seconds for an engine that is slow")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # one core: not every engine can be told how many threads to use
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # those of the engines
    rounds, budget = (3, 0.5) if args.smoke else (args.rounds, args.budget)
    sizes = (16, 50, 8, 4) if args.smoke else (256, 1000, 64, 64)
    print(f"torch {torch.__version__}, float32, one core.")
    hmms(Problem.random(*sizes), rounds, budget)
    for vocab_size in (2, sizes[1]):
        product((16, 8) if args.smoke else (128, 32), vocab_size, 4 if args.smoke else 16, rounds, budget)
    long_chain(sizes[0], sizes[1], 256 if args.smoke else 4096)
    monarch(*((64, 50, 4, 2, 2) if args.smoke else (4096, 1000, 16, 32, 5)))


if __name__ == "__main__":
    main()
