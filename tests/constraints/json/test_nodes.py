"""Values of a JSON Schema as nodes: the texts of small values are read exactly if ``jsonschema`` says that they are valid."""

from __future__ import annotations

import itertools
import json
from functools import cache

import jsonschema
import pytest

import tractile as tt
from tractile.constraints.engine.tokens import Tokens
from tractile.constraints.json.nodes import Reading, value_node
from tractile.constraints.json.text import STYLES

VALUE = {"enum": [1, 10, 1.5, 100, "a", "ab", "é", '"', None, True]}
OPEN = {
    "properties": {"b": {"type": "integer"}, "a": {"type": "null"}, "ac": {"type": "boolean"}},
    "additionalProperties": {"enum": [0, "x"]},
}
CLOSED = OPEN | {"additionalProperties": False, "type": "object"}
SCHEMAS = {
    "listed": ({"type": "array", "items": VALUE, "uniqueItems": True}, {}),
    "listed, counted": (
        {"type": "array", "items": VALUE, "uniqueItems": True, "minItems": 2, "maxItems": 3},
        {"whitespace": "flexible"},
    ),
    "listed, all": (
        {"type": "array", "items": {"enum": [1, 10, 100]}, "uniqueItems": True, "minItems": 3},
        {"numbers": "plain"},
    ),
    "some counted": (
        {
            "type": "array", "items": {"enum": [1, "a", 10]}, "contains": {"const": 1}, "minContains": 2, "maxContains": 2,
            "maxItems": 4,
        },
        {},
    ),
    "some counted, on lines": (
        {
            "type": "array", "items": {"enum": [1, "a"]}, "contains": {"const": 1}, "maxContains": 1, "minContains": 0,
        },
        {"indent": 2},
    ),
    "listed, on lines": (
        {"type": "array", "items": {"enum": [1, "a", 10]}, "uniqueItems": True},
        {"indent": 2},
    ),
    "not listed": ({"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True}, {}),
    "not listed, some": ({"type": "array", "uniqueItems": True, "minItems": 2, "contains": {"const": 1}}, {}),
    "listed by position": (
        {"type": "array", "prefixItems": [VALUE, {"enum": [1, "a"]}], "items": VALUE, "uniqueItems": True},
        {},
    ),
    "some member": ({"type": "object", "not": {"propertyNames": {"enum": ["a", "b"]}}}, {}),
    "some members": (
        OPEN
        | {
            "type": "object",
            "allOf": [
                {"not": {"additionalProperties": {"type": "null"}}},
                {"not": {"propertyNames": {"maxLength": 1}}},
            ],
        },
        {},
    ),
    "some member, in order": (
        OPEN | {"type": "object", "required": ["b"], "not": {"propertyNames": {"enum": ["a", "b", "ac"]}}},
        {"order": "declared"},
    ),
    "many members": ({"type": "object", "minProperties": 2}, {}),
    "many members, some required": (OPEN | {"type": "object", "required": ["b"], "minProperties": 3}, {}),
    "equal items": ({"type": "array", "items": VALUE, "not": {"uniqueItems": True}}, {}),
    "equal items, counted": (
        {"type": "array", "items": VALUE, "not": {"uniqueItems": True}, "maxItems": 3},
        {"whitespace": "flexible"},
    ),
    "positions": ({"type": "array", "prefixItems": [VALUE, {"type": "null"}], "minItems": 2}, {}),
    "one of two": ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}),
    "in order": (CLOSED | {"minProperties": 2}, {"order": "declared"}),
    "in order, open": (OPEN | {"required": ["b", "ac"], "maxProperties": 4}, {"order": "declared"}),
    "in two orders": (CLOSED | {"required": ["a", "b"]}, {"order": "declared"}),
    "in two orders, open": (
        OPEN | {"required": ["ac", "b"], "maxProperties": 3},
        {"order": "declared", "whitespace": "flexible"},
    ),
    "one of two, closed": (
        {
            "oneOf": [
                {"additionalProperties": False, "properties": {"a": {"type": "null"}}},
                {"additionalProperties": False, "properties": {"b": {"type": "null"}}},
            ],
            "type": "object",
        },
        {},
    ),
    "names of a length": (
        {
            "propertyNames": {"maxLength": 3, "minLength": 1}, "properties": {"ab": {"type": "null"}, "é": {"enum": [1]}},
            "additionalProperties": {"type": "boolean"}, "type": "object",
        },
        {},
    ),
    "names without a value": (
        {
            "properties": {"ab": False, "abc": {"enum": [1]}, "b": False}, "patternProperties": {"^a|^b$": {"enum": [1, 2]}},
            "additionalProperties": False, "type": "object",
        },
        {},
    ),
    "on lines": (
        CLOSED
        | {
            "required": ["b"],
            "properties": CLOSED["properties"] | {"c": {"type": "array", "items": CLOSED}},
        },
        {"indent": 2},
    ),
}  # fmt: skip


BYTES = tt.Vocabulary([None, *(bytes([b]) for b in range(256))], eos_token_id=0)


def reader(node):
    """Whether a node reads a text."""
    tokens = Tokens(node, BYTES, require_eos=False)

    def accepts(text):
        state = tokens.start_state
        for byte in text.encode():
            state = tokens.step(state, byte + 1)
        return tokens.accepting(state)

    return accepts


@cache
def some_values():
    """Small values."""
    leaves = [None, True, 0, 1, 1.0, 10, 100, 1.5, "a", "x", "é", '"']
    found = [*leaves, [], {}]
    for size, few in ((1, leaves), (2, [1, 1.0, 10, "a", "é", None]), (3, [1, 10, 100])):
        found += [list(items) for items in itertools.product(few, repeat=size)]
    few = [None, 1, 2, 0, "x", False]
    for names in [[name] for name in ("a", "b", "ac", "abc", "é", "long")]:
        found += [dict(zip(names, values, strict=True)) for values in itertools.product(few, repeat=1)]
    for names in (("a", "b"), ("b", "a"), ("ac", "b"), ("x", "a"), ("x", "y")):
        found += [dict(zip(names, values, strict=True)) for values in itertools.product(few[:4], repeat=2)]
    for names in (("b", "a", "ac"), ("a", "b", "x"), ("b", "x", "y"), ("x", "y", "ac")):
        found += [dict(zip(names, values, strict=True)) for values in itertools.product([1, "x"], repeat=3)]
    return found


def is_in_order(value, schema):
    """Whether the members of an object stand in the order of ``properties``, or of ``required`` and then the others."""
    if not isinstance(value, dict):
        return True
    declared = [*schema["properties"]]
    required = [name for name in schema.get("required", ()) if name in declared]
    orders = [declared]
    if required != sorted(required, key=declared.index):
        orders.append([*required, *(name for name in declared if name not in required)])
    names = [name for name in value if name in declared]
    return any(names == sorted(names, key=order.index) for order in orders)


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEMAS)
def test_texts_of_small_values(name):
    schema, options = SCHEMAS[name]
    accepts = reader(tt.constraints.json_schema(schema, on_narrowed="ignore", **options).program)
    judge, read = jsonschema.Draft202012Validator(schema), 0
    separators = (",", ":") if options.get("whitespace") == "none" else None
    for value in some_values():
        text = json.dumps(value, ensure_ascii=False, indent=options.get("indent"), separators=separators)
        valid = judge.is_valid(value)
        if options.get("order") == "declared":
            valid &= is_in_order(value, schema)
        elif options.get("numbers") == "plain":
            valid &= ".0" not in text
        assert accepts(text) == valid, text
        read += valid
    assert read


@pytest.mark.parametrize("name", [name for name, (_, options) in SCHEMAS.items() if "indent" not in options])
def test_bounded_white_space_leaves_the_least_budget(name):
    schema, options = SCHEMAS[name]
    options, least = {**options, "whitespace": "flexible", "on_narrowed": "ignore"}, []
    for most in (None, 2):
        constraint = tt.constraints.json_schema(schema, **options, max_whitespace=most)
        with pytest.raises(tt.errors.BudgetTooSmall) as told:
            tt.gcd(constraint.compile(BYTES), 0).start(1)
        least.append((told.value.needed, constraint.shortest()))
    assert least[0] == least[1]


def program(schema, order="any"):
    """The node of a schema."""
    return value_node(schema, STYLES["space"], Reading(order))[0]


def accepted(node, *texts):
    """The texts that a node reads."""
    return list(filter(reader(node), texts))


def test_a_member_that_must_be_there_has_no_equal():
    schema = {
        "type": "object",
        "required": ["b"],
        "properties": {"b": {"const": "b"}},
        "additionalProperties": {"enum": ["c", None]},
        "not": {"properties": {"b": True}, "additionalProperties": {"type": "null"}},
    }
    node = program(schema, "declared")
    right = ['{"b": "b", "x": "c"}', '{"y": null, "x": "c", "b": "b"}']
    wrong = ['{"b": "b"}', '{"b": "b", "x": null}', '{"x": "c", "x": null, "b": "b"}']
    assert accepted(node, *right, *wrong) == right


def test_an_indent_has_a_last_level():
    tree = {"type": "array", "items": {"$ref": "#"}}
    constraint = tt.constraints.json_schema(tree, indent=1, on_narrowed="ignore")
    value = []
    for _ in range(20):
        value = [value, []]
    assert accepted(constraint.program, json.dumps(value, indent=1))
