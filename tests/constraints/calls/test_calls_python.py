"""Function calls in Python syntax: against ``ast`` and ``jsonschema``, and against their own finite automata."""

import ast
import itertools
import json
import random

import jsonschema
import pytest
from call_checks import BY_KIND, TREE, tool, walks

import tractile as tt
from tractile.constraints.calls.functions import function_calls
from tractile.constraints.calls.python_syntax import DOUBLE, SINGLE
from tractile.constraints.calls.tools import read_tools
from tractile.constraints.constraint import Constraint
from tractile.constraints.json import strings
from tractile.constraints.json.shapes import Strings
from tractile.constraints.json.text import JSON

DRAFT = jsonschema.Draft202012Validator
CHECKER = (
    DRAFT.TYPE_CHECKER.redefine("array", lambda _, value: isinstance(value, list | tuple))
    .redefine("list", lambda _, value: isinstance(value, list))
    .redefine("tuple", lambda _, value: isinstance(value, tuple))
    .redefine("integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool))
)
PYTHON = jsonschema.validators.extend(DRAFT, type_checker=CHECKER)

INNER = {"type": "object", "properties": {"u": {"type": "null"}, "it's": {"const": 1}}}
SMALL = [
    tool("f", {"a": {"type": "integer"}, "é": {"type": "boolean"}, "c": {"enum": ["x", 'y"']}}, ["é"]),
    tool("fg.h", {"p": {"type": "string", "pattern": "^[ab]+$"}, "o": INNER, "t": {"type": "tuple", "maxItems": 2,
         "items": {"type": "boolean"}}}),
    tool("fg", {}),
    tool("never", {"a": {"enum": []}, "b": {"type": "null"}}, ["a"]),
    tool("set", {"s": {"type": "array", "items": {"enum": [1, "b", None]}, "uniqueItems": True}}),
]  # fmt: skip
LARGE = [
    *SMALL,
    tool("any", {"x": {}, "y": {"type": "array"}}),
    tool("tree", {"t": {"$ref": "#/$defs/tree"}}, ["t"], **{"$defs": {"tree": TREE}}),
    {"name": "kinds", "parameters": {"type": "object", **BY_KIND}},
    tool("length", {"s": {"type": "string", "maxLength": 900}, "e": {"type": "string", "format": "email"}}),
]


def with_lists(schema):
    """The schema with arrays as lists, which tuples are not."""
    if isinstance(schema, list):
        return [with_lists(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: "list" if (k, v) == ("type", "array") else with_lists(v) for k, v in schema.items()}


def python_calls(tools, **options):
    return function_calls(tools, syntax="python", **options)


def read_calls(text):
    """(name, arguments) of each call."""
    node = ast.parse(text, mode="eval").body
    for call in node.elts if isinstance(node, ast.List) else [node]:
        assert not call.args
        yield ast.unparse(call.func), {each.arg: ast.literal_eval(each.value) for each in call.keywords}


@pytest.mark.parametrize("parallel", [False, True, (3, 4)])
@pytest.mark.parametrize("whitespace", ["space", "flexible"])
def test_every_walk_ends_in_valid_calls(parallel, whitespace):
    """No dead ends, and what ``ast`` reads are calls whose arguments ``jsonschema`` allows."""
    constraint, rng = python_calls(LARGE, parallel=parallel, whitespace=whitespace), random.Random(5)
    validators = {known.name: PYTHON(with_lists(known.schema())) for known in read_tools(LARGE, tuples=True)}
    names = set()
    for text in walks(constraint, rng, range(20, 260, 4)):
        for name, arguments in read_calls(text.decode()):
            validators[name].validate(arguments)
            names.add(name)
    assert len(names) > 4
    assert "never" not in names


VALUES = [
    None, True, 0, -3, 2.5, "", "a", "it's", 'q"', "\\", "é\n", "😀", "\t\a\x01", [], [1], [1, "a"], (), (1,), (1, 2),
    {}, {"k": [(None,)]}, {"a": 1, "b": "x"}, {"a": 1, "c": 3}, {"p1": 1, "p2": "s"},
]  # fmt: skip
SCHEMAS = [
    {}, {"type": "integer"}, {"type": "number", "multipleOf": 0.5}, {"type": ["string", "null"]}, {"not": {"type": "string"}},
    {"type": "string", "minLength": 1, "maxLength": 2}, {"type": "string", "pattern": "[\"'é]"}, {"not": {"pattern": "a"}},
    {"type": "array"}, {"type": "tuple"}, {"type": "array", "minItems": 1, "items": {"type": "integer"}}, {"minItems": 2},
    {"type": "tuple", "maxItems": 1}, {"not": {"type": "array"}}, {"not": {"enum": ["a", 0]}},
    {"type": "array", "contains": {"const": 1}},
    {"enum": ["it's", 2.5, None, [1, "a"], {"a": 1, "b": "x"}]}, {"allOf": [{"minLength": 1}, {"type": "string"}]},
    {"anyOf": [{"type": "integer"}, {"type": "tuple"}]}, {"oneOf": [{"type": "number"}, {"multipleOf": 2}]},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    {"type": "object", "patternProperties": {"^p": {"type": "integer"}}},
    {"type": "object", "propertyNames": {"maxLength": 1}}, {"type": "object", "dependentRequired": {"a": ["b"]}},
    {"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"type": "array"}},
]  # fmt: skip


def spellings(value):
    """Ways to write a value."""
    yield repr(value)
    if isinstance(value, str):
        escapes = ((r"\x{:02x}", 0xFF), (r"\u{:04x}", 0xFFFF), (r"\U{:08x}", 0x10FFFF))
        for quote, (escape, last) in itertools.product("'\"", escapes):
            hidden = [c in "\\\n\r" or c == quote for c in value]
            if max(map(ord, value), default=0) <= last:
                inside = [
                    "\\" + {"\n": "n", "\r": "r"}.get(c, c)
                    if h
                    else c
                    if " " <= c <= "~"
                    else escape.format(ord(c))
                    for c, h in zip(value, hidden, strict=True)
                ]
                yield quote + "".join(inside) + quote


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_values_are_accepted_exactly_if_jsonschema_allows_them(schema):
    constraint = python_calls([tool("f", {"a": schema}, ["a"])])
    ((_, inner),) = read_tools([tool("f", {"a": schema}, ["a"])], tuples=True)[0].arguments.items()
    for value in VALUES:
        for text in spellings(value):
            assert ast.literal_eval(text) == value
            assert constraint.accepts(f"f(a={text})") == PYTHON(with_lists(inner)).is_valid(value), text


@pytest.mark.parametrize("schema", [{"not": {"enum": [{"a": 1}]}}, {"type": "object", "minProperties": 2}])
def test_names_that_have_to_differ_are_refused(schema):
    """They may be written in two ways; it suffices to declare them."""
    with pytest.raises(tt.errors.UnsupportedConstraint, match="names of one spelling"):
        python_calls([tool("f", {"a": schema})])
    closed = {
        "type": "object",
        "properties": {"x": {}, "y": {}},
        "minProperties": 2,
        "additionalProperties": False,
    }
    assert python_calls([tool("f", {"a": closed})]).accepts("f(a={'x': 1, \"y\": 2})")


def test_strings_are_those_of_python():
    accepts = python_calls([tool("f", {"a": {"type": "string"}})]).accepts
    for text in (
        r"'\x4a'", r"'\d'", "'\n'", "'\\\n'", "'''a'''", "b'a'", "'a' 'b'", "'\0'", r"'\/'", r"'\ud800'", "'\"",
    ):  # fmt: skip
        assert not accepts(f"f(a={text})"), text  # letters are not hidden in escapes
    for text in (r"'\xE9\u00e9\U000000E9'", "'\x01'", "'\t'", r"'\'\"'", '"\'"', "'é'"):
        assert accepts(f"f(a={text})"), text


@pytest.mark.long
@pytest.mark.parametrize(
    ("spelling", "read"), [(DOUBLE, ast.literal_eval), (SINGLE, ast.literal_eval), (JSON, json.loads)]
)
def test_a_spelling_agrees_with_itself(spelling, read):
    """The ways to write a character are those of its alphabet, and are read back as it."""
    for code in (*range(256), 0x100, 0xFFFF, 0x10000, 0x10FFFF):
        char = chr(code)
        found = {bytes(way) for each in spelling.ways(char) for way in itertools.product(*each)}
        mark = spelling.opening
        assert {read((mark + text + mark).decode()) for text in found} == {char}
        automaton = spelling.alphabet(((code, code),))
        assert all(automaton.accepts(text) for text in found)
        body = strings.body(Strings(among=frozenset([char])), spelling)
        assert (Constraint(automaton) - Constraint(body)).is_empty()
        assert (Constraint(body) - Constraint(automaton)).is_empty()
