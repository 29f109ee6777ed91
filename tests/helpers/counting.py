"""Work is counted: tests read no clock, so that a busy machine fails none of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import tractile

HANGS = 600
"""Seconds after which a test gives up something that hangs. Nothing else depends on this number."""
PACKAGE = str(Path(tractile.__file__).parent)


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail as soon as the package's functions have been called, and have called those of C, more than ``calls`` times."""
    count = 0

    def see(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(PACKAGE):
            count += 1
            if count > calls:
                raise AssertionError(f"more than {calls:,} calls")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert count <= calls, f"more than {calls:,} calls"
