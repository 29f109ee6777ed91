"""Keywords against a search in the text, on texts that come close."""

import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import keywords, regex
from tractile.constraints.keywords import WORD

IN_WORD = "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in WORD) + "]"
FORMS = ["a", "ab", "aba", "ba", "b", "a b", "é", "ab.", "-a", "bab"]
PIECES = ["a", "b", " ", ".", "-", "é", "—", "“", "\n", "ab", "aba"]


def pattern_of(form: str, boundaries: bool) -> str:
    before = f"(?<!{IN_WORD})" if boundaries and re.match(IN_WORD, form) else ""
    after = f"(?!{IN_WORD})" if boundaries and re.match(IN_WORD, form[-1]) else ""
    return before + re.escape(form) + after


def contains(text: str, forms: list[str], boundaries: bool) -> bool:
    return any(re.search(pattern_of(form, boundaries), text) for form in forms)


def contains_in_order(text: str, choices: list[list[str]], boundaries: bool) -> bool:
    """Some form of each, one after the other: the earliest end of each is best."""
    position = 0
    for forms in choices:
        found = [re.compile(pattern_of(f, boundaries)).search(text, position) for f in forms]
        ends = [m.end() for m in found if m]
        if not ends:
            return False
        position = min(ends)
    return True


WORDS = st.lists(st.lists(st.sampled_from(FORMS), min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=100)
@given(
    WORDS,
    st.booleans(),
    st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), min_size=15, max_size=15),
)
def test_against_a_search(choices, boundaries, texts):
    free = keywords(choices, word_boundaries=boundaries)
    ordered = keywords(choices, order="given", word_boundaries=boundaries)
    texts += [" ".join(forms[0] for forms in choices), "".join(forms[-1] for forms in choices)]
    for text in texts:
        assert free.accepts(text) == all(contains(text, forms, boundaries) for forms in choices), text
        # A later start may end earlier only if one form lies inside another; then ask for any of the orders of ends.
        assert ordered.accepts(text) == contains_in_order(text, choices, boundaries), text


def test_overlaps():
    c = keywords(["ab", "ba"], inflections=False, word_boundaries=False)
    assert [c.accepts(t) for t in ("aba", "bab", "ab", "abba")] == [True, True, False, True]
    ordered = keywords(["ab", "ba"], inflections=False, word_boundaries=False, order="given")
    assert [ordered.accepts(t) for t in ("aba", "abba", "baab", "baabba")] == [False, True, False, True]


def test_words_of_any_language():
    c = keywords(["dog"], inflections=False)
    assert [c.accepts(t) for t in ("“dog”", "a—dog—b", "dogé", "édog", "dog's", "DOG", "dog2")] == [
        True,
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_inflections():
    pytest.importorskip("lemminflect")
    c = keywords(["dog", "run", "throw"])
    assert c.accepts("Two dogs ran and threw.")
    assert c.accepts("Throwing? throws, running dog")
    assert not c.accepts("Two dogs ran.")
    assert keywords(["dogs"]).accepts("a dog")
    assert not keywords(["dogs"], inflections=False).accepts("a dog")
    assert keywords([["puppy", "kitten"]]).accepts("a kitten")


def test_without_lemminflect_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lemminflect", None)
    with pytest.raises(tt.TractileError, match=r"tractile\[inflections\]"):
        keywords(["dog"])
    assert keywords(["dog"], inflections=False).accepts("dog")


def test_five_keywords_stay_small():
    """2^k times little more than the letters of the forms."""
    rng = random.Random(0)
    words = [["".join(rng.choices("abcdefghij", k=6)) for _ in range(3)] for _ in range(5)]
    assert keywords(words).bytes_automaton.num_states < 2**5 * 100
    sentence = keywords(words) & regex(r"[A-Z][ -~]*\.")
    text = "X " + " ".join(forms[1] for forms in reversed(words)) + "."
    assert sentence.accepts(text)
    assert not sentence.accepts(text[:-1])


def test_bad_input():
    for wrong in ([[]], [[""]], [""], ["a", []]):
        with pytest.raises(tt.UnsupportedConstraint, match="keyword"):
            keywords(wrong, inflections=False)
    with pytest.raises(tt.UnsupportedConstraint):
        keywords(["a"], order="some")
    assert keywords([]).accepts("anything")
