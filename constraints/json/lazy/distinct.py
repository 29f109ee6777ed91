"""Values that must be distinct: what they are equal to, how many a need has, whether enough of them are left.

JSON values are equal if they are of one type and mean the same: 1 and 1.0 are, 1 and true are not, and the members of an
object have no order.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...automata.comparing_stack import RecordingAutomaton
from ...automata.lazy import Configuration, LazyAutomaton
from ...automata.stack import StackAutomaton
from .. import numbers
from ..shapes import NEVER, Need, Numbers, Strings
from ..text import STYLES, Spelling
from .keys import accepted
from .texts import shortest_string

if TYPE_CHECKING:
    from .values import Machines

JSON_WORDS = STYLES["space"].words
MOST_LISTED = 200
"""Integers between bounds that are listed."""


@lru_cache(maxsize=4096)
def meaning(text: bytes) -> Hashable:
    """What a JSON text is equal to; strings stand for themselves."""
    return frozen(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def frozen(value: Any) -> Hashable:
    """A value that is hashable, and equal exactly if the JSON values are."""
    if isinstance(value, list):
        return ("array", *map(frozen, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, frozen(inner)) for name, inner in value.items()))
    return (value,) if isinstance(value, bool) else value


class Distinct:
    """The values of each need, as many as are asked for."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.are_compared = False  # whether there are arrays of distinct items that are not listed
        self.are_needed = False  # whether one of these may need several items
        self._automata: dict[Need, RecordingAutomaton] = {}
        self._known: dict[Need, dict[Hashable, bytes]] = {}
        self._more: dict[Need, Iterator[bytes]] = {}

    def automaton(self, need: Need) -> RecordingAutomaton:
        """The texts of a need."""
        if need not in self._automata:
            self._automata[need] = RecordingAutomaton(StackAutomaton(self.machines.machine(need)))
        return self._automata[need]

    def values(self, need: Need, most: int) -> dict[Hashable, bytes]:
        """Values of a need with a text of each: so many, or all that there are."""
        known = self._known.setdefault(need, {})
        if need not in self._more:
            self._more[need] = self.texts(need)
        while len(known) < most and (text := next(self._more[need], None)) is not None:
            known.setdefault(self.meaning(text), text)
        return known

    def meaning(self, text: bytes) -> Hashable:
        """What a text is equal to."""
        style = self.machines.style
        if not style.tuples:
            return meaning(text)
        if text in style.words:
            return meaning(JSON_WORDS[style.words.index(text)])
        found = next((s.read(text[1:-1]) for s in style.spellings if text[:1] == s.opening), None)
        return Decimal(text.decode()) if found is None else found

    def listed(self, need: Need) -> list[bytes] | None:
        """A text of each value of a need, ``None`` where they are not listed."""
        value = self.machines.value(need)
        if value.array or value.object:
            return None
        found = self.machines.words(value)
        strings = (listed_strings(each, self.machines.style.spellings[0]) for each in value.string)
        for part in (*map(self.numbers, value.number), *strings):
            if part is None:
                return None
            found += part
        return found

    def are_listed(self, need: Need) -> bool:
        """Whether the values of a need are listed."""
        return need != NEVER and self.listed(need) is not None

    def texts(self, need: Need) -> Iterator[bytes]:
        """Texts of the values of a need: one of each where they are listed."""
        found = self.listed(need)
        if found is not None:
            nodes = [self.machines.document.nodes[number] for number, sign in sorted(need) if sign]
            enums = [value for node in nodes for value in node.schema.get("enum", ())]
            place = {meaning(json.dumps(value).encode()): i for i, value in enumerate(enums)}
            yield from sorted(found, key=lambda text: place.get(self.meaning(text), len(place)))
            return
        automaton = self.automaton(need)
        start = automaton.start()
        if start is not None:
            yield from ends(automaton, start)

    def numbers(self, shape: Numbers) -> list[bytes] | None:
        """A text of each number of a shape, ``None`` where they are not listed."""
        found = numbers.listed(shape, MOST_LISTED)
        if found is None:
            return None
        each = (self.machines.shortest_number(Numbers(among=frozenset([v]))) for v in found)
        return [text for text in each if text is not None]

    def matched(self, needs: Sequence[Need], seen: frozenset[Hashable]) -> list[bytes] | None:
        """Texts of distinct values of some needs that were not seen, ``None`` if there are none."""
        holder: dict[Hashable, int] = {}
        chosen: dict[int, bytes] = {}
        options = [self.values(need, len(seen) + len(needs)) for need in needs]

        def place(i: int, tried: set[Hashable]) -> bool:
            for value, text in options[i].items():
                if value in tried or value in seen:
                    continue
                tried.add(value)
                if value not in holder or place(holder[value], tried):
                    holder[value] = i
                    chosen[i] = text
                    return True
            return False

        if not all(place(i, set()) for i in range(len(needs))):
            return None
        return [chosen[i] for i in range(len(needs))]


def listed_strings(shape: Strings, spelling: Spelling) -> list[bytes] | None:
    """A text of each string of a shape, ``None`` where they are not listed."""
    if shape.among is None:
        return None
    each = (
        shortest_string(Strings(among=frozenset([word]), atoms=shape.atoms), spelling)
        for word in sorted(shape.among)
    )
    return [text for text in each if text is not None]


def ends(automaton: LazyAutomaton, configuration: Configuration) -> Iterator[bytes]:
    """The texts from a configuration to acceptance, short ones first."""

    def moves(here: Any) -> Iterator[tuple[int, Any]]:
        for low, high, after in automaton.moves(here):
            for byte in range(low, high + 1):
                yield byte, after

    return accepted(configuration, moves, automaton.accepting, lambda here: len(automaton.completion(here)))
