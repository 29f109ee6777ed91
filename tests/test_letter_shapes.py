"""Shapes of tokens: a pattern reads all tokens of a shape, or none, as it reads each token byte by byte."""

import random

import numpy as np
import pytest

from tractile.constraints import Vocabulary, json_schema
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.masks.lazy_tokens import LazyTokens
from tractile.constraints.masks.letter_shapes import USUAL, Shapes, are_alike, own_classes, told_apart
from tractile.constraints.masks.pattern_part import read_below

LETTERS = [
    "a",
    "f",
    "g",
    "z",
    "A",
    "T",
    "Z",
    "0",
    "3",
    "9",
    "-",
    " ",
    "é",
    "£",
    "\u00a0",
    "\u1680",
    "\u2003",
    "\u3000",
]
LETTERS += [
    "日",
    "\ufeff",
    "😀",
    "\\n",
    "\\u0041",
    "\\ud83d",
    "\\ude00",
    '\\"',
    "\\\\",
    "\\t",
    '"',
    '","',
    "\\",
    "\\u00",
]
PATTERNS = {
    "white space": r"^(\S+\s+){0,4}\S+$",
    "hexadecimal": "^[0-9a-f]+-[A-F0-9]*$",
    "words": "^[A-Za-z0-9_-]+( [A-Za-z0-9_-]+)*$",
    "not a backslash": r"^[^\\]+.$",
    "date": "[0-9]{4}-[0-9]{2}T[0-9]+Z",
    "letters of a language": "^[é日-鿿]+a$",
    "letter": "^k+z?$",
    "pairs": "^(😀|\ud83d\ude01|é)+x?$",
}


def vocabulary(seed):
    rng = random.Random(seed)
    words = {
        "".join(rng.choices(LETTERS, k=rng.randint(1, 5))).encode("utf-8", "surrogatepass")
        for _ in range(3_000)
    }
    words |= {word[:-1] for word in list(words)[::7] if len(word) > 2}
    pieces = [*[bytes([b]) for b in range(256)], *sorted(words - {bytes([b]) for b in range(256)}), None]
    rng.shuffle(pieces)
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


VOCAB = vocabulary(0)


def tokens_of(schema):
    return LazyTokens(json_schema(schema).automaton, VOCAB)


def flags(words):
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def check(tokens, rng, texts):
    """Compare masks along random texts with the tokens that can be read byte by byte."""
    states = Numbered(tokens.states.automaton)
    for _ in range(texts):
        state, here = tokens.start_state, states.start()
        for _ in range(8):
            truth = [t for t, word in enumerate(VOCAB.token_bytes) if word and states.run(here, word) >= 0]
            assert flags(tokens.words_from(state)).tolist() == sorted(
                truth + [VOCAB.eos_token_id] * states.accepting(here)
            )
            if not truth:
                break
            token = rng.choice(truth)
            state, here = tokens.step(state, token), states.run(here, VOCAB.token_bytes[token])


def patterns(schema):
    """The patterns of states that short texts lead to."""
    tokens = tokens_of(schema)
    rng, found = random.Random(1), {}
    for _ in range(60):
        state = tokens.read(tokens.start_state, b'"')
        for _ in range(6):
            if state >= 0 and (pattern := tokens.masks.walk.pattern(state)) is not None:
                found[pattern.state] = pattern
            allowed = (
                np.flatnonzero(np.unpackbits(tokens.words_from(state).view(np.uint8), bitorder="little"))
                if state >= 0
                else []
            )
            if not len(allowed):
                break
            state = tokens.step(state, int(rng.choice(allowed)))
    return list(found.values())


@pytest.mark.parametrize("name", PATTERNS)
def test_shapes_are_read_as_their_tokens_are(name):
    trie, some = VOCAB.trie, patterns({"type": "string", "pattern": PATTERNS[name]})
    assert some
    table, letters = some[0].table, VOCAB.text_tokens.table(some[0].letters)
    rows = told_apart(table, ord('"'))
    own = own_classes(rows)
    assert are_alike(rows, own)
    for classes in (own, USUAL) if are_alike(rows, USUAL) else (own,):
        shapes = Shapes(trie, classes, letters)
        for pattern in some:
            states = shapes.states(table, pattern.state)
            read = read_below(table, pattern.state, trie, 0, pattern.leaves, True)
            assert sorted(flags(shapes.tokens(states != len(table.between))).tolist()) == sorted(
                trie.order[read.ranks].tolist()
            )
            node = trie.node[trie.order[read.ranks]]
            assert (states[shapes.of_node[node]] == read.state).all()
            assert (shapes.letters[shapes.of_node[node]] == read.letters).all()


def test_most_patterns_are_read_by_the_usual_classes():
    tables = {name: patterns({"type": "string", "pattern": PATTERNS[name]})[0].table for name in PATTERNS}
    usual = [name for name, table in tables.items() if are_alike(told_apart(table, ord('"')), USUAL)]
    assert set(usual) == {"white space", "hexadecimal", "words", "not a backslash", "date"}


@pytest.mark.parametrize(
    "bounds", [{}, {"maxLength": 7}, {"minLength": 4, "maxLength": 9}, {"minLength": 5}], ids=str
)
@pytest.mark.parametrize("name", PATTERNS)
def test_masks_of_patterns_are_those_found_byte_by_byte(name, bounds, monkeypatch):
    monkeypatch.setattr("tractile.constraints.masks.pattern_part.OWN_SHAPES", 1_000)
    schema = {"type": "array", "items": {"type": "string", "pattern": PATTERNS[name], **bounds}}
    check(tokens_of(schema), random.Random(2), 12)


@pytest.mark.parametrize(
    "words", [["a", "af", "Tz"], ["é", "日a", "a\\\\n", "-"], ["z" * 9], ["a", "b\u00a0", "😀"]], ids=str
)
def test_strings_but_some_are_free_text_but_for_these(words):
    schema = {"type": "array", "items": {"type": "string", "not": {"enum": words}}}
    tokens = tokens_of(schema)
    body = tokens.masks.walk.body(tokens.read(tokens.start_state, b'["'))
    assert body is not None
    assert body.within
    assert body.exceptions
    check(tokens, random.Random(3), 12)
