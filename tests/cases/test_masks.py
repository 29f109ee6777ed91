"""Masks of the core, token by token: a text that a constraint has is written to its end, any other is stopped before."""

import numpy as np
import pytest
from cases import PIECES, SMALL, asked

from tractile.constraints.engine.tokens import NO_STATE, Tokens

LONGEST = 60
"""Characters of the texts that are walked."""


def spelled(text, pieces):
    """Tokens of a text: bytes, and the first of the pieces that stands at a place."""
    data, tokens, at = text.encode(), [], 0
    while at < len(data):
        piece = next((piece for piece in pieces if data.startswith(piece, at)), data[at : at + 1])
        tokens.append(SMALL.token_bytes.index(piece, 1))
        at += len(piece)
    return tokens


def walked(automaton, tokens):
    """Whether every token and the end stand in the masks on the way."""
    state = automaton.start_state
    for token in [*tokens, SMALL.eos_token_id]:
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
        automaton = Tokens(case.constraint.program, SMALL)
        for pieces in ((), PIECES):
            for text in filter(lambda text: len(text) <= LONGEST, case.has):
                assert walked(automaton, spelled(text, pieces)), (case, text)
            for text in filter(lambda text: len(text) <= LONGEST, case.lacks):
                assert not walked(automaton, spelled(text, pieces)), (case, text)
        if case.fewest is not None:
            assert automaton.fewest(automaton.start_state) == case.fewest, case
