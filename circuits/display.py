"""What every model can do with itself: be summed up in a table, drawn, shown in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .io import draw, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DisplayMixin(ABC):
    """Tables and pictures of a model, from its :meth:`table` and its :meth:`picture`."""

    @abstractmethod
    def table(self) -> summary.Table:
        """A row for each layer."""

    @abstractmethod
    def num_nodes(self) -> int:
        """The number of nodes of its picture."""

    @abstractmethod
    def picture(self, names: Sequence[str] | None = None) -> draw.Picture:
        """The nodes and edges to be drawn; ``names`` are what to call the tokens of an automaton."""

    def summary(self) -> str:
        """A text table of the layers."""
        return summary.summary(self)

    def draw(self, names: Sequence[str] | None = None) -> Figure:
        """A matplotlib figure; ``names`` are what to call the tokens of an automaton."""
        return draw.draw(self, names)

    def _repr_html_(self) -> str:
        return summary.to_html(self)

    def _repr_markdown_(self) -> str:
        return summary.to_markdown(self)
