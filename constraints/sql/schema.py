"""Database schemas from a dict, a SQLite connection or file, or ``CREATE TABLE`` statements."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import EmptyLanguage, FormatError
from .. import limits, validation
from ..automata.work import spend

PAGES = 8_192
"""Most pages of 4 KiB of the in-memory database that CREATE TABLE statements build."""

Key = tuple[str, str, str, str]  # table, column, referenced table, referenced column


@dataclass(frozen=True)
class SqlSchema:
    """The columns of each table, and the foreign keys."""

    tables: dict[str, tuple[str, ...]]
    keys: tuple[Key, ...]

    def links(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """Return the pairs of columns that join each pair of tables by foreign keys; both orders of two tables are there."""
        pairs: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        for table, column, other, its in self.keys:
            pairs.setdefault((table, other), {})[column, its] = None
            pairs.setdefault((other, table), {})[its, column] = None
        return {tables: list(columns) for tables, columns in pairs.items()}

    def chains(self, count: int) -> Iterator[list[str]]:
        """Yield the ways to name ``count`` tables in a row, each joined to one before it.

        A table is named again only if several pairs of columns join it to one before it, as those of a key to its own table do.
        """
        links = self.links()

        def grow(chain: list[str]) -> Iterator[list[str]]:
            if len(chain) == count:
                yield chain
                return
            spend(len(links) / 5)
            linked = [(table, len(pairs)) for (left, table), pairs in links.items() if left in chain]
            for table in dict.fromkeys(table for table, ways in linked if ways > 1 or table not in chain):
                yield from grow([*chain, table])

        for first in dict.fromkeys(left for left, _ in links):
            yield from grow([first])


def read_schema(schema: Any) -> SqlSchema:
    """Read a schema in any of the forms. Raises ``FormatError``, and ``EmptyLanguage`` for no tables."""
    if isinstance(schema, Mapping):
        found = from_dict(schema)
    elif isinstance(schema, sqlite3.Connection):
        found = from_connection(schema)
    elif isinstance(schema, os.PathLike) or (
        isinstance(schema, str) and not re.search(r"\bcreate\s", schema, re.IGNORECASE)
    ):
        path = Path(schema)
        if not path.is_file():
            raise FormatError(f"{str(path)!r} is neither a SQLite file nor CREATE TABLE statements")
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = from_connection(connection)
    elif isinstance(schema, str):
        found = from_statements(schema)
    else:
        raise FormatError(
            f"a database schema is a dict, a sqlite3 connection, a file or CREATE TABLE statements, not "
            f"{validation.short(schema)}"
        )
    if not found.tables:
        raise EmptyLanguage("the database has no tables, so nothing can be selected")
    return found


def from_statements(statements: str) -> SqlSchema:
    """Read CREATE TABLE statements with an in-memory SQLite that cannot attach files.

    Steps and bytes are limited. Pragmas in the statements have no effect, since they could raise the limits.
    """
    ruled = {sqlite3.SQLITE_ATTACH: sqlite3.SQLITE_DENY, sqlite3.SQLITE_PRAGMA: sqlite3.SQLITE_IGNORE}
    with closing(sqlite3.connect(":memory:")) as connection:
        for pragma in ("temp_store = MEMORY", f"max_page_count = {PAGES}", f"temp.max_page_count = {PAGES}"):
            connection.execute(f"PRAGMA {pragma}")
        connection.set_authorizer(lambda what, *_: ruled.get(what, sqlite3.SQLITE_OK))
        connection.set_progress_handler(lambda: 1, limits.LENGTH)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.LENGTH)
        try:
            connection.executescript(statements)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise FormatError(f"the CREATE TABLE statements cannot be read: {error}") from None
        connection.set_authorizer(None)
        return from_connection(connection)


def from_dict(schema: Mapping[Any, Any]) -> SqlSchema:
    """Read ``{table: [columns]}`` or ``{"tables": {…}, "foreign_keys": [("a.x", "b.y"), …]}``."""
    tables: Mapping[Any, Any] = schema
    keys: Iterable[Any] = ()
    if set(schema) <= {"tables", "foreign_keys"} and isinstance(schema.get("tables"), Mapping):
        tables, keys = schema["tables"], schema.get("foreign_keys", ())
    found: dict[str, tuple[str, ...]] = {}
    for table, columns in tables.items():
        found[table] = tuple(columns) if is_list(columns) else (columns,)
        if not is_list(columns) or not all(map(is_name, (table, *found[table]))):
            raise FormatError(
                f"the columns of table {table!r} should be a list of names without NUL characters,"
                f" not {validation.short(columns)}"
            )
        if not found[table] or len({column.lower() for column in found[table]}) < len(found[table]):
            raise FormatError(f"table {table!r} has no columns, or one of them twice")
    if not is_list(keys):
        raise FormatError(f"the foreign keys should be a list of pairs, not {validation.short(keys)}")
    return SqlSchema(found, tuple(foreign_key(pair, found) for pair in keys))


def is_list(value: Any) -> bool:
    """Return whether a value is an iterable other than a string or bytes."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def is_name(value: Any) -> bool:
    """Return whether a table or column can have this name."""
    return isinstance(value, str) and bool(value) and not re.search("[\0\ud800-\udfff]", value)


def foreign_key(pair: Any, tables: Mapping[str, Sequence[str]]) -> Key:
    """Split a pair ``("table.column", "table.column")`` into its four names, which may contain dots."""
    ends = []
    for end in pair if is_list(pair) else ():
        dots = [i for i, c in enumerate(end) if c == "."] if isinstance(end, str) else []
        ends += [(end[:i], end[i + 1 :]) for i in dots if end[i + 1 :] in tables.get(end[:i], ())][:1]
    if len(ends) != 2 or len(pair) != 2:
        raise FormatError(
            f'a foreign key is a pair such as ("singer.band_id", "band.id"), not {validation.short(pair)}'
        )
    return (*ends[0], *ends[1])


def from_connection(connection: sqlite3.Connection) -> SqlSchema:
    """Read the tables, columns and foreign keys of a database."""
    try:
        names = [
            n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        ]
        names = [name for name in names if not name.startswith("sqlite_")]
        columns = {n: connection.execute(f"PRAGMA table_info({quoted(n)})").fetchall() for n in names}
        tables = {n: tuple(row[1] for row in rows) for n, rows in columns.items()}
        primary = {n: [r[1] for r in sorted(rows, key=lambda r: r[5]) if r[5]] for n, rows in columns.items()}
        own = {name.lower(): name for name in names}
        keys = []
        for table in names:
            for _, at, other, column, its, *_ in connection.execute(
                f"PRAGMA foreign_key_list({quoted(table)})"
            ):
                target = own.get(other.lower())
                if target is None:
                    continue
                if its is None and at < len(primary[target]):  # REFERENCES names no column
                    its = primary[target][at]
                there = {c.lower(): c for c in tables[target]}
                here = {c.lower(): c for c in tables[table]}
                if its is not None and its.lower() in there and column.lower() in here:
                    keys.append((table, here[column.lower()], target, there[its.lower()]))
    except sqlite3.Error as error:
        raise FormatError(f"the database cannot be read: {error}") from None
    return SqlSchema(tables, tuple(keys))


def quoted(name: str) -> str:
    """Return the name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=4096)
def escaped(name: str) -> str:
    """Return the name as a query writes it: quoted only if SQLite requires that."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        return quoted(name)
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(f"CREATE TABLE {name} ({name})")
            connection.execute(f"SELECT {name}.{name}, {name} FROM {name}")
        except sqlite3.Error:
            return quoted(name)
    return name
