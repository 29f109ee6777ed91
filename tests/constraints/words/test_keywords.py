"""Keywords against a search in the text, on texts that come close."""

import operator
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import ends_as_sentence, forbidden_words, keywords, text_length
from tractile.constraints.regex.characters import all_characters
from tractile.constraints.words.keywords import NEIGHBOURS

FORMS = ["a", "ab", "aba", "ba", "b", "a b", "é", "ab.", "-a", "bab"]
PIECES = ["a", "b", " ", ".", "-", "é", "—", "“", "\n", "ab", "aba"]


def pattern_of(form: str, boundaries: bool) -> str:
    before = r"\b" if boundaries and re.match(r"\w", form) else ""
    after = r"\b" if boundaries and re.match(r"\w", form[-1]) else ""
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


@pytest.mark.long
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


def characters_at_the_edges_of_words() -> list[str]:
    """Those whose neighbour is of the other kind, and a sample of the rest."""
    kind = [re.match(r"\w", c) is not None for c in all_characters()]
    edges = {c + d for c in range(1, 0x110000) if kind[c] != kind[c - 1] for d in (-1, 0)}
    found = sorted(edges | set(range(0x300)) | set(range(0, 0x110000, 997)))
    return [chr(c) for c in found if not 0xD800 <= c < 0xE000]


def test_edges_of_words_are_those_of_re():
    """Beside every kind of character: forbidden words do not leak, and keywords are never found where `re` finds none."""
    none, some = forbidden_words(["ab"], inflections=False), keywords(["ab"], inflections=False)
    exact = keywords(["ab"], inflections=False, word_boundaries="exact")
    for c in characters_at_the_edges_of_words():
        near = any(low <= ord(c) <= high for low, high in NEIGHBOURS)
        for text in (f"{c}ab", f"ab{c}", f"x ab{c}y"):
            found = re.search(r"\bab\b", text) is not None
            assert none.accepts(text) == (not found), text
            assert exact.accepts(text) == found, text
            assert some.accepts(text) == (found and near), text


def test_where_keywords_are_found_in_fewer_places_they_say_so():
    some = keywords(["ab"], inflections=False)
    assert [n.keyword for n in some.narrowed] == ["word_boundaries"]
    assert (~some).narrowed == ()
    assert [(~some).accepts(t) for t in ("ab", "«ab»", "ab😀", "abc")] == [False, False, False, True]
    for options in ({"word_boundaries": "exact"}, {"word_boundaries": False}):
        assert keywords(["ab"], inflections=False, **options).narrowed == ()
    assert keywords(["!"], inflections=False).narrowed == ()  # no character of a word at its ends
    with pytest.raises(tt.errors.UnsupportedConstraint, match="word_boundaries"):
        keywords(["ab"], inflections=False, word_boundaries="ascii")


# ---------------------------------------------------------------- so many of them, none of them, any case


@settings(max_examples=30)
@given(
    WORDS,
    st.integers(0, 3),
    st.booleans(),
    st.lists(
        st.lists(st.sampled_from([*PIECES, "A", "É"]), max_size=9).map("".join), min_size=12, max_size=12
    ),
)
def test_so_many_of_them(choices, needed, ignore_case, texts):
    needed = min(needed, len(choices))
    some = keywords(choices, at_least=needed, ignore_case=ignore_case)
    none = forbidden_words(choices, ignore_case=ignore_case)
    case = "(?i)" if ignore_case else ""
    for text in [*texts, " ".join(forms[-1] for forms in choices)]:
        found = sum(any(re.search(case + pattern_of(f, True), text) for f in forms) for forms in choices)
        assert some.accepts(text) == (found >= needed), text
        assert none.accepts(text) == (found == 0), text


def test_forbidden_inflections():
    pytest.importorskip("lemminflect")
    c = forbidden_words(["run", "dog"])
    assert [c.accepts(t) for t in ("He ran.", "A dogma.", "Dogs.", "")] == [False, True, True, True]
    assert not forbidden_words(["dog"], ignore_case=True).accepts("Dogs.")
    assert forbidden_words([]).accepts("anything")


# ---------------------------------------------------------------- lengths

TEXTS = st.lists(
    st.sampled_from(["a", "é", "b.", " ", "\n", "!", "?", "”", ")", "…", "\u3000", "x"]), max_size=9
).map("".join)


def count(text: str, unit: str) -> int:
    if unit == "characters":
        return len(text)
    words = text.split()
    final = [re.search(r"""[.!?…]["'”’»)\]]*$""", word) is not None for word in words]
    return len(words) if unit == "words" else sum(final) + (bool(words) and not final[-1])


@settings(max_examples=80)
@given(
    st.integers(0, 3),
    st.none() | st.integers(0, 2),
    st.sampled_from(["characters", "words", "sentences"]),
    st.lists(TEXTS, min_size=10, max_size=10),
)
def test_lengths(low, more, unit, texts):
    high = None if more is None else low + more
    constraint = text_length(low, high, unit=unit)
    for text in [*texts, "", " ", "a. b. c", "a b c.", "1 2 3 4"]:
        assert constraint.accepts(text) == (
            low <= count(text, unit) <= (high or (10**9 if high is None else 0))
        ), text


@settings(max_examples=50)
@given(st.lists(TEXTS, min_size=10, max_size=10))
def test_ends_as_a_sentence(texts):
    constraint = ends_as_sentence()
    for text in [*texts, "", "A.", "A. ", "“A.”", "."]:
        assert constraint.accepts(text) == (re.search(r"""[.!?…]["'”’»)\]]*\Z""", text) is not None), text


@pytest.fixture
def no_dictionary(monkeypatch):
    """A plain installation: no ``lemminflect``."""
    monkeypatch.setattr("tractile.constraints.words.keywords.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "lemminflect", None)


def test_keywords_after_a_plain_installation(no_dictionary, caplog):
    """The words as they are written, and said so; never a complement that lets inflected forms through."""
    c = keywords(["dog", ["park", "parks"]])
    assert c.accepts("the dog in the parks")
    assert not c.accepts("the dogs in the park")
    assert any("pip install" in cut.why and cut.keyword == "inflections" for cut in c.narrowed)
    assert "the words as they are written" in caplog.text
    with pytest.raises(tt.errors.UnsupportedConstraint, match="complement of a narrowed constraint"):
        operator.invert(c)
    for asked in (lambda: keywords(["dog"], inflections=True), lambda: forbidden_words(["dog"])):
        with pytest.raises(tt.TractileError, match="pip install lemminflect"):
            asked()
    assert not forbidden_words(["dog"], inflections=False).accepts("a dog")
