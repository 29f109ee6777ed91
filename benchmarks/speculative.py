"""Speculative sampling with HMM × constraint as the drafter: tokens a pass, passes saved, CPU time, by length of the draft.

For each model, constraint, proposal and draft length k:

    accepted     share of the drafted tokens that were accepted
    tokens/pass  tokens for each pass of the language model, the prompt's included; 1 without drafts
    saved        share of the passes that sampling token by token makes
    calls        calls of the language model for all samples together, of which each is one batch
    CPU          seconds of one run beside those of importance sampling with the same proposal, medians of alternating runs

On the embedded model with the embedded HMM; with ``tractile-bench`` installed also on its task model and HMM of CommonGen.

    python benchmarks/speculative.py [--smoke]
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import tractile as tt
from tractile.constraints import keywords, regex
from tractile.embedded import load_hmm, load_lm
from tractile.lm import TransformersLM

PROMPT = "Once upon a time, there was a girl named"


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, and what it returns."""
    begun = time.process_time()
    found = run()
    return time.process_time() - begun, found


def problems(smoke: bool) -> Iterator[tuple[str, Any, Any, Any, str, tt.Constraint, int]]:
    """(model, language model, tokenizer, HMM, prompt, constraint, budget)."""
    model, tokenizer = load_lm()
    lm, hmm = TransformersLM(model, tokenizer), load_hmm()
    names = regex(r" [A-Z][a-z]+( and [A-Z][a-z]+)*\. She [a-z ]+\.")
    yield "embedded, names", lm, tokenizer, hmm, PROMPT, names, 24
    if smoke:
        return
    yield "embedded, two keywords", lm, tokenizer, hmm, PROMPT, keywords(["dog", "park"]), 32
    try:
        from tractile_bench.models import load_small_hmm, load_small_lm
    except ImportError:
        print("tractile-bench is not installed: its model is left out")
        return
    model, tokenizer = load_small_lm()
    prompt = "dog park run\n"
    lm, hmm = TransformersLM(model, tokenizer), load_small_hmm("commongen")
    yield "task model, keywords", lm, tokenizer, hmm, prompt, keywords(["dog", "park"]), 24


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="one constraint, few samples, one repeat")
    smoke = parser.parse_args().smoke
    particles, repeats, lengths = (4, 1, [2]) if smoke else (16, 3, [1, 2, 4, 8])
    print("| | proposal | k | accepted | tokens/pass | saved | calls | CPU, s | without drafts, s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, lm, tokenizer, hmm, prompt, constraint, budget in problems(smoke):
        fa = constraint.compile(tokenizer)
        for proposal in ("gcd", "pgcd"):
            for k in lengths:
                drafted, plain, found = list[float](), list[float](), list[Any]()

                speculate = partial(tt.speculative, lm, prompt, fa, hmm, proposal, particles, budget, draft=k)
                importance = partial(
                    tt.inference.smc.importance_sampling, lm, prompt, fa, proposal, hmm, particles, budget
                )
                for seed in range(repeats + 1):  # the first run makes the tables
                    seconds, speculation = cpu(partial(speculate, seed=seed))
                    drafted.append(seconds)
                    found.append(speculation)
                    plain.append(cpu(partial(importance, seed=seed))[0])
                tokens, passes = sum(x.tokens for x in found), sum(x.passes for x in found)
                accepted = sum(x.accepted for x in found) / sum(x.drafted for x in found)
                calls = statistics.mean(x.calls for x in found)
                print(
                    f"| {name} | {proposal} | {k} | {accepted:.0%} | {tokens / passes:.2f} | {1 - passes / tokens:.0%} | "
                    f"{calls:.0f} | {statistics.median(drafted[1:]):.2f} | {statistics.median(plain[1:]):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
