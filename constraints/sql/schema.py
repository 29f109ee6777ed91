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
Link = tuple[str, str, tuple[tuple[str, str], ...]]  # two tables, and the pairs of columns that join them


@dataclass(frozen=True)
class SqlSchema:
    """The columns of each table, and the foreign keys."""

    tables: dict[str, tuple[str, ...]]
    keys: tuple[Key, ...]

    def links(self) -> list[Link]:
        """Return the pairs of tables joined by foreign keys, in both orders, with the joined columns."""
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for table, column, other, its in self.keys:
            pairs.setdefault((table, other), []).append((column, its))
            pairs.setdefault((other, table), []).append((its, column))
        return [(a, b, tuple(dict.fromkeys(joined))) for (a, b), joined in pairs.items()]

    def chains(self, count: int) -> Iterator[list[Link]]:
        """Yield the ways to join ``count`` different tables in a row, each to one before it."""
        links = self.links()

        def grow(chain: list[Link]) -> Iterator[list[Link]]:
            if len(chain) == count - 1:
                yield chain
                return
            used = [chain[0][0], *(link[1] for link in chain)] if chain else []
            spend(len(links) / 5)
            for link in links:
                if not chain or (link[0] in used and link[1] not in used):
                    yield from grow([*chain, link])

        return (c for c in grow([]) if c[0][0] != c[0][1])


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
        tables = {
            n: tuple(row[1] for row in connection.execute(f"PRAGMA table_info({quoted(n)})")) for n in names
        }
        own = {name.lower(): name for name in names}
        keys = []
        for table in names:
            for _, _, other, column, its, *_ in connection.execute(
                f"PRAGMA foreign_key_list({quoted(table)})"
            ):
                target = own.get(other.lower())
                if target is None:
                    continue
                columns = {c.lower(): c for c in tables[target]}
                here = {c.lower(): c for c in tables[table]}
                if its is not None and its.lower() in columns and column.lower() in here:
                    keys.append((table, here[column.lower()], target, columns[its.lower()]))
    except sqlite3.Error as error:
        raise FormatError(f"the database cannot be read: {error}") from None
    return SqlSchema(tables, tuple(keys))


def quoted(name: str) -> str:
    """Return the name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=4096)
def spelled(name: str) -> str:
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
