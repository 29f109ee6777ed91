"""``oneOf`` of alternatives that have values in common, against ``jsonschema``, in both forms of what violates a schema."""

import itertools
import json
import random

import jsonschema
import pytest

from tractile.constraints import json_schema
from tractile.constraints.json import combinators

VALUES = [0, 1, "x", None]
OBJECTS = [
    {name: value for name, value in zip("abc", values, strict=True) if value is not None}
    for values in itertools.product(VALUES, repeat=3)
]


def alternative(rng: random.Random) -> dict:
    """Return a schema of an object with a few conditions, some of them in schemas that it combines."""
    kinds = [{"type": "integer"}, {"enum": [0, "x"]}, {"not": {"const": 1}}, {"type": "string"}, True]
    names = rng.sample("abc", rng.randint(1, 3))
    found = {"type": "object", "properties": {name: rng.choice(kinds) for name in names}}
    if rng.random() < 0.7:
        found["required"] = rng.sample("abc", rng.randint(1, 2))
    if rng.random() < 0.3:
        found["allOf"] = [
            {"properties": {rng.choice("abc"): rng.choice(kinds)}},
            {"required": [rng.choice("abc")]},
        ]
    if rng.random() < 0.2:
        found["additionalProperties"] = rng.choice([False, {"type": "integer"}])
    if rng.random() < 0.2:
        found["maxProperties"] = 2
    return found


@pytest.mark.parametrize("many", [0, 64])
def test_alternatives_with_values_in_common(many, monkeypatch):
    monkeypatch.setattr(combinators, "MANY", many)
    rng = random.Random(7)
    for _ in range(60):
        schema = {"oneOf": [alternative(rng) for _ in range(rng.randint(2, 4))]}
        if rng.random() < 0.3:
            schema = {"not": schema, "type": "object"}
        is_valid = jsonschema.Draft202012Validator(schema).is_valid
        found = json_schema(schema)
        for value in OBJECTS:
            assert found.accepts(json.dumps(value)) == is_valid(value), (schema, value)


def collection(size: int) -> dict:
    """Return a schema of ``size`` kinds of objects, and of objects of any kind that hold some of them."""

    def at(depth: int) -> dict:
        return {"type": "array", "minItems": 2, "items": at(depth - 1)} if depth else {"type": "number"}

    box = {"type": "array", "minItems": 2, "items": {"type": "number"}}
    members = [{"kind": {"const": i}, "at": at(1 + i), "box": box} for i in range(size)]
    some = [{"type": "object", "properties": each, "required": ["kind", "at"]} for each in members]
    held = {"type": "array", "items": {"oneOf": some}}
    members.append({"kind": {"type": "integer"}, "in": held, "box": box})
    return {"oneOf": [*some, {"type": "object", "properties": members[-1], "required": ["kind", "in"]}]}


@pytest.mark.parametrize("size", [3, 9])
def test_an_alternative_that_any_other_may_be(size):
    schema = collection(size)
    found, is_valid = json_schema(schema), jsonschema.Draft202012Validator(schema).is_valid
    points = [
        {"kind": 1, "at": [[1, 2], [3, 4]]},
        {"kind": 0, "at": [1, 2], "box": [1]},
        {"kind": 0, "at": [1, 2]},
    ]
    for kind, at, held, box in itertools.product(
        [0, 1, 30, "x", None],
        [None, [1, 2], [1], [[1, 2], [3, 4]]],
        [None, [], points[:1], points],
        [None, [1], [1, 2]],
    ):
        members = {"kind": kind, "at": at, "in": held, "box": box}
        value = {name: each for name, each in members.items() if each is not None}
        assert found.accepts(json.dumps(value)) == is_valid(value), value
