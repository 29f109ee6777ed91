"""A posterior as plain JSON values, as an HTML page, and as a figure.

The page shows ancestry, weights, and the distributions of each token; it is self-contained and needs no network. ``post`` is a
:class:`.Posterior`, which calls the functions of this module.
"""

from __future__ import annotations

import json
import math
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .trace import END, Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shortened(text: str, limit: int = 80) -> str:
    """Return a text of at most ``limit`` characters, cut off with an ellipsis if it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def finite(value: float) -> float | None:
    """Return a number that JSON has; None for an infinite one."""
    return value if math.isfinite(value) else None


def as_dict(post: Any) -> dict[str, Any]:
    """Return a posterior as plain JSON values."""
    return {
        "failed": post.failed,
        "log_evidence": finite(post.log_evidence),
        "ess": post.ess,
        "distinct": post.distinct,
        "ess_trace": list(post.ess_trace),
        "resampled": list(post.resampled),
        "narrowed": [each._asdict() for each in post.narrowed],
        "strength": post.strength,
        "calibration": None if post.calibration is None else dict(post.calibration.log_evidence),
        "guide": None if post.calibration is None else str(post.calibration),
        "particles": [
            {
                "text": p.text,
                "token_ids": list(p.token_ids),
                "weight": p.weight,
                "log_weight": finite(p.log_weight),
                "log_prob": finite(p.log_prob),
            }
            for p in post.particles
        ],
        **({} if post.trace is None else {"trace": post.trace.to_dict()}),
    }


def as_html(post: Any, trace: Trace) -> str:
    """Return an HTML page of a posterior that has a trace; its best particle is marked and shown first."""
    texts, best, best_text = dict[str, float](), None, None
    if not post.failed:
        texts, best_text = post.group_by(lambda particle: particle.text), post.best.text
        best = trace.final[list(post.token_ids).index(post.best.token_ids)]  # before the last resampling
    evidence = "no particle survived" if post.failed else f"log Z ≈ {post.log_evidence:.3f} nats"
    particles = f"{len(post.texts)} particles, {post.distinct} distinct texts"
    rows = [
        f'<tr class="{"best" * (text == best_text)}"><td class="n">{w:.3f}</td><td class="t">{escape(text)}</td>'
        f"<td>{'★ best' * (text == best_text)}</td></tr>"
        for text, w in texts.items()
    ]
    cuts = [
        "<li>" + escape(f"{cut.path or '/'}: {cut.keyword}: {cut.given} instead of {cut.asked}") + "</li>"
        for cut in post.narrowed
        if cut.loses_values
    ]
    summary = "<details><summary>The constraint accepts less than was asked</summary><ul>"
    run = {"trace": trace.to_dict(), "best": best, "end": END}
    data = json.dumps(run, ensure_ascii=False, allow_nan=False)
    parts = {
        "TITLE": f"{particles}, {evidence}, effective sample size {post.ess:.1f}",
        "PROMPT": escape(trace.prompt),
        "GUIDE": "" if post.calibration is None else f"<p>Guide: {escape(str(post.calibration))}</p>",
        "CUTS": f"{summary}{''.join(cuts)}</ul></details>" if cuts else "",
        "TEXTS": "".join(rows),
        "DATA": data.replace("<", "\\u003c"),
    }
    template = files(__package__).joinpath("run_page.html").read_text(encoding="utf-8")
    return re.sub("@([A-Z]+)@", lambda part: parts[part[1]], template)


def as_figure(post: Any) -> Figure:
    """Return a figure of a posterior: effective sample sizes, weights along the ancestry (with a trace), heaviest texts."""
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9 if post.trace is None else 13, 3), layout="constrained")
    trace, *between, bars = figure.subplots(1, 2 if post.trace is None else 3)
    if post.trace is not None:
        steps = post.trace.steps
        lines = [
            [(t, steps[t - 1].weight[parent]), (t + 1, weight)]
            for t, step in enumerate(steps)
            for parent, weight in zip(step.parent, step.weight, strict=True)
            if t
        ]
        between[0].add_collection(LineCollection(lines, alpha=0.4, linewidths=1))
        between[0].set(xlabel="step", ylabel="weight", xlim=(0, len(steps) + 1), ylim=(0, 1))
    trace.plot(range(1, len(post.ess_trace) + 1), post.ess_trace)
    for resampled in post.resampled:
        trace.axvline(resampled + 1, color="0.85", zorder=0)
    trace.set(xlabel="step", ylabel="effective sample size", ylim=(0, len(post.log_weights) * 1.05))
    groups = {} if post.failed else post.group_by(lambda p: p.text)
    heaviest = list(groups.items())[:8][::-1]
    bars.barh(range(len(heaviest)), [weight for _, weight in heaviest])
    labels = [repr(shortened(text, 40)) for text, _ in heaviest]
    bars.set_yticks(range(len(heaviest)), labels, fontsize="small", parse_math=False)
    bars.set(xlabel="weight", title=f"log Z ≈ {post.log_evidence:.3f} nats")
    return figure
