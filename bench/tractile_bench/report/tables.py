"""The tables of a report, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import numpy as np

from .. import paper_results
from ..intervals import Interval, bootstrap
from ..methods import METHODS, WITH_GCD
from ..summary import Summary

CHAINS = (
    ("pgcd-mixture-prefix", "gcd"),
    ("pgcd", "gcd"),
    ("pgcd", "pgcd-mixture-prefix"),
    ("gcd", "lcd"),
    ("pgcd-mixture-prefix", "lcd"),
    ("pgcd", "lcd"),
    ("awrs", "lcd"),
    *pairwise(("full-smc", "full-is", "sample-rerank", "lcd-unweighted", "base-lm")),
    ("grammar-only-is", "lcd-unweighted"),
    ("grammar-only-smc", "grammar-only-is"),
    ("full-smc", "smc-steering"),
    ("full-gcd", "full-smc"),
    ("full-gcd", "full-is"),
    ("full-gcd", "sample-rerank"),
    ("full-pgcd", "full-gcd"),
    ("full-pgcd", "full-smc"),
    *pairwise(("gcd-full-smc", "gcd-full-is", "gcd-sample-rerank", "gcd-unweighted", "base-lm")),
    *((budgeted, name) for name, budgeted in WITH_GCD.items()),
)
"""The pairs of methods to compare: the first should do no worse than the second."""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        + "\n"
    )


def percent(found: Interval) -> str:
    """Format an interval of shares, in percent."""
    return f"{100 * found.mean:.1f} ({100 * found.low:.1f}, {100 * found.high:.1f})"


def decimal(found: Interval) -> str:
    """Format an interval with three decimals, as paper 2 does."""
    return f"{found.mean:.3f} ({found.low:.3f}, {found.high:.3f})"


def by_particles(summary: Summary, name: str | None = None) -> str:
    """Tabulate a score (default: the metric) by method and number of particles, in percent."""
    rows = []
    for method in summary.methods:
        if method == "rs":
            k = summary.sizes("rs")[-1]
            exact = percent(bootstrap(summary.scores("rs", k, name)))
            rows.append([f"RS, at most {k} draws", *[exact] * len(summary.particles)])
            continue
        cells = [
            percent(bootstrap(summary.scores(method, k, name))) if summary.has(method, k) else "–"
            for k in summary.particles
        ]
        rows.append([METHODS[method].title, *cells])
    return markdown(["method", *(f"k = {k}" for k in summary.particles)], rows)


def satisfaction(summary: Summary) -> str:
    """Tabulate constraint satisfaction by method and number of particles; on function calling also as in paper 1."""
    rows = []
    for method in summary.methods:
        if method == "rs":
            continue
        cells = [
            f"{100 * summary.satisfied(method, k).mean():.1f}" if summary.has(method, k) else "–"
            for k in summary.particles
        ]
        rows.append([METHODS[method].title, *cells])
    if summary.head["task"] == "function-calling":
        for name, found in paper_results.SATISFIED[summary.head["options"].get("syntax", "json")].items():
            rows.append(
                _beside(f"*{name}, {paper_results.MODEL_1}, paper 1*", found, summary.particles, "{:.2f}")
            )
    return markdown(["method", *(f"k = {k}" for k in summary.particles)], rows)


def published_scores(summary: Summary) -> str:
    """Tabulate paper 1's accuracies on this task; '' if the paper has none."""
    task, particles = summary.head["task"], summary.particles
    if task == "function-calling" and summary.head["options"].get("syntax", "json") == "json":
        table = paper_results.BY_HMM
    elif task == "spider":
        table = paper_results.SPIDER
    else:
        return ""
    rows = [_beside(f"*{name}, {paper_results.MODEL_1}*", found, particles) for name, found in table.items()]
    return markdown(["paper 1", *(f"k = {k}" for k in particles)], rows)


def _beside(name: str, found: dict[int, float], particles: Sequence[int], form: str = "{:.1f}") -> list[str]:
    return [name, *(form.format(found[k]) if k in found else "–" for k in particles)]


def differences(summary: Summary) -> str:
    """Tabulate differences of the scores of :data:`CHAINS` at equal k, in points of percent, paired by example; '' if none."""
    rows = []
    for better, worse in CHAINS:
        cells = []
        for k in summary.particles:
            both = summary.has(better, k) and summary.has(worse, k)
            found = bootstrap(summary.scores(better, k) - summary.scores(worse, k)) if both else None
            cells.append("–" if found is None else _points(found))
        if any(cell != "–" for cell in cells):
            rows.append([f"{METHODS[better].title} − {METHODS[worse].title}", *cells])
    return markdown(["difference", *(f"k = {k}" for k in summary.particles)], rows) if rows else ""


def _points(found: Interval) -> str:
    return _signed(Interval(*(100 * value for value in found)), 1)


def against_truth(summary: Summary) -> str:
    """Tabulate score of a method − score of rejection sampling, in points of percent, over the examples with enough draws.

    Returns '' if there are no such examples."""
    if not summary.truth:
        return ""
    here = [example in summary.truth for example in summary.examples]
    exact = summary.scores("rs", summary.sizes("rs")[-1])[here]
    rows = []
    for method in exact_methods(summary):
        cells = [
            _points(bootstrap(summary.scores(method, k)[here] - exact)) if summary.has(method, k) else "–"
            for k in summary.particles
        ]
        rows.append([METHODS[method].title, *cells])
    return markdown(["method − RS", *(f"k = {k}" for k in summary.particles)], rows)


def exact_methods(summary: Summary) -> list[str]:
    """List the methods with the target p_lm(x | constraint), which can be compared with rejection sampling."""
    return [
        name
        for name in summary.methods
        if name != "rs" and METHODS[name].constrained and not METHODS[name].potential
    ]


def distances(summary: Summary) -> str:
    """Tabulate the total variation to rejection sampling by k; '' if fewer than two examples have enough accepted draws."""
    if len(summary.truth) < 2:
        return ""
    rows = []
    for name in ["rs", *exact_methods(summary)]:
        title = "k exact draws" if name == "rs" else METHODS[name].title
        cells = [
            _three(bootstrap(summary.distances(name, k))) if name == "rs" or summary.has(name, k) else "–"
            for k in summary.particles
        ]
        rows.append([title, *cells])
    return markdown(["method", *(f"k = {k}" for k in summary.particles)], rows)


def _three(found: Interval) -> str:
    return f"{found.mean:.2f} ({found.low:.2f}, {found.high:.2f})"


def divergences(summary: Summary, methods: Sequence[str]) -> str:
    """Tabulate upper bounds on KL(method ‖ target) in nats, for methods with one target; '' if some run died in every example."""
    number, found = summary.divergences(methods)
    if not number:
        return ""

    def cell(method: str, k: int) -> str:
        if (method, k) in found:
            return _three(bootstrap(found[method, k]))
        return f"∞, {summary.died(method, k)} died" if summary.has(method, k) else "–"

    rows = [[METHODS[method].title, *(cell(method, k) for k in summary.particles)] for method in methods]
    return markdown([f"KL, {number} examples", *(f"k = {k}" for k in summary.particles)], rows)


def divergence_differences(summary: Summary, methods: Sequence[str]) -> str:
    """Tabulate bound of a method − bound of a base method in nats; the base is the first of GCD, LCD and full IS that was run.

    Returns '' if none of them was."""
    base = next((name for name in ("gcd", "lcd", "full-is") if name in methods), None)
    rows = []
    for method in methods:
        if base is None or method == base:
            continue
        cells = []
        for k in summary.particles:
            both = summary.has(method, k) and summary.has(base, k)
            some = summary.divergence_differences(method, base, k) if both else ()
            cells.append(f"{_signed(bootstrap(some))}, {len(some)}" if len(some) else "–")
        if any(cell != "–" for cell in cells):
            rows.append([f"{METHODS[method].title} − {METHODS[base].title}", *cells])
    return markdown(["difference, nats", *(f"k = {k}" for k in summary.particles)], rows) if rows else ""


def _signed(found: Interval, digits: int = 2) -> str:
    """Format a mean with its sign and its interval; bold if the interval excludes zero."""
    mark = "**" if found.low > 0 or found.high < 0 else ""
    mean, low, high = (f"{value:+.{digits}f}" for value in found)
    return f"{mark}{mean}{mark} ({low}, {high})"


def latency(summary: Summary) -> str:
    """Tabulate milliseconds for a token of a particle, mean and deviation over batches; on function calling as in paper 1 too."""
    rows = []
    for method in summary.methods:
        if method == "rs":
            continue
        cells = []
        for k in summary.particles:
            values = summary.latency.get((method, k), [])
            spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{fmean(values):.2f}{spread}" if values else "–")
        rows.append([METHODS[method].title, *cells])
    table = markdown(["ms for a token", *(f"k = {k}" for k in summary.particles)], rows)
    if summary.head["task"] == "function-calling":
        theirs = [[f"*{name}*", cell] for name, cell in paper_results.LATENCY.items()]
        table += "\n" + markdown(
            [f"paper 1: {paper_results.MODEL_1}, one H100, batch of 16", "ms for a token"], theirs
        )
    return table


def together(summary: Summary) -> str:
    """Tabulate corpus-level metrics, in percent; '' if the task has none."""
    rows = []
    for name, cells in summary.together[1].items():
        for method in summary.methods:
            sizes = summary.particles if method != "rs" else summary.sizes("rs")[-1:] * len(summary.particles)
            row = [f"{100 * cells[method, k]:.1f}" if (method, k) in cells else "–" for k in sizes]
            rows.append([f"{name.replace('_', ' ')}, {METHODS[method].title}", *row])
    return markdown(["score", *(f"k = {k}" for k in summary.particles)], rows) if rows else ""


def errors(summary: Summary) -> str:
    """Tabulate the number of runs that ended in an error, by method and kind of error; '' if none did."""
    found = summary.errors()
    kinds = sorted({kind for counts in found.values() for kind in counts})
    rows = [[METHODS[name].title, *(str(counts[kind]) for kind in kinds)] for name, counts in found.items()]
    return markdown(["runs that failed", *kinds], rows) if rows else ""


def size(hmm: Mapping[str, Any] | None) -> str:
    """Describe an HMM: number of states, transition, boost of the prompt's tokens, copying."""
    if hmm is None:
        return "no HMM"
    boost = f", boost {hmm['boost']:g}" if "boost" in hmm else ""
    return f"H = {hmm['hidden']:,}, {hmm['transition']}{boost}{', copying' if 'copying' in hmm else ''}"


def by_hmm(summaries: Sequence[Summary]) -> str:
    """Make Table 3 of paper 1: the score by method, HMM and particles, from folders that differ in the HMM."""
    particles = sorted({k for summary in summaries for k in summary.particles})
    rows, shown = [], set[str]()
    for summary in sorted(summaries, key=lambda summary: (summary.head["hmm"] or {"hidden": 0})["hidden"]):
        for method in summary.methods:
            if method == "rs" or (not METHODS[method].guided and method in shown):
                continue
            shown.add(method)
            title = METHODS[method].title
            if METHODS[method].guided:
                title += f" ({size(summary.head['hmm'])})"
            cells = [
                percent(bootstrap(summary.scores(method, k))) if summary.has(method, k) else "–"
                for k in particles
            ]
            rows.append([title, *cells])
    return markdown(["method", *(f"k = {k}" for k in particles)], rows)


def acceptance(summary: Summary) -> str:
    """Write a sentence on the acceptance rate of rejection sampling."""
    k = summary.sizes("rs")[-1]
    rate = summary.satisfied("rs", k)
    none = int(np.sum(rate == 0))
    median = float(np.median(rate))
    return (
        f"Rejection sampling accepts {100 * rate.mean():.1f} % of its draws (median {100 * median:.2g} %); for {none} of "
        f"{len(rate)} examples none of {k} draws, which scores nothing."
    )
