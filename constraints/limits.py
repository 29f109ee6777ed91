"""The limits on which an answer depends: what exceeds them is refused or approximated.

Other bounds in this package size a cache, or choose between two ways to the same answer; they stand beside their code.

===============  =======================================================  =====================================
limit            bounds                                                   beyond it
===============  =======================================================  =====================================
`WORK`           the construction of one constraint                       `TooManyStates`; coarser finite parts
`STATES`         the states of a finite automaton                         `TooManyStates`; coarser finite parts
`PART_STATES`    the states of one pattern, terminal or number            `TooManyStates`
`TRANSITIONS`    the transitions of an automaton over tokens              `TooManyStates`
`ALTERNATIVES`   what is combined or told apart at one place              `TooManyStates`, `UnsupportedConstraint`
`LENGTH`         the shortest text, and the input                         `TooManyStates`, `FormatError`
`COUNT`          a number given as an argument                            `UnsupportedConstraint`
`DEPTH`          a depth or a number of digits given as an argument       `UnsupportedConstraint`
`POSITIONS`      a search for the fewest tokens                           an upper bound instead of the distance
`BOUNDS`         what a finite automaton holds of a schema                an entry in `finite.narrowed`
===============  =======================================================  =====================================
"""

from __future__ import annotations

from typing import NamedTuple

WORK = 1_350_000
"""Units of work to make one constraint, about a microsecond each.

Work is counted, not timed (`automata/work.py`).
"""

STATES = 500_000
"""States of a finite automaton.

It may have ten times as many transitions, so ``(a{1,1000}){1,1000}`` is refused before it fills the memory. A subset
construction may make a fifth as many subsets.
"""

PART_STATES = 30_000
"""States of the automaton of one part: a pattern, a set of strings, the multiples of a number, a group that is referred to."""

TRANSITIONS = 20_000_000
"""Transitions of an automaton over tokens, where all of them are made at once."""

ALTERNATIVES = 2_000
"""Alternatives at one place: shapes of a value, parses of an ambiguous prefix."""

LENGTH = 1_000_000
"""Bytes, characters or items of the shortest text of a constraint; values in a schema; bytes of an SQL database's schema."""

COUNT = 10**9
"""The largest whole number that an argument may be."""

DEPTH = 1_000
"""The largest ``max_depth`` and ``max_digits``."""

POSITIONS = 1_000
"""Unit of the limits on searches for a distance to acceptance, in positions visited.

A mask's search for one token may take eight units; searches for the minimum budget, or where no token would be left, more. If
a search exceeds its limit, an upper bound of the distance is used, so a budget that is just enough may be refused.
"""


class Bounds(NamedTuple):
    """The size of the finite automaton of a schema: it accepts only values within these bounds.

    ``depth``: nested uses of a schema within itself, or levels of arrays and objects in values without a schema. ``length``:
    characters of strings with a ``maxLength``. ``room``: states of an object whose members come in any order; an object that
    needs more gets a fixed order.
    """

    depth: int
    length: int
    room: int

    def wanted(self, depth: int | None, length: int | None) -> Bounds:
        """Return these bounds with the user's depth and length; None keeps the present value."""
        depth, length = self.depth if depth is None else depth, self.length if length is None else length
        return Bounds(depth, length, self.room)

    @property
    def items(self) -> int:
        """The most items of arrays with a ``maxItems``."""
        return self.length // 10


LEAST, GREATEST = Bounds(0, 40, 0), Bounds(7, 32_768, 1_500)
BOUNDS = (
    ("depth", 1), ("length", 100), ("depth", 2), ("room", 300), ("depth", 3), ("length", 250), ("room", 1_500),
    ("length", 1_000), ("length", 32_768), ("depth", 5), ("depth", 7),
)  # fmt: skip
"""The order in which a schema's bounds are raised from `LEAST`, as far as the automaton fits.

If the automaton at `GREATEST` is small, it is used at once (`engine/regular.py`).
"""
