"""Text-to-SQL on Spider (Yu et al. 2018): the first paper's Section 5.4, the second's Appendix E.1."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from tractile.constraints import Constraint
from tractile.constraints.sql.constraint import sql
from tractile.constraints.sql.schema import escaped
from tractile.errors import FormatError
from tractile.inference.smc import FunctionPotential
from tractile.inference.smc.boundaries import Boundary

from ..base import Example, Task
from ..files import find, read_jsonl
from ..prompts import text_to_sql
from .canonical_form import normalised, tables_named
from .databases import Database, extracted, read_databases, rows_of, same_rows
from .names import NameCheck, known_names

FILES = {
    "train": ("train_spider.json", "train.json", "train.jsonl"),
    "test": ("dev.json", "dev.jsonl", "dev.half.jsonl"),
}
MANY = 1000  # rows from which on a result is not used as the meaning of a query
ARCHIVES = ("databases*.tar", "databases*.tar.gz", "databases*.tar.zst")


class Spider(Task):
    """Spider: answer questions about databases by SQL queries.

    The reference is the gold query in the form that :func:`tractile.constraints.sql` writes. ``data``: a folder with
    ``train_spider.json``, ``dev.json`` and ``tables.json``, and the databases as ``database/NAME/NAME.sqlite`` or packed in
    ``databases*.tar[.gz|.zst]``; these are unpacked into ``cache``, or a temporary folder. "test" is the development split;
    questions whose database is missing are left out there. ``columns``, ``max_tables`` and ``max_depth`` are as in
    :func:`tractile.constraints.sql`. A query that takes more than ``max_steps`` instructions of SQLite's
    machine counts as failed.

    Scores: ``execution``: returns the result of the gold query, up to the order of columns, and of rows unless the gold query
    has ORDER BY (DISTINCT counts); ``exact``: equals the gold query in canonical form; ``satisfied``: satisfies the constraint;
    ``runs``: does not fail; ``tables``: uses exactly the tables of the gold query.
    """

    name = "spider"
    metric = "execution"
    max_new_tokens = 128
    one_line = True

    def __init__(
        self,
        data: str | Path,
        *,
        columns: Literal["database", "tables"] = "database",
        max_tables: int | None = None,
        max_depth: int = 1,
        cache: str | Path | None = None,
        max_steps: int = 20_000_000,
    ) -> None:
        self.data, self.columns, self.max_steps = Path(data), columns, max_steps
        self.max_tables, self.max_depth = max_tables, max_depth
        self._cache = None if cache is None else Path(cache)
        self._dropped: dict[str, list[str]] = {}
        self._constraints: dict[str, Constraint] = {}
        self._checks: dict[str, NameCheck] = {}

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        return self._dropped

    @cached_property
    def databases(self) -> dict[str, Database]:
        """The schemas of the databases, by name."""
        return read_databases(find(self.data, "tables.json"))

    @cached_property
    def _files(self) -> Path:
        """The folder of the SQLite files, unpacked on first use."""
        if (self.data / "database").is_dir():
            return self.data / "database"
        archives = sorted(path for pattern in ARCHIVES for path in self.data.glob(pattern))
        if not archives:
            raise FormatError(f"{self.data} has neither a folder database nor one of {', '.join(ARCHIVES)}")
        if self._cache is None:
            folder = Path(tempfile.mkdtemp(prefix="spider-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            return extracted(archives, folder / "database")
        return extracted(archives, self._cache)

    def file(self, db_id: str) -> Path | None:
        """Return the SQLite file of a database, None if it is missing."""
        path = self._files / db_id / f"{db_id}.sqlite"
        return path if path.is_file() else None

    def examples(self, split: str = "test") -> Iterator[Example]:
        if split not in FILES:
            raise FormatError(f'{split!r}: the splits are "train" and "test"')
        dropped: defaultdict[str, list[str]] = defaultdict(list)
        self._dropped = dropped
        path = find(self.data, *FILES[split])
        for index, row in enumerate(read_jsonl(path)):
            try:
                db_id, question, query = row["db_id"], row["question"], row["query"]
                tables = self.databases[db_id].tables
            except KeyError as error:
                raise FormatError(f"{path}, item {index}: no {error} in the item or tables.json") from None
            id = str(row.get("id", f"{split}-{index}"))
            if split == "test" and self.file(db_id) is None:
                dropped[f"no SQLite file of {db_id}"].append(id)
                continue
            prompt = text_to_sql(question, {escaped(t): [*map(escaped, cs)] for t, cs in tables.items()})
            yield Example(id, prompt, normalised(query, tables), {"db_id": db_id, "query": query})

    def constraint(self, example: Example) -> Constraint:
        """Return the constraint of queries in Spider's language on the example's database; cached for each database."""
        db_id = example.facts["db_id"]
        if db_id not in self._constraints:
            database = self.databases[db_id]
            self._constraints[db_id] = sql(
                {"tables": database.tables, "foreign_keys": database.foreign_keys},
                columns=self.columns,
                max_tables=self.max_tables,
                max_depth=self.max_depth,
            )
        return self._constraints[db_id]

    def potential(self, example: Example) -> FunctionPotential:
        """Return the potential of ``NameCheck``: whether the columns belong to the tables."""
        db_id = example.facts["db_id"]
        if db_id not in self._checks:
            self._checks[db_id] = NameCheck(self.databases[db_id].tables)
        return self._checks[db_id].potential()

    def align(self, example: Example) -> Boundary:
        """Return the boundary of the potential: only there does it tell particles apart."""
        return known_names

    def scores(self, example: Example, text: str) -> dict[str, float]:
        db_id, gold = example.facts["db_id"], example.facts["query"]
        tables, file = self.databases[db_id].tables, self.file(db_id)
        if file is None:
            raise FormatError(f"{db_id}: no SQLite file, so {example.id} cannot be scored")
        expected = rows_of(file, gold, self.max_steps)
        rows = rows_of(file, text, self.max_steps, len(expected or ()) + 1)
        right = expected is not None and rows is not None and same_rows(expected, rows, ordered(gold))
        return {
            "execution": float(right),
            "exact": float(normalised(text, tables) == example.reference),
            "satisfied": float(self.constraint(example).accepts(text)),
            "runs": float(rows is not None),
            "tables": float(tables_named(text, tables) == tables_named(gold, tables)),
        }

    def meaning(self, example: Example, text: str) -> str:
        """Return the rows of the query as text, sorted unless it has ORDER BY; the text itself if it fails or returns many."""
        file = self.file(example.facts["db_id"])
        rows = None if file is None else rows_of(file, text, self.max_steps, MANY)
        if rows is None or len(rows) == MANY:
            return text
        lines = [repr(row) for row in rows]
        return "\n".join(lines if ordered(text) else sorted(lines))


def ordered(query: str) -> bool:
    """Return whether a query has ORDER BY, by the rule of Spider's evaluation."""
    return "order by" in " ".join(query.lower().split())
