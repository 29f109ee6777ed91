"""What answers of a real model are worth: how probable each one is, and which is the most probable. Gemma 3 270M, float32.

    fields   the probability of an answer: the error of 4, 16 and 64 particles and of agreement (the share of particles that have
             it) against `posterior.field`, where that lists all answers; how many 90 % intervals of the particles hold the exact
             one. Then whether the more certain answers are the right ones: `field`; one sample, by its log-probability
             under the mask; agreement of as many samples as cost the same model tokens
    mode     `tt.mode` on objects made of JSONSchemaBench's enums, bounded numbers and short strings: how often greedy decoding
             under the mask is not the most probable text, nats lost, certificates

Questions stand behind solved ones, and a newline ends the answer. Fields: the intent of a query (SNIPS, 7), which of the tools a
question needs and what its argument with listed values is (BFCL), and a date in words as year, month and day (made here).

    python benchmarks/answers.py fields|mode [--questions 60] [--minutes M] [--embedded] [--out FILE.json] [--smoke]
"""

import argparse
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import torch
from samples import SHARED, rows
from scipy.stats import mannwhitneyu

import tractile as tt
from tractile.constraints import Vocabulary, any_of
from tractile.errors import TractileError
from tractile_bench.counting_lm import CountingLM
from tractile_bench.function_calling.task import FunctionCalling
from tractile_bench.prompts import function_signature
from tractile_bench.real import load_gemma
from tractile_bench.stop_at_newline import NewlineStopLM

COUNTS = (4, 16, 64)
MONTHS = [f"{date(2000, month, 1):%B}" for month in range(1, 13)]


class Question(NamedTuple):
    """A prompt, the answers that are allowed, and the right ones."""

    subject: str
    prompt: str
    allowed: Any
    right: set[str]


def intents(rng: random.Random) -> Iterator[Question]:
    """Queries of SNIPS behind seven others, one of each intent."""
    import zstandard

    with zstandard.open(SHARED / "data/snips/train.jsonl.zst", "rt", encoding="utf-8") as file:
        queries = [json.loads(line) for line in file]
    labels = sorted({query["intent"] for query in queries})
    while True:
        *shots, asked = [rng.choice([q for q in queries if q["intent"] == label]) for label in labels] + [
            rng.choice(queries)
        ]
        rng.shuffle(shots)
        texts = [f"Query: {one['text']}\nIntent:\n" for one in (*shots, asked)]
        before = "".join(f"{text}{one['intent']}\n\n" for text, one in zip(texts, shots, strict=False))
        yield Question("intent", before + texts[-1], any_of(*labels), {asked["intent"]})


def of_tools(rng: random.Random) -> Iterator[Question]:
    """Questions of BFCL behind three others: which tool, and which of the values listed for an argument."""
    task = FunctionCalling(SHARED / "data/bfcl", calls="one")
    kinds: dict[str, dict[str, list[tuple[str, list[str], set[str]]]]] = defaultdict(dict)
    for split in ("train", "test"):
        found: dict[str, list[tuple[str, list[str], set[str]]]] = {"tool": [], "argument": []}
        for example in task.examples(split):
            ((name, given),) = example.facts["accepted"][0].items()
            tools, question = example.facts["tools"], example.prompt.rpartition("\n")[0].rpartition("\n")[0]
            if len(tools) > 1 and len(question) < 1500:
                found["tool"].append((f"{question}\nFunction:\n", [tool["name"] for tool in tools], {name}))
            for tool in tools:
                for key, schema in tool["parameters"].get("properties", {}).items():
                    values = schema.get("enum")
                    right = {value for value in given.get(key, []) if isinstance(value, str) and value}
                    if (
                        tool["name"] == name
                        and values
                        and right
                        and {*map(type, values)} == {str}
                        and len(values) > 1
                    ):
                        alone = function_signature(tool)
                        user = question.rpartition("\nUser:")[2]
                        found["argument"].append((f"Function: {alone}\nUser:{user}\n{key}:\n", values, right))
        kinds[split] = found
    for subject in ("tool", "argument"):
        shots, asked = (kinds[split][subject] for split in ("train", "test"))
        short = [one for one in shots if len(one[0]) < 700]
        rng.shuffle(asked)
        for text, values, right in asked:
            before = "".join(f"{one}{sorted(answer)[0]}\n\n" for one, _, answer in rng.sample(short, 3))
            yield Question(subject, before + text, any_of(*sorted({*values})), right)


def days(rng: random.Random) -> Iterator[Question]:
    """Dates in words."""
    allowed = tt.constraints.regex(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
    while True:
        drawn = [(rng.randint(1950, 2029), rng.randint(1, 12), rng.randint(1, 28)) for _ in range(5)]
        texts = [
            rng.choice([f"{MONTHS[m - 1]} {d}, {y}", f"the {d}. of {MONTHS[m - 1]} {y}"]) for y, m, d in drawn
        ]
        right = [f"{y}-{m:02}-{d:02}" for y, m, d in drawn]
        before = "".join(f"{text} is\n{day}\n\n" for text, day in zip(texts[:-1], right, strict=False))
        yield Question("date", f"{before}{texts[-1]} is\n", allowed, {right[-1]})


def fields(lm: CountingLM, tokenizer: Any, questions: Iterator[Question], until: float) -> dict[str, Any]:
    """Return errors, intervals and answers by subject."""
    found: dict[str, Any] = defaultdict(
        lambda: {"errors": defaultdict(list), "covered": defaultdict(list), "answers": []}
    )
    for seed, question in enumerate(questions):
        if time.perf_counter() > until:
            break
        row = found[question.subject]
        run = partial(
            tt.smc,
            lm,
            question.prompt,
            question.allowed,
            "gcd",
            max_new_tokens=24,
            seed=seed,
            tokenizer=tokenizer,
        )
        lm.reset()
        exact = run(particles=16).field("")
        spent = lm.rows
        row["exact"] = row.get("exact", 0) + exact.exact
        for size in COUNTS:
            lm.reset()
            post = run(particles=size, ess_threshold=0.0)
            shares = Counter(post.texts)
            for value, p in exact if exact.exact else ():
                if p.value >= 0.01:
                    q = replace(post, source=None).field("").estimate(value)
                    row["errors"][size].append((abs(q.value - p.value), abs(shares[value] / size - p.value)))
                    row["covered"][size].append(q.low - 1e-3 <= p.value <= q.high + 1e-3)
        many = max(1, min(size, round(spent * size / lm.rows)))
        top, p = exact.top()
        often, times = Counter(post.texts[:many]).most_common(1)[0]
        of_one = float(post.log_probs[0] - post.log_weights[0])
        row["answers"] += [
            ("field", p.value, top in question.right),
            ("one sample", of_one, post.texts[0] in question.right),
            ("agreement", times / many, often in question.right),
        ]
        row.setdefault("spent", []).append((spent, many))
    return dict(found)


def area(answers: list[tuple[str, float, bool]]) -> float:
    """Return the area under the ROC curve: how often a right answer is more certain than a wrong one."""
    sure = [[s for _, s, right in answers if right == wanted] for wanted in (True, False)]
    return float(mannwhitneyu(*sure).statistic) / len(sure[0]) / len(sure[1]) if all(sure) else float("nan")


def print_fields(found: dict[str, Any]) -> None:
    """Print the two tables."""
    for subject, row in found.items():
        asked = len(row["answers"]) // 3
        print(
            f"{subject}: {asked} questions, {row['exact']} listed, model tokens {mean(a for a, _ in row['spent']):.0f}"
        )
        for size, errors in row["errors"].items():
            mine, agree = (mean(each) for each in zip(*errors, strict=True))
            print(
                f"  {size:3} particles: error {mine:.3f}, agreement {agree:.3f}, covered {mean(row['covered'][size]):.1%}"
            )
        for method in ("field", "one sample", "agreement"):
            answers = sorted((a for a in row["answers"] if a[0] == method), key=lambda a: -a[1])
            right, half = (mean(a[2] for a in part) for part in (answers, answers[: (asked + 1) // 2]))
            print(
                f"  {method:10}: right {right:.2f}, more certain half {half:.2f}, AUROC {area(answers):.2f}"
            )


def simple_members() -> list[tuple[str, Any]]:
    """Names and schemas of JSONSchemaBench's members with few values: enums, booleans, bounded integers, short strings."""
    found = {}

    def walk(schema: Any) -> None:
        if isinstance(schema, list):
            for each in schema:
                walk(each)
        if not isinstance(schema, dict):
            return
        properties = schema.get("properties")
        for name, member in properties.items() if isinstance(properties, dict) else ():
            if isinstance(member, dict) and len(name) < 24 and (simple := without_words(member)) is not None:
                found.setdefault(name, simple)
        for each in schema.values():
            walk(each)

    for row in rows():
        walk(row["schema"])
    return sorted(found.items())


def without_words(schema: dict[str, Any]) -> Any:
    """Return what limits the values of a simple member; None for any other."""
    values, kind = schema.get("enum"), schema.get("type")
    if (
        isinstance(values, list)
        and 1 < len(values) <= 50
        and all(isinstance(v, str | int | bool) for v in values)
    ):
        return {"enum": values}
    if kind == "boolean":
        return {"type": kind}
    if (
        kind == "integer"
        and isinstance(schema.get("minimum"), int)
        and isinstance(schema.get("maximum"), int)
    ):
        return {key: schema[key] for key in ("type", "minimum", "maximum")}
    if (
        kind == "string"
        and isinstance(schema.get("maxLength"), int)
        and schema["maxLength"] <= 8
        and "pattern" not in schema
    ):
        return {"type": kind, "maxLength": schema["maxLength"]}
    return None


def instance(schema: Any, rng: random.Random) -> Any:
    """Draw a value."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema["type"] == "boolean":
        return rng.random() < 0.5
    if schema["type"] == "integer":
        return rng.randint(schema["minimum"], min(schema["maximum"], schema["minimum"] + 100))
    return "abcdefgh"[: rng.randint(1, 8)][: schema["maxLength"]]


def modes(lm: CountingLM, tokenizer: Any, questions: int, until: float, seed: int) -> dict[str, list[Any]]:
    """Search the most probable object with one, two and three members, in turns."""
    rng, members, found = random.Random(seed), simple_members(), defaultdict(list)
    for number in range(questions):
        if time.perf_counter() > until:
            break
        size, prompt = 1 + number % 3, ""
        for shot in range(4):
            properties = dict(rng.sample(members, size))
            schema = {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
            prompt += f"Schema: {json.dumps(properties)}\nInstance:\n"
            if shot < 3:
                prompt += (
                    json.dumps({name: instance(each, rng) for name, each in properties.items()}) + "\n\n"
                )
        try:
            best = tt.decoding.mode(
                lm, tokenizer, prompt, tt.constraints.json_schema(schema), width=16, seconds=60
            )
        except TractileError as error:
            found["errors"].append(f"{type(error).__name__}: {error}")
            continue
        found[f"{size} members"].append((best.certified, best.lost_by_greedy, best.gap, best.passes))
        print(size, best, flush=True)
    return dict(found)


def print_modes(found: dict[str, list[Any]]) -> None:
    """Print a line for each number of members."""
    for name, each in found.items():
        if name == "errors":
            print(f"{len(each)} errors", *each, sep="\n  ")
            continue
        certified, lost, gap, passes = zip(*each, strict=True)
        missed = [nats for nats in lost if nats > 1e-3]
        print(
            f"{name}: {len(each)} schemas, {sum(certified)} certified, greedy less probable than the best found in {len(missed)}, "
            f"median nats lost there {median(missed or [0.0]):.2f}, median gap where not certified "
            f"{median([g for g in gap if g > 0] or [0.0]):.2f}, median passes {median(passes):.0f}"
        )


def main() -> None:
    """Run one of the two, print tables, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("fields", "mode"))
    parser.add_argument("--questions", type=int, default=60, help="of each kind; schemas")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--embedded", action="store_true", help="the embedded model instead of Gemma")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--smoke", action="store_true", help="the embedded model on one question of each kind"
    )
    args = parser.parse_args()
    if args.smoke:
        args.questions, args.embedded = 1, True
    torch.set_num_threads(1)
    model, tokenizer = tt.embedded.load_lm() if args.embedded else load_gemma()
    lm = CountingLM(NewlineStopLM(tt.TransformersLM(model, tokenizer), Vocabulary.from_tokenizer(tokenizer)))
    until, rng = time.perf_counter() + 60 * args.minutes, random.Random(args.seed)
    found: dict[str, Any]
    if args.what == "mode":
        found = modes(lm, tokenizer, args.questions, until, args.seed)
        print_modes(found)
    else:
        tools = list(of_tools(rng))
        kinds = [
            intents(rng),
            *([q for q in tools if q.subject == s] for s in ("tool", "argument")),
            days(rng),
        ]
        questions = chain.from_iterable(zip(*(islice(kind, args.questions) for kind in kinds), strict=False))
        found = fields(lm, tokenizer, questions, until)
        print_fields(found)
    if args.out:
        args.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
