"""Circuits, chains and automata as tables, a row for each layer: text, HTML."""

from __future__ import annotations

import html
import shutil
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .draw import Drawable, to_svg


class SummaryTable(NamedTuple):
    """The cells of a table, and a line below it."""

    header: list[str]
    rows: list[list[str]]
    footer: str


class Described(Drawable):
    """A model that has a table and a picture: what people see of it."""

    @abstractmethod
    def table(self) -> SummaryTable:
        """Return a table with a row for each layer."""

    def summary(self) -> str:
        """Return a text table of the layers, children before parents, with their sizes and numbers of parameters.

        Examples
        --------
        >>> import tractile as tt
        >>> print(tt.HMM.random(hidden=3, vocab_size=5).summary())
        part     layer        shape  parameters
        ───────  ───────────  ─────  ──────────
        initial  vector       3      3
        L        Identity     3 × 3  0
        B        Categorical  3 × 5  15
        R        Dense        3 × 3  9
        final    vector       3      3
        ───────  ───────────  ─────  ──────────
        HMM(states=(3,), units=(3,), vocab_size=5), 30 parameters
        """
        header, rows, footer = self.table()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in (header, *rows)
        ]
        rule = "  ".join("─" * w for w in widths)
        return "\n".join([lines[0], rule, *lines[1:], rule, footer])

    def _repr_html_(self) -> str:
        """Return the table in HTML, with a picture above if Graphviz is installed and the model is small."""
        picture = to_svg(self) if self.num_nodes() <= 50 and shutil.which("dot") else ""
        return picture + html_table(*self.table())


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], footer: str) -> str:
    """Format cells as an HTML table with a line below it; without a header only the line."""
    cells = [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    table = f"<table><tr>{head}</tr>{''.join(cells)}</table>" if header else ""
    return f"{table}<p>{html.escape(footer)}</p>"
