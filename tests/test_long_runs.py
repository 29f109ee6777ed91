"""One compiled constraint for a long time: sixteen threads get the answers of one, and what is kept stays small."""

import os
import random
import sys
import threading

import pytest

import tractile as tt
from tractile import constraints

WORDS = [
    *(bytes([b]) for b in range(32, 127)),
    b'{"',
    b'": ',
    b'", "',
    b'"a',
    b"12",
    b"true",
    b"], ",
    b" the",
    b"ab",
]
EOS = len(WORDS)
GENERATIONS = int(os.environ.get("TRACTILE_GENERATIONS", "500"))
MAKERS = {
    "regex": lambda: constraints.regex("([a-z]+ [0-9]{1,4},){1,9}"),
    "schema": lambda: constraints.json_schema({"type": "array", "items": {"enum": ["a", 12, True]}}),
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
            thread.join(300)
    finally:
        sys.setswitchinterval(before)
    assert found == expected


def test_generations_one_after_another_keep_little():
    """``TRACTILE_GENERATIONS`` says how many; all satisfy the constraint, and no more states are kept than nesting needs."""
    constraint = MAKERS["grammar"]()
    automaton = constraint.compile(tt.Vocabulary([*WORDS, None], eos_token_id=EOS))
    query, rng = tt.gcd(automaton, 64), random.Random(0)
    for _ in range(GENERATIONS):
        tokens, _ = generate(query, rng, 64)
        assert tokens[-1] == EOS
        assert constraint.accepts(b"".join(WORDS[token] for token in tokens[:-1]))
    assert len(automaton.lazy.states.configurations) < 100
