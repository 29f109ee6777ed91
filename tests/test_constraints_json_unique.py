"""``uniqueItems`` of values that are not few: what is accepted is never invalid, and pairs of strings are told apart."""

import itertools
import json
import random

import jsonschema
import pytest

import tractile as tt
from tractile.constraints.json.unique import CHECKSUMS

json_schema = tt.constraints.json_schema
WORDS = ["", "a", "b", "ab", "ba", "é", "~", "a\nb", '"', "a" * 61, "b-1", "b-2"]
VALUES = [*WORDS, 1, 1.0, True, None, [], ["a"], ["a", "a"], {}, {"a": 1}]


def checksum(text: str) -> int:
    return sum(byte for byte in text.encode() if byte < 128) % CHECKSUMS[0]


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


def test_many_listed_values():
    """Of listed values as many may stand in an array as there are not too many sets of them."""
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": list(range(40))}}
    constraint = json_schema(schema)
    for pair in itertools.product(range(40), repeat=2):
        assert constraint.accepts(json.dumps(pair)) == (pair[0] != pair[1])
    with pytest.raises(tt.TooManyStates):
        json_schema({**schema, "minItems": 6}).accepts("[]")


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
    refused = {"properties": {"tags": {**tags, "minItems": 3}}}
    with pytest.raises(tt.UnsupportedConstraint) as error:
        json_schema(refused)
    assert error.value.path == "/properties/tags/uniqueItems"


@pytest.mark.parametrize(
    "items", [{}, {"type": ["string", "null"]}, {"type": "object"}, {"type": "integer"}], ids=str
)
def test_other_values_are_refused(items):
    """What can be written in several ways is not told apart."""
    with pytest.raises(tt.UnsupportedConstraint, match="not few"):
        json_schema({"type": "array", "uniqueItems": True, "items": items})
