"""Every keyword of JSON Schema: cases by hand, and random schemas of all keywords against the ``jsonschema`` package."""

# ruff: noqa: E501

import json
import random

import jsonschema
import pytest
from counting import at_most
from finite import finite_json
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import json_schema
from tractile.constraints.automata import dfa
from tractile.constraints.automata.repeats import repeat
from tractile.constraints.automata.utf8 import EVERY
from tractile.constraints.json import strings
from tractile.constraints.json.numbers import multiples
from tractile.constraints.json.patterns import matching
from tractile.constraints.json.shapes import Strings
from tractile.constraints.json.text import JSON

D4, D7, D20 = (
    {"$schema": f"{host}://json-schema.org/{name}"}
    for host, name in [
        ("http", "draft-04/schema#"),
        ("http", "draft-07/schema#"),
        ("https", "draft/2020-12/schema"),
    ]
)

# (schema, valid, invalid)
CASES = [
    ({"type": "integer"}, [1, 1.0, -7], [1.5, "1", None, True]),
    ({**D4, "type": "integer"}, [1], [1.0]),
    ({**D4, "type": "integer", "enum": [0, 1, 2.5]}, [0, 1], [0.0, 1.0, 2.5]),
    ({**D4, "enum": [0, 1]}, [0, 1.0], [2]),
    ({"not": {"type": ["integer", "string"]}}, [1.5, None, [], {}, True], [1, 2.0, "x"]),
    ({"const": 1}, [1, 1.0], [True, "1", 1.5]),
    ({"const": {"a": [1, False]}}, [{"a": [1.0, False]}], [{"a": [1, 0]}, {"a": [True, False]}, {}]),
    ({"enum": [[], {"k": None}, "x", 0]}, [[], {"k": None}, "x", 0.0], [False, [0], {}, {"k": 0}, "y"]),
    ({"not": {"enum": [[1], {"a": 2}, 3]}}, [[], [2], [1, 1], {}, {"a": 3}, {"a": 2, "b": 2}, 4], [[1], {"a": 2}, 3.0]),
    ({"minimum": -1.5, "exclusiveMaximum": 2}, [-1.5, 0, 1.99, "x"], [-1.51, 2, 2.0]),
    ({**D4, "maximum": 3, "exclusiveMaximum": True}, [2, 2.9], [3]),
    ({"not": {"minimum": 3}}, [2, 2.9], [3, "x"]),
    ({"multipleOf": 0.01}, [19.99, 3, -0.5], [0.001, 19.995]),
    ({"type": "integer", "multipleOf": 7, "minimum": 20}, [21, 28, 700], [14, 22]),
    ({"not": {"multipleOf": 3}, "type": "number"}, [1, 2.5], [0, -9, 6.0]),
    ({"minLength": 2, "maxLength": 3.0}, ["ab", "🙂é\n", 5], ["a", "abcd", "🙂"]),
    ({"not": {"maxLength": 1}}, ["ab"], ["a", 1]),
    ({"pattern": "^[a-c]+$", "not": {"pattern": "b"}}, ["ac"], ["abc", "", "d", 3]),
    ({"format": "date"}, ["2000-02-29", 3], ["1900-02-29", "2000-2-29", "x"]),
    ({"format": "ipv4"}, ["127.0.0.1"], ["127.0.0.01", "1.2.3", "256.1.1.1"]),
    ({"format": "ipv6"}, ["::", "1::8", "::ffff:1.2.3.4", "a:b:c:d:e:f:1:2"], ["1:2", ":::", "1::2::3", "::1%eth0"]),
    ({"format": "date-time"}, ["2024-05-01T10:00:00Z", "2024-05-01t10:00:00.25+02:00"], ["2024-05-01", "2024-05-01T25:00:00Z"]),
    ({"format": "uri"}, ["http://a.b/c?d#e", "urn:x:y"], ["a/b", "http://a b", "//x"]),
    ({"format": "email"}, ["a.b@c.de"], ["a", "@b", "a@"]),
    ({"format": "uuid"}, ["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    ({"format": "made-up"}, ["anything"], []),
    ({"prefixItems": [{"const": 1}], "items": {"type": "string"}}, [[], [1], [1, "x", "y"]], [[2], [1, 2]]),
    ({**D7, "items": [{"const": 1}], "additionalItems": False}, [[], [1]], [[1, 1], [2]]),
    ({"not": {"items": {"type": "string"}}}, [[1], ["x", 1]], [[], ["x"], "x"]),
    ({"not": {"prefixItems": [True, {"type": "null"}]}}, [[1, 2], [None, 0, 1]], [[], [1], [1, None, 3]]),
    ({"contains": {"type": "null"}, "maxContains": 2}, [[None], [1, None, None]], [[], [1], [None, None, None]]),
    ({"contains": {"minimum": 5}, "minContains": 2, "maxItems": 3}, [[5, 6], [1, 7, 8]], [[5], [1, 2, 6], [5, 5, 5, 5]]),
    ({"contains": {"const": 1}, "minContains": 0}, [[], [1]], []),
    ({"not": {"contains": {"const": 1}}}, [[], [2, 3]], [[1], [2, 1], 1]),
    ({"uniqueItems": True, "items": {"enum": ["a", "b", None]}}, [[], ["b", "a"], [None, "a", "b"]], [["a", "a"], ["a", "b", "a"]]),
    ({"uniqueItems": True, "prefixItems": [{"type": "string"}, {"type": "null"}], "items": False}, [["x", None]], [["x", "x"]]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
    ({"required": ["a"], "additionalProperties": False}, [3], [{}, {"a": 1}]),
    ({"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": {"type": "string"}}, [{"xa": None, "b": "s"}], [{"xa": 1}, {"b": None}]),
    ({"properties": {"xa": {}}, "patternProperties": {"^x": {"type": "null"}}}, [{"xa": None}], [{"xa": 1}]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {}], [{"ab": 1}, {"a": 1, "bc": 2}]),
    ({"not": {"propertyNames": {"maxLength": 1}}}, [{"ab": 1}, {"a": 1, "bc": 2}], [{"a": 1}, {}]),
    ({"not": {"additionalProperties": {"type": "string"}}}, [{"a": 1}, {"a": "x", "b": 2}], [{}, {"a": "x"}]),
    ({"not": {"patternProperties": {"^a": {"type": "string"}}}}, [{"a": 1}, {"b": 1, "ab": 1}], [{"b": 1}, {"a": "x"}]),
    ({"minProperties": 1, "maxProperties": 2}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": 1, "b": 2, "c": 3}]),
    ({"properties": {k: {} for k in "abc"}, "additionalProperties": False, "minProperties": 2}, [{"a": 1, "c": 2}], [{"b": 1}, {}]),
    ({"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 2}], [{"a": 1}, {"a": 1, "c": 2}]),
    ({"dependentSchemas": {"a": {"maxProperties": 1}}}, [{"a": 1}, {"b": 1, "c": 2}], [{"a": 1, "b": 2}]),
    ({**D7, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"a": 1, "b": 1}, {"c": 1, "d": 1}], [{"a": 1}, {"c": 1}]),
    ({**D20, "dependencies": {"a": ["b"]}}, [{"a": 1}], []),
    ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"}, [2, 3, 8], [1, 6, 12]),
    ({"not": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}, [{}, {"a": 1, "b": 2}, 3], [{"a": 1}, {"b": 1}]),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"const": 0}}, ["ab", 0], ["a", 1, None]),
    ({"then": False}, [1], []),
    ({"type": "number", "allOf": [{"minimum": 1}, {"minimum": 5}, {"maximum": 9}, {"exclusiveMaximum": 9}, {"maximum": 12}]}, [5, 8.9], [1, 4.9, 9, 12]),
    ({"type": "string", "allOf": [{"minLength": 1}, {"minLength": 3}, {"maxLength": 5}, {"maxLength": 4}]}, ["abc", "abcd"], ["ab", "abcde"]),
    ({"allOf": [{"properties": {"a": {"minimum": 2}}}, {"properties": {"a": {"maximum": 3}}}]}, [{"a": 2}, {"a": "x"}], [{"a": 1}, {"a": 4}]),
    ({"not": {"not": {"type": "null"}}}, [None], [0]),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
    ({"anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {}}}], "unevaluatedProperties": False},
     [{"a": None, "b": 1}, {"b": 1}, {"a": None}], [{"a": 1}, {"c": 1}]),
    ({"prefixItems": [{}], "unevaluatedItems": {"type": "null"}}, [[1], [1, None]], [[1, 2]]),
    ({**D7, "unevaluatedProperties": False}, [{"a": 1}], []),
    ({"$defs": {"p": {"$anchor": "pos", "minimum": 1}}, "$ref": "#pos", "maximum": 3}, [1, 3], [0, 4]),
    ({**D7, "definitions": {"p": {"minimum": 1}}, "$ref": "#/definitions/p", "maximum": 3}, [1, 4], [0]),
    ({"$id": "http://x.y/root", "$defs": {"a": {"$id": "sub", "$defs": {"b": {"type": "null"}}, "items": {"$ref": "#/$defs/b"}}},
      "$ref": "sub"}, [[None], 3], [[1]]),
    ({"$dynamicAnchor": "n", "properties": {"x": {"$dynamicRef": "#n"}}, "required": ["k"]}, [{"x": {"k": 1}, "k": 1}], [{"x": {}, "k": 1}]),
    ({"type": "object", "oneOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {"required": ["b"]}]},
     [{"a": {"b": 1}}, {"b": 1}, {"a": 1, "b": 1}], [{}, {"a": {}}, {"a": {"b": 1}, "b": 1}]),
    ({"prefixItems": [{"properties": {"title": {"type": "string"}}}, {"properties": {"title": {"type": "null"}}}]},
     [[{"title": "x"}, {"title": None}]], [[{"title": "x"}, {"title": "x"}], [{"title": None}, {"title": None}]]),
    ({"prefixItems": [{"const": {"title": 1}}, {"const": {"title": 2}}]}, [[{"title": 1}, {"title": 2}]], [[{"title": 1}, {"title": 1}]]),
    ({"not": {"type": "array", "items": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}},
     [[1], [[2]], 3], [[], [[]], [[[[[]]]]]]),
    ({"type": ["number", "null"], "allOf": [{"minimum": 5}, {"maximum": 3}]}, [None], [3, 4, 5]),
    ({"enum": [1, 5, 9, "a"], "minimum": 2, "exclusiveMaximum": 9}, [5, "a"], [1, 9]),
    ({"type": ["string", "null"], "allOf": [{"minLength": 3}, {"maxLength": 2}]}, [None], ["ab", "abc"]),
    ({"type": ["string", "null"], "allOf": [{"pattern": "a"}, {"not": {"type": "string", "pattern": "a"}}]}, [None], ["a", "b"]),
    ({"type": ["array", "null"], "allOf": [{"minItems": 2}, {"prefixItems": [True, False]}]}, [None], [[1], [1, 2]]),
    ({"type": "object", "allOf": [{"anyOf": [{"required": [*names]} for names in ("ab", *"cdefgah")]}] * 2}, [{"a": 1}, {"h": 1}], [{}, {"x": 1}]),
    ({"required": ["k"], "allOf": [{"oneOf": [{"properties": {"k": {"const": k}}} for k in (1, 2)]}], "type": "object"},
     [{"k": 1}, {"k": 2}], [{}, {"k": 3}]),
    ({"type": "object", "patternProperties": {"^a": {"type": "null"}},
      "not": {"patternProperties": {"^a": {}}, "additionalProperties": {"type": "string"}}},
     [{"b": 1}, {"a": None, "b": 1}], [{}, {"a": None}, {"b": "x"}]),
    ({"type": "object", "allOf": [{"not": {"patternProperties": {"^a": {"not": {"type": t}}}}} for t in ("string", "integer")]},
     [{"a": "x", "ab": 1}], [{"a": "x"}, {"a": 1}, {"b": "x", "a": 1}]),
    ({"not": {"oneOf": [{"enum": ["a"]}, {"enum": ["a", "b"]}]}}, ["a", "c"], ["b"]),
    ({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "not": {"propertyNames": {"enum": ["a"]}}}, [{"b": 1}], [{}, {"a": 1}]),
]  # fmt: skip


def accepts(constraint: tt.constraints.Constraint, value: object) -> bool:
    return constraint.accepts(json.dumps(value, ensure_ascii=False))


NAMES = ["a", "b", "ab", "c"]
SCALARS = [None, True, False, 0, 1, 2, 3.5, -1, 6.0, "", "a", "ab", "bb", "2024-02-29", "é"]


def random_value(rng: random.Random, depth: int = 2):
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(SCALARS)
    if kind < 0.6:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {n: random_value(rng, depth - 1) for n in rng.sample(NAMES, rng.randint(0, 3))}


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]+$", "a.*b", "^(ab|é)*$", r"\n", "^$", "^[a-c]{3,7}$", "^(aaa)*$", r"^(\n|an)$", r"^(\S+ ){0,3}\S+$",
    ],
)  # fmt: skip
def test_counted_characters(pattern):
    """Copies of an automaton by the number of characters are the strings that are as long."""
    alphabet = JSON.alphabet
    for least, most in [(0, 0), (0, 1), (1, 1), (2, 5), (1, None), (3, None), (6, 9), (4, 4)]:
        shape = Strings(least, most, frozenset([("pattern", pattern, True)]))
        found = strings.body(shape, JSON)
        assert strings.empty(shape) == found.is_empty
        assert found.is_deterministic
        length = repeat(alphabet(EVERY), least, most)
        expected = dfa.intersect(matching(pattern, True, alphabet), length)
        assert dfa.difference(found, expected).is_empty
        assert dfa.difference(expected, found).is_empty


def test_many_alternatives_that_say_the_same():
    """Of many shapes those that lie within others are dropped, and what is left is exact."""
    schema = {
        "allOf": [
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"maxProperties": i % 2}]} for i in range(12)
        ]
    }
    constraint = json_schema(schema, order="any")
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(0)
    for _ in range(60):
        value = random_value(rng)
        assert accepts(constraint, value) == validator.is_valid(value), value


@pytest.mark.long
def test_compilations_leave_nothing_behind():
    """What is compiled before a schema, in whatever order, changes nothing of it."""
    rng = random.Random(1)
    schemas = [schema for schema, _, _ in CASES[::3]]

    def sizes(order):
        found = {}
        for i in order:
            nfa = finite_json(schemas[i]).nfa
            found[i] = (nfa.num_states, len(nfa.edges), int(nfa.edges.sum()))
        return found

    first = sizes(range(len(schemas)))
    assert sizes(rng.sample(range(len(schemas)), len(schemas))) == first


@given(st.sampled_from(["0.01", "2.5", "3", "40", "0.125"]), st.integers(-3000, 3000), st.integers(0, 3))
def test_multiples(step, digits, shift):
    from decimal import Decimal

    value = Decimal(digits).scaleb(-shift)
    assert multiples(Decimal(step)).accepts(f"{value:f}".encode()) == (value % Decimal(step) == 0)


def test_orders():
    schema = {
        "properties": {"a": {}, "b": {}, "c": {}},
        "required": ["c", "a"],
        "additionalProperties": False,
    }
    texts = [
        '{"a": 1, "b": 1, "c": 1}',
        '{"c": 1, "a": 1, "b": 1}',
        '{"b": 1, "a": 1, "c": 1}',
        '{"c": 1, "a": 1}',
    ]
    assert [json_schema(schema, order="declared").accepts(t) for t in texts] == [True, True, False, True]
    assert all(json_schema(schema, order=order).accepts(t) for t in texts for order in ("any", "auto"))
    many = {"properties": {f"k{i}": {} for i in range(30)}}
    assert json_schema(many, order="any").accepts('{"k29": 0, "k1": 0}')
    assert "order" in [each.keyword for each in finite_json(many, order="any", on_narrowed="ignore").narrowed]
    auto = finite_json({**many, "required": ["k9"]}, order="auto")
    assert auto.accepts('{"k1": 0, "k9": 0}')
    assert not any(auto.accepts(t) for t in ('{"k9": 0, "k1": 0}', '{"k9": 0, "k11": 0, "k11": 0}'))
    names = list(many["properties"])
    pairs = [f'"{name}": 0' for name in names]
    auto = finite_json({**many, "required": names}, order="auto")
    assert auto.accepts("{" + ", ".join(pairs) + "}")
    assert not auto.accepts("{" + ", ".join(pairs[::-1]) + "}")
    mixed = {
        "properties": {
            "a": {"type": "null"},
            "b": {
                "properties": {n: {"type": "null"} for n in names},
                "required": names[:25],
                "type": "object",
            },
        },
        "required": ["b"],
        "type": "object",
    }
    auto = finite_json(mixed, order="auto", open_objects=False)
    pairs = [f'"{name}": null' for name in names]
    inner = [", ".join(p) for p in (pairs[:26], pairs[:26][::-1])]
    assert auto.accepts(f'{{"b": {{{inner[0]}}}, "a": null}}')
    assert auto.accepts(f'{{"a": null, "b": {{{inner[0]}}}}}')
    assert not any(auto.accepts(t) for t in (f'{{"b": {{{inner[1]}}}}}', '{"b": {}, "a": 1}', '{"a": null}'))


@pytest.mark.parametrize(
    "schema",
    [
        {"minLength": 10**9},
        {"multipleOf": 0.123456789},
        {"allOf": [{"oneOf": [{"required": [f"{i}{j}"]} for j in range(12)]} for i in range(12)]},
        {"pattern": "(a{1,1000}){1,1000}"},
    ],
)
def test_what_is_too_large_is_refused_soon(schema):
    work = 100_000
    with at_most(20 * work), pytest.raises(tt.errors.TooManyStates):
        tt.constraints.Limits(work=work).run(lambda: json_schema(schema))
