"""The order of members in JSON Schema: every way in which they may stand is exactly what it says, and never invalid."""

import itertools
import json
from dataclasses import dataclass
from typing import NotRequired

import jsonschema
import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

import tractile as tt

json_schema = tt.constraints.json_schema


def test_orders_of_combined_schemas():
    """The own order of each alternative; of what a schema combines, as it is written or its own first."""
    one = {"properties": {"id": {}, "result": {}}, "required": ["id", "result"]}
    two = {"properties": {"error": {"const": 1}, "id": {}}, "required": ["error", "id"]}
    either = json_schema({"type": "object", "anyOf": [one, two]}, order="declared")
    assert either.accepts('{"id": 1, "result": 2}')
    assert either.accepts('{"error": 1, "id": 2}')
    assert either.accepts('{"id": 1, "result": 2, "error": 3}')
    assert not either.accepts('{"result": 2, "error": 3, "id": 1}')
    base = {"properties": {"a": {}, "b": {}}}
    for schema in ({"allOf": [base], "properties": {"c": {}}}, {"properties": {"c": {}}, "allOf": [base]}):
        closed = {"type": "object", **schema, "unevaluatedProperties": False}
        constraint = json_schema(closed, order="declared")
        assert constraint.accepts('{"c": 1, "a": 1, "b": 1}')
        assert constraint.accepts('{"a": 1, "b": 1, "c": 1}') == (next(iter(schema)) == "allOf")
        assert not constraint.accepts('{"b": 1, "a": 1, "c": 1}')
    inner = {"allOf": [base], "properties": {"c": {}}}
    nested = json_schema({"type": "object", "allOf": [inner], "properties": {"d": {}}})
    assert all(nested.accepts(t) for t in ('{"a": 1, "c": 1, "d": 1}', '{"d": 1, "c": 1, "a": 1}'))


def test_several_members_that_must_exist():
    """Names that a pattern or an enum lists are taken one by one; of others one member does for all that must exist."""
    values = [[n, v] for n in ("1", "2", "3", "7") for v in (1, "s")]
    every = [dict(pairs) for k in range(3) for pairs in itertools.combinations(values, k)]
    listed = {
        "type": "object",
        "patternProperties": {"^[0-9]$": {"type": "integer"}},
        "additionalProperties": False,
        "not": {
            "anyOf": [
                {"patternProperties": {"^(1|3)$": False}},
                {"propertyNames": {"not": {"enum": ["2", "3"]}}},
            ]
        },
    }
    alike = {"type": "object", "allOf": [{"not": {"propertyNames": {"enum": [n, "1"]}}} for n in ("2", "3")]}
    single = {
        "type": "object",
        "allOf": [{"not": {"patternProperties": {p: {"type": "string"}}}} for p in ("[27]", "[37]")],
        "maxProperties": 1,
    }
    for schema in (listed, alike, single):
        constraint, validator = json_schema(schema, order="any"), jsonschema.Draft202012Validator(schema)
        for value in every:
            assert constraint.accepts(json.dumps(value)) == validator.is_valid(value), (schema, value)
    both = json_schema({**single, "maxProperties": 2})
    assert both.accepts('{"7": 1}')
    assert not both.accepts('{"2": 1, "7": "s"}')


@pytest.mark.parametrize("order", ["declared", "auto", "any"])
def test_members_that_must_exist_fill_the_object(order):
    """Where there is place for no more than must exist, there are no more of their kind either."""
    kind = {"additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"], "maxProperties": 2, "not": kind}
    constraint = json_schema({"allOf": [schema, {"not": {"properties": {"a": {}}, **kind}}]}, order=order)
    assert constraint.accepts('{"a": 1, "x": "s"}')
    assert not constraint.accepts('{"a": 1, "x": "s", "y": "s"}')
    assert not constraint.accepts('{"x": "s", "y": "s"}')


class Reasoned(BaseModel):
    reasoning: str
    answer: int
    sure: bool = True


@dataclass
class Inner:
    b: int
    a: Reasoned | None


class Typed(TypedDict):
    z: Inner
    y: NotRequired[int]


def test_classes_have_their_members_in_declared_order_and_schemas_in_any():
    text = '{"reasoning": "Hm.", "answer": 3, "sure": false}'
    turned = '{"answer": 3, "reasoning": "Hm.", "sure": false}'
    for type_, before, after in (
        (Reasoned, "", ""),
        (list[Reasoned], "[", "]"),
        (Inner, '{"b": 1, "a": ', "}"),
        (Typed, '{"z": {"b": 1, "a": ', '}, "y": 1}'),
    ):
        kind = tt.constraints.output_type(type_)
        assert kind.constraint.accepts(before + text + after)
        assert not kind.constraint.accepts(before + turned + after)
        for found in (
            tt.constraints.json_schema(type_, order="any"),
            tt.constraints.output_type(type_, order="any").constraint,
            tt.constraints.output_type(TypeAdapter(type_).json_schema()).constraint,
        ):
            assert found.accepts(before + text + after)
            assert found.accepts(before + turned + after)
    assert not tt.constraints.output_type(Inner).constraint.accepts('{"a": null, "b": 1}')
    assert not tt.constraints.output_type(Typed).constraint.accepts('{"y": 1, "z": {"b": 1, "a": null}}')
    assert tt.constraints.output_type(dict[str, int]).constraint.accepts('{"b": 1, "a": 2}')
