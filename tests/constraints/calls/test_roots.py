"""Parameters that are a reference, alternatives or a conjunction at their root, in each syntax of calls."""

import json

import pytest

import tractile as tt

A = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "z": {"$ref": "#/$defs/Z"}},
    "required": ["a"],
}
B = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
BOTH = {"Z": {"type": "boolean"}, "A": A, "B": B}
NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/N"}},
    "required": ["v"],
}
LEAF = {"type": "object", "properties": {"leaf": {"type": "integer"}}, "required": ["leaf"]}
KIDS = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["kids"],
}
ROOTS = {
    "$ref": ({"$ref": "#/$defs/A", "$defs": BOTH}, [{"a": 1}, {"a": 1, "z": True}], [{}, {"b": ""}, {"a": 1, "x": 1}]),
    "$ref to definitions": ({"$ref": "#/definitions/B", "definitions": {"B": B}}, [{"b": ""}], [{}, {"b": "", "x": 1}]),
    "$ref to an anchor": ({"$ref": "#b", "$defs": {"B": {**B, "$anchor": "b"}}}, [{"b": ""}], [{}, {"b": "", "x": 1}]),
    "$ref by $id": (
        {"$id": "https://a.org/args", "$ref": "b", "$defs": {"B": {**B, "$id": "b"}}}, [{"b": ""}], [{}, {"b": "", "x": 1}],
    ),
    "$dynamicRef": ({"$dynamicRef": "#b", "$defs": {"B": {**B, "$dynamicAnchor": "b"}}}, [{"b": ""}], [{}, {"b": "", "x": 1}]),
    "$ref to an allOf": (
        {"$ref": "#/$defs/C", "$defs": {"C": {"allOf": [{"$ref": "#/$defs/B"}]}, "B": B}}, [{"b": ""}], [{}, {"b": "", "x": 1}],
    ),
    "$ref within itself": (
        {"$ref": "#/$defs/N", "$defs": {"N": NODE}},
        [{"v": 1, "next": {"v": 2, "next": {"v": 3}}}], [{"next": {"v": 1}}, {"v": 1, "next": {"v": 1, "x": 1}}],
    ),
    "the root within itself": (
        {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}, "required": ["v"]},
        [{"v": 1, "next": {"v": 2}}], [{"v": 1, "next": {}}, {"v": 1, "next": {"v": 1, "x": 1}}],
    ),
    "anyOf": (
        {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": BOTH},
        [{"a": 1}, {"b": ""}, {"a": 1, "b": ""}], [{}, {"x": 1}, {"a": 1, "x": 1}],
    ),
    "anyOf within itself": (
        {"anyOf": [LEAF, KIDS]},
        [{"leaf": 1}, {"kids": [{"leaf": 1}, {"kids": []}]}], [{}, {"kids": [3]}, {"kids": [{"leaf": 1, "x": 1}]}],
    ),
    "anyOf of required names": (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
         "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": ""}], [{}, {"a": 1, "x": 1}],
    ),
    "oneOf": (
        {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": BOTH},
        [{"a": 1}, {"b": ""}], [{}, {"a": 1, "b": ""}, {"a": 1, "x": 1}],
    ),
    "allOf": (
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": BOTH},
        [{"a": 1, "b": ""}, {"a": 1, "z": True, "b": ""}], [{"a": 1}, {"b": ""}, {"a": 1, "b": "", "x": 1}],
    ),
}  # fmt: skip
MAPS = {
    "$ref": {
        "$ref": "#/$defs/M",
        "$defs": {"M": {"type": "object", "additionalProperties": {"type": "integer"}}},
    },
    "anyOf": {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, B]},
    "nothing more": {"type": "object", "properties": {"a": {}}, "additionalProperties": {}},
}


def in_json(arguments):
    return json.dumps({"name": "f", "arguments": arguments})


def in_python(arguments):
    return f"f({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def in_xml(arguments):
    written = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()
    }
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in written.items())
    return f"<tool_call>\n<function=f>\n{parameters}</function>\n</tool_call>"


def in_tags(arguments):
    return f"<tool_call>\n{in_json(arguments)}\n</tool_call>"


WAYS = {
    "json": (lambda tools: tt.constraints.function_calls(tools), in_json),
    "json, any order": (lambda tools: tt.constraints.function_calls(tools, order="any"), in_json),
    "python": (lambda tools: tt.constraints.function_calls(tools, syntax="python"), in_python),
    "hermes": (lambda tools: tt.constraints.tool_calls(tools, "hermes", choice="required", parallel=False), in_tags),
    "qwen_xml": (lambda tools: tt.constraints.tool_calls(tools, "qwen_xml", choice="required", parallel=False), in_xml),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("root", ROOTS)
def test_roots(root, way):
    make, written = WAYS[way]
    schema, good, bad = ROOTS[root]
    calls = make([{"name": "f", "inputSchema": schema}])
    assert [calls.accepts(written(each)) for each in good + bad] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize("root", ["$ref", "$ref by $id", "anyOf within itself", "oneOf"])
def test_tools_with_the_same_definitions_are_apart(root):
    schema, good, bad = ROOTS[root]
    other = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"q": {}}}}}
    calls = tt.constraints.function_calls(
        [{"name": "g", "parameters": other}, {"name": "f", "parameters": schema}]
    )
    assert [calls.accepts(in_json(each)) for each in good + bad] == [True] * len(good) + [False] * len(bad)
    assert calls.accepts('{"name": "g", "arguments": {"q": 1}}')


@pytest.mark.parametrize("root", MAPS)
def test_maps_stay_open(root):
    calls = tt.constraints.function_calls([{"name": "f", "parameters": MAPS[root]}])
    assert calls.accepts(in_json({"q": 1}))
    assert calls.accepts(in_json({"q": ""})) == (root == "nothing more")
    with pytest.raises(tt.errors.UnsupportedConstraint, match="not declared"):
        tt.constraints.function_calls([{"name": "f", "parameters": MAPS[root]}], syntax="python")


def test_names_of_every_schema_are_pythons():
    schema = {
        "anyOf": [{"$ref": "#/$defs/C"}, B],
        "$defs": {"C": {"type": "object", "properties": {"class": {}}}},
    }
    with pytest.raises(
        tt.errors.UnsupportedConstraint, match=r"'class' in 'f'.* \(at tools\[0\].parameters\)"
    ):
        tt.constraints.function_calls([{"name": "f", "parameters": schema}], syntax="python")


def test_references_stand_in_values_of_every_schema():
    item = {"type": "object", "properties": {"q": {"type": "integer"}}}
    schema = {
        "anyOf": [{"$ref": "#/$defs/A"}, B],
        "$defs": {**BOTH, "A": {"type": "object", "properties": {"l": {"type": "array", "items": item}}, "required": ["l"]}},
    }  # fmt: skip
    calls = tt.constraints.function_calls([{"name": "f", "parameters": schema}], references=r"\$r\d")
    for arguments in ({"l": "$r1"}, {"l": ["$r1"]}, {"l": [{"q": "$r1"}, {"q": 1}]}, {"b": "$r1"}):
        assert calls.accepts(in_json(arguments)), arguments
    for arguments in ({"l": [{"q": "x"}]}, {"l": "x"}, {}):
        assert not calls.accepts(in_json(arguments)), arguments
    with pytest.raises(tt.errors.UnsupportedConstraint, match="write anyOf"):
        tt.constraints.function_calls([{"name": "f", "parameters": {"oneOf": [A, B]}}], references="r")


def test_a_reference_that_leads_nowhere_is_refused():
    with pytest.raises(
        tt.errors.UnsupportedConstraint, match=r"points to nothing \(at tools\[0\].parameters"
    ):
        tt.constraints.function_calls([{"name": "f", "parameters": {"$ref": "#/$defs/A"}}])


def test_one_of_with_references_to_objects():
    def one_of(**kinds):
        point = {"type": "object", "properties": {"x": {"type": "integer"}}}
        some = [
            {
                "type": "object",
                "properties": {"kind": kinds.get(name, {}), name: {"$ref": "#/$defs/P"}},
                "required": [name, "kind"],
            }
            for name in ("a", "b")
        ]
        return [{"name": "f", "parameters": {"oneOf": some, "$defs": {"P": point}}}]

    calls = tt.constraints.function_calls(one_of(a={"const": "A"}, b={"const": "B"}))
    assert calls.accepts(in_json({"kind": "A", "a": {"x": 1}}))
    assert not calls.accepts(in_json({"kind": "A", "b": {"x": 1}}))
    calls = tt.constraints.function_calls(one_of())
    assert calls.accepts(in_json({"kind": 1, "b": {"x": 1}}))
    assert calls.accepts(in_json({"kind": 1, "a": {}}))
    assert not calls.accepts(in_json({"kind": 1, "a": {"y": 1}}))
    assert not calls.accepts(in_json({"kind": 1, "a": {}, "b": {}}))
