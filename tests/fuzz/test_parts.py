"""Random compositions with budgets of parts, through random vocabularies: masks and errors against enumeration."""

from hypothesis import given
from hypothesis import strategies as st
from parts_oracle import Either, Leaf, Repeated, Series, Tokens, accepted, check_masks

import tractile as tt
from tractile.constraints import Vocabulary

WORDS = ["a", "b", "ab", "ba", "aa", "bb", "aab", "bab", "abb", "aaa", "abab"]
PATTERNS = ["a*", "b", "ab", "(ab)*", "[ab]+", "a?b", "[ab]{1,3}", "a{2}", "(aab|b)*", ""]
SMALL = st.integers(0, 3)


@st.composite
def ranges(draw):
    """At least, at most (``None``: no limit)."""
    low = draw(SMALL)
    return low, draw(st.none() | st.integers(low, low + 2))


def larger(parts):
    """Expressions made of parts."""
    return st.one_of(
        st.builds(lambda part, limits: Tokens(part, limits[1], limits[0]), parts, ranges()),
        st.builds(lambda *some: Series(some), parts, parts),
        st.builds(lambda *some: Either(some), parts, parts),
        st.builds(lambda part, times: Repeated(part, *times), parts, ranges()),
    )


EXPRESSIONS = st.recursive(st.sampled_from(PATTERNS).map(Leaf), larger, max_leaves=5)
VOCABULARIES = st.lists(st.sampled_from(WORDS), min_size=2, max_size=4, unique=True).map(
    lambda words: Vocabulary([None, *map(str.encode, words)], eos_token_id=0)
)


@given(EXPRESSIONS, VOCABULARIES, ranges(), st.integers(2, 5))
def test_masks_are_what_enumeration_says(expression, vocab, limits, horizon):
    expression = Tokens(expression, limits[1], limits[0])
    sequences = accepted(expression, vocab, horizon - 1)
    try:
        fa = expression.constraint().compile(vocab)
        query = tt.gcd(fa, horizon)
        query.start()
    except (tt.errors.EmptyLanguage, tt.errors.BudgetTooSmall):
        assert not sequences
        return
    assert sequences
    check_masks(query, sequences, 0, horizon)
    assert all(fa.accepts_tokens([*tokens, 0]) for tokens in sequences)
