"""Infilling of held-back stories: how far each proposal's estimate of log Z is from the truth, and the texts it fills in.

The prompt is a story up to the middle of its second sentence; after the gap comes the rest of this sentence, at most three
words, and the end. Two kinds of gap:

    word    one of 20 words, the story's own among them. The truth is a sum over words and tokenisations, by ``tt.choose``
    free    any text of at most 8 tokens. The truth is not known: log Ẑ on average, the higher the better

    log Z − mean log Ẑ    in nats, over the stories; 0 is perfect

Proposals: GCD; lookahead with the embedded HMM, which sees no prompt; lookahead with a context head, by which the HMM begins
where the language model is after the prompt. The head is fitted here, on the model's own continuations, and kept in build/.

    python benchmarks/infilling.py [--smoke] [--stories FOLDER] [--count N] [--particles K] [--show N]

Stories are those that examples/train_embedded_lm.py holds out, of FOLDER (default: $TRACTILE_SHARED/data/tinystories); with
--smoke, or without the folder, a few written here.
"""

import argparse
import hashlib
import os
import re
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path

import torch

import tractile as tt
from tractile import distill
from tractile.constraints import any_of
from tractile.distill.sampling import sample_prefixes
from tractile.embedded import load_hmm, load_lm
from tractile_bench import guides

WRITTEN = [
    "Tom had a red ball. He liked to kick the ball in the park. One day it was lost.",
    "Lily saw a small cat. The cat was sad and wanted to find its mom. Lily helped it.",
    "One day, a boy went to the farm. He saw a big cow and a little pig. The pig was pink.",
    "Ben and Mia were friends. They played with a kite and ran up the hill. It was fun.",
]
WORDS, FREE = 20, 8
END = re.compile(r"(?<=[.!?])\s+")


def held_back(folder: Path | None, count: int) -> list[str]:
    """Stories that the embedded model was not trained on: 3 % of the separated ones, by a hash of the text."""
    file = None if folder is None else folder / "stories.txt.zst"
    if file is None or not file.is_file():
        return WRITTEN[:count]
    text = subprocess.run(["zstd", "-dc", str(file)], capture_output=True, check=True).stdout.decode()
    stories = [" ".join(story.split()) for story in text.split("<|endoftext|>")]
    return [s for s in stories if hashlib.blake2b(s.encode(), digest_size=2).digest()[0] < 8]


def passages(stories: list[str], count: int) -> list[tuple[str, str, str]]:
    """(prompt, word, rest of the sentence) of the first ``count`` stories whose second sentence is long enough."""
    found = []
    for story in stories:
        parts = END.split(story)
        words = parts[1].split(" ") if len(parts) > 1 else []
        if len(words) < 7 or not all(re.fullmatch(r"[A-Za-z,]+[.!]?", w) for w in words):
            continue
        if not words[-4].isalpha():
            continue
        prompt = f"{parts[0]} {' '.join(words[:-4])}"
        if len(prompt) < 300:
            found.append((prompt, f" {words[-4]}", f" {' '.join(words[-3:])}"))
    return found[:count]


def context_head(model, tokenizer, hmm: tt.HMM, folder: Path, smoke: bool) -> guides.ContextHead:
    """The head in the folder, fitted first if there is none."""
    if not guides.ContextHead.is_in(folder):
        lm = tt.TransformersLM(model, tokenizer)
        size, length = (60, 6) if smoke else (2000, 16)
        begun = distill.sample(
            lm, folder / "begun", max(size // 5, 20), length, [[tokenizer.bos_token_id]], tokenizer=tokenizer
        )
        prompts = sample_prefixes(begun, size // 10, length - 4)
        corpus = distill.sample(lm, folder / "corpus", size, length, prompts, tokenizer=tokenizer)
        guides.ContextHead.fit(hmm, model, tokenizer, corpus).save_pretrained(folder)
    return guides.ContextHead.from_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = os.environ.get("TRACTILE_SHARED", "../shared")
    parser.add_argument("--smoke", action="store_true", help="a few stories, to see that it works")
    parser.add_argument("--stories", type=Path, default=Path(shared) / "data" / "tinystories")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--particles", type=int, default=16)
    parser.add_argument("--show", type=int, default=5, help="stories whose texts are shown")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    count, particles = (2, 4) if arguments.smoke else (arguments.count, arguments.particles)
    asked = passages(held_back(None if arguments.smoke else arguments.stories, count), count)
    frequent = [word for word, _ in Counter(word for _, word, _ in asked).most_common()]
    model, tokenizer = load_lm()
    lm, hmm = tt.TransformersLM(model, tokenizer), load_hmm()
    kept = Path("build") / ("context-head-smoke" if arguments.smoke else "context-head")
    kept.mkdir(parents=True, exist_ok=True)
    head = context_head(model, tokenizer, hmm, kept, arguments.smoke)
    methods = ["GCD", "lookahead", "lookahead, context"]
    loss, free, taken = ({name: [] for name in methods} for _ in range(3))
    unknown = 0.0
    for i, (prompt, word, rest) in enumerate(asked):
        options = list(dict.fromkeys([word, *frequent]))[:WORDS]
        exact = tt.choose(lm, prompt, [option + rest for option in options], max_contexts=512)
        log_z = float(exact.log_probs.logsumexp(0))
        unknown = max(
            unknown, float(torch.logaddexp(exact.log_probs, exact.log_missing).logsumexp(0)) - log_z
        )
        shown = []
        for name in methods:
            guide = head.begin(hmm, model, tokenizer, prompt) if "context" in name else hmm
            proposal = "gcd" if name == "GCD" else tt.inference.smc.LookaheadProposal()
            settings = {"proposal": proposal, "hmm": guide, "particles": particles, "seed": i}
            budget = max(map(len, options))  # any tokenisation of a word fits
            found = tt.infill(lm, prompt, rest, fa=any_of(*options), max_new_tokens=budget, **settings)
            loss[name].append(log_z - found.posterior.log_evidence)
            begun = time.process_time()
            found = tt.infill(lm, prompt, rest, max_new_tokens=FREE, **settings)
            taken[name].append(time.process_time() - begun)
            free[name].append(found.posterior.log_evidence)
            shown.append(f"{name}: *{found.best[0]}*" if not found.posterior.failed else f"{name}: –")
        if i < arguments.show:
            print(f"- {prompt} […]{rest} The story's: *{word}*; {'; '.join(shown)}", flush=True)
    print(f"\n{len(asked)} stories, {particles} particles; log Z of words is known to {unknown:.1e} nats\n")
    print(
        "| proposal | word: log Z − mean log Ẑ (largest) | free: mean log Ẑ | CPU s |\n| --- | --- | --- | --- |"
    )
    for name in methods:
        print(
            f"| {name} | {statistics.mean(loss[name]):.2f} ({max(loss[name]):.1f}) | {statistics.mean(free[name]):.2f} "
            f"| {statistics.median(taken[name]):.2f} |"
        )
    for name in methods[1:]:
        better = [a - b for a, b in zip(free[name], free["GCD"], strict=True)]
        won = sum(one > 0 for one in better)
        print(f"\n{name} against GCD, free gaps: higher in {won} of {len(better)}")


if __name__ == "__main__":
    main()
