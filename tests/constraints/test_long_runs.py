"""One compiled constraint for a long time: sixteen threads get the answers of one, and what is kept stays small."""

import gc
import os
import random
import sys
import threading
from pathlib import Path

import pytest
import torch
from counting import HANGS

import tractile as tt
from tractile import constraints

WORDS = [
    *(bytes([b]) for b in range(256)), b'{"', b'": ', b'", "', b'"a', b"12", b"true", b"], ", b" the", b"ab",
]  # fmt: skip
EOS = len(WORDS)
GENERATIONS = int(os.environ.get("TRACTILE_GENERATIONS", "500"))
STEPS = int(os.environ.get("TRACTILE_STEPS", "1000"))
DISTINCT = {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2}
MAKERS = {
    "regex": lambda: constraints.regex("([a-z]+ [0-9]{1,4},){1,9}"),
    "schema": lambda: constraints.json_schema({"type": "array", "items": {"enum": ["a", 12, True]}}),
    "distinct": lambda: constraints.json_schema(DISTINCT),
    "grammar": lambda: constraints.grammar(
        'start: "[" (start ("," start)*)? "]" | /[a-z]+/ | NUMBER\nNUMBER: /[0-9]+/\n'
    ),
}


def compiled(kind):
    """The automaton for a vocabulary of its own, in which nothing is known yet."""
    return MAKERS[kind]().compile(tt.Vocabulary([*WORDS, None], eos_token_id=EOS))


def generate(query, rng, most):
    """Tokens drawn uniformly among those allowed, and how many were allowed at each step."""
    row, tokens, allowed = query.start(), [], []
    while len(tokens) < most and (not tokens or tokens[-1] != EOS):
        some = row.mask()[0].nonzero().flatten().tolist()
        # text that is short to read
        some = [token for token in some if token >= 256 or 32 <= token < 127] or some
        tokens.append(rng.choice(some))
        allowed.append(some)
        row.advance(tokens[-1:])
    return tokens, allowed


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_threads_get_the_answers_of_one(kind):
    expected = [generate(tt.gcd(compiled(kind), 40), random.Random(seed), 15) for seed in range(16)]
    shared, found = compiled(kind), [None] * 16

    def work(seed):
        found[seed] = generate(tt.gcd(shared, 40), random.Random(seed), 15)

    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANGS)
    finally:
        sys.setswitchinterval(before)
    assert found == expected


def test_generations_one_after_another_keep_little():
    """``TRACTILE_GENERATIONS`` says how many; all satisfy the constraint, and no more states are kept than nesting needs."""
    constraint = MAKERS["grammar"]()
    automaton = constraint.compile(tt.Vocabulary([*WORDS, None], eos_token_id=EOS))
    query, rng = tt.gcd(automaton, 64), random.Random(0)

    def kept():
        return automaton.lazy.engine.core.work()["configurations"]

    before = kept()
    for _ in range(GENERATIONS):
        tokens, _ = generate(query, rng, 64)
        assert tokens[-1] == EOS
        assert constraint.accepts(b"".join(WORDS[token] for token in tokens[:-1]))
    assert kept() - before < 200


VOCAB = tt.Vocabulary([*WORDS, None], eos_token_id=EOS)
HMM = tt.HMM.random(hidden=8, vocab_size=EOS + 1, seed=0)
WALKS = {
    "gcd, finite": lambda: tt.gcd(MAKERS["regex"]().finite.compile(VOCAB), 30),
    "gcd, lazy": lambda: tt.gcd(MAKERS["grammar"]().compile(VOCAB), 30),
    "lcd": lambda: tt.lcd(MAKERS["schema"]().compile(VOCAB)),
    "pgcd": lambda: tt.pgcd(HMM, MAKERS["regex"]().finite.compile(VOCAB), 30),
    "next token": lambda: tt.NextToken(
        HMM * MAKERS["regex"]().finite.compile(VOCAB), 30, tt.inference.Real()
    ),
}


def memory():
    """Megabytes that the process holds; 0 where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) >> 8 if file.exists() else 0


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(WALKS))
def test_a_long_walk_back_and_forth_keeps_little(kind):
    """``TRACTILE_STEPS`` says how many steps, rollbacks and forks; now and then against the same tokens from the start."""
    query, replayed, rng, tokens, kept = WALKS[kind](), WALKS[kind](), random.Random(0), [], []
    row = query.start()
    for step in range(STEPS):
        some = row.mask()[0].nonzero().flatten().tolist() if len(tokens) < 28 else []
        if tokens and rng.random() < 0.25:
            n = rng.randint(1, len(tokens))
            row.rollback(n)
            del tokens[-n:]
        elif not some or some == [EOS] or len(tokens) > 28:
            row, tokens = query.start(), []
        else:
            tokens.append(rng.choice([token for token in some if token != EOS]))
            row.advance(tokens[-1:])
            row = row.fork() if rng.random() < 0.1 else row
        if step % 500 == 499:
            other = replayed.start()
            for token in tokens:
                other.advance([token])
            assert torch.equal(other.mask(), row.mask())
            assert torch.allclose(other.log_weights(), row.log_weights(), equal_nan=True)
        if step % max(1, STEPS // 4) == STEPS // 4 - 1:
            gc.collect()
            kept.append((len(gc.get_objects()), memory()))
    print(kind, STEPS, "steps; objects and memory in MB after each quarter:", kept)
    assert kept[-1][0] < kept[1][0] + 400  # less than one for each step
    assert kept[-1][1] < kept[1][1] + 20
