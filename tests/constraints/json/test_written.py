"""How values are written and read: numbers, formats by draft, white space, members that count, and classes as schemas."""

import dataclasses
import json
from typing import Literal

import pytest
from pydantic import BaseModel

import tractile as tt
from tractile.constraints import json_schema

DRAFT_7, DRAFT_2020 = (
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
)


class Inner(BaseModel):
    x: int
    f: float = 1.0


class Model(BaseModel):
    n: int
    inner: Inner | None = None
    extra: dict[str, int] = {}
    e: Literal[3, 4] = 3


class Nothing(BaseModel):
    pass


@dataclasses.dataclass
class Data:
    n: int
    m: list[Inner] = dataclasses.field(default_factory=list)


def of(constraint, texts):
    return [text for text in texts if constraint.accepts(text)]


@pytest.mark.parametrize(
    ("described", "good", "bad"),
    [
        (
            Model,
            ['{"n": 3}', '{"n": -3, "extra": {"q": 4}}', '{"n": 3, "e": 4}', '{"n": 3, "inner": {"x": 1, "f": 2.0}}',
             '{"n": 3, "inner": {"x": 1, "f": 1.5}}', '{"n": 3, "inner": {"x": 1, "f": 1e-07}}'],
            ['{"n": 3.0}', '{"n": -0}', '{"n": 1e2}', '{"n": 3, "z": 1}', '{"n": 3, "e": 4.0}',
             '{"n": 3, "inner": {"x": 1, "y": 1}}', '{"n": 3, "inner": {"x": 1, "f": 1.50}}'],
        ),
        (Nothing, ["{}"], ['{"a": 1}']),
        (Data, ['{"n": 1, "m": [{"x": 1}]}'], ['{"n": 1, "m": [{"x": 1, "y": 1}]}', '{"n": 1.0}', '{"n": 1, "k": 1}']),
    ],
)  # fmt: skip
def test_classes_are_closed_and_their_numbers_plain(described, good, bad):
    constraint = json_schema(described)
    assert (of(constraint, good), of(constraint, bad)) == (good, [])


def test_classes_may_be_read_as_plain_schemas():
    constraint = json_schema(Model, open_objects=True, numbers="any")
    assert constraint.accepts('{"n": 3.0, "z": 1}')
    assert json_schema(Model.model_json_schema()).accepts('{"n": 3.0, "z": 1}')


def test_numbers_as_they_are_asked_for():
    plain = json_schema({"type": ["integer", "number"], "minimum": -5}, numbers="plain")
    texts = ["7", "7.0", "7.25", "-2", "0", "0.5", "-0.5"]
    assert of(plain, [*texts, "-0", "7.50", "7.00", "-0.0", "07", "-6"]) == texts
    listed = json_schema({"enum": [0, 2.5, -1]}, numbers="plain")
    assert of(listed, ["0", "2.5", "-1", "-0", "0.0", "2.50", "-1.0"]) == ["0", "2.5", "-1"]
    few = json_schema({"type": "number"}, max_digits=3)
    assert of(few, ["123.456", "1234", "1.2345", "-12e5"]) == ["123.456", "-12e5"]
    free = json_schema({}, numbers="plain")
    assert of(free, ['[1, {"a": 2.5}]', "[1.00]", '{"a": -0}']) == ['[1, {"a": 2.5}]']
    with pytest.raises(tt.errors.UnsupportedConstraint, match="numbers"):
        json_schema({}, numbers="some")


@pytest.mark.parametrize(("draft", "asserted"), [(None, True), (DRAFT_7, True), (DRAFT_2020, False)])
def test_formats_are_asserted_as_the_draft_says(draft, asserted):
    schema = {"type": "string", "format": "date"} | ({"$schema": draft} if draft else {})
    for formats, expected in (("auto", asserted), ("assert", True), ("annotate", False)):
        constraint = json_schema(schema, formats=formats)
        assert constraint.accepts('"2024-02-29"')
        assert constraint.accepts('"soon"') != expected


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["0000-01-01", "0000-02-29", "2000-02-29"], ["1900-02-29", "0100-02-29"]),
        ("time", ["23:59:59Z", "23:59:59.5+00:00"], ["22:59:60Z", "24:00:00Z", "23:59:61Z"]),
        ("date-time", ["1998-12-31T23:59:59Z", "0000-01-01t00:00:00z"], ["1998-12-31T23:59:59"]),
        ("uri-template", ["{=x}{,y}{!a}{@b}{|c}", "/{+p}", "a'{x}'"], ["{x", "{^x}", "a`b", "a|b"]),
    ],
)
def test_formats_are_what_their_rfcs_say(name, good, bad):
    constraint = json_schema({"type": "string", "format": name})
    negated = json_schema({"type": "string", "not": {"format": name}})
    assert all(constraint.accepts(json.dumps(text)) for text in good)
    assert not any(constraint.accepts(json.dumps(text)) for text in bad)
    assert not any(negated.accepts(json.dumps(text)) for text in good)


@pytest.mark.parametrize(("name", "text"), [("time", "23:59:60Z"), ("date-time", "1998-12-31T23:59:60Z")])
def test_a_second_60_is_left_out_and_said(name, text):
    for schema in ({"format": name}, {"not": {"format": name}}):
        constraint = json_schema(schema | {"type": "string"}, on_narrowed="ignore")
        assert not constraint.accepts(json.dumps(text))
        assert "format" in [each.keyword for each in constraint.narrowed]
    for pattern, left_out in (("Z$", True), (":[0-5][0-9]Z$", False)):
        beside = json_schema({"type": "string", "format": name, "pattern": pattern}, on_narrowed="ignore")
        assert any(each.keyword == "format" for each in beside.narrowed) == left_out


@pytest.mark.parametrize("name", ["regex", "idn-hostname", "colour"])
def test_formats_that_are_not_known_are_annotations_or_refused(name):
    assert json_schema({"type": "string", "format": name}).accepts('"("')
    with pytest.raises(tt.errors.UnsupportedConstraint, match=f"the format '{name}' is not known"):
        json_schema({"type": "string", "format": name}, strict=True)


@pytest.mark.parametrize("kind", ["object", "number", "null", "string"])
def test_white_space_around_the_whole_value(kind):
    value = {"object": "{}", "number": "12", "null": "null", "string": '" x "'}[kind]
    flexible = json_schema({"type": kind}, whitespace="flexible")
    assert flexible.nfa.is_deterministic
    for text in (value, f" {value}", f"{value}\n", f"\t\r\n {value}  \n"):
        assert flexible.accepts(text)
        assert json_schema({"type": kind}).accepts(text) == (text == value)
    assert of(flexible, [f"{value} {value}", " "]) == []


@pytest.mark.parametrize("order", ["auto", "declared", "any"])
def test_declared_members_and_one_other_make_up_the_least_number(order):
    schema = {"type": "object", "properties": {name: {} for name in "abcd"}, "minProperties": 2}
    constraint = json_schema(schema, order=order)
    good = [
        '{"a": 1, "b": 2}',
        '{"c": 1, "x": 2}',
        '{"a": 1, "b": 1, "c": 1, "d": 1}',
        '{"b": 1, "x": 1, "y": 1}',
    ]
    assert of(constraint, good) == good
    assert of(constraint, ["{}", '{"a": 1}', '{"x": 1}', '{"x": 1, "x": 2}']) == []
    witness = json_schema({**schema, "not": {"propertyNames": {"pattern": "^[a-d]"}}}, order=order)
    assert of(witness, ['{"a": 1, "x": 1}', '{"x": 1}', '{"a": 1, "b": 1}']) == ['{"a": 1, "x": 1}']
