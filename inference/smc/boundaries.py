"""Boundaries: where in a text a potential is asked. Each tells how much of the text so far is worth a look,

    boundary(text) = the number of characters up to the last boundary, 0 before the first,

so ``text[:boundary(text)]`` is what the potential sees, again and again the same until the next boundary is reached.
A callable of your own does the same; for potentials on tokens it gets the tuple of token ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from typing import Any

Boundary = Callable[[Any], int]

_CLAUSE = re.compile(r"[,;:.!?…。，；：！？](?=\s)|\n")
_NUMBER = re.compile(r"[-+0-9.eE]")


def every_token(text: Sized) -> int:
    """After every token."""
    return len(text)


def at_end(text: Sized) -> int:
    """Only when the sequence is complete."""
    return 0


def every_line(text: str) -> int:
    """After every newline."""
    return text.rfind("\n") + 1


def every_clause(text: str) -> int:
    """After punctuation (, ; : . ! ? and the like) once white space follows, and after every newline."""
    end = 0
    for match in _CLAUSE.finditer(text):
        end = match.end()
    return end


def every_statement(text: str) -> int:
    """After every ``;``, and every newline outside brackets, but in neither case inside quotes (Python, SQL, C)."""
    end = depth = 0
    quote = ""
    position = 0
    while position < len(text):
        c = text[position]
        if quote:
            if c == "\\":
                position += 1
            elif text.startswith(quote, position):
                position += len(quote) - 1
                quote = ""
        elif c in "'\"":
            quote = c * 3 if text.startswith(c * 3, position) else c
            position += len(quote) - 1
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth = max(0, depth - 1)
        elif c == ";" or (c == "\n" and not depth):
            end = position + 1
        position += 1
    return end


def every_json_value(text: str) -> int:
    """After every JSON value that is complete, nested ones included; the key of an object is not a value."""
    end = 0
    stack: list[str] = []  # "{" before a key, ":" before a member's value, "[" in an array
    position = 0

    def closed(after: int) -> int:
        if stack and stack[-1] == ":":
            stack[-1] = "{"
        return after

    while position < len(text):
        c = text[position]
        if c == '"':
            close = _string_end(text, position)
            if close is None:
                break
            position = close
            if stack and stack[-1] == "{":
                stack[-1] = ":"
            else:
                end = closed(close)
            continue
        if c in "{[":
            stack.append(c)
        elif c in "}]":
            if stack:
                stack.pop()
            end = closed(position + 1)
        elif c.isalnum() or c == "-":
            stop = position
            while stop < len(text) and (text[stop].isalnum() or _NUMBER.match(text[stop])):
                stop += 1
            if stop == len(text) and text[position:] not in ("true", "false", "null"):
                break  # a number may go on
            end = closed(stop)
            position = stop
            continue
        position += 1
    return end


def _string_end(text: str, start: int) -> int | None:
    position = start + 1
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == '"':
            return position + 1
        position += 1
    return None
