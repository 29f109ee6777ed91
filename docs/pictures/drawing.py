"""Plain pictures of boxes, circles, arrows and tables of coloured cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

BLUE, GREEN, RED, ORANGE = "#2f6fb2", "#2e8b57", "#c0392b", "#e08a2e"
GREY, PALE, PALE_ORANGE, WHITE, INK = "#b9bec5", "#e6eef7", "#fdebd8", "#ffffff", "#22262b"
DARK = (BLUE, GREEN, RED, ORANGE)
Point = tuple[float, float]


class Picture:
    """A canvas whose unit has the same length both ways: ``inches`` of it. It is as large as what is drawn."""

    def __init__(self, inches: float) -> None:
        self.inches = inches
        self.figure = Figure()
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_axis_off()
        self.axes.set_aspect("equal")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 9,
        colour: str = INK,
        mono: bool = False,
        across: str = "left",
        up: str = "center",
        turned: float = 0,
    ) -> None:
        """A text beside a point."""
        family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
        self.axes.text(
            x, y, text, fontsize=size, color=colour, family=family, ha=across, va=up, rotation=turned
        )

    def box(
        self, x: float, y: float, width: float, height: float, lines: Sequence[str], colour: str = PALE
    ) -> None:
        """A box from its lower left corner; the first line stands out."""
        self.axes.add_patch(
            FancyBboxPatch(
                (x, y),
                width,
                height,
                "round,pad=0,rounding_size=0.08",
                facecolor=colour,
                edgecolor=INK,
                lw=0.8,
            )
        )
        step = height / (len(lines) + 0.4)
        for i, line in enumerate(lines):
            self.axes.text(
                x + width / 2,
                y + height - step * (i + 0.7),
                line,
                fontsize=9 if i == 0 else 8.5,
                weight="bold" if i == 0 else "normal",
                color=INK,
                ha="center",
                va="center",
            )

    def circle(
        self,
        x: float,
        y: float,
        radius: float,
        text: str,
        colour: str = WHITE,
        *,
        double: bool = False,
        size: float = 8.5,
    ) -> None:
        """A circle with a text in it, with a double rim if so asked."""
        if double:
            self.axes.add_patch(
                Circle((x, y), radius * 1.25, facecolor=WHITE, edgecolor=INK, lw=0.8, zorder=3)
            )
        self.axes.add_patch(Circle((x, y), radius, facecolor=colour, edgecolor=INK, lw=0.8, zorder=3))
        self.axes.text(
            x,
            y,
            text,
            fontsize=size,
            color=WHITE if colour in DARK else INK,
            ha="center",
            va="center_baseline",
            zorder=4,
        )

    def line(self, a: Point, b: Point, colour: str = INK) -> None:
        """A line."""
        self.axes.plot([a[0], b[0]], [a[1], b[1]], color=colour, lw=1.2, zorder=1)

    def arrow(
        self,
        a: Point,
        b: Point,
        label: str = "",
        *,
        colour: str = INK,
        shift: Point = (0.0, 0.0),
    ) -> None:
        """An arrow; its label stands ``shift`` from its middle."""
        self.axes.add_patch(
            FancyArrowPatch(
                a, b, arrowstyle="-|>", mutation_scale=10, shrinkA=0, shrinkB=0, color=colour, lw=1.0
            )
        )
        middle = ((a[0] + b[0]) / 2 + shift[0], (a[1] + b[1]) / 2 + shift[1])
        self.text(*middle, label, size=8.5, colour=colour, across="center")

    def key(self, x: float, y: float, colour: str, label: str) -> None:
        """A cell of a table and what it means."""
        self.axes.add_patch(Rectangle((x, y - 0.3), 0.6, 0.6, facecolor=colour, edgecolor=INK, lw=0.6))
        self.text(x + 0.85, y, label, size=9)

    def table(self, names: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows of coloured cells, the first one above; row r has its lower edge at height −r − 1."""
        for r, (name, row) in enumerate(zip(names, rows, strict=True)):
            self.text(-0.3, -r - 0.5, name, mono=True, across="right")
            for c, colour in enumerate(row):
                self.axes.add_patch(Rectangle((c, -r - 1), 1, 1, facecolor=colour, edgecolor=GREY, lw=0.6))
        for c, head in enumerate(heads):
            self.text(c + 0.5, 0.25, head, mono=True, across="center", up="bottom", turned=90)

    def save(self, path: Path) -> None:
        """Write a PNG."""
        self.axes.autoscale_view()
        (left, right), (low, high) = self.axes.get_xlim(), self.axes.get_ylim()
        self.figure.set_size_inches((right - left) * self.inches, (high - low) * self.inches)
        self.figure.savefig(
            path, dpi=130, facecolor=WHITE, bbox_inches="tight", pad_inches=0.1, metadata={"Software": None}
        )
