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


@pytest.mark.parametrize(
    ("draft", "name"), [(draft, name) for draft, names in NAMES.items() for name in names]
)
def test_every_name_of_a_draft_is_read(draft, name):
    assert draft_read(name) == draft


@pytest.mark.parametrize(
    "name", ["http://json-schema.org/draft-99/schema", "https://example.org/schema", 7, "7", "schema"]
)
def test_other_names_are_refused(name):
    with pytest.raises(UnsupportedConstraint, match="is no known draft"):
        json_schema({"$schema": name})


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


def test_parts_of_a_meta_schema_by_either_scheme():
    for uri in (
        "https://json-schema.org/draft-07/schema#/definitions/simpleTypes",
        "http://json-schema.org/draft/2020-12/meta/validation#/$defs/simpleTypes",
    ):
        found = json_schema({"$ref": uri})
        assert found.accepts('"null"')
        assert not found.accepts('"nil"')


def test_a_vocabulary_alone_describes_values_in_it():
    found = json_schema({"$ref": "https://json-schema.org/draft/2020-12/meta/applicator"})
    assert found.accepts('{"not": {"type": 3}}')
    assert not found.accepts('{"not": {"not": 3}}')


def test_a_document_of_another_draft_is_refused():
    schema = {"$schema": META[2], "properties": {"s": {"$ref": META[4]}}}
    with pytest.raises(UnsupportedConstraint, match="of another draft than the document") as error:
        json_schema(schema)
    assert error.value.path == "/properties/s/$ref"
    with pytest.raises(UnsupportedConstraint, match="meta-schema of draft 3"):
        json_schema({"$ref": "http://json-schema.org/draft-03/schema#"})
    with pytest.raises(UnsupportedConstraint, match="leads out of the document"):
        json_schema({"$ref": "http://json-schema.org/draft-07/links#"})


def test_the_package_that_has_them_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_specifications", None)
    with pytest.raises(
        UnsupportedConstraint, match=r"pip install 'tractile\[schemas\]', or give it in documents="
    ):
        json_schema({"$ref": META[2]})
    given = json_schema({"$ref": META[2]}, documents={META[2].rstrip("#"): {"const": 1}})
    assert given.accepts("1")
    assert not given.accepts("{}")


# ---------------------------------------------------------------- dynamic references

TREE = {
    "$id": "https://example.org/tree",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}
STRICT = {
    "$id": "https://example.org/strict",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
}
TREES = [
    {"children": [{"daat": 1}]},
    {"children": [{"data": 1}]},
    {"daat": 1},
    {"children": [{"children": [{"x": 1}]}]},
    3,
]


@pytest.mark.parametrize(
    "schema",
    [
        STRICT | {"$defs": {"t": TREE}},
        {"$id": "https://example.org/main", "$ref": "strict", "$defs": {"t": TREE, "s": STRICT}},
        {"$id": "https://example.org/main", "$ref": "tree", "$defs": {"t": TREE, "s": STRICT}},
    ],
)
def test_a_dynamic_reference_with_one_target(schema):
    schema = {"$schema": META[4], **schema}
    found, is_valid = json_schema(schema), jsonschema.Draft202012Validator(schema).is_valid
    verdicts = [is_valid(tree) for tree in TREES]
    assert [found.accepts(json.dumps(tree)) for tree in TREES] == verdicts
    assert len(set(verdicts)) == 2


def test_a_dynamic_reference_with_several_targets_is_refused():
    either = {"anyOf": [{"$ref": "tree"}, {"$ref": "strict"}]}
    schema = {"$id": "https://example.org/main", **either, "$defs": {"t": TREE, "s": STRICT}}
    with pytest.raises(UnsupportedConstraint, match="depends on what refers to it"):
        json_schema(schema)


def test_a_recursive_reference_with_one_target():
    tree = {
        "$id": "tree",
        "$recursiveAnchor": True,
        "type": "object",
        "properties": {"c": {"items": {"$recursiveRef": "#"}}},
    }
    schema = {
        "$schema": META[3], "$id": "https://example.org/strict", "$recursiveAnchor": True, "$ref": "tree",
        "unevaluatedProperties": False, "$defs": {"t": tree},
    }  # fmt: skip
    found, is_valid = json_schema(schema), jsonschema.Draft201909Validator(schema).is_valid
    for value in ({"c": [{"x": 1}]}, {"c": [{"c": [{}]}]}, {"c": [{"c": [{"x": 1}]}]}, {"x": 1}):
        assert found.accepts(json.dumps(value)) == is_valid(value)


# ---------------------------------------------------------------- draft 3

DRAFT_3 = "http://json-schema.org/draft-03/schema#"


@pytest.mark.parametrize("named", [{}, {"$schema": DRAFT_3}])
@pytest.mark.parametrize(
    ("schema", "path", "match"),
    [
        ({"divisibleBy": 2}, "/divisibleBy", "'divisibleBy' is a keyword of draft 3.* 'multipleOf'"),
        ({"items": {"disallow": "string"}}, "/items/disallow", "'disallow' is a keyword of draft 3.* 'not'"),
        ({"extends": {}}, "/extends", "'extends' is a keyword of draft 3.* 'allOf'"),
        (
            {"properties": {"a": {"required": True}}},
            "/properties/a/required",
            "'required': true is of draft 3",
        ),
    ],
)
def test_keywords_of_draft_3_are_refused_by_name(named, schema, path, match):
    with pytest.raises(UnsupportedConstraint, match=match) as error:
        json_schema(named | schema)
    assert error.value.path == path


def test_what_draft_3_shares_with_draft_4_is_read():
    found = json_schema(
        {"$schema": DRAFT_3, "type": "object", "properties": {"extends": {"type": "integer"}}}
    )
    assert found.accepts('{"extends": 1}')
    assert not found.accepts('{"extends": "a"}')


def test_later_drafts_do_not_know_the_keywords_of_draft_3():
    assert json_schema({"$schema": META[2], "divisibleBy": 2}).accepts("3")
