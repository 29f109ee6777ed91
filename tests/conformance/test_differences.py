"""The walk of tests/conformance/differences.py, with a constraint of our own in place of another engine."""

import json
from functools import reduce

import pytest
from scripts import load

import tractile as tt
from tractile.constraints import json_schema
from tractile.constraints.difference import states_of

differences = load("tests/conformance/differences.py")


def engine_of(constraint):
    """A constraint as an engine."""
    states = states_of(constraint)

    def allowed(text):
        state = reduce(states.step, text, states.start)
        if state < 0:
            return frozenset()
        found = {byte for low, high, _ in states.moves(state) for byte in range(low, high + 1)}
        return frozenset(found | ({differences.END} if states.accepting(state) else set()))

    return differences.Engine(allowed)


NAMES = {"a": {"type": "integer"}, "b": {"type": "boolean"}}
CLOSED = {"type": "object", "properties": NAMES, "additionalProperties": False}
CASES = [
    (CLOSED, CLOSED | {"required": ["a"]}, {"required"}),
    (CLOSED, {**CLOSED, "properties": {"a": {"type": "number"}, "b": {}}}, {"type"}),
    ({"enum": ["red", "green"]}, {"enum": ["red", "blue"]}, {"enum", "another value"}),
]


@pytest.mark.parametrize(("first", "second", "kinds"), CASES)
def test_a_differing_text_is_found_on_each_side_and_judged(first, second, kinds):
    ours, theirs = json_schema(first), json_schema(second)
    row = {"id": "case", "schema": first}
    found = differences.compare(row, "other", lambda _: engine_of(theirs), 5_000)
    exact = tt.constraints.difference(ours, theirs)
    for by, text in (("tractile", exact.only_first), ("other", exact.only_second)):
        some = [each for each in found if each.accepted_by == by]
        assert bool(some) == (text is not None)
        judged = [each for each in some if not each.kind.startswith("numbers")]  # exponents are narrowed
        assert all(each.right == "tractile" for each in judged)
        if some:
            assert min(len(each.text) for each in some) >= len(text)
        for each in some:
            assert ours.accepts(each.text) == (by == "tractile")
            assert theirs.accepts(each.text) == (by == "other")
    assert {each.kind for each in found if not each.kind.startswith(("another", "numbers"))} <= kinds
    assert "| other |" in differences.tables(found, {"other": differences.Counter(compared=1)})


def test_equal_constraints_do_not_differ():
    row = {"id": "case", "schema": CLOSED}
    assert differences.compare(row, "other", lambda s: engine_of(json_schema(s)), 5_000) == []


def test_kinds_of_valid_texts():
    """What makes a valid text acceptable names its kind."""
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}
    judge = differences.Judge(schema)

    def kind(text, accepted):
        return judge.kind(
            differences.Witness(text.encode(), ours=True), lambda data: data.decode() == accepted
        )

    assert kind('{"a":"\\u0041"}', '{"a": "A"}') == (True, "escapes")
    assert kind('{"a": 1.0}', '{"a": 1}') == (True, "integers written 1.0")
    assert kind('{"b": 1, "a": 2}', '{"a": 2, "b": 1}') == (True, "order of members")
    assert kind('{"a": "é"}', '{"a": "a"}') == (True, "characters")
    assert kind('{"a": 1}', "") == (True, "another value")
    assert kind("[]", "") == (False, "type")
    assert kind('{"a": 1, "a": 2}', "") == (None, "a name twice")
    assert kind("{", "") == (False, "not JSON")
    assert judge.kind(differences.Witness(b'"\xff"', ours=False), bool) == (False, "not UTF-8")
    assert (
        json.dumps(differences.ordered({"z": 1, "b": 2, "a": 3}, json.dumps(schema)))
        == '{"a": 3, "b": 2, "z": 1}'
    )
