"""Constraints on masked diffusion models: what they cost a step, and what they give beside two simpler ways.

    python benchmarks/diffusion.py cost [--device cuda] [--vocabulary tekken.json]
    python benchmarks/diffusion.py compare [--molecules FOLDER] [--runs 200]

``cost``: a step of one canvas (the weights of the letters, log Z, marginals of a block of 32, a joint sample, its probability),
without the model, for canvases of n positions and expressions of S states. The vocabulary is the one inside mistral-common.

``compare``: satisfied %, mean log-probability of a satisfied text's path under the model (nats), milliseconds a step, of

    joint        tt.decoding.denoise: tokens of a step are drawn together
    each         each position is masked by itself: tokens that some text has there, given what stands, are drawn independently
    rejection    no constraint; texts that do not satisfy it are refused

Times are those of the processor, one thread (``OMP_NUM_THREADS=1``), since a busy machine disturbs them least; on a GPU they
are those of the clock. ``--molecules`` is a model that ``bench/training/masked_lm.py`` made of SMILES; without it this task is
left out.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import tractile as tt
from tractile.decoding.canvas import Canvas, parts_of
from tractile.decoding.diffusion import linear, top
from tractile.decoding.letters import anything

BLOCK = 32  # positions
SIZES = [  # an expression, positions, canvases
    *[("words", n, 1) for n in (64, 128, 256)],
    ("words", 256, 4),
    *[(name, 256, 1) for name in ("short", "pairs", "json")],
]
SENTENCES = r"( [a-z]+){1,6} named [A-Z][a-z]+\.( [A-Z][a-z]+( [a-z]+)*\.){1,3}"


def vocabulary(file: Path | None) -> Any:
    """Return the 131,072 tokens of Tekken."""
    if file is None:
        import mistral_common

        file = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    special, size = data["config"]["default_num_special_tokens"], data["config"]["default_vocab_size"]
    pieces = [b64decode(entry["token_bytes"]) for entry in data["vocab"][: size - special]]
    return tt.Vocabulary([None] * special + pieces, eos_token_id=2)


def seconds(fn: Any, device: str, runs: int = 3) -> float:
    """Return the median of ``runs`` calls, after one that is not counted."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    found = []
    for _ in range(runs + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = clock()
        fn()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(clock() - start)
    return statistics.median(found[1:])


def cost(device: str, file: Path | None, sizes: Sequence[tuple[str, int, int]]) -> None:
    """Print a table: positions, states, edges, letters, rows; milliseconds of the parts of a step."""
    vocab = vocabulary(file)
    whole = {
        "words": tt.constraints.regex(r"([a-z]{3,9} ){1,100}[0-9]"),
        "pairs": tt.constraints.regex(r"(\(([a-z]{1,4},){1,100}[0-9]{1,8}\))"),
        "short": tt.constraints.regex(r"[A-Z][a-z]+( [a-z]+){0,9}\."),
    }
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 99},
            "kind": {"enum": ["cat", "dog", "horse"]},
        },
        "required": ["name", "age", "kind"],
        "additionalProperties": False,
    }
    whole["json"] = tt.constraints.json_schema(schema)
    print(f"V = {len(vocab):,}, {device}, {torch.get_num_threads()} threads; ms")
    print(
        f"{'':6} {'n':>4} {'rows':>4} {'states':>6} {'edges':>6} {'letters':>7}  letters  log Z  marginals  sample  step"
    )
    for name, n, rows in sizes:
        parts = parts_of(whole[name].compile(vocab), n, len(vocab), device=torch.device(device))
        shape = rows, n, len(vocab)
        scores = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device).log_softmax(-1)
        known = torch.full((rows, n), -1, device=device)

        def step(scores: Any = scores, known: Any = known, parts: Any = parts) -> None:
            now = Canvas(scores, known, parts)
            now.possible()
            now.marginals(torch.arange(BLOCK))
            where = torch.zeros_like(known, dtype=torch.bool)
            where[:, :4] = True
            now.log_prob(now.sample(where=where)[0])

        now = Canvas(scores, known, parts)
        letters = seconds(lambda: Canvas(scores, known, parts)._weighed, device)  # noqa: B023
        times = [
            letters,
            seconds(lambda: now._log_partition(known), device),  # noqa: B023
            seconds(lambda: now.marginals(torch.arange(BLOCK)), device),  # noqa: B023
            seconds(now.sample, device),
            seconds(step, device),
        ]
        automaton = parts[0][1].automaton
        sizes = f"{automaton.num_states:6} {automaton.num_edges:6} {parts[0][1].size:7}"
        shown = "  ".join(f"{1000 * t:7.0f}" for t in times)
        print(f"{name:6} {n:4} {rows:4} {sizes}  {shown}", flush=True)


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
    """Run one of the two, or both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["cost", "compare", "both"], default="both")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--vocabulary", type=Path)
    parser.add_argument("--molecules", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--smoke", action="store_true", help="little, to see that it works")
    given = parser.parse_args()
    given.runs = 1 if given.smoke else given.runs
    if given.what != "compare":
        try:
            cost(given.device, given.vocabulary, SIZES[:1] if given.smoke else SIZES)
        except ModuleNotFoundError as error:
            print(f"cost: left out, {error}")
    if given.what != "cost":
        compare(given.molecules, given.runs)


if __name__ == "__main__":
    main()
