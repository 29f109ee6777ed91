"""Proposals and potentials: how far the estimate of log Z is from the truth, by number of particles.

For each constraint, proposal, potential and number k of particles, over repeated runs:

    log Z − E[log Ẑ]    in nats; 0 is perfect. E is the mean over the runs in which a particle survived
    (relative sd)       of Ẑ over all runs, dead ones included (their Ẑ is 0)
    dead                the share of runs in which no particle satisfies the constraint, where there are any

log Z is from large P-GCD runs, printed with their spread, and from drawing from the language model where that is
feasible. Constraints: the continuation of the prompt contains one word, or two in any order, within 24 tokens.

    python benchmarks/proposals.py [--smoke] [--repeats N]

Runs on the embedded model with the embedded HMM, and on stories260K (an HMM is distilled for it first) if
TRACTILE_SHARED (by default ../shared) has it.
"""

import argparse
import math
import statistics
import time
from dataclasses import dataclass

import torch

import tractile as tt
from tractile.embedded import load_hmm, load_lm
from tractile.inference.smc import (
    GCDProposal,
    LMProposal,
    LookaheadPotential,
    LookaheadProposal,
    MixtureProposal,
    Potential,
    PrefixPotential,
    Proposal,
)

PROMPT = "Once upon a time, there was a"
BUDGET = 24
CONSTRAINTS = {
    '" dog"': r"(.|\n)* dog(.|\n)*",
    '" dog" and " park"': r"(.|\n)*( dog(.|\n)* park| park(.|\n)* dog)(.|\n)*",
}
METHODS: dict[str, tuple[Proposal, Potential]] = {
    "no guidance, p_lm": (LMProposal(), PrefixPotential()),
    "GCD, p_lm": (GCDProposal(), PrefixPotential()),
    "mixture w = ½, p_lm": (MixtureProposal(0.5), PrefixPotential()),
    "mixture w = ½, φ_pgcd": (MixtureProposal(0.5), LookaheadPotential()),
    "lookahead, p_lm": (LookaheadProposal(), PrefixPotential()),
    "lookahead, φ_pgcd": (LookaheadProposal(), LookaheadPotential()),
}


@dataclass(frozen=True)
class Task:
    """A language model, its guide and a constraint."""

    lm: tt.TransformersLM
    hmm: tt.HMM
    fa: tt.Automaton

    def log_evidences(self, method: str, particles: int, seeds: range) -> list[float]:
        """log Ẑ of each run."""
        proposal, potential = METHODS[method]
        return [
            tt.smc(
                self.lm,
                PROMPT,
                self.fa,
                proposal,
                self.hmm,
                particles=particles,
                max_new_tokens=BUDGET,
                seed=seed,
                potential=potential,
            ).log_evidence
            for seed in seeds
        ]


def log_mean(values: list[float]) -> float:
    """log of the mean of the exponentials."""
    return float(torch.tensor(values, dtype=torch.float64).logsumexp(0)) - math.log(len(values))


def cell(estimates: list[float], truth: float) -> str:
    """`gap (sd)`, and the share of dead runs if there are any."""
    alive = [value for value in estimates if math.isfinite(value)]
    dead = 1 - len(alive) / len(estimates)
    if not alive:
        return "dead 100 %"
    ratios = [math.exp(value - truth) for value in estimates]
    text = (
        f"{truth - statistics.fmean(alive):.2f} ({statistics.pstdev(ratios) / statistics.fmean(ratios):.2f})"
    )
    return text + (f", dead {dead:.0%}" if dead else "")


def table(task: Task, sizes: list[int], repeats: int, truth_particles: int) -> str:
    """The Markdown table of one task."""
    large = task.log_evidences("lookahead, φ_pgcd", truth_particles, range(10_000, 10_004))
    truth = log_mean(large)
    lines = [
        f"log Z = {truth:.3f}: p = {math.exp(truth):.4f}; four runs of {truth_particles} particles: "
        + ", ".join(f"{value:.3f}" for value in large),
        "",
        "| proposal, potential | " + " | ".join(f"k = {k}" for k in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for method in METHODS:
        cells = [cell(task.log_evidences(method, k, range(repeats)), truth) for k in sizes]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print a table for each constraint."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--repeats", type=int, default=40, help="runs for each cell")
    arguments = parser.parse_args()
    sizes, repeats, truth_particles = (
        ([1, 4], 2, 64) if arguments.smoke else ([1, 4, 16, 64], arguments.repeats, 2048)
    )
    model, tokenizer = load_lm()
    lm, hmm, vocab = tt.TransformersLM(model, tokenizer), load_hmm(), tt.Vocabulary.from_tokenizer(tokenizer)
    print(
        f"prompt {PROMPT!r}, {BUDGET} tokens, {repeats} runs for each cell, ESS threshold ½, systematic resampling"
    )
    for name, regex in CONSTRAINTS.items():
        begin = time.perf_counter()
        fa = tt.constraints.regex(regex).compile(vocab, require_eos=False).minimize()
        print(
            f"\nembedded model, the text contains {name}: {table(Task(lm, hmm, fa), sizes, repeats, truth_particles)}"
        )
        print(f"\n({time.perf_counter() - begin:.0f} s)")


if __name__ == "__main__":
    main()
