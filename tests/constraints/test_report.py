"""Lengths and numbers of texts against lists of all of them."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import regex, report

VOCAB = tt.Vocabulary([None, b"a", b"b", b"ab", b"bab"], eos_token_id=0)
PATTERNS = [
    "a", "(ab){1,2}", "a*", "a{0,3}b", "(a|b)*a(a|b){2}", "", "(ab|b){0,2}", "a|bab|ababab", "b(ab)*", "[ab]{4}",
]  # fmt: skip


def token_lengths(pattern: str, most: int) -> set[int]:
    """The numbers of tokens, EOS counted, of all accepted sequences of up to ``most`` tokens."""
    found = set()
    for n in range(most):
        for tokens in itertools.product(VOCAB.token_bytes[1:], repeat=n):
            if re.fullmatch(pattern, b"".join(tokens).decode()):
                found.add(n + 1)
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_longest_in_tokens(pattern):
    lengths = token_lengths(pattern, 7)
    expected = None if "*" in pattern else max(lengths)
    assert report.longest_in_tokens(regex(pattern).compile(VOCAB)) == expected


@given(st.sampled_from(PATTERNS), st.integers(0, 6))
def test_number_of_texts(pattern, most):
    texts = ("".join(t) for n in range(most + 1) for t in itertools.product("ab", repeat=n))
    expected = sum(re.fullmatch(pattern, text) is not None for text in texts)
    assert report.number_of_texts(regex(pattern).bytes_automaton, most) == expected


@pytest.mark.parametrize("pattern", [*PATTERNS, "(a|b){0,30}", "[ab]*(?<!a)"])
def test_number_of_all_texts(pattern):
    automaton = regex(pattern).bytes_automaton
    if "*" in pattern and "{" not in pattern:
        assert report.number_of_texts(automaton) is None
    elif "*" not in pattern:
        assert report.number_of_texts(automaton) == report.number_of_texts(automaton, 40)


@given(st.sampled_from([*PATTERNS, r"\w+é?", "(?s).*", "[^a]{3}"]), st.integers(0, 9))
def test_random_texts_are_accepted(pattern, seed):
    texts = report.random_texts(regex(pattern).bytes_automaton, 5, seed, most_bytes=12)
    assert 1 <= len(set(texts)) == len(texts) <= 5
    if report.number_of_texts(regex(pattern).bytes_automaton, 12) == 1:
        assert len(texts) == 1
    assert all(re.fullmatch(pattern, text) for text in texts)
