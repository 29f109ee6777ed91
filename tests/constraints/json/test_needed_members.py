"""Members that must be there, of names that are not declared: one member may stand for any of them."""

import itertools
import json
import random

import jsonschema
import pytest

from tractile.constraints import json_schema
from tractile.constraints.json.nodes import objects
from tractile.errors import TooManyStates


def letters(some):
    """Objects that have each of these letters in some name."""
    lacking = ({"not": {"propertyNames": {"pattern": f"^[^{each}]*$"}}} for each in some)
    return {"allOf": [{"type": "object"}, *lacking]}


def names(rng, some):
    """Names that have all letters, cut in up to three names, or nearly all."""
    order = rng.sample(some, len(some))
    parts = [order[i::count] for count in [rng.randint(1, 3)] for i in range(count)]
    if rng.random() < 0.5:
        parts[0] = parts[0][1:]
    return {"".join(part) or "x" for part in parts}


@pytest.mark.parametrize("count", [2, 4, 5, 6])
def test_a_member_may_provide_any_of_what_is_needed(count):
    some = "abcdef"[:count]
    schema, rng = letters(some), random.Random(count)
    found, valid = json_schema(schema), jsonschema.Draft202012Validator(schema).is_valid
    assert not any(cut.loses_values for cut in found.narrowed)
    answers = set()
    for _ in range(60):
        value = dict.fromkeys(sorted(names(rng, some)), 1)
        answers.add(valid(value))
        assert found.accepts(json.dumps(value)) == valid(value)
    assert answers == {False, True}


def test_five_needed_letters_in_one_name_or_in_two():
    found = json_schema(letters("abcde"))
    assert found.accepts('{"abcde": 1}')
    assert found.accepts('{"ab": 1, "cde": 1}')
    assert not found.accepts('{"ab": 1, "cd": 1}')


def test_more_than_can_be_told_apart_is_refused():
    with pytest.raises(TooManyStates, match=r"members of which one must be there.*at /"):
        json_schema(letters("abcdefghijkl"))


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_smaller_bound_changes_no_answer_but_to_an_error(monkeypatch, most):
    monkeypatch.setattr(objects, "MOST_TOGETHER", most)
    for size in range(1, 4):
        schema = letters("abc"[:size])
        if size > most:
            with pytest.raises(TooManyStates):
                json_schema(schema)
            continue
        found, valid = json_schema(schema), jsonschema.Draft202012Validator(schema).is_valid
        for value in itertools.permutations(["a", "ab", "c", "x"], 2):
            assert found.accepts(json.dumps(dict.fromkeys(value, 1))) == valid(dict.fromkeys(value, 1))
