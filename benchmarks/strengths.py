"""The strength of the lookahead: log Ẑ by strength and number of particles on the papers' tasks, and what pilots find.

    python benchmarks/strengths.py run TASK DATA --out FILE [--split test] [--limit 48] [--max-new-tokens N] [--syntax json]
    python benchmarks/strengths.py report FILE...
    python benchmarks/strengths.py --smoke

``run`` appends a line to FILE for each example: log Ẑ in nats of independent runs (:data:`RUNS`) of every strength, on the
model and the HMM that ship with tractile-bench. A FILE that was begun is continued. ``report`` prints the mean of log Ẑ by
strength, and what the pilot of ``strength="auto"`` finds: for each example (as :func:`tractile.smc` does), and for the task by
eight of the other examples (as :class:`tractile.inference.smc.Strength` does for a class of requests). Pilots are some of the
runs, and are judged on the others. Differences from GCD are paired, with 95 % intervals bootstrapped over examples.
"""

import argparse
import json
import logging
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile.constraints import Vocabulary
from tractile.errors import TractileError
from tractile.inference.smc import GCDProposal, LookaheadProposal
from tractile.inference.smc.calibration import ROUNDS
from tractile.inference.smc.calibration import RUNS as PILOT_RUNS
from tractile.inference.smc.query_cache import forget, keeping
from tractile.inference.smc.strength import STRENGTHS, Strength, best, scores
from tractile_bench import TASKS
from tractile_bench.cli import SAMPLE
from tractile_bench.guides import prompted
from tractile_bench.intervals import bootstrap
from tractile_bench.models import load_small_lm, small_hmm_path
from tractile_bench.prepare import HMM_MEMORY, Preparer
from tractile_bench.runner import choose
from tractile_bench.stop_at_newline import NewlineStopLM

RUNS = {1: 64, 4: 8, 16: 3}
"""Runs of each strength, by particles."""
PILOTS = {1: ROUNDS, 4: ((PILOT_RUNS, 1),)}
"""The rounds of a pilot by its particles, as the library has them; its runs are the first ones."""
CLASS = 8
"""Examples of the pilot of a class of requests."""
Runs = Mapping[str, Mapping[str, Sequence[float]]]  # log Ẑ by particles and strength


def run(arguments: argparse.Namespace) -> None:
    """Run every example that the file lacks."""
    syntax = {"syntax": arguments.syntax} if arguments.task == "function-calling" else {}
    task = TASKS[arguments.task](arguments.data, **syntax)
    network, tokenizer = load_small_lm()
    model = tt.TransformersLM(network, tokenizer)
    vocab = Vocabulary.from_tokenizer(tokenizer)
    lm: tt.LanguageModel = NewlineStopLM(model, vocab) if task.one_line else model
    folder = small_hmm_path(arguments.task, syntax.get("syntax"))
    hmm = tt.HMM.from_pretrained(folder)
    preparer = Preparer(
        task, vocab, lambda prompt: prompted(hmm, folder, model, prompt), lambda example: example.prompt
    )
    budget = arguments.max_new_tokens or task.max_new_tokens
    kept = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    done = {json.loads(line)["id"] for line in kept}
    guides = {s: LookaheadProposal(s) if s else GCDProposal() for s in STRENGTHS}
    for number, example in enumerate(choose(task, arguments.split, arguments.limit, seed=0)):
        if example.id in done:
            continue
        begun = time.process_time()
        line: dict[str, object] = {"id": example.id}
        one = preparer.prepare([example])[0]
        try:
            if one.error is not None:
                raise one.error
            assert one.fa is not None
            with keeping(HMM_MEMORY):
                line["log_evidence"] = {
                    str(k): {
                        str(s): [
                            post.log_evidence
                            for post in tt.smc(
                                lm,
                                prompts=[one.prompt] * runs,
                                fa=one.fa,
                                proposal=guides[s],
                                hmm=one.hmm,
                                max_new_tokens=budget,
                                particles=k,
                                seed=1000 * number,
                            )
                        ]
                        for s in STRENGTHS
                    }
                    for k, runs in RUNS.items()
                }
            forget(one.fa)
        except TractileError as error:
            line["error"] = type(error).__name__
        line["seconds"] = round(time.process_time() - begun, 1)
        with arguments.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(number, example.id, line.get("error", ""), line["seconds"], "s", flush=True)


def chosen(examples: Sequence[Runs], pilot: str) -> str:
    """The strength that the library's rule takes from the pilots of some examples."""
    among, counts, rounds = list(STRENGTHS), dict.fromkeys(STRENGTHS, 0), PILOTS[int(pilot)]
    for runs, kept in rounds:
        counts |= dict.fromkeys(among, runs)
        seen = [{s: one[pilot][str(s)][: counts[s]] for s in STRENGTHS} for one in examples]
        among = best(scores(seen)[0], among, kept) if kept > 1 else among
    strength = Strength()
    strength.settle(seen, among if len(rounds) > 1 else None)
    return str(strength.value)


def alone(examples: Sequence[Runs], pilot: str) -> list[str]:
    """The strength of each example by a pilot of its own."""
    return [chosen([one], pilot) for one in examples]


def together(examples: Sequence[Runs], pilot: str) -> list[str]:
    """The strength of each example by the pilots of :data:`CLASS` others."""
    found = []
    for i in range(len(examples)):
        others = random.Random(i).sample(
            [one for j, one in enumerate(examples) if j != i], min(CLASS, len(examples) - 1)
        )
        found.append(chosen(others, pilot))
    return found


def judged(example: Runs, k: str, strength: str) -> float:
    """The mean of log Ẑ over the runs that are no pilot; a run in which all particles die counts as 10 nats below the worst."""
    lived = [v for runs in example[k].values() for v in runs if v > -math.inf]
    worst = min(lived, default=0.0) - 10
    piloted = PILOTS[int(k)][-1][0] if int(k) in PILOTS else 0
    return statistics.fmean(max(v, worst) for v in example[k][strength][piloted:])


def interval(differences: Sequence[float]) -> str:
    """Mean with a 95 % interval, bootstrapped."""
    return "{:+.1f} ({:+.1f}, {:+.1f})".format(*bootstrap(differences)).replace("-", "−")


def report(arguments: argparse.Namespace) -> None:
    """Print a table for each file."""
    for path in arguments.files:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        examples = [line["log_evidence"] for line in lines if "log_evidence" in line]
        seconds = sum(line["seconds"] for line in lines)
        print(
            f"\n## {path.stem}: {len(examples)} of {len(lines)} examples, {seconds / 60:.0f} minutes of CPU\n"
        )
        logging.disable(logging.WARNING)  # of guides that hurt: a table says it
        print(
            "| k |",
            " | ".join(map(str, STRENGTHS)),
            "| pilot of | alone: share of 0, mean, − GCD, − best | class: the same |",
        )
        print("| --- " * (len(STRENGTHS) + 4) + "|")
        for k in map(str, RUNS):
            means = {str(s): statistics.fmean(judged(one, k, str(s)) for one in examples) for s in STRENGTHS}
            highest = max(means, key=lambda s: means[s])
            for pilot in map(str, PILOTS):
                rounds = " + ".join(str(runs) for runs, _ in PILOTS[int(pilot)])
                row = [k, *(f"{m:.1f}" for m in means.values()), f"{rounds} × {pilot}"]
                for rule in (alone, together):
                    found = rule(examples, pilot)
                    values = [judged(one, k, s) for one, s in zip(examples, found, strict=True)]
                    less = [v - judged(one, k, "0.0") for v, one in zip(values, examples, strict=True)]
                    off = [v - judged(one, k, highest) for v, one in zip(values, examples, strict=True)]
                    share, mean = found.count("0.0") / len(found), statistics.fmean(values)
                    row.append(f"{share:.0%}, {mean:.1f}, {interval(less)}, {interval(off)}")
                print("|", " | ".join(row).replace(" -", " −"), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("task", choices=[name for name in TASKS if name != "data-science"])
    runner.add_argument("data", type=Path)
    runner.add_argument("--out", type=Path, required=True)
    runner.add_argument("--split", default="test")
    runner.add_argument("--limit", type=int, default=48)
    runner.add_argument("--max-new-tokens", type=int)
    runner.add_argument("--syntax", default="json")
    runner.set_defaults(go=run)
    reporter = commands.add_parser("report")
    reporter.add_argument("files", type=Path, nargs="+")
    reporter.set_defaults(go=report)
    disable_progress_bar()
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--smoke"]:
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder, "smoke.jsonl"))
            begun = ["run", "commongen", str(SAMPLE / "commongen"), "--out", out, "--limit", "2"]
            for command in ([*begun, "--max-new-tokens", "16"], ["report", out]):
                given = parser.parse_args(command)
                given.go(given)
    else:
        given = parser.parse_args()
        given.go(given)
