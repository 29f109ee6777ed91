"""The automaton algebra against sets of strings: every word up to a length, for random expressions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import regex
from tractile.constraints.automata import dfa, nfa
from tractile.constraints.automata.arrays import reachable
from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.automata.repeats import repeat
from tractile.errors import TooManyStates

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
    lambda a, _: (nfa.star(a[0]), power(a[1], 0, LONGEST + 1)), lambda a, _: (nfa.plus(a[0]), power(a[1], 1, LONGEST + 1)),
    lambda a, _: (nfa.optional(a[0]), a[1] | {b""}), lambda a, _: (repeat(a[0], 1, 3), power(a[1], 1, 3)),
    lambda a, _: (repeat(a[0], 0, 2), power(a[1], 0, 2)), lambda a, _: (repeat(a[0], 2, 2), power(a[1], 2, 2)),
    lambda a, _: (repeat(a[0], 2, 4), power(a[1], 2, 4)), lambda a, _: (repeat(a[0], 2, None), power(a[1], 2, LONGEST + 3)),
    lambda a, b: (dfa.intersect(a[0], b[0]), a[1] & b[1]), lambda a, b: (dfa.difference(a[0], b[0]), a[1] - b[1]),
    lambda a, _: (dfa.complement(a[0]), frozenset(WORDS) - a[1]),
    lambda a, _: (a[0].reverse(), frozenset(w[::-1] for w in a[1])), lambda a, _: (dfa.determinize(a[0]), a[1]),
    lambda a, _: (dfa.minimize(a[0]), a[1]), lambda a, _: (a[0].plain, a[1]), lambda a, _: (dfa.resolved(a[0]), a[1]),
]  # fmt: skip


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
    assert not plain.skips
    pairs = plain.edges[:, [0, 3]]
    assert reachable(pairs, plain.start, plain.num_states).all()
    assert reachable(pairs[:, ::-1], plain.accept, plain.num_states).all()
    rows = plain.transitions
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_exponential_subset_construction_stops_at_the_limit():
    any_letter = nfa.byte_ranges([(97, 98)])
    automaton = nfa.concat([nfa.star(any_letter), nfa.literal(b"a"), repeat(any_letter, 12, 12)])
    assert dfa.minimize(automaton).num_states == 2**13
    with pytest.raises(tt.errors.TooManyStates) as error:
        dfa.determinize(automaton, limit=1000)
    assert error.value.limit == 1000


EDGES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), max_size=12
).map(lambda rows: [(s, min(a, b), max(a, b), t) for s, a, b, t in rows])


@given(EDGES)
def test_moves_are_merged_and_kept_apart(rows):
    moves = [row[1:] for row in rows]
    found = nfa.of_rows([moves, [], [], []], [0], [0]).moves(0)
    reads = {(byte, t) for low, high, t in moves for byte in range(low, high + 1)}
    assert {(byte, t) for low, high, t in found for byte in range(low, high + 1)} == reads
    assert [low for low, _, _ in found] == sorted(low for low, _, _ in found)
    for low, _, t in found:  # ranges that lead to one state neither touch nor overlap
        assert (low - 1, t) not in reads
    assert len(found) == len({(low, t) for low, _, t in found})


@given(EDGES, st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True))
def test_deterministic_is_one_way_to_go_on(rows, start):
    automaton = nfa.Nfa(4, np.array(rows, np.int64).reshape(-1, 4), (), np.array(start), np.array([0]))
    plain = automaton.plain
    ways = [(s, byte) for s, low, high, _ in plain.edges.tolist() for byte in range(low, high + 1)]
    assert plain.is_deterministic == (len(plain.start) < 2 and len(ways) == len(set(ways)))


BYTES = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda ends: (97 + min(ends), 97 + max(ends)))


@given(st.lists(st.lists(st.lists(BYTES, max_size=2), min_size=1, max_size=3), max_size=4))
def test_sequences_of_ranges(options):
    """Made at once they are what they are one by one."""
    found = nfa.sequences(options)
    for length in range(4):
        for word in itertools.product(b"abcd", repeat=length):
            expected = any(
                length == len(option)
                and all(
                    any(a <= byte <= b for a, b in ranges) for byte, ranges in zip(word, option, strict=True)
                )
                for option in options
            )
            assert found.accepts(bytes(word)) == expected


def test_simplify_keeps_what_determinising_blows_up():
    """The thirteenth last letter is an a: 16,384 states, where the automaton as it is has 15."""
    letter = nfa.byte_ranges([(97, 98)])
    late = nfa.concat([nfa.star(letter), nfa.literal(b"a"), repeat(letter, 13, 13)])
    small = dfa.simplify(late)
    assert small.num_states <= late.plain.num_states < 50
    for word in (b"a" + b"b" * 13, b"ab" * 7, b"b" * 14, b"a" * 13):
        assert small.accepts(word) == (len(word) >= 14 and word[-14:-13] == b"a")


@pytest.mark.parametrize("size", [3_161, 3_162])
def test_transitions_of_closures_are_counted(size):
    """Each state of a chain of skips takes over the moves of those after it: 3,161 have 4,997,541 moves, one more 5,000,703."""
    rows, chain = [[(i % 256, i % 256, i)] for i in range(size)], [(i, i + 1) for i in range(size - 1)]
    found = nfa.of_rows(rows, [0], [size - 1], chain)
    if size == 3_161:
        assert found.plain.num_moves == 4_997_541
        return
    with pytest.raises(TooManyStates, match="limit of 5,000,000 states or transitions"):
        found.plain  # noqa: B018


@pytest.mark.parametrize("text", ["a*b?", "(ab|a)*", "a+", "ab?", "a|bc"])
@pytest.mark.parametrize("bounds", [(0, 2), (2, 3), (3, 3)])
def test_repeats_have_no_useless_states(text, bounds):
    found = repeat(regex(text).bytes_automaton, *bounds)
    assert found.trimmed  # it claims to be its plain form
    pairs = found.edges[:, [0, 3]]
    assert reachable(pairs, found.start, found.num_states).all()
    assert reachable(pairs[:, ::-1], found.accept, found.num_states).all()
