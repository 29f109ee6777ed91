"""Items that must differ, where a former item has many spellings: none of these stands for another item, in masks and budgets.

The oracle writes all texts of the schema without ``uniqueItems``, token by token, and compares the items of each that ends.
"""

import json
from decimal import Decimal

import numpy as np
import pytest

from tractile import Vocabulary
from tractile.constraints import json_schema
from tractile.constraints.engine.tokens import ProgramStates

INTEGER, ZERO, STRING = {"type": "integer"}, {"const": 0}, {"type": "string"}
DOUBLE_FACE = (
    r"\ud83d\ude00",
    r"\uD83D\ude00",
    r"\ud83D\ude00",
    r"\ud83d\uDe00",
    r"\ud83d\udE00",
    r"\ud83d\uDE00",
)


def objects(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), **more}


# items, words (with blanks between them), texts to begin with, and the most tokens after them
CASES = {
    "an integer and another member": (
        objects({"id": INTEGER}, maxProperties=2),
        '[{"id":1 [{"id":2 },{"id":1 .0 .00 .000 .0000 .00000 .000000 .0000000 ,"x":0 }]',
        ['[{"id":1', '[{"id":1},{"id":1', '[{"id":1},{"id":1.0', '[{"id":2},{"id":1,"x":0},{"id":1.0'], 4,
    ),
    "members in any order and another": (
        objects({"a": ZERO, "b": ZERO, "c": ZERO}),
        '[{ },{ }] "a":0 "b":0 "c":0 ,"a":0 ,"b":0 ,"c":0 ,"x":0 ,"x":1',
        ["[{", '[{"a":0,"b":0,"c":0},{', '[{"a":0,"b":0,"c":0},{"b":0,"a":0,"c":0,"x":0},{"a":0'], 6,
    ),
    "members in any order, one of which differs": (
        objects({"a": ZERO, "b": ZERO, "c": ZERO, "d": {"type": "boolean"}}, additionalProperties=False),
        '[{ },{ }] "a":0 "b":0 "c":0 ,"a":0 ,"b":0 ,"c":0 "d":true ,"d":true ,"d":false',
        ["[{", '[{"a":0,"b":0,"c":0,"d":true},{'], 6,
    ),
    "arrays of numbers": (
        {"type": "array", "items": INTEGER}, "[[1 ],[1 .0 .00 .000 .0000 .00000 .000000 .0000000 ,10000000 ]]",
        ["[[1", "[[1],[1", "[[1.00],[1,10000000],[1", "[[1],[1,10000000],[1,10000000.0"], 4,
    ),
    "numbers": (
        {"type": "number"}, "[1 ,1 ,2 . 0 00 000 0000 00000 000000 0000000005 ]",
        ["[1", "[1,1", "[1,1.", "[1,2,1.0", "[1,2,1.0000000005,1."], 3,
    ),
    "strings": (
        STRING | {"maxLength": 2}, rf'[" "," "] 😀 {" ".join(DOUBLE_FACE)} a \u0061',
        ['["', '["😀","', '["😀","a","', '["😀","😀a","a","'], 4,
    ),
    "objects in arrays": (
        {"type": "array", "uniqueItems": True, "items": objects({"a": INTEGER})},
        '[[{"a":1 },{"a":1 }],[{"a":1 .0 .00 .000 .0000 .00000 .000000 .0000000 ,"x":0 }]]',
        ['[[{"a":1', '[[{"a":1},{"a":1', '[[{"a":1}],[{"a":1', '[[{"a":1}],[{"a":1},{"a":1.0'], 4,
    ),
}  # fmt: skip


def value(item):
    """An item as it is compared."""
    match item:
        case dict():
            return frozenset((name, value(each)) for name, each in item.items())
        case list():
            return tuple(map(value, item))
    return type(item), item


def differ(items, deep):
    """Whether items differ, and those in them."""
    values = [value(item) for item in items]
    return len(set(values)) == len(values) and (not deep or all(differ(item, False) for item in items))


def least_by_token(plain, vocab, text, most, deep):
    """By token that may follow, the fewest tokens after it, the end among them, if they are fewer than ``most``."""
    found = {}

    def write(state, text, first, tokens):
        for token in np.flatnonzero(bits(plain.words_within(state, most - tokens))).tolist():
            here = token if first is None else first
            if token:
                write(plain.step(state, token), text + vocab.token_bytes[token], here, tokens + 1)
            elif differ(json.loads(text, parse_int=Decimal, parse_float=Decimal), deep):
                found[here] = min(tokens, found.get(here, tokens))

    write(run(plain, vocab, text), text, None, 0)
    return found


def bits(words):
    return np.unpackbits(words.view(np.uint8), bitorder="little")


def run(automaton, vocab, text):
    """The state after a text, read in the longest words."""
    state = automaton.start_state
    while text:
        token = max(
            (t for t, word in enumerate(vocab.token_bytes) if word and text.startswith(word)),
            key=lambda t: len(vocab.token_bytes[t]),
        )
        state, text = automaton.step(state, token), text[len(vocab.token_bytes[token]) :]
        assert state >= 0
    return state


@pytest.mark.parametrize("case", CASES)
def test_masks_within_a_budget_are_those_of_all_texts(case):
    items, words, texts, most = CASES[case]
    vocab = Vocabulary([None, *(word.encode() for word in words.split())], eos_token_id=0)
    listed = {"type": "array", "items": items}
    deep = items.get("uniqueItems", False)
    simple = listed | {"items": {k: v for k, v in items.items() if k != "uniqueItems"}}
    plain = ProgramStates(json_schema(simple, whitespace="none").program, vocab)
    automaton = ProgramStates(json_schema(listed | {"uniqueItems": True}, whitespace="none").program, vocab)
    for text in texts:
        expected = least_by_token(plain, vocab, text.encode(), most, deep)
        state = run(automaton, vocab, text.encode())
        for left in range(most + 1):
            found = set(np.flatnonzero(bits(automaton.words_within(state, left))).tolist())
            assert found == {t for t, tokens in expected.items() if tokens <= left}, (text, left)
