"""Byte automata over tokens against brute force and against the automaton written out: masks, distances, queries."""

import pickle
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import Vocabulary, regex
from tractile.constraints.lift import lift
from tractile.inference import Boolean
from tractile.inference.next_token.generic import DenseQuery

LETTERS = b'ab"\\u0\xc3\xa9 1,'
BYTES = [bytes([b]) for b in range(256)]
PATTERNS = [
    "a*",
    "[a-z]{0,5}b",
    "(?s).*",
    '"[^"]{0,7}"(,"[a-z]{2,4}")*',
    "é*a",
    '"(ab|[^"ab])*"',  # strings without ba …
    "[a-z]{3}[a-zA-Z0-9]{2,5}",  # one kind of letters after another
    "[ab]*[ac]",
    "(a|b|1)*,",
    '"(?!ab")[^"]*"',  # a name that is treated apart
    '"((a|ab|é)": 1|(?!(a|ab|é)")[^"]*": 0),"[^"]{1,3}"',
    '"([^"\\\\]|\\\\([u"]|0{2}))*"',  # escapes
    '("[^"]{2,}"|[0-9]{1,3})(,[^,]*){0,2}',
]


def vocabulary(seed: int, size: int = 300) -> Vocabulary:
    """All bytes, and random tokens of letters that matter: cut-off UTF-8, quotes, escapes; some twice, some special."""
    rng = random.Random(seed)
    words = [bytes(rng.choices(LETTERS, k=rng.randint(1, 6))) for _ in range(size)]
    pieces: list[bytes | None] = [*BYTES, *words, None, b"a" * 9]
    rng.shuffle(pieces)
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


@settings(max_examples=15)
@given(st.sampled_from(PATTERNS), st.integers(0, 5), st.integers(0, 2**31), st.booleans())
def test_masks_equal_the_boolean_query(pattern, extra, seed, require_eos):
    """Any game through the masks: those of the generic query on the automaton lifted with one partition of the tokens."""
    vocab, rng = vocabulary(2, 60), random.Random(seed)
    constraint = regex(pattern)
    automaton = constraint.compile(vocab, require_eos)
    arrays = lift(constraint.bytes_automaton, vocab, require_eos)
    explicit = tt.Automaton.from_transitions(
        arrays.source, arrays.token_class_of_edge, arrays.target, arrays.token_class,
        arrays.start.tolist(), arrays.accept.tolist(), arrays.num_states, vocab.eos_token_id,
    )  # fmt: skip
    if explicit.num_states > 80:
        return
    fewest = automaton.fewest_after([])
    budgets = torch.tensor([max(1, fewest), max(1, fewest + extra)])
    horizon = int(budgets.max())
    query, oracle = tt.gcd(automaton, horizon), DenseQuery(explicit, horizon, Boolean())
    local, local_oracle = tt.lcd(automaton), DenseQuery(explicit, None, Boolean())
    query.start(2, budgets), oracle.start(2, budgets), local.start(2), local_oracle.start(2)
    for _ in range(horizon):
        mask = query.mask()
        assert torch.equal(mask, oracle.mask())
        assert torch.equal(query.bitmask(), oracle.bitmask())
        assert torch.equal(local.mask(), local_oracle.mask())
        logits = torch.zeros(2, len(vocab) + 3)
        query.apply(logits)
        assert torch.equal(logits[:, :-3] == 0, mask)
        assert bool((logits[:, -3:] == -torch.inf).all())
        tokens = torch.tensor([rng.choice(row.nonzero()[:, 0].tolist() or [0]) for row in mask])
        for q in (query, oracle, local, local_oracle):
            q.advance(tokens)
    if fewest > 1:
        with pytest.raises(tt.errors.BudgetTooSmall) as caught:
            tt.gcd(automaton, fewest - 1).start()
        assert caught.value.needed == fewest


def test_pickled_after_use():
    automaton = regex('"[^"]{0,3}"').compile(vocabulary(4, 50))
    tt.gcd(automaton, 9).start().bitmask()
    again = pickle.loads(pickle.dumps(automaton))
    assert again.num_states == automaton.num_states
    assert [tt.count(again, n=n) for n in range(1, 7)] == [tt.count(automaton, n=n) for n in range(1, 7)]
