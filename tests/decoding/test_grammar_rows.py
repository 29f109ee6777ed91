"""Rows of structured output: masks, acceptance and rollback against enumerated texts; many threads."""

import itertools
import json
import random

import pytest
import torch

import tractile as tt
from tractile.decoding.grammar_rows import Grammars

LETTERS = [None, b"a", b"b", b"ab", b"c", None]
EOS, STOP = 0, 5
VOCAB = tt.Vocabulary(LETTERS, eos_token_id=EOS)
PATTERN = json.dumps(["regex", "(ab)*c|a?b", {}])
BUDGET = 6


def texts(pattern=r"(ab)*c|a?b", budget=BUDGET):
    """All accepted token sequences within the budget, with either end."""
    accepts = tt.constraints.regex(pattern).accepts
    for n in range(budget):
        for tokens in itertools.product(range(1, 5), repeat=n):
            if accepts(b"".join(LETTERS[t] for t in tokens)):
                yield from ((*tokens, EOS), (*tokens, STOP))


ACCEPTED = set(texts())
PREFIXES = {text[:n] for text in ACCEPTED for n in range(len(text) + 1)}


def allowed(tokens):
    """The tokens that may follow, by enumeration; a text that has ended may only end."""
    if tokens in ACCEPTED:
        return {EOS, STOP}
    return {t for t in range(6) if (*tokens, t) in PREFIXES}


def read(row, words=1):
    mask = torch.full((3, words), -1, dtype=torch.int32)
    row.fill(mask, 1)
    assert mask[0].eq(-1).all()
    assert mask[2].eq(-1).all()
    assert mask[1, 1:].eq(0).all()
    return {t for t in range(32) if int(mask[1, 0]) >> t & 1}


def test_random_walks_over_rows_agree_with_enumeration():
    dice = random.Random(0)
    grammars = Grammars(VOCAB, [STOP])
    for _ in range(60):
        row, tokens = grammars.row(PATTERN, BUDGET), ()
        for _ in range(30):
            assert row.tokens == tokens
            assert row.terminated == (tokens in ACCEPTED)
            assert read(row, dice.choice([1, 4])) == allowed(tokens)
            draft = [dice.choice([*allowed(tokens), dice.randrange(-1, 9)]) for _ in range(dice.randrange(4))]
            good = [] if tokens in ACCEPTED else draft
            while (*tokens, *good) not in PREFIXES:
                good = good[:-1]
            assert row.validate(draft) == good
            match dice.randrange(5):
                case 0:
                    row.rollback(n := dice.randrange(len(tokens) + 1))
                    tokens = tokens[: len(tokens) - n]
                case 1:
                    kept, row = row, row.fork()
                    kept.accept(draft)
                case 2 if dice.random() < 0.2:
                    row.reset()
                    tokens = ()
                case _:
                    assert row.accept(draft) == (good == draft)
                    tokens += tuple(draft) if good == draft else ()


def test_a_budget_that_is_too_small_and_none_at_all():
    grammars = Grammars(VOCAB)
    with pytest.raises(tt.errors.BudgetTooSmall):
        grammars.row(PATTERN, 1)
    assert read(grammars.row(PATTERN, 2)) == {2, 3, 4}  # b, ab and c
    row = grammars.row(PATTERN)
    assert row.accept([3] * 1000 + [4, EOS])
    with pytest.raises(tt.errors.ShapeError):
        row.rollback(2000)


def test_what_cannot_be_served_is_refused():
    grammars = Grammars(VOCAB)
    for _ in range(2):  # a failure is not kept
        with pytest.raises(tt.errors.UnsupportedConstraint):
            grammars.row(json.dumps(["regex", "(", {}]), 4)
    with pytest.raises(tt.errors.VocabularyMismatch, match="words"):
        grammars.row(PATTERN, 4).fill(torch.zeros(1, 0, dtype=torch.int32))
    with pytest.raises(tt.errors.VocabularyMismatch, match="stop"):
        Grammars(VOCAB, [6])
