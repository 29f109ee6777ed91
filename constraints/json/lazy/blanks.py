"""White space between the parts of a value, and around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...automata.machines import Caller
from ...automata.region import Local, Machine

BLANKS = ((9, 10), (13, 13), (32, 32))


def with_blanks(moves: list[tuple[int, int, Local]], here: Local) -> list[tuple[int, int, Local]]:
    """Return the moves, and loops on white space."""
    return sorted([*moves, *((low, high, here) for low, high in BLANKS)], key=lambda move: move[0])


class Surrounded(Caller):
    """A value with any white space before and after it."""

    def __init__(self, value: Machine) -> None:
        self.value = value

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return [(low, high, local) for low, high in BLANKS]

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return [(self.value, 1)] if local == 0 else ()

    def final(self, local: Local) -> bool:
        return bool(local == 1)

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        return "blanks" if local == 1 else None

    def completion(self, local: Local) -> bytes:
        return self.value.completion(self.value.start()) if local == 0 else b""
