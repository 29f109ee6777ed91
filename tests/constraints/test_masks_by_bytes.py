"""Masks and budgets of schemas and patterns, whatever was asked before, against each token read byte by byte."""

import random

import pytest

import tractile as tt
from tractile.circuits.automaton import UNREACHABLE
from tractile.constraints import json_schema
from tractile.constraints.engine.bytes import Bytes

ONE, NULL, STRING, NUMBER = (
    {"enum": [1]},
    {"type": "null"},
    {"type": "string"},
    {"type": "integer", "minimum": 7},
)
WORD, LONG = {"enum": ["a", "abc", "b"]}, {"type": "string", "minLength": 30}
LETTERS = {"propertyNames": {"pattern": "^[ab]*$"}}


def closed(required=(), **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


NODE = closed(["a", "b"], a={"anyOf": [NULL, {"$ref": "#"}]}, b={"enum": [0, 10]})
SCHEMAS = {
    "any": {},
    "string": {"type": "string", "maxLength": 6},
    "list": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 4},
    "lists of lists": {"type": "array", "items": {"type": "array", "items": WORD}},
    "prefix": {
        "type": "array",
        "prefixItems": [closed(a=STRING), closed(b=STRING)],
        "items": closed(a=STRING),
    },
    "contains": {"type": "array", "items": STRING, "contains": WORD, "minContains": 2, "maxItems": 4},
    "distinct words": {"type": "array", "items": WORD, "uniqueItems": True, "minItems": 2},
    "any order": closed(["ab", "a"], a=ONE, b={"type": "boolean"}, ab={"enum": ["a", "ab"]}),
    "open": {"type": "object", "properties": {"a": ONE, "ab": NULL}, "required": ["a"]},
    "long first": {"type": "object", "properties": {"a": STRING, "ab": LONG}, "required": ["ab"]},
    "others": {
        "type": "object", "properties": {"a": WORD}, "additionalProperties": STRING, "maxProperties": 2,
    },
    "nested": closed(
        ["a", "b"], a=closed(["b", "aa"], b=ONE, aa=ONE), b={"type": "array", "items": {"enum": [0, 1]}}
    ),
    "recursive": NODE,
    "counted": {
        "type": "object", "properties": {"a": ONE, "b": ONE}, "minProperties": 2, "maxProperties": 3, **LETTERS,
    },
    "dependent": {**closed(["b"], a=ONE, b=ONE, ab=ONE), "dependentRequired": {"a": ["ab"]}},
    "readings": {"anyOf": [closed(["a", "b"], a=ONE, b=NULL), closed(["a"], a=NULL)]},
    "two members": {"type": "object", "minProperties": 2, "additionalProperties": ONE, **LETTERS},
    "few names": {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^a?b?$"}},
    "names by pattern": {"type": "object", "patternProperties": {"^a": NUMBER}, "additionalProperties": WORD},
    "names of a length": {"type": "object", "propertyNames": {"minLength": 2}},
    "white space": {"type": "string", "pattern": r"^(\S+\s+){0,4}\S+$"},
    "hexadecimal": {"type": "string", "pattern": "^[0-9a-f]+-[A-F0-9]*$"},
    "not a backslash": {"type": "string", "pattern": r"^[^\\]+.$"},
    "pairs": {"type": "string", "pattern": "^(😀|\ud83d\ude01|é)+x?$"},
}  # fmt: skip
BOUNDED = {"counted", "two members", "few names"}
"""Their names must differ: the engine's distances are upper bounds."""
STYLES = ({"whitespace": "none"}, {"whitespace": "space"}, {"whitespace": "flexible"}, {"indent": 1})
PIECES = ['{"', '{"a', '":', '": ', '1,"', '","', '"}', '"}}', "}}", '},"', "1}", "1}}", '0}', ',"', '"a"', '"ab":', '"b":',
          '"a":1', "true", "null", "],", '":{', '":{"b', '","b":', 'b":', "10", "  ", '{ "', "l}", ":1", "aab", '"a":null',
          '{\n', '{\n "', ',\n', ',\n "', '\n}', '\n }', '\n ', '\n  "', '\n }\n}', '": 1\n', 'a":1,"a', 'a":1,"b', '":1,"a":1',
          '"b":1,"b":1}', '","a":', "a", "b", "abc", "7", "77", '["', '", "', "\\u0061", "\\u00e", "\\n", "é", "😀", "\\ud83d",
          "f", "-A", "3", " \t"]  # fmt: skip


def vocabulary(rng):
    mixed = {"".join(rng.choices(PIECES, k=rng.randint(2, 3))) for _ in range(300)}
    words = [word.encode() for word in [*PIECES, *sorted(mixed)]]
    single = [bytes([byte]) for byte in range(256)]
    return tt.Vocabulary([None, *single, *sorted({*words} - {*single})], eos_token_id=0)


def after(states, state, word):
    for byte in word:
        state = states.step(state, byte)
        if state < 0:
            break
    return state


def check(constraint, vocab, rng, texts=2, tokens=8, is_exact=True):
    """Along random texts: the mask is what the bytes say, and each distance is one more than the least of those after it."""
    states, automaton = Bytes(constraint.program), constraint.compile(vocab)
    query, words = tt.lcd(automaton), vocab.token_bytes
    for _ in range(texts):
        query.start()
        here, text = states.start, list[int]()
        for _ in range(tokens):
            ends = {token: after(states, here, word) for token, word in enumerate(words) if word}
            ends = {token: end for token, end in ends.items() if end >= 0}
            may_end = [0] if states.accepting(here) else []
            assert query.mask()[0].nonzero()[:, 0].tolist() == [*may_end, *ends]
            if not ends:
                break
            by_end = {end: token for token, end in ends.items()}
            left = {end: automaton.fewest_after([*text, token]) for end, token in by_end.items()}
            least = automaton.fewest_after(text)
            nearest = 1 + min([*left.values(), *(0 for _ in may_end)])
            assert least == nearest if is_exact else least < UNREACHABLE
            for budget in (least, least + 1, least + 4):
                try:
                    near = tt.gcd(automaton, len(text) + budget).start()
                except tt.errors.BudgetTooSmall:
                    assert not is_exact
                    continue
                for token in text:
                    near.advance([token])
                wanted = [*may_end, *(token for token, end in ends.items() if left[end] < budget)]
                found = near.mask()[0].nonzero()[:, 0].tolist()
                assert found == wanted if is_exact else found
            token = rng.choice([*ends])
            query.advance([token])
            text.append(token)
            here = ends[token]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_schemas_in_any_order(seed):
    """What is kept for one schema is used by the next: each is met in the states that others have met."""
    rng = random.Random(seed)
    vocab = vocabulary(rng)
    cases = [(name, style) for name in SCHEMAS for style in rng.sample(STYLES, 2)]
    rng.shuffle(cases)
    for name, style in cases:
        check(
            json_schema(SCHEMAS[name], on_narrowed="ignore", **style),
            vocab,
            rng,
            is_exact=name not in BOUNDED,
        )


@pytest.mark.parametrize(
    ("one", "other", "text", "token"),
    [
        ({"properties": {"a": STRING}}, {"properties": {"a": NUMBER}}, '{"', 'a": "'),
        ({"properties": {"a": STRING}}, {"properties": {"a": NUMBER}}, "{", '"a": "'),
        ({}, {"properties": {"a": NUMBER}}, '{"', 'a": "'),
        ({}, {"properties": {"long": {}}, "required": ["long"]}, "{", "}"),
        ({}, {"additionalProperties": NUMBER}, '{"b', '": "'),
    ],
)
def test_open_objects_that_read_a_token_differently_share_no_mask(one, other, text, token):
    pieces = [*(bytes([byte]) for byte in range(256)), b'a": "', b'"a": "', b'": "']
    vocab = tt.Vocabulary([None, *pieces], eos_token_id=0)
    found = []
    for each in (one, other, one):
        query = tt.lcd(json_schema({"type": "object", **each}).compile(vocab)).start()
        for byte in text.encode():
            query.advance([1 + byte])
        found.append(bool(query.mask()[0, 1 + pieces.index(token.encode())]))
    assert found == [True, False, True]
