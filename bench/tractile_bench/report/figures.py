"""The figures of a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..intervals import Interval, bootstrap
from ..methods import METHODS
from ..summary import Summary
from .tables import exact_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def curves(summary: Summary) -> Figure:
    """Plot metric, constraint satisfaction and distance to rejection sampling by number of particles, with 95 % bands.

    These are Figures 2 and 3 of paper 1."""
    from matplotlib.figure import Figure

    panels: list[tuple[str, Callable[[str, int], Interval], list[str]]] = [
        (summary.metric, lambda m, k: bootstrap(summary.scores(m, k)), summary.methods),
        ("constraint satisfied", lambda m, k: bootstrap(summary.satisfied(m, k)), summary.methods),
    ]
    if summary.truth:
        names = ["rs", *exact_methods(summary)]
        panels.append(
            ("total variation to rejection sampling", lambda m, k: bootstrap(summary.distances(m, k)), names)
        )
    figure = Figure(figsize=(4.5 * len(panels), 3.6), layout="constrained")
    for axes, (name, value, methods) in zip(
        np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True
    ):
        truth = name.startswith("total")
        for number, method in enumerate(summary.methods):
            if method not in methods or (method == "rs" and name == "constraint satisfied"):
                continue
            sizes = [k for k in summary.particles if summary.has(method, k) or method == "rs"]
            size = summary.sizes("rs")[-1] if method == "rs" and not truth else None
            found = [value(method, k if size is None else size) for k in sizes]
            title = ("k exact draws" if truth else "RS") if method == "rs" else METHODS[method].title
            style = "--" if method == "rs" else "-"
            color = f"C{number % 10}"
            axes.plot(sizes, [f.mean for f in found], style, marker=".", label=title, color=color)
            axes.fill_between(sizes, [f.low for f in found], [f.high for f in found], alpha=0.12, color=color)
        axes.set_xscale("log", base=2)
        axes.set_xticks(summary.particles, [str(k) for k in summary.particles])
        axes.set(xlabel="particles", ylabel=name)
        axes.grid(alpha=0.3)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize="small"
    )
    return figure


def divergences(summary: Summary, methods: list[str]) -> Figure:
    """Plot upper bounds on KL(method ‖ target) by number of particles, with 95 % intervals over examples.

    This is Figure 3 of paper 2."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    _, values = summary.divergences(methods)
    for method in methods:
        found = {k: bootstrap(values[method, k]) for k in summary.particles if (method, k) in values}
        means = [f.mean for f in found.values()]
        below, above = [f.mean - f.low for f in found.values()], [f.high - f.mean for f in found.values()]
        axes.errorbar(list(found), means, [below, above], marker=".", capsize=3, label=METHODS[method].title)
    axes.set_xscale("log", base=2)
    axes.set_xticks(summary.particles, [str(k) for k in summary.particles])
    axes.set(xlabel="particles", ylabel="KL to the target, in nats, at most")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure
