"""How much memory P-GCD takes where all its backward messages would not fit: the peak of a process of its own for each case,
from when the HMM and the automaton are there.

    Monarch   H = 16,384 (128 × 128), 500 automaton states, 256 tokens
    SQL       H = 1,024, the automaton over tokens of `tt.sql` on the schema below, about 30,000 states, 128 tokens

Each makes the query within ``memory`` bytes for the messages, and takes steps with prefixes of two budgets, the horizon and
three quarters of it, so that messages are computed again. *all messages* is what they would take together in float32; *HMM* its
parameters; the rest of the peak is the emission laid out for products, and Python with PyTorch.

    python benchmarks/decoding.py --memory [--cases Monarch SQL] [--steps 8] [--smoke]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from decoding_gpu import vocabulary
from decoding_scaling import automaton

import tractile as tt
from decoding import random_hmm

BATCH, VOCAB, GIB = 16, 32_000, 1 << 30
KINDS = ("id", "name", "city", "country", "year", "price", "rating", "phone", "Opening Date", "manager_id")
TABLES = {
    table: [f"{table}_{kind}" if i < 8 else kind for i, kind in enumerate(KINDS)]
    for table in ("band", "singer", "song", "venue", "ticket")
}


def case(name: str, smoke: bool) -> tuple[tt.HMM, tt.Automaton, int, int]:
    """(HMM, automaton, horizon, memory)."""
    if name == "Monarch":
        side, states, horizon = (8, 20, 32) if smoke else (128, 500, 256)
        fa = automaton(states, 4 * states, VOCAB // 10 if smoke else VOCAB)
        return random_hmm(side**2, fa.vocab_size, (side, side)), fa, horizon, (1 << 20 if smoke else 3 << 29)
    tables = dict(list(TABLES.items())[: 2 if smoke else len(TABLES)])
    vocab = vocabulary(1_200 if smoke else VOCAB)
    fa = tt.sql(tables, max_depth=0 if smoke else 1, columns="tables").compile(vocab)
    memory = 40 << 20 if smoke else 4 * GIB
    return random_hmm(64 if smoke else 1024, len(vocab)), fa, 32 if smoke else 128, memory


def run(name: str, steps: int, smoke: bool) -> None:
    """One case in this process; prints its row."""
    torch.set_num_threads(1)
    hmm, fa, horizon, memory = case(name, smoke)
    if (reset := Path("/proc/self/clear_refs")).exists():
        reset.write_text("5")  # the peak from here on: making random parameters takes more than using them
    begin = time.process_time()
    query = tt.pgcd(hmm, fa, horizon, memory=memory)
    sweep = time.process_time() - begin
    query.start(BATCH, torch.tensor([horizon, horizon * 3 // 4] * (BATCH // 2)))
    begin = time.process_time()
    for _ in range(steps):
        weights = query.log_weights()
        query.advance(weights.argmax(1))
    step = (time.process_time() - begin) / steps
    peak = _peak() / GIB
    size = 4 * horizon * hmm.hidden * fa.num_states / GIB
    parameters = sum(p.nbytes for p in hmm.parameters()) / GIB
    sizes = f"{hmm.hidden:,} | {fa.num_states:,} | {fa.num_edges:,} | {horizon}"
    print(
        f"| {name} | {sizes} | {size:.2f} | {memory / GIB:.2f} | {parameters:.2f} | {peak:.2f} | {sweep:.0f} | {step:.1f} |"
    )


def _peak() -> int:
    """The largest resident size in bytes since it was reset, or where that is not known, since the process began."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=["Monarch", "SQL"], choices=["Monarch", "SQL"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run(options.one, options.steps, options.smoke)
        return
    names = [
        "case",
        "H",
        "S",
        "E",
        "n",
        "all messages, GiB",
        "memory given",
        "HMM",
        "peak",
        "sweep, CPU s",
        "step, CPU s",
    ]
    print("| " + " | ".join(names) + " |\n" + "| --- " * len(names) + "|", flush=True)
    for name in options.cases[: 1 if options.smoke else None]:
        command = [sys.executable, __file__, "--one", name, "--steps", str(options.steps)]
        subprocess.run(command + ["--smoke"] * options.smoke, check=True)


if __name__ == "__main__":
    main()
