"""Lazy automata: stacks of machines against the languages that they stand for."""

import re
from itertools import product

import pytest

from tractile.constraints import regex
from tractile.constraints.automata.lazy import Numbered, explore
from tractile.constraints.automata.machines import Choice, Concatenation, DfaMachine, TextMachine
from tractile.constraints.automata.region import Region
from tractile.constraints.automata.stack import StackAutomaton
from tractile.errors import TooManyStates, UnsupportedConstraint


class Brackets(Region):
    """``(`` value* ``)`` or ``a``."""

    def start(self):
        return 0

    def moves(self, local):
        return {0: [(40, 40, 1), (97, 97, 2)], 1: [(41, 41, 2)], 2: []}[local]

    def calls(self, local):
        return [(self, 1)] if local == 1 else []

    def final(self, local):
        return local == 2

    def completion(self, local):
        return (b"a", b")", b"")[local]


def is_value(text):
    """Whether a text of brackets is one value, by reduction."""
    while (shorter := re.sub(r"\((a*)\)", "a", text)) != text:
        text = shorter
    return text == "a"


def test_a_recursive_machine_is_its_language():
    states = Numbered(StackAutomaton(Brackets()))
    for n in range(9):
        for word in map("".join, product("()a", repeat=n)):
            assert states.accepts(word.encode()) == is_value(word), word


def test_depth_is_not_bounded():
    states = Numbered(StackAutomaton(Brackets()))
    assert states.accepts(b"(" * 5000 + b"a" + b")" * 5000)
    assert not states.accepts(b"(" * 5000 + b"a" + b")" * 4999)
    deep = states.configurations[states.run(states.start(), b"(" * 5000)]
    assert states.automaton.completion(deep) == b")" * 5000
    assert states.automaton.view(deep, 8) != states.automaton.view(states.automaton.start(), 8)


def test_every_configuration_has_a_completion():
    automaton = StackAutomaton(Brackets())
    states = Numbered(automaton)
    for word in (b"", b"(", b"((", b"(a(", b"a"):
        at = states.run(states.start(), word)
        assert states.accepts(word + automaton.completion(states.configurations[at]))


@pytest.mark.parametrize("pattern", ["(ab|a)(bc|c)", "a*ab", "[a-c]{2,4}", "x|é"])
def test_an_explored_machine_is_the_automaton_it_was(pattern):
    machine = DfaMachine(regex(pattern).bytes_automaton)
    again = explore(StackAutomaton(machine), 1000)
    for n in range(5):
        for word in map("".join, product("abcxé", repeat=n)):
            assert again.accepts(word.encode()) == bool(re.fullmatch(pattern, word))


def test_choices_and_concatenations_are_followed_together():
    """Two readings of a text are kept until one of them fails."""
    long = Concatenation([TextMachine(b"ab"), TextMachine(b"abc")])
    choice = Choice([long, Concatenation([DfaMachine(regex("(ab)*").bytes_automaton), TextMachine(b"d")])])
    states = Numbered(StackAutomaton(choice))
    accepted = {
        "".join(w) for n in range(6) for w in product("abcd", repeat=n) if states.accepts("".join(w).encode())
    }
    assert accepted == {"ababc", "d", "abd", "ababd"}


def test_views_are_equal_where_what_follows_is():
    automaton = StackAutomaton(Brackets())
    states = Numbered(automaton)
    views = [
        automaton.view(states.configurations[states.run(states.start(), w)], 8)
        for w in (b"(", b"(a", b"(aa", b"((", b"((a")
    ]
    assert views[0] == views[1] == views[2] != views[3] == views[4]


def test_left_recursion_and_size_are_refused():
    class Left(Brackets):
        def calls(self, local):
            return [(self, 1)] if local == 0 else []

    states = Numbered(StackAutomaton(Left()))
    first = states.start()
    with pytest.raises(UnsupportedConstraint, match="left recursion"):
        states.moves(first)
    with pytest.raises(TooManyStates):
        explore(StackAutomaton(Brackets()), 100)


def test_a_stack_shows_its_machines_from_the_top_down():
    states = Numbered(StackAutomaton(Brackets()))
    inside = states.configurations[states.run(states.start(), b"(((")]
    shown = [part.partition("(")[0] for part in repr(inside).split(" / ")]
    assert shown == ["Brackets"] * 3
