"""The pictures of the documentation are drawn from the code as it is; drawing them checks what they show."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "page"),
    [
        ("constraint_to_mask", "howto/constraint-to-mask.md"),
        ("architecture", "architecture.md"),
        ("canvas", "howto/diffusion.md"),
        ("confidence", "howto/confidence.md"),
    ],
)
def test_each_picture_of_a_page_is_drawn(script, page, tmp_path):
    subprocess.run([sys.executable, DOCS / "pictures" / f"{script}.py", tmp_path], check=True)
    shown = set(re.findall(r"pictures/([\w-]*\.png)", (DOCS / page).read_text(encoding="utf-8")))
    assert shown == {path.name for path in tmp_path.iterdir()}
    assert shown <= {path.name for path in (DOCS / "pictures").glob("*.png")}
