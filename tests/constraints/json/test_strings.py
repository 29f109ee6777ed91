"""Automata of strings and of names against automata that are made step by step."""

import random

import numpy as np
import pytest

from tractile.constraints.automata import dfa, nfa
from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.json import strings
from tractile.constraints.json.nodes.leaves import around
from tractile.constraints.json.patterns import matching
from tractile.constraints.json.shapes import Strings
from tractile.constraints.json.text import JSON, SPELLINGS


def unmarked(found: Nfa) -> Nfa:
    """The same automaton, of which nothing is known."""
    return Nfa(found.num_states, found.edges, found.epsilons, found.start, found.accept)


WORDS = ["", "a", "ab", "b", "bab", 'q"q', "é", "è", "\x1fx", "tie\\", "😀", "\ud800"]


@pytest.mark.parametrize("spelling", [JSON, SPELLINGS["minimal"]])
@pytest.mark.parametrize("seed", range(6))
def test_listed_strings_are_the_minimal_automaton(seed, spelling):
    some = random.Random(seed).sample(WORDS, seed + 1)
    for found in (strings.words(some, spelling), around(strings.words(some, spelling), spelling)):
        assert found.num_states == dfa.minimize(unmarked(found)).num_states
        assert found.is_deterministic
        plain = unmarked(found).plain  # trimmed, its edges in the same order
        np.testing.assert_array_equal(plain.edges, found.edges)
    inside = strings.words(some, spelling)
    for word in WORDS[:-1]:
        assert inside.accepts(spelling.plain(word)) == (word in some)


def test_automata_read_together():
    parts = [matching(pattern, True, JSON.alphabet) for pattern in ("^a", "b", "^.?$")]
    parts.append(nfa.empty())
    edges, reads = dfa.together(parts, 1_000)
    rng = random.Random(0)
    for _ in range(300):
        word = JSON.plain("".join(rng.choices("abcé\n", k=rng.randrange(4))))
        state = 0
        for byte in word:
            state = next((int(to) for at, low, high, to in edges if at == state and low <= byte <= high), -1)
        accepted = [part.accepts(word) for part in parts]
        assert (reads[state].tolist() if state >= 0 else [False] * len(parts)) == accepted


@pytest.mark.parametrize(
    ("pattern", "but", "is_empty"),
    [("^(a|b)$", "a", False), ("^(a|b)$", "ab", True), ("^a*$", "a", False), ("^x(ya)*$", "x", False)],
)
def test_strings_without_some(pattern, but, is_empty):
    shape = Strings(atoms=frozenset([("pattern", pattern, True)]), but=frozenset(but))
    assert strings.empty(shape) == is_empty
    assert strings.endless(matching(pattern, True, JSON.alphabet)) == ("*" in pattern)
