"""The classes of the page on extending (docs/howto/extend.md), as an outsider writes them."""

import contextlib
import io
import re
from pathlib import Path
from types import SimpleNamespace

import torch

from tractile.circuits.io import file_format

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "extend.md"


def code_of_the_page():
    """The names that the page defines, after all its code has run; what it registers is forgotten."""
    names, known = {"__name__": "extend"}, dict(file_format.TYPES)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
                exec(compile(code, str(PAGE), "exec"), names)
    finally:
        torch.set_default_dtype(torch.float32)
        file_format.TYPES.clear()
        file_format.TYPES.update(known)
    return SimpleNamespace(**names)


page = code_of_the_page()
