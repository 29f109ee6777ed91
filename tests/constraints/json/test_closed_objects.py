"""Closed objects: ``open_objects=False`` and the parameters of tools close as ``unevaluatedProperties: false`` does."""

from tractile.constraints import json_schema

S, I = {"type": "string"}, {"type": "integer"}


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
