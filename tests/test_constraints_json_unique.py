"""``uniqueItems`` of values that are not few: what is accepted is never invalid, and pairs of strings are told apart."""

import itertools
import json
import random

import jsonschema
import pytest
from finite import finite_json

from tractile.constraints.json.lazy.pairs import CHECKSUMS, WEIGHTS

json_schema = finite_json
WORDS = ["", "a", "b", "ab", "ba", "é", "~", "a\nb", '"', "a" * 61, "b-1", "b-2"]
VALUES = [*WORDS, 1, 1.0, True, None, [], ["a"], ["a", "a"], {}, {"a": 1}]


def checksum(text: str) -> int:
    counts = [byte if byte < 128 else byte // 16 if byte < 192 else 0 for byte in text.encode()]
    return sum(WEIGHTS[i % len(WEIGHTS)] * count for i, count in enumerate(counts)) % CHECKSUMS


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
def test_what_is_accepted_is_exactly_what_the_module_says(items, least):
    """All arrays of up to three of the values."""
    schema = {"type": "array", "uniqueItems": True, "items": items, "minItems": least}
    validator, of_item = jsonschema.Draft202012Validator(schema), jsonschema.Draft202012Validator(items)
    constraint = json_schema(schema)
    rng = random.Random(0)
    triples = [[rng.choice(VALUES) for _ in range(3)] for _ in range(100)]
    for found in [[], *([v] for v in VALUES), *map(list, itertools.product(VALUES, repeat=2)), *triples]:
        accepted = constraint.accepts(json.dumps(found, ensure_ascii=False))
        assert validator.is_valid(found) or not accepted, found
        if all(map(of_item.is_valid, found)) and "maxLength" not in items and len(found) >= least:
            texts = [v for v in found if isinstance(v, str)]
            plain = all(json.dumps(text, ensure_ascii=False) == f'"{text}"' for text in texts)
            told = len(found) == len(texts) == 2 and checksum(found[0]) != checksum(found[1])
            assert accepted == (plain and (len(found) < 2 or told)), found


@pytest.mark.parametrize("whitespace", ["none", "flexible"])
def test_pairs_in_other_styles(whitespace):
    """White space is no part of what is told apart, and escapes hide nothing."""
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
    constraint = json_schema(schema, whitespace=whitespace)
    assert all(constraint.accepts(text) for text in ("[]", '["a","b"]', '["a"]'))
    assert constraint.accepts('[ "a" , "b"\n]') == (whitespace == "flexible")
    assert not any(constraint.accepts(text) for text in ('["a","a"]', '[ "a","a" ]', '["é","\\u00e9"]'))


def test_letters_in_another_order_and_beyond_ascii():
    constraint = json_schema({"type": "array", "uniqueItems": True, "items": {"type": "string"}})
    for pair in (["ab", "ba"], ["listen", "silent"], ["中", "国"]):
        assert constraint.accepts(json.dumps(pair, ensure_ascii=False)), pair


def of_listed(values, **more):
    return json_schema({"type": "array", "uniqueItems": True, "items": {"enum": values}, **more})


def most(constraint, values):
    """The most of the values in a row that the constraint accepts as an array."""
    return max(k for k in range(len(values) + 1) if constraint.accepts(json.dumps(values[:k])))


def test_listed_values_in_any_order_where_they_are_few_and_else_in_their_order():
    """Few values exact; of more, each set in the order of the list."""
    found = []
    for n in (1, 3, 10, 11, 12, 13, 14, 16, 18, 20, 40, 100, 200):
        values = [f"v{i}" for i in range(n)]
        random.Random(n).shuffle(values)
        constraint = of_listed(values)
        found.append(most(constraint, values[::-1]))
        assert most(constraint, values) == n if n <= 40 else most(constraint, values[::10]) == n // 10
        rng = random.Random(0)
        for _ in range(100):
            chosen = rng.sample(values, rng.randint(0, min(n, found[-1])))
            assert constraint.accepts(json.dumps(chosen)), chosen
            assert not constraint.accepts(json.dumps([*chosen, rng.choice(chosen)] if chosen else [1]))
    assert found[:3] == [1, 3, 10]
    assert min(found) >= 1


@pytest.mark.parametrize(
    "more", [{"minItems": 6}, {"maxItems": 5}, {"minItems": 10, "maxItems": 12}], ids=str
)
@pytest.mark.parametrize("n", [7, 11, 12, 40, 200])
def test_bounds_on_the_number_of_listed_values(n, more):
    values = list(range(n))
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": values}, **more}
    validator, constraint = jsonschema.Draft202012Validator(schema), of_listed(values, **more)
    rng = random.Random(0)
    for _ in range(200):
        chosen = sorted(rng.sample(values, rng.randint(0, min(n, 13))), reverse=rng.random() < 0.5)
        chosen += [rng.choice(chosen)] if chosen and rng.random() < 0.3 else []
        assert validator.is_valid(chosen) or not constraint.accepts(json.dumps(chosen)), chosen
    assert constraint.is_empty() == (more.get("minItems", 0) > n)
    if not constraint.is_empty():
        assert validator.is_valid(json.loads(constraint.shortest()))


def test_many_that_must_stand():
    constraint = of_listed(list(range(200)), minItems=30)
    assert constraint.accepts(json.dumps(list(range(0, 200, 6))))
    assert not constraint.accepts(json.dumps([1] * 30))


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
    without = json_schema({"properties": {"tags": {**tags, "minItems": 3}}}, on_narrowed="ignore")
    assert without.accepts("{}")
    assert not without.accepts('{"tags": ["a", "b", "c"]}')
    assert ("/properties/tags", "uniqueItems") in {(cut.path, cut.keyword) for cut in without.narrowed}


@pytest.mark.parametrize(
    "items", [{}, {"type": ["string", "null"]}, {"type": "object"}, {"type": "integer"}], ids=str
)
def test_of_other_values_there_is_one(items):
    """What can be written in several ways is not told apart."""
    constraint = json_schema({"type": "array", "uniqueItems": True, "items": items}, on_narrowed="ignore")
    assert "uniqueItems" in {cut.keyword for cut in constraint.narrowed}
    some = [value for value in (1, 2, "", {}) if jsonschema.Draft202012Validator(items).is_valid(value)]
    assert all(constraint.accepts(json.dumps([value])) for value in some)
    assert not constraint.accepts(json.dumps([some[0], some[-1]]))
