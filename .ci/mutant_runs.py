"""Tests run against mutants in forks of one process that has imported everything once.

A fork puts the mutant's byte code into the functions that exist, runs the tests and ends with the first failure. A mutant of
code outside functions, or one whose functions have other free variables, is written into the copied tree and run in a process of
its own.
"""

from __future__ import annotations

import ast
import gc
import os
import resource
import select
import signal
import subprocess
import sys
import time
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutations import Mutant, mutated

PATIENCE = 10, 5.0  # seconds, and times what the tests took: after that a mutant counts as killed
MEMORY = 6 << 30  # bytes more than the parent has
OUTCOMES = {0: "survived", 1: "killed", 2: "unpatched"}


def choose(
    tests: list[str], seconds: dict[str, float], most: int, budget: float, wide: bool = False
) -> list[str]:
    """The quickest tests, ``most`` of them in ``budget`` seconds, at least one; at most three of one function first (``wide``: of
    one file)."""
    chosen, cost, met = [], 0.0, Counter[str]()
    by_rank = []
    for name in sorted(tests, key=lambda t: (seconds[t], t)):
        group = name.partition("::" if wide else "[")[0]
        by_rank.append((met[group] // 3, len(by_rank), name))
        met[group] += 1
    for *_, name in sorted(by_rank):
        if chosen and len(chosen) == most:
            break
        if not chosen or cost + seconds[name] <= budget:
            chosen.append(name)
            cost += seconds[name]
    return chosen


class Runs:
    """A plugin of pytest that collects and then runs `work(self)` in place of the tests."""

    def __init__(self, root: Path, seconds: dict[str, float], work: Any) -> None:
        self.root, self.seconds, self.work = root, seconds, work
        self.items: dict[str, pytest.Item] = {}
        self.functions: dict[Path, list[types.FunctionType]] = {}
        self.pipe = -1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Index what was collected and imported, then work."""
        self.items = {item.nodeid: item for item in session.items}
        for function in [f for f in gc.get_objects() if type(f) is types.FunctionType]:
            file = function.__code__.co_filename
            if "tractile" in file or str(self.root) in file:
                self.functions.setdefault(Path(file).resolve(), []).append(function)
        gc.collect()
        gc.freeze()
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In a fork: end with the first failure."""
        if self.pipe >= 0 and report.failed:
            os.write(self.pipe, report.nodeid.encode())
            os._exit(1)

    def test(self, mutant: Mutant | None, tests: list[str]) -> tuple[str, str, float]:
        """How a mutant, or the code as it is, comes out of some tests; which test failed; and in what seconds."""
        begin, limit = time.monotonic(), PATIENCE[0] + PATIENCE[1] * sum(self.seconds[t] for t in tests)
        outcome, by = "unpatched", ""
        if mutant is None or mutant.inside:
            outcome, by = self._fork(mutant, tests, limit)
        if outcome == "unpatched" and mutant is not None:
            outcome, by = self._own_process(mutant, tests, limit + 60)
        return outcome, by, time.monotonic() - begin

    def _fork(self, mutant: Mutant | None, tests: list[str], limit: float) -> tuple[str, str]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._in_fork(mutant, tests, writing)
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], limit)  # readable as soon as the child ends
        by = os.read(reading, 4096).decode() if ready else ""
        os.close(reading)
        if not ready:
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return (OUTCOMES.get(code, "crashed") if ready else "timeout"), by

    def _in_fork(self, mutant: Mutant | None, tests: list[str], writing: int) -> None:
        """Patch, run, exit: never returns."""
        code = 3
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            room = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (room, room))
            if mutant is not None and not self._patch(mutant):
                code = 2
                return
            self.pipe = writing
            items = [self.items[t] for t in tests]
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            code = 0
        finally:
            os._exit(code)

    def _patch(self, mutant: Mutant) -> bool:
        """Give the functions of a file the code of a mutant; False if that can't be."""
        path = self.root / mutant.file
        source = path.read_text()
        functions = self.functions.get(path.resolve(), [])
        name = functions[0].__code__.co_filename if functions else str(path)
        before = _codes(compile(source, name, "exec", dont_inherit=True))
        after = _codes(compile(mutated(source, mutant.number), name, "exec", dont_inherit=True))
        changed, patched = {key for key in before if before[key] != after.get(key)}, False
        for function in functions:
            key = function.__code__.co_qualname, function.__code__.co_firstlineno
            if key in changed:
                if not len(before[key]) == len(after.get(key, ())) == 1:
                    return False  # two lambdas of one line, for example
                try:
                    function.__code__ = after[key][0]
                except ValueError:
                    return False
                patched = True
        return patched

    def _own_process(self, mutant: Mutant, tests: list[str], limit: float) -> tuple[str, str]:
        """Write a mutant into the tree and run tests in a new process; the file is put back."""
        path = self.root / mutant.file
        source, status = path.read_bytes(), path.stat()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--no-header",
            "-p",
            "no:cacheprovider",
            *tests,
        ]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            path.write_text(ast.unparse(mutated(source.decode(), mutant.number)))
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                text = process.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "timeout", ""
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        failed = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return ("survived" if process.returncode == 0 else "killed"), (failed or [""])[0][:200]


def _codes(code: types.CodeType) -> dict[tuple[str, int], list[types.CodeType]]:
    """All code objects of a module, by name and first line."""
    found: dict[tuple[str, int], list[types.CodeType]] = {}
    waiting = [code]
    while waiting:
        inner = [c for c in waiting.pop().co_consts if isinstance(c, types.CodeType)]
        for each in inner:
            found.setdefault((each.co_qualname, each.co_firstlineno), []).append(each)
        waiting += inner
    return found
