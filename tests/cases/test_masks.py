"""Masks of the core, token by token: a text that a constraint has is written to its end, any other is stopped before."""

import random

import numpy as np
import pytest
from cases import PIECES, SMALL, asked, spelled

import tractile as tt
from tractile.constraints.engine.bytes import Bytes
from tractile.constraints.engine.tokens import NO_STATE, ProgramStates

LONGEST, EOS = 60, SMALL.eos_token_id
"""Characters of the texts that are walked."""


def walked(automaton, tokens):
    """Whether every token and the end stand in the masks on the way."""
    state = automaton.start_state
    for token in [*tokens, EOS]:
        words = automaton.words_within(state)
        after = automaton.step(state, token)
        allowed = bool(np.asarray(words)[token // 32] >> (token % 32) & 1)
        assert allowed == (after != NO_STATE)
        if not allowed:
            return False
        state = after
    return True


@pytest.mark.parametrize("cases", asked("masks"))
def test_texts_are_walked(cases):
    for case in cases:
        automaton = ProgramStates(case.constraint.program, SMALL)
        for pieces in ((), PIECES):
            for text in filter(lambda text: len(text) <= LONGEST, case.has):
                assert walked(automaton, spelled(text, pieces)), (case, text)
            for text in filter(lambda text: len(text) <= LONGEST, case.lacks):
                assert not walked(automaton, spelled(text, pieces)), (case, text)
        if case.fewest is not None:
            assert automaton.fewest(automaton.start_state) == case.fewest, case


@pytest.mark.parametrize("cases", asked("bytes of tokens"))
def test_a_token_is_in_the_mask_exactly_if_its_bytes_may_be_read(cases):
    """At three places of a text: the bytes of each token, read one by one by an engine of their own."""
    for case in [case for case in cases if case.has][:WALKED]:
        automaton, bytewise = ProgramStates(case.constraint.program, SMALL), Bytes(case.constraint.program)
        text = case.has[-1].encode()[:LONGEST]
        for end in {0, len(text) // 2, len(text)}:
            state, here = automaton.start_state, bytewise.read(text[:end])
            for token in text[:end]:
                state = automaton.step(state, token + 1)
            expected = {EOS} if bytewise.accepting(here) else set()
            for token, word in enumerate(SMALL.token_bytes):
                there = here
                for byte in word or b"":
                    there = there if there < 0 else bytewise.step(there, byte)
                if word and there >= 0:
                    expected.add(token)
            bits = np.unpackbits(automaton.words_within(state).view(np.uint8), bitorder="little")
            assert set(np.flatnonzero(bits).tolist()) == expected, (case, text[:end])


WALKED = 4
"""Constraints of each table that are walked at random."""
PLAIN = {t for t, word in enumerate(SMALL.token_bytes) if word and all(32 <= byte < 127 for byte in word)}


def random_walk(query, rng):
    """A text of random tokens of the masks, printable where there are such."""
    text = b""
    while True:
        allowed = query.mask()[0].nonzero()[:, 0].tolist()
        assert allowed, text
        token = rng.choice([token for token in allowed if token in PLAIN] or allowed)
        if token == EOS:
            return text
        query.advance([token])
        text += SMALL.token_bytes[token]


@pytest.mark.parametrize("cases", asked("walks"))
def test_walks_within_a_budget_end_in_time_with_a_text(cases):
    """From the least budget on; with a token less there is no text."""
    for case in [case for case in cases if case.has][:WALKED]:
        automaton, rng = case.constraint.compile(SMALL), random.Random(0)
        if (least := automaton.fewest_after([])) > LONGEST:
            continue
        with pytest.raises(tt.errors.BudgetTooSmall):
            tt.gcd(automaton, least - 1).start()
        for more in (0, 1, 9):
            text = random_walk(tt.gcd(automaton, least + more).start(), rng)
            assert case.constraint.accepts(text), (case, text)
