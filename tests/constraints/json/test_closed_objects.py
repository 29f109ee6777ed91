"""Closed objects: ``open_objects=False`` and the parameters of tools close as ``unevaluatedProperties: false`` does."""

import json

import jsonschema
import pytest

import tractile as tt
from tractile.constraints import json_schema

S, I = {"type": "string"}, {"type": "integer"}
BRANCHES = {
    "type": "object",
    "properties": {"k": S},
    "required": ["k"],
    "anyOf": [{"properties": {"a": I}, "required": ["a"]}, {"properties": {"b": I}, "required": ["b"]}],
}
CASES = [
    ({"type": "object", "const": {"key": "a"}}, [{"key": "a"}], [{}]),
    ({"type": "object", "enum": [{"key": "a"}, {}]}, [{"key": "a"}, {}], [{"key": "b"}]),
    ({"properties": {"a": I}, "const": {"k": 1}}, [{"k": 1}], []),
    ({"type": "object"}, [{}, {"a": 1}], [1]),
    ({"type": "object", "properties": {}}, [{}], [{"a": 1}]),
    (BRANCHES, [{"k": "x", "a": 1}, {"k": "x", "a": 1, "b": 2}], [{"k": "x"}, {"k": "x", "a": 1, "c": 2}]),
    ({"type": "array", "items": BRANCHES}, [[{"k": "x", "a": 1}]], [[{"k": "x", "a": 1, "c": 2}]]),
    (
        {
            "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": I}}],
            "$defs": {"A": {"properties": {"a": I}}},
        },
        [{"a": 1, "b": 2}],
        [{"a": 1, "c": 2}],
    ),
    (
        {"properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"properties": {"a": I}}}},
        [{"x": {"a": 1}}, {}],
        [{"x": {"b": 1}}, {"y": 1}],
    ),
    ({"patternProperties": {"^x": {"type": "object"}}}, [{"x1": {"a": 1}}], [{"y": 1}]),
    ({"patternProperties": {"^x": {"properties": {"a": {}}}}}, [{"x1": {"a": 1}}], [{"x1": {"b": 1}}]),
    ({"type": "object", "propertyNames": {"pattern": "^a"}}, [{"ab": 1}], [{"b": 1}]),
    (
        {
            "properties": {"k": {"enum": [1, 2]}},
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"properties": {"v": I}},
        },
        [{"k": 1, "v": 2}, {"k": 2}],
        [{"k": 2, "v": 2}],
    ),
    (
        {"oneOf": [{"properties": {"a": I}, "required": ["a"]}, {"properties": {"b": I}, "required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}],
    ),
    (
        {
            "properties": {"a": {"properties": {"x": I}}},
            "allOf": [{"properties": {"a": {"required": ["x"]}}}],
        },
        [{"a": {"x": 1}}],
        [{"a": {}}, {"a": {"x": 1, "y": 1}}],
    ),
    (
        {"dependentSchemas": {"a": {"properties": {"b": I}}}, "properties": {"a": {}}},
        [{"a": 1, "b": 1}, {"a": 1}],
        [{"b": 1}],
    ),
    ({"properties": {"a": {"not": S}}}, [{"a": {"q": 1}}], [{"a": "x"}, {"b": 1}]),
    ({"properties": {"a": I}, "unevaluatedProperties": S}, [{"a": 1, "z": "s"}], [{"z": 1}]),
    ({"properties": {"a": I}, "additionalProperties": True}, [{"a": 1, "z": "s"}], [{"a": "z"}]),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES, ids=[str(i) for i in range(len(CASES))])
def test_objects_close_around_all_schemas_that_apply(schema, valid, invalid):
    constraint = json_schema(schema, open_objects=False)
    assert [v for v in valid if not constraint.accepts(json.dumps(v))] == []
    assert [v for v in invalid if constraint.accepts(json.dumps(v))] == []


def test_unevaluated_properties_keep_their_meaning_in_closed_objects():
    schema = {"properties": {"a": I}, "const": {"k": 1}, "unevaluatedProperties": False}
    assert json_schema(schema, open_objects=False).is_empty()  # `const` evaluates no members


def test_many_alternatives_that_exclude_each_other_are_closed():
    kinds = [
        {"type": "object", "properties": {f"p{i}": S, "kind": {"const": i}}, "required": ["kind", f"p{i}"]}
        for i in range(30)
    ]
    constraint = json_schema({"anyOf": kinds}, open_objects=False)
    assert constraint.accepts('{"p3": "x", "kind": 3}')
    assert not constraint.accepts('{"p3": "x", "kind": 4}')


def test_tools_with_alternatives_stand_beside_others():
    tools = [
        {"name": "f", "parameters": BRANCHES},
        {"name": "g", "parameters": {"type": "object", "properties": {}}},
    ]
    calls = tt.constraints.function_calls(tools)
    assert calls.accepts('{"name": "f", "arguments": {"k": "x", "a": 1}}')
    assert not calls.accepts('{"name": "f", "arguments": {"k": "x", "a": 1, "c": 1}}')
    assert not calls.accepts('{"name": "f", "arguments": {"k": "x"}}')
    assert calls.accepts('{"name": "g", "arguments": {}}')


def test_arguments_of_combined_objects_are_closed():
    definitions = {
        "P": {"allOf": [{"$ref": "#/$defs/B"}, {"properties": {"y": I}}]},
        "B": {"type": "object", "properties": {"x": I}},
    }
    parameters = {"type": "object", "properties": {"k": {"$ref": "#/$defs/P"}}, "$defs": definitions}
    calls = tt.constraints.function_calls([{"name": "f", "parameters": parameters}])
    assert calls.accepts('{"name": "f", "arguments": {"k": {"x": 1, "y": 2}}}')
    assert not calls.accepts('{"name": "f", "arguments": {"k": {"x": 1, "z": 2}}}')


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"$ref": "#/$defs/P", "unevaluatedProperties": False}},
        {"not": {"$ref": "#/$defs/P", "unevaluatedProperties": {"type": "string"}}},
        {"not": {"allOf": [{"$ref": "#/$defs/P"}, {"properties": {"y": True}}], "unevaluatedProperties": False}},
        {"not": {"prefixItems": [{"type": "integer"}], "unevaluatedItems": False}},
        {"oneOf": [{"$ref": "#/$defs/P", "unevaluatedProperties": False}, {"properties": {"y": True}, "required": ["y"]}]},
        {"if": {"$ref": "#/$defs/P", "unevaluatedProperties": False}, "then": {"required": ["x"]}},
    ],
)  # fmt: skip
def test_what_violates_unevaluated(schema):
    schema = {**schema, "$defs": {"P": POINT}}
    c, oracle = tt.constraints.json_schema(schema), jsonschema.Draft202012Validator(schema)
    values = [1, [], [1], [1, 2], ["a"], *(
        {**x, **y, **z} for x in ({}, {"x": 1}, {"x": "a"}) for y in ({}, {"y": 1}) for z in ({}, {"z": "a"}, {"z": 1})
    )]  # fmt: skip
    assert [c.accepts(json.dumps(value)) for value in values] == [oracle.is_valid(value) for value in values]


def test_what_violates_alternatives_that_declare_other_members_is_refused():
    both = {"anyOf": [POINT, {"properties": {"y": True}}], "unevaluatedProperties": False}
    with pytest.raises(tt.errors.UnsupportedConstraint, match=r"declare different members .* \(at /not\)"):
        tt.constraints.json_schema({"not": both})
