"""Are the probabilities of answers right, and do they tell right answers from wrong ones? Gemma 3 270M, float32.

Questions stand behind solved ones, and a newline ends the answer: the intent of a query (SNIPS, 7), which of the tools a question
needs and what its argument with listed values is (BFCL), and a date in words as year, month and day (made here).

    errors      of 4, 16 and 64 particles, and of agreement (the share of particles that have the answer), against
                `posterior.field`, where that lists all answers; how many 90 % intervals of the particles hold the exact one
    certainty   whether the more certain answers are the right ones: `field`; one sample, by its log-probability under the
                mask; agreement of as many samples as cost the same model tokens

    python benchmarks/answers.py [--questions 60] [--smoke]
"""

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import chain, islice
from statistics import mean
from typing import Any

import torch
from fields import STORIES
from scipy.stats import mannwhitneyu

import tractile as tt
from tractile.constraints import Vocabulary, any_of
from tractile_bench.counting_lm import CountingLM
from tractile_bench.function_calling.task import FunctionCalling
from tractile_bench.prompts import function_signature
from tractile_bench.real import load_gemma
from tractile_bench.stop_at_newline import NewlineStopLM

COUNTS, DATA = (4, 16, 64), STORIES.parents[1]


Question = tuple[str, str, tt.constraints.Constraint, set[str]]
"""What is asked for, a prompt, the answers that are allowed, and the right ones."""


def intents(rng: random.Random) -> Iterator[Question]:
    """Queries of SNIPS behind seven others, one of each intent."""
    import zstandard

    of = defaultdict[str, list[str]](list)
    with zstandard.open(DATA / "snips/train.jsonl.zst", "rt", encoding="utf-8") as file:
        for query in map(json.loads, file):
            of[query["intent"]].append(f"Query: {query['text']}\nIntent:\n")
    while True:
        shots = [rng.choice(of[label]) + label for label in rng.sample(sorted(of), len(of))]
        right = rng.choice(sorted(of))
        yield ("intent", "\n\n".join([*shots, rng.choice(of[right])]), any_of(*of), {right})


def of_tools(rng: random.Random, subject: str) -> Iterator[Question]:
    """Questions of BFCL behind three others: which *tool*, or which of the values that are listed for an *argument*."""
    task = FunctionCalling(DATA / "bfcl", calls="one")
    found: dict[str, list[tuple[str, set[str], set[str]]]] = {"train": [], "test": []}
    for split, each in found.items():
        for example in task.examples(split):
            question, tools = example.prompt.removesuffix("JSON call:\n"), example.facts["tools"]
            ((name, given),) = example.facts["accepted"][0].items()
            if subject == "tool":
                each.append((f"{question}Function:\n", {tool["name"] for tool in tools}, {name}))
                continue
            (tool,) = (tool for tool in tools if tool["name"] == name)
            text = f"Function: {function_signature(tool)}\nUser:{question.rpartition('User:')[2]}"
            for key, schema in tool["parameters"].get("properties", {}).items():
                values = {one for one in schema.get("enum", []) if isinstance(one, str)}
                each.append((f"{text}{key}:\n", values, values & {str(one) for one in given.get(key, [])}))
        each[:] = [one for one in each if len(one[0]) < 1500 and len(one[1]) > 1 and one[2]]
        rng.shuffle(each)
    short = [text + min(right) for text, _, right in found["train"] if len(text) < 700]
    for text, values, right in found["test"]:
        yield (subject, "\n\n".join([*rng.sample(short, 3), text]), any_of(*sorted(values)), right)


def days(rng: random.Random) -> Iterator[Question]:
    """Dates in words behind four others."""
    allowed = tt.constraints.regex(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
    while True:
        drawn = [date(rng.randint(1950, 2029), rng.randint(1, 12), rng.randint(1, 28)) for _ in range(5)]
        texts = [f"{one:{rng.choice(['%B %-d, %Y', 'the %-d. of %B %Y'])}} is\n" for one in drawn]
        shots = [f"{text}{one}" for text, one in zip(texts[1:], drawn[1:], strict=True)]
        yield ("date", "\n\n".join([*shots, texts[0]]), allowed, {str(drawn[0])})


class Row:
    """What was measured of one kind of question; ``answers``: how sure, and whether right, by method."""

    def __init__(self) -> None:
        self.listed, self.tokens = 0, list[int]()
        self.errors = defaultdict[int, list[tuple[float, float, bool]]](list)  # particles, agreement, covered
        self.answers = defaultdict[str, list[tuple[float, bool]]](list)


def measured(lm: CountingLM, tokenizer: Any, questions: Iterable[Question]) -> dict[str, Row]:
    """Ask each question."""
    found = defaultdict[str, Row](Row)
    settings: dict[str, Any] = {"tokenizer": tokenizer, "max_new_tokens": 24}
    for seed, (subject, prompt, allowed, right) in enumerate(questions):
        row, run = found[subject], partial(tt.smc, lm, prompt, allowed, "gcd", seed=seed, **settings)
        lm.reset()
        exact = run(particles=16).field("")
        row.tokens.append(spent := lm.rows)
        row.listed += exact.exact
        for size in COUNTS:
            lm.reset()
            post = run(particles=size, ess_threshold=0.0)
            shares, alone = Counter(post.texts), replace(post, source=None).field("")
            for value, p in exact if exact.exact else ():
                if p.value >= 0.01:
                    q = alone.estimate(value)
                    errors = abs(q.value - p.value), abs(shares[value] / size - p.value)
                    row.errors[size].append((*errors, q.low - 1e-3 <= p.value <= q.high + 1e-3))
        (top, p), many = exact.top(), min(size, max(1, round(spent * size / lm.rows)))
        ((often, times),) = Counter(post.texts[:many]).most_common(1)
        row.answers["field"].append((p.value, top in right))
        under_mask = float(post.log_probs[0] - post.log_weights[0])
        row.answers["one sample"].append((under_mask, post.texts[0] in right))
        row.answers["agreement"].append((times / many, often in right))
    return found


def print_tables(found: dict[str, Row]) -> None:
    """Print the errors and what the certainties are worth, for each kind of question."""
    for subject, row in found.items():
        print(
            f"{subject}: {len(row.tokens)} questions, {row.listed} listed, {mean(row.tokens):.0f} tokens each"
        )
        for size, errors in row.errors.items():
            mine, agreement, covered = (mean(each) for each in zip(*errors, strict=True))
            print(f"  {size:3} particles: error {mine:.3f}, agreement {agreement:.3f}, covered {covered:.1%}")
        for method, answers in row.answers.items():
            answers.sort(key=lambda one: -one[0])
            right, half = (mean(ok for _, ok in answers[:n]) for n in (None, (len(answers) + 1) // 2))
            sure = [[how for how, ok in answers if ok is wanted] for wanted in (True, False)]
            area = mannwhitneyu(*sure).statistic / (len(sure[0]) * len(sure[1])) if all(sure) else math.nan
            print(f"  {method:10}: right {right:.2f}, more certain half {half:.2f}, AUROC {area:.2f}")


def main() -> None:
    """Ask all kinds of questions in turns, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--questions", type=int, default=60, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="the embedded model on two dates")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = tt.embedded.load_lm() if args.smoke else load_gemma()
    lm = CountingLM(NewlineStopLM(tt.TransformersLM(model, tokenizer), Vocabulary.from_tokenizer(tokenizer)))
    rng = random.Random(args.seed)
    kinds = [intents(rng), of_tools(rng, "tool"), of_tools(rng, "argument"), days(rng)]
    some = [islice(days(rng), 2)] if args.smoke else [islice(kind, args.questions) for kind in kinds]
    questions = chain.from_iterable(zip(*some, strict=False))
    print_tables(measured(lm, tokenizer, questions))


if __name__ == "__main__":
    main()
