"""The expensive potential of text-to-SQL: whether the columns of a partial query belong to its tables.

SQLite itself prepares the query up to its last complete clause, on a database with the tables but no rows: Φ = 0 once a name
cannot be resolved, whatever follows (Loula et al. 2025, Appendix E.1). Unlike the paper's, this potential also checks within
FROM, after each table and join condition, the columns of the tables named so far.
"""

from __future__ import annotations

import re
import sqlite3
import weakref

from tractile.constraints.sql.schema import quoted
from tractile.inference.smc import FunctionPotential

from .canonical_form import KEYWORDS, Tables

TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'(?!')|"(?:[^"]|"")*"(?!")|`[^`]*`|\[[^\]]*\])|(?P<open>['"`\[])|(?P<word>\w+)|[()]"""
)
CLAUSES = frozenset(("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT"))
UNDECIDED = re.compile(
    "syntax error|incomplete input|unrecognized token|row value misused|sub-select returns|one statement"
)
"""Errors of a truncated query that its continuation may mend."""
JOINING = frozenset(("JOIN", "ON", "AND", "OR"))
CUT_IN_FROM = re.compile(r"\b(?:JOIN|ON|AND|OR)$", re.IGNORECASE)
NAME = r'(?:\w+|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])'
NAMED = re.compile(
    rf"'(?:[^']|'')*'|\b(?:FROM|JOIN)\s+(?:{NAME}\s+AS\s+)?(?P<table>{NAME})|(?:(?P<of>{NAME})\.)?(?P<name>{NAME}|\*)",
    re.IGNORECASE,
)
"""A string, a table of FROM with its alias, or a column name with or without its table."""


class Frame:
    """The state of reading a query, or a pair of parentheses, on the stack of :func:`known_names`."""

    def __init__(self) -> None:
        self.query = self.joining = self.complete = False

    @property
    def open(self) -> bool:
        """Whether this is a query whose FROM clause is not complete."""
        return self.query and not self.complete


def known_names(text: str) -> int:
    """Return the boundary of the potential: the length of the prefix to check, 0 if there is nothing to check yet.

    It lies before the last keyword that begins a clause or a condition, or after the last subquery in parentheses, such that
    all enclosing FROM clauses are complete. In a FROM clause that is not complete, it lies after the last JOIN, ON, AND or OR.
    """
    frames, boundary = [Frame()], 0
    for match in TOKEN.finditer(text):
        now, frame = match[0].upper(), frames[-1]
        if match["open"] or (match.end() == len(text) and now != ")"):
            break
        if now == "(":
            frames.append(Frame())
        elif now == ")":
            if len(frames) == 1:
                break
            frames.pop()
            if frame.query and not any(f.open for f in frames):
                boundary = match.end()
        elif now == "SELECT":
            frame.query, frame.joining, frame.complete = True, False, False
        elif now == "FROM" and frame.query:
            frame.joining = True
        elif (now in CLAUSES and frame.joining) or (now in ("AND", "OR") and not frame.open):
            frame.complete = frame.query
            if not any(f.open for f in frames):
                boundary = match.start()
        elif now in JOINING and frame.joining and not any(f.open for f in frames[:-1]):
            boundary = match.end()
    return boundary


def closed(text: str) -> str:
    """Close the parentheses that are open at the end of the text."""
    found = [match[0] for match in TOKEN.finditer(text)]
    return text + ")" * (found.count("(") - found.count(")"))


def of_known_tables(text: str) -> str:
    """Replace names that may belong to tables still to come by NULL, in a query that ends within its FROM clause.

    Returns "" if that query has another query inside."""
    starts = [0]
    for match in TOKEN.finditer(text):
        now = match[0].upper()
        if now == "SELECT":
            starts[-1] = match.start()
        elif now == "(":
            starts.append(match.start())
        elif now == ")":
            starts.pop()
    outer, own = text[: starts[-1]], text[starts[-1] :]
    found = list(NAMED.finditer(own))
    if sum(match[0].upper() == "SELECT" for match in found) != 1:
        return ""
    known = {plain(match["table"]) for match in found if match["table"]}

    def kept(match: re.Match[str]) -> str:
        of, name = match["of"], match["name"]
        if of is None:
            keep = name is None or name.lower() in KEYWORDS or name == "*" or name.isdigit()
        else:
            keep = plain(of) in known or of.isdigit()
        return match[0] if keep else "NULL"

    return outer + NAMED.sub(kept, own)


def plain(name: str) -> str:
    """Return a name without its quotes, in lower case."""
    inside = name[1:-1].replace('""', '"') if name[0] in '"`[' else name
    return inside.lower()


class NameCheck:
    """A check of queries by SQLite, on an empty database with these tables."""

    def __init__(self, tables: Tables) -> None:
        self.connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self.connection.close)  # closed when the check is gone
        for table, columns in tables.items():
            self.connection.execute(f"CREATE TABLE {quoted(table)} ({', '.join(map(quoted, columns))})")
        self.connection.execute("PRAGMA query_only = ON")

    def begun(self, text: str) -> bool:
        """Return whether a query truncated at a boundary may still become valid."""
        if cut := CUT_IN_FROM.search(text):
            error = self.error(closed(of_known_tables(text[: cut.start()])))
            return error is None or not error.startswith("no such column")
        error = self.error(closed(text))
        return error is None or UNDECIDED.search(error) is not None

    def whole(self, text: str) -> bool:
        """Return whether SQLite can prepare the query."""
        return self.error(text) is None

    def error(self, query: str) -> str | None:
        """Return the message with which SQLite fails to prepare a query; None if it succeeds."""
        try:
            self.connection.execute(f"EXPLAIN {query}")
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            return str(error)
        return None

    def potential(self) -> FunctionPotential:
        """Make the potential, 1 or 0, evaluated after every table and condition of FROM, every later clause, and at the end."""
        return FunctionPotential(self.begun, known_names, final=self.whole, name="table–column check")
