"""The place in a JSON value at which an unfinished JSON text ends."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[][{},:]|[^][{},:"\s]+', re.DOTALL)

ENDED = re.compile(r'"(?:[^"\\]|\\.)*"|true|false|null', re.DOTALL)
"""Values that end with their last character: a number may go on."""


@dataclass
class Level:
    """An array or object that is open: where it starts in the text, and of which member or item the text is.

    ``step``: the name of the member, None before there is one; of an array the index. ``start``: where the value of the member or
    item starts, None before it has begun. ``ended``: whether it has ended. ``names``: the members so far.
    """

    at: int
    step: str | int | None
    start: int | None = None
    ended: bool = False
    names: list[str] = field(default_factory=list)


class Place(NamedTuple):
    """Where a text ends: in which arrays and objects, and where the value around starts.

    ``name``: the beginning of a member's name, None unless a name may stand or has begun; ``named``: whether it has ended.
    """

    levels: tuple[Level, ...]
    start: int
    name: str | None
    named: bool = False

    @property
    def pointer(self) -> str:
        """The JSON pointer of the value that the text is about to write, or has written last."""
        steps = [str(each.step) for each in self.levels if each.step is not None]
        return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def place(text: str) -> Place | None:
    """Return the place at which a text ends; None if it does not begin a JSON array or object, or has members without names.

    >>> place('{"pets": [{"age": 3}, {"age": 4').pointer
    '/pets/1/age'
    >>> place('{"a": 1, "b').name
    'b'
    """
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return None
    levels: list[Level] = []
    name, last = None, ""
    for token in TOKEN.finditer(text):
        sign, top = token[0], levels[-1] if levels else None
        if sign in ("}", "]"):
            levels and levels.pop()
            if levels:
                levels[-1].ended = True
            name = None
        elif sign == ":" and top:
            if last[:1] != '"':
                return None
            top.step, top.start = name or "", None
            top.names.append(top.step)
            name = None
        elif sign == "," and top:
            is_array = isinstance(top.step, int)
            top.step = top.step + 1 if isinstance(top.step, int) else None
            top.start, top.ended, name = None, False, None if is_array else ""
        elif name is not None and sign[0] == '"':
            name = read_name(sign)
        else:
            if top:
                top.start = token.start()
                top.ended = ENDED.fullmatch(sign) is not None
            if sign in ("{", "["):
                levels.append(Level(token.start(), 0 if sign == "[" else None))
                name = "" if sign == "{" else None
        last = sign
    return Place(tuple(levels), start, name, bool(name is not None and ENDED.fullmatch(last)))


def read_name(sign: str) -> str:
    """Return the text of a string that may be unfinished."""
    try:
        return str(json.loads(sign))
    except ValueError:
        return sign[1:]
