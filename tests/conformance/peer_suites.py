"""Other engines' own test suites: to how many of their questions Tractile gives the same answer, and where it does not.

A case is a specification (a schema, a pattern, a grammar, a model), a question (usually: is this text accepted?) and the
suite's answer. The verdicts are those of suites/suite_judge.py: right, W+ (accepts what the suite rejects), W- (rejects
what it accepts), narrowed (rejects it and says so in ``Constraint.narrowed``), refused by name, and others. What is known
about the differences stands in docs/howto/differences.md.

The suites are not part of this repository: unpack a source distribution and name it and its folder.

    read    json-schema (JSON-Schema-Test-Suite), llama.cpp, llguidance, outlines-core: as their files say
    run     xgrammar, llguidance-python, outlines, automata-lib, genlm, hmmlearn, dynamax: by pytest in ``--python``, a Python
            that has the peer, where a plugin notes what its tests ask and only tests that pass there count

    python tests/conformance/peer_suites.py [--smoke] [--suite NAME --folder FOLDER] [--python PYTHON] [--cases FILE] [--show]

``--cases`` keeps the cases of a suite that is run, in JSON Lines, or reads them where the file exists.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SUITES = Path(__file__).resolve().parent / "suites"
sys.path.insert(0, str(SUITES))

from suite_judge import VERDICTS, Judge, shown  # noqa: E402
from suite_sources import SOURCES  # noqa: E402

Case = dict[str, Any]
RUN = {  # the package whose functions are followed, and the tests in the suite's folder
    "xgrammar": ("xgrammar", "tests/python"),
    "llguidance-python": ("llguidance", "python/torch_tests/test_matcher.py"),
    "outlines": ("outlines_core", "tests/types"),
    "automata-lib": ("automata", "tests"),
    "genlm": ("genlm", "tests/potential/test_json.py"),
    "hmmlearn": ("hmmlearn", "src/hmmlearn/tests"),
    "dynamax": ("dynamax", "dynamax/hidden_markov_model/inference_test.py"),
}
SMOKE = [
    ("json_schema", {"type": "array", "items": {"type": "integer"}}, {}, "[1, -2]", True),
    ("json_schema", {"type": "array", "items": {"type": "integer"}}, {}, "[1.5]", False),
    ("json_schema", {"type": "integer", "multipleOf": 3}, {"whitespace": "flexible"}, "9", True),
    ("regex", "(ab)+c?", {}, "ababc", True),
    ("regex", "(ab", {}, None, False),
    ("gbnf", 'root ::= "a" [0-9]{2}', {}, "a7", False),
    ("lark", 'start: "x" /[a-c]+/', {}, "xabc", True),
    ("languages", ["aa*", "a+"], {"relation": "isequal"}, "", True),
    (
        "hmm",
        {
            "initial": [0.5, 0.5],
            "transition": [[0.9, 0.1], [0.2, 0.8]],
            "log_likelihoods": [[-1.0, -1.0], [-2.0, -2.0]],
        },
        {},
        "log_likelihood",
        -3.0,
    ),
]
RUST = "#[rstest]\n#[case(4, true)]\n#[case(7, false)]\nfn even(#[case] n: i32, #[case] ok: bool) {\n"
RUST += '    let schema = json!({"multipleOf": 2});\n    json_schema_check(&schema, &json!(n), ok);\n}\n'
CPP = 'test_grammar("own", R"""(root ::= "a" [0-9]{2})""",\n{ "a12", "a" "07" }, // these\n{ "a1" });\n'


def recorded(suite: str, folder: Path, python: str, file: Path) -> None:
    """Run a suite's tests in a Python that has the peer, writing the cases of those that pass to ``file``."""
    package, tests = RUN[suite]
    path = (folder / tests).resolve()
    environment = {
        **os.environ, "PEER_PACKAGE": package, "PEER_CASES": str(file.resolve()),
        "PYTHONPATH": os.pathsep.join(map(str, (SUITES, path if path.is_dir() else path.parent))), "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    command = [python, "-m", "pytest", "-p", "suite_recorder", "-q", "--tb=no", "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors", str(path)]
    with tempfile.TemporaryDirectory() as elsewhere:
        subprocess.run(command, env=environment, cwd=elsewhere, stdout=sys.stderr, check=False)


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """The cases of the suite that was asked for."""
    if args.suite in SOURCES:
        yield from SOURCES[args.suite](args.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = args.cases or Path(folder) / "cases.jsonl"
        if not file.exists():
            recorded(args.suite, args.folder, args.python, file)
        if file.exists():
            with file.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)


def distinct(all_cases: Iterable[Case]) -> Iterator[Case]:
    """Each question once; the tests of a suite often repeat one."""
    seen = set()
    for case in all_cases:
        key = json.dumps([case.get(name) for name in ("suite", "kind", "spec", "options", "text", "accepts")])
        if key not in seen:
            seen.add(key)
            yield case


def judged(all_cases: Iterable[Case], seconds: float, show: bool) -> Counter[tuple[str, str, str]]:
    """How many cases of each suite and kind have each verdict."""
    judge, count = Judge(seconds), Counter[tuple[str, str, str]]()
    for case in distinct(all_cases):
        verdict, why = judge.verdict(case)
        count[case["suite"], case["kind"], verdict] += 1
        if show and verdict != "right":
            print(shown(case, verdict, why))
    return count


def table(count: Counter[tuple[str, str, str]]) -> str:
    """A line for each suite and kind, a column for each verdict that occurs."""
    columns = [verdict for verdict in VERDICTS if any(key[2] == verdict for key in count)]
    rows = [["suite", "kind", "cases", *columns]]
    for suite, kind in dict.fromkeys((suite, kind) for suite, kind, _ in sorted(count)):
        found = [count[suite, kind, verdict] for verdict in columns]
        rows.append([suite, kind, *(f"{n:,}" for n in (sum(found), *found))])
    return "\n".join(f"{row[0]:38} {row[1]:12}" + "".join(f"{cell:>12}" for cell in row[2:]) for row in rows)


def smoke() -> None:
    """A few cases of each form, and tests in Rust and C++ of our own, read as a suite's are."""
    own = [
        {"suite": "smoke", "kind": kind, "spec": spec, "options": options, "text": text, "accepts": accepts}
        for kind, spec, options, text, accepts in SMOKE
    ]
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder) / "parser" / "tests"
        tests.mkdir(parents=True)
        (tests / "test_own.rs").write_text(RUST, encoding="utf-8")
        own += SOURCES["llguidance"](Path(folder))
        tests = Path(folder) / "tests"
        tests.mkdir()
        (tests / "test-grammar-integration.cpp").write_text(CPP, encoding="utf-8")
        own += SOURCES["llama.cpp"](Path(folder))
    count = judged(own, 20.0, True)
    print(table(count))
    if any(verdict != "right" for _, _, verdict in count) or count.total() != len(SMOKE) + 5:
        raise SystemExit("the smoke's own cases are not all right")


def main() -> None:
    """Print a line for each kind of case, after the differences with ``--show``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--suite", choices=[*SOURCES, *RUN], help="which suite")
    parser.add_argument("--folder", type=Path, help="where it is unpacked")
    parser.add_argument(
        "--python", default=sys.executable, help="a Python that has the peer, for suites that are run"
    )
    parser.add_argument(
        "--cases", type=Path, help="JSON Lines to keep recorded cases in, or to read them from"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="for one case (default: 20)")
    parser.add_argument("--show", action="store_true", help="each case that is not right")
    args = parser.parse_args()
    if args.smoke:
        smoke()
        return
    if args.suite is None:
        print("no --suite given: nothing to measure")
        return
    if args.folder is None and not (args.cases and args.cases.exists()):
        parser.error("--folder, or --cases of an earlier run")
    begin = time.process_time()
    count = judged(cases(args), args.seconds, args.show)
    print(table(count))
    print(f"{count.total():,} distinct cases in {time.process_time() - begin:.0f} s CPU")


if __name__ == "__main__":
    main()
