"""How the cost of P-GCD grows: a step and the backward sweep against S, E, H, V, B and n, one at a time, slopes fitted.

CPU time of one core in milliseconds, medians of rounds; the slope is that of a line through the logarithms of the largest
three sizes, where fixed costs matter least. The automata are random and deterministic: each state has a wide edge (every
token but a few) and narrow ones of two tokens, so that S and E may be set apart.

    python benchmarks/decoding.py --scaling [--rounds 5] [--plot docs/decoding-scaling.png] [--smoke]
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import matplotlib
import numpy as np
import torch

import tractile as tt
from decoding import measure, random_hmm, rescored
from tractile.inference import Real
from tractile.inference.next_token.backward import Backward
from tractile.inference.next_token.edge_labels import EdgeLabels

BASE = {"S": 32, "E": 128, "H": 512, "V": 8_000, "B": 16, "n": 32}
SIZES = {
    "S": [32, 64, 128, 256, 512],
    "E": [1_024, 2_048, 4_096, 8_192, 16_384],  # of 256 states
    "H": [128, 256, 512, 1024, 2048],
    "V": [2_000, 4_000, 8_000, 16_000, 32_000],
    "B": [4, 8, 16, 32, 64],
    "n": [8, 16, 32, 64, 128],
}
NAMES = {
    "S": "automaton states S (4 edges each)",
    "E": "edges E (256 states)",
    "H": "hidden states H",
    "V": "vocabulary V",
    "B": "batch B",
    "n": "horizon n",
}


def automaton(states: int, edges: int, vocab_size: int) -> tt.Automaton:
    """Deterministic, with so many edges: from each state one wide edge, and as many of two tokens as are left."""
    rng, each = np.random.default_rng(0), edges // states - 1
    klass = np.zeros(vocab_size, int)
    klass[rng.choice(vocab_size, 2 * each, replace=False)] = 1 + np.arange(2 * each) // 2
    moves = [(s, 0, s) for s in range(states)]
    for s in range(states):  # to other states, so that no two edges have one target
        targets = (s + 1 + rng.choice(states - 1, each, replace=False)) % states
        moves += [(s, 1 + i, int(d)) for i, d in enumerate(targets)]
    return tt.Automaton(np.array(moves), klass, [0], range(states), states)


def costs(sizes: dict[str, int], rounds: int) -> tuple[float, float]:
    """Milliseconds of a step and of the sweep."""
    fa = automaton(sizes["S"], sizes["E"], sizes["V"])
    hmm = random_hmm(sizes["H"], sizes["V"])
    query = tt.pgcd(hmm, fa, sizes["n"]).start(sizes["B"])
    query.advance(torch.randint(sizes["V"], (sizes["B"],), generator=torch.Generator().manual_seed(0)))
    labels = EdgeLabels(fa)
    sweep = partial(Backward, Real(), hmm, fa, labels, sizes["n"])
    found = measure({"step": lambda: rescored(query), "sweep": sweep}, rounds)
    return found["step"], found["sweep"]


def slope(sizes: list[int], values: list[float]) -> float:
    """The exponent of growth over the largest three sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(values[-3:]), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", help="where to write the figure")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes = {k: v[:2] for k, v in SIZES.items()} if options.smoke else SIZES
    base = BASE | {"H": 64, "V": 2_000} if options.smoke else BASE
    print(
        ", ".join(f"{k} = {v:,}" for k, v in base.items())
        + " unless varied (E = 4 S, and S = 256 where E is varied); CPU ms\n"
    )
    print("| varied | sizes | step | slope | sweep | slope |\n" + "| --- " * 6 + "|")
    found: dict[str, tuple[list[float], list[float]]] = {}
    begin = time.perf_counter()
    for name, values in sizes.items():
        beside = [{"S": {"E": 4 * v}, "E": {"S": 256}}.get(name, {}) for v in values]
        varied = [base | {name: v} | more for v, more in zip(values, beside, strict=True)]
        steps, sweeps = zip(*(costs(v, options.rounds) for v in varied), strict=True)
        found[name] = list(steps), list(sweeps)
        cells = [name, ", ".join(f"{v:,}" for v in values)]
        for times in found[name]:
            cells += [", ".join(f"{t:.3g}" for t in times), f"{slope(values, times):.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\n{time.perf_counter() - begin:.0f} s")
    if options.plot:
        plot(sizes, found, options.plot)


def plot(sizes: dict[str, list[int]], found: dict[str, tuple[list[float], list[float]]], path: str) -> None:
    """Six panels on logarithmic axes."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(9, 5.2), layout="constrained")
    for axis, (name, values) in zip(axes.flat, sizes.items(), strict=True):
        for what, times, mark in zip(("step", "sweep"), found[name], "os", strict=True):
            axis.loglog(values, times, marker=mark, label=f"{what}, slope {slope(values, times):.2f}")
        axis.set_xlabel(NAMES[name])
        axis.set_xticks(values, [f"{v:,}" for v in values])
        axis.minorticks_off()
        axis.legend(fontsize=8, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("CPU ms")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
