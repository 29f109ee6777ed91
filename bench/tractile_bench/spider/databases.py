"""Databases of the Spider data set: their schemas, their SQLite files, and the results of queries."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractile.errors import FormatError

from ..files import open_bytes, read_json

STEPS = 10_000  # instructions of SQLite's machine between two checks of the limit
LONGEST = 10_000_000  # bytes of a text or row
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Database:
    """The columns of each table, and the foreign keys as pairs such as ``("song.singer_id", "singer.id")``."""

    tables: dict[str, list[str]]
    foreign_keys: list[tuple[str, str]]


def read_databases(path: Path) -> dict[str, Database]:
    """Read the databases that Spider's ``tables.json`` describes, by name. Raises :class:`FormatError`."""
    found = {}
    for index, described in enumerate(read_json(path)):
        try:
            names = described["table_names_original"]
            columns = described["column_names_original"]
            tables: dict[str, list[str]] = {name: [] for name in names}
            for table, column in columns:
                own = tables[names[table]]
                if table >= 0 and column.lower() not in map(str.lower, own):
                    own.append(column)
            ends = [
                [(names[columns[end][0]], columns[end][1]) for end in pair]
                for pair in described["foreign_keys"]
            ]
            name = described["db_id"]
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise FormatError(f"{path}, item {index}: not a database of tables.json: {error!r}") from error
        keys = [
            (f"{a[0]}.{a[1]}", f"{b[0]}.{b[1]}")
            for a, b in ends
            if a[1] in tables[a[0]] and b[1] in tables[b[0]] and "." not in "".join(a + b)
        ]
        tables = {n: own for n, own in tables.items() if own and not n.lower().startswith("sqlite_")}
        found[name] = Database(tables, keys)
    return found


def extracted(archives: Sequence[Path], folder: Path) -> Path:
    """Unpack ``.tar``, ``.tar.gz`` or ``.tar.zst`` archives into ``folder``, atomically, and return it.

    If the folder exists, nothing is unpacked. Raises :class:`FormatError` for a damaged archive.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))
    try:
        for archive in archives:
            try:
                with open_bytes(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                    tar.extractall(partial, filter="data")
            except (tarfile.TarError, OSError, EOFError) as error:
                raise FormatError(f"{archive} does not unpack: {error}") from error
        try:
            os.rename(partial, folder)
        except OSError:  # another process was first
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def rows_of(database: Path, query: str, max_steps: int, at_most: int | None = None) -> list[Row] | None:
    """Run a query and return its rows, at most ``at_most`` of them.

    Returns None if the query fails or takes more than ``max_steps`` instructions of SQLite's machine. The database is opened
    read-only, and only reading statements are allowed.
    """
    left = max_steps // STEPS

    def tired() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    def allowed(action: int, *_: Any) -> int:
        return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY

    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode(errors="ignore")
        connection.set_authorizer(allowed)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        connection.set_progress_handler(tired, STEPS)
        try:
            cursor = connection.execute(query)
            if cursor.description is None:  # not a query
                return None
            return cursor.fetchall() if at_most is None else cursor.fetchmany(at_most)
        except (sqlite3.Error, sqlite3.Warning, ValueError):
            return None


def same_rows(gold: Sequence[Row], rows: Sequence[Row], ordered: bool) -> bool:
    """Return whether two results are equal up to the order of columns and, unless ``ordered``, of rows.

    This is the equality of denotations in Spider's test-suite evaluation (Zhong, Yu and Klein 2020).
    """
    if len(gold) != len(rows) or (gold and len(gold[0]) != len(rows[0])):
        return False
    if not gold:
        return True
    ours, theirs = list(zip(*gold, strict=True)), list(zip(*rows, strict=True))

    def equal(left: list[Row], right: list[Row]) -> bool:
        a, b = list(zip(*left, strict=True)), list(zip(*right, strict=True))
        return a == b if ordered else Counter(a) == Counter(b)

    def extend(chosen: list[int]) -> bool:
        if len(chosen) == len(ours):
            return True
        left = {theirs[i]: i for i in range(len(theirs)) if i not in chosen}  # equal columns are tried once
        for i in left.values():
            columns = [*chosen, i]
            if equal(ours[: len(columns)], [theirs[j] for j in columns]) and extend(columns):
                return True
        return False

    return extend([])
