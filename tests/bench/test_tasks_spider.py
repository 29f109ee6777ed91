"""Spider: queries in normal form, what they return, and whether their columns belong to their tables."""

import io
import itertools
import json
import re
import sqlite3
import tarfile
from contextlib import closing

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from texts import random_texts

import tractile as tt
from tractile_bench.spider.canonical_form import normalised, tables_named
from tractile_bench.spider.databases import extracted, rows_of, same_rows
from tractile_bench.spider.names import NameCheck, closed, known_names
from tractile_bench.spider.task import Spider

TABLES = {"Ship": ["Ship_ID", "Name", "Home Port"], "voyage": ["ID", "ship_id", "Year", "Miles"]}
STATEMENTS = """
    CREATE TABLE Ship (Ship_ID INTEGER PRIMARY KEY, Name TEXT, "Home Port" TEXT);
    CREATE TABLE voyage (ID INTEGER, ship_id INTEGER REFERENCES Ship(Ship_ID), Year INTEGER, Miles REAL);
    INSERT INTO Ship VALUES (1, 'Alma', 'Bergen'), (2, 'Britt', 'Oslo'), (3, 'O''Hara', 'Oslo');
    INSERT INTO voyage VALUES (1, 1, 1999, 10.5), (2, 1, 2001, 7), (3, 2, 2001, 7), (4, 9, 2003, NULL);
"""
FORMS = [
    ("select name , ship_id from ship ;", "SELECT Name, ship_id FROM Ship"),
    (
        "SELECT s.name FROM ship AS s JOIN voyage AS v ON s.ship_id = v.ship_id WHERE v.year <> 1999",
        "SELECT T1.Name FROM Ship AS T1 JOIN voyage AS T2 ON T1.ship_id = T2.ship_id WHERE T2.Year != 1999",
    ),
    (
        'SELECT count ( * ) AS n FROM Ship WHERE `home port` = "Oslo" AND name = "O\'Hara"',
        "SELECT COUNT(*) FROM Ship WHERE \"Home Port\" = 'Oslo' AND Name = 'O''Hara'",
    ),
    ("SELECT DISTINCT (year) FROM voyage WHERE miles > - 1.5", "SELECT DISTINCT Year FROM voyage WHERE Miles > -1.5"),
    (
        "select name from ship where ship_id not in (select ship_id from voyage) order by name desc limit 3",
        "SELECT Name FROM Ship WHERE ship_id NOT IN (SELECT ship_id FROM voyage) ORDER BY Name DESC LIMIT 3",
    ),
    (
        "SELECT a.name FROM ship AS a JOIN voyage AS b ON a.ship_id = b.ship_id WHERE b.year IN (SELECT b.year FROM ship AS c "
        "JOIN voyage AS d ON c.ship_id = d.ship_id)",  # new names would hide b: the aliases stay
        "SELECT a.Name FROM Ship AS a JOIN voyage AS b ON a.ship_id = b.ship_id WHERE b.Year IN (SELECT b.Year FROM Ship AS c "
        "JOIN voyage AS d ON c.ship_id = d.ship_id)",
    ),
]  # fmt: skip


def described(name, tables):
    """A database as tables.json describes it."""
    columns = [[-1, "*"], *([i, c] for i, own in enumerate(tables.values()) for c in own)]
    return {
        "db_id": name,
        "table_names_original": list(tables),
        "column_names_original": columns,
        "foreign_keys": [[5, 1]],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("spider")
    (path / "tables.json").write_text(json.dumps([described(name, TABLES) for name in ("ships", "lost")]))
    asked = [
        {"db_id": "ships", "question": "Which ships are at home in\nOslo?",
         "query": 'select name from ship where "home port" = "Oslo"'},
        {"db_id": "lost", "question": "How many ships?", "query": "select count(*) from ship"},
        {"db_id": "ships", "question": "Years, latest first?", "query": "select year, id from voyage order by year DESC"},
    ]  # fmt: skip
    (path / "dev.json").write_text(json.dumps(asked))
    (path / "train_spider.json").write_text(json.dumps(asked[1:2]))
    (path / "database/ships").mkdir(parents=True)
    with closing(sqlite3.connect(path / "database/ships/ships.sqlite")) as connection:
        connection.executescript(STATEMENTS)
    return path


@pytest.mark.parametrize(("query", "form"), FORMS)
def test_normal_form(query, form):
    assert normalised(query, TABLES) == form
    assert normalised(form, TABLES) == form
    assert tables_named(query, TABLES) == {"Ship", "voyage"} & set(re.findall(r"\w+", form))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(STATEMENTS)
        assert connection.execute(query).fetchall() == connection.execute(form).fetchall()
    assert tt.constraints.sql(TABLES).accepts(form) == (" AS a" not in form)


def test_examples(folder):
    task = Spider(folder)
    first, last = task.examples("test")
    assert task.dropped == {"no SQLite file of lost": ["test-1"]}
    assert first.prompt == (
        'Tables:\nShip(Ship_ID, Name, "Home Port")\nvoyage(ID, ship_id, Year, Miles)\n'
        "Question: Which ships are at home in Oslo?\nSQL:\n"
    )
    assert first.reference == "SELECT Name FROM Ship WHERE \"Home Port\" = 'Oslo'"
    assert [e.facts["db_id"] for e in task.examples("train")] == ["lost"]
    assert task.constraint(first) is task.constraint(last)
    for example in (first, last):
        assert json.loads(json.dumps(example.facts)) == example.facts
        assert task.constraint(example).accepts(example.reference)
        assert set(task.scores(example, example.reference).values()) == {1.0}


def test_scores(folder):
    task = Spider(folder, max_steps=200_000)
    oslo, years = task.examples()

    def scores(example, text):
        return {name for name, value in task.scores(example, text).items() if value == 1.0}

    everything = {"execution", "exact", "satisfied", "runs", "tables"}
    assert scores(oslo, "select NAME from ship where `Home Port` = 'Oslo'") == everything - {"satisfied"}
    assert scores(oslo, "SELECT Name FROM Ship WHERE Ship_ID >= 2") == everything - {"exact"}
    assert scores(oslo, "SELECT Name FROM Ship WHERE Ship_ID > 2") == {"satisfied", "runs", "tables"}
    assert scores(oslo, "SELECT Miles FROM Ship") == {"satisfied", "tables"}
    assert scores(years, "SELECT ID, Year FROM voyage ORDER BY Year DESC") == everything - {"exact"}
    assert scores(years, "SELECT Year, ID FROM voyage ORDER BY Year ASC") == {"satisfied", "runs", "tables"}
    assert scores(years, "SELECT Year, ID FROM voyage WHERE Year > 2000 UNION SELECT 1999, 1") == {
        "runs",
        "tables",
    }
    before = task.file("ships").read_bytes()
    for text in (
        "", "SELECT", "\0", "\ud800", "DELETE FROM Ship", "DROP TABLE Ship", "ATTACH 'x.sqlite' AS x", "PRAGMA user_version = 3",
        "SELECT 1; SELECT 2", "SELECT ?", "((((", "'", "SELECT load_extension('x')", "SELECT length(zeroblob(900000000))",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n",
    ):  # fmt: skip
        assert scores(oslo, text) <= {"tables"}, text
        assert task.meaning(oslo, text) == text
    assert task.file("ships").read_bytes() == before
    same = {
        task.meaning(oslo, f"SELECT Year FROM voyage {rest}") for rest in ("", "WHERE ID IN (4, 3, 2, 1)")
    }
    assert len(same) == 1
    assert same.isdisjoint({task.meaning(oslo, "SELECT Year FROM voyage ORDER BY Year DESC")})


def test_packed_databases(folder, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder / "database" / "ships", "ships")
    for name in ("tables.json", "dev.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    archive = tmp_path / "databases_small.tar.zst"
    archive.write_bytes(zstandard.compress(packed.getvalue()))
    cache = tmp_path / "a" / "cache"
    for task in (Spider(tmp_path), Spider(tmp_path, cache=cache), Spider(tmp_path, cache=cache)):
        example = next(task.examples())
        assert task.scores(example, example.reference)["execution"] == 1.0
        archive_was = archive.read_bytes()
        if task.file("ships").is_relative_to(cache):  # what is unpacked is not unpacked again
            archive.write_bytes(b"broken")
    archive.write_bytes(zstandard.compress(packed.getvalue()[:5000]))
    with pytest.raises(tt.errors.FormatError, match="does not unpack"):
        extracted([archive], tmp_path / "b" / "cache")
    assert not list((tmp_path / "b").iterdir())
    assert archive_was


values = st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["a", "b", 1.0, 0.5]))


@given(st.data(), st.integers(1, 3), st.booleans())
def test_results_are_equal_up_to_columns_and_rows(data, width, ordered):
    table = st.lists(st.tuples(*[values] * width), max_size=4)
    gold, rows = data.draw(table), data.draw(table)
    if data.draw(st.booleans()):  # the same result, written otherwise
        order = data.draw(st.permutations(range(width)))
        rows = [
            tuple(row[i] for i in order) for row in (gold if ordered else data.draw(st.permutations(gold)))
        ]

    def equal(left, right):
        return left == right if ordered else sorted(map(repr, left)) == sorted(map(repr, right))

    as_float = [
        [tuple(float(v) if isinstance(v, int) else v for v in row) for row in part] for part in (gold, rows)
    ]
    expected = any(
        equal(as_float[0], [tuple(row[i] for i in order) for row in as_float[1]])
        for order in itertools.permutations(range(width))
    )  # fmt: skip
    assert same_rows(gold, rows, ordered) == expected


def test_what_is_asked_of_a_partial_query():
    query = "SELECT Name FROM Ship AS T1 JOIN voyage AS T2 ON T1.Ship_ID = T2.ship_id AND T2.Year > 3 WHERE Miles IN (SELECT MAX(Year) FROM voyage WHERE (ID = 1 AND Year = 2)) OR Name = ' WHERE ' ORDER BY Name"  # noqa: E501
    seen = [query[: known_names(query[:end])] for end in range(len(query) + 1)]
    assert list(dict.fromkeys(seen)) == [
        "", query[: query.index(" voyage AS")], query[: query.index(" T1.Ship_ID")], query[: query.index(" T2.Year > 3")],
        query[: query.index("WHERE")], query[: query.index("WHERE (ID")], query[: query.index("AND Year = 2")],
        query[: query.index(" OR Name")], query[: query.index("OR Name")], query[: query.index("ORDER")],
    ]  # fmt: skip
    assert closed(query[: query.index("AND Year = 2")]).endswith("(ID = 1 ))")


def test_the_potential_is_zero_when_no_completion_will_do():
    check = NameCheck(TABLES)
    owners = {
        c: [t for t, own in TABLES.items() if c.lower() in map(str.lower, own)]
        for own in TABLES.values()
        for c in own
    }
    names = [c if " " not in c else f'"{c}"' for c in owners]
    sources = {
        "Ship": ["Ship"],
        "voyage": ["voyage"],
        "Ship JOIN voyage ON Ship.Name = Miles": ["Ship", "voyage"],
    }
    for (source, tables), (name, (column, own)) in itertools.product(
        sources.items(), zip(names, owners.items(), strict=True)
    ):
        asked = f"SELECT {name}, COUNT(*) FROM {source} WHERE "
        # SQLite takes a quoted name that it does not know for a text; a name of two tables is ambiguous
        resolved = len(set(own) & set(tables)) == 1 or '"' in name
        assert check.begun(asked[: known_names(asked)]) == resolved, (column, source)
        assert known_names(asked) == len(asked) - len("WHERE ")
        inner = f"SELECT Year FROM voyage WHERE EXISTS (SELECT {name} FROM {source} WHERE "
        outer = (
            len(set(own) & set(tables)) == 1
            or '"' in name
            or (not set(own) & set(tables) and "voyage" in own)
        )
        assert check.begun(inner[: known_names(inner)]) == outer, (column, source)
    assert not check.begun("SELECT T2.Name FROM Ship AS T1 ")
    assert check.begun("SELECT Year FROM voyage WHERE Year BETWEEN 3 ")
    assert check.begun("SELECT Year FROM voyage WHERE (SELECT Ship_ID, Name FROM Ship)")


def test_a_column_is_asked_about_once_its_table_is_known():
    """Every column of a first and a second table, seen before FROM is complete: zero just where no completion will do."""
    check = NameCheck(TABLES)
    names = sorted({c for own in TABLES.values() for c in own})
    for first, second, of, name in itertools.product(TABLES, TABLES, ("T1.", "T2.", "T3.", ""), names):
        column = f'{of}"{name}"' if " " in name else f"{of}{name}"
        for item in (column, f"COUNT(DISTINCT {column})", f"1.5, {column} + T4.Year, *, T4.*"):
            texts = [f"SELECT {item} FROM {first} AS T1 JOIN"]
            texts.append(f"{texts[0]} {second} AS T2 ON")
            texts.append(f"{texts[1]} T1.ship_id = T3.ship_id AND")
            for i, text in enumerate(texts):
                assert known_names(f"{text} T") == len(text)
                known = {"T1.": first} if i == 0 else {"T1.": first, "T2.": second}
                wrong = of in known and name.lower() not in map(str.lower, TABLES[known[of]])
                assert check.begun(text) != wrong, text
                inner = (
                    f"SELECT T1.Miles, T2.Miles FROM voyage AS T1 JOIN voyage AS T2 WHERE T1.Year IN ({text}"
                )
                around = of in ("T1.", "T2.") and name.lower() in map(str.lower, TABLES["voyage"])
                assert check.begun(inner) != (wrong and not around), inner
    assert not check.begun("SELECT Year FROM voyage UNION SELECT voyage.Name FROM voyage JOIN")
    assert check.begun("SELECT Ship.Name FROM Ship AS T1 JOIN")
    assert check.begun("SELECT (SELECT T1.Year FROM voyage AS T1), T1.Year FROM Ship AS T1 JOIN")


@pytest.mark.parametrize("columns", ["database", "tables"])
def test_the_potential_never_stops_a_query_that_can_be_prepared(columns):
    check, dead, whole = NameCheck(TABLES), 0, 0
    constraint = tt.constraints.sql(
        {"tables": TABLES, "foreign_keys": [("voyage.ship_id", "Ship.Ship_ID")]}, columns=columns
    )
    for text in random_texts(constraint, seed=5, count=200, longest=120):
        good = check.whole(text)
        cuts = {known_names(text[:end]) for end in range(len(text) + 1)} - {0}
        begun = all(check.begun(text[:cut]) for cut in cuts)
        assert begun or not good, text
        whole, dead = whole + good, dead + (not begun)
    assert (dead == 0 and whole == 200) if columns == "tables" else (dead > 30 and whole > 10)


def test_gold_queries(shared_dir):
    path = shared_dir / "data" / "spider"
    if not path.is_dir():
        pytest.skip(f"no {path}")
    task = Spider(path)
    examples = list(task.examples())
    assert len(examples) > 500
    inside = [task.constraint(e).accepts(e.reference) for e in examples[::3]]
    assert sum(inside) >= 0.99 * len(inside)
    for example in examples[::6]:
        scores = task.scores(example, example.reference)
        assert scores["execution"] == scores["runs"] == scores["exact"] == scores["tables"] == 1.0, example
        check = task.potential(example)
        assert check is not None
    gold = rows_of(task.file("concert_singer"), "SELECT count(*) FROM singer", 10_000_000)
    assert gold == [(6,)]
