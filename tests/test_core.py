"""The compiled engine against its definition: equal masks, equal distances, equal states."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_programs import random_program, random_tokens

from tractile import constraints, gcd
from tractile.constraints import Vocabulary
from tractile.constraints.engine import native
from tractile.constraints.engine.masks import ProgramTokens
from tractile.constraints.program.left_recursion import left_recursive, without_left_recursion
from tractile.constraints.program.nodes import NOTHING

pytestmark = pytest.mark.skipif(native.Core is None, reason="the core is not built")
KINDS = ("seq", "alt", "repeat", "bag", "rule")


@pytest.mark.parametrize("block", range(4))
def test_masks_and_distances_are_those_of_the_definition(block):
    for seed in range(40 * block, 40 * (block + 1)):
        rng = random.Random(seed)
        node = random_program(rng, kinds=KINDS)
        compare(node, [bytes([b]) for b in range(256)] + random_tokens(rng), rng, seed)


@pytest.mark.parametrize("block", range(4))
def test_parts_with_budgets_and_bytes_that_are_no_tokens(block):
    for seed in range(1000 + 60 * block, 1000 + 60 * (block + 1)):
        rng = random.Random(seed)
        kinds = (*KINDS, "tokens", "tokens") if seed % 4 else KINDS
        compare(random_program(rng, rng.choice((2, 3)), kinds), random_tokens(rng), rng, seed)


def compare(node, words, rng, seed, walks=3):
    """Masks and distances along random walks, of the compiled engine and of the definition."""
    if node is NOTHING:
        return
    vocab = Vocabulary([None, *dict.fromkeys(words)], eos_token_id=0)
    plain, compiled = ProgramTokens(node, vocab), native.CompiledTokens(node, vocab)
    for _ in range(walks):
        a, b = plain.start_state, compiled.start_state
        for _ in range(8):
            assert (a < 0) == (b < 0), seed
            if a < 0:
                break
            assert plain.fewest(a) == compiled.fewest(b), seed
            mask = plain.words_from(a)
            assert (mask == compiled.words_from(b)).all(), seed
            assert compiled.enough(b) >= plain.ample(a), seed
            for left in range(6):
                assert (plain.words_within(a, left) == compiled.words_within(b, left)).all(), (seed, left)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            allowed = allowed[allowed != 0]
            if not len(allowed):
                break
            token = int(rng.choice(allowed))
            a, b = plain.step(a, token), compiled.step(b, token)


def test_masks_of_ambiguous_programs_are_those_of_the_definition():
    """Rules that began with themselves: several stacks call one node, and return to each of them."""
    compared = 0
    for seed in range(5_000, 5_200):
        rng = random.Random(seed)
        given = random_program(
            rng, kinds=("seq", "alt", "rule", "rule", "repeat"), rules=3, left_recursive=True
        )
        if not left_recursive(given):
            continue
        node = without_left_recursion(given)
        if node is NOTHING:
            continue
        words = [None, *(bytes([b]) for b in range(256)), *random_tokens(rng)]
        vocab = Vocabulary(list(dict.fromkeys(words)), eos_token_id=0)
        plain, compiled = ProgramTokens(node, vocab), native.CompiledTokens(node, vocab)
        a, b = plain.start_state, compiled.start_state
        for _ in range(7):
            compared += 1
            assert plain.fewest(a) == compiled.fewest(b), seed
            mask = plain.words_from(a)
            assert (mask == compiled.words_from(b)).all(), seed
            assert (plain.words_within(a, 3) == compiled.words_within(b, 3)).all(), seed
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            allowed = allowed[allowed != 0]
            if not len(allowed):
                break
            token = int(rng.choice(allowed))
            a, b = plain.step(a, token), compiled.step(b, token)
    assert compared > 100


@pytest.mark.parametrize("needed", [7, 9, 12])
def test_objects_with_many_members_have_a_way_to_the_end(needed):
    """Their distances are upper bounds: within the least budget and some tokens more no mask is empty."""
    names = [f"{letter}{i}" for i in range(6) for letter in "ab"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names[:needed],
    }
    words = [
        None,
        *(bytes([b]) for b in range(256)),
        b'", "a',
        b'": "',
        b'a0": "',
        b'"}',
        b'", "',
        b"b1",
        b'"a2": "", "b',
    ]
    automaton = constraints.json_schema({**schema, "additionalProperties": False}).compile(
        Vocabulary(words, 0)
    )
    assert isinstance(automaton.lazy, native.CompiledTokens)
    least = automaton.fewest_after([])
    for seed in range(30):
        rng, query = random.Random(seed), gcd(automaton, 200).start(budgets=least + seed % 4)
        while int(query.remaining[0]):
            allowed = query.mask()[0].nonzero().flatten().tolist()
            assert allowed, seed
            token = rng.choice(allowed)
            query.advance([token])
            if token == 0:
                break
        assert token == 0, seed
