"""Two plugins of pytest for `.ci/mutants.py`: which lines each test runs, and tests run against mutants.

`Trace` runs tests one after another under `coverage` and writes which lines of the package each of them ran, and in how long.
"""

from __future__ import annotations

import json
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

SLOWEST = 20  # seconds: a test that takes longer is stopped and left out


class Trace:
    """Write to `path` the lines of `folders` that each test runs; the file is renewed every minute.

    ``{"tests": {id: seconds}, "failed": [id, ...], "lines": {file: {line: [id, ...]}}, "statements": {file: [line, ...]},
    "missing": {file: [line, ...]}}``: the first lines of the statements, and of those that never ran.

    Tests that the file has already are kept. Lines of a fixture count for the test that made it. Lines that ran while modules
    were imported have the test "".
    """

    def __init__(self, path: Path, root: Path, folders: list[str]) -> None:
        self.path, self.root = path, root
        self.coverage = coverage.Coverage(
            data_file=None, source=[str(root / f) for f in folders], config_file=False
        )
        self.coverage.start()
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self.former: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.written = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count the lines of one test, and stop it after some seconds."""
        self.coverage.switch_context(item.nodeid)
        signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(SLOWEST)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            self.coverage.switch_context("")
            if time.monotonic() - self.written > 60:
                self.write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test took, and whether it failed or was skipped."""
        self.seconds[report.nodeid] += report.duration
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write everything."""
        self.write()

    def write(self) -> None:
        """Write what is known so far."""
        data, former = self.coverage.get_data(), self.former.get
        lines, statements, missing = former("lines", {}), former("statements", {}), former("missing", {})
        passed = {name: round(s, 4) for name, s in self.seconds.items() if name not in self.failed}
        for file in sorted(self.root.rglob("*.py")):
            if str(file) not in data.measured_files():
                continue
            name = file.relative_to(self.root).as_posix()
            _, statements[name], _, never, _ = self.coverage.analysis2(str(file))
            missing[name] = sorted(set(never) & set(missing.get(name, never)))
            known = lines.setdefault(name, {})
            for number, tests in data.contexts_by_lineno(str(file)).items():
                if found := set(tests) - self.failed | set(known.get(str(number), ())):
                    known[str(number)] = sorted(found)
        content = {
            "tests": former("tests", {}) | passed,
            "failed": sorted(self.failed | set(former("failed", ()))),
            "lines": lines,
            "statements": statements,
            "missing": missing,
        }
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(content))
        part.replace(self.path)
        self.written = time.monotonic()


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {SLOWEST} s")
