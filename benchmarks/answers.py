"""Are the probabilities of answers right, and do they tell right answers from wrong ones?

    python benchmarks/answers.py [--questions 60] [--smoke]                 Gemma 3 270M, float32, whose answers a newline ends
    python benchmarks/answers.py --embedded [--draw docs/fields.png]        the embedded model

Gemma is asked behind solved questions: the intent of a query (SNIPS, 7), which of the tools a question needs and what its
argument with listed values is (BFCL), and a date in words as year, month and day (made here). The embedded model goes on from
first sentences of TinyStories with sentences of three forms: one of 50 labels; two fields; a label after free words, without an
HMM and with the embedded one as guide.

    errors      of the probability of a value by 4, 16 and 64 particles, and how many 90 % intervals hold the exact one: by
                `posterior.field`, which lists texts again, and by the weighted particles alone. Exact is what
                `posterior.field` finds where it lists all texts, and of the embedded model else the estimate of 128
                other particles with the guide. Values from a hundredth on count
    certainty   whether the more certain answers are the right ones: `field`; one sample, by its log-probability under the
                mask; agreement of as many samples as cost the same model tokens
"""

import argparse
import json
import math
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
from scipy.stats import mannwhitneyu

import tractile as tt
from tractile_bench.counting_lm import CountingLM
from tractile_bench.function_calling.task import FunctionCalling
from tractile_bench.prompts import function_signature
from tractile_bench.real import load_gemma
from tractile_bench.stop_at_newline import NewlineStopLM

COUNTS = (4, 16, 64)
DATA = Path(os.environ.get("TRACTILE_SHARED", "../shared")) / "data"
NOUNS = (
    "cat|dog|bird|fish|bear|frog|duck|mouse|rabbit|lion|pig|horse|cow|sheep|bee|bug|ball|box|car|doll|truck|boat|book|cake|"
    "cookie|apple|hat|shoe|cup|chair|table|bed|door|tree|flower|rock|stick|star|sun|moon|cloud|park|beach|lake|store|school|"
    "house|farm|kite|swing"
)
MOODS = "happy|sad|angry|scared|tired|excited|proud|bored"
FORMS = {
    "one label of 50": rf" They saw a (?P<answer>{NOUNS})\.",
    "two fields": rf" The (?P<answer>{'|'.join(NOUNS.split('|')[:16])}) was (?P<mood>{MOODS})\.",
    "after free words": rf" (?P<name>[A-Z][a-z]{{2,7}}) [a-z]{{2,6}}( [a-z]{{1,6}}){{1,3}} (?P<answer>{NOUNS})\.",
}
GUIDED = "the same with an HMM"
FORMS[GUIDED] = FORMS["after free words"]
SENTENCES = [f"{name} {did}." for name in ("Tom", "Lily", "Ben", "Sue") for did in ("went out", "had a pet")]


class Question(NamedTuple):
    """What is asked for, a prompt, the pattern of the answer, and the answers that are right, where that is known."""

    subject: str
    prompt: str
    pattern: str
    right: frozenset[str] | set[str] = frozenset()
    guide: tt.HMM | None = None


def one_of(values: Iterable[str]) -> str:
    return f"(?P<answer>{'|'.join(map(re.escape, values))})"


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
        yield Question("intent", "\n\n".join([*shots, rng.choice(of[right])]), one_of(of), {right})


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
        yield Question(subject, "\n\n".join([*rng.sample(short, 3), text]), one_of(sorted(values)), right)


def days(rng: random.Random) -> Iterator[Question]:
    """Dates in words behind four others."""
    while True:
        drawn = [date(rng.randint(1950, 2029), rng.randint(1, 12), rng.randint(1, 28)) for _ in range(5)]
        texts = [f"{one:{rng.choice(['%B %-d, %Y', 'the %-d. of %B %Y'])}} is\n" for one in drawn]
        shots = [f"{text}{one}" for text, one in zip(texts[1:], drawn[1:], strict=True)]
        pattern = r"(?P<answer>(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]))"
        yield Question("date", "\n\n".join([*shots, texts[0]]), pattern, {str(drawn[0])})


def sentences(count: int) -> Iterator[Question]:
    """First sentences of stories, or sentences of our own where there are none, to be gone on with in each form."""
    first, stories = SENTENCES, DATA / "tinystories" / "stories.txt.zst"
    if stories.exists():
        import zstandard

        with zstandard.open(stories, "rt", encoding="utf-8") as file:
            read = file.read(2000 * count + 8000).split("<|endoftext|>")
        first = [story.strip().split(".")[0] + "." for story in read[1:-1]]
    guide = tt.embedded.load_hmm()
    for prompt in first[:count]:
        for form, pattern in FORMS.items():
            yield Question(form, prompt, pattern, guide=guide if form == GUIDED else None)


@dataclass
class Row:
    """What was measured of one kind of question.

    By particles and method: errors of probabilities and whether intervals hold them; points (exact, estimate, interval). By
    method: how sure its answers are, and whether right.
    """

    listed: int = 0
    tokens: list[int] = field(default_factory=list)
    errors: dict[tuple[int, str], list[tuple[float, bool]]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, list[tuple[float, bool]]] = field(default_factory=lambda: defaultdict(list))
    points: dict[tuple[int, str], list[tuple[float, ...]]] = field(default_factory=lambda: defaultdict(list))


def asked(
    lm: CountingLM, tokenizer: Any, one: Question, particles: int, hmm: tt.HMM | None, seed: int
) -> tt.inference.smc.Posterior:
    """Particles of the answer to a question, independent ones where it is known which answer is right."""
    output, way = tt.constraints.output_type(re.compile(one.pattern)), "gcd" if hmm is None else "pgcd"
    settings = {"max_new_tokens": 24, "ess_threshold": 0.0 if one.right else 0.5, "tokenizer": tokenizer}
    lm.reset()
    post = tt.smc(lm, one.prompt, output.constraint, way, hmm, particles, seed=seed, **settings)
    return replace(post, parse=output.parse)


def measured(lm: CountingLM, tokenizer: Any, questions: Iterable[Question], exact: int) -> dict[str, Row]:
    """Ask each question; where not all answers can be listed, ``exact`` particles with the guide are the truth."""
    found, ask = defaultdict[str, Row](Row), partial(asked, lm, tokenizer)
    for seed, one in enumerate(questions):
        row, truth = found[one.subject], ask(one, 16, None, seed).field("answer")
        row.tokens.append(spent := lm.rows)
        row.listed += truth.exact
        if not truth.exact and not one.right:
            truth = ask(one, exact, tt.embedded.load_hmm(), 10**6 + seed).field("answer")
        for size in COUNTS:
            post = ask(one, size, one.guide, seed)
            drawn, cost = [value["answer"] for value in post.values], lm.rows
            ways = {"field": post, "particles": replace(post, source=None)}
            for way, estimates in ((way, each.field("answer", 0.9)) for way, each in ways.items()):
                for value, p in truth if truth.exact or not one.right else ():
                    q = estimates.estimate(value)
                    if p.value >= 0.01:
                        covered = q.low - 1e-3 <= p.value <= q.high + 1e-3
                        row.errors[size, way].append((abs(q.value - p.value), covered))
                        row.points[size, way].append((p.value, q.value, q.low, q.high))
        if one.right:
            (top, p), many = truth.top(), min(size, max(1, round(spent * size / cost)))
            ((often, times),) = Counter(drawn[:many]).most_common(1)
            under_mask = float(post.log_probs[0] - post.log_weights[0])
            row.answers["field"].append((p.value, top in one.right))
            row.answers["one sample"].append((under_mask, drawn[0] in one.right))
            row.answers["agreement"].append((times / many, often in one.right))
    return dict(found)


def print_tables(found: dict[str, Row]) -> None:
    """Print the errors and what the certainties are worth, for each kind of question."""
    for subject, row in found.items():
        print(
            f"{subject}: {len(row.tokens)} questions, {row.listed} listed, {mean(row.tokens):.0f} tokens each"
        )
        for (size, way), pairs in row.errors.items():
            error, covered = (mean(each) for each in zip(*pairs, strict=True))
            print(f"  {size:3} particles, {way}: error {error:.3f}, covered {covered:.1%}")
        for method, answers in row.answers.items():
            answers.sort(key=lambda one: -one[0])
            right, half = (mean(ok for _, ok in answers[:n]) for n in (None, (len(answers) + 1) // 2))
            sure = [[how for how, ok in answers if ok is wanted] for wanted in (True, False)]
            area = mannwhitneyu(*sure).statistic / (len(sure[0]) * len(sure[1])) if all(sure) else math.nan
            print(f"  {method:10}: right {right:.2f}, more certain half {half:.2f}, AUROC {area:.2f}")


def draw(found: dict[str, Row], path: Path) -> None:
    """Draw estimates by 16 particles, with their intervals, over the exact probabilities."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.4 * len(found), 2.8), layout="constrained")
    for axes, (subject, row) in zip(figure.subplots(1, len(found), sharey=True), found.items(), strict=True):
        exact, value, low, high = torch.tensor(row.points[16, "field"]).T.numpy()
        ends = [(value - low).clip(0), (high - value).clip(0)]  # what is below zero is rounding
        axes.plot([0, 1], [0, 1], color="#b9bec5", lw=1)
        axes.errorbar(exact, value, ends, fmt="o", ms=2.5, lw=0.5, color="#2f6fb2", alpha=0.6)
        axes.set(title=subject, xlabel="exact probability", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.title.set_fontsize(9)
    figure.axes[0].set_ylabel("by 16 particles")
    figure.savefig(path, dpi=130)


def main() -> None:
    """Ask all kinds of questions in turns, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--questions", type=int, default=60, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embedded", action="store_true", help="the embedded model's sentences")
    parser.add_argument("--exact", type=int, default=128, help="particles where texts cannot be listed")
    parser.add_argument("--draw", type=Path, help="where a picture of the estimates goes")
    parser.add_argument("--smoke", action="store_true", help="the embedded model on a date and one sentence")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ours, rng = args.embedded or args.smoke, random.Random(args.seed)
    model, tokenizer = tt.embedded.load_lm() if ours else load_gemma()
    lm: tt.lm.LanguageModel = tt.TransformersLM(model, tokenizer)
    if args.smoke:
        questions = chain(islice(days(rng), 1), islice(sentences(1), 1))
    elif args.embedded:
        questions = sentences(args.questions)
    else:
        lm = NewlineStopLM(lm, tt.Vocabulary.from_tokenizer(tokenizer))
        kinds = [intents(rng), of_tools(rng, "tool"), of_tools(rng, "argument"), days(rng)]
        questions = chain(*zip(*(islice(kind, args.questions) for kind in kinds), strict=False))
    found = measured(CountingLM(lm), tokenizer, questions, 64 if args.smoke else args.exact)
    print_tables(found)
    if args.draw:
        draw(found, args.draw)


if __name__ == "__main__":
    main()
