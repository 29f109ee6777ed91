"""A report of results: the papers' tables and figures, published beside measured, in Markdown and in one page of HTML."""

from __future__ import annotations

import base64
import html
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tractile.errors import EvidenceError, FormatError, StorageError

from .. import paper_results
from ..methods import METHODS
from ..summary import Summary
from . import figures, second_paper, tables

SECOND = tuple(name for name, method in METHODS.items() if method.potential)
"""The methods whose target is p_lm(x) · 1[x ∈ C] · Ψ(x)."""
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0;font-size:13px}td,th{border:1px solid #ccc;padding:.25em .6em;text-align:left}
th{background:#f4f4f4}img{max-width:100%}"""


def report(folders: Sequence[Path], out: Path, title: str = "The papers' tasks", level: int = 1) -> None:
    """Write a report to ``out`` (FILE.md), as a page to FILE.html beside it, and its figures as .png files.

    Folders of one task that differ in the HMM share a section. ``level`` is the level of the first heading. Raises
    :class:`FormatError` for a folder that holds no results, :class:`StorageError` if a file cannot be written.
    """
    if out.suffix != ".md":
        raise EvidenceError(f"a report is written to FILE.md and FILE.html, not to {out}")
    summaries = [Summary(folder) for folder in folders]
    groups: dict[str, list[Summary]] = defaultdict(list)
    for summary in summaries:
        groups[_heading(summary)].append(summary)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        parts = [f"{'#' * level} {title}\n"]
        for heading, group in groups.items():
            parts.append(f"{'#' * (level + 1)} {heading}\n")
            parts.extend(_sections(group, out, level + 2))
        parts.extend(_second(summaries, level + 1))
        text = "\n".join(parts).rstrip() + "\n"
        out.write_text(text, encoding="utf-8")
        out.with_suffix(".html").write_text(page(text, title, out.parent), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror}") from error


def _heading(summary: Summary) -> str:
    head = summary.head
    options = {name: value for name, value in head["options"].items() if value not in (None, False)}
    told = ", ".join(f"{name} {value}" for name, value in options.items() if isinstance(value, str))
    task = f"{head['task']}{f' ({told})' if told else ''} on {head['data']}"
    return f"{task}, {head['model']['name']}, {head['max_new_tokens']} tokens"


def _sections(group: Sequence[Summary], out: Path, level: int) -> Iterator[str]:
    """Yield the tables and figures of a task; a group of several summaries compares HMMs."""
    mark = "#" * level
    for summary in group:
        yield _facts(summary)
        if len(group) > 1:
            continue
        yield from _one(summary, out, mark)
    if len(group) > 1:
        yield f"{mark} Sensitivity to the HMM\n"
        yield tables.by_hmm(group)
        yield tables.published_scores(group[0])
        for summary in group:
            yield f"{mark} With {tables.size(summary.head['hmm'])}\n"
            yield from _one(summary, out, mark + "#")


def _one(summary: Summary, out: Path, mark: str) -> Iterator[str]:
    yield f"{mark} {summary.metric.capitalize()}, by particles\n"
    yield "In percent, of a text drawn by weight; in brackets 95 % intervals, bootstrapped over examples.\n"
    yield tables.by_particles(summary)
    yield tables.published_scores(summary)
    if found := tables.differences(summary):
        yield "Differences in points of percent, paired by example; bold where the interval leaves zero out.\n"
        yield found
    if found := tables.together(summary):
        yield f"Of the likeliest answers to all {summary.together[0]} examples together, in percent.\n"
        yield found
    yield _figure(figures.curves(summary), summary, out, "curves", "by particles")
    yield f"{mark} Constraint satisfaction\n"
    yield "The weight of the texts that satisfy the constraint within the budget, in percent.\n"
    yield tables.satisfaction(summary)
    if "rs" in summary.methods:
        yield f"{mark} Distance to rejection sampling\n"
        yield tables.acceptance(summary) + "\n"
        if found := tables.distances(summary):
            yield (
                f"Total variation to the second half of the accepted draws, over the {len(summary.truth)} examples that "
                "have enough of them; *k exact draws* are of the first half, so no method can be expected below.\n"
            )
            yield found
            yield "The score on these examples, less that of rejection sampling, in points of percent.\n"
            yield tables.against_truth(summary)
    for methods in (tables.exact_methods(summary), [name for name in SECOND if name in summary.methods]):
        chosen = [name for name in methods if METHODS[name].corrected or METHODS[name].potential]
        if len(chosen) > 1 and (found := tables.divergences(summary, chosen)):
            steered = METHODS[chosen[0]].potential
            yield f"{mark} Divergence from {'p_lm(x) · 1[x ∈ C] · Ψ(x)' if steered else 'p_lm(x | C)'}\n"
            yield (
                "log Z − E[log Ẑ] in nats, an upper bound on the Kullback–Leibler divergence of a particle drawn by weight "
                "(Loula et al. 2025, Appendix D). It is infinite where a run died: with how many examples that was "
                "so. Where runs of every method died, the others are over the examples in which none did.\n"
            )
            yield found
            if compared := tables.divergence_differences(summary, chosen):
                yield (
                    "Differences of these bounds, paired by example, over the examples in which no run of the two died "
                    "(their number behind the interval); bold where the interval leaves zero out.\n"
                )
                yield compared
            name = "divergence-potential" if steered else "divergence"
            yield _figure(figures.divergences(summary, chosen), summary, out, name, "divergence")
    if summary.latency:
        compiled, swept = summary.setup()
        yield f"{mark} Latency\n"
        yield (
            f"Milliseconds for a token of a particle, batches of {summary.head['batch']} examples, on {summary.head['device']}; "
            f"mean and standard deviation over batches. For each example {compiled:.2f} s go into the automaton, "
            f"{swept:.2f} s into the tables of P-GCD.\n"
        )
        yield tables.latency(summary)
    if found := tables.errors(summary):
        yield f"{mark} What failed\n"
        yield "Runs that ended in an error; they are in every figure above, with a score of zero.\n"
        yield found


def _facts(summary: Summary) -> str:
    head, hmm = summary.head, summary.head["hmm"]
    guide = ""
    if hmm is not None:
        guide = f" HMM: {hmm['name']}, {tables.size(hmm)}."
        if any(
            str(METHODS[name].proposal).startswith("pgcd-mixture")
            for name in summary.methods
            if name in METHODS
        ):
            guide += f" P-GCD's w = {head['w']:g}."
    left = f" {summary.left_out} more are left out, which are not run through." if summary.left_out else ""
    if dropped := head.get("dropped"):
        told = "; ".join(f"{reason}: {number:,}" for reason, number in dropped.items())
        left += f" Not among the examples of the data: {told}."
    runs = "one run" if summary.repeats == "1" else f"{summary.repeats} runs"
    return (
        f"Model: {head['model']['name']}, {head['model']['parameters']:,} parameters, {head['dtype']} on {head['device']}, "
        f"temperature {head['temperature']:g}.{guide} Data: {head['data']}, {head['split']}, {len(summary.examples)} examples, "
        f"{runs} of each; at most {head['max_new_tokens']} new tokens.{left}\n"
    )


def _second(summaries: Sequence[Summary], level: int) -> Iterator[str]:
    """Yield the second paper's tables over all tasks."""
    shown = [s for s in summaries if any(name in s.methods for name in second_paper.METHODS_SHOWN)]
    if not shown:
        return
    mark, tasks = "#" * level, dict.fromkeys(s.head["task"] for s in shown)
    domains = [task for task in tasks if task in paper_results.COLUMNS_2]
    whole = ("base-lm", "full-smc", "gcd-full-smc")
    for k in sorted({k for s in shown for k in s.particles if any(s.has(name, k) for name in whole)}):
        here = [s for s in shown if any(s.has(name, k) for name in second_paper.METHODS_SHOWN)]
        yield f"{mark} The seven methods, {k} particles\n"
        yield second_paper.seven(here, k)
        if found := second_paper.correlations(here, k):
            yield f"{mark} Correlation of weight and score, {k} particles\n"
            yield found
        for s in shown:
            if found := second_paper.steering(s, k):
                yield f"{mark} SMC Steering, {s.head['task']}, {k} particles\n"
                yield found
    if domains:
        yield f"{mark} The same in the paper\n"
        yield "Loula et al. 2025, 10 particles. Table 2, with Llama 3.1 8B (70B for data science):\n"
        yield second_paper.seven_published(domains, paper_results.SCORES_2)
        yield "Table 4, with Llama 3.2 1B (3.1 8B for data science):\n"
        yield second_paper.seven_published(domains, paper_results.SMALLER_2)
        yield "Table 3, correlation of relative weight and score:\n"
        yield second_paper.seven_published(domains, paper_results.CORRELATIONS_2)


def _figure(figure: object, summary: Summary, out: Path, name: str, title: str) -> str:
    """Save a figure beside the report; return the line of Markdown that shows it."""
    file = out.with_name(f"{out.stem}-{re.sub(r'[^a-z0-9]+', '-', summary.folder.name.lower())}-{name}.png")
    figure.savefig(file, dpi=90)  # type: ignore[attr-defined]
    return f"![{summary.head['task']}, {title}]({file.name})\n"


def page(text: str, title: str, folder: Path) -> str:
    """Render Markdown as a self-contained page of HTML, with the figures of ``folder`` embedded."""
    from markdown_it import MarkdownIt

    body = str(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))

    def inside(match: re.Match[str]) -> str:
        path = folder / html.unescape(match[1])
        if not path.is_file():
            raise FormatError(f"the figure {path} is missing")
        return f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"'

    body = re.sub(r'src="([^":]+\.png)"', inside, body)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style><body>\n{body}</body></html>\n"
    )
