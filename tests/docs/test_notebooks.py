"""The notebooks that the documentation makes of its tutorials."""

import re
from pathlib import Path

import pytest
from scripts import load

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(p for p in (DOCS / "tutorials").glob("*.md") if p.stem != "index")


@pytest.fixture(scope="module")
def notebook():
    return load("docs/notebooks.py").notebook


def source(cell):
    return "".join(cell["source"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_notebook_of_a_tutorial(notebook, page):
    text = page.read_text("utf-8")
    made = notebook(text)
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids)
    shown = sum(
        source(cell).count("```python\n") for cell in made["cells"] if cell["cell_type"] == "markdown"
    )
    assert shown == text.count("```{code-block} python\n")  # all else runs
    code = [source(cell) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert code == [m.rstrip("\n") for m in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)]
    for cell in made["cells"]:
        keys = {"id", "cell_type", "metadata", "source"}
        if cell["cell_type"] == "code":
            keys |= {"execution_count", "outputs"}
        else:
            assert not re.search(r"```output\n|\{[a-z:]+\}`|\]\(\.\.", source(cell))
        assert set(cell) == keys


def test_code_output_and_text(notebook):
    page = "# T\n\nSee {py:func}`~tractile.smc` and [the page](../a.md#b), [web](https://x.org).\n\n"
    page += "```python\nprint(1)\n```\n\n```output\n1\n```\n\n```{code-block} sh\nls\n```\n"
    text, code, shown = notebook(page)["cells"]
    assert source(text) == "# T\n\nSee `smc` and the page, [web](https://x.org)."
    assert source(code) == "print(1)"
    assert code["outputs"] == [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]
    assert source(shown) == "```sh\nls\n```"
