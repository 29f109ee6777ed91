"""SQL constraints: what comes out of the automaton, SQLite prepares; what is in Spider's style, it accepts."""

import re
import sqlite3
from contextlib import closing

import pytest
from texts import random_texts

import tractile as tt
from tractile.constraints.sql.schema import read_schema

STATEMENTS = """
    CREATE TABLE band (id INTEGER PRIMARY KEY, name TEXT, "Home Town" TEXT, founded INTEGER);
    CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, "order" TEXT, band_id INTEGER REFERENCES band(id));
    CREATE TABLE song (title TEXT, sales REAL, singer_id INTEGER, FOREIGN KEY (singer_id) REFERENCES Singer(ID));
"""
TABLES = {
    "band": ["id", "name", "Home Town", "founded"],
    "singer": ["id", "name", "age", "order", "band_id"],
    "song": ["title", "sales", "singer_id"],
}
KEYS = [("singer.band_id", "band.id"), ("song.singer_id", "singer.id")]


@pytest.fixture(scope="module")
def database():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(STATEMENTS)
        yield connection


@pytest.mark.parametrize("table", ["TABLE", "TEMP TABLE"])
def test_statements_cannot_fill_the_memory_or_the_disk(table, tmp_path):
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000)"
    bomb = f"PRAGMA max_page_count = 1000000; CREATE {table} t (a); INSERT INTO t {many} SELECT zeroblob(900000) FROM c"
    with pytest.raises(tt.errors.FormatError, match="full"):
        read_schema(bomb)
    with pytest.raises(tt.errors.FormatError, match="denied"):
        read_schema(f"CREATE TABLE t (a); VACUUM INTO '{tmp_path}/copy.db'")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings", [{}, {"max_depth": 0, "max_tables": 3}, {"max_depth": 0, "values": [1, "x"]}]
)
def test_sqlite_prepares_whatever_comes_out(database, settings):
    constraint = tt.constraints.sql(database, columns="tables", **settings)
    seen = set()
    for text in random_texts(constraint, 3, 200, longest=150):
        database.execute(f"EXPLAIN {text}")
        seen |= set(re.findall(r"[A-Z]{3,}", text))
    if not settings:
        assert seen >= {"SELECT", "FROM", "WHERE", "ORDER"}


@pytest.mark.parametrize("word", ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
def test_order_and_limit_stand_at_the_end_of_a_compound(database, word):
    for columns in ("database", "tables"):
        c = tt.constraints.sql(database, columns=columns)
        for tail in (" LIMIT 1", " ORDER BY name", " ORDER BY name DESC LIMIT 1"):
            first, compound = (
                f"SELECT name FROM band{tail}",
                f"SELECT name FROM band {word} SELECT name FROM singer",
            )
            within = f"SELECT name FROM singer WHERE id IN ({first} {word} SELECT id FROM singer)"
            assert c.accepts(first)
            assert c.accepts(compound)
            for refused in (f"{first} {word} SELECT name FROM singer", within):
                with pytest.raises(sqlite3.OperationalError, match="clause should come after"):
                    database.execute(f"EXPLAIN {refused}")
                assert not c.accepts(refused)
            database.execute(f"EXPLAIN {compound}{tail}")
            assert c.accepts(compound + tail) == (columns == "database" or "ORDER" not in tail)


def test_schemas_in_every_form(tmp_path, database):
    file = tmp_path / "music.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(STATEMENTS)
    expected = read_schema({"tables": TABLES, "foreign_keys": KEYS})
    for form in (database, STATEMENTS, file, str(file)):
        found = read_schema(form)
        assert found.tables == expected.tables
        assert set(found.keys) == set(expected.keys)
    assert read_schema(TABLES).keys == ()


def test_many_wide_tables_are_too_large():
    tables = {f"t{i}": [f"column_{i}_{j}" for j in range(40)] for i in range(30)}
    with pytest.raises(tt.errors.TooManyStates, match="limit"):
        tt.constraints.sql(tables, columns="tables")


def test_a_file_that_is_no_database(tmp_path):
    file = tmp_path / "x.sqlite"
    file.write_text("not a database at all, just some text" * 50)
    with pytest.raises(tt.errors.FormatError, match="cannot be read"):
        tt.constraints.sql(file)
