"""Masks of large tables, whose states share what they read as far as a token is long, against tables read byte by byte."""

import random

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.constraints import regex
from tractile.constraints.engine.bytes import Bytes

DICE = random.Random(5)
PIECES = sorted({"".join(DICE.choices("aab é", k=DICE.randint(1, 9))).encode() for _ in range(12_000)})


def vocabulary():
    words = [*(bytes([b]) for b in range(256)), *(p for p in PIECES if len(p) > 1)]
    return tt.Vocabulary([*words, None], eos_token_id=len(words))


@pytest.mark.parametrize(
    "pattern",
    [
        ".{0,90}", "[ab]{5,60}(é| )?", "(?:[bé ]{0,30}a){1,3}", "(?:(?:ab|é){2,25} ){1,4}", "[^a]{0,40}(?:aa|a )[^b]{0,40}",
        ".*(?:aba|éb|baab).*", "[^é]*(?:bab a|b b)[^a]*",
    ],
)  # fmt: skip
def test_a_token_is_allowed_exactly_if_its_bytes_may_be_read(pattern):
    vocab, constraint = vocabulary(), regex(pattern)
    found = constraint.bytes_automaton
    step = {}
    for source, low, high, target in found.edges.tolist():
        for byte in range(low, high + 1):
            step[source, byte] = target
    assert found.is_deterministic
    dice, automaton = random.Random(1), constraint.compile(vocab)
    for _ in range(4):
        state, query = int(found.start[0]), tt.lcd(automaton).start(1)
        for _ in range(40):
            after = {}
            for token, word in enumerate(vocab.token_bytes[:-1]):
                there = state
                for byte in word:
                    there = step.get((there, byte))
                    if there is None:
                        break
                else:
                    after[token] = there
            expected = set(after) | ({vocab.eos_token_id} if state in found.accept else set())
            assert set(query.mask()[0].nonzero().flatten().tolist()) == expected
            if not after:
                break
            token = dice.choice(sorted(after))
            query.advance([token])
            state = after[token]


@pytest.mark.parametrize("pattern", [".*(?:xyz|xxy|éz).*", "[^\n]*xxy[^b]*", "([^a]*a){0,11}[^a]*"])
def test_in_the_middle_of_a_word_or_of_counted_ones_little_more_is_read(pattern):
    automaton = regex(pattern).compile(vocab := vocabulary())
    work = automaton.lazy.engine.core.work
    queries, visited = [tt.lcd(each).start(1) for each in (automaton, automaton.finite)], [work()["lexed"]]
    for word in (b"a", b"x", b"x", b"y", b"z", b"x"):
        assert torch.equal(*[query.mask() for query in queries])
        visited.append(work()["lexed"])
        for query in queries:
            query.advance([vocab.token_bytes.index(word)])
    assert visited[4] - visited[0] < (visited[1] - visited[0]) * 1.2


@pytest.mark.parametrize("pattern", [".{70}é{0,9}", ".{60,90}", "(?:.{30}\n){2}"])
def test_masks_within_a_budget_are_those_of_the_automaton_written_out(pattern):
    automaton = regex(pattern).compile(vocabulary())
    least, dice = automaton.fewest_after([]), random.Random(2)
    for more in (0, 1, 4):
        queries = [tt.gcd(each, least + more).start() for each in (automaton, automaton.finite)]
        for _ in range(least + more):
            masks = [query.mask() for query in queries]
            assert torch.equal(*masks)
            token = dice.choice(masks[0][0].nonzero().flatten().tolist())
            for query in queries:
                query.advance([token])


def is_read(states, state, word):
    for byte in word:
        state = state if state < 0 else states.step(state, byte)
    return state >= 0


def strings_but(*words):
    return {"type": "array", "items": {"type": "string", "not": {"enum": words}}}


def ones_by_name(*names):
    ones = {name: {"const": 1} for name in names}
    return {"type": "object", "properties": ones, "additionalProperties": {"type": "string"}}


def test_states_of_several_tables_that_read_alike():
    dice = random.Random(2)
    pieces = {"".join(dice.choices('aab":,1{[é', k=dice.randint(2, 8))).encode() for _ in range(9000)}
    words = [bytes([b]) for b in range(256)] + sorted(pieces)
    vocab = tt.Vocabulary([*words, None], eos_token_id=len(words))
    for schema, text in [
        (strings_but("ab"), b'["ab'),
        (strings_but("aab", "b"), b'["aab1","b'),
        ({"type": "string", "not": {"pattern": "1{1"}}, b'"1{a'),
        ({"type": "string", "not": {"pattern": "11{"}}, b'"11a'),
        (ones_by_name("ab", "ba"), b'{"ab":1,"ba":1,"'),
        (ones_by_name("ab", "ba"), b'{"ba":1,"'),
        (ones_by_name("aab", "b", "ba"), b'{"b":1,"'),
    ]:
        tokens = tt.constraints.json_schema(schema).compile(vocab).lazy
        states = Bytes(tokens.node)
        state, same = tokens.start_state, states.start
        for byte in [*text, None]:
            bits = np.unpackbits(tokens.words_within(state).view(np.uint8), bitorder="little")
            assert set(np.flatnonzero(bits).tolist()) == {
                t for t, word in enumerate(words) if is_read(states, same, word)
            }
            if byte is not None:
                state, same = tokens.step(state, byte), states.step(same, byte)


SEVEN = {"type": "integer", "minimum": 7}


@pytest.mark.parametrize(
    ("one", "other", "text", "token"),
    [
        ({"properties": {"a": {"type": "string"}}}, {"properties": {"a": SEVEN}}, '{"', 'a": "'),
        ({"properties": {"a": {"type": "string"}}}, {"properties": {"a": SEVEN}}, "{", '"a": "'),
        ({}, {"properties": {"a": SEVEN}}, '{"', 'a": "'),
        ({}, {"properties": {"long": {}}, "required": ["long"]}, "{", "}"),
        ({}, {"additionalProperties": SEVEN}, '{"b', '": "'),
    ],
)
def test_open_objects_that_read_a_token_differently_share_no_mask(one, other, text, token):
    pieces = [*(bytes([byte]) for byte in range(256)), b'a": "', b'"a": "', b'": "']
    vocab = tt.Vocabulary([None, *pieces], eos_token_id=0)
    found = []
    for each in (one, other, one):
        query = tt.lcd(tt.constraints.json_schema({"type": "object", **each}).compile(vocab)).start()
        for byte in text.encode():
            query.advance([1 + byte])
        found.append(bool(query.mask()[0, 1 + pieces.index(token.encode())]))
    assert found == [True, False, True]
