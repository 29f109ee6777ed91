"""What is complete of a JSON text that is still being written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..constraints.json.place import place
from ..errors import FormatError

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[][{},]', re.DOTALL)
CLOSING = {"{": "}", "[": "]"}


def complete_json(text: str) -> str | None:
    """Return the members or items of the outermost object or array that are complete, closed; None for other texts.

    A number or literal is complete with the comma after it.

    >>> complete_json('{"name": "Ada", "tags": ["a", "b"], "age": 3')
    '{"name": "Ada", "tags": ["a", "b"]}'
    """
    begin = text.lstrip()[:1]
    if begin not in CLOSING:
        return None
    depth = end = 0
    for token in TOKEN.finditer(text):
        sign = token[0]
        if sign in CLOSING:
            depth += 1
        elif sign in ("}", "]"):
            depth -= 1
        if depth == 0 and sign in ("}", "]"):
            return text[: token.end()]
        if depth == 1 and sign in CLOSING | {"}": "", "]": ""}:
            end = token.end()
        elif depth == 1 and sign == ",":
            end = token.start()
    return text[:end] + CLOSING[begin]


UNIT = r"[dD][89abAB][0-9a-fA-F]{2}"  # the first half of a pair
STRING = re.compile(
    rf"(?P<whole>(?:[^\\]|\\[^u]|\\u[0-9a-fA-F]{{4}})*?)(?:\\u{UNIT}|[\ud800-\udbff])?(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z",
    re.DOTALL,
)
"""A string that is being written: what is whole of it, and the beginning of a character."""


def growing_json(text: str) -> tuple[Any, str] | None:
    """Return the value of an unfinished JSON text with the string that it is writing, and this string's place as a JSON pointer.

    None if it is not writing a string that is a value.

    >>> growing_json('{"name": "Ada", "tags": ["a", "b')
    ({'name': 'Ada', 'tags': ['a', 'b']}, '/tags/1')
    >>> growing_json('{"name": "Ada", "ta')
    """
    there = place(text)
    if there is None or there.name is not None or not there.levels:
        return None
    inner = there.levels[-1]
    if inner.start is None or inner.ended or text[inner.start] != '"':
        return None
    found = STRING.match(text, inner.start)
    written = "" if found is None else found["whole"]
    closing = "".join("]" if isinstance(level.step, int) else "}" for level in reversed(there.levels))
    try:
        return json.loads(text[: inner.start] + written + '"' + closing), there.pointer
    except (ValueError, RecursionError):
        return None


def partial_value(text: str, parse: Callable[[str], Any]) -> Any:
    """Return the value of what is complete: the items of an array as the type reads them if it does, else as JSON."""
    closed = complete_json(text)
    if closed is None:
        return None
    if closed.lstrip()[:1] == "[":
        try:
            return parse(closed)
        except FormatError:
            pass
    try:
        return json.loads(closed)
    except (ValueError, RecursionError):
        return None
