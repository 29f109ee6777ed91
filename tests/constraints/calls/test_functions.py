"""Function calls against their oracles: ``json``, ``ast`` and ``jsonschema`` read what the automaton writes."""

import ast
import json

import pytest

import tractile as tt

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "parameters": {
                "type": "object",
                "properties": {"hotel": {"type": "string"}, "nights": {"type": "integer"}, "extras": {"type": "array"}},
                "required": ["hotel"],
            },
        },
    },
    {"name": "pay", "parameters": {"amount": {"type": "float"}, "by": {"type": "str, optional"}}},
    {"name": "where", "parameters": {"type": "dict", "properties": {"at": {"type": "tuple", "items": {"type": "float"}}}}},
]  # fmt: skip


def test_spellings():
    c = tt.constraints.function_calls(TOOLS)
    for text in (
        '{"name": "book", "arguments": {"hotel": "Ritz", "nights": 2}}',
        '{"name": "pay", "arguments": {"amount": 1.5}}',
        '{"name": "where", "arguments": {"at": [1.5, 2]}}',
    ):
        assert c.accepts(text), text
    for text in (
        '{"name": "book", "arguments": {"nights": 2}}',
        '{"name": "book", "arguments": {"hotel": "Ritz", "stars": 2}}',
        '{"name": "pay", "arguments": {"by": "card"}}',
        '[{"name": "pay", "arguments": {"amount": 1.5}}]',
    ):
        assert not c.accepts(text), text


def test_python_syntax():
    c = tt.constraints.function_calls(TOOLS, syntax="python", parallel=True)
    for text in (
        "[book(hotel='Ritz', nights=2), pay(amount=1.5)]", '[book(hotel="Ritz", extras=[None, True, {"a": (1,)}])]',
        "[where()]", "[where(at=())]", "[where(at=(1.5, 2))]", "[where(at=(1.5,))]", r"[book(hotel='it\'s \u00e9\x41')]",
    ):  # fmt: skip
        assert c.accepts(text) == (r"\x41" not in text), text  # letters are not hidden in escapes
        ast.literal_eval(
            ast.unparse(ast.parse(text, mode="eval").body.elts[0].keywords[0].value)
        ) if "=" in text else None
    for text in (
        "[]",
        "book(hotel='Ritz')",
        "[book('Ritz')]",
        "[book(nights=2, hotel='Ritz')]",
        "[where(at=[1.5])]",
    ):
        assert not c.accepts(text), text
    any_order = tt.constraints.function_calls(TOOLS, syntax="python", order="any")
    assert any_order.accepts("book(nights=2, hotel='Ritz')")
    assert not any_order.accepts("book(nights=2)")
    assert not any_order.accepts("book(hotel='a', hotel='b')")


def test_parallel_ranges_and_keys():
    two = tt.constraints.function_calls(TOOLS[1:2], syntax="python", parallel=(2, 2))
    assert [two.accepts(f"[{', '.join(['pay(amount=1)'] * n)}]") for n in range(4)] == [
        False,
        False,
        True,
        False,
    ]
    c = tt.constraints.function_calls(TOOLS[1:2], keys=("function", "parameters"), whitespace="none")
    assert c.accepts('{"function":"pay","parameters":{"amount":1}}')


def test_references_stand_in_place_of_values():
    c = tt.constraints.function_calls(TOOLS, references=r"\$var\d+\$")
    assert c.accepts('{"name": "book", "arguments": {"hotel": "Ritz", "nights": "$var1$"}}')
    assert not c.accepts('{"name": "book", "arguments": {"hotel": "Ritz", "nights": "two"}}')
    c = tt.constraints.function_calls(TOOLS, references=r"\$var\d+\$", syntax="python")
    assert c.accepts("where(at=(1.5, '$var2$'))")


def test_definitions_and_recursion():
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "leaf": {"type": "integer"}}}
    tool = {
        "name": "grow",
        "parameters": {
            "type": "object",
            "properties": {"t": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": tree},
        },
    }
    for syntax, text in (
        ("json", '{"name": "grow", "arguments": {"t": {"left": {"leaf": 1}}}}'),
        ("python", "grow(t={'left': {'leaf': 1}})"),
    ):
        assert tt.constraints.function_calls([tool], syntax=syntax).accepts(text)


def test_files_and_text(tmp_path):
    file = tmp_path / "tools.jsonl"
    file.write_text("\n".join(map(json.dumps, TOOLS)))
    for given_tools in (json.dumps(TOOLS), file, str(file), TOOLS):
        assert tt.constraints.function_calls(given_tools).accepts(
            '{"name": "pay", "arguments": {"amount": 1}}'
        )


PYTHON = {"syntax": "python"}


def typed(kind) -> list[dict]:
    return [{"name": "f", "parameters": {"type": "dict", "properties": {"x": {"type": kind}}}}]


@pytest.mark.parametrize(
    ("tools", "settings_", "error", "message"),
    [
        ([], {}, tt.errors.EmptyLanguage, "no tools"),
        ([{"parameters": {}}], {}, tt.errors.UnsupportedConstraint, r"needs a name \(at tools\[0\]\)"),
        ([{"name": "f"}, {"name": "f"}], {}, tt.errors.UnsupportedConstraint, r"'f' \(at tools\[1\]\)"),
        (typed("frobnicator"), {},
         tt.errors.UnsupportedConstraint, r"unknown type 'frobnicator' \(at .*parameters.properties.x\)"),
        (typed("List[frob]"), {}, tt.errors.UnsupportedConstraint, "unknown type 'frob'"),
        (typed("date (yyyy"), {}, tt.errors.UnsupportedConstraint, "unknown type"),
        (typed(7), {}, tt.errors.UnsupportedConstraint, "named by a text"),
        ("{", {}, tt.errors.FormatError, "JSON"),
        ("missing.json", {}, tt.errors.FormatError, "missing.json"),
        ([7], {}, tt.errors.FormatError, r"tools\[0\] is 7"),
        ([{"name": "f", "parameters": 7}], {}, tt.errors.FormatError, "should be an object"),
        ([{"name": "f", "parameters": {"a": 7}}], {}, tt.errors.FormatError, "an argument is an object"),
        ([{"name": "f", "parameters": {"type": "array"}}], {}, tt.errors.UnsupportedConstraint, "are an object"),
        ([{"name": "f", "parameters": {"type": "object", "required": ["a"]}}], {},
         tt.errors.UnsupportedConstraint, "not declared"),
        ([{"name": "f-g"}], PYTHON, tt.errors.UnsupportedConstraint, "'f-g' is no name in Python"),
        ([{"name": "f", "parameters": {"class": {"type": "int"}}}], PYTHON, tt.errors.UnsupportedConstraint, "'class' in 'f'"),
        ([{"name": "f"}], {"syntax": "xml"}, tt.errors.UnsupportedConstraint, "syntax"),
        ([{"name": "f"}], {"order": "random"}, tt.errors.UnsupportedConstraint, "order"),
        ([{"name": "f"}], {"parallel": "yes"}, tt.errors.UnsupportedConstraint, "parallel"),
        ([{"name": "f"}], {"parallel": (10**9, None), **PYTHON}, tt.errors.TooManyStates, "too long"),
        ([{"name": "f", "parameters": {"type": "object", "properties": [1]}}], {}, tt.errors.FormatError, r"properties is \[1\]"),
        ([{"name": "f", "parameters": {"a": {"type": "list", "minItems": 10**9}}}], PYTHON, tt.errors.TooManyStates, "too long"),
        ([{"name": "f", "parameters": {"a": {"type": "str", "pattern": "("}}}], PYTHON,
         tt.errors.UnsupportedConstraint, "parameters.a"),
        ([*typed("tuple"), {"name": "g", "parameters": {"a": {"type": "tuple", "uniqueItems": True}}}], PYTHON,
         tt.errors.UnsupportedConstraint, "uniqueItems of tuples"),
        ([{"name": "f", "parameters": {"a": {"enum": [float("nan")]}}}], PYTHON, tt.errors.FormatError, "JSON"),
        ([{"name": "f"}], {"parallel": (2, 1)}, tt.errors.UnsupportedConstraint, "parallel"),
        ([{"name": "f", "parameters": {"a": {"$ref": "#/$defs/x"}}}], PYTHON,
         tt.errors.UnsupportedConstraint, "points to nothing"),
        ([{"name": "f", "parameters": {"type": "object", "additionalProperties": {"type": "int"}}}], PYTHON,
         tt.errors.UnsupportedConstraint, "not declared"),
    ],
)  # fmt: skip
def test_bad_tools(tools, settings_, error, message):
    with pytest.raises(error, match=message):
        tt.constraints.function_calls(tools, **settings_)


def arguments_of(text, properties, **more):
    """Whether a JSON call with these arguments is accepted, for a tool of these properties."""
    tool = {"name": "f", "parameters": {"type": "object", "properties": properties, **more}}
    return tt.constraints.function_calls([tool]).accepts(f'{{"name": "f", "arguments": {text}}}')


def test_a_property_that_says_that_it_is_required():
    said = {"a": {"type": "string", "required": True}, "b": {"type": "string", "required": False}}
    assert arguments_of('{"a": ""}', said)
    assert not arguments_of('{"b": ""}', said)
    assert arguments_of('{"a": "", "b": ""}', said, required=["b"])
    assert not arguments_of('{"a": ""}', said, required=["b"])
    inner = {"o": {"type": "object", "properties": {"a": {"type": "string", "required": True}}}}
    assert arguments_of('{"o": {"a": ""}}', inner)
    assert not arguments_of('{"o": {}}', inner)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/n"},
        {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        {"const": 3},
        {"enum": [3, 4]},
        {"type": ["integer", "boolean"]},
        {"type": "integer", "not": {"const": 4}},
        {"type": "int | bool"},
    ],
)
def test_nullable_beside_anything(schema):
    for nullable in (True, False):
        properties = {"a": schema | {"nullable": nullable}}
        assert arguments_of('{"a": 3}', properties, **{"$defs": {"n": {"type": "integer"}}})
        assert not arguments_of('{"a": "3"}', properties, **{"$defs": {"n": {"type": "integer"}}})
        assert arguments_of('{"a": null}', properties, **{"$defs": {"n": {"type": "integer"}}}) is nullable


def test_types_beside_their_keywords():
    """What a type such as List[int] says of items, and what stands beside it, hold both."""
    assert not arguments_of('{"a": [1]}', {"a": {"type": "List[int]", "items": {"minimum": 3}}})
    assert arguments_of('{"a": [3]}', {"a": {"type": "List[int]", "items": {"minimum": 3}}})
    assert not arguments_of('{"a": ["x"]}', {"a": {"type": "List[int]", "items": {"minimum": 3}}})
    assert arguments_of('{"a": [1, "x"]}', {"a": {"type": "List[Any]"}})
    old = {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}
    assert arguments_of('{"a": [1]}', {"a": old})
    assert not arguments_of('{"a": [1, 2]}', {"a": old})
    assert arguments_of('{"a": -1}', {"a": {"type": "Literal[-1, 'x']"}})


def test_references_lead_where_they_say():
    """Within the parameters as a whole, and to its definitions before those of an argument."""
    inner = {"type": "object", "properties": {"b": {"type": "integer"}, "c": {"$ref": "#/properties/b"}}}
    assert arguments_of('{"a": {"c": "x"}}', {"b": {"type": "string"}, "a": inner})
    assert not arguments_of('{"a": {"c": 3}}', {"b": {"type": "string"}, "a": inner})
    own = {"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}, "y": {}}}
    assert arguments_of('{"a": 3}', {"a": own}, **{"$defs": {"x": {"type": "integer"}}})
    assert arguments_of('{"a": ""}', {"a": own})  # as pydantic's schemas are put in another
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": inner, "b": {}}}}
    any_order = tt.constraints.function_calls([tool, {**tool, "name": "g"}], order="any")
    assert any_order.accepts('{"name": "g", "arguments": {"b": "", "a": {"c": "x"}}}')
    assert any_order.accepts('{"name": "g", "arguments": {"a": {"c": "x"}, "b": ""}}')
    assert not any_order.accepts(
        '{"name": "g", "arguments": {"a": {"c": "x", "b": 1}}}'
    )  # that of values is declared


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "Optional[int, str]"}, "has 2 types within"),
        ({"type": "List[()]"}, "has 0 types within"),
        ({"type": "Dict[int, str]"}, "keys that are no strings"),
        ({"type": "Literal[b'x']"}, "is no value of JSON"),
        ({"type": "Literal[1 + x]"}, "is no value of JSON"),
        ({"type": "integer", "nullable": "yes"}, "nullable is 'yes'"),
    ],
)
def test_types_that_say_nothing_json_has(schema, message):
    with pytest.raises(tt.TractileError, match=message):
        arguments_of("{}", {"a": schema})


def test_annotations_are_read_over_in_both_syntaxes():
    schema = {"type": "string", "readOnly": True, "contentEncoding": "base64", "uniqueItems": False}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}
    assert tt.constraints.function_calls([tool], syntax="python").accepts("f(a='x')")
    assert arguments_of('{"a": "x"}', {"a": schema})
