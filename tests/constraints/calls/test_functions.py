"""Function calls against their oracles: ``json``, ``ast`` and ``jsonschema`` read what the automaton writes."""

import ast
import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import random_texts

import tractile as tt
from tractile.constraints.calls.tools import read_tools

TEXTS = st.text(st.sampled_from("ab'\"\\\n\té€\U0001f600 ,:"), max_size=4)
NUMBERS = st.integers(-200, 200) | st.sampled_from([0.5, -1.25, 1e-7, 3.0, 1e20])
LEAVES = [
    {"type": "string"}, {"type": "integer"}, {"type": "float"}, {"type": "boolean"}, {"type": "null"}, {"type": "any"},
    {"type": "string", "enum": ["a'b", 'c"d', "é"]}, {"type": "integer", "enum": [1, 20]}, {"type": "string", "maxLength": 2},
    {"type": "str", "pattern": "^[ab]+$"}, {"type": "int", "minimum": -3, "maximum": 120}, {"const": [1, "x"]},
    {"type": ["string", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"type": "List[Optional[int]]"},
    {"type": "Dict[str, float]"}, {"type": "Union[int, List[str]]"},
]  # fmt: skip


def schemas(depth: int) -> st.SearchStrategy:
    leaf = st.sampled_from(LEAVES)
    if not depth:
        return leaf
    inner = schemas(depth - 1)
    lists = st.builds(lambda items, low, more: {"type": "array", "items": items, "minItems": low, "maxItems": low + more},
                      inner, st.integers(0, 2), st.integers(0, 2))  # fmt: skip
    dicts = st.builds(
        lambda p, n: {"type": "dict", "properties": p, "required": [*p][:n]},
        st.dictionaries(st.sampled_from(["x", "y z", "é"]), inner, min_size=1, max_size=2),
        st.integers(0, 2),
    )
    return leaf | lists | dicts | st.builds(lambda items: {"type": "array", "items": items}, inner)


VALUES = st.recursive(
    TEXTS | NUMBERS | st.booleans() | st.none() | st.sampled_from(["a'b", 'c"d', "é", "ab", 1, 20, 5.0]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y z", "é", "w"]), inner, max_size=2)
    ),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c_1"]), schemas(1), max_size=3)


@st.composite
def values_of(draw, schema):
    """A value that satisfies the (normal) schema more often than not."""
    if draw(st.integers(0, 7)) == 0 or not isinstance(schema, dict):
        return draw(VALUES)
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        return draw(values_of(draw(st.sampled_from(schema["anyOf"]))))
    kind = schema.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "array":
        low = schema.get("minItems", 0)
        size = draw(st.integers(low, schema.get("maxItems", low + 2)))
        return [draw(values_of(schema.get("items", True))) for _ in range(size)]
    if kind == "object" and "properties" in schema:
        names = [n for n in schema["properties"] if n in schema.get("required", []) or draw(st.booleans())]
        return {n: draw(values_of(schema["properties"][n])) for n in names}
    if kind == "object":
        return draw(st.dictionaries(st.sampled_from(["x", "y"]), NUMBERS, max_size=2))
    if "pattern" in schema:
        return draw(st.text("ab", min_size=1, max_size=3))
    leaf = {
        "string": TEXTS,
        "integer": st.integers(-200, 200),
        "number": NUMBERS,
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return draw(leaf.get(kind, VALUES))


def declared(schema, value):
    """Members in the order of their declaration."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        names = [n for n in properties if n in value] + [n for n in value if n not in properties]
        return {n: declared(properties.get(n), value[n]) for n in names}
    if isinstance(value, list):
        return [declared(schema.get("items"), v) for v in value]
    return value


def depth_of(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def has_whole_float(value) -> bool:
    """Whether a number such as 3.0 occurs, which JSON Schema counts as an integer and Python does not."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return (isinstance(value, float) and value.is_integer()) or any(map(has_whole_float, inner))


@settings(max_examples=20)  # tests/fuzz/test_tools.py draws more
@given(st.data(), st.sampled_from(["json", "python"]))
def test_accepts_what_the_schema_allows(data, syntax):
    arguments = data.draw(ARGUMENTS)
    required = [n for n in arguments if data.draw(st.booleans())]
    tool = {"name": "do.it", "parameters": {"type": "dict", "properties": arguments, "required": required}}
    (known,) = read_tools([tool], tuples=False)
    validator = jsonschema.Draft202012Validator(known.schema())
    constraint = tt.constraints.function_calls([tool], syntax=syntax)
    for _ in range(6):
        names = [n for n in arguments if n in required or data.draw(st.booleans())]
        values = {n: declared(known.arguments[n], data.draw(values_of(known.arguments[n]))) for n in names}
        if max(map(depth_of, values.values()), default=0) > 2 or has_whole_float(values):
            continue
        text = json.dumps({"name": "do.it", "arguments": values}, ensure_ascii=False)
        if syntax == "python":
            text = f"do.it({', '.join(f'{n}={v!r}' for n, v in values.items())})"
        assert constraint.accepts(text) == validator.is_valid(values), (text, tool)


@settings(max_examples=20)
@given(st.data(), st.sampled_from(["json", "python"]), st.sampled_from(["none", "space", "flexible"]))
def test_whatever_comes_out_is_a_call(data, syntax, whitespace):
    tools = [
        {
            "name": name,
            "parameters": {"type": "dict", "properties": data.draw(ARGUMENTS), "required": ["a"][:n]},
        }
        for name, n in (("f", 0), ("g.h", 0))
    ]
    parallel, order = (
        data.draw(st.sampled_from([False, True, (0, 2)])),
        data.draw(st.sampled_from(["declared", "any"])),
    )
    constraint = tt.constraints.function_calls(
        tools, syntax=syntax, parallel=parallel, order=order, whitespace=whitespace
    )
    known = {tool.name: tool for tool in read_tools(tools, tuples=False)}
    for text in random_texts(constraint, 1, 8):
        for name, values in parsed(text, syntax, parallel is not False):
            jsonschema.validate(json.loads(json.dumps(values)), known[name].schema())


def parsed(text: str, syntax: str, parallel: bool) -> list[tuple[str, dict]]:
    """The calls of a text, by the reference reader of the syntax."""
    if syntax == "json":
        calls = json.loads(text)
        return [(call["name"], call["arguments"]) for call in (calls if parallel else [calls])]
    node = ast.parse(text, mode="eval").body
    calls = node.elts if parallel else [node]
    for call in calls:
        assert isinstance(call, ast.Call)
        assert not call.args
    return [
        (ast.unparse(call.func), {k.arg: ast.literal_eval(k.value) for k in call.keywords}) for call in calls
    ]


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
    with pytest.raises(
        tt.errors.UnsupportedConstraint, match="'#/properties/b' with the arguments in any order"
    ):
        tt.constraints.function_calls(
            [{"name": "f", "parameters": {"type": "object", "properties": {"a": inner, "b": {}}}}],
            order="any",
        )


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
