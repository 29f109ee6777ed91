"""Calls in JSON syntax: against ``jsonschema``, the finite automaton of the same tools, and their own promises."""

import json
import random

import jsonschema
import pytest
from call_checks import BY_KIND, BYTES, TREE, tool, walks

import tractile as tt
from tractile.constraints.calls.functions import function_calls
from tractile.constraints.calls.tools import read_tools

SMALL = [
    tool("f", {"a": {"type": "integer"}, "é": {"type": "boolean"}, "c": {"enum": ["x", 'y"']}}, ["é"]),
    tool(
        "fg", {"p": {"type": "string", "pattern": "^[ab]+$"}, "o": tool("", {"u": {}, "v": {}})["parameters"]}
    ),
    tool('g"é', {}),
    tool("never", {"a": {"enum": []}, "b": {"type": "null"}}, ["a"]),
]
SMALL[1]["parameters"]["properties"]["o"]["properties"] = {"u": {"type": "null"}, "v": {"const": 1}}
LARGE = [
    *SMALL,
    tool("any", {"x": {}, "y": {"type": "array"}}),
    tool("tree", {"t": {"$ref": "#/$defs/tree"}}, ["t"], **{"$defs": {"tree": TREE}}),
    {"name": "kinds", "parameters": {"type": "object", **BY_KIND}},
]
SET = {"type": "array", "items": {"type": "string", "maxLength": 9}, "uniqueItems": True}
MANY = [tool(f"tool_{i * i}", {"a": {"type": "integer", "minimum": i % 7}}, ["a"]) for i in range(1_000)]


@pytest.mark.parametrize("parallel", [False, True, (3, 4)])
@pytest.mark.parametrize("whitespace", ["space", "flexible"])
def test_every_walk_ends_in_valid_calls(parallel, whitespace):
    """No dead ends, and what ``json`` reads are calls whose arguments ``jsonschema`` allows."""
    constraint, rng = function_calls(LARGE, parallel=parallel, whitespace=whitespace), random.Random(5)
    validators = {
        known.name: jsonschema.Draft202012Validator(known.schema())
        for known in read_tools(LARGE, tuples=False)
    }
    names = set()
    for text in walks(constraint, rng, range(20, 320, 5)):
        calls = json.loads(text)
        assert parallel is False or len(calls) >= (1 if parallel is True else 3)
        for call in [calls] if parallel is False else calls:
            assert [*call] == ["name", "arguments"]
            validators[call["name"]].validate(call["arguments"])
            names.add(call["name"])
    assert len(names) > 4
    assert "never" not in names


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def test_nothing_is_cut():
    c = function_calls(LARGE)
    assert not any(cut.loses_values for cut in c.narrowed)
    deep, inner = [], {"leaf": 1}
    for _ in range(60):
        deep, inner = [{"x": deep}], {"next": inner}
    assert c.accepts(call("any", x=deep, y=[deep] * 30))
    assert c.accepts(call("tree", t=inner))
    distinct = function_calls([tool("set", {"s": SET}, ["s"])])
    assert distinct.accepts(call("set", s=[str(i) for i in range(8)]))
    assert not distinct.accepts(call("set", s=["a", "b", "a"]))
    long = function_calls([tool("f", {"a": {"type": "string", "minLength": 3, "maxLength": 5_000}})])
    assert [long.accepts(call("f", a="x" * n)) for n in (2, 3, 5_000, 5_001)] == [False, True, True, False]
    calls = ", ".join([call("any", x=1)] * 100)
    assert function_calls(LARGE, parallel=(0, 10**9)).accepts(f"[{calls}]")
    assert not function_calls(LARGE, parallel=(0, 99)).accepts(f"[{calls}]")
    with pytest.raises(tt.errors.TooManyStates):
        function_calls(LARGE, parallel=(10**9, 10**9))


def test_names_of_many_tools_are_read_together():
    c = function_calls(MANY)
    assert c.accepts(call("tool_8836", a=3))  # 94 * 94, and 94 % 7 = 3
    assert not c.accepts(call("tool_8836", a=2))
    assert not c.accepts(call("tool_7", a=9))
    query = tt.lcd(c.compile(BYTES)).start()
    for byte in b'{"name": "tool_88':
        query.advance([byte])
    after = {str(i * i)[2] for i in range(1_000) if str(i * i)[:2] == "88" and i * i > 88}
    assert bytes(query.mask()[0].nonzero().flatten().tolist()).decode() == "".join(sorted(after))


def test_if_no_tool_can_be_called():
    never = SMALL[3:]
    assert function_calls(never).is_empty()
    assert function_calls(never, parallel=True).is_empty()
    assert function_calls(never, parallel=(0, 5)).shortest() == "[]"
    with pytest.raises(tt.errors.EmptyLanguage):
        function_calls(never).shortest()
