"""Decimals between bounds, beside all texts of a few bytes compared as numbers."""

import itertools
import re
from decimal import Decimal

import pytest

from tractile._core import between_bounds

DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
TEXTS = ["".join(text) for size in range(1, 6) for text in itertools.product("-.0159", repeat=size)]
NUMBERS = {text: Decimal(text) for text in TEXTS if DECIMAL.fullmatch(text)}
TEXTS = [text for text in TEXTS if text in NUMBERS or len(text) < 4]
BOUNDS = [
    "0", "-0", "1", "-1", "5", "-5", "9.9", "-9.9", "0.5", "-0.05", "10", "-15", "150", "100.1", "1E+2", "5.10",
]  # fmt: skip


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("low", [None, *BOUNDS])
def test_all_texts_of_five_bytes_are_accepted_exactly_if_the_number_lies_between_the_bounds(low, integer):
    for high in [None, *BOUNDS][:: 1 if low in (None, "0", "-9.9") else 4]:
        for strict in (False, True):
            if low is None and high is None:
                continue
            a, b = (None if each is None else Decimal(each) for each in (low, high))
            point = not (integer and strict)
            ends = [None if each is None else (f"{each:f}", strict) for each in (a, b)]
            nfa = between_bounds(*ends, integer, point).plain
            assert nfa.is_deterministic
            accepted = {text for text in TEXTS if nfa.accepts(text.encode())} if nfa.num_states else set()
            expected = {
                text
                for text, value in NUMBERS.items()
                if (a is None or value > a or (value == a and not strict))
                and (b is None or value < b or (value == b and not strict))
                and (not integer or value == int(value))
                and (point or "." not in text)
            }
            assert accepted == expected
