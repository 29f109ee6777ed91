"""Sets of states are followed where edges overlap: the language stays, and where sets take too much, so does the automaton."""

import itertools
import random

from random_automata import drawn

from tractile.constraints import Constraint, Vocabulary, explicit, regex
from tractile.constraints.automata import dfa


def test_the_language_stays():
    dice, changed = random.Random(0), 0
    for _ in range(150):
        nfa = drawn(dice)
        if nfa.num_states:
            found = dfa.resolved(nfa)
            changed += found is not nfa
            assert found.is_deterministic
            for length in range(5):
                for word in map(bytes, itertools.product(b"abcd", repeat=length)):
                    assert nfa.accepts(word) == found.accepts(word)
    assert changed > 30


def test_an_automaton_whose_sets_take_too_much_stays():
    dice = random.Random(0)
    kept = [nfa for nfa in (drawn(dice) for _ in range(50)) if nfa.num_states and not nfa.is_deterministic]
    assert kept
    assert all(dfa.resolved(nfa, 1) is nfa for nfa in kept)


def test_a_large_automaton_is_made_deterministic_before_its_tokens_are_written_out(monkeypatch):
    vocab = Vocabulary([b"a", b"b", b"ab", b"ba", None], eos_token_id=4)
    nfa, found = regex("(a|b)*a(a|b){3}").nfa.plain, []
    for most in (0, 50_000):
        monkeypatch.setattr(explicit, "MOST_LIFTED", most)
        one = Constraint(nfa)
        vars(one)["bytes_automaton"] = nfa
        found.append(one.compile(vocab).finite)
    for length in range(1, 6):
        for ids in itertools.product(range(5), repeat=length):
            assert found[0].accepts(ids) == found[1].accepts(ids)
