"""The automaton algebra against sets of strings: every word up to a length, for random expressions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import dfa, nfa
from tractile.constraints.arrays import reachable
from tractile.constraints.nfa import Nfa

LONGEST = 4
ALPHABET = b"ab\xc3"
WORDS = [bytes(w) for n in range(LONGEST + 1) for w in itertools.product(ALPHABET, repeat=n)]
Words = frozenset[bytes]


def clip(words) -> Words:
    return frozenset(w for w in words if len(w) <= LONGEST)


def joined(a: Words, b: Words) -> Words:
    return clip(x + y for x in a for y in b)


def power(a: Words, low: int, high: int) -> Words:
    result, now = set(), frozenset([b""])
    for i in range(high + 1):
        result |= now if i >= low else set()
        now = joined(now, a)
    return frozenset(result)


# Each expression is a pair: the automaton, and the set of its words up to LONGEST.
LEAVES = st.one_of(
    st.binary(max_size=2).map(lambda w: bytes(ALPHABET[b % 3] for b in w)).map(lambda w: (nfa.literal(w), clip([w]))),
    st.just((nfa.byte_ranges([(97, 98)]), frozenset([b"a", b"b"]))),
    st.just((nfa.byte_ranges([(0, 255)], [(97, 97), (195, 195)]), frozenset(
        bytes([x]) + y for x in ALPHABET for y in (b"a", b"\xc3")))),
    st.just((nfa.empty(), frozenset())),
)  # fmt: skip

OPERATIONS = [
    lambda a, b: (nfa.union([a[0], b[0]]), a[1] | b[1]),
    lambda a, b: (nfa.concat([a[0], b[0], a[0]]), joined(joined(a[1], b[1]), a[1])),
    lambda a, _: (nfa.star(a[0]), power(a[1], 0, LONGEST + 1)),
    lambda a, _: (nfa.plus(a[0]), power(a[1], 1, LONGEST + 1)),
    lambda a, _: (nfa.optional(a[0]), a[1] | {b""}),
    lambda a, _: (nfa.repeat(a[0], 1, 3), power(a[1], 1, 3)),
    lambda a, _: (nfa.repeat(a[0], 0, 2), power(a[1], 0, 2)),
    lambda a, _: (nfa.repeat(a[0], 2, 2), power(a[1], 2, 2)),
    lambda a, _: (nfa.repeat(a[0], 2, None), power(a[1], 2, LONGEST + 3)),
    lambda a, b: (dfa.intersect(a[0], b[0]), a[1] & b[1]),
    lambda a, b: (dfa.difference(a[0], b[0]), a[1] - b[1]),
    lambda a, _: (dfa.complement(a[0]), frozenset(WORDS) - a[1]),
    lambda a, _: (a[0].reverse(), frozenset(w[::-1] for w in a[1])),
    lambda a, _: (dfa.determinize(a[0]), a[1]),
    lambda a, _: (dfa.minimize(a[0]), a[1]),
    lambda a, _: (a[0].plain, a[1]),
]


@st.composite
def expressions(draw, depth: int = 5) -> tuple[Nfa, Words]:
    pool = [draw(LEAVES) for _ in range(3)]
    for _ in range(draw(st.integers(1, depth))):
        operation = draw(st.sampled_from(OPERATIONS))
        pool.append(operation(draw(st.sampled_from(pool)), draw(st.sampled_from(pool))))
    return pool[-1]


@settings(max_examples=300)
@given(expressions())
def test_operations_agree_with_sets_of_words(pair):
    automaton, words = pair
    assert {w for w in WORDS if automaton.accepts(w)} == words
    assert (automaton.shortest() is None) == automaton.is_empty
    if words:
        shortest = automaton.shortest()
        assert automaton.accepts(shortest)
        assert len(shortest) == min(map(len, words))


@settings(max_examples=150)
@given(expressions())
def test_determinize_and_minimize(pair):
    automaton, words = pair
    small = dfa.minimize(automaton)
    assert dfa.determinize(automaton).is_deterministic
    assert small.is_deterministic
    # Brzozowski: determinising the reverse of a deterministic automaton gives the minimal one, by another route.
    other = dfa.determinize(dfa.determinize(automaton.reverse()).reverse())
    assert small.num_states == other.num_states
    assert {w for w in WORDS if small.accepts(w)} == words
    assert dfa.difference(small, automaton).is_empty
    assert dfa.difference(automaton, small).is_empty


@settings(max_examples=100)
@given(expressions())
def test_plain_is_trimmed_and_has_no_skips(pair):
    plain = pair[0].plain
    assert not len(plain.skips)
    pairs = plain.edges[:, [0, 3]]
    assert reachable(pairs, plain.start, plain.num_states).all()
    assert reachable(pairs[:, ::-1], plain.accept, plain.num_states).all()
    rows = plain.transitions
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_byte_classes_are_the_coarsest():
    automaton = nfa.union([nfa.byte_ranges([(97, 122)]), nfa.literal(b"ax"), nfa.literal(b"bx")]).plain
    groups = {}
    for byte, klass in enumerate(automaton.byte_class.tolist()):
        groups.setdefault(klass, []).append(byte)
    letters = [97, 98, 120]
    rest = [b for b in range(97, 123) if b not in letters]
    assert sorted(groups.values()) == sorted(
        [[97], [98], [120], rest, [b for b in range(256) if not 97 <= b <= 122]]
    )


def test_exponential_subset_construction_stops_at_the_limit():
    any_letter = nfa.byte_ranges([(97, 98)])
    automaton = nfa.concat([nfa.star(any_letter), nfa.literal(b"a"), nfa.repeat(any_letter, 12, 12)])
    assert dfa.minimize(automaton).num_states == 2**13
    with pytest.raises(tt.TooManyStates) as error:
        dfa.determinize(automaton, limit=1000)
    assert error.value.limit == 1000


def test_subsets_that_no_word_reaches_are_not_counted():
    """From its inner states this automaton has some 60²/2 subsets; from its start, one for each length."""
    automaton = nfa.repeat(nfa.plus(nfa.literal(b"a")), 1, 60)
    assert dfa.determinize(automaton, limit=100).num_states <= 62
    assert dfa.minimize(automaton).num_states == 2


def test_nested_repeats_stop_at_the_limit():
    inner = nfa.repeat(nfa.literal(b"a"), 1, 1000)
    with pytest.raises(tt.TooManyStates):
        nfa.repeat(inner, 1, 1000)


def test_long_chains():
    automaton = nfa.union([nfa.literal(b"ab" * 2_000), nfa.literal(b"ab" * 1_999 + b"c")])
    small = dfa.minimize(automaton)
    assert small.num_states == 4_001
    assert small.accepts(b"ab" * 1_999 + b"c")
