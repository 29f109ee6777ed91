"""Distil an HMM from a language model: prompts, a corpus, hidden states, EM, and what came of it.

    python bench/training/distill_stories.py                                  # an HMM for the embedded model
    python bench/training/distill_stories.py --model PATH --hidden 128 --tokens 24 --middle 0 --out PATH

An HMM knows nothing of the prompt: it stands for the continuations of the prompts that it was distilled on. So a share
of the corpus begins with the first token (``--bos``), a share after given prompts (``--prompt``), and a share in the
middle of the model's own text (``--middle``).
"""

import argparse
import json
import logging
import os
from dataclasses import asdict
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import tractile as tt
from tractile import distill
from tractile.embedded import LM_PATH

PROMPT = "Once upon a time, there was a"
log = logging.getLogger("distill_stories")


def prefixes(
    corpus: distill.Corpus, prompt: list[int], count: int, longest: int, seed: int
) -> list[list[int]]:
    """Draw prompts: the given one and the first 1 to ``longest`` tokens of a random text, none with the end token."""
    random, tokens, found = torch.Generator().manual_seed(seed), corpus.tokens, list[list[int]]()
    while len(found) < count:
        row = int(torch.randint(len(corpus), (), generator=random))
        cut = int(torch.randint(1, longest + 1, (), generator=random))
        if not bool((tokens[row, :cut] == corpus.manifest.eos_token_id).any()):
            found.append([*prompt, *tokens[row, :cut].tolist()])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Distil an HMM from a language model.")
    parser.add_argument("--model", type=Path, default=LM_PATH)
    parser.add_argument("--out", type=Path, default=Path("build/hmm"))
    parser.add_argument(
        "--work", type=Path, default=Path("build/distill_stories"), help="the corpus and the log"
    )
    parser.add_argument("--sequences", type=int, default=80_000)
    parser.add_argument("--tokens", type=int, default=48, help="tokens a sequence")
    parser.add_argument("--prompt", action="append", help=f"may be repeated; default {PROMPT!r}")
    parser.add_argument(
        "--bos", type=float, default=0.5, help="share of sequences that begin with the first token"
    )
    parser.add_argument(
        "--middle", type=float, default=0.25, help="share that begins in the middle of a text"
    )
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--transition", choices=["dense", "monarch"], default="dense")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=2048, help="sequences a step of EM")
    parser.add_argument(
        "--random", action="store_true", help="begin EM at random instead of the model's states"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        handlers=[logging.FileHandler(args.work / "distill.log"), logging.StreamHandler()],
    )

    tokenizer = PreTrainedTokenizerFast.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model).float()
    lm = tt.TransformersLM(model, tokenizer)
    bos, thousandths = [tokenizer.bos_token_id], 1000
    prompts = [bos] * round(args.bos * thousandths)
    if middle := round(args.middle * thousandths):
        first = distill.sample(lm, args.work / "first", 2048, args.tokens, [bos], seed=args.seed + 1)
        prompts += sorted(prefixes(first, bos, middle, args.tokens // 2, args.seed), key=len)
    texts = [tokenizer(text).input_ids for text in args.prompt or [PROMPT]]
    prompts += [texts[i % len(texts)] for i in range(thousandths - len(prompts))]

    corpus = distill.sample(
        lm, args.work / "corpus", args.sequences, args.tokens, prompts,
        seed=args.seed, model=args.model.name, tokenizer=tokenizer,
    )  # fmt: skip
    log.info("%d sequences, %d tokens", len(corpus), corpus.num_tokens)
    fit, test = corpus.split(0.05, args.seed)
    initial = None
    if not args.random:
        initial = distill.initialise(model, tokenizer, fit, args.hidden, args.transition, seed=args.seed)
        start = distill.evaluate(initial, test)
        log.info("from the model's states: %.4f nats per token", start.nats_per_token)
    hmm = distill.train(
        fit,
        args.hidden,
        args.transition,
        args.epochs,
        initial=initial,
        batch_size=args.batch,
        seed=args.seed,
        out=args.out,
    )
    shipped = tt.HMM.from_pretrained(args.out)
    report = asdict(distill.evaluate(shipped, test))
    log.info("held out: %s", {name: value for name, value in report.items() if "position" not in name})
    for share, name in ((bos, "from the first token"), (texts[0], "after the first prompt")):
        rows = torch.tensor([corpus.manifest.prompts[i] == share for i in test.prompt.tolist()])
        if rows.any():
            report[name] = asdict(distill.evaluate(hmm, test.select(rows)))
            log.info("%s: %.4f nats per token", name, report[name]["nats_per_token"])
    part = args.work / ".report.part"
    part.write_text(json.dumps(report, indent=1))
    os.replace(part, args.work / "report.json")


if __name__ == "__main__":
    main()
