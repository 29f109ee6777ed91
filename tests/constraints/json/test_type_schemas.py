"""Types whose JSON Schema by Pydantic says less than the type: no text that a mask allows is refused by the type."""

import enum
import uuid
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Literal

import pytest
from texts import masked_texts

import tractile as tt

pydantic = pytest.importorskip("pydantic")
Field = pydantic.Field
Number = enum.IntEnum("Number", "ONE TWO")


class Bill(pydantic.BaseModel):
    total: Annotated[Decimal, Field(max_digits=4, decimal_places=2)]
    due: timedelta
    counts: dict[int, str]


TYPES = [
    (Decimal, ["12", '"12.50"', "-0.5"], ['"x"', '""', '"NaN"', '"1e5"']),
    (Annotated[Decimal, Field(max_digits=4, decimal_places=2)], ["99.99", "-7", '"36.48"', "0"], ["36483", "0.001", '"100.00"']),
    (Annotated[Decimal, Field(max_digits=4)], ["1234", "1.234", "0.0001"], ["12345", "1.2345", "0.00001"]),
    (Annotated[Decimal, Field(decimal_places=2)], ["123456.78", '"1.5"', "3"], ["0.001", '"0.001"']),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=2)], ["0.25", "-0.1"], ["1", "0"]),
    (Annotated[Decimal, Field(max_digits=20, decimal_places=2)], ["99.25", '"123456789012345678.25"'], ["0.125"]),
    (Annotated[Decimal, Field(ge=0, lt=10, multiple_of=Decimal("0.5"))], ["9.5", "0"], ["10", "-1", "0.25"]),
    (Annotated[Decimal, Field(gt=1, max_digits=3, decimal_places=1)], ["1.5", "99"], ["1", "100", "1.25"]),
    (dict[int, str], ['{"12": "a", "-3": ""}', "{}"], ['{"a": ""}', '{"1.5": ""}', '{"": ""}']),
    (dict[Annotated[int, Field(ge=3, le=5)], int], ['{"4": 1}'], ['{"2": 1}', '{"6": 1}']),
    (dict[Annotated[int, Field(gt=0)], int], ['{"4": 1}'], ['{"0": 1}', '{"-4": 1}']),
    (dict[float, int], ['{"1.5": 1}'], ['{"x": 1}']), (dict[Decimal, int], ['{"1.5": 1}'], ['{"x": 1}']),
    (dict[bool, int], ['{"true": 1}'], ['{"x": 1}']), (dict[Number, int], ['{"1": 1}'], ['{"3": 1}', '{"ONE": 1}']),
    (dict[Literal["a", "b"], int], ['{"a": 1}'], ['{"c": 1}']), (dict[tuple[int, int], int], ["{}"], ['{"[1, 2]": 1}']),
    (dict[date, int], ['{"2024-02-29": 1}'], ['{"x": 1}', '{"0000-01-01": 1}']), (dict[str, int], ['{"x": 1}'], []),
    (dict[uuid.UUID, int], ["{}"], ['{"x": 1}']), (dict[int | date, int], ['{"7": 1}', '{"2024-02-29": 1}'], ['{"x": 1}']),
    (dict[enum.Enum("E", {"R": "r", "G": 2}) | None, int], ['{"r": 1}'], ['{"2": 1}']),
    (dict[Annotated[str, Field(pattern="^a+$")], int], ['{"aa": 1}'], ['{"b": 1}']),
    (timedelta, ['"P1DT2H"', '"P3W"', '"PT90M"'], ['"P9894719Y"', '"PT99999999H"', '"P"']),
    (date, ['"2024-02-29"', '"0001-01-01"'], ['"0000-01-01"']), (time, ['"23:59:59.5Z"'], ['"23:59:60Z"']),
    (datetime, ['"2016-12-31T23:59:59Z"'], ['"2016-12-31T23:59:60Z"', '"0000-01-01T00:00:00Z"']),
    (complex, ['"1+2j"', '"-0.5"'], ['"x"']),
    (Bill, ['{"total": 1.25, "due": "P1D", "counts": {"3": "a"}}'], ['{"total": 125.25, "due": "P1D", "counts": {}}']),
]  # fmt: skip


@pytest.mark.parametrize(("described", "right", "wrong"), TYPES, ids=lambda part: str(part)[:60])
def test_a_text_of_a_type_is_accepted_exactly_if_the_type_reads_it(described, right, wrong):
    found = tt.constraints.output_type(described)
    assert not any(each.keyword == "format" for each in found.constraint.narrowed)
    for text in right:
        assert found.constraint.accepts(text)
        assert found.accepts(text)
    assert not any(map(found.constraint.accepts, wrong))
    assert found.accepts(found.constraint.shortest())


@pytest.mark.parametrize("described", [each for each, _, _ in TYPES], ids=lambda part: str(part)[:60])
def test_no_text_drawn_from_the_masks_is_refused_by_the_type(described):
    found = tt.constraints.output_type(described)
    for text in masked_texts(found.constraint, 0, 12):
        assert found.accepts(text), text
