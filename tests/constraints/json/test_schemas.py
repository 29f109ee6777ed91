"""JSON Schema against the ``jsonschema`` package, on random schemas and instances near them."""

import json
from decimal import Decimal
from typing import Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import Vocabulary, json_schema
from tractile.constraints.automata.nfa import trim
from tractile.constraints.json.numbers import number
from tractile.constraints.json.shapes import Bound, Numbers

NAMES = ["a", "ab", "b", 'q"', "é", ""]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-12, 12), st.sampled_from([0.5, -1.25, 10.0, 1e-7, 2.5e30]),
    st.text(st.sampled_from('abé"\\/\n\x01\x7f🙂'), max_size=4),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(st.sampled_from(NAMES), v, max_size=3)),
    max_leaves=5,
)
PATTERNS = ["a", "^a", "b$", "^(ab|é)*$", "^[a-b]{1,2}$", "^.$", "[^a]", r"^\S+$", r"\n", "^$", r"^[\w\\]*$"]


def bounds(low: str, high: str, values) -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries({}, optional={low: values, high: values})


def schemas(depth: int = 2) -> st.SearchStrategy:
    limits = st.integers(-12, 12) | st.sampled_from([0.5, -1.25, 9.99])
    sizes = st.integers(0, 3)
    string = st.fixed_dictionaries(
        {}, optional={"minLength": sizes, "maxLength": sizes, "pattern": st.sampled_from(PATTERNS)}
    )
    numbers = st.fixed_dictionaries(
        {},
        optional={
            "minimum": limits,
            "maximum": limits,
            "exclusiveMinimum": limits,
            "exclusiveMaximum": limits,
        },
    )
    plain = st.one_of(
        st.booleans(),
        st.builds(dict, type=st.sampled_from(["null", "boolean", "integer", "number", "string"])),
        st.lists(SCALARS, min_size=1, max_size=4).map(lambda v: {"enum": v}),
        VALUES.map(lambda v: {"const": v}),
        string.map(lambda s: {"type": "string", **s}),
        numbers.map(lambda s: {"type": "number", **s}),
        numbers.map(lambda s: {"type": ["integer", "null"], **s}),
        string,
    )
    if not depth:
        return plain
    inner = schemas(depth - 1)
    array = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": sizes,
            "maxItems": sizes,
        },
    )
    obj = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
            "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
            "additionalProperties": inner,
        },
    )
    some = st.lists(inner, min_size=1, max_size=3)
    combined = st.fixed_dictionaries({}, optional={"allOf": some, "anyOf": some, "oneOf": some}).flatmap(
        lambda c: st.one_of(plain, array, obj).map(lambda s: {**s, **c} if isinstance(s, dict) else c)
    )
    return st.one_of(plain, array, obj, array, obj, combined)


@st.composite
def instances(draw, schema, root=None):
    """A value that follows the schema for a while, so that many are valid."""
    if not isinstance(schema, dict) or draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and draw(st.booleans()):
            return draw(instances(draw(st.sampled_from(schema[key]))))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type", "any")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        names = [
            *properties,
            *(n for n in [*schema.get("required", []), draw(st.sampled_from(NAMES))] if n not in properties),
        ]
        chosen = [n for n in names if n in schema.get("required", []) or draw(st.integers(0, 2))]
        return {n: draw(instances(properties.get(n, extra))) for n in chosen}
    if kind == "array":
        size = draw(
            st.integers(schema.get("minItems", 0), max(schema.get("maxItems", 3), schema.get("minItems", 0)))
        )
        prefix = schema.get("prefixItems", [])
        return [
            draw(instances(prefix[i] if i < len(prefix) else schema.get("items", True))) for i in range(size)
        ]
    if kind == "integer":
        return draw(st.integers(-13, 13))
    if kind == "number":
        return draw(st.sampled_from([0, 1, -3, 12, 0.5, -1.25, 9.99, 10.5, 0.25]))
    if kind in ("string", "any"):
        return draw(st.text(st.sampled_from("abé\n"), max_size=4))
    return draw(VALUES)


def depth(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def as_python(schema):
    """The schema with patterns that mean to Python's ``re`` what they mean in JSON Schema (ECMA-262)."""
    if isinstance(schema, dict):
        return {
            k: "(?a)" + v.replace("$", r"\Z")
            if k == "pattern"
            else v
            if k in ("const", "enum", "required")
            else as_python(v)
            for k, v in schema.items()
        }
    return [as_python(s) for s in schema] if isinstance(schema, list) else schema


def in_order(value, schema) -> bool:
    """Whether objects write their members in the schema's order; schemas with combinators are not looked into."""
    if not isinstance(schema, dict):
        return True
    if any(key in schema for key in ("allOf", "anyOf", "oneOf", "const", "enum")):
        return not contains_object(value, 2)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        order = list(dict.fromkeys([*properties, *schema.get("required", [])]))
        listed = [n for n in value if n in order]
        return list(value) == sorted(listed, key=order.index) + [n for n in value if n not in order] and all(
            in_order(v, properties.get(n, schema.get("additionalProperties", True))) for n, v in value.items()
        )
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        return all(
            in_order(v, prefix[i] if i < len(prefix) else schema.get("items", True))
            for i, v in enumerate(value)
        )
    return True


def contains_object(value, members: int) -> bool:
    if isinstance(value, dict):
        return len(value) >= members or any(contains_object(v, members) for v in value.values())
    return isinstance(value, list) and any(contains_object(v, members) for v in value)


def has_exotic_number(value) -> bool:
    """Numbers with an exponent (refused under bounds), and whole ones with ``.0`` (not the integers' spelling)."""
    if isinstance(value, float):
        return "e" in repr(value) or value.is_integer()
    return any(
        map(
            has_exotic_number,
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else (),
        )
    )


@settings(max_examples=120)
@given(st.data())
def test_against_the_validator(data):
    """Never accept what the validator rejects; reject a valid one only for order, depth or the spelling of numbers."""
    schema = data.draw(schemas())
    constraint = json_schema(schema, max_depth=2)
    validator = jsonschema.Draft202012Validator(as_python(schema))
    for _ in range(6):
        value = data.draw(instances(schema))
        valid = validator.is_valid(value)
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
            accepted = constraint.accepts(text)
            assert valid or not accepted, (schema, text)
            regular = depth(value) <= 2 and in_order(value, schema) and not has_exotic_number(value)
            if valid and regular:
                assert accepted, (schema, text)
    if not constraint.is_empty():
        assert validator.is_valid(json.loads(constraint.shortest()))


@settings(max_examples=200)
@given(
    st.sampled_from(["0", "1", "-1", "7", "-10", "99", "100", "0.5", "-0.05", "12.34", "-7.9", "1000.001"]),
    st.sampled_from(["0", "1", "-1", "7", "-10", "99", "100", "0.5", "-0.05", "12.34", "-7.9", "1000.001"]),
    st.booleans(), st.booleans(),
    st.decimals(-1200, 1200, places=3) | st.decimals(-2, 2, places=2) | st.integers(-110, 110).map(Decimal),
)  # fmt: skip
def test_bounds_of_numbers(low, high, strict_low, strict_high, value):
    ends = Bound(Decimal(low), strict_low), Bound(Decimal(high), strict_high)
    inside = (value > ends[0].value if strict_low else value >= ends[0].value) and (
        value < ends[1].value if strict_high else value <= ends[1].value
    )
    short = f"{value.normalize():f}"
    for text in {short, f"{value:f}", short + ("0" if "." in short else ".00")}:
        assert number(Numbers(*ends)).accepts(text.encode()) == inside
        whole = number(Numbers(*ends, integer=True))
        assert whole.accepts(text.encode()) == (inside and value == value.to_integral_value())


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
        '"a"',
        '"é"',
        '"🙂"',
        r'"\n"',
        r'"\""',
        r'"\/"',
        r'"\u00e9"',
        r'"\u00E9"',
        r'"\ud83d\ude42"',
        r'"\u0000"',
        '"\x7f"',
    ]
    none = [
        '""',
        '"ab"',
        '"\n"',
        r'"\x41"',
        r'"\ud83d"',
        r'"\ude42"',
        '"\\"',
        r'"\u00"',
        '"a',
        r'"\ud83d\ud83d"',
    ]
    assert [c.accepts(t) for t in one] == [True] * len(one)
    assert [c.accepts(t) for t in none] == [False] * len(none)
    assert all(len(json.loads(t)) == 1 for t in one)


def test_combinators_are_real_operations():
    required = [{"required": ["a"]}, {"required": ["b"]}]
    base = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": False,
    }
    texts = ["{}", '{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}', '{"b": 1, "a": 2}']
    for key, expected in [("anyOf", [0, 1, 1, 1, 0]), ("oneOf", [0, 1, 1, 0, 0]), ("allOf", [0, 0, 0, 1, 0])]:
        c = json_schema({**base, key: required}, order="declared")
        assert [int(c.accepts(t)) for t in texts] == expected
    split = json_schema(
        {
            "allOf": [{"properties": {"b": {"type": "null"}}}, {"properties": {"a": {"type": "null"}}}],
            "required": ["a"],
        }
    )
    assert split.accepts('{"b": null, "a": null, "c": 1}')
    assert not split.accepts('{"b": 1, "a": null}')
    assert not split.accepts('{"b": null, "a": 1}')


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
        ({"not": {"unevaluatedProperties": False}}, "/not/unevaluatedProperties"),
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


def test_closed_objects():
    schema = {"type": "object", "properties": {"a": {}}}
    assert json_schema(schema).accepts('{"b": 1}')
    assert not json_schema(schema, open_objects=False).accepts('{"b": 1}')
    assert json_schema({**schema, "additionalProperties": True}, open_objects=False).accepts('{"b": 1}')


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
    assert trim(automaton).num_states == automaton.num_states
    vocab = Vocabulary([None, *(bytes([byte]) for byte in range(256)), b'{"', b'":'], eos_token_id=0)
    compiled = constraint.compile(vocab)
    assert compiled.distances[compiled.start_states].min() == 8  # {" a b ": space 0 } EOS
