"""The second paper's tables over all tasks, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from .. import paper_results
from ..intervals import bootstrap, correlation
from ..methods import METHODS, PAPERS, WITH_GCD
from ..summary import Summary
from .tables import decimal, markdown

METHODS_SHOWN = (*PAPERS["paper2"], "smc-steering", "full-gcd", "full-pgcd", *WITH_GCD.values())
"""The rows of the tables: the paper's seven methods, SMC Steering, and the methods of this package."""


def seven(summaries: Sequence[Summary], k: int) -> str:
    """Make Table 2 of paper 2: its seven methods and those of this package on every task, with k particles."""
    rows = []
    for name in METHODS_SHOWN:
        cells = [
            decimal(bootstrap(summary.scores(name, k))) if summary.has(name, k) else "–"
            for summary in summaries
        ]
        if any(cell != "–" for cell in cells):
            rows.append([METHODS[name].title, *cells])
    return markdown(["method", *(summary.head["task"] for summary in summaries)], rows)


def seven_published(tasks: Sequence[str], which: dict[str, tuple[str, str, str, str]]) -> str:
    """Make a table of published figures of paper 2, with the columns of these tasks."""
    columns = [paper_results.COLUMNS_2.index(task) for task in tasks if task in paper_results.COLUMNS_2]
    rows = [[METHODS[name].title, *(cells[c] for c in columns)] for name, cells in which.items()]
    return markdown(["paper 2", *(paper_results.COLUMNS_2[c] for c in columns)], rows)


def correlations(summaries: Sequence[Summary], k: int) -> str:
    """Make Table 3 of paper 2: the correlation of the weight of an answer with its score; '' if there is none."""
    rows = []
    for name in METHODS_SHOWN:
        if not METHODS[name].corrected and not METHODS[name].potential:  # all weights are equal
            continue
        cells = []
        for summary in summaries:
            found = correlation(*summary.answers(name, k)) if summary.has(name, k) else None
            cells.append("–" if found is None else decimal(found))
        if any(cell != "–" for cell in cells):
            rows.append([METHODS[name].title, *cells])
    return markdown(["method", *(summary.head["task"] for summary in summaries)], rows) if rows else ""


def steering(summary: Summary, k: int) -> str:
    """Make Table 7 of paper 2: full SMC with k particles, SMC Steering with k/2 and k particles and beams of 3.

    Returns '' if steering was not run."""
    rows = []
    for smc, beams in (("full-smc", "smc-steering"), ("gcd-full-smc", "gcd-smc-steering")):
        here = summary.has(smc, k) or summary.has(beams, k)
        sizes = [n for n in dict.fromkeys((k // 2, k)) if here and summary.has(beams, n)]
        for name, n in [(smc, k), *((beams, n) for n in sizes)] if sizes else []:
            if summary.has(name, n):
                ours = decimal(bootstrap(summary.scores(name, n)))
                rows.append(
                    [f"{METHODS[name].title}, k = {n}", ours, paper_results.STEERING_2.get(name, "–")]
                )
    theirs = f"paper 2, Spider, {paper_results.MODELS_2['spider']}, k = 10 and 5"
    return markdown(["method", "ours", theirs], rows) if rows else ""
