"""Distil the HMMs that ship in ``bench/tractile_bench/small_hmm``: one of the small language model's answers to each task. With
``--gemma`` one of Gemma 3 270M's answers, in bfloat16, behind solved questions; a newline ends them.

    training prompts of a task -> answers drawn from the model, and reference answers, which cost nothing
        --start ngram    an n-gram HMM of them, counted
        --start latent   states at clusters of the model's hidden states, then EM
    --copying            and how they copy from their prompts, fitted together with the transitions

    python bench/training/train_small_lm.py                             # keeps the prompts in build/small_lm
    python bench/training/distill_small_lm.py --task calls --out bench/tractile_bench/small_hmm/calls
    python bench/training/distill_small_lm.py --task calls --start latent --hidden 4096 --transition monarch --no-copying
    python bench/training/distill_small_lm.py --task commongen --gemma DATA/commongen --start latent --hidden 4096 --epochs 0 \\
        --no-copying --references 0 --sequences 7000

What is not said is as in ``RECIPES``. Prints nats per token of answers to held-out prompts, and the model's own. The
answers are kept in ``--work``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

import tractile as tt
from tractile import distill
from tractile.constraints import Vocabulary
from tractile.lm.base import Prompt
from tractile_bench import guides
from tractile_bench.commongen import CommonGen
from tractile_bench.function_calling.task import FunctionCalling
from tractile_bench.models import SMALL_LM_PATH
from tractile_bench.prompts import few_shot
from tractile_bench.real import load_gemma
from tractile_bench.stop_at_newline import NewlineStopLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from train_small_lm import Document, unpack

ASKED = {"commongen": (CommonGen, 3, 32), "calls": (FunctionCalling, 1, 64)}
"""For each task that Gemma is asked: the task, the solved questions before each one, and the tokens of an answer."""
LONGEST = 1000  # characters of what it reads

SOURCES = {
    "calls": (("calls/sgd", "calls/tools", "calls/bfcl", "calls/invented", "calls/snips"), 96),
    "commongen": (("commongen",), 32),
    "sql": (("sql/spider",), 64),
    "goals": (("goals/planetarium", "goals/own"), 160),
    "molecules": (("molecules",), 40),
}
"""For each folder, the documents that give the prompts, and the tokens of an answer that are looked at."""


class Recipe(NamedTuple):
    """How the HMM of a task is made that ships: ``epochs`` of EM, then ``passes`` of fitting what is copied; ``recent`` as in
    :class:`guides.Copying`."""

    hidden: int
    start: str = "ngram"
    order: int = 2
    copying: bool = True
    recent: int = 64
    epochs: int = 4
    passes: int = 1


RECIPES = {
    "calls": Recipe(128),
    "commongen": Recipe(256, start="latent", epochs=3),
    "sql": Recipe(96),
    "goals": Recipe(192, order=4, copying=False),
    "molecules": Recipe(128, copying=False),
}


def prompts(
    documents: dict[str, list[Document]], names: tuple[str, ...], count: int, seed: int
) -> list[list[int]]:
    """Prompts without their answers, as many of each source, shorter ones first: rows of a batch are of like length."""
    rng = random.Random(seed)
    found = []
    for name in names:
        short = [one.tokens[: one.start] for one in documents[name] if 1 < one.start <= 240]
        found += rng.sample(short, min(len(short), count // len(names)))
    return sorted(found, key=len)


def gemma_prompts(name: str, data: Path, held_out: int, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return (prompts to fit, other prompts) for Gemma, of the training split."""
    kind, shots, _ = ASKED[name]
    task = kind(data)
    prompt, questions = few_shot(task, shots, longest=LONGEST // 2), list(task.examples("train"))
    random.Random(seed).shuffle(questions)
    texts = [text for text in map(prompt, questions) if len(text) < LONGEST]
    return texts[held_out : held_out + count], texts[:held_out]


def references(
    documents: dict[str, list[Document]], names: tuple[str, ...], count: int, seed: int
) -> list[Document]:
    """Documents with an answer, as many of each source."""
    rng, found = random.Random(seed), []
    for name in names:
        answered = [one for one in documents[name] if 1 < one.start <= 400]
        found += rng.sample(answered, min(len(answered), count // len(names)))
    return found


def with_references(corpus: distill.Corpus, documents: Sequence[Document], seed: int) -> distill.Corpus:
    """A corpus with the answers of some documents added, cut to its length, each with its prompt."""
    length, eos = corpus.tokens.shape[1], corpus.manifest.eos_token_id
    rows = [one.tokens[one.start :][:length] for one in documents]
    padded = torch.tensor([row + [eos] * (length - len(row)) for row in rows], dtype=corpus.tokens.dtype)
    tokens = torch.cat([corpus.tokens, padded.reshape(len(rows), length)])
    asked = [corpus.manifest.prompts[i] for i in corpus.prompt.tolist()]
    asked += [one.tokens[: one.start] for one in documents]
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))
    prompts = [asked[i] for i in order.tolist()]
    return distill.Corpus.of(
        tokens[order], corpus.manifest.vocab_size, eos, prompts, corpus.vocabulary_fingerprint
    )


def drawn(
    path: Path,
    model: object,
    tokenizer: object,
    prompts: Sequence[Prompt],
    sequences: int,
    length: int,
    seed: int,
    line: bool,
) -> distill.Corpus:
    """Answers of the model to the prompts, each prompt taken up about as often; ``line``: a newline ends them."""
    lm: Any = tt.TransformersLM(model, tokenizer)
    lm = NewlineStopLM(lm, Vocabulary.from_tokenizer(tokenizer)) if line else lm
    named = {"model": "gemma-3-270m" if line else "small_lm", "shard_size": 1000 if line else 4096}
    size = 96 if line else 48
    return distill.sample(
        lm, path, sequences, length, prompts, seed=seed, batch_size=size, tokenizer=tokenizer, **named
    )


def begun(
    recipe: Recipe,
    transition: str,
    model: Any,
    tokenizer: Any,
    fit: distill.Corpus,
    pool: distill.Corpus,
    seed: int,
) -> tt.HMM:
    """An HMM that has not read the prompts."""
    if recipe.start == "ngram":
        return guides.ngram(pool, recipe.order, recipe.hidden)
    start = distill.initialise(model, tokenizer, fit, recipe.hidden, transition, seed=seed)
    return distill.train(
        pool,
        recipe.hidden,
        transition,
        recipe.epochs,
        initial=start,
        batch_size=512,
        token_dropout=0.01,
        held_out=0.0,
    )


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=sorted(SOURCES), required=True)
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--start", choices=("ngram", "latent"))
    parser.add_argument("--order", type=int, help="n of the n-grams")
    parser.add_argument("--transition", choices=("dense", "monarch"), default="dense")
    parser.add_argument("--epochs", type=int, help="of EM")
    parser.add_argument("--passes", type=int, help="of fitting what is copied")
    parser.add_argument("--copying", action=argparse.BooleanOptionalAction)
    parser.add_argument("--recent", type=int, help="tokens of a prompt's end that have states of their own")
    parser.add_argument("--sequences", type=int, default=1500, help="answers drawn from the model")
    parser.add_argument("--prompts", type=int, default=1000, help="different prompts among them")
    parser.add_argument("--references", type=int, default=12000, help="reference answers beside them")
    parser.add_argument("--test", type=int, default=200, help="answers to held-out prompts")
    parser.add_argument("--model", type=Path, default=SMALL_LM_PATH)
    parser.add_argument("--documents", type=Path, default=Path("build/small_lm/documents.safetensors"))
    parser.add_argument("--gemma", type=Path, help="the task's data set: Gemma is asked its questions")
    parser.add_argument("--work", type=Path, default=Path("build/small_hmm"))
    parser.add_argument("--out", type=Path, help="folder of the HMM")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main() -> None:
    args = parser().parse_args()
    torch.set_num_threads(args.threads)
    given = {key: getattr(args, key) for key in Recipe._fields if getattr(args, key) is not None}
    recipe, seed = RECIPES[args.task]._replace(**given), args.seed
    names, length = SOURCES[args.task]
    sides: dict[str, dict[str, list[Document]]] = {"train": {name: [] for name in names}}
    asked: tuple[Sequence[Prompt], Sequence[Prompt]]
    if args.gemma is not None:
        model, tokenizer = load_gemma()
        model, length = model.to(torch.bfloat16), ASKED[args.task][2]
        asked = gemma_prompts(args.task, args.gemma, args.test, args.prompts, seed)
    else:
        packed = load_file(args.documents)
        sides = {
            side: {name: unpack(packed[f"{side}.{name}"]) for name in names} for side in ("train", "test")
        }
        model = LlamaForCausalLM.from_pretrained(args.model).float().eval()
        tokenizer = PreTrainedTokenizerFast.from_pretrained(args.model)
        asked = (
            prompts(sides["train"], names, args.prompts, seed),
            prompts(sides["test"], names, args.test, seed),
        )
    folder, clock, line = args.work / args.task, time.process_time(), args.gemma is not None
    fit = drawn(folder / "train", model, tokenizer, asked[0], args.sequences, length, seed, line)
    test = drawn(folder / "test", model, tokenizer, asked[1], args.test, length, seed + 1, line)
    sampled = time.process_time() - clock
    pool = with_references(fit, references(sides["train"], names, args.references, seed), seed)
    clock = time.process_time()
    hmm = begun(recipe, args.transition, model, tokenizer, fit, pool, seed)
    found = distill.evaluate(hmm, test)
    facts = {
        "task": args.task,
        **recipe._asdict(),
        "hidden": hmm.hidden,
        "transition": args.transition,
        "sequences": len(fit),
        "tokens": fit.num_tokens,
        "tokens_with_references": pool.num_tokens,
        "without_prompt": round(found.nats_per_token, 3),
        "lm_nats_per_token": round(found.lm_nats_per_token or 0.0, 3),
        "test_tokens": test.num_tokens,
        "cpu_sampling": round(sampled, 1),
    }
    copying = None
    if recipe.copying:
        copying = guides.fit_copying(
            hmm, pool, tokenizer=tokenizer, recent=recipe.recent, epochs=recipe.passes, seed=seed
        )
        facts["copying"] = round(guides.copying_nats(copying, test, tokenizer), 3)
    facts["cpu_fitting"] = round(time.process_time() - clock, 1)
    print(json.dumps(facts), flush=True)
    if args.out is not None:
        (copying or hmm).save_pretrained(args.out, torch.float16)


if __name__ == "__main__":
    main()
