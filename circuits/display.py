"""Display methods of all models: a summary table, a picture, the representation in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .io import draw, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DisplayMixin(ABC):
    """A mixin with the tables and pictures of a model, from its :meth:`table` and its :meth:`picture`."""

    @abstractmethod
    def table(self) -> summary.SummaryTable:
        """Return a table with a row for each layer."""

    @abstractmethod
    def num_nodes(self) -> int:
        """Return the number of nodes of the picture."""

    @abstractmethod
    def picture(self, names: Sequence[str] | None = None) -> draw.Picture:
        """Return the nodes and edges to draw; ``names[v]`` is the label of token v of an automaton (default: its id)."""

    def summary(self) -> str:
        """Return a text table of the layers."""
        return summary.summary(self)

    def draw(self, names: Sequence[str] | None = None) -> Figure:
        """Draw a matplotlib figure; ``names[v]`` is the label of token v of an automaton (default: its id)."""
        return draw.draw(self, names)

    def _repr_html_(self) -> str:
        return summary.to_html(self)
