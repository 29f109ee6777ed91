"""Run programs that a language model wrote in a separate process with resource limits.

What the kernel keeps, on Linux and macOS: address space, processor time, the size of a file, the number of processes (not
for root) and of open files. The process and its group are killed when the time is over. It sees no environment
variables, reads no input, and has an empty folder that is deleted afterwards.

Where the kernel lets a user make namespaces (most Linux systems; ``Outcome.isolated`` tells), there is no network at all, and no
process outlives the run. Elsewhere sockets and new processes are refused by an audit hook in the interpreter, and so are
changes to files outside the folder, everywhere. That stops a program that does so by accident or without much thought; native
code gets around it.

NOT guaranteed: files that the user may read can be read; a program that looks for the way can report success of itself, since it
shares its interpreter with the test; the number of files in its folder is bounded by time alone. Do not run on purpose what
is meant to do harm: for that, put the whole evaluation into a virtual machine.
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
"""Seconds that the interpreter may take to start, on a busy machine."""
MOST_REPORTED = 1 << 20
"""Bytes that are read of what the child reports; an honest one reports less."""


class ExecutionNotAllowed(TractileError, PermissionError):
    """Code that a model writes would be run, and the caller has not allowed it."""


@dataclass(frozen=True)
class Limits:
    """Wall-clock time and processor time in ``seconds``, address space and size of one file in bytes."""

    seconds: float = 10.0
    memory: int = 4 << 30
    file_size: int = 16 << 20


@dataclass(frozen=True)
class Outcome:
    """How many parts ended well (``done``), and ``problem``, what stopped the next, "" if nothing did. ``raised`` is the
    name of the exception, "" for another end. ``isolated``: in namespaces of its own."""

    done: int
    problem: str
    raised: str
    isolated: bool


def run(parts: Sequence[str], limits: Limits = Limits()) -> Outcome:
    """Run the parts of a program one after the other, in one namespace of names, until one does not end well.

    Raises :class:`TractileError` where there is no such sandbox (Windows), or it does not start.
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
    """What the child reports until it ends, and whether it did so in time, which runs from its first word."""
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
    return output, True


def _report(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
