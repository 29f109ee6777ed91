"""Whatever is given to a constraint, it is made or refused by a typed error that names the place."""

import json
import math
import random
import sqlite3
from contextlib import closing
from copy import deepcopy

import pytest

import tractile as tt
from tractile.constraints.json.vocabulary import ANNOTATIONS, KEYWORDS
from tractile.constraints.sql.schema import quoted

C = tt.constraints
ODD = ["\ud800", "a\udfff", b"a", None, 3.5, math.nan, -1, 10**400, True, [None], {1: 1}]
TEXTS = {
    "literal": C.literal,
    "any_of": C.any_of,
    "keyword": lambda value: C.keywords([value, "b"], inflections=False),
    "form": lambda value: C.forbidden_words([[value]]),
    "grammar": lambda value: C.grammar(value, syntax="gbnf"),
    "references": lambda value: C.function_calls([{"name": "f"}], references=value) if value is not None else C.any_of(),
    "key": lambda value: C.function_calls([{"name": "f"}], keys=("name", value)),
    "name of a tool": lambda value: C.function_calls([{"name": value}]),
    "table": lambda value: C.sql({value if value.__hash__ else "t": ["a"]} if value != {} else value, columns=value),
    "column": lambda value: C.sql({"t": [value]}),
    "foreign key": lambda value: C.sql({"tables": {"t": ["a"]}, "foreign_keys": [(value, "t.a")]}),
    "schema": lambda value: C.json_schema({"$schema": value, "$ref": 5}),
    "reference": lambda value: C.json_schema({"$ref": value}),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:10])
def test_what_is_no_text(name, value):
    with pytest.raises(tt.TractileError):
        TEXTS[name](value)


TOOL = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}]
COUNTS = {
    "low": lambda n: C.literal("a").repeat(n), "high": lambda n: C.literal("a").repeat(0, n),
    "length": lambda n: C.text_length(n), "at_least": lambda n: C.keywords([["a"], ["b"]], at_least=n),
    "depth of a grammar": lambda n: C.grammar('start: "a"', max_depth=n),
    "depth of queries": lambda n: C.sql({"t": ["a"]}, max_depth=n), "tables": lambda n: C.sql({"t": ["a"]}, max_tables=n),
    "depth of a schema": lambda n: C.json_schema({"items": {}}, max_depth=n),
    "longest": lambda n: C.json_schema({"maxLength": 9}, max_length=n),
    "depth of values": lambda n: C.function_calls(TOOL, max_depth=n, syntax="python"),
    "calls": lambda n: C.function_calls(TOOL, parallel=(n, n)), "flags": lambda n: C.regex("a", n),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    "value", [-1, 1.5, math.nan, math.inf, "3", [3], True, 10**400], ids=lambda v: repr(v)[:10]
)
def test_what_is_no_count(name, value):
    with pytest.raises(tt.errors.UnsupportedConstraint, match="whole number"):
        COUNTS[name](value)


def test_constraints_combine_with_constraints_alone():
    with pytest.raises(tt.errors.UnsupportedConstraint, match=r"literal\(…\) makes one"):
        C.literal("a") | "b"


@pytest.mark.parametrize("syntax", ["json", "python"])
@pytest.mark.parametrize(
    "property",
    [{"minimum": []}, {"additionalProperties": 1}, {"required": [3]}, {"maxLength": "3"}, {"enum": 1}],
)  # fmt: skip
def test_keywords_of_tools_have_their_forms(syntax, property):
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": property}}}
    with pytest.raises(tt.errors.FormatError, match=f"properties.a.{next(iter(property))} is"):
        C.function_calls([tool], syntax=syntax)


def test_statements_reach_nothing_but_their_own_database(tmp_path):
    file = tmp_path / "made.sqlite"
    for statements in (
        f"ATTACH DATABASE '{file}' AS other; CREATE TABLE other.t (a)",
        "CREATE TABLE t AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
        "CREATE TABLE t AS SELECT randomblob(1000000000) AS a",
    ):
        with pytest.raises(tt.errors.FormatError, match="cannot be read"):
            C.sql(statements)
    assert not file.exists()


def test_odd_names_of_tables_and_columns():
    tables = {"a = b": ["x = y", "ß.ü"], "c.d": ["select", 'q"', "\n"]}
    c = C.sql({"tables": tables, "foreign_keys": [("a = b.ß.ü", "c.d.select")]}, columns="tables")
    with closing(sqlite3.connect(":memory:")) as connection:
        for table, columns in tables.items():
            connection.execute(f"CREATE TABLE {quoted(table)} ({', '.join(map(quoted, columns))})")
        for query in (
            'SELECT T1."x = y" FROM "a = b" AS T1 JOIN "c.d" AS T2 ON T1."ß.ü" = T2."select"',
            'SELECT T1."x = y" FROM "a = b" AS T1 JOIN "c.d" AS T2 ON T2."select" = T1."ß.ü"',
            'SELECT "q""" FROM "c.d" WHERE "\n" = 1',
        ):
            connection.execute(query)
            assert c.accepts(query), query


@pytest.mark.parametrize(
    "reference", ["http://[", "#/title", "#/required/0", "#/enum/" + "9" * 5_000, "#/properties"]
)
def test_references_to_what_is_no_schema(reference):
    schema = {"title": "a", "required": ["b"], "properties": {"a": {"$ref": reference}}, "enum": [1]}
    if reference == "#/properties":
        assert C.json_schema({**schema, "enum": [{"a": 1, "b": 2}]}).accepts('{"a": 1, "b": 2}')
        return
    with pytest.raises(
        tt.errors.UnsupportedConstraint, match=r"points to no|is no URI|only references|leads out"
    ) as error:
        C.json_schema({**schema, "type": "object", "enum": [{"b": 1}]})
    assert error.value.path == "/properties/a/$ref"


SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9, "pattern": "^x"}, "b": {"$ref": "#/$defs/t"}},
     "required": ["a"], "$defs": {"t": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}}},
    {"anyOf": [{"const": {"a": [1, None]}}, {"enum": ["x", 2.5, True]}, {"minimum": 3, "multipleOf": 2}], "not": {"const": 7}},
    {"if": {"required": ["k"]}, "then": {"minProperties": 2}, "else": {"propertyNames": {"format": "date"}},
     "patternProperties": {"^s": {"type": ["integer", "null"]}}, "additionalProperties": False},
    {"contains": {"type": "boolean"}, "minContains": 2, "prefixItems": [{"oneOf": [{"maximum": 1}, {"type": "integer"}]}],
     "unevaluatedItems": False, "dependentSchemas": {"a": {"minProperties": 1}}},
]  # fmt: skip
WRONG = [
    None, True, False, 0, -1, 2.5, 1e300, 10**40, "", "a", "#", "#/a", "http://[", "(", "\\1", "\ud800", [], {}, [{}], [None],
    ["a", "a"], {"": {}}, {"$ref": "#"}, {"$id": "http://["}, {"not": {}}, {"type": []}, {"pattern": "["}, {"a": None},
]  # fmt: skip


def mutated(schema, dice):
    """The schema with up to three parts deleted, replaced, or added where they do not belong."""
    schema = json.loads(json.dumps(schema))
    for _ in range(dice.randint(1, 3)):
        places, stack = [], [schema]
        while stack:
            here = stack.pop()
            places += [(here, key) for key in (here if isinstance(here, dict) else range(len(here)))]
            stack += [
                v for v in (here.values() if isinstance(here, dict) else here) if isinstance(v, dict | list)
            ]
        if not places:
            return schema
        here, key = dice.choice(places)
        if isinstance(here, dict) and dice.random() < 0.4:
            here[dice.choice([*KEYWORDS, *sorted(ANNOTATIONS)])] = deepcopy(
                dice.choice([here.pop(key), *WRONG])
            )
        elif dice.random() < 0.2:
            del here[key]
        else:
            here[key] = deepcopy(dice.choice(WRONG))
    return schema


def test_schemas_with_wrong_parts():
    dice, compiled, refused = random.Random(0), 0, 0
    for _ in range(300):
        schema = mutated(dice.choice(SCHEMAS), dice)
        try:
            constraint = C.json_schema(schema, strict=dice.random() < 0.2)
        except tt.TractileError:
            refused += 1
        else:
            compiled += not constraint.is_empty()
    assert compiled > 50
    assert refused > 50
