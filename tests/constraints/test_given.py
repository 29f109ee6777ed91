"""Whatever is given to a constraint, it is made or refused by a typed error that names the place."""

import math

import pytest

import tractile as tt

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
