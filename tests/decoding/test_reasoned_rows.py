"""Rows with reasoning before the answer, against a definition of what may follow by enumeration."""

import json
import random

import pytest
import torch

import tractile as tt
from tractile.decoding.grammar_rows import Grammars
from tractile.decoding.reasoned_rows import ReasonedRow

LETTERS = [None, b"a", b"b", b"ab", b"c", None, None, b"<", b"x"]
EOS, STOP, THOUGHT, OPENS = 0, 5, 6, 3
GRAMMARS = Grammars(tt.Vocabulary(LETTERS, eos_token_id=EOS), [STOP])
PATTERN = r"(ab)+c"
ACCEPTS = tt.constraints.regex(PATTERN).accepts
CONSTRAINT = json.dumps(["regex", PATTERN, {}])
ENDS = {"a special token": [THOUGHT], "several tokens": [7, 7, 8]}


def split(tokens, end, opening):
    """The reasoning, its end included, and the answer; None: the reasoning goes on."""
    for n in range(len(tokens) + 1):
        if n >= len(end) and list(tokens[n - len(end) : n]) == end:
            return tokens[:n], tokens[n:]
        if n < len(tokens) and tokens[n] in opening:
            return tokens[:n], tokens[n:]
    return tokens, None


def completes(tokens, end, budget, at_most, opening):
    """Whether these tokens can go on to a text within the budget: by the shortest ways to go on."""
    reasoning, answer = split(tokens, end, opening)
    if any(token in (EOS, STOP) for token in reasoning):
        return False
    ways = [[*end][n:] for n in range(len(end)) if not n or list(reasoning[-n:]) == end[:n]]
    if answer is None:
        whole = [[*tokens, *way, 3, 4, EOS] for way in ways]
        thoughts = [len(text) - 3 for text in whole]
    else:
        text = b"".join(LETTERS[token] or b"." for token in answer if token not in (EOS, STOP))
        ended = bool(answer) and answer[-1] in (EOS, STOP)
        tails = [[]] if ended else [[EOS], [4, EOS], [2, 4, EOS], [1, 2, 4, EOS], [3, 4, EOS]]
        tails = [t for t in tails if ACCEPTS(text + b"".join(LETTERS[x] for x in t if x != EOS))]
        if any(token in (EOS, STOP) for token in answer[:-1]):
            return False
        whole, thoughts = [[*tokens, *tail] for tail in tails], [len(reasoning)] * len(tails)
    most = budget if at_most is None else at_most + len(end)  # of the reasoning
    return any(len(text) <= budget and n <= most for text, n in zip(whole, thoughts, strict=True))


def read(row):
    mask = torch.full((2, 1), -1, dtype=torch.int32)
    row.fill(mask, 1)
    assert mask[0] == -1
    return {token for token in range(32) if int(mask[1, 0]) >> token & 1}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(
    "opening", [(), (OPENS,), (2,)], ids=["none", "one", "one that no answer begins with"]
)
@pytest.mark.parametrize(("budget", "at_most"), [(6, None), (10, None), (10, 2), (12, 5)])
def test_masks_leave_a_way_to_the_end_and_nothing_out(end, opening, budget, at_most):
    dice = random.Random(0)
    for _ in range(12):
        row = ReasonedRow(GRAMMARS, CONSTRAINT, end, budget, at_most, opening)
        tokens = ()
        while not row.terminated:
            assert row.tokens == tokens
            assert row.left == budget - len(tokens)
            allowed = read(row)
            possible = {t for t in range(9) if completes((*tokens, t), end, budget, at_most, opening)}
            if split(tokens, end, opening)[1] is None and 4 not in possible:
                assert len(allowed) == 1  # no thought fits any more: its end has begun
                assert allowed <= possible - {*opening}
            else:
                assert allowed == possible, tokens
            draft = [dice.choice([*allowed, dice.randrange(-1, 10)]) for _ in range(3)]
            good = list(row.validate(draft))
            assert row.tokens == tokens
            assert row.fork().accept(good)
            if dice.random() < 0.2:
                row.rollback(n := dice.randrange(len(tokens) + 1))
                tokens = tokens[: len(tokens) - n]
            else:
                tokens = (*tokens, dice.choice(sorted(allowed)))
                assert row.accept(tokens[-1:])
        assert ACCEPTS(b"".join(LETTERS[token] or b"" for token in split(tokens, end, opening)[1]))
        row.reset()
        assert row.tokens == ()


def test_what_does_not_fit_is_refused_and_reasoning_without_a_budget_goes_on():
    with pytest.raises(tt.errors.BudgetTooSmall) as error:
        ReasonedRow(GRAMMARS, CONSTRAINT, [7, 7], budget=4)
    assert error.value.needed == 5
    row = ReasonedRow(GRAMMARS, CONSTRAINT, [THOUGHT])
    assert row.accept([1] * 500)
    assert read(row) == {*range(9)} - {EOS, STOP}
    assert row.forced() == []
    assert row.accept([THOUGHT])
    assert not row.accept([4])
    assert row.accept([3, 4, STOP])
    assert row.terminated
