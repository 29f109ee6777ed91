"""A constraint is one program, and one file, in every process, whatever the seed of Python's hashes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from same_program import digests

SCRIPT = Path(__file__).resolve().parents[2] / "helpers" / "same_program.py"


def test_constraints_are_the_same_program(tmp_path):
    """Here and in another process, started in another folder; of a benchmark's schemas every sixteenth, where they are there."""
    shared = Path(os.environ.get("TRACTILE_SHARED", SCRIPT.parents[3] / "shared"))
    path = shared / "data" / "jsonschemabench" / "jsonschemabench_dev.jsonl.gz"
    arguments = [str(path), "0", "16"] if path.is_file() else []
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    other = subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )
    found = digests(*arguments)
    assert json.loads(other.communicate()[0]) == found
    assert len(found) > (60 if arguments else 10)
    assert arguments or not [name for name in found if "Error" in found[name]]
