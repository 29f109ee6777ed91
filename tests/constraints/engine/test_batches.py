"""Masks of many texts in one call: equal to those of each alone, whatever the engines, threads and limits."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict

import numpy as np
import pytest
import torch
from random_programs import random_program, random_tokens

import tractile as tt
from tractile.constraints import Limits, Vocabulary
from tractile.constraints.automata import request_limits
from tractile.constraints.engine import cores, tokens
from tractile.constraints.engine.tokens import SINK, ProgramStates
from tractile.decoding.grammar_rows import Grammars
from tractile.decoding.reasoned_rows import ReasonedRow, fill

BYTES = [bytes([byte]) for byte in range(256)]
NEVER = 1 << 60


def met(rng, tokens):
    """States that random texts of an automaton meet, also none, and the one after the end token."""
    found = [-1, SINK, tokens.start_state]
    for _ in range(3):
        state = tokens.start_state
        for _ in range(rng.randrange(6)):
            bits = np.unpackbits(tokens.words_within(state).view(np.uint8), bitorder="little")
            if not bits[1:].any():
                break
            state = tokens.step(state, int(rng.choice(np.flatnonzero(bits[1:]) + 1)))
            found.append(state)
    return found


def batch(rng, vocab):
    """Rows of several random programs, their budgets from none left to any number; each with its own place."""
    rows = []
    for _ in range(4):
        node = random_program(rng, kinds=("seq", "alt", "repeat", "bag", "tokens"))
        states = ProgramStates(node, vocab, rng.random() < 0.5)
        rows += [(states, state, rng.choice([0, 1, 2, 3, 5, 9, NEVER])) for state in met(rng, states)]
    places = rng.sample(range(len(rows) + 3), len(rows))
    return [(*row, place) for row, place in zip(rows, places, strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_is_its_rows(seed):
    rng = random.Random(seed)
    vocab = Vocabulary([None, *(BYTES if seed % 2 else []), *random_tokens(rng)], eos_token_id=0)
    rows, words = batch(rng, vocab), -(-len(vocab) // 32)
    out = np.full((len(rows) + 3, words + 2), 77, np.int32)
    tokens.fill(rows, out)
    for each, state, budget, place in rows:
        assert (out[place, :words] == each.words_within(state, budget - 1)).all()
        assert not out[place, words:].any()
    others = sorted({*range(len(out))} - {place for *_, place in rows})
    assert (out[others] == 77).all()


def test_masks_that_several_threads_ask_for_at_once():
    """New states in each thread, of constraints that share their engines with others."""
    vocab = Vocabulary([None, *BYTES, *random_tokens(random.Random(0))], eos_token_id=0)
    found: dict[int, list] = {}

    def work(number):
        rng = random.Random(number % 3)  # two threads each go the same way
        found[number] = []
        for _ in range(4):
            rows = batch(rng, vocab)
            out = np.zeros((len(rows) + 3, -(-len(vocab) // 32)), np.int32)
            tokens.fill(rows, out)
            found[number].append(out)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        for one, two in zip(found[number], found[number + 3], strict=True):
            assert (one == two).all()
    cores._shared.pop(vocab.cache_name)
    work(6)
    for one, two in zip(found[0], found[6], strict=True):
        assert (one == two).all()


def near_the_end(monkeypatch):
    """Rows with few tokens left, of engines that know nothing yet, and an empty matrix."""
    monkeypatch.setattr(cores, "_shared", OrderedDict())
    vocab = Vocabulary([None, *BYTES], eos_token_id=0)
    rows = []
    for place, name in enumerate("ab"):
        item = {"type": "object", "required": [name, "c", "d"], "minProperties": 5}
        tokens = tt.constraints.json_schema({"type": "array", "items": item}).compile(vocab).lazy
        state = tokens.start_state
        for byte in b'[{"':
            state = tokens.step(state, byte + 1)
        rows.append((tokens, state, 60 + place, place))
    return rows, np.zeros((2, -(-len(vocab) // 32)), np.int32)


def test_a_batch_goes_on_where_the_steps_of_a_call_end(monkeypatch):
    rows, want = near_the_end(monkeypatch)
    tokens.fill(rows, want)
    assert want.any(1).all()
    rows, out = near_the_end(monkeypatch)
    calls, allow = [], cores.allow
    monkeypatch.setattr(cores, "SLICE", 3)
    monkeypatch.setattr(cores, "allow", lambda steps: (calls.append(steps), allow(steps)))
    Limits().run(lambda: tokens.fill(rows, out))
    allow(100_000)
    assert len(calls) > 7
    assert (out == want).all()


def test_rows_that_take_too_much_work_leave_the_others_written(monkeypatch):
    rows, out = near_the_end(monkeypatch)
    known = rows[0][0].words_within(*rows[0][1:3])
    with pytest.raises(tt.errors.TooManyStates, match="more work"):
        Limits(work=1).run(lambda: tokens.fill([(*rows[0][:2], rows[0][2] + 1, 0), rows[1]], out))
    assert (out[0] == known).all()
    assert not out[1].any()
    tokens.fill(rows, out)
    assert out[1].any()


def test_matrices_that_do_not_fit():
    states = tt.constraints.regex("ab").compile(Vocabulary([None, *BYTES], eos_token_id=0)).lazy
    row = (states, states.start_state, 5)
    for out, at in ((np.zeros((1, 8), np.int32), 0), (np.zeros((1, 9), np.int32), 1), (np.zeros((1, 9)), 0)):
        with pytest.raises((ValueError, IndexError)):
            tokens.fill([(*row, at)], out)


@pytest.mark.parametrize("ends", [[], [5]])
def test_rows_of_an_engine(ends):
    """Texts that have begun, reason first, are out of budget, and have ended."""
    vocab = Vocabulary([None, b"a", b"b", b"ab", b"c", None], eos_token_id=0)
    grammars = Grammars(vocab, ends)
    one, two = '["regex", "(ab)*c|a?b", {}]', '["json_schema", {"enum": ["a", "b"]}, {}]'
    rows = [grammars.row(one, 6), grammars.row(one), grammars.row(one, 2), grammars.row(one, 3)]
    rows += [ReasonedRow(grammars, one, [4], budget) for budget in (9, 9, 3)]
    for row, written in zip(rows, ([1], [3, 3], [4, 0], [1, 2, 0], [1], [1, 4, 3]), strict=False):
        assert row.accept(written)
    with pytest.raises(tt.errors.TractileError):
        grammars.row(two)  # no token has quotes
    want, out = (torch.full((9, 2), -1, dtype=torch.int32) for _ in range(2))
    places = [8, 0, 1, 5, 3, 4, 2]
    for row, place in zip(rows, places, strict=True):
        row.fill(want, place)
    fill(zip(rows, places, strict=True), out)
    assert (out == want).all()
    assert out[[6, 7]].eq(-1).all()
    assert len({int(word) for word in out[places, 0]}) > 3
    with pytest.raises(tt.errors.VocabularyMismatch):
        fill([(rows[0], 0)], torch.zeros(1, 0, dtype=torch.int32))


def test_a_call_that_searches_nothing_takes_no_work(monkeypatch):
    rows, out = near_the_end(monkeypatch)
    states = rows[0][0]
    limits = Limits(work=100_000)

    def asked():
        tokens.fill(rows, out)
        left = request_limits.search_left(100_000)
        for _ in range(50):
            assert states.step(-1, 1) == -1
        assert request_limits.search_left(100_000) == left < 100_000

    limits.run(asked)
