"""No answer of the core changes with the constants of ``core/constants.h``, but to a refusal or what is said to be a bound.

The fuzzer is compiled with all of them halved, doubled and nearly taken away, and answers for the same random programs.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
SCALES = {"as they are": (1, 1), "halved": (1, 2), "doubled": (2, 1), "nearly taken away": (1, 500)}
INPUTS = 1500

pytestmark = [pytest.mark.long, pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By scale, the answers for each input: words such as ``end1``, ``mask17``, ``fewest3``."""
    folder, jobs = tmp_path_factory.mktemp("fuzz"), {}
    for number, (name, (num, den)) in enumerate(SCALES.items()):
        scale = f"-DTRACTILE_SCALE_NUM={num}", f"-DTRACTILE_SCALE_DEN={den}"
        files = f"-I{ROOT / 'core'}", ROOT / "tests" / "core" / "fuzz.cpp", "-o", folder / f"fuzz{number}"
        jobs[name] = subprocess.Popen([COMPILER, "-O1", "-std=c++17", *scale, *files])
    found = {}
    for number, (name, job) in enumerate(jobs.items()):
        assert job.wait() == 0
        asked = [folder / f"fuzz{number}", str(INPUTS), "0", "answers"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        found[name] = [line.split() for line in done.stdout.splitlines()]
    # of an input whose items are open with long texts: comparing them is work, which a limit stops
    subprocess.run([folder / "fuzz0", "1", "70063185"], check=True, timeout=100)
    return found


def compare(answers, scale):
    """Compare what is answered with two scales, and return how many answers there were."""
    compared = 0
    for plain, scaled in zip(answers["as they are"], answers[scale], strict=True):
        assert plain[0] == scaled[0]
        for one, other in zip(plain[1:], scaled[1:], strict=False):  # one that is refused may end a walk
            if one[0] == "~" or "-" in (one[-1], other[-1]):
                continue
            assert one == other, f"input {plain[0]}"
            compared += 1
    return compared


@pytest.mark.parametrize("scale", [name for name in SCALES if name != "as they are"])
def test_no_answer_changes(answers, scale):
    assert compare(answers, scale) > 10 * INPUTS


def test_every_constant_that_bounds_something_stands_there():
    """The constants of other headers are marks and numbers of a format, not sizes."""
    sizes = set()
    for header in (ROOT / "core").glob("*.h"):
        if header.name != "constants.h":
            text = header.read_text(encoding="utf-8")
            sizes |= set(re.findall(r"constexpr \w+ ((?:MOST|EVERY|MUCH|LONG|EACH)\w*)", text))
    assert not sizes
