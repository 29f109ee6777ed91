"""The decimals between two bounds, as an automaton that compares digits.

A number without its sign is compared with each bound as it is read:

    before the point    fewer digits than the bound: less; more digits: more; as many: as the first digit that differs
    after the point     as the first digit that differs; zeros follow the digits of the bound

A state is (negative, part, digits read in that part, comparison with each bound); digits are counted as far as a bound has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ..automata.nfa import Nfa
from ..automata.work import spend
from .shapes import Bound

LESS, EQUAL, MORE = -1, 0, 1
WHOLE, ZERO, FRACTION = range(3)
"""Parts of a number: digits before the point, a zero that no digit may follow, and digits after the point."""


class State(NamedTuple):
    """How the beginning of a number compares with the bounds, signs apart."""

    negative: bool
    part: int
    done: int
    compared: tuple[int, ...]


class Digits(NamedTuple):
    """The digits of a bound: before the point, and after it without zeros at the end."""

    whole: bytes
    tail: bytes

    def at(self, part: int, count: int) -> int:
        """Return a digit as a byte: the one after ``count`` digits of a part."""
        digits = self.tail if part == FRACTION else self.whole
        return digits[count] if count < len(digits) else 48

    def after_whole(self, part: int, count: int, compared: int) -> int:
        """Return the comparison at the end of the part before the point."""
        count = 1 if part == ZERO else count
        return compared if count == len(self.whole) else LESS if count < len(self.whole) else MORE

    def at_end(self, part: int, count: int, compared: int) -> int:
        """Return the comparison at the end of a number."""
        if part != FRACTION:
            compared, count = self.after_whole(part, count, compared), 0
        return LESS if compared == EQUAL and count < len(self.tail) else compared


class Between:
    """The numbers between two bounds. ``integer``: whole ones only. ``point``: numbers may have a point."""

    def __init__(self, low: Bound | None, high: Bound | None, integer: bool, point: bool) -> None:
        self.integer, self.point = integer, point
        self.bounds = [(each, side) for each, side in ((low, MORE), (high, LESS)) if each is not None]
        self.digits = list[Digits]()
        for bound, _ in self.bounds:
            whole, _, tail = f"{bound.value.copy_abs():f}".partition(".")
            self.digits.append(Digits(whole.encode(), tail.rstrip("0").encode()))
        self.most = [max(len(each[i]) for each in self.digits) + 1 for i in range(2)]

    def admits(self, state: State) -> bool:
        """Return whether a number that ends here lies between the bounds."""
        if not state.done:
            return False
        for (bound, side), digits, compared in zip(self.bounds, self.digits, state.compared, strict=True):
            found = digits.at_end(*state[1:3], compared)
            negative = bound.value < 0
            if state.negative != negative and (found != EQUAL or bound.value):
                found = LESS if state.negative else MORE
            elif negative or (state.negative and not bound.value):
                found = -found
            if found != side and (found != EQUAL or bound.strict):
                return False
        return True

    def moves(self, state: State) -> Iterator[tuple[int, int, State]]:
        """Yield (first byte, last byte, state after such a byte)."""
        negative, part, count, compared = state
        if part == WHOLE and not count and not negative:
            yield 45, 45, State(True, WHOLE, 0, compared)
        if part != FRACTION and count and self.point:
            after = [
                digits.after_whole(part, count, each)
                for digits, each in zip(self.digits, compared, strict=True)
            ]
            yield 46, 46, State(negative, FRACTION, 0, tuple(after))
        if part == ZERO:
            return
        end = 49 if part == FRACTION and self.integer else 58
        digits = [each.at(part, count) for each in self.digits]
        cuts = {48, end, *(cut for digit in digits for cut in (digit, digit + 1) if cut < end)}
        if part == WHOLE and not count:
            cuts.add(49)
        for first, after_last in pairwise(sorted(cuts)):
            here = tuple(
                [
                    (first > digit) - (first < digit) if each == EQUAL else each
                    for digit, each in zip(digits, compared, strict=True)
                ]
            )
            is_zero = part == WHOLE and not count and first == 48
            onward = State(
                negative, ZERO if is_zero else part, min(count + 1, self.most[part == FRACTION]), here
            )
            yield first, after_last - 1, onward


def between(low: Bound | None, high: Bound | None, integer: bool, point: bool) -> Nfa:
    """Return a DFA of the decimals between two bounds, of which one may be missing.

    ``integer``: whole numbers only, with ``point`` also before a point and zeros.
    """
    numbers = Between(low, high, integer, point)
    start = State(False, WHOLE, 0, (EQUAL,) * len(numbers.bounds))
    number, states, rows = {start: 0}, [start], list[tuple[int, int, int, int]]()
    for source, state in enumerate(states):
        spend(10)
        for first, last, after in numbers.moves(state):
            if (target := number.setdefault(after, len(states))) == len(states):
                states.append(after)
            rows.append((source, first, last, target))
    ends = [i for i, state in enumerate(states) if numbers.admits(state)]
    return Nfa(len(states), rows, (), [0], ends)
