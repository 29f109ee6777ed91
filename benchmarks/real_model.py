"""Function calls by a real language model: valid and finished within a budget, Tractile beside engines that mask locally.

Gemma 3 270M (base, float32) answers questions of BFCL's development half behind solved ones, at temperature 1. All engines of
``peers/masks.py`` mask the model's logits in one loop: a row for each question and engine, and for Tractile (GCD), whose masks
know the budget, one for each budget; one forward pass for all. At step t all rows of a question draw with the same uniform
number. The local engines draw the same text whatever the budget, so one text of theirs serves for all budgets. A schema is the
choice of the question's tools, each with its arguments. *Compact*: an engine's setting without free white space.

    finished   of the questions for which a call fits into the budget: texts that ended within it and satisfy the schema, by the
               ``jsonschema`` package
    right      of the same: the call is BFCL's

Needs ``tractile-bench[real,tasks]`` and the extra ``peers``. Questions go on until the minutes are over; ``--out`` keeps them.

    python benchmarks/real_model.py [--smoke] [--data FOLDER] [--minutes M] [--engines NAME …] [--out FILE.json]
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import torch
from peers.masks import ENGINES, LLGuidance, Tractile, Walker, XGrammar
from samples import SHARED, Tokens
from scipy.stats import binomtest

import tractile as tt
from tractile.lm import TransformersLM
from tractile_bench.cli import SAMPLE
from tractile_bench.function_calling.task import FunctionCalling
from tractile_bench.function_calling.tools import tools_of
from tractile_bench.prompts import few_shot

BUDGETS = [16, 32, 64, 128, 256]
SHOTS, TOGETHER = 3, 4  # solved questions before each one; questions at once
EXACT = "tractile (GCD)"


class CompactXGrammar(XGrammar):
    """Without free white space."""

    def compile(self, schema: dict[str, Any]) -> Walker:
        compiled = self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=False)
        return self._Walker(self.module, compiled, self.size)


class CompactLLGuidance(LLGuidance):
    """Without free white space."""

    def compile(self, schema: dict[str, Any]) -> Walker:
        written = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        return super().compile({**schema, "x-guidance": written})


CHOICE = {name: ENGINES[name] for name in (EXACT, "xgrammar", "llguidance")} | {
    "xgrammar, compact": ("xgrammar", CompactXGrammar),
    "llguidance, compact": ("llguidance", CompactLLGuidance),
}


def schema_of(tools: list[Any]) -> dict[str, Any]:
    """One call of one of the tools."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": tool.schema()},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools_of(json.dumps(tools)).schemas.values()
    ]
    return {"anyOf": calls}


def tokens_of(vocab: tt.Vocabulary, tokenizer: Any) -> Tokens:
    """The vocabulary as the engines of ``peers/masks.py`` take it."""
    pieces = [piece or b"" for piece in vocab.token_bytes]
    special = next(i for i, piece in enumerate(pieces) if piece)
    return Tokens(
        pieces, vocab.eos_token_id, special, lambda text: tokenizer(text, add_special_tokens=False).input_ids
    )


class Row:
    """A text under way: of a question, by an engine, within a budget."""

    def __init__(self, question: int, engine: str, budget: int, walker: Any) -> None:
        self.question, self.engine, self.budget, self.walker = question, engine, budget, walker
        self.ids: list[int] = []
        self.ended = False

    def draw(self, log_probs: torch.Tensor, uniform: float, eos: int) -> int:
        """Draw a token that the mask allows, −1 if there is none."""
        words = np.asarray(self.walker.mask()).view(np.uint8)
        allowed = np.unpackbits(words, bitorder="little")[: len(log_probs)].astype(bool)
        weights = np.where(allowed, log_probs.exp().numpy(), 0.0).cumsum(dtype=np.float64)
        if not weights[-1] > 0:
            return -1
        token = int(np.searchsorted(weights, uniform * weights[-1], side="right"))
        self.ids.append(token)
        self.ended = token == eos
        if not self.ended:
            self.walker.advance(token)
        return token


def room_for(exact: Tractile, schema: dict[str, Any], budgets: list[int]) -> dict[int, Walker]:
    """The budgets that have room for a call, each with its walker."""
    found = {}
    for budget in budgets:
        exact.budget = budget
        try:
            found[budget] = exact.compile(schema)
        except tt.errors.BudgetTooSmall:
            continue
    return found


def rows_of(
    question: int, schema: dict[str, Any], engines: dict[str, Any], room: dict[int, Walker]
) -> list[Row]:
    """A row for each engine that takes the schema; for Tractile one for each budget."""
    rows = []
    for name, engine in engines.items():
        if name == EXACT:
            rows += [Row(question, name, budget, walker) for budget, walker in room.items()]
            continue
        try:
            rows.append(Row(question, name, max(room), engine.compile(schema)))
        except Exception as error:  # an engine may refuse a schema
            print(f"  {name}: {type(error).__name__}", file=sys.stderr)
    return rows


@torch.inference_mode()
def run(lm: TransformersLM, prompts: list[Any], rows: list[Row], seed: int) -> None:
    """Write the texts of all rows."""
    draws = [random.Random(f"{seed} {i}") for i in range(len(prompts))]
    lm.start(prompts)
    lm.select(torch.tensor([row.question for row in rows]))
    live = rows
    while live:
        uniform = [one.random() for one in draws]
        table = lm.log_probs()
        tokens = [
            row.draw(table[i], uniform[row.question], lm.eos_token_id or 0) for i, row in enumerate(live)
        ]
        going = [
            i for i, row in enumerate(live) if tokens[i] >= 0 and not row.ended and len(row.ids) < row.budget
        ]
        live = [live[i] for i in going]
        if live:
            lm.select(torch.tensor(going))
            lm.advance(torch.tensor([tokens[i] for i in going]))


def judged(task: FunctionCalling, example: Any, schema: dict[str, Any], text: str) -> tuple[bool, bool]:
    """Whether a text satisfies the schema, and whether it is the right call."""
    try:
        valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError:
        return False, False
    return valid, valid and task.scores(example, text)["accuracy"] == 1


def report(lines: list[dict[str, Any]], budgets: list[int]) -> None:
    """Print both shares by engine and budget, with exact 95 % intervals."""
    names = list(dict.fromkeys(line["engine"] for line in lines))
    print(f"{len({line['id'] for line in lines})} questions")
    for what in ("finished", "right"):
        print(f"\n| {what} within | " + " | ".join(map(str, budgets)) + " |")
        for name in names:
            cells = []
            for budget in budgets:
                found = [ln[what] for ln in lines if (ln["engine"], ln["budget"]) == (name, budget)]
                if not found:
                    cells.append("–")
                    continue
                sure = binomtest(sum(found), len(found)).proportion_ci()
                cells.append(f"{sum(found)} of {len(found)} ({sure.low:.0%}–{sure.high:.0%})")
            print(f"| {name} | " + " | ".join(cells) + " |")


def main(given: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--smoke", action="store_true", help="the small model, a question, whatever engines are there"
    )
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "bfcl")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--engines", nargs="*", default=list(CHOICE), choices=list(CHOICE))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(given)
    budgets, shots = ([24, 48], 1) if args.smoke else (BUDGETS, SHOTS)
    if args.smoke:
        from tractile_bench.models import load_small_lm as load
    else:
        from tractile_bench.real import load_gemma as load
    model, tokenizer = load()
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    tokens = tokens_of(vocab, tokenizer)
    engines = {
        name: CHOICE[name][1](tokens)
        for name in args.engines
        if not args.smoke or find_spec(CHOICE[name][0].replace("-", "_"))
    }
    exact = Tractile(tokens)
    task = FunctionCalling(
        args.data if args.data.is_dir() and not args.smoke else SAMPLE / "function-calling", calls="one"
    )
    asked = few_shot(task, shots)
    questions = [e for e in task.examples("test") if len(e.prompt) < 1500]
    random.Random(args.seed).shuffle(questions)
    lm = TransformersLM(model, tokenizer)
    lines: list[dict[str, Any]] = []
    until = time.monotonic() + 60 * args.minutes
    for at in range(0, 1 if args.smoke else len(questions), TOGETHER):
        chosen, rows, prompts, schemas, rooms = questions[at : at + TOGETHER], [], [], [], []
        for i, example in enumerate(chosen):
            prompts.append(tokenizer(asked(example)).input_ids)
            schemas.append(schema_of(example.facts["tools"]))
            rooms.append(room_for(exact, schemas[-1], budgets))
            rows += rows_of(i, schemas[-1], engines, rooms[-1])
        run(lm, prompts, rows, args.seed + at)
        found = defaultdict(list)
        for row in rows:
            found[row.question].append(row)
        for i, example in enumerate(chosen):
            for row in found[i]:
                text = lm.decode(row.ids)
                valid, right = judged(task, example, schemas[i], text) if row.ended else (False, False)
                for budget in [row.budget] if row.engine == EXACT else rooms[i]:
                    within = len(row.ids) <= budget
                    lines.append({
                        "id": example.id, "engine": row.engine, "budget": budget, "tokens": len(row.ids),
                        "finished": valid and within, "right": right and within, "text": text,
                    })  # fmt: skip
        if args.out is not None:
            args.out.write_text(json.dumps(lines, indent=1))
        print(f"{at + len(chosen)} questions", file=sys.stderr)
        if time.monotonic() > until:
            break
    report(lines, budgets)


if __name__ == "__main__":
    main()
