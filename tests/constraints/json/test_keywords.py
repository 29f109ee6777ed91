"""Keywords of JSON Schema whose automata are counted: lengths beside patterns, multiples, and what is too large."""

import json
import random

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
