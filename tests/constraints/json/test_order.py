"""The order of members in JSON Schema: every way in which they may stand is exactly what it says, and never invalid."""

from dataclasses import dataclass
from typing import NotRequired

from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

import tractile as tt


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
