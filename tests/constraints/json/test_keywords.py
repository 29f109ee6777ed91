"""Every keyword of JSON Schema: cases by hand, and random schemas of all keywords against the ``jsonschema`` package."""

import json
import random

import jsonschema
import pytest
from cases import groups
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
    every = groups()["json_keywords: Every keyword of JSON Schema, and what its negation leaves"]
    schemas = [json.loads(case.given) for case in every[::3]]

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
