"""The core against its definition: equal masks, equal distances."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from definition import NEVER, Definition, TooLarge
from random_programs import names_table, random_program, random_tokens

from tractile import constraints, gcd
from tractile.constraints import Vocabulary
from tractile.constraints.engine.tokens import ProgramStates
from tractile.constraints.program import nodes, tables
from tractile.constraints.program.left_recursion import left_recursive, without_left_recursion
from tractile.constraints.program.nodes import NOTHING

KINDS = ("seq", "alt", "repeat", "bag", "rule")
BYTES = [bytes([byte]) for byte in b"abc\0\xff"]
BLOCKS = pytest.mark.parametrize("block", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])


def some_token(rng, mask):
    """One of the tokens of a mask; 0 if there is none but the end token, which is 0."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return int(rng.choice(np.flatnonzero(bits)[bits[0] :])) if bits[1:].any() else 0


@BLOCKS
def test_masks_and_distances_are_those_of_the_definition(block):
    compared = 0
    for seed in range(40 * block, 40 * (block + 1)):
        rng = random.Random(seed)
        node = random_program(rng, kinds=KINDS)
        compared += compare(node, BYTES + random_tokens(rng), rng, seed)
    assert compared > 150


@BLOCKS
def test_parts_with_budgets_and_bytes_that_are_no_tokens(block):
    for seed in range(1000 + 40 * block, 1000 + 40 * (block + 1)):
        rng = random.Random(seed)
        kinds = (*KINDS, "tokens", "tokens") if seed % 4 else KINDS
        compare(random_program(rng, rng.choice((2, 3)), kinds), random_tokens(rng), rng, seed)


@BLOCKS
def test_parts_that_a_table_accepts_as_well(block):
    for seed in range(3000 + 12 * block, 3000 + 12 * (block + 1)):
        rng = random.Random(seed)
        kinds = (*KINDS, "within", "within", *(["tokens"] if seed % 3 == 0 else []))
        words = BYTES if seed % 2 else []
        compare(random_program(rng, rng.choice((2, 3)), kinds), words + random_tokens(rng), rng, seed)


@pytest.mark.parametrize("long", range(1, 8))
def test_a_text_of_many_tokens_whose_last_goes_on_after_it(long):
    """The token ``qbcdefg`` replaces seven: the text before it may take up to five more than the other text does."""
    dear = b"x" * long + b"q"
    names = names_table({b"a": 0, dear: 0}, b"")
    lex = tables.of_nfa(constraints.regex(f"a|{dear.decode()}").bytes_automaton)
    for node in (
        nodes.lex(lex),
        nodes.count(lex, 1),
        nodes.alt(nodes.text(b"a"), nodes.text(dear)),
        nodes.bag(names, names, [nodes.EMPTY], 1, [0]),
    ):
        words = [bytes([b]) for b in range(256)] + [b"qbcdefg"]
        compare(nodes.seq(node, nodes.text(b"bcdefg")), words, random.Random(long), long)


def lists(rng):
    """Return a program of lists whose items differ: of strings, of lists, of objects, of numbers, beside budgets of parts."""
    word = nodes.lex(
        tables.of_nfa(constraints.regex(rng.choice(('"[ab]*"', "[ab]{0,2}", "a|b|ab"))).bytes_automaton)
    )
    a, comma = nodes.text(b"a"), nodes.text(b",")
    low = rng.randint(0, 2)
    high = rng.choice((None, low + 1, low + 2))

    def unique(item):
        return nodes.seq(
            nodes.text(b"["), nodes.apart(nodes.repeat(nodes.item(item), low, high, comma)), nodes.text(b"]")
        )

    match rng.randrange(5):
        case 0:
            found = unique(word)
        case 1:
            found = unique(nodes.seq(nodes.text(b"["), nodes.repeat(word, 0, 2, comma), nodes.text(b"]")))
        case 2:
            found = unique(nodes.alt(unique(word), a))
        case 3:
            found = nodes.seq(nodes.tokens(unique(word), 0, rng.randint(3, 6)), nodes.alt(a, nodes.EMPTY))
        case _:
            found = unique(nodes.tokens(word, 1, 2))
    return nodes.repeat(found, 0, 2) if rng.random() < 0.3 else found


@BLOCKS
def test_items_that_differ(block):
    for seed in range(8 * block, 8 * (block + 1)):
        rng = random.Random(seed)
        words = [
            b"a", b"b", b'"', b",", b"[", b"]",
            *rng.sample([b'",', b'","', b'"]', b'a"', b"ab", b'"a', b"],[", b"a,", b'"a","'], 4),
        ]  # fmt: skip
        compare(lists(rng), [word for word in words if rng.random() < 0.95], rng, seed, walks=2)


def test_items_of_any_depth_that_differ():
    value = nodes.rule()
    comma = nodes.text(b",")
    inside = nodes.alt(nodes.EMPTY, nodes.apart(nodes.repeat(nodes.item(value), 1, 3, comma)))
    nodes.define(value, nodes.alt(nodes.text(b"a"), nodes.seq(nodes.text(b"["), inside, nodes.text(b"]"))))
    compare(value, [b"a", b"[", b"]", b",", b"[]", b"],", b",["], random.Random(0), 0)


def test_items_that_differ_are_sought_among_many_tokens():
    """The shortest texts of items, ``"a"`` and ``"b"``, are not those with the fewest tokens; 17,576 others are no better."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [f'"{word}"' for word in ("hello", "world")] + [
        a + b + c for a in letters for b in letters for c in letters
    ]
    vocab = Vocabulary(
        [None, *(bytes([b]) for b in range(256)), b", ", *(word.encode() for word in words)], eos_token_id=0
    )
    schema = {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "minItems": 2,
        "uniqueItems": True,
    }
    automaton = constraints.json_schema(schema).compile(vocab)
    assert automaton.fewest_after([]) == 6
    query = gcd(automaton, horizon=6).start(batch=1)
    for token in (b"[", b'"world"', b", "):
        query.advance([vocab.token_bytes.index(token)])
    assert [vocab.token_bytes[t] for t in np.flatnonzero(query.mask()[0])] == [b'"hello"']


def compare(node, words, rng, seed, walks=3, lefts=range(6), longest=8):
    """Masks and distances along random walks, of the core and of the definition; return how many masks were compared."""
    if node is NOTHING:
        return 0
    vocab, compared = Vocabulary([None, *dict.fromkeys(words)], eos_token_id=0), 0
    plain, core = Definition(node, vocab), ProgramStates(node, vocab)
    for _ in range(walks):
        at, state = plain.start, core.start_state
        for _ in range(longest):
            try:
                assert (plain.fewest(at) == NEVER) == (state < 0), seed
                if state < 0:
                    break
                assert plain.fewest(at) == core.fewest(state), seed
                mask = core.words_within(state)
                assert plain.mask(at) == tokens_of(mask), seed
                for left in lefts:
                    assert plain.mask(at, left) == tokens_of(core.words_within(state, left)), (seed, left)
            except TooLarge:
                return compared
            compared += 1
            token = some_token(rng, mask)
            if not token:
                break
            at, state = plain.step(at, token), core.step(state, token)
    return compared


def tokens_of(mask):
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


def test_masks_of_ambiguous_programs_are_those_of_the_definition():
    """Rules that began with themselves: several stacks call one node, and return to each of them."""
    compared = 0
    for seed in range(5_000, 5_120):
        rng = random.Random(seed)
        given = random_program(
            rng, kinds=("seq", "alt", "rule", "rule", "repeat"), rules=3, left_recursive=True
        )
        if not left_recursive(given):
            continue
        node = without_left_recursion(given)
        if node is NOTHING:
            continue
        words = BYTES + random_tokens(rng)
        compared += compare(node, words, rng, seed, walks=1, lefts=(3,), longest=7)
    assert compared > 60


@pytest.mark.parametrize("needed", [7, 12, 40])
def test_objects_with_many_members_have_a_way_to_the_end(needed):
    """Their distances are upper bounds: within the least budget and some tokens more no mask is empty.

    They are no more than the tokens of the members in their order.
    """
    names = [f"{letter}{i}" for i in range(max(6, needed // 2)) for letter in "ab"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names[:needed],
    }
    words = [
        None, *(bytes([b]) for b in range(256)), b'", "a', b'": "', b'a0": "', b'"}', b'", "', b"b1", b'"a2": "", "b',
    ]  # fmt: skip
    automaton = constraints.json_schema({**schema, "additionalProperties": False}).compile(
        Vocabulary(words, 0)
    )
    least = automaton.fewest_after([])
    text = json.dumps(dict.fromkeys(names[:needed], "")).encode()
    fewest = [0]  # tokens of each prefix
    for end in range(1, len(text) + 1):
        fewest.append(1 + min(fewest[end - len(w)] for w in words[1:] if text[:end].endswith(w)))
    assert needed < least <= fewest[-1] + 1  # with the end token
    for seed in range(12):
        rng, query = random.Random(seed), gcd(automaton, 600).start(budgets=least + seed % 4)
        while int(query.remaining[0]):
            allowed = query.mask()[0].nonzero().flatten().tolist()
            assert allowed, seed
            token = rng.choice(allowed)
            query.advance([token])
            if token == 0:
                break
        assert token == 0, seed


def test_rows_move_as_states_do_while_they_have_a_budget():
    vocab = Vocabulary([b"a", b"b", None], eos_token_id=2)
    tokens = constraints.regex("a{1,9}b").compile(vocab).lazy
    start = tokens.start_state
    after_a = tokens.step(start, 0)
    first, second, third = rows = [(start, 5, None), (after_a, 1, (start, 2, None)), (start, 0, None)]
    assert after_a not in (start, -1)
    moved = tokens.after(rows, [0, 1, 0])
    assert moved == [(after_a, 4, first), (tokens.step(after_a, 1), 0, second), (start, 0, third)]
    assert tokens.after([first], [1]) == [(-1, 4, first)]


def test_a_state_that_was_never_met_is_refused():
    vocab = Vocabulary([b"a", b"b", None], eos_token_id=2)
    lazy = constraints.regex("a{1,9}b").compile(vocab).lazy
    out = np.zeros((1, 1), np.int32)
    asked = (
        lambda state: lazy.fewest(state),
        lambda state: lazy.within(state, 3),
        lambda state: lazy.step(state, 0),
        lambda state: lazy.after([(state, 3, None)], [0]),
        lambda state: lazy.allows(state, 3, 0),
        lambda state: lazy.fill([(state, 3)], out),
    )
    for ask in asked:
        with pytest.raises(IndexError):
            ask(10**6)
