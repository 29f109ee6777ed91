"""How many small faults in the code do the tests notice? A uniform sample of mutants, each with the tests that reach it.

    pip install coverage
    python .ci/mutants.py trace /tmp/mutants                            # once: which tests run which lines
    python .ci/mutants.py trace /tmp/mutants --add tests/test_new.py    # more tests, against the code as it was copied
    python .ci/mutants.py run /tmp/mutants --draw 500 --minutes 60      # goes on where it was stopped
    python .ci/mutants.py report /tmp/mutants

All happens in a copy of the checkout: what git tracks, with changes. A mutant is first met by the quickest tests that run its
line, and by more of them if it survives. One that no test runs counts as a survivor. The mutants are a seeded shuffle of all, so
the first so many are a uniform sample, and the interval of the share killed is Wilson's. Every twentieth time the same tests run
on the code as it is: a failure there would say that kills are not to be trusted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutant_runs import Runs, choose
from mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["layers", "circuits", "inference", "constraints/automata", "constraints/lifting"]
ROUNDS = (25, 4.0), (60, 10.0)  # tests, and seconds that they took when traced
DEEPER = (150, 15.0), (400, 40.0)
CONTROLS = 20
ALIVE = ("survived", "unreached")
PYTEST = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-s"]


def copy(work: Path) -> Path:
    """Copy the checkout to ``work/tree``, with the link through which it is imported."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    (work / "trace.json").unlink(missing_ok=True)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    (tree / "build" / "typing").mkdir(parents=True)
    (tree / "build" / "typing" / "tractile").symlink_to("../..")
    return tree


def enter(tree: Path) -> None:
    """Import the package from the copy, here and in processes that tests start."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(tree / "build" / "typing"), os.environ.get("PYTHONPATH")])
    )
    sys.path.insert(0, str(tree / "build" / "typing"))
    os.chdir(tree)


def sample(tree: Path, folders: list[str], seed: int) -> list[Mutant]:
    """All mutants of the folders, shuffled."""
    found = [
        mutant
        for folder in folders
        for file in sorted((tree / folder).rglob("*.py"))
        for mutant in mutants(file.relative_to(tree).as_posix(), file.read_text())
    ]
    random.Random(seed).shuffle(found)
    return found


def reached_by(mutant: Mutant, trace: dict[str, Any]) -> list[str]:
    """The tests that run a mutant's lines; for code outside functions those that run any of the file, or else all."""
    lines = trace["lines"].get(mutant.file, {})
    first, last = mutant.lines if mutant.inside else (0, sys.maxsize)
    found = {t for line, tests in lines.items() if first <= int(line) <= last for t in tests} - {""}
    return sorted(found or (() if mutant.inside else trace["tests"]))


def beside(tests: list[str], trace: dict[str, Any]) -> list[str]:
    """Other tests of the same files: a fixture's lines count only for the first test that wants it."""
    files = {t.partition("::")[0] for t in tests}
    return sorted(t for t in trace["tests"] if t.partition("::")[0] in files and t not in set(tests))


def judge(
    runs: Runs, mutant: Mutant, trace: dict[str, Any], rounds: tuple[tuple[int, float], ...]
) -> dict[str, Any]:
    """What became of one mutant."""
    reached, tried, seconds = reached_by(mutant, trace), [], 0.0
    outcome, by = "unreached", ""
    for most, budget in rounds if reached else ():
        left = [t for t in reached if t not in tried] or beside(reached, trace)
        chosen = choose(left, runs.seconds, most, budget, not mutant.inside) if left else []
        if not chosen:
            break
        outcome, by, took = runs.test(mutant, chosen)
        tried, seconds = tried + chosen, seconds + took
        if outcome != "survived":
            break
    answer = {"outcome": outcome, "by": by, "tests": len(tried), "seconds": round(seconds, 1)}
    return mutant._asdict() | {"reached": len(reached)} | answer


def run(arguments: argparse.Namespace) -> int:
    """Judge mutants until enough are drawn or time is up."""
    tree, results = arguments.work / "tree", arguments.work / "results.jsonl"
    trace = json.loads((arguments.work / "trace.json").read_text())
    drawn = sample(tree, arguments.folders, arguments.seed)
    again, asked = arguments.again is not None, set(arguments.again or ())
    end = time.monotonic() + 60 * arguments.minutes

    def work(runs: Runs) -> None:
        lines = results.read_text().splitlines() if results.exists() else []
        done = {(r["index"], "control" in r): r for r in map(json.loads, lines)}
        for index, mutant in enumerate(drawn[: arguments.draw]):
            former = done.get((index, False))
            if time.monotonic() > end:
                break
            if again != (former is not None):
                continue
            if former is not None and (former["outcome"] not in ALIVE or index not in (asked or {index})):
                continue
            found = judge(runs, mutant, trace, DEEPER if again else ROUNDS)
            done[index, False] = {"index": index} | found
            if index % CONTROLS == 0 and found["tests"]:
                chosen = choose(reached_by(mutant, trace), runs.seconds, *ROUNDS[0])
                outcome, by, _ = runs.test(None, chosen)
                done[index, True] = {"index": index, "control": True, "outcome": outcome, "by": by}
            part = results.with_suffix(".part")
            part.write_text("".join(json.dumps(done[key]) + "\n" for key in sorted(done)))
            part.replace(results)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a file that is changed on disk is put back
    enter(tree)
    files = sorted({t.partition("::")[0] for t in trace["tests"]})
    return pytest.main([*PYTEST, *files], plugins=[Runs(tree, trace["tests"], work)])


def trace(arguments: argparse.Namespace) -> int:
    """Copy the checkout, or the tests that are added, and run the tests once."""
    from mutant_trace import Trace  # needs coverage

    tree = arguments.work / "tree"
    for name in arguments.tests if arguments.add else ():
        shutil.copy2(ROOT / name, tree / name)
    if not arguments.add:
        copy(arguments.work)
    enter(tree)
    plugin = Trace(arguments.work / "trace.json", tree, arguments.folders)
    return pytest.main([*PYTEST, *arguments.tests, "--cases", "20"], plugins=[plugin])


def wilson(hits: int, tries: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a share."""
    middle, square = (hits + z * z / 2) / (tries + z * z), z * z / (4 * tries)
    half = z * math.sqrt(tries) / (tries + z * z) * math.sqrt(hits / tries * (1 - hits / tries) + square)
    return middle - half, middle + half


def report(arguments: argparse.Namespace) -> int:
    """Print coverage, the share killed by folder and kind, and the survivors."""
    traced = json.loads((arguments.work / "trace.json").read_text())
    rows = [json.loads(line) for line in (arguments.work / "results.jsonl").read_text().splitlines()]
    controls, rows = [r for r in rows if "control" in r], [r for r in rows if "control" not in r]
    for folder in arguments.folders:
        files = [f for f in traced["statements"] if f.startswith(folder + "/")]
        total = sum(len(traced["statements"][f]) for f in files)
        run = total - sum(len(traced["missing"][f]) for f in files)
        print(f"{folder:22} {run:6,} of {total:6,} statements run {run / max(total, 1):7.1%}")
    for title, key in (("folder", lambda r: _folder(r, arguments.folders)), ("kind", lambda r: r["kind"])):
        groups = Counter(map(key, rows))
        killed = Counter(key(r) for r in rows if r["outcome"] not in ALIVE)
        print(f"\n{title}: killed / drawn")
        for name in sorted(groups):
            print(f"  {name:22} {killed[name]:5} / {groups[name]:5} {killed[name] / groups[name]:7.1%}")
    killed_all = sum(r["outcome"] not in ALIVE for r in rows)
    low, high = wilson(killed_all, len(rows))
    print(
        f"\nall: {killed_all} / {len(rows)} {killed_all / len(rows):.1%}, 95 % interval {low:.1%} to {high:.1%}"
    )
    print(dict(Counter(r["outcome"] for r in rows)))
    print(
        f"controls: {sum(r['outcome'] != 'survived' for r in controls)} of {len(controls)} failed\n\nsurvivors:"
    )
    for r in sorted((r for r in rows if r["outcome"] in ALIVE), key=lambda r: (r["file"], r["lines"])):
        print(f"{r['index']}: {r['file']}:{r['lines'][0]} {r['outcome']} ({r['tests']} tests) {r['kind']}")
        print(f"    {r['before']}\n  → {r['after']}")
    return 0


def _folder(row: dict[str, Any], folders: list[str]) -> str:
    return next(f for f in folders if row["file"].startswith(f + "/"))


def main() -> int:
    """Read the arguments and do one of the three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["trace", "run", "report"])
    parser.add_argument("work", type=Path, help="a folder for the copy and the results")
    parser.add_argument("tests", nargs="*", default=["tests"], help="trace: files of tests (all)")
    parser.add_argument("--add", action="store_true", help="trace: more tests, with the copy as it is")
    parser.add_argument("--folders", nargs="+", default=FOLDERS, help="what is mutated")
    parser.add_argument("--draw", type=int, default=500, help="mutants")
    parser.add_argument(
        "--again", type=int, nargs="*", metavar="INDEX", help="run: survivors, by more tests (all survivors)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf)
    arguments = parser.parse_intermixed_args()
    arguments.work = arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    return {"trace": trace, "run": run, "report": report}[arguments.do](arguments)


if __name__ == "__main__":
    sys.exit(main())
