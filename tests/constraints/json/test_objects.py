"""Objects, against ``jsonschema``: alternatives that have values in common, members that must be there, closed ones."""

import itertools
import json
import random

import jsonschema
import pytest

from tractile.constraints import json_schema
from tractile.constraints.json import combinators
from tractile.constraints.json.nodes import objects
from tractile.errors import TooManyStates

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


def letters(some):
    """Objects that have each of these letters in some name."""
    lacking = ({"not": {"propertyNames": {"pattern": f"^[^{each}]*$"}}} for each in some)
    return {"allOf": [{"type": "object"}, *lacking]}


def test_five_needed_letters_in_one_name_or_in_two():
    found = json_schema(letters("abcde"))
    assert found.accepts('{"abcde": 1}')
    assert found.accepts('{"ab": 1, "cde": 1}')
    assert not found.accepts('{"ab": 1, "cd": 1}')


def test_more_than_can_be_told_apart_is_refused():
    with pytest.raises(TooManyStates, match=r"members of which one must be there.*at /"):
        json_schema(letters("abcdefghijkl"))


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_smaller_bound_changes_no_answer_but_to_an_error(monkeypatch, most):
    monkeypatch.setattr(objects, "MOST_TOGETHER", most)
    for size in range(1, 4):
        schema = letters("abc"[:size])
        if size > most:
            with pytest.raises(TooManyStates):
                json_schema(schema)
            continue
        found, valid = json_schema(schema), jsonschema.Draft202012Validator(schema).is_valid
        for value in itertools.permutations(["a", "ab", "c", "x"], 2):
            assert found.accepts(json.dumps(dict.fromkeys(value, 1))) == valid(dict.fromkeys(value, 1))


def test_unevaluated_properties_keep_their_meaning_in_closed_objects():
    schema = {"properties": {"a": {"type": "integer"}}, "const": {"k": 1}, "unevaluatedProperties": False}
    assert json_schema(schema, open_objects=False).is_empty()  # `const` evaluates no members


def test_many_alternatives_that_exclude_each_other_are_closed():
    kinds = [
        {
            "type": "object",
            "properties": {f"p{i}": {"type": "string"}, "kind": {"const": i}},
            "required": ["kind", f"p{i}"],
        }
        for i in range(30)
    ]
    constraint = json_schema({"anyOf": kinds}, open_objects=False)
    assert constraint.accepts('{"p3": "x", "kind": 3}')
    assert not constraint.accepts('{"p3": "x", "kind": 4}')
