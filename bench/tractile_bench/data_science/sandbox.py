"""Run programs that a language model wrote in a separate process with resource limits.

On Linux and macOS the kernel limits address space, processor time, the size of a file, the number of processes (not for
root) and of open files. The process and its group are killed when the time is over. The program sees no environment variables
of the user, reads no input, and works in an empty folder that is deleted afterwards.

Where the kernel lets a user make namespaces (most Linux systems; ``Outcome.isolated`` tells), the program has no network, and no
process outlives the run. Everywhere an audit hook in the interpreter refuses sockets, new processes, and changes to files
outside the folder. The hook stops a program that does such things by accident or naively; native code gets around it.

NOT guaranteed: files that the user may read can be read; a program can find a way to report success for itself, since it
shares its interpreter with the test; the number of files in its folder is bounded by time alone. Do not run code that is meant
to do harm: for that, put the whole evaluation into a virtual machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tractile.errors import TractileError

CHILD = Path(__file__).with_name("sandbox_child.py")
STARTING = 30.0
"""The most seconds that the interpreter may take to start; generous, for a busy machine."""
MOST_REPORTED = 1 << 20
"""The most bytes read from the child's reports; ordinary reports are far shorter."""


class ExecutionNotAllowed(TractileError, PermissionError):
    """The error that code written by a model would be run and the caller has not allowed it."""


@dataclass(frozen=True)
class Limits:
    """Wall-clock time and processor time in ``seconds``, address space and size of one file in bytes."""

    seconds: float = 10.0
    memory: int = 4 << 30
    file_size: int = 16 << 20


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. ``done``: the number of parts that ended without an error.

    ``problem``: what stopped the next part, "" if nothing did. ``raised``: the name of its exception, "" if it ended in another
    way. ``isolated``: whether the program ran in its own namespaces."""

    done: int
    problem: str
    raised: str
    isolated: bool


def run(parts: Sequence[str], limits: Limits = Limits()) -> Outcome:
    """Run the parts of a program one after the other, with shared global variables, until one fails.

    Raises :class:`TractileError` on systems without POSIX limits (Windows), or if the sandbox does not start.
    """
    if os.name != "posix":
        raise TractileError("programs are run only where POSIX limits exist: Linux, macOS")
    key = secrets.token_hex(16)
    job = json.dumps({"key": key, "parts": list(parts), **asdict(limits)}).encode()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, tempfile.TemporaryFile() as given:
        given.write(job)
        given.seek(0)
        environment = {
            "HOME": folder, "TMPDIR": folder, "MPLCONFIGDIR": folder, "MPLBACKEND": "agg", "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-s", "-P", "-B", str(CHILD)],
            stdin=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=folder, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            output, in_time = _read(process, limits.seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = [line for line in map(_report, output.splitlines()) if line.pop("key", None) == key]
    if not said:
        raise TractileError(f"the sandbox did not start: {sys.executable} ended with {process.returncode}")
    done = sum("done" in line for line in said)
    raised, problem = "", ""
    if "raised" in said[-1]:
        raised, problem = said[-1]["raised"], f"raised {said[-1]['raised']}: {said[-1]['message']}"
    elif done < len(parts):
        problem = "ended its process" if in_time else f"did not end within {limits.seconds:g} s"
    return Outcome(done, problem, raised, said[0]["isolated"])


def _read(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bool]:
    """Read the child's reports until it ends; return them and whether it ended in time, counted from its first report.

    Past the time the child may also have been ended by its own limits.
    """
    output, deadline = b"", time.monotonic() + STARTING
    assert process.stdout is not None
    with process.stdout as stream, selectors.DefaultSelector() as ready:
        ready.register(stream, selectors.EVENT_READ)
        while len(output) < MOST_REPORTED:
            if not ready.select(max(deadline - time.monotonic(), 0)):
                return output, False
            if not (more := os.read(stream.fileno(), 1 << 16)):
                break
            if not output:
                deadline = time.monotonic() + seconds
            output += more
    return output, time.monotonic() < deadline


def _report(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
