"""How values are written and read: numbers, formats by draft, white space, members that count, and classes as schemas."""

import dataclasses
from typing import Literal

import pytest
from pydantic import BaseModel

from tractile.constraints import json_schema


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
