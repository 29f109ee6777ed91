"""Notebooks of the tutorials, made when the documentation is built: `tutorials/x.md` gives `tutorials/x.ipynb`.

A ```python block becomes a code cell and the ```output block after it the cell's output; the rest becomes Markdown cells.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = "tutorials/"
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```\{code-block\} (\w+)$", re.MULTILINE)  # code that is shown, not run
ROLE = re.compile(r"\{[\w:]+\}`(?:([^`<]*?) <[^`>]*>|~?(?:[\w.]*\.)?(\w+))`")
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")  # to other pages, which a notebook does not have


def markdown(text: str) -> str:
    """The text of a page without what only Sphinx understands."""
    text = SHOWN.sub(r"```\1", text)
    text = ROLE.sub(lambda role: f"`{role[1] or role[2]}`", text)
    return LINK.sub(r"\1", text).strip()


def notebook(page: str) -> dict[str, Any]:
    """The notebook (nbformat 4.5, as JSON) of a page in Markdown."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, source: str, **more: Any) -> None:
        if source:
            lines = source.splitlines(keepends=True)
            cells.append(
                {"id": f"cell-{len(cells)}", "cell_type": kind, "metadata": {}, "source": lines, **more}
            )

    end = 0
    for block in BLOCK.finditer(page):
        add("markdown", markdown(page[end : block.start()]))
        end = block.end()
        if block[1] == "python":
            add("code", block[2].rstrip("\n"), execution_count=None, outputs=[])
        else:
            printed = {
                "output_type": "stream",
                "name": "stdout",
                "text": block[2].splitlines(keepends=True),
            }
            cells[-1]["outputs"] = [printed]
    add("markdown", markdown(page[end:]))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def add_link(app: Any, docname: str, source: list[str]) -> None:
    """Link to the notebook below the title of a tutorial."""
    if docname.startswith(FOLDER) and not docname.endswith("/index"):
        title, rest = source[0].split("\n", 1)
        name = docname.removeprefix(FOLDER)
        source[0] = f'{title}\n\n<a href="{name}.ipynb" download>Download this page as a notebook</a>\n{rest}'


def write_all(app: Any, error: Exception | None) -> None:
    """Write the notebooks beside the pages."""
    if error is None and app.builder.format == "html":
        for page in sorted((Path(app.srcdir) / FOLDER).glob("*.md")):
            if page.stem != "index":
                out = Path(app.outdir) / FOLDER / f"{page.stem}.ipynb"
                out.write_text(json.dumps(notebook(page.read_text("utf-8")), indent=1), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", add_link)
    app.connect("build-finished", write_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
