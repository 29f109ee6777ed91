"""Proposals and potentials: how far the estimate of log Z is from the truth, by number of particles.

For each constraint, proposal, potential and number k of particles, over repeated runs:

    log Z − E[log Ẑ]    in nats; 0 is perfect
    (relative sd)       the standard deviation of Ẑ over its mean
    dead                instead, where there are any: the share of runs in which no particle satisfies the constraint

log Z is from four large P-GCD runs, printed with the table. Constraints: the continuation of the prompt contains one
word, or two in any order, within 24 tokens.

    python benchmarks/proposals.py [--smoke] [--repeats N] [--truth K] [--hmm DIRECTORY] [--guides]

With ``--guides`` another table: the same P-GCD, with n-gram HMMs counted from the model's own samples as guides.

Runs on the embedded model with the embedded HMM, and on stories260K if TRACTILE_SHARED (by default ../shared) has it:
an HMM is then distilled for it first, and kept in build/.
"""

import argparse
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile import distill
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
from tractile_bench import guides

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
# Order and hidden states of the n-gram guides, and how many samples they are counted from.
GUIDES = [(1, 2, 1000), (2, 1024, 1000), (3, 2048, 1000), (2, 1024, 20_000), (3, 2048, 20_000)]


@dataclass(frozen=True)
class Task:
    """A language model, its guide and a constraint."""

    lm: tt.TransformersLM
    hmm: tt.HMM
    fa: tt.Automaton

    def log_evidences(self, method: str, particles: int, seeds: range) -> list[float]:
        """log Ẑ of each run."""
        proposal, potential = METHODS[method]
        given = {"proposal": proposal, "hmm": self.hmm, "potential": potential, "particles": particles}
        return [
            tt.smc(self.lm, PROMPT, self.fa, max_new_tokens=BUDGET, seed=seed, **given).log_evidence
            for seed in seeds
        ]


def log_mean(values: list[float]) -> float:
    """log of the mean of the exponentials."""
    return float(torch.tensor(values, dtype=torch.float64).logsumexp(0)) - math.log(len(values))


def cell(estimates: list[float], truth: float) -> str:
    """`gap (relative sd)`, or the share of dead runs if there are any: E[log Ẑ] is then −∞."""
    ratios = [math.exp(value - truth) for value in estimates]
    dead = ratios.count(0.0) / len(ratios)
    if dead:
        return f"dead {100 * dead:.0f} %"
    spread = statistics.pstdev(ratios) / statistics.fmean(ratios)
    return f"{truth - statistics.fmean(estimates):.2f} ({spread:.2f})"


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
        print(method, cells, file=sys.stderr, flush=True)
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def the_guides(
    lm: tt.TransformersLM, hmm: tt.HMM, vocab: tt.Vocabulary, smoke: bool, repeats: int, truth: int
) -> None:
    """GCD, P-GCD with n-gram guides of the prompt's own continuations, and with the trained HMM: a table for each constraint."""
    samples = 500 if smoke else max(n for _, _, n in GUIDES)
    work = Path(__file__).resolve().parent.parent / "build" / "benchmarks" / f"guides-{samples}"
    corpus, test = distill.sample(lm, work, samples + samples // 20, BUDGET, [PROMPT]).split(1 / 21)
    made: dict[str, tuple[tt.HMM, str]] = {"GCD": (hmm, "GCD, p_lm")}
    for order, states, count in GUIDES:
        begin = time.process_time()
        guide = guides.ngram(corpus.select(torch.arange(min(count, len(corpus)))), order, states)
        seconds = time.process_time() - begin
        name = f"{order}-gram, {guide.hidden} states, {count:,} samples ({seconds:.1f} s)"
        made[name] = (guide, "lookahead, φ_pgcd")
    made[f"the trained HMM, {hmm.hidden} states"] = (hmm, "lookahead, φ_pgcd")
    sizes = [1, 4] if smoke else [1, 4, 16]
    for text, regex in CONSTRAINTS.items():
        fa = tt.constraints.regex(regex).compile(vocab, require_eos=False)
        best = Task(lm, guide, fa).log_evidences("lookahead, φ_pgcd", truth, range(10_000, 10_004))
        exact = log_mean(best)
        print(f"\nthe text contains {text}: log Z = {exact:.3f}, p = {math.exp(exact):.4f}", best)
        print("\n| guide | nats a token | " + " | ".join(f"k = {k}" for k in sizes) + " |")
        print("| --- | --- |" + " --- |" * len(sizes), flush=True)
        for name, (guide_hmm, method) in made.items():
            cells = [
                cell(Task(lm, guide_hmm, fa).log_evidences(method, k, range(repeats)), exact) for k in sizes
            ]
            nats = "" if name == "GCD" else f"{distill.evaluate(guide_hmm, test).nats_per_token:.2f}"
            print(f"| {name} | {nats} | " + " | ".join(cells) + " |", flush=True)


def stories260k(smoke: bool, saved: str | None) -> tuple[tt.TransformersLM, tt.HMM, tt.Vocabulary] | None:
    """The model, an HMM distilled from it, and its vocabulary, if the model is there."""
    root = Path(__file__).resolve().parent.parent
    folder = Path(os.environ.get("TRACTILE_SHARED", root.parent / "shared")) / "models" / "stories260K"
    if not folder.is_dir():
        return None
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    lm = tt.TransformersLM(AutoModelForCausalLM.from_pretrained(folder).float(), tokenizer)
    if saved is not None:
        return lm, tt.HMM.from_pretrained(saved), vocab
    sequences, hidden, epochs = (256, 8, 1) if smoke else (50_000, 128, 6)
    work = root / "build" / "benchmarks" / f"stories260K-{sequences}"
    corpus = distill.sample(lm, work / "corpus", sequences, BUDGET, [PROMPT])
    if (work / "hmm" / "config.json").exists():
        hmm = tt.HMM.from_pretrained(work / "hmm")
    else:
        hmm = distill.train(corpus, hidden, epochs=epochs, out=work / "hmm")
    return lm, hmm, vocab


def main() -> None:
    """Print a table for each model and constraint."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--guides", action="store_true", help="only the table of guides")
    parser.add_argument("--repeats", type=int, default=40, help="runs for each cell")
    parser.add_argument(
        "--hmm", help="a saved HMM of stories260K (examples/distill_stories.py makes a better one)"
    )
    parser.add_argument("--truth", type=int, default=2048, help="particles of the runs that tell the truth")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    sizes, repeats, truth_particles = (
        ([1, 4], 2, 64) if arguments.smoke else ([1, 4, 16, 64], arguments.repeats, arguments.truth)
    )
    model, tokenizer = load_lm()
    if arguments.guides:
        lm = tt.TransformersLM(model, tokenizer)
        vocab = tt.Vocabulary.from_tokenizer(tokenizer)
        the_guides(lm, load_hmm(), vocab, arguments.smoke, repeats, truth_particles)
        return
    models = {
        "embedded model": (
            tt.TransformersLM(model, tokenizer),
            load_hmm(),
            tt.Vocabulary.from_tokenizer(tokenizer),
        )
    }
    if (other := stories260k(arguments.smoke, arguments.hmm)) is not None:
        models["stories260K"] = other
    print(
        f"prompt {PROMPT!r}, {BUDGET} tokens, {repeats} runs for each cell, ESS threshold ½, systematic resampling"
    )
    for name, (lm, hmm, vocab) in models.items():
        for text, regex in CONSTRAINTS.items():
            begin = time.perf_counter()
            fa = tt.constraints.regex(regex).compile(vocab, require_eos=False)
            print(
                f"\n{name}, the text contains {text}: {table(Task(lm, hmm, fa), sizes, repeats, truth_particles)}"
            )
            print(f"\n({time.perf_counter() - begin:.0f} s)")


if __name__ == "__main__":
    main()
