"""SQL constraints: what comes out of the automaton, SQLite prepares; what is in Spider's style, it accepts."""

import random
import re
import sqlite3
from contextlib import closing

import pytest
import sqlglot
from texts import random_texts

import tractile as tt
from tractile.constraints.sql.schema import read_schema, spelled

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
QUERIES = [
    "SELECT name, age FROM singer",
    "SELECT COUNT(*) FROM singer WHERE age > 20 AND name LIKE '%o''s%' OR age BETWEEN 30 AND 40",
    'SELECT DISTINCT T1.name, MAX(T2.age) FROM band AS T1 JOIN singer AS T2 ON T1.id = T2.band_id GROUP BY T1.name HAVING '
    "COUNT(*) >= 2 ORDER BY COUNT(*) DESC LIMIT 3",
    'SELECT "Home Town" FROM band WHERE founded < (SELECT AVG(age) FROM singer)',
    "SELECT name FROM band WHERE id NOT IN (SELECT band_id FROM singer WHERE age IS NOT NULL)",
    "SELECT name FROM band UNION SELECT name FROM singer",
    "SELECT title FROM song WHERE sales IN (1, 2.5, -3)",
    "SELECT SUM(sales) / COUNT(DISTINCT singer_id) FROM song",
    "SELECT * FROM singer ORDER BY age ASC, name",
]  # fmt: skip
WRONG = [
    "SELECT nothing FROM singer", "SELECT name FROM nowhere", "SELECT name", "select name from singer",
    "SELECT name FROM singer;", "SELECT name FROM singer WHERE", "SELECT name FROM singer HAVING COUNT(*) > 1",
    "DROP TABLE singer", "SELECT name  FROM singer",
    "SELECT name FROM singer WHERE name = 'it's'", "SELECT COUNT(DISTINCT *) FROM singer", "SELECT order FROM singer",
]  # fmt: skip


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


def test_known_queries(database):
    loose, strict = tt.constraints.sql(TABLES), tt.constraints.sql(database, columns="tables")
    for query in QUERIES:
        database.execute(f"EXPLAIN {query}")
        assert loose.accepts(query), query
        assert strict.accepts(query), query
    for query in WRONG:
        assert not loose.accepts(query), query
        assert not strict.accepts(query), query


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


def test_whatever_comes_out_parses():
    constraint = tt.constraints.sql(TABLES)
    rng = random.Random(0)
    for text in random_texts(constraint, rng.randint(0, 99), 100, longest=120):
        tree = sqlglot.parse_one(text, dialect="sqlite")
        for table in tree.find_all(sqlglot.exp.Table):
            assert table.name in TABLES
        names = {name for columns in TABLES.values() for name in columns}
        assert all(c.name in names or c.is_star for c in tree.find_all(sqlglot.exp.Column)), text


SELF_JOIN = "SELECT T1.name FROM emp AS T1 JOIN emp AS T2 ON T1.boss = T2.id WHERE T2.name = 'Ada'"


@pytest.mark.parametrize("its", ["(id)", ""])
def test_a_table_joined_to_itself_by_its_own_key(its):
    statements = f"CREATE TABLE emp (id INTEGER PRIMARY KEY, name TEXT, boss INTEGER REFERENCES emp{its});"
    c = tt.constraints.sql(statements, columns="tables")
    above = SELF_JOIN.replace(" WHERE", " JOIN emp AS T3 ON T2.boss = T3.id WHERE")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(statements)
        for query in (SELF_JOIN, above):
            connection.execute(f"EXPLAIN {query}")
            assert c.accepts(query), query
        for text in random_texts(c, 3, 100, longest=150):
            connection.execute(f"EXPLAIN {text}")
    assert not c.accepts(SELF_JOIN.replace("T1.name", "name"))  # whose?
    assert not c.accepts(SELF_JOIN.replace("T1.boss", "T1.id"))
    assert not tt.constraints.sql(statements, columns="tables", max_tables=1).accepts(SELF_JOIN)
    assert {each.keyword for each in c.narrowed} == {"max_depth", "max_tables"}


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


def test_names_are_quoted_where_sqlite_needs_it(database):
    assert [spelled(n) for n in ("name", "Home Town", "order", "2nd", 'a"b')] == [
        "name", '"Home Town"', '"order"', '"2nd"', '"a""b"',
    ]  # fmt: skip
    c = tt.constraints.sql(database)
    assert c.accepts('SELECT "order", T1."Home Town" FROM singer')


@pytest.mark.parametrize(
    ("schema", "settings", "error", "message"),
    [
        ({}, {}, tt.errors.EmptyLanguage, "no tables"),
        ("CREATE TABLE t (", {}, tt.errors.FormatError, "CREATE TABLE"),
        ("missing.sqlite", {}, tt.errors.FormatError, "missing.sqlite"),
        (7, {}, tt.errors.FormatError, "7"),
        ({"t": "abc"}, {}, tt.errors.FormatError, "'t'"),
        ({"t": []}, {}, tt.errors.FormatError, "no columns"),
        ({"t": ["a", "A"]}, {}, tt.errors.FormatError, "twice"),
        ({"t\0": ["a"]}, {}, tt.errors.FormatError, "NUL"),
        ({"tables": TABLES, "foreign_keys": [("band.x", "singer.id")]}, {}, tt.errors.FormatError, "foreign key"),
        (TABLES, {"columns": "all"}, tt.errors.UnsupportedConstraint, "columns"),
        (TABLES, {"max_depth": -1}, tt.errors.UnsupportedConstraint, "max_depth"),
        (TABLES, {"values": [None]}, tt.errors.UnsupportedConstraint, "None"),
        ({f"t{i}": [f"column_{i}_{j}" for j in range(40)] for i in range(30)}, {"columns": "tables"},
         tt.errors.TooManyStates, "limit"),
    ],
)  # fmt: skip
def test_bad_input(schema, settings, error, message):
    with pytest.raises(error, match=message):
        tt.constraints.sql(schema, **settings)


def test_a_file_that_is_no_database(tmp_path):
    file = tmp_path / "x.sqlite"
    file.write_text("not a database at all, just some text" * 50)
    with pytest.raises(tt.errors.FormatError, match="cannot be read"):
        tt.constraints.sql(file)
