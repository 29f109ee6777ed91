"""The names of drafts, their own documents by ``$ref``, dynamic references, and the keywords of draft 3."""

import json
import sys

import jsonschema
import pytest
from jsonschema_specifications import REGISTRY

from tractile.constraints import json_schema
from tractile.errors import UnsupportedConstraint

ITEMS = {"type": "array", "items": [{"type": "integer"}]}
NAMES = {
    4: ["http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft-04/schema", "draft-04", "draft4"],
    6: ["http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-06/schema/#", "json-schema.org/draft-06/schema#"],
    7: [
        "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema/",
        "https://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/hyper-schema#",
        "//json-schema.org/draft-07/schema",
        "http://www.json-schema.org/draft-07/schema#", "Draft-07", "draft7", " http://json-schema.org/draft-07/schema ",
    ],
    2019: ["https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft/2019-09/schema#", "2019-09"],
    2020: [
        "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#", "https://json-schema.org/draft/2020-12/schema/", "draft-2020-12",
        "https://spec.openapis.org/oas/3.1/dialect/base",
    ],
    0: ["http://json-schema.org/schema#", "https://json-schema.org/schema", ""],
}  # fmt: skip


def draft_read(name: str) -> int:
    """Return the draft in which a schema is read that names one, by what its keywords then mean."""

    def accepts(schema, text):
        return json_schema({"$schema": name} | schema, on_narrowed="ignore").accepts(text)

    try:
        accepts(ITEMS, "[1]")
    except UnsupportedConstraint:
        return 2020
    is_new = not accepts({"type": "array", "contains": {"const": 1}, "maxContains": 1}, "[1, 1]")
    if is_new:
        return 0 if not accepts({"dependencies": {"a": ["b"]}}, '{"a": 1}') else 2019
    if not accepts({"if": {"type": "integer"}, "then": False}, "1"):
        return 7
    return 4 if accepts({"const": 1}, "2") else 6


@pytest.mark.parametrize(("draft", "name"), [(d, name) for d, names in NAMES.items() for name in names])
def test_every_name_of_a_draft_is_read(draft, name):
    assert draft_read(name) == draft


# ---------------------------------------------------------------- the documents of json-schema.org

META = [
    "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema",
]  # fmt: skip
SCHEMAS = [
    {}, {"type": "string"}, {"type": "strin"}, {"items": {"type": 3}}, {"items": {"type": "null"}}, {"minLength": -1}, [], "a",
    {"properties": {"a": {"minLength": -1}}}, {"allOf": [{"properties": {"a": {"minLength": 1}}}]}, {"allOf": []}, {"enum": 3},
    {"not": {"required": ["a", "a"]}}, {"not": {"required": ["a"]}}, {"anyOf": [{"multipleOf": 0}]}, {"x": 1}, {"title": 3},
    {"definitions": {"a": {"type": ["null", "integer"]}}}, {"additionalProperties": {"uniqueItems": 1}}, {"pattern": 1},
]  # fmt: skip


@pytest.mark.parametrize("uri", META)
@pytest.mark.parametrize("where", ["itself", "$ref", "$ref without $schema", "member"])
def test_meta_schemas(uri, where):
    contents = REGISTRY.contents(uri.rstrip("#"))
    reference = {"$ref": uri}
    schema = {
        "itself": contents,
        "$ref": {"$schema": uri, **reference},
        "$ref without $schema": reference,
        "member": {"$schema": uri, "type": "object", "properties": {"s": reference}, "required": ["s"]},
    }[where]
    found = json_schema(schema, on_narrowed="ignore", formats="annotate")
    is_valid = jsonschema.validators.validator_for(contents)(contents).is_valid
    for value in SCHEMAS:
        written = {"s": value} if where == "member" else value
        assert found.accepts(json.dumps(written)) == is_valid(value), value


def test_the_package_that_has_them_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_specifications", None)
    with pytest.raises(
        UnsupportedConstraint, match="pip install jsonschema-specifications, or give it in documents="
    ):
        json_schema({"$ref": META[2]})
    given = json_schema({"$ref": META[2]}, documents={META[2].rstrip("#"): {"const": 1}})
    assert given.accepts("1")
    assert not given.accepts("{}")


# ---------------------------------------------------------------- dynamic references

# ---------------------------------------------------------------- draft 3
