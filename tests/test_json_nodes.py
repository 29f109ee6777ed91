"""Values of a JSON Schema as nodes, against the automata of the schema: equal masks along random texts."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tractile as tt
from tractile.constraints.engine import native
from tractile.constraints.engine.masks import ProgramTokens
from tractile.constraints.masks.recording_tokens import RecordingTokens

PIECES = (
    '": ', '", "', '"a": ', '"b', 'c"', ", ", "10", "1.0", ".0", "00", ", 1", "é", "\\u00", '{"', "[1", "ab", '"]',
    "\n", "\n  ", ",\n", "{\n", "\n}", "23:59", ":60", "2016-12-31T", '5Z"', " ,", ": 1",
)  # fmt: skip
VOCAB = tt.Vocabulary(
    [
        None,
        *(bytes([b]) for b in range(256)),
        *dict.fromkeys(p.encode() for p in PIECES if len(p.encode()) > 1),
    ],
    eos_token_id=0,
)
VALUE = {"enum": [1, 10, 1.5, 100, "a", "ab", "é", '"', None, True]}
OPEN = {
    "properties": {"b": {"type": "integer"}, "a": {"type": "null"}, "ac": {"type": "boolean"}},
    "additionalProperties": {"enum": [0, "x"]},
}
CLOSED = OPEN | {"additionalProperties": False, "type": "object"}
SCHEMAS = {
    "listed": ({"type": "array", "items": VALUE, "uniqueItems": True}, {}),
    "listed, counted": (
        {"type": "array", "items": VALUE, "uniqueItems": True, "minItems": 2, "maxItems": 3},
        {"whitespace": "flexible"},
    ),
    "listed, all": (
        {"type": "array", "items": {"enum": [1, 10, 100]}, "uniqueItems": True, "minItems": 3},
        {"numbers": "plain"},
    ),
    "some counted": (
        {
            "type": "array",
            "items": {"enum": [1, "a", 10]},
            "contains": {"const": 1},
            "minContains": 2,
            "maxContains": 2,
            "maxItems": 4,
        },
        {},
    ),
    "some counted, on lines": (
        {
            "type": "array",
            "items": {"enum": [1, "a"]},
            "contains": {"const": 1},
            "maxContains": 1,
            "minContains": 0,
        },
        {"indent": 2},
    ),
    "listed, on lines": (
        {"type": "array", "items": {"enum": [1, "a", 10]}, "uniqueItems": True},
        {"indent": 2},
    ),
    "times": ({"type": "string", "format": "time"}, {}),
    "date and time": ({"type": "string", "format": "date-time"}, {}),
    "in order": (CLOSED | {"minProperties": 2}, {"order": "declared"}),
    "in order, open": (OPEN | {"required": ["b", "ac"], "maxProperties": 4}, {"order": "declared"}),
    "in two orders": (CLOSED | {"required": ["a", "b"]}, {"order": "declared"}),
    "in two orders, open": (
        OPEN | {"required": ["ac", "b"], "maxProperties": 3},
        {"order": "declared", "whitespace": "flexible"},
    ),
    "one of two, closed": (
        {
            "oneOf": [
                {"additionalProperties": False, "properties": {"a": {"type": "null"}}},
                {"additionalProperties": False, "properties": {"b": {"type": "null"}}},
            ],
            "type": "object",
        },
        {},
    ),
    "names of a length": (
        {
            "propertyNames": {"maxLength": 3, "minLength": 1},
            "properties": {"ab": {"type": "null"}, "é": {"enum": [1]}},
            "additionalProperties": {"type": "boolean"},
            "type": "object",
        },
        {},
    ),
    "names without a value": (
        {
            "properties": {"ab": False, "abc": {"enum": [1]}, "b": False},
            "patternProperties": {"^a|^b$": {"enum": [1, 2]}},
            "additionalProperties": False,
            "type": "object",
        },
        {},
    ),
    "on lines": (
        CLOSED
        | {
            "required": ["b"],
            "properties": CLOSED["properties"] | {"c": {"type": "array", "items": CLOSED}},
        },
        {"indent": 2},
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_those_of_the_automaton(name):
    schema, options = SCHEMAS[name]
    constraint = tt.constraints.json_schema(schema, on_narrowed="ignore", **options)
    node = constraint.program()
    assert node is not None
    compiled = native.CompiledTokens if native.Core is not None else ProgramTokens
    automata = RecordingTokens(constraint.automaton, VOCAB), compiled(node, VOCAB)
    rng, complete = random.Random(0), 0
    for _ in range(25):
        states = [each.start_state for each in automata]
        text = b""
        for _ in range(40):
            mask, other = (each.words_from(state) for each, state in zip(automata, states, strict=True))
            allowed = np.flatnonzero(np.unpackbits(np.asarray(mask).view(np.uint8), bitorder="little"))
            assert (np.asarray(mask) == np.asarray(other)).all(), text
            complete += 0 in allowed
            likely = [t for t in allowed if t and (t > 256 or rng.random() < 0.3)] or [
                t for t in allowed if t
            ]
            if not likely:
                break
            token = int(rng.choice(likely))
            text += VOCAB.token_bytes[token]
            states = [each.step(state, token) for each, state in zip(automata, states, strict=True)]
    assert complete


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True},
        {"type": "object", "minProperties": 2},
    ],
)
def test_what_differs_without_a_list_is_not_written(schema):
    assert tt.constraints.json_schema(schema, on_narrowed="ignore").program() is None
