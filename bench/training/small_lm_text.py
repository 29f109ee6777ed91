"""SQL, sentences, molecules and plain text to learn from, as (prompt, answer) pairs."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from tractile.constraints.sql.schema import escaped
from tractile_bench import prompts
from tractile_bench.files import find, read_json, read_jsonl, read_lines, read_text
from tractile_bench.spider.canonical_form import normalised
from tractile_bench.spider.databases import read_databases

Pair = tuple[str, str]
TABLE_NAMES = [
    "t",
    "data",
    "results",
    "records",
    "items",
    "list",
    "entries",
    "main",
    "info",
    "stats",
    "matches",
    "people",
    "places",
    "works",
]

# --------------------------------------------------------------------------------------------------------- SQL


def spider(folder: Path, rng: random.Random, copies: int = 4) -> Iterator[Pair]:
    """The train questions with the tables of their database, answered in the form that the constraint writes; in further
    copies the tables stand in another order."""
    databases = read_databases(find(folder, "tables.json"))
    rows = [row for row in read_jsonl(find(folder, "train.jsonl")) if row["db_id"] in databases]
    names = {
        db_id: {table: escaped(table) for table in database.tables} for db_id, database in databases.items()
    }
    shown = {
        db_id: {own: [*map(escaped, database.tables[table])] for table, own in names[db_id].items()}
        for db_id, database in databases.items()
    }
    answers = [normalised(row["query"], databases[row["db_id"]].tables) for row in rows]
    for copy in range(copies):
        for row, answer in zip(rows, answers, strict=True):
            tables = shown[row["db_id"]]
            if copy:
                order = rng.sample(list(tables), len(tables))
                if copy % 2 == 0:  # without some of the tables that the query does not name
                    order = [name for name in order if name in answer or rng.random() < 0.5]
                tables = {name: tables[name] for name in order}
            yield prompts.text_to_sql(row["question"], tables), answer


WIKISQL = re.compile(r"SELECT (?:(COUNT|MAX|MIN|SUM|AVG) )?(\S+)_FIELD FROM TABLE(?: WHERE (.*?))? ;")
CONDITION = re.compile(r"(\S+?)_FIELD ([=<>]) (.*?)(?= AND \S+_FIELD [=<>] |$)")


def wikisql(folder: Path, rng: random.Random) -> Iterator[Pair]:
    """Queries on one table, rewritten as SQL that runs; a table's columns are those that its questions name."""
    found = []
    columns: dict[str, dict[str, None]] = {}
    for row in read_jsonl(find(folder, "train.jsonl")):
        query = WIKISQL.fullmatch(row["query"])
        if query is None:
            continue
        conditions = CONDITION.findall(query[3] or "")
        if len(conditions) != len(re.findall(r"_FIELD [=<>] ", query[3] or "")):
            continue
        names = columns.setdefault(row["table_id"], {})
        for name in (query[2], *(condition[0] for condition in conditions)):
            names[name] = None
        found.append((row["table_id"], row["question"], query[1], query[2], conditions))
    styles = {}
    for table, names in columns.items():
        change = rng.choice((str.lower, str.title, str.capitalize, str.lower))
        clean = {
            name: change(re.sub(r"[\W_]+", "_", name, flags=re.ASCII).strip("_")) or "x" for name in names
        }
        styles[table] = (rng.choice(TABLE_NAMES), clean)
    for table, question, function, column, conditions in found:
        name, clean = styles[table]
        own = {said: escaped(column) for said, column in clean.items()}
        order = list(dict.fromkeys(clean.values()))
        rng.shuffle(order)
        selected = f"{function}({own[column]})" if function else own[column]
        tests = []
        for where, operator, value in conditions:
            value = value.strip().strip('"')
            number = re.fullmatch(r"-?\d+(\.\d+)?", value)
            tests.append(f"{own[where]} {operator} {value if number else quoted_text(value)}")
        query = f"SELECT {selected} FROM {name}" + (f" WHERE {' AND '.join(tests)}" if tests else "")
        if len(order) <= 20:
            shown = {name: [*map(escaped, order)]}
            yield prompts.text_to_sql(question.replace(" ?", "?"), shown), normalised(query, {name: order})


def quoted_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# --------------------------------------------------------------------------------------------------- sentences


def sentence(text: str) -> str:
    """White space as single spaces, a capital letter at the beginning and a full stop at the end."""
    text = " ".join(text.split())
    text = re.sub(r"\s+([.,!?;])", r"\1", text)
    return text[:1].upper() + text[1:] + ("" if text[-1:] in ".!?" else ".")


def commongen(folder: Path) -> Iterator[Pair]:
    """The train sets with each of their references."""
    for row in read_jsonl(find(folder, "train.jsonl")):
        for reference in row["references"]:
            yield prompts.commongen(row["concepts"]), sentence(reference)


def captions(folder: Path, inflections: Path, rng: random.Random) -> Iterator[Pair]:
    """Photo captions, asked for by three to five of the concepts in them; a third of them as plain text."""
    lemmas: dict[str, str] = {}
    for lemma, forms in read_json(find(inflections, "concept_inflections.json")).items():
        for form in forms:
            lemmas.setdefault(form, lemma)
    for path in sorted(folder.glob("*.txt*")):
        for line in read_lines(path):
            if not line.strip():
                continue
            words = dict.fromkeys(
                lemmas[word] for word in re.findall(r"[a-z]+", line.lower()) if word in lemmas
            )
            if len(words) < 3 or rng.random() < 0.33:
                yield "", sentence(line)
            else:
                concepts = rng.sample(list(words), min(len(words), rng.randint(3, 5)))
                yield prompts.commongen(concepts), sentence(line)


def tatoeba(folder: Path) -> Iterator[Pair]:
    for line in read_lines(find(folder, "sentences.tsv")):
        yield "", line.split("\t")[0].strip()


def stories(folder: Path, rng: random.Random, count: int) -> Iterator[Pair]:
    """Passages of a few sentences from some of the stories."""
    texts = read_text(find(folder, "stories.txt")).split("<|endoftext|>")
    for story in rng.sample(texts, min(count, len(texts))):
        parts = re.split(r"(?<=[.!?]) +(?=[A-Z])", " ".join(story.split()))
        start = rng.randrange(max(1, len(parts) - 6))
        yield "", " ".join(parts[start : start + 8]).strip()


# --------------------------------------------------------------------------------------------------- molecules


def molecules(folder: Path, rng: random.Random, count: int, characters: int = 700) -> Iterator[Pair]:
    """Lists of molecules of one of the two collections and one more of them."""
    for name, share in (("qm9.smi", 0.45), ("molnet.smi", 0.55)):
        found = [line.strip() for line in read_lines(find(folder, name)) if 3 <= len(line.strip()) <= 90]
        for _ in range(int(count * share)):
            some = rng.sample(found, rng.randint(2, 21))
            while sum(map(len, some)) > characters:
                some.pop()
            if len(some) > 1:
                yield prompts.molecules(some[:-1]), some[-1]
