"""The place in a JSON value at which an unfinished JSON text ends."""

from __future__ import annotations

import json
import re

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[][{},:]', re.DOTALL)


def place(text: str) -> str | None:
    """Return the JSON pointer of the value that a text is about to write, or has written last; None if it does not begin one.

    >>> place('{"pets": [{"age": 3}, {"age": 4')
    '/pets/1/age'
    >>> place('{"a": 1, "b')
    ''
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    stack: list[
        str | int | None
    ] = []  # of each open object its member, None before there is one; of an array the index
    last = ""
    for token in TOKEN.finditer(text):
        sign = token[0]
        if sign == "{":
            stack.append(None)
        elif sign == "[":
            stack.append(0)
        elif sign in ("}", "]"):
            stack and stack.pop()
        elif sign == ":" and stack:
            stack[-1] = last
        elif sign == "," and stack:
            stack[-1] = stack[-1] + 1 if isinstance(stack[-1], int) else None
        elif len(sign) > 1 and sign.endswith('"'):
            try:
                last = str(json.loads(sign))
            except ValueError:
                last = sign[1:-1]
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in stack if step is not None]
    return "".join(f"/{step}" for step in steps)
