"""Objects that remember the names of their members: masks within names, against every token read byte by byte."""

import itertools
import random
from dataclasses import replace

import pytest

import tractile as tt
from tractile.constraints.calls.python_syntax import LITERALS
from tractile.constraints.calls.python_syntax import ways as python_ways
from tractile.constraints.json.lazy.name_text import begun_with, bytes_to
from tractile.constraints.json.text import JSON, style_of
from tractile.constraints.masks.recording_tokens import RecordingTokens

QUOTE = ord('"')
PIECES = [
    "a",
    "b",
    "ab",
    "ba",
    "é",
    "\\u0061",
    "\\u00e9",
    "\\u00E",
    "\\",
    "u0061",
    '"',
    '": ',
    "1",
    ", ",
    '"a',
    'b"',
    "}",
    '{"',
    "{",
    "x",
    "xy",
]
TOKENS = sorted(
    {bytes([b]) for b in range(256)}
    | {"".join(pair).encode() for n in (1, 2, 3) for pair in itertools.product(["a", "b", "x", "é", '"', "\\u0061"], repeat=n)}
    | {piece.encode() for piece in PIECES}
    | {b'": 1, "a": 1', b'a": 1, "a"', b'": 1, "', b'b": 1, "b": ', b'x": 1, "xa": 1}'}
)  # fmt: skip
VOCAB = tt.Vocabulary([None, *TOKENS], eos_token_id=0)
SCHEMAS = [
    {"type": "object", "minProperties": 2},
    {"type": "object", "minProperties": 3, "properties": {"ab": {"type": "integer"}}},
    {"type": "object", "not": {"propertyNames": False}},
    {"type": "object", "not": {"additionalProperties": {"type": "integer"}}},
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "minProperties": 2},
    {"type": "object", "patternProperties": {"^(a|ab|x)$": {"const": 1}}, "additionalProperties": False, "minProperties": 2},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_masks_are_those_of_every_token_alone(schema):
    constraint = tt.constraints.json_schema(schema, on_narrowed="ignore")
    tokens = RecordingTokens(constraint.automaton, VOCAB)
    states, dice = tokens.base.states, random.Random(7)
    compared = 0
    for _ in range(6):
        state = tokens.start_state
        for _ in range(14):
            words = tokens.words_from(state).view("u1")
            allowed = [t for t in range(1, len(VOCAB)) if words[t >> 3] >> (t & 7) & 1]
            plain = tokens.plain_state(state)
            assert allowed == [
                t for t in range(1, len(VOCAB)) if states.run(plain, VOCAB.token_bytes[t]) >= 0
            ]
            compared += 1
            names = [
                t
                for t in allowed
                if VOCAB.token_bytes[t][:1] in (b'"', b"a", b"b", b"x", b"{", b"}", b":", b" ", b"1", b",")
            ]
            if not names:
                break
            state = tokens.step(state, dice.choice(names))
    assert compared > 40


@pytest.mark.parametrize("ways", [JSON.ways, lambda char: python_ways(QUOTE, char)], ids=["json", "python"])
@pytest.mark.parametrize("name", ["", "a", "aé", "\n/", "😀", "é\x7f"])
def test_bytes_that_go_on_to_a_known_name(name, ways):
    """Those of all the ways to write it."""
    each = [[bytes(way) for choices in ways(char) for way in itertools.product(*choices)] for char in name]
    texts = {b"".join(parts) for parts in itertools.product(*each)}
    spelling = replace(JSON, ways=ways)
    begun = {text[:end] for text in texts for end in range(len(text) + 1)} | {b"b", b"\\u1"}
    for begin in begun:
        expected = {text[len(begin)] for text in texts if text.startswith(begin) and text != begin}
        assert bytes_to(begin, spelling, frozenset([name])) == expected
    for begin in (b"", b"a"):
        both = bytes_to(begin, spelling, frozenset([name, "ab"]))
        assert both == bytes_to(begin, spelling, frozenset([name])) | {b"a": {98}, b"": {97}}[begin]


ESCAPED_A = replace(JSON, ways=lambda char: (((92,), (97,)),) if char == "a" else JSON.ways(char))
SPELLINGS = [
    style_of("none").spellings,
    style_of("none", None, "ascii").spellings,
    LITERALS["none"].spellings,
    (JSON, ESCAPED_A),
]


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_a_name_begins_alike_however_it_is_written(spellings):
    for char in (*map(chr, range(128)), "é", "\U00010000"):
        ways = [way for spelling in spellings for way in spelling.ways(char)]
        assert len({begun_with(byte, spellings) for way in ways for byte in way[0]}) <= 1, char
    assert begun_with(ord("b"), spellings) != begun_with(ord("c"), spellings)
