"""Arrays of distinct items that are not listed: masks against steps, and texts against what they mean."""

import itertools
import json
import random
from decimal import Decimal

import jsonschema
import pytest

import tractile as tt
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.json.lazy.distinct import frozen
from tractile.constraints.json.lazy.rivals import leading_on, may_be

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PIECES = [
    '["',
    '", "',
    '"]',
    "hello",
    "world",
    "hell",
    "wor",
    'o"',
    'd"',
    ', "',
    '{"a": ',
    '{"',
    '"a',
    '": ',
    "}, {",
    "]",
    "}]",
]
PIECES += ["[[", "], [", ", ", '": "', '"}', 'lo", "hel', '"hello"', "11", "1, ", "é", '\\"', "[1", "1]"]
VOCAB = tt.Vocabulary(
    [None, *(bytes([b]) for b in range(256)), *(p.encode() for p in PIECES)], eos_token_id=0
)
SCHEMAS = [
    {"items": STRING},
    {"items": {"type": "string", "maxLength": 6}},
    {"items": {"type": "string", "pattern": "^[a-h]*$"}},
    {"items": {"type": ["string", "array"]}},
    {"items": INTEGER},
    {"items": {"type": "array", "items": STRING}},
    {"items": {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}},
    {"items": {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "additionalProperties": False}},
    {"items": STRING, "minItems": 3},
    {"items": {"enum": [[1], [2], {"a": 1}, "a"]}},
    {"items": {"enum": [[1], [2], [11]]}, "minItems": 3},
    {"items": {"type": "array", "items": INTEGER, "uniqueItems": True}},
    {"items": {"type": "object", "properties": {"a": {"type": "array", "items": STRING, "uniqueItems": True}}}},
    {"items": STRING, "contains": {"const": "hello"}},
    {"prefixItems": [STRING, {"type": "array", "items": STRING}], "items": STRING},
]  # fmt: skip


def array(schema):
    return tt.constraints.json_schema({"type": "array", "uniqueItems": True, **schema})


def holds_an_item(text, word):
    """Whether the token holds the end of an item and all of the next one: such tokens need not be in a mask."""
    sizes = [
        len(json.loads(text + word[:end] + b"]"))
        for end in range(len(word) + 1)
        if is_json(text + word[:end] + b"]")
    ]
    return bool(sizes) and sizes[-1] > sizes[0]


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_masks_are_the_tokens_that_can_be_read(schema):
    """From states on random texts, item ends apart that no vocabulary has."""
    lazy = array(schema).compile(VOCAB).lazy
    rng = random.Random(0)
    words = [(token, word) for token, word in enumerate(VOCAB.token_bytes) if word is not None]
    for _ in range(12):
        state, text = lazy.start_state, b""
        for _ in range(14):
            masked = {t for t in range(len(VOCAB)) if lazy.words_from(state)[t // 32] >> (t % 32) & 1} - {0}
            readable = {token for token, word in words if lazy.read(state, word) >= 0}
            assert masked <= readable, (text, [VOCAB.token_bytes[t] for t in masked - readable])
            for token in readable - masked:
                assert holds_an_item(text, VOCAB.token_bytes[token]), (text, VOCAB.token_bytes[token])
            if not masked:
                break
            long = [t for t in masked if t > 256]
            token = rng.choice(long if long and rng.random() < 0.7 else sorted(masked))
            state, text = lazy.read(state, VOCAB.token_bytes[token]), text + VOCAB.token_bytes[token]
            end = lazy.states.run(state, lazy.states.automaton.completion(lazy.states.configurations[state]))
            assert lazy.states.accepting(end), text


def test_strings_of_one_length_differ():
    """However they are divided into tokens."""
    lazy = array({"items": STRING}).compile(VOCAB).lazy
    for tokens, accepted in [
        (['["', "hello", '", "', "world", '"]'], True), (['["', "hello", '", "', "hell", 'o"', "]"], False),
        (['["', "hello", '", "', "hell", '"]'], True), (['["', 'hell', 'lo", "hel', 'lo"', "]"], True),
    ]:  # fmt: skip
        state = lazy.start_state
        for token in tokens:
            index = VOCAB.token_bytes.index(token.encode()) if token.encode() in VOCAB.token_bytes else None
            pieces = (
                [index]
                if index is not None
                else [VOCAB.token_bytes.index(bytes([b])) for b in token.encode()]
            )
            for piece in pieces:
                allowed = state >= 0 and lazy.words_from(state)[piece // 32] >> (piece % 32) & 1
                state = lazy.step(state, piece) if allowed else -1
        assert (state >= 0 and bool(lazy.states.accepting(state))) == accepted, tokens


VALUES = [
    "",
    "a",
    "ab",
    "é",
    '"',
    "\n",
    1,
    12,
    -0.5,
    True,
    False,
    None,
    [],
    [1],
    ["a", "b"],
    [[1], {}],
    {},
    {"a": 1},
]
VALUES += [{"a": [1, "x"], "b": True}, {"ab": "c"}]


def spelled_out(value):
    return [
        json.dumps(value, ensure_ascii=False).encode(),
        json.dumps(value, separators=(" ,", ":  ")).encode(),
    ]


def test_beginnings_of_texts_of_values():
    """A beginning of a text of the value may be it, and the next byte leads on; of another value at last not."""
    known = {
        json.dumps(v): frozen(json.loads(json.dumps(v), parse_int=Decimal, parse_float=Decimal))
        for v in VALUES
    }
    for value in VALUES:
        for text in spelled_out(value):
            for size in range(len(text)):
                assert may_be(text[:size], known[json.dumps(value)]), text[:size]
                onward = leading_on(text[:size], [known[json.dumps(value)]])
                assert onward is None or text[size] in onward, text[: size + 1]
            for other in VALUES:
                same = known[json.dumps(other)] == known[json.dumps(value)]
                number = isinstance(known[json.dumps(value)], Decimal) and isinstance(
                    known[json.dumps(other)], Decimal
                )
                assert may_be(text, known[json.dumps(other)]) == (same or number), (text, other)
                if not same and not number:
                    for size in range(len(text)):
                        onward = leading_on(text[:size], [known[json.dumps(other)]])
                        if onward is not None and text[size] not in onward and text[size] < 128:
                            assert not may_be(text[: size + 1], known[json.dumps(other)]), (
                                text[: size + 1],
                                other,
                            )


REPEATING = [
    {"items": {"enum": [1, 2, "a"]}},
    {"items": {"enum": [1, 2, "a"]}, "minItems": 3},
    {"items": {"enum": [1, "a"]}, "maxItems": 2},
    {"prefixItems": [{"enum": [1, 2]}, {"enum": ["a"]}], "items": {"enum": [2, None]}, "maxItems": 3},
    {"prefixItems": [{"enum": [1, 2]}, {"enum": ["a"]}], "items": {"enum": [True]}, "maxItems": 3},
    {"prefixItems": [{"enum": [1]}, {"enum": [1.0, 2]}], "items": False},
    {"items": {"type": "boolean"}, "maxItems": 1},
]


@pytest.mark.parametrize("schema", REPEATING, ids=str)
def test_items_of_which_two_are_equal(schema):
    """Every array of up to four items; and every beginning of one that is accepted can be ended."""
    schema = {"type": "array", **schema}
    constraint = tt.constraints.json_schema({**schema, "not": {"uniqueItems": True}})
    validator = jsonschema.Draft202012Validator({**schema, "not": {"uniqueItems": True}})
    states = Numbered(constraint.automaton)
    valid = 0
    for size in range(5):
        for value in itertools.product([1, 2, "a", None, True, False], repeat=size):
            text = json.dumps(list(value)).encode()
            assert constraint.accepts(text) == validator.is_valid(list(value)), text
            if constraint.accepts(text):
                valid += 1
                end = states.run(states.start(), text[: len(text) // 2])
                rest = states.automaton.completion(states.configurations[end])
                assert states.accepting(states.run(end, rest)), text
    assert bool(valid) != constraint.is_empty()


def test_items_that_are_not_listed_and_of_which_two_are_equal_are_refused():
    with pytest.raises(tt.UnsupportedConstraint, match="not listed"):
        tt.constraints.json_schema({"type": "array", "not": {"uniqueItems": True}})
