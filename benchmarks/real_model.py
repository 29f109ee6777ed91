"""JSON by a real language model: valid and finished within a budget, Tractile beside engines that mask locally.

Gemma 3 270M (base, float32) writes behind solved questions, at temperature 1:

    calls      questions of BFCL's development half; a schema is the choice of the question's tools, each with its arguments
    documents  schemas of JSONSchemaBench's development part that have a valid instance; a solved question is a schema and its
               instance

All engines of ``peers/masks.py`` mask the model's logits in one loop: a row for each question and engine, and for Tractile
(GCD), whose masks know the budget, one for each budget; one forward pass for all. At step t all rows of a question draw with
the same uniform number. The local engines draw the same text whatever the budget, so one text of theirs serves for all
budgets. *Compact*: an engine's setting without free white space. Counted are the questions that every engine compiles and that
have a text within the budget:

    finished   texts that ended within it and satisfy the schema, by the ``jsonschema`` package
    right      of calls: those that are BFCL's

Needs ``tractile-bench[real,tasks]`` and the extra ``peers``. Questions of both kinds take turns until the minutes are over;
``--out`` keeps the texts, ``--add`` reads them again.

    python benchmarks/real_model.py [--smoke] [--minutes M] [--engines NAME …] [--seed N] [--out FILE.json]
    python benchmarks/real_model.py --minutes 0 --add FILE.json … --picture docs/real-model.png
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from peers.masks import ENGINES, LLGuidance, Tractile, Walker, XGrammar
from peers.questions import Question, calls, documents
from samples import SHARED, Tokens
from scipy.stats import binomtest

import tractile as tt
from tractile.lm import TransformersLM
from tractile_bench.cli import SAMPLE

BUDGETS = [16, 32, 64, 128, 256]
SHOTS, TOGETHER = 3, 16  # solved questions before each one; questions at once
EXACT = "Tractile (GCD)"


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
    """A row for each engine; for Tractile one for each budget."""
    rows = []
    for name, engine in engines.items():
        if name == EXACT:
            rows += [Row(question, name, budget, walker) for budget, walker in room.items()]
        else:
            rows.append(Row(question, name, max(room), engine.compile(schema)))
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


def is_valid(text: str, schema: dict[str, Any]) -> bool:
    """Whether a text satisfies a schema."""
    try:
        return bool(validator_for(schema, Draft202012Validator)(schema).is_valid(json.loads(text)))
    except ValueError:
        return False


def shares(lines: list[dict[str, Any]], kind: str, what: str) -> dict[str, dict[int, tuple[int, int]]]:
    """By engine and budget: how many texts of how many are finished, or right."""
    of_kind = [line for line in lines if line["kind"] == kind]
    names = list(dict.fromkeys(line["engine"] for line in of_kind))
    found: dict[str, dict[int, list[bool]]] = {name: {} for name in names}
    for line in of_kind:
        found[line["engine"]].setdefault(line["budget"], []).append(line[what])
    return {
        name: {budget: (sum(row), len(row)) for budget, row in sorted(by.items())}
        for name, by in found.items()
    }


def interval(successes: int, count: int) -> tuple[float, float]:
    """The exact interval of a share, 95 %."""
    sure = binomtest(successes, count).proportion_ci()
    return sure.low, sure.high


def report(lines: list[dict[str, Any]]) -> None:
    """Print the shares by kind, engine and budget, with exact 95 % intervals."""
    for kind, what in (("calls", "finished"), ("calls", "right"), ("documents", "finished")):
        table = shares(lines, kind, what)
        budgets = sorted({budget for by in table.values() for budget in by})
        print(f"\n| {kind}: {what} within | " + " | ".join(map(str, budgets)) + " |")
        for name, by in table.items():
            cells = []
            for done, count in (by[budget] for budget in budgets):
                low, high = interval(done, count)
                cells.append(f"{done} of {count} ({low:.0%}–{high:.0%})")
            print(f"| {name} | " + " | ".join(cells) + " |")


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """The picture of the front page: what is finished within a budget."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = dict(zip(CHOICE, ["#0b6e4f", "#3d5a80", "#c06014", "#7fa3c7", "#e0a458"], strict=True))
    titles = {"calls": "calls of tools (BFCL)", "documents": "real schemas (JSONSchemaBench)"}
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), dpi=110, sharey=True)
    for axes, (kind, title) in zip(panels, titles.items(), strict=True):
        for at, (name, by) in enumerate(shares(lines, kind, "finished").items()):
            share = np.array([(done / count, *interval(done, count)) for done, count in by.values()]).T * 100
            beside = np.array(list(by)) * 1.02 ** (at - 2)  # so that intervals can be told apart
            rods = abs(share[1:] - share[0])
            axes.errorbar(
                beside, share[0], rods, marker="o", ms=4, elinewidth=0.7, color=colours[name], label=name
            )
        axes.set(xscale="log", xlabel="token budget", xlim=(14, 290), ylim=(-4, 104))
        axes.set_title(title, fontsize=10)
        axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("valid and finished, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="center right", frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0, 0.81, 1))
    figure.savefig(path)


def answered(
    lm: TransformersLM,
    tokenizer: Any,
    exact: Tractile,
    engines: dict[str, Any],
    chosen: list[Question],
    budgets: list[int],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yield a line for each text and budget of the questions that all engines compile."""
    rows, rooms = [], dict[int, dict[int, Walker]]()
    for i, question in enumerate(chosen):
        try:
            rooms[i] = room_for(exact, question.schema, budgets)
            rows += rows_of(i, question.schema, engines, rooms[i]) if rooms[i] else []
        except Exception as error:  # an engine may refuse a schema
            print(f"  {question.id}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
    if not rows:
        return
    run(lm, [tokenizer(question.prompt).input_ids for question in chosen], rows, seed)
    for row in rows:
        question, text = chosen[row.question], lm.decode(row.ids)
        valid = row.ended and is_valid(text, question.schema)
        right = valid and question.right(text)
        for budget in [row.budget] if row.engine == EXACT else rooms[row.question]:
            within = len(row.ids) <= budget
            yield {
                "kind": question.kind, "id": question.id, "engine": row.engine, "budget": budget, "tokens": len(row.ids),
                "finished": valid and within, "right": right and within, "text": text,
            }  # fmt: skip


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
    parser.add_argument("--out", type=Path, help="texts as JSON")
    parser.add_argument("--add", nargs="*", type=Path, default=[], help="texts of other runs")
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args(given)
    lines = [line for file in args.add for line in json.loads(file.read_text())]
    if args.minutes > 0:
        lines += measured(args)
    report(lines)
    if args.picture is not None:
        draw(lines, args.picture)


def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Answer questions until the time is over."""
    budgets, shots = ([24, 48], 1) if args.smoke else (BUDGETS, SHOTS)
    if args.smoke:
        from tractile_bench.models import load_small_lm as load
    else:
        from tractile_bench.real import load_gemma as load
    model, tokenizer = load()
    tokens = tokens_of(tt.Vocabulary.from_tokenizer(tokenizer), tokenizer)
    engines = {
        name: CHOICE[name][1](tokens)
        for name in args.engines
        if not args.smoke or find_spec(CHOICE[name][0].replace("-", "_"))
    }
    exact, lm = Tractile(tokens), TransformersLM(model, tokenizer)
    data = args.data if args.data.is_dir() and not args.smoke else SAMPLE / "function-calling"
    kinds = [list(calls(data, shots)), list(documents(shots))]
    for kind in kinds:
        random.Random(args.seed).shuffle(kind)
    questions = list(chain(*zip(*kinds, strict=False)))[: 2 if args.smoke else None]
    lines: list[dict[str, Any]] = []
    until = time.monotonic() + 60 * args.minutes
    for at in range(0, len(questions), TOGETHER):
        lines += answered(
            lm, tokenizer, exact, engines, questions[at : at + TOGETHER], budgets, args.seed + at
        )
        if args.out is not None:
            args.out.write_text(json.dumps(lines, indent=1))
        print(f"{at + TOGETHER} questions", file=sys.stderr)
        if time.monotonic() > until:
            break
    return lines


if __name__ == "__main__":
    main()
