"""The pictures of the documentation are drawn from the code as it is; drawing them checks what they show."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_each_picture_of_how_a_constraint_becomes_a_mask_is_drawn(tmp_path):
    script = DOCS / "pictures" / "constraint_to_mask.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    page = (DOCS / "howto" / "constraint-to-mask.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(\.\./pictures/(.*?\.png)\)", page))
    assert shown == {path.name for path in tmp_path.iterdir()}
    assert shown == {path.name for path in (DOCS / "pictures").glob("*.png")}
