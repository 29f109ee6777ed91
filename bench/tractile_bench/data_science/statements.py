"""The runnable prefix of a partial Python program: whole statements that later text cannot extend."""

from __future__ import annotations

import ast


def whole_statements(code: str) -> str:
    """Return the longest prefix of whole lines that parses, without its last statement if that is compound.

    A compound statement, such as a loop or a ``try``, may go on. If the prefix raises, so does every program that begins with
    ``code``. The code may be indented as a whole."""
    lines = code.split("\n")[:-1]
    for count in range(len(lines), 0, -1):
        body = parsed("\n".join([*lines[:count], ""]))
        if body is None:
            continue
        if body and compound(body[-1]):
            body = body[:-1]
        return "\n".join([*lines[: body[-1].end_lineno], ""]) if body else ""
    return ""


def parsed(code: str) -> list[ast.stmt] | None:
    """Parse a program, possibly indented as a whole, to its statements with line numbers; None if it does not parse."""
    try:
        if not indented(code):
            return ast.parse(code).body
        (block,) = ast.parse(f"if 1:\n{code}").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(block, ast.If) or block.orelse:
        return None
    ast.increment_lineno(block, -1)
    return block.body


def indented(code: str) -> bool:
    """Return whether the first line that is not blank or a comment is indented."""
    for line in code.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            return line[0] in " \t"
    return False


def compound(statement: ast.stmt) -> bool:
    """Return whether a statement is compound (has a body)."""
    return hasattr(statement, "body") or isinstance(statement, ast.Match)
