"""Explicit automata: the finite one of a constraint, and the guide that accepts more texts with fewer states."""

import pytest
from cases import PIECES, SMALL, asked, spelled

import tractile as tt
from tractile.constraints.constraint import Constraint
from tractile.constraints.engine.tokens import NEVER, ProgramStates

WORK, LONGEST, STATES = 40_000, 200, 60
"""The most work for a finite automaton, the longest text, and the states of a guide."""


def finite_of(case):
    """The finite automaton of a constraint, None if it takes much work."""
    try:
        return tt.constraints.Limits(work=WORK).run(lambda: case.constraint.finite)
    except tt.errors.TooManyStates:
        return None


def check_masks(one, other, tokens):
    """Along the tokens two automata allow the same, with just enough left for them, with more, and without a bound."""
    states = one.start_state, other.start_state
    for at, token in enumerate(tokens):
        for left in (len(tokens) - at, len(tokens) - at + 5, NEVER):
            masks = [each.words_within(state, left) for each, state in zip((one, other), states, strict=True)]
            assert (masks[0] == masks[1]).all(), tokens[:at]
        states = one.step(states[0], token), other.step(states[1], token)


@pytest.mark.parametrize("cases", asked("automata"))
def test_the_finite_automaton_has_the_same_texts_or_says_what_it_lacks(cases):
    for case in cases:
        if (finite := finite_of(case)) is None:
            continue
        assert [text for text in case.lacks if finite.accepts(text)] == [], case
        if any(cut.loses_values or cut.keyword == "order" for cut in finite.narrowed):
            continue
        assert [text for text in case.has if len(text) < LONGEST and not finite.accepts(text)] == [], case
        written = ProgramStates(Constraint(finite.nfa).program, SMALL)
        found = ProgramStates(case.constraint.program, SMALL)
        ways = written.fewest(written.start_state), found.fewest(found.start_state)
        assert ways[0] == ways[1] if found.is_exact else ways[0] <= ways[1], case
        for text in case.has[:2] if found.is_exact else ():
            check_masks(written, found, spelled(text[:LONGEST], PIECES))


@pytest.mark.parametrize("cases", asked("guide"))
def test_a_guide_has_every_text(cases):
    for case in cases:
        guide = case.constraint.regular(STATES)
        assert [
            text for text in case.has if len(text) < LONGEST and not guide.accepts(text.encode())
        ] == [], case
