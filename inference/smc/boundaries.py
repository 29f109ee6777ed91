"""Text boundaries: the places in a text at which a potential is evaluated.

    boundary(text) = the number of characters up to the last boundary, 0 before the first

A potential is given ``text[:boundary(text)]``, which stays the same until the next boundary is reached. Any callable of this form
is a boundary; for potentials on tokens it gets the tuple of token ids. :class:`Texts` decodes and scans sequences that grow
by a token: only the last tokens are decoded, only the new characters scanned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Sized
from types import FunctionType
from typing import Any, NamedTuple

Boundary = Callable[[Any], int]

CACHE_SIZE = 1 << 13  # the most texts, and marks in them, that are cached
BLOCK = 16  # tokens; at least as many are decoded before the last one


class Mark(NamedTuple):
    """The progress of a scanner in a text.

    It has read ``position`` characters, is in ``state``, and ``behind`` is the last boundary up to there. ``end`` is the last
    boundary of the whole text, which further characters may undo.
    """

    position: int
    state: Any
    behind: int
    end: int


Scanner = Callable[[str, Mark | None], Mark]
"""A function that scans a text from a mark made when it was shorter, or from the beginning."""

_CLAUSE = re.compile(r"[,;:.!?…。，；：！？](?=\s)|\n")
_NUMBER = re.compile(r"[-+0-9.eE]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def every_token(text: Sized) -> int:
    """Return the length: a boundary after every token.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.inference.smc.every_token([5, 3, 8])
    3
    """
    return len(text)


def at_end(text: Sized) -> int:
    """Return 0: no boundary before the sequence is complete.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.inference.smc.at_end("so far")
    0
    """
    return 0


def every_line(text: str) -> int:
    """Return the length of a text up to its last newline, included: a boundary after every line.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.inference.smc.every_line("one\\ntwo\\nthr")
    8
    """
    return text.rfind("\n") + 1


def _scan_clauses(text: str, mark: Mark | None = None) -> Mark:
    """Scan for the punctuation at which :func:`every_clause` has a boundary."""
    end = mark.end if mark else 0
    for match in _CLAUSE.finditer(text, end):
        end = match.end()
    return Mark(end, None, end, end)


def _scan_statements(text: str, mark: Mark | None = None) -> Mark:
    """Scan for the ends of statements; the state is the depth of brackets, and the open quote."""
    position, (depth, quote), end, _ = mark or Mark(0, (0, ""), 0, 0)
    while position < len(text):
        c, width = text[position], 1
        rest = len(text) - position
        if c in "'\"" and quote != c and rest < 3 and text.endswith(c * rest):
            break  # one quote or three
        if quote:
            if c == "\\" and rest == 1:
                break
            if c == "\\":
                width = 2
            elif text.startswith(quote, position):
                width, quote = len(quote), ""
        elif c in "'\"":
            quote = c * 3 if text.startswith(c * 3, position) else c
            width = len(quote)
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth = max(0, depth - 1)
        elif c == ";" or (c == "\n" and not depth):
            end = position + 1
        position += width
    return Mark(position, (depth, quote), end, end)


def _scan_values(text: str, mark: Mark | None = None) -> Mark:
    """Scan for the ends of JSON values; the state is the stack of open brackets."""
    # The state of each open bracket: "{" before a key, ":" before a member's value, "[" in an array.
    position, state, end, _ = mark or Mark(0, (), 0, 0)
    stack = list(state)

    def closed(after: int) -> int:
        if stack and stack[-1] == ":":
            stack[-1] = "{"
        return after

    while position < len(text):
        c = text[position]
        stop = position + 1
        if c == '"':
            string = _STRING.match(text, position)
            if string is None:
                break
            stop = string.end()
            if stack and stack[-1] == "{":
                stack[-1] = ":"
            else:
                end = closed(stop)
        elif c in "{[":
            stack.append(c)
        elif c in "}]":
            if stack:
                stack.pop()
            end = closed(stop)
        elif c.isalnum() or c == "-":
            while stop < len(text) and (text[stop].isalnum() or _NUMBER.match(text[stop])):
                stop += 1
            if stop == len(text):  # a number may go on
                word = text[position:] in ("true", "false", "null")
                return Mark(position, tuple(stack), end, stop if word else end)
            end = closed(stop)
        position = stop
    return Mark(position, tuple(stack), end, end)


def every_clause(text: str) -> int:
    """Return the last boundary after punctuation (, ; : . ! ? and the like) that white space follows, or after a newline.

    Examples
    --------
    >>> import tractile as tt
    >>> [tt.inference.smc.every_clause(text) for text in ("One", "One,", "One, two; ", "One, two; three.")]
    [0, 0, 9, 9]
    """
    return _scan_clauses(text).end


def every_statement(text: str) -> int:
    """Return the number of characters up to the last end of a statement (Python, SQL, C).

    A statement ends at a ``;``, and at a newline outside brackets; neither counts inside quotes.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.inference.smc.every_statement("x = 1; y = [1,\\n2]\\n")
    18
    """
    return _scan_statements(text).end


def every_json_value(text: str) -> int:
    """Return the last boundary after a complete JSON value, nested ones included; the key of an object is no value.

    Examples
    --------
    >>> import tractile as tt
    >>> [tt.inference.smc.every_json_value(text) for text in ('{"a"', '{"a": 1', '{"a": 1, ', '{"a": 1, "b": [true, ')]
    [0, 0, 7, 19]
    """
    return _scan_values(text).end


SCANNERS: dict[object, Scanner] = {
    every_clause: _scan_clauses,
    every_statement: _scan_statements,
    every_json_value: _scan_values,
}
"""The scanners of boundaries; each goes on from where it stopped when the text has grown."""


class Texts:
    """A cached ``decode`` for sequences that grow by a token.

    The text of a long sequence is that of the sequence without its last token, and what this token adds to the text of the 16 to
    31 tokens before it. If the last token changes their text (as bytes of one character may), the whole sequence is decoded.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._known: dict[tuple[int, ...], str] = {}
        self._marks: dict[tuple[Scanner, tuple[int, ...]], Mark] = {}

    def __call__(self, token_ids: Sequence[int]) -> str:
        ids = tuple(token_ids)
        text = self._known.get(ids)
        if text is None:
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            text = self._known[ids] = self._grown(ids)
        return text

    def _grown(self, ids: tuple[int, ...]) -> str:
        start = (len(ids) - 1) // BLOCK * BLOCK - BLOCK
        head = self._known.get(ids[:-1]) if start > 0 else None
        if head is not None:
            before, after = self(ids[start:-1]), self(ids[start:])
            if after.startswith(before):
                return head + after[len(before) :]
        return self._decode(ids)

    def cut(self, token_ids: tuple[int, ...], boundary: Boundary) -> int:
        """Return the number of characters up to the last boundary, scanning only what the last token added if possible."""
        scanner = SCANNERS.get(boundary) if isinstance(boundary, FunctionType) else None
        if scanner is None:
            return boundary(self(token_ids))
        if len(self._marks) >= CACHE_SIZE:
            self._marks.clear()
        key = (scanner, token_ids)
        if key not in self._marks:
            text, before = self(token_ids), self._marks.get((scanner, token_ids[:-1]))
            if before is not None and not text.startswith(self(token_ids[:-1])[: before.position]):
                before = None  # a character was incomplete
            self._marks[key] = scanner(text, before)
        return self._marks[key].end
