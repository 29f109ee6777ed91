"""Constants of the constraints that are no limits change no answer: what ``scaled_constants.py`` asks with each scale."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "helpers" / "scaled_constants.py"


@cache
def asked(num, den):
    """The names of the constants that were scaled, and what each constraint answered."""
    command = [sys.executable, SCRIPT, str(num), str(den)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long
@pytest.mark.parametrize("scale", [(1, 2), (2, 1), (1, 16)])
def test_no_answer_changes_but_to_a_refusal(scale):
    (names, plain), (same_names, scaled) = asked(1, 1), asked(*scale)
    assert names == same_names
    assert {"program.nodes.MOST_INLINED", "json.values.FEW", "json.strings.maxsize"} <= set(names)
    compared = 0
    for place, (one, other) in enumerate(zip(plain, scaled, strict=True)):
        for a, b in zip(one, other, strict=False):
            if "-" in (a, b) or "~" in (a, b):  # refused; an upper bound
                break
            assert a == b, place
            compared += 1
    assert compared > 1000
