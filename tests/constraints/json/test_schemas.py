"""JSON Schema against the ``jsonschema`` package, on random schemas and instances near them."""

import json
from typing import Literal

import jsonschema
import pytest

import tractile as tt
from tractile.constraints import Vocabulary, json_schema
from tractile.constraints.automata.nfa import Nfa


def test_white_space():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "null"}},
    }
    value = {"a": [1, 2], "b": None}
    default, compact, indented = (
        json.dumps(value),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, indent=2),
    )
    accepted = {
        style: [
            json_schema(schema, whitespace=style).accepts(t)
            for t in (default, compact, indented, "{ }", "{}")
        ]
        for style in ("space", "none", "flexible")
    }
    assert accepted == {
        "space": [True, False, False, False, True],
        "none": [False, True, False, False, True],
        "flexible": [True, True, True, True, True],
    }
    with pytest.raises(tt.errors.UnsupportedConstraint):
        json_schema(schema, whitespace="tabs")


def test_spelling_of_strings():
    c = json_schema({"type": "string", "minLength": 1, "maxLength": 1})
    one = [
        '"a"', '"é"', '"🙂"', r'"\n"', r'"\""', r'"\/"', r'"\u00e9"', r'"\u00E9"', r'"\ud83d\ude42"', r'"\u0000"', '"\x7f"',
    ]  # fmt: skip
    none = [
        '""', '"ab"', '"\n"', r'"\x41"', r'"\ud83d"', r'"\ude42"', '"\\"', r'"\u00"', '"a', r'"\ud83d\ud83d"',
    ]  # fmt: skip
    assert [c.accepts(t) for t in one] == [True] * len(one)
    assert [c.accepts(t) for t in none] == [False] * len(none)
    assert all(len(json.loads(t)) == 1 for t in one)


def test_references():
    tree = {
        "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
                           "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                           "required": ["v"], "additionalProperties": False}},
        "$ref": "#/$defs/node",
    }  # fmt: skip

    def nested(levels: int) -> str:
        return json.dumps({"v": 1, "kids": [json.loads(nested(levels - 1))]} if levels else {"v": 0})

    assert json_schema({"type": "object"}).accepts('{"a": ' * 7 + "[1]" + "}" * 7)  # it says little
    c = json_schema(tree, max_depth=2)
    assert [c.accepts(nested(n)) for n in range(5)] == [True, True, True, False, False]
    assert json_schema({"$defs": {"a/b~c": {"const": 1}}, "$ref": "#/$defs/a~1b~0c"}).accepts("1")
    quoting = {"$defs": {"a": {"const": {"$ref": "nothing"}}}, "$ref": "#/$defs/a"}
    assert json_schema(quoting).accepts('{"$ref": "nothing"}')
    for loop in ({"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"type": "object"}]}):
        with pytest.raises(tt.errors.UnsupportedConstraint):
            json_schema(loop)
    with pytest.raises(tt.errors.EmptyLanguage):
        json_schema({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}).shortest()
    for ref in ("#/$defs/none", "other.json", "#anchor"):
        with pytest.raises(tt.errors.UnsupportedConstraint) as error:
            json_schema({"properties": {"x": {"$ref": ref}}})
        assert error.value.path == "/properties/x/$ref"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"items": {"not": {"uniqueItems": True}}}, "/items/uniqueItems"),
        ({"anyOf": [{"not": 3}]}, "/anyOf/0/not"),
        ({"type": "text"}, "/type"),
        ({"properties": {"a/b": {"type": 3}}}, "/properties/a~1b/type"),
        ({"properties": []}, "/properties"),
        ({"minLength": True}, "/minLength"),
        ({"allOf": []}, "/allOf"),
        ({"items": 3}, "/items"),
        ({"minItems": -1}, "/minItems"),
        ({"required": [1]}, "/required"),
        ({"type": [["null"]]}, "/type"),
        ({"allOf": [True, {"properties": {"x": {"anyOf": [{"items": [3]}]}}}]}, "/allOf/1/properties/x/anyOf/0/items"),
        ({"$defs": {"d": {"not": 1}}, "properties": {"x": {"$ref": "#/$defs/d"}}}, "/$defs/d/not"),
        ({"pattern": r"(a)?\1"}, "/pattern"), ({"pattern": r"(a+)\1"}, "/pattern"),
        ({"$schema": "http://example.com/dialect"}, "/$schema"),
        ({"patternProperties": {"(": {}}}, "/patternProperties/("),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_path(schema, path):
    with pytest.raises(tt.errors.UnsupportedConstraint) as error:
        json_schema(schema)
    assert error.value.path == path


def test_annotations_are_let_through():
    schema = {"$id": "y", "title": "t", "description": "d", "default": 3, "examples": [1], "$comment": "c",
              "deprecated": True, "readOnly": True, "const": 3}  # fmt: skip
    assert json_schema(schema).accepts("3")


def test_forms_of_input(tmp_path):
    from pydantic import BaseModel

    class Animal(BaseModel):
        name: str
        legs: int = 4
        kind: Literal["cat", "dog"] | None = None
        friends: list[str] = []

    by_model = json_schema(Animal)
    assert by_model.accepts('{"name": "Tom", "legs": 4, "kind": "cat", "friends": []}')
    assert by_model.accepts('{"name": "Tom", "kind": null}')
    assert not by_model.accepts('{"name": "Tom", "kind": "cow"}')
    text = json.dumps(Animal.model_json_schema())
    path = tmp_path / "animal.json"
    path.write_text(text, encoding="utf-8")
    for form in (text, path, str(path), json.loads(text)):
        assert json_schema(form).accepts('{"name": "Tom"}')
    assert json_schema("true").accepts("[]")
    for wrong in (
        "{",
        "[]",
        3,
        tt.Vocabulary,
        tmp_path / "missing.json",
        {"enum": [float("nan")]},
        {"const": {1, 2}},
    ):
        with pytest.raises(tt.errors.FormatError):
            json_schema(wrong)


def test_undeclared_names_are_not_declared_ones():
    c = json_schema(
        {
            "properties": {"é": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
            "type": "object",
        }
    )
    assert c.accepts('{"é": 1, "e": "x"}')
    assert not c.accepts('{"é": "x"}')
    assert not c.accepts(r'{"\u00e9": "x"}')
    assert c.accepts(r'{"\u00e9": 1}')


def test_a_choice_of_required_pairs():
    """n pairs of which one must be complete (Dang et al. 2026, Figure 4): the deterministic automaton has 2^n states."""
    for n in (2, 4, 8, 12):
        properties = {f"{k}{i}": {"const": 1} for k in "ab" for i in range(n)}
        schema = {"type": "object", "properties": properties, "additionalProperties": False,
                  "anyOf": [{"required": [f"a{i}", f"b{i}"]} for i in range(n)]}  # fmt: skip
        constraint = json_schema(schema, order="declared")
        assert constraint.accepts(f'{{"a0": 1, "a{n - 1}": 1, "b{n - 1}": 1}}')
        assert not constraint.accepts('{"a0": 1, "b1": 1}')


def test_mutual_recursion():
    """Two definitions that contain each other; each is met again at most ``max_depth`` times on the way down."""
    schema = {
        "$defs": {
            "x": {"type": "array", "items": {"$ref": "#/$defs/y"}},
            "y": {"anyOf": [{"const": 0}, {"$ref": "#/$defs/x"}]},
        },
        "prefixItems": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}],
        "type": "array",
        "maxItems": 2,
    }
    c = json_schema(schema, max_depth=2)
    assert all(c.accepts(t) for t in ("[[[0]]]", "[[], 0]", "[[0, [0]], [0]]", "[[[]], [[]]]"))
    assert not any(c.accepts(t) for t in ("[0]", "[[1]]", "[[], 0, 0]", "[[[[[[[[0]]]]]]]]"))
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid([[[[[[[[0]]]]]]]])  # beyond the depth, not beyond the schema


def test_a_tiny_step() -> None:
    """A step with hundreds of digits after the point does not overflow."""
    found = json_schema({"multipleOf": 1e-30})
    assert found.accepts("0.5")
    assert found.accepts("3")
    assert not found.accepts("0." + "0" * 30 + "1")


def test_an_error_names_the_place() -> None:
    schema = {"properties": {"a": {"multipleOf": 123457}}}
    with pytest.raises(tt.errors.TooManyStates, match="/properties/a") as caught:
        json_schema(schema)
    assert caught.value.path == "/properties/a"


def test_no_state_leads_nowhere():
    schema = {
        "type": "object",
        "anyOf": [{"patternProperties": {"^.{1,2}$": True}, "additionalProperties": False}],
        "not": {"patternProperties": {"^ab": False}},
        "maxProperties": 1,
    }
    constraint = json_schema(schema)
    automaton = constraint.bytes_automaton
    again = Nfa(automaton.num_states, automaton.edges, (), automaton.start, automaton.accept)
    assert again.plain.num_states == automaton.num_states
    vocab = Vocabulary([None, *(bytes([byte]) for byte in range(256)), b'{"', b'":'], eos_token_id=0)
    compiled = constraint.compile(vocab)
    assert compiled.distances[compiled.start_states].min() == 8  # {" a b ": space 0 } EOS
