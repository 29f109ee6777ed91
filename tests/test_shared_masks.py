"""Masks that automata of one vocabulary share are those of each of them, and so are their bounds of what comes after."""

import random

import numpy as np
import pytest

from tractile.constraints import Vocabulary, json_schema
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.automata.sharing import number_of
from tractile.constraints.masks.lazy_tokens import LazyTokens

STRING, WORD, NUMBER = {"type": "string"}, {"enum": ["a", "abc", "b"]}, {"type": "integer", "minimum": 7}
LONG = {"type": "string", "minLength": 30}
LISTS = [{"type": "array", "items": item} for item in (STRING, WORD, {}, {"type": "array", "items": NUMBER})]
VALUES = [STRING, WORD, NUMBER, LONG, *LISTS, {}, {"type": ["string", "null"]}, {"type": "object"}]


def closed(required=(), **properties):
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(required),
    }


SCHEMAS = [
    *({"type": "array", "items": closed(a=value)} for value in VALUES),
    *(closed(["a"], a=value) for value in VALUES[:4]),
    *(closed(["b", "a"], b=LONG, a=value) for value in VALUES[:6]),
    *({"type": "object", "properties": {"a": value, "ab": LONG}, "required": ["ab"]} for value in VALUES[:6]),
    *({"type": "object", "additionalProperties": value} for value in VALUES),
    *(
        {
            "type": "array",
            "items": {"type": "object", "properties": {"a": one}, "additionalProperties": other},
        }
        for one, other in zip(VALUES[:6], VALUES[3:9], strict=True)
    ),
    *({"type": "object", "propertyNames": {bound: 2}} for bound in ("minLength", "maxLength")),
    {"type": "object", "properties": {"a": WORD}, "additionalProperties": STRING, "maxProperties": 2},
    {"type": "array", "prefixItems": [closed(a=STRING), closed(b=STRING)], "items": closed(a=STRING)},
    {
        "type": "array",
        "items": {"anyOf": [closed(a=STRING), closed(["a", "b"], a=STRING, b=LONG)]},
        "minItems": 2,
    },
    {"type": "array", "items": STRING, "contains": WORD, "minContains": 2, "maxItems": 4},
    {"type": "array", "items": {"type": "array", "items": NUMBER, "uniqueItems": True}},
]


def vocabulary():
    rng = random.Random(5)
    parts = [
        '"',
        '", "',
        '"a',
        'a": "',
        '": ',
        ": ",
        '"}',
        '"}, {"',
        "]",
        "}]",
        '"]',
        ", ",
        "[",
        '["',
        "a",
        "b",
        "abc",
        "7",
        "77",
    ]
    words = {"".join(rng.choices(parts, k=rng.randint(1, 3))).encode() for _ in range(1_500)}
    pieces = [*(bytes([byte]) for byte in range(256)), *sorted(word for word in words if len(word) > 1)]
    return Vocabulary([None, *pieces], eos_token_id=0)


@pytest.mark.parametrize("seed", range(2))
def test_masks_and_bounds_after_other_schemas(seed):
    vocab, rng = vocabulary(), random.Random(seed)
    order = SCHEMAS * 2
    rng.shuffle(order)
    for schema in order:
        automaton = json_schema(schema).automaton
        tokens, states = LazyTokens(automaton, vocab), Numbered(automaton)
        for _ in range(2):
            state, here = tokens.start_state, states.start()
            for _ in range(12):
                mask = tokens.masks.mask(state)
                after = {t: states.run(here, word) for t, word in enumerate(vocab.token_bytes) if word}
                after = {t: target for t, target in after.items() if target >= 0}
                allowed = np.flatnonzero(np.unpackbits(mask.words.view(np.uint8), bitorder="little")).tolist()
                assert allowed == sorted([*after, *([0] if states.accepting(here) else [])])
                if not after:
                    break
                left = {
                    target: len(automaton.completion(states.configurations[target]))
                    for target in after.values()
                }
                assert max(left.values()) <= mask.most
                token = rng.choice(list(after))
                state, here = tokens.step(state, token), after[token]


def test_equal_values_of_two_documents_have_one_meaning():
    def meaning(value):
        root = json_schema(closed(a=value)).automaton.root
        (shape,) = root.machines.value(root.machines.keywords.root()).object
        return root.machines.meaning(dict(shape.names)["a"])

    for i, value in enumerate(VALUES):
        for j, other in enumerate(VALUES):
            assert (meaning(value) == meaning(other)) == (i == j)
    assert meaning(closed(b=STRING)) != meaning(closed(b=STRING))
    assert number_of(("a", 1)) == number_of(("a", 1)) != number_of(("a", 2))


@pytest.mark.parametrize("more", [{}, {"maxItems": 5}, {"prefixItems": [{}, WORD]}], ids=str)
def test_arrays_that_contain_a_kind_end_within_their_bound(more):
    kinds = {
        "contains": {"type": "string", "minLength": 12},
        "minContains": 3,
        "items": {"type": ["string", "integer"]},
    }
    automaton = json_schema({"type": "array", **kinds, **more}).automaton
    states, rng = Numbered(automaton), random.Random(0)
    for _ in range(30):
        state = states.start()
        for _ in range(40):
            for stack in automaton.reached(states.configurations[state]):
                if stack.machine is automaton.root:
                    assert len(stack.machine.completion(stack.local)) <= stack.machine.longest
            moves = states.moves(state)
            if not moves:
                break
            state = rng.choice(moves)[2]


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
    vocab = Vocabulary([None, *pieces], eos_token_id=0)
    masks = [
        LazyTokens(json_schema({"type": "object", **each}).automaton, vocab) for each in (one, other, one)
    ]
    found = [each.words_from(each.read(each.start_state, text.encode())) for each in masks]
    at = 1 + pieces.index(token.encode())
    assert [int(words[at >> 5]) >> (at & 31) & 1 for words in found] == [1, 0, 1]
