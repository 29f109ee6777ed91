"""Constraints on masked diffusion models beside two simpler ways: what is satisfied, how probable, in what time.

    python benchmarks/diffusion.py [--molecules FOLDER] [--runs 200]

Satisfied %, mean log-probability of a satisfied text's path under the model (nats), milliseconds a step, of

    joint        tt.decoding.denoise: tokens of a step are drawn together
    each         each position is masked by itself: tokens that some text has there, given what stands, are drawn independently
    rejection    no constraint; texts that do not satisfy it are refused

Times are those of the processor, one thread (``OMP_NUM_THREADS=1``), since a busy machine disturbs them least. ``--molecules``
is a model that ``bench/training/masked_lm.py`` made of SMILES; without it this task is left out.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import tractile as tt
from tractile.decoding.canvas import Canvas, parts_of
from tractile.decoding.diffusion import linear, top
from tractile.decoding.letters import anything

SENTENCES = r"( [a-z]+){1,6} named [A-Z][a-z]+\.( [A-Z][a-z]+( [a-z]+)*\.){1,3}"


def each(lm: Any, ids: Any, parts: Any, steps: int, seed: int) -> tuple[Any, float]:
    """Denoise with a mask at each position by itself; return the tokens and log p of the path (−inf: a dead end)."""
    rows, draw, log_p = ids[None], torch.Generator().manual_seed(seed), 0.0
    for step in range(steps):
        masked = rows == lm.mask_token_id
        scores = lm.log_probs(rows)
        now = Canvas(scores, torch.where(masked, -1, rows), parts)
        if bool(now.log_partition.isneginf()):
            return rows[0], -math.inf
        allowed = scores.masked_fill(now.marginals().isneginf(), -torch.inf).log_softmax(-1)
        sure = torch.where(masked, top(allowed).double(), -torch.inf)
        fill = masked & linear(sure, step, steps)
        drawn = torch.multinomial(allowed[0].exp(), 1, generator=draw)[:, 0][None]
        log_p += float(now.log_p(torch.where(fill, drawn, -1)))
        rows = torch.where(fill, drawn, rows)
    return rows[0], log_p


def compare(molecules: Path | None, runs: int) -> None:
    """Print a table for each task."""
    from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

    story = tt.lm.MaskedLM(*tt.embedded.load_masked_lm())
    pet = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,7}$"},
            "kind": {"enum": ["cat", "dog"]},
            "age": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        "required": ["name", "kind", "age"],
        "additionalProperties": False,
    }
    tasks = [
        ("regex", story, story.ids("Once upon a time, there was a", 32), tt.constraints.regex(SENTENCES)),
        ("JSON", story, story.ids("Once upon a time, there was a dog.", 40), tt.constraints.json_schema(pet)),
    ]  # fmt: skip
    if molecules is not None:
        from tractile_bench.molecules.smiles_grammar import smiles

        model = AutoModelForMaskedLM.from_pretrained(molecules).float()
        lm = tt.lm.MaskedLM(model, PreTrainedTokenizerFast.from_pretrained(molecules))
        tasks.append(("SMILES", lm, lm.ids(32), tt.constraints.literal(" ") + smiles(2, 3, brackets=False)))
    for name, lm, ids, constraint in tasks:
        vocab = tt.Vocabulary.from_tokenizer(lm.tokenizer)
        fa, n = constraint.compile(vocab), len(ids)
        (opened,) = (ids == lm.mask_token_id).nonzero(as_tuple=True)
        part = range(int(opened[0]), n)
        parts = parts_of({part: fa}, n, len(vocab))
        for steps in (len(opened) // 4, len(opened)):
            for method in ("joint", "each", "rejection"):
                start, good = time.process_time(), []
                for seed in range(runs):
                    if method == "each":
                        tokens, log_p = each(lm, ids, parts, steps, seed)
                    else:
                        over = fa if method == "joint" else anything(len(vocab))
                        found = tt.decoding.denoise(lm, ids, {part: over}, steps=steps, seed=seed)
                        tokens, log_p = found.tokens[0], float(found.log_p)
                    good += [log_p] if fa.accepts(tokens[part.start :].tolist()) else []
                spent = 1000 * (time.process_time() - start) / runs / steps
                mean = f"{statistics.mean(good):8.1f}" if good else "       –"
                share = f"satisfied {100 * len(good) / runs:5.1f} %"
                line = f"{name:7} steps {steps:3}  {method:9}  {share}  log p {mean}  ms a step {spent:.1f}"
                print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--molecules", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--smoke", action="store_true", help="little, to see that it works")
    given = parser.parse_args()
    compare(given.molecules, 1 if given.smoke else given.runs)


if __name__ == "__main__":
    main()
