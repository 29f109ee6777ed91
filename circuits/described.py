"""What every model can do with itself, whatever it is: be saved, summed up in a table, drawn, shown in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Described:
    """The base of circuits and chains."""

    def save(self, directory: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a directory; ``tt.load`` reads them."""
        from .io.serialize import save

        save(self._model(), directory)

    def summary(self) -> str:
        """A text table of the layers."""
        from .io.summary import summary

        return summary(self._model())

    def draw(self, names: Sequence[str] | None = None) -> Figure:
        """A matplotlib figure; ``names`` are what to call the tokens of an automaton."""
        from .io.draw import draw

        return draw(self._model(), names)

    def _model(self) -> Any:
        return self

    def _repr_html_(self) -> str:
        from .io.summary import to_html

        return to_html(self._model())

    def _repr_markdown_(self) -> str:
        from .io.summary import to_markdown

        return to_markdown(self._model())
