"""Work is counted: tests read no clock, so that a busy machine fails none of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

HANGS = 600
"""Seconds after which a test gives up something that hangs. Nothing else depends on this number."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail as soon as the block has called more functions than ``calls``, those of Python and of C."""
    count = 0

    def see(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > calls:
            raise AssertionError(f"more than {calls:,} calls")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert count <= calls, f"more than {calls:,} calls"
