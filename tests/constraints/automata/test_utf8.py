"""Sets of characters and their UTF-8 bytes, against the sets themselves and Python's encoder."""

import itertools
import random

import pytest

from tractile.constraints.automata import utf8
from tractile.constraints.automata.dfa import determinize

EDGES = [0, 1, 0x7E, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]


def ranges(dice):
    """Disjoint ranges with gaps between them, their ends often where encodings change."""
    ends = sorted(set(dice.sample(EDGES, 6) + [dice.randrange(0xE000, 0x10FFFF) for _ in range(2)]))
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return tuple((low, high) for low, high in pairs if not low <= 0xDFFF <= high or low >= 0xE000)


@pytest.mark.parametrize("seed", range(12))
def test_the_bytes_of_a_set_are_those_of_its_characters(seed):
    points = ranges(random.Random(seed))
    nfa = utf8.utf8(points)
    assert nfa.is_deterministic
    near = {x for end in EDGES + [end for pair in points for end in pair] for x in (end - 1, end, end + 1)}
    for point in sorted(near):
        if 0 <= point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
            assert nfa.accepts(chr(point).encode()) == any(low <= point <= high for low, high in points)
    inside = [point for low, high in points for point in (low, high)]
    assert not any(nfa.accepts(chr(point).encode()[:-1]) for point in inside)


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_ranges_of_digits_cover_each_number_once_and_are_few(digits):
    base = range(2, 5)
    numbers = list(itertools.product(base, repeat=digits))
    for i, low in enumerate(numbers):
        for high in numbers[i:]:
            found = utf8.digit_ranges(low, high, base[0], base[-1])
            parts = [list(itertools.product(*(range(a, b + 1) for a, b in option))) for option in found]
            assert sorted(itertools.chain(*parts)) == [x for x in numbers if low <= x <= high]
            assert len(found) <= 2 * digits - 1
            if low == numbers[0] and high == numbers[-1]:
                assert len(found) == 1


def test_a_word_is_its_bytes():
    for word in ("a", "ß€", "a\U0001f600"):
        nfa = determinize(utf8.string(word))
        assert nfa.accepts(word.encode())
        assert nfa.num_states == len(word.encode()) + 1
    assert utf8.any_text().accepts("aß€\U0001f600".encode())
    assert not utf8.any_text().accepts(b"\xed\xa0\x80")  # half of a surrogate pair
    assert not utf8.any_text().accepts(b"\xc0\x80")  # too long
