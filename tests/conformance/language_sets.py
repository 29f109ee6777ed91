"""The constraints of the development sets, by name, for ``languages.py``: schemas, patterns, tools and databases.

The data lies beside the repository (``TRACTILE_SHARED``, by default ../shared); a set that is not there is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import sql
import tools
from samples import SAMPLE, SHARED, SMOKE, rows

import tractile as tt

DATA = SHARED / "data"


class Source(NamedTuple):
    """One constraint: its name, how it is built, and texts that may be in its language."""

    name: str
    build: Callable[[], tt.constraints.Constraint]
    texts: list[str]


def _short(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def of_schemas(**options: Any) -> Iterator[Source]:
    """JSON Schemas with their valid instances, as ``json.dumps`` writes them."""
    for row in rows() if SAMPLE.is_file() else []:
        texts = [json.dumps(t["data"], ensure_ascii=False) for t in row["tests"] if t["valid"]]
        yield Source(
            row["id"], lambda schema=row["schema"]: tt.constraints.json_schema(schema, **options), texts
        )


def of_patterns() -> Iterator[Source]:
    """Regular expressions."""
    file = DATA / "regex_patterns" / "patterns.half.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
        row = json.loads(line)
        yield Source(f"pattern {row['row']}", lambda pattern=row["regex"]: tt.constraints.regex(pattern), [])


def of_tools(syntax: str) -> Iterator[Source]:
    """Single tools, each with its gold calls."""
    for name, read in tools.SETS.items():
        if not (DATA / name).is_dir():
            continue
        known: dict[str, dict[str, Any]] = {}
        calls: dict[str, list[Any]] = {}
        for tool, arguments in read(DATA / name):
            key = _short(tool)
            known[key] = tool
            if isinstance(arguments, dict):
                calls.setdefault(key, []).append(arguments)
        for key, tool in known.items():
            gold = calls.get(key, [])[:3]

            def build(tool: dict[str, Any] = tool) -> tt.constraints.Constraint:
                return tt.constraints.function_calls([tool], syntax=syntax)  # type: ignore[arg-type]

            try:
                texts = [tools.rendered(tool, arguments, syntax) for arguments in gold]
            except (tt.TractileError, KeyError, TypeError):
                texts = []
            yield Source(f"{name} {syntax} {key}", build, texts)


def of_databases() -> Iterator[Source]:
    """Spider's databases with some of their gold queries."""
    if not (DATA / "spider").is_dir():
        return
    for name, (schema, queries) in sql.databases(DATA / "spider").items():
        texts = [sql.normalised(query, schema["tables"]) for query in queries[:3]]
        yield Source(f"database {name}", lambda schema=schema: tt.constraints.sql(schema), texts)


def own() -> Iterator[Source]:
    """A few constraints that need no data."""
    for row in SMOKE:
        texts = [json.dumps(t["data"]) for t in row["tests"] if t["valid"]]
        yield Source(row["id"], lambda schema=row["schema"]: tt.constraints.json_schema(schema), texts)
    yield Source("pattern", lambda: tt.constraints.regex(r"(yes|no|maybe)[!?]{0,3}"), ["maybe?!"])
    yield Source("pattern refused", lambda: tt.constraints.regex(r"("), [])
    for syntax in ("json", "python"):
        tool, arguments = tools.OWN[0]
        assert isinstance(arguments, dict)
        texts = [tools.rendered(tool, arguments, syntax)]
        yield Source(
            f"tool {syntax}",
            lambda syntax=syntax: tt.constraints.function_calls([tools.WEATHER], syntax=syntax),
            texts,
        )


SETS: dict[str, Callable[[], Iterator[Source]]] = {
    "own": own, "schemas": of_schemas, "declared": lambda: of_schemas(order="declared"), "patterns": of_patterns,
    "tools": lambda: of_tools("json"), "python": lambda: of_tools("python"), "databases": of_databases,
}  # fmt: skip
