"""``uniqueItems``, against ``jsonschema``."""

import itertools
import json
import random

import jsonschema
import pytest

from tractile.constraints import json_schema

WORDS = ["", "a", "b", "ab", "ba", "é", "~", "a\nb", '"', "a" * 61, "b-1", "b-2"]
VALUES = [*WORDS, 1, 1.0, True, None, [], ["a"], ["a", "a"], {}, {"a": 1}]


@pytest.mark.parametrize(
    "items",
    [
        {"type": "string"},
        {"type": "string", "pattern": "^b"},
        {"type": "string", "maxLength": 20},
        {"anyOf": [{"type": "string", "pattern": "^a"}, {"enum": ["b-1", "é"]}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("least", [0, 1, 2])
def test_what_is_accepted_is_valid_and_all_that_is(items, least):
    """All arrays of up to three of the values."""
    schema = {"type": "array", "uniqueItems": True, "items": items, "minItems": least}
    validator = jsonschema.Draft202012Validator(schema)
    constraint = json_schema(schema)
    rng = random.Random(0)
    triples = [[rng.choice(VALUES) for _ in range(3)] for _ in range(100)]
    for found in [[], *([v] for v in VALUES), *map(list, itertools.product(VALUES, repeat=2)), *triples]:
        assert constraint.accepts(json.dumps(found, ensure_ascii=False)) == validator.is_valid(found), found


def of_listed(values, **more):
    return json_schema({"type": "array", "uniqueItems": True, "items": {"enum": values}, **more})


@pytest.mark.parametrize("n", [1, 3, 12, 40, 200])
def test_listed_values_in_any_order(n):
    values, rng = [f"v{i}" for i in range(n)], random.Random(n)
    rng.shuffle(values)
    constraint = of_listed(values)
    for _ in range(40):
        chosen = rng.sample(values, rng.randint(0, n))
        assert constraint.accepts(json.dumps(chosen)), chosen
        assert not constraint.accepts(json.dumps([*chosen, rng.choice(chosen)] if chosen else [1]))


def test_inside_objects_and_recursion():
    """Arrays of such arrays; the places in a message."""
    tags = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
    node = {
        "type": "object",
        "properties": {"tags": tags, "children": {"type": "array", "items": {"$ref": "#"}}},
    }
    constraint = json_schema(node)
    assert constraint.accepts('{"tags": ["x", "y"], "children": [{"tags": ["x"]}, {"tags": []}]}')
    assert not constraint.accepts('{"children": [{"tags": ["x", "x"]}]}')


def test_a_finite_automaton_has_one_item_and_says_so():
    constraint = json_schema({"type": "array", "uniqueItems": True, "items": {"type": "string"}})
    found = constraint.within()
    assert [cut.keyword for cut in found.narrowed] == ["uniqueItems"]
    assert found.accepts('["x"]')
    assert not found.accepts('["x", "y"]')
