"""Abstractions of stack automata: finite automata that accept at least the same texts."""

import re
from itertools import product

import pytest
from test_lazy import Brackets, is_value

from tractile.constraints import Vocabulary, grammar, regex
from tractile.constraints.automata.abstraction import abstraction
from tractile.constraints.automata.machines import Choice, Concatenation, DfaMachine, TextMachine
from tractile.errors import TooManyStates


@pytest.mark.parametrize("most", [4, 9, 60])
def test_brackets_are_among_what_the_abstraction_accepts(most):
    coarse = abstraction(Brackets(), most)
    assert coarse.num_states <= most
    assert coarse.is_deterministic
    wrong = 0
    for n in range(9):
        for word in map("".join, product("()a", repeat=n)):
            assert coarse.accepts(word.encode()) or not is_value(word), word
            wrong += coarse.accepts(word.encode()) != is_value(word)
    assert wrong


def test_more_states_keep_more_of_the_stack():
    words = ["".join(w) for n in range(9) for w in product("()a", repeat=n)]
    coarse = [abstraction(Brackets(), most) for most in (4, 9, 60)]
    more = [sum(each.accepts(word.encode()) for word in words) for each in coarse]
    assert more[0] > more[1] >= more[2] >= sum(map(is_value, words))


def test_what_is_regular_stays_exact():
    machine = Choice(
        [
            Concatenation([DfaMachine(regex("[ab]{1,3}").bytes_automaton), TextMachine(b"c")]),
            Concatenation([TextMachine(b"a"), DfaMachine(regex("(ba)*").bytes_automaton)]),
        ]
    )
    coarse = abstraction(machine, 40)
    for n in range(7):
        for word in map("".join, product("abc", repeat=n)):
            assert coarse.accepts(word.encode()) == bool(re.fullmatch("[ab]{1,3}c|a(ba)*", word)), word


def test_too_few_states_are_refused():
    with pytest.raises(TooManyStates, match="no abstraction of 3 states"):
        abstraction(TextMachine(b"abcdef"), 3)


@pytest.mark.parametrize("most", [4, 9, 60])
def test_as_many_states_as_are_allowed_may_be_used(most):
    size = abstraction(Brackets(), most).num_states
    assert abstraction(Brackets(), size).num_states == size


def test_counts_of_a_grammar_are_forgotten_before_its_rules():
    """Twenty thousand states for a count leave no room for what is repeated: an automaton of any text would be left."""
    vocab = Vocabulary([*(bytes([b]) for b in range(256)), None], eos_token_id=256)
    guide = grammar('start: "[" (item ","){2,20000} "]"\nitem: "(" start ")" | /[ab]/').compile(vocab).guide()

    def accepts(text):
        return guide.accepts_tokens([*text.encode(), 256])

    assert all(map(accepts, ["[a,b,]", "[a,([a,b,]),]", "[" + "a," * 3_000 + "]"]))
    assert not any(map(accepts, ["a", "[a", "[a,b,]]", "[c,]", "[(a),]", "[a,([a,b,],]"]))
