"""References to other schemas: the same verdicts as the jsonschema package with a registry of the documents."""

import json

import pytest
from jsonschema import validators
from referencing import Registry, Resource

from tractile.constraints import json_schema

DRAFT = {4: "http://json-schema.org/draft-04/schema#", 7: "http://json-schema.org/draft-07/schema#"}
DRAFT[2020] = "https://json-schema.org/draft/2020-12/schema"
BASE = "https://example.org/schemas/"
INSTANCES = [
    1, 7, "a", "b", None, True, [], [1], ["a", "b"], {}, {"x": 1}, {"x": "a"}, {"x": {"x": 1}}, {"next": None},
]  # fmt: skip
INSTANCES += [
    {"next": {"next": None}}, {"next": 3}, {"items": ["a"]}, {"items": [1]}, {"v": 1, "w": "a"}, {"v": 1, "w": 2},
]  # fmt: skip


def documents(draft):
    name, defs = ("id" if draft == 4 else "$id"), ("$defs" if draft == 2020 else "definitions")
    return {
        f"{BASE}letter.json": {"enum": ["a", "b"]},
        f"{BASE}parts.json": {
            name: f"{BASE}parts.json",
            defs: {"n": {"type": "integer", "maximum": 5}, "letters": {"type": "array", "items": {"$ref": "letter.json"}}},
        },
        f"{BASE}chain.json": {
            "type": "object", "additionalProperties": False,
            "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}, {"$ref": "back.json"}]}},
        },
        f"{BASE}back.json": {"$ref": "chain.json#/properties/next/anyOf/0"},
        f"{BASE}same.json": {"$ref": "letter.json"},
    }  # fmt: skip


def schemas(draft):
    defs = "$defs" if draft == 2020 else "definitions"
    ref = {"$ref": f"{BASE}parts.json#/{defs}/n"}
    yield {"$ref": f"{BASE}letter.json"}
    yield {"$ref": f"{BASE}same.json"}
    yield {"$ref": f"{BASE}chain.json"}
    yield {"type": "object", "properties": {"x": ref, "items": {"$ref": f"{BASE}parts.json#/{defs}/letters"}}}
    yield {
        "anyOf": [ref, {"type": "array", "items": {"$ref": f"{BASE}letter.json"}}],
        defs: {"n": {"type": "null"}},
    }
    yield {"properties": {"v": ref, "w": {"$ref": f"{BASE}letter.json"}}, "type": "object"}
    yield {"id" if draft == 4 else "$id": f"{BASE}main.json", "allOf": [{"$ref": "letter.json"}]}


@pytest.mark.parametrize("draft", [4, 7, 2020])
@pytest.mark.parametrize("number", range(7))
def test_verdicts_are_those_of_a_registry(draft, number):
    schema = {"$schema": DRAFT[draft]} | list(schemas(draft))[number]
    known = documents(draft)
    dialect = DRAFT[draft]
    registry = Registry().with_resources(
        (uri, Resource.from_contents({"$schema": dialect} | one)) for uri, one in known.items()
    )
    validator = validators.validator_for(schema)(schema, registry=registry)
    expected = [validator.is_valid(instance) for instance in INSTANCES]
    for given in (known, registry):
        constraint = json_schema(schema, documents=given)
        assert [constraint.accepts(json.dumps(instance)) for instance in INSTANCES] == expected
    assert len(set(expected)) == 2
