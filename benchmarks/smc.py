"""Speed of the sampler beside genlm-control: one model, one tokenizer, one constraint, in one process.

    python benchmarks/smc.py [--smoke] [--runs N] [--vocab 8192 50257] [--particles 16 64]

The model is a GPT-2 of two layers (d = 64, random weights), so that what a sampler adds can be seen; the tokenizer a byte-level
BPE trained on the sources of Python's standard library. CPU milliseconds for a step of all particles, one thread, median over
runs with different seeds; the samplers take turns.

    forward        the model alone: as many rows as particles, log-probabilities, nothing drawn
    same rows      the same for the rows that our run evaluated (finished and equal particles are not)
    peer: LM only  genlm-control without a constraint; peer: AWRS, its adaptive weighted rejection sampling; peer: eager

What needs genlm-control is left out, visibly, where it is not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import pathlib
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

import tractile as tt

PROMPT = "out:"
REGEXES = {"short": r" (yes|no|maybe), [0-9]{3}", "words": r"( [a-z]{2,6}){4} [0-9]{2}"}
TOKENS = 32
PATIENCE = 10_000  # ms for a run; what takes longer is run once


def tokenizer(vocab: int) -> Any:
    """A byte-level BPE of the standard library's sources, kept in the temporary folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    path = pathlib.Path(tempfile.gettempdir()) / f"tractile-benchmark-bpe-{vocab}.json"
    if not path.exists():
        bpe = Tokenizer(models.BPE())
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.decoder = decoders.ByteLevel()
        files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
        texts = (file.read_text(errors="ignore") for file in files[: 300 if vocab < 10_000 else 3000])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        bpe.train_from_iterator(
            texts,
            trainers.BpeTrainer(
                vocab_size=vocab,
                special_tokens=["<|endoftext|>"],
                show_progress=False,
                initial_alphabet=alphabet,
            ),
        )
        bpe.save(str(path))
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token=end, bos_token=end)


def gpt2(vocab: int, **size: int) -> Any:
    """Random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=vocab, n_positions=256, bos_token_id=0, eos_token_id=0, **size)
    return GPT2LMHeadModel(config).eval()


def cpu_ms(run: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    begin = time.process_time()
    result = run(*arguments)
    return 1e3 * (time.process_time() - begin), result


def forward_only(lm: tt.TransformersLM, rows: list[int]) -> None:
    """The model on so many rows in each step."""
    lm.start([PROMPT])
    before = 1
    for n in rows[1:]:
        if n != before:
            lm.select(torch.arange(n) % before)
        lm.advance(torch.full((n,), 5))
        before = n


def peers(model: Any, tok: Any, regex: str, particles: int) -> dict[str, Callable[[int], int]]:
    """Samplers of genlm-control: seed -> number of steps."""
    try:
        from genlm.backend.llm import AsyncTransformer
        from genlm.control import AWRS, BoolFSA, PromptedLLM, direct_token_sampler, eager_token_sampler
    except ImportError:
        return {}
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    llm = PromptedLLM(AsyncTransformer(model, tok, batch_size=particles))
    llm.set_prompt_from_str(PROMPT)
    fsa = BoolFSA.from_regex(regex)
    samplers = {
        "peer: LM only": direct_token_sampler(llm),
        "peer: AWRS": AWRS(llm, fsa.coerce(llm, f=b"".join)),
        "peer: eager": eager_token_sampler(llm, fsa),
    }

    def run(sampler: Any, seed: int) -> int:
        torch.manual_seed(seed)
        llm.model.clear_cache()
        found = asyncio.run(
            sampler.smc(n_particles=particles, ess_threshold=0.5, max_tokens=TOKENS, verbosity=0)
        )
        return max(len(context) for context, _ in found)

    return {name: lambda seed, sampler=sampler: run(sampler, seed) for name, sampler in samplers.items()}  # type: ignore[misc]


def speed(vocab: int, sizes: list[int], runs: int) -> None:
    """Print milliseconds a step, and tokens per second, for each constraint and number of particles."""
    tok = tokenizer(vocab)
    model = gpt2(len(tok), n_embd=64, n_layer=2, n_head=4)
    vocabulary = tt.Vocabulary.from_tokenizer(tok)
    seen: list[int] = []  # the rows of each pass
    model.register_forward_pre_hook(
        lambda _, __, given: seen.append(len(given["input_ids"])), with_kwargs=True
    )
    for name, regex in REGEXES.items():
        fa = tt.constraints.regex(regex).compile(vocabulary)
        for particles in sizes:
            lm = tt.TransformersLM(model, tok)
            rivals = peers(model, tok, regex, particles)
            gc.collect()
            gc.freeze()  # a peer's tries are many objects, which are nobody else's to walk through
            found: dict[str, list[float]] = {}
            drawn: list[float] = []
            for seed in range(runs + 1):
                seen.clear()
                spent, post = cpu_ms(tt.smc, lm, PROMPT, fa, "gcd", None, particles, TOKENS, seed)
                rows = list(seen)
                times = {"tractile, GCD": spent / len(rows)}
                drawn.append(sum(map(len, post.token_ids)) / spent)
                every = [1] + [particles] * (len(rows) - 1)
                times["forward"] = cpu_ms(forward_only, lm, every)[0] / len(rows)
                times["same rows"] = cpu_ms(forward_only, lm, rows)[0] / len(rows)
                for rival, run in list(rivals.items()):
                    try:
                        spent, steps = cpu_ms(run, seed)
                        times[rival] = spent / steps
                        if spent > PATIENCE:
                            rivals.pop(rival)
                    except AssertionError:  # its own check of the mass that is left
                        rivals.pop(rival)
                for key, value in times.items():
                    found.setdefault(key, []).append(value)
            medians = {key: statistics.median(values[1:] or values) for key, values in found.items()}
            ratio = statistics.median(
                a / b for a, b in zip(found["tractile, GCD"][1:], found["forward"][1:], strict=True)
            )
            cells = [f"{medians[key]:.1f}" if key in medians else "–" for key in COLUMNS]
            print(
                f"| {vocab:,} | {name} | {particles} | "
                + " | ".join(cells)
                + f" | {ratio:.2f} | {1e3 * statistics.median(drawn[1:] or drawn):,.0f} |",
                flush=True,
            )


COLUMNS = ["forward", "same rows", "tractile, GCD", "peer: LM only", "peer: AWRS", "peer: eager"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a small vocabulary and one run")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--vocab", type=int, nargs="+", default=[8192, 50_257])
    parser.add_argument("--particles", type=int, nargs="+", default=[16, 64])
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    vocabs, sizes, runs = ([2048], [4], 1) if given.smoke else (given.vocab, given.particles, given.runs)
    try:
        import genlm.control  # noqa: F401
    except ImportError:
        print("genlm-control is not installed: its columns are empty\n")
    print("| V | constraint | N | " + " | ".join(COLUMNS) + " | GCD / forward | GCD, tokens/s |")
    print("| --- | --- | --- |" + " --- |" * (len(COLUMNS) + 2))
    for vocab in vocabs:
        speed(vocab, sizes, runs)


if __name__ == "__main__":
    main()
