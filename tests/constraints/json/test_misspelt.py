"""Keywords that look misspelt: a warning names the one that was meant, once; what a schema allows stays the same."""

import logging

import pytest

import tractile as tt
from tractile.constraints.json.misspelt import distance, tell
from tractile.constraints.json.vocabulary import ANNOTATIONS
from tractile.errors import UnsupportedConstraint


@pytest.fixture
def told(caplog):
    tell.cache_clear()
    caplog.set_level(logging.WARNING, "tractile.constraints")
    return lambda: [record.getMessage() for record in caplog.records if "meant" in record.getMessage()]


@pytest.mark.parametrize(
    ("key", "value", "keyword"),
    [
        ("propertys", {"a": {"type": "integer"}}, "properties"),
        ("porperties", {}, "properties"),
        ("require", ["a"], "required"),
        ("min_length", 3, "minLength"),
        ("maxlength", 3, "maxLength"),
        ("ref", "#/$defs/x", "$ref"),
        ("item", {"type": "integer"}, "items"),
        ("patern", "^a", "pattern"),
        ("Type", "string", "type"),
        ("one_of", [{"type": "string"}], "oneOf"),
        ("additional-properties", False, "additionalProperties"),
    ],
)
def test_a_misspelt_keyword_is_named_once(told, key, value, keyword):
    schema = {"type": "object", "properties": {"in": {"anyOf": [{key: value}, {"type": "null"}]}}}
    c = tt.constraints.json_schema(schema)
    assert c.accepts('{"in": 3}')
    (message,) = told()
    assert "/properties/in/anyOf/0" in message
    assert repr(key) in message
    assert repr(keyword) in message
    tt.constraints.json_schema(schema)
    tt.explain(schema, "{")
    assert len(told()) == 1
    with pytest.raises(UnsupportedConstraint):
        tt.constraints.json_schema(schema, strict=True)


def test_annotations_are_not_taken_for_keywords(told):
    meant = {"note": "x", "label": "L", "example": 3, "order": 1, "x-order": 2, "nullable": True, "name": "n", "when": "now",
             "patern": 3, "propertys": "text", "options": ["a"], "enumNames": ["A"], "group": "g", "unit": "cm"}  # fmt: skip
    schema = {"type": "object", "properties": {"propertys": {"type": "integer", **meant}}, **meant}
    tt.constraints.json_schema(schema)
    silent = ANNOTATIONS - {"$schema", "$id", "id", "$vocabulary"}
    tt.constraints.json_schema({key: {} for key in sorted(silent)})
    tt.constraints.json_schema({"const": {"propertys": {}}, "enum": [{"propertys": {}}]})
    assert told() == []


def test_distances_are_those_by_definition():
    def slow(one, other):
        if not one or not other:
            return len(one) + len(other)
        best = min(
            slow(one[1:], other) + 1,
            slow(one, other[1:]) + 1,
            slow(one[1:], other[1:]) + (one[0] != other[0]),
        )
        if one[:2] == other[1::-1] and len(one) > 1 < len(other):
            best = min(best, slow(one[2:], other[2:]) + 1)
        return best

    words = ["", "a", "ab", "ba", "abc", "acb", "cab", "abcd", "badc", "xaby"]
    assert all(distance(one, other) == slow(one, other) for one in words for other in words)
