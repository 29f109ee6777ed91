"""How constraints differ, against enumeration of all short texts and against the algebra of finite automata."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import any_of, json_schema, literal, regex
from tractile.errors import UnsupportedConstraint

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "ab", "[ab]", "é", "", "a?"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=5,
)


def short_texts(most):
    for n in range(most + 1):
        for letters in itertools.product("abé", repeat=n):
            yield "".join(letters)


@settings(max_examples=80)
@given(a=PATTERNS, b=PATTERNS)
def test_the_difference_is_that_of_all_short_texts(a, b):
    first, second = regex(a), regex(b)
    found = tt.constraints.difference(first, second, max_bytes=4)
    assert found.compared is None
    texts = [text for text in short_texts(4) if len(text.encode()) <= 4]
    for one, other, shortest, count in (
        (first, second, found.only_first, found.counts[0]),
        (second, first, found.only_second, found.counts[1]),
    ):
        alone = [text for text in texts if one.accepts(text) and not other.accepts(text)]
        assert count == len(alone)
        if alone:
            assert len(shortest.encode()) == min(len(text.encode()) for text in alone)
        rest = one - other
        assert (shortest is None) == rest.is_empty()
        if shortest is not None:
            assert one.accepts(shortest)
            assert not other.accepts(shortest)
            assert len(shortest.encode()) == len(rest.shortest().encode())


def test_where_pairs_have_no_end_it_is_said_how_far_they_were_compared():
    """Values nest: equal constraints of different machines cannot be told apart up to any length."""
    anything = json_schema({})
    same = tt.constraints.difference(
        anything, json_schema({"not": {"type": "string", "maxLength": 0}}), max_pairs=2000
    )
    assert same.only_first == '""'
    assert same.only_second is None
    assert same.compared >= 2
    assert f"nothing of at most {same.compared} bytes" in str(same)
    counted = tt.constraints.difference(anything, json_schema(True), max_bytes=3, max_pairs=200)
    assert counted.counts is None
    assert not counted.found
    assert f"same texts of at most {counted.compared} bytes" in str(counted)


@pytest.mark.long
def test_a_long_text_is_found_beyond_the_bound():
    """Where the first alone can go on, its text is completed; that it may not be a shortest one is said."""
    first = json_schema({"type": "string", "maxLength": 400, "minLength": 300})
    second = json_schema({"type": "string", "maxLength": 350, "minLength": 300})
    found = tt.constraints.difference(first, second, max_pairs=100)
    assert found.compared < 300
    assert found.only_second is None
    deep = tt.constraints.difference(literal("x" * 300), literal("x" * 90 + "yy"), max_pairs=100)
    assert deep.only_first == "x" * 300
    assert deep.only_second == "x" * 90 + "yy"
    cut = tt.constraints.difference(literal("x" * 300), literal("x" * 90 + "y" * 40), max_pairs=100)
    assert cut.only_second == "x" * 90 + "y" * 40
    assert "there may be a shorter one" in str(cut)
    assert tt.constraints.difference(first, second).only_first == '"' + "a" * 351 + '"'


def test_empty_languages_and_the_empty_text():
    nothing = regex("a") & regex("b")
    assert not tt.constraints.difference(nothing, nothing, max_bytes=3).found
    found = tt.constraints.difference(nothing, any_of("", "aa"), max_bytes=2)
    assert (found.only_first, found.only_second, found.counts) == (None, "", (0, 2))
    assert str(found) == (
        "only the first: nothing, 0 texts of at most 2 bytes\nonly the second: '', 2 texts of at most 2 bytes"
    )


def test_bad_input_is_named():
    with pytest.raises(UnsupportedConstraint, match="constraint is needed"):
        tt.constraints.difference(regex("a"), "a")
    with pytest.raises(UnsupportedConstraint, match="max_pairs"):
        tt.constraints.difference(regex("a"), regex("b"), max_pairs=0)
    with pytest.raises(UnsupportedConstraint, match="max_bytes"):
        tt.constraints.difference(regex("a"), regex("b"), max_bytes=-1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("[ab]*c", "[ab]{0,4}c"),
        ("[ab]{0,6}", "([ab]{2}|c)*|[ab]{0,5}"),
        ("(a|b)*a(a|b){4}", "(a|b)*a(a|b){4}|babbabbb"),
        ("(a|b)*a(a|b){3}c", "(a|b)*a(a|b){3}c|bbbbbbbb"),
    ],
)
def test_what_is_said_after_few_pairs_is_true(a, b):
    """No text as short as ``compared`` was passed over, however early the walk stops."""
    a, b = regex(a), regex(b)
    whole = tt.constraints.difference(a, b)
    assert whole.compared is None
    for pairs in range(1, 100):
        found = tt.constraints.difference(a, b, max_pairs=pairs)
        if found.compared is None:
            continue
        for text, shortest in ((found.only_first, whole.only_first), (found.only_second, whole.only_second)):
            assert text is None or shortest is not None
            if shortest is not None and (text is None or len(text.encode()) > len(shortest.encode())):
                assert found.compared < len(shortest.encode())
