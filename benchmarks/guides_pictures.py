"""The points that ``guides.py`` keeps, their tables and pictures."""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from convergence import Distance, needed
from proposals import log_mean

from tractile.storage import write_atomically

Point = dict[str, Any]
Guide = tuple[str, int, int]  # way, states asked for, tokens; GCD, 0, 0 for none
MOST = 2**19  # tokens of the curves over states
LEVELS = (0.3, 0.1)  # nats of divergence


class Points:
    """The lines of a file, each a point; a new one is there whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Point] = []
        if path.exists():
            self.lines = [json.loads(line) for line in path.read_text().splitlines()]

    def once(self, key: Point, make: Callable[..., Point], *arguments: object) -> Point:
        """The point of this key, made if it is not there."""
        for line in self.lines:
            if line.items() >= key.items():
                return line
        self.lines.append(key | make(*arguments))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in self.lines).encode())
        return self.lines[-1]


def of(points: Sequence[Point], part: str) -> list[Point]:
    """The points of one part."""
    return [point for point in points if point["part"] == part]


def guide(point: Point) -> Guide:
    """What HMM a point is about."""
    return point["way"], point["hidden"], point["tokens"]


def above(points: Sequence[Point]) -> dict[Guide, float]:
    """Nats a token above the language model's own, of each HMM."""
    return {guide(point): point["above"] for point in of(points, "nats")}


def gaps(points: Sequence[Point]) -> dict[Guide, list[tuple[Distance, float]]]:
    """For each guide, by number of particles: log Z − E[log Ẑ] and CPU seconds of a run (medians), means over constraints."""
    truth = {point["constraint"]: log_mean(point["log_z"]) for point in of(points, "truth")}
    cells: dict[Guide, dict[int, list[Point]]] = {}
    for point in of(points, "particles"):
        cells.setdefault(guide(point), {}).setdefault(point["k"], []).append(point)
    found: dict[Guide, list[tuple[Distance, float]]] = {}
    for one, by_k in cells.items():
        for k, each in by_k.items():
            if len(each) < len(truth):
                continue
            gap = statistics.fmean(truth[p["constraint"]] - statistics.fmean(p["log_z"]) for p in each)
            error = math.hypot(*(statistics.stdev(p["log_z"]) / len(p["log_z"]) ** 0.5 for p in each)) / len(
                each
            )
            seconds = statistics.fmean(statistics.median(p["seconds"]) for p in each)
            found.setdefault(one, []).append((Distance(k, 0.0, 0.0, gap, error, 0.0), seconds))
    return found


def needs(found: list[tuple[Distance, float]], level: float) -> tuple[float, float]:
    """Particles and CPU seconds of a run from which on the divergence is at most ``level`` nats."""
    k = needed([cell for cell, _ in found], "KL", level)
    if k == math.inf:
        return k, math.inf
    (low, here), (high, there) = next(
        ((a, s), (b, t)) for (a, s), (b, t) in zip(found, [*found[1:], found[-1]], strict=True) if b.k >= k
    )
    share = 0.0 if high.k == low.k else (k - low.k) / (high.k - low.k)
    return k, here + share * (there - here)


def tables(points: Sequence[Point]) -> str:
    """The points as Markdown."""
    lines = [
        "| HMM | states | tokens | nats above | on texts learned from | agreement | CPU, s |",
        "| --- |" + " --- |" * 6,
    ]
    for p in sorted(of(points, "nats"), key=lambda p: (p["way"], p["tokens"], p["states"])):
        lines.append(
            f"| {p['way']} | {p['states']:,} | {p['tokens']:,} | {p['above']:.3f} | {p['fit']:.3f} "
            f"| {p['agreement']:.3f} | {p['seconds']:.0f} |"
        )
    windows = of(points, "context")
    lines += ["", "| tokens read | " + " | ".join(str(p["window"]) for p in windows) + " |"]
    lines += ["| --- |" + " --- |" * len(windows)]
    lines += ["| nats above | " + " | ".join(f"{p['above']:.2f}" for p in windows) + " |"]
    known, found = above(points), gaps(points)
    sizes = sorted({cell.k for cells in found.values() for cell, _ in cells})
    head = [f"k = {k}" for k in sizes] + [
        f"{what} for {level}" for level in LEVELS for what in ("k", "CPU, s,")
    ]
    lines += ["", "| guide | nats above | " + " | ".join(head) + " |", "| --- |" + " --- |" * (len(head) + 1)]
    for one, cells in found.items():
        row = [f"{cell.kl:.2f} ± {cell.kl_error:.2f}" for cell, _ in cells]
        row += [""] * (len(sizes) - len(row))
        for level in LEVELS:
            k, seconds = needs(cells, level)
            row += [f"{k:.1f}", f"{seconds:.2f}"] if k < math.inf else [f"> {cells[-1][0].k}", ""]
        lines.append(
            f"| {label(one)} | {f'{known[one]:.2f}' if one in known else '–'} | " + " | ".join(row) + " |"
        )
    return "\n".join(lines)


def label(one: Guide) -> str:
    """A guide in words."""
    way, states, tokens = one
    return f"{way}, {states:,} states, {tokens:,} tokens" if states else way


# ------------------------------------------------------------ pictures


def draw(points: Sequence[Point], folder: Path) -> None:
    """``guides-nats.png`` and ``guides-particles.png``."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(12, 4), layout="constrained")
    curves(figure.subplots(1, 3, sharey=True), points)
    figure.savefig(folder / "guides-nats.png", dpi=90)
    figure = Figure(figsize=(10, 4), layout="constrained")
    worth(figure.subplots(1, 2), points)
    figure.savefig(folder / "guides-particles.png", dpi=90)


def curves(panels: Sequence[Any], points: Sequence[Point]) -> None:
    """Nats above the language model against states, tokens and CPU time."""
    by_states, by_tokens, by_time = panels
    made = of(points, "nats")
    ways = list(dict.fromkeys(point["way"] for point in made))
    colours = {way: f"C{i}" for i, way in enumerate(ways)}
    for way in ways:
        mine = [point for point in made if point["way"] == way]
        style = {"color": colours[way], "marker": "."}
        line = sorted((p["states"], p["above"]) for p in mine if p["tokens"] == MOST)
        if line:
            by_states.plot(*zip(*line, strict=True), **style)
        line = sorted((p["tokens"], p["above"], p["fit"]) for p in mine if p["hidden"] == 1024)
        if len(line) > 1:
            tokens, test, fit = zip(*line, strict=True)
            by_tokens.plot(tokens, test, **style)
            by_tokens.plot(tokens, fit, linestyle=":", **style)
        by_time.plot(
            [max(p["seconds"], 0.1) for p in mine],
            [p["above"] for p in mine],
            linestyle="",
            label=way,
            **style,
        )
    for point in of(points, "context"):
        if point["window"] in (1, 2, 3, 4, 8):
            by_states.axhline(point["above"], color="grey", linestyle=":", linewidth=0.8)
            by_states.annotate(
                f"the model, last {point['window']}", (1, point["above"]), xycoords=("axes fraction", "data"),
                ha="right", va="bottom", fontsize="x-small", color="grey",
            )  # fmt: skip
    for panel, ticks in ((by_states, {p["states"] for p in made}), (by_tokens, {p["tokens"] for p in made})):
        panel.set_xscale("log")
        panel.set_xticks(sorted(ticks), labels=[f"{tick:,}" for tick in sorted(ticks)], fontsize="small")
        panel.minorticks_off()
    for p in made:
        by_time.annotate(f"{p['states']}", (max(p["seconds"], 0.1), p["above"]), fontsize="xx-small")
    by_states.set(xlabel=f"states, {MOST:,} sampled tokens", ylabel="nats a token above the language model")
    by_tokens.set_xlabel("sampled tokens, 1,024 states; dotted: texts learned from", fontsize="small")
    by_time.set(xscale="log", xlabel="CPU seconds without sampling, by states", ylim=(0, 4))
    by_time.legend(fontsize="x-small")


def worth(panels: Sequence[Any], points: Sequence[Point]) -> None:
    """The divergence against the number of particles, and against nats."""
    known, (by_k, by_nats) = above(points), panels
    found = gaps(points)
    for one, cells in found.items():
        shown = [cell for cell, _ in cells]
        nats = f" ({known[one]:.2f})" if one in known else ""
        k, gap, error = zip(*((c.k, c.kl, 1.96 * c.kl_error) for c in shown), strict=True)
        by_k.errorbar(k, gap, error, marker=".", capsize=2, label=label(one) + nats, linewidth=1)
    by_k.set(xscale="log", xlabel="particles", ylabel="log Z − E[log Ẑ], nats, mean of the constraints")
    by_k.set_yscale("symlog", linthresh=0.1)
    by_k.legend(fontsize="xx-small", title="guide (nats above the model)", title_fontsize="xx-small")
    for k in sorted({cell.k for one, cells in found.items() if one in known for cell, _ in cells}):
        line = sorted(
            (known[one], c.kl, c.kl_error)
            for one, cells in found.items()
            for c, _ in cells
            if c.k == k and one in known
        )
        nats, gap, error = zip(*line, strict=True)
        by_nats.errorbar(nats, gap, error, marker=".", capsize=2, linestyle="", label=f"{k}")
    by_nats.axhline(0, color="grey", linewidth=0.5)
    by_nats.set(
        xlabel="nats a token above the language model", ylabel="log Z − E[log Ẑ], nats (± standard error)"
    )
    by_nats.legend(title="particles")
