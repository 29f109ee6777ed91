"""The order of members in JSON Schema: every way in which they may stand is exactly what it says, and never invalid."""

import itertools
import json
import random

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt

json_schema = tt.constraints.json_schema
NAMES = ["a", "b", "ab", "é"]
OTHERS = ["z", "x", "xy"]
VALUES = [
    {"const": 1},
    {"enum": [1, 2]},
    {"type": "boolean"},
    {"const": [1]},
    {"type": "integer", "minimum": 2},
]
SAMPLES = [1, 2, 3, True, [1]]


def texts_of(rng, count, most=5):
    """Objects as lists of members, of which some have a name in common."""
    for _ in range(count):
        names = [rng.choice([*NAMES, *OTHERS]) for _ in range(rng.randint(0, most))]
        if rng.random() < 0.7:
            names = list(dict.fromkeys(names))
        yield [(name, rng.choice(SAMPLES)) for name in names]


def text(members) -> str:
    return "{" + ", ".join(f"{json.dumps(n, ensure_ascii=False)}: {json.dumps(v)}" for n, v in members) + "}"


def combined(rng, depth=2):
    """Schemas of objects that combine others."""
    schema = {}
    if rng.random() < 0.8:
        schema["properties"] = {n: rng.choice(VALUES) for n in rng.sample(NAMES, rng.randint(1, 3))}
    if rng.random() < 0.5:
        schema["required"] = rng.sample([*NAMES, "z"], rng.randint(1, 2))
    if rng.random() < 0.3:
        schema["additionalProperties"] = rng.choice([False, *VALUES])
    if rng.random() < 0.2:
        schema["patternProperties"] = {"^x": rng.choice(VALUES)}
    if rng.random() < 0.2:
        schema[rng.choice(["minProperties", "maxProperties"])] = rng.randint(1, 3)
    if rng.random() < 0.2:
        schema["dependentRequired"] = {rng.choice(NAMES): [rng.choice(NAMES)]}
    for key in ("allOf", "anyOf", "oneOf") if depth else ():
        if rng.random() < 0.3:
            schema[key] = [combined(rng, depth - 1) for _ in range(2)]
    if depth and rng.random() < 0.3:
        schema["not"] = combined(rng, depth - 1)
    items = list(schema.items())
    rng.shuffle(items)
    return dict(items)


@pytest.mark.long
@settings(max_examples=12)  # tests/fuzz/test_schemas.py has more
@given(st.integers(0, 2**32), st.sampled_from(["declared", "auto", "any"]))
def test_never_invalid_however_members_stand(seed, order):
    """Combinations of schemas: what is accepted is valid (names that are written twice included), and in any order what
    is valid is accepted, but for undeclared members that must exist."""
    rng = random.Random(seed)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", **combined(rng)}
    validator = jsonschema.Draft202012Validator(schema)
    try:
        constraint = json_schema(schema, order=order, max_depth=2)
    except (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates):
        return
    said = json.dumps(schema)
    exact = order == "any" and '"not"' not in said and '"oneOf"' not in said
    for found in texts_of(rng, 60, 4):
        names = [name for name, _ in found]
        valid, accepted = validator.is_valid(json.loads(text(found))), constraint.accepts(text(found))
        assert valid or not accepted, (schema, text(found))
        undeclared = sum(f'"{name}"' not in said for name in names)  # of which one counts
        if exact and len(set(names)) == len(names) and ("minProperties" not in said or undeclared < 2):
            assert accepted or not valid, (schema, text(found))
    if not constraint.is_empty():
        assert validator.is_valid(json.loads(constraint.shortest())), schema


def test_orders_of_combined_schemas():
    """The own order of each alternative; of what a schema combines, as it is written or its own first."""
    one = {"properties": {"id": {}, "result": {}}, "required": ["id", "result"]}
    two = {"properties": {"error": {"const": 1}, "id": {}}, "required": ["error", "id"]}
    either = json_schema({"type": "object", "anyOf": [one, two]}, order="declared")
    assert either.accepts('{"id": 1, "result": 2}')
    assert either.accepts('{"error": 1, "id": 2}')
    assert either.accepts('{"id": 1, "result": 2, "error": 3}')
    assert not either.accepts('{"result": 2, "error": 3, "id": 1}')
    base = {"properties": {"a": {}, "b": {}}}
    for schema in ({"allOf": [base], "properties": {"c": {}}}, {"properties": {"c": {}}, "allOf": [base]}):
        closed = {"type": "object", **schema, "unevaluatedProperties": False}
        constraint = json_schema(closed, order="declared")
        assert constraint.accepts('{"c": 1, "a": 1, "b": 1}')
        assert constraint.accepts('{"a": 1, "b": 1, "c": 1}') == (next(iter(schema)) == "allOf")
        assert not constraint.accepts('{"b": 1, "a": 1, "c": 1}')
    inner = {"allOf": [base], "properties": {"c": {}}}
    nested = json_schema({"type": "object", "allOf": [inner], "properties": {"d": {}}})
    assert all(nested.accepts(t) for t in ('{"a": 1, "c": 1, "d": 1}', '{"d": 1, "c": 1, "a": 1}'))


def test_several_members_that_must_exist():
    """Names that a pattern or an enum lists are taken one by one; of others one member does for all that must exist."""
    values = [[n, v] for n in ("1", "2", "3", "7") for v in (1, "s")]
    every = [dict(pairs) for k in range(3) for pairs in itertools.combinations(values, k)]
    listed = {
        "type": "object",
        "patternProperties": {"^[0-9]$": {"type": "integer"}},
        "additionalProperties": False,
        "not": {
            "anyOf": [
                {"patternProperties": {"^(1|3)$": False}},
                {"propertyNames": {"not": {"enum": ["2", "3"]}}},
            ]
        },
    }
    alike = {"type": "object", "allOf": [{"not": {"propertyNames": {"enum": [n, "1"]}}} for n in ("2", "3")]}
    single = {
        "type": "object",
        "allOf": [{"not": {"patternProperties": {p: {"type": "string"}}}} for p in ("[27]", "[37]")],
        "maxProperties": 1,
    }
    for schema in (listed, alike, single):
        constraint, validator = json_schema(schema, order="any"), jsonschema.Draft202012Validator(schema)
        for value in every:
            assert constraint.accepts(json.dumps(value)) == validator.is_valid(value), (schema, value)
    both = json_schema({**single, "maxProperties": 2})
    assert both.accepts('{"7": 1}')
    assert not both.accepts('{"2": 1, "7": "s"}')


@pytest.mark.parametrize("order", ["declared", "auto", "any"])
def test_members_that_must_exist_fill_the_object(order):
    """Where there is place for no more than must exist, there are no more of their kind either."""
    kind = {"additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"], "maxProperties": 2, "not": kind}
    constraint = json_schema({"allOf": [schema, {"not": {"properties": {"a": {}}, **kind}}]}, order=order)
    assert constraint.accepts('{"a": 1, "x": "s"}')
    assert not constraint.accepts('{"a": 1, "x": "s", "y": "s"}')
    assert not constraint.accepts('{"x": "s", "y": "s"}')
