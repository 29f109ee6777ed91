"""One compiled constraint for a long time: sixteen threads get the answers of one, and what is kept stays small."""

import gc
import json
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
from tractile.constraints.automata import comparing_stack
from tractile.constraints.masks import completions, recording_tokens
from tractile.constraints.masks.recording_tokens import RecordingTokens
from tractile.inference.next_token import lazy_masks

WORDS = [
    *(bytes([b]) for b in range(256)),
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
        some = [
            token for token in some if token >= 256 or 32 <= token < 127
        ] or some  # text that is short to read
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


def test_another_thread_in_between_changes_no_answer(monkeypatch):
    """What the last call left is used by the next; another thread's call comes between, at the worst moments."""
    automaton = compiled("distinct")
    tokens, alone = automaton.lazy, compiled("distinct").lazy
    bounds, words = tokens._texts_bounds, [b'abab": ', b'12ab", "']
    expected = [alone._texts_bounds.of_text(word) for word in words]
    real = completions.common_end

    def interrupted(*given):
        monkeypatch.setattr(completions, "common_end", real)
        assert bounds.of_text(words[1]) == expected[1]
        return real(*given)

    bounds.of_text(b'xx": ')
    monkeypatch.setattr(completions, "common_end", interrupted)
    assert bounds.of_text(words[0]) == expected[0]

    state, other = (tokens.read(tokens.start_state, text) for text in (b'["a', b'["a", "ab'))
    step = tokens.recording.all_after
    expected = [
        step(tokens.recording.readings(tokens.configuration(one)), b'b", "') for one in (state, other)
    ]

    def between(*given):
        monkeypatch.setattr(tokens.recording, "all_after", step)
        tokens._readings_after(other, b"b")
        return step(*given)

    monkeypatch.setattr(tokens.recording, "all_after", between)
    assert [tokens._readings_after(one, b'b", "') for one in (state, other)] == expected


def test_generations_one_after_another_keep_little():
    """``TRACTILE_GENERATIONS`` says how many; all satisfy the constraint, and no more states are kept than nesting needs."""
    constraint = MAKERS["grammar"]()
    automaton = constraint.compile(tt.Vocabulary([*WORDS, None], eos_token_id=EOS))
    query, rng = tt.gcd(automaton, 64), random.Random(0)

    def kept():
        engine = getattr(automaton.lazy, "engine", None)
        return (
            engine.core.work()["configurations"] if engine else len(automaton.lazy.base.states.configurations)
        )

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


def test_sets_of_seen_items_are_forgotten(monkeypatch):
    """Arrays of distinct items make states without end; few are kept, and what a mask has promised is kept all the same."""
    monkeypatch.setattr(recording_tokens, "MOST_RECORDED", 100)
    monkeypatch.setattr(RecordingTokens, "most_steps", 100)
    monkeypatch.setattr(comparing_stack, "MOST_KEPT", 1000)
    monkeypatch.setattr(lazy_masks, "KEPT_BYTES", 50 * lazy_masks.ENTRY_BYTES)
    constraint, rng = MAKERS["distinct"](), random.Random(0)
    automaton = constraint.compile(tt.Vocabulary([*WORDS, None], eos_token_id=EOS))
    query, alive = tt.gcd(automaton, 14), []
    for i in range(40):
        tokens, _ = generate(query, rng, 14)
        assert tokens[-1] == EOS
        items = json.loads(b"".join(WORDS[token] for token in tokens[:-1]))
        assert len(set(items)) == len(items) >= 2
        if i % 10 == 9:
            gc.collect()
            alive.append(sum(type(one) is recording_tokens.Recorded for one in gc.get_objects()))
    assert max(alive) < 400
