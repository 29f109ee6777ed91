"""Is the probability of a field right? Estimates by 4, 16 and 64 particles against the exact p(field | constraint).

    python benchmarks/fields.py [--prompts 60] [--draw docs/fields.png] [--smoke]

The embedded model goes on from first sentences of TinyStories with sentences of three forms: one of 50 labels; two fields; a
label after free words, without an HMM and with the embedded one as guide. Exact is what `posterior.field` finds where it lists
all texts but a thousandth of the mass, and elsewhere the estimate of 1,024 other particles with the guide. For each form and
number of particles: the mean absolute error of the probability of a value by `posterior.field`, which lists texts again, and by
the weighted particles alone; how many of their 90 % intervals cover the exact probability. Values from a hundredth on count.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import tractile as tt

STORIES = Path(os.environ.get("TRACTILE_SHARED", "../shared")) / "data" / "tinystories" / "stories.txt.zst"
COUNTS = (4, 16, 64)
NOUNS = (
    "cat|dog|bird|fish|bear|frog|duck|mouse|rabbit|lion|pig|horse|cow|sheep|bee|bug|ball|box|car|doll|truck|boat|book|cake|"
    "cookie|apple|hat|shoe|cup|chair|table|bed|door|tree|flower|rock|stick|star|sun|moon|cloud|park|beach|lake|store|school|"
    "house|farm|kite|swing"
)
LABELS = NOUNS.split("|")
MOODS = ["happy", "sad", "angry", "scared", "tired", "excited", "proud", "bored"]
FORMS = {
    "one label of 50": rf" They saw a (?P<thing>{NOUNS})\.",
    "two fields": rf" The (?P<thing>{'|'.join(LABELS[:16])}) was (?P<mood>{'|'.join(MOODS)})\.",
    "after free words": rf" (?P<name>[A-Z][a-z]{{2,7}}) [a-z]{{2,6}}( [a-z]{{1,6}}){{1,3}} (?P<thing>{NOUNS})\.",
}
GUIDED = "the same with an HMM"
FORMS[GUIDED] = FORMS["after free words"]
SENTENCES = [f"{name} {did}." for name in ("Tom", "Lily", "Ben", "Sue") for did in ("went out", "had a pet")]
LEVEL = 0.9


@dataclass
class Row:
    """What one form and number of particles gave, for each value."""

    errors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    covered: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    points: list[tuple[float, float, float, float]] = field(default_factory=list)


def prompts(count: int) -> list[str]:
    """The first sentences of stories, or sentences of our own where there are none."""
    if not STORIES.exists():
        return SENTENCES[:count]
    import zstandard

    with zstandard.open(STORIES, "rt", encoding="utf-8") as file:
        stories = file.read(2000 * count).split("<|endoftext|>")
    return [story.strip().split(".")[0] + "." for story in stories[1:-1]][:count]


def measured(model: Any, tokenizer: Any, texts: list[str], exact: int) -> dict[tuple[str, int], Row]:
    """Return the errors of each form and number of particles over all prompts."""
    found, guide = defaultdict[tuple[str, int], Row](Row), tt.embedded.load_hmm()
    settings = {"max_new_tokens": 24, "posterior": True}
    for form, pattern in FORMS.items():
        run = partial(
            tt.generate, model, tokenizer, output=tt.constraints.output_type(re.compile(pattern)), **settings
        )
        for seed, prompt in enumerate(texts):
            truth = run(prompt, particles=16, seed=seed)[1].field("thing")
            if not truth.exact:
                truth = run(prompt, particles=exact, seed=len(texts) + seed, hmm=guide)[1].field("thing")
            for count in COUNTS:
                _, post = run(prompt, particles=count, seed=seed, hmm=guide if form == GUIDED else None)
                ways = {
                    "field": post.field("thing", LEVEL),
                    "particles": replace(post, source=None).field("thing", LEVEL),
                }
                row = found[form, count]
                for value, p in truth:
                    if p.value >= 0.01:
                        for way, estimates in ways.items():
                            q = estimates.estimate(value)
                            row.errors[way].append(abs(q.value - p.value))
                            row.covered[way].append(q.low - 1e-3 <= p.value <= q.high + 1e-3)
                        q = ways["field"].estimate(value)
                        row.points.append((p.value, q.value, q.low, q.high))
    return dict(found)


def draw(found: dict[tuple[str, int], Row], path: Path, count: int = 16) -> None:
    """Draw estimates by ``count`` particles, with their intervals, over the exact probabilities."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.8), layout="constrained")
    for axes, form in zip(figure.subplots(1, len(FORMS), sharey=True), FORMS, strict=True):
        exact, value, low, high = torch.tensor(found[form, count].points).T.numpy()
        ends = [(value - low).clip(0), (high - value).clip(0)]  # what is below zero is rounding
        axes.plot([0, 1], [0, 1], color="#b9bec5", lw=1)
        axes.errorbar(exact, value, ends, fmt="o", ms=2.5, lw=0.5, color="#2f6fb2", alpha=0.6)
        axes.set(title=form, xlabel="exact probability", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.title.set_fontsize(9)
    figure.axes[0].set_ylabel(f"by {count} particles")
    figure.savefig(path, dpi=130)


def main() -> None:
    """Print a line for each form and number of particles, and draw the estimates of 16 if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--exact", type=int, default=1024, help="particles where texts cannot be listed")
    parser.add_argument("--draw", type=Path, help="where the picture goes")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.prompts, args.exact = 2, 64
    torch.set_num_threads(1)
    found = measured(*tt.embedded.load_lm(), prompts(args.prompts), args.exact)
    print(f"{'form':22} particles  values   mean error by field  particles   covered by field  particles")
    for (form, count), row in found.items():
        error = {way: mean(each) for way, each in row.errors.items()}
        covered = {way: mean(each) for way, each in row.covered.items()}
        print(
            f"{form:22} {count:9}  {len(row.points):6}   {error['field']:19.3f}  {error['particles']:9.3f}"
            f"   {covered['field']:16.1%}  {covered['particles']:9.1%}"
        )
    if args.draw:
        draw(found, args.draw)


if __name__ == "__main__":
    main()
