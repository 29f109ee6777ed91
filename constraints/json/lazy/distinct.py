"""Values that must be distinct: the values of a need, whether enough are left."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...automata.comparing_stack import RecordingAutomaton
from ...automata.lazy import Configuration, LazyAutomaton
from ...automata.stack import StackAutomaton
from ...program.json_value import meaning
from .. import numbers
from ..exact import number
from ..shapes import NEVER, Need, Numbers, Strings
from ..text import STYLES, Spelling
from .keys import accepted
from .texts import shortest_string

if TYPE_CHECKING:
    from .values import Machines

JSON_WORDS = STYLES["space"].words
MOST_LISTED = 200
"""The widest range of integers whose values are listed."""


class Distinct:
    """The values of each need, found as far as they are asked for."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.are_compared = False  # whether there are arrays of distinct items that are not listed
        self.are_needed = False  # whether one of these may need several items
        self._automata: dict[Need, RecordingAutomaton] = {}
        self._known: dict[Need, dict[Hashable, bytes]] = {}
        self._more: dict[Need, Iterator[bytes]] = {}

    def automaton(self, need: Need) -> RecordingAutomaton:
        """Return the automaton of the texts of a need, with its comparisons."""
        if need not in self._automata:
            self._automata[need] = RecordingAutomaton(StackAutomaton(self.machines.machine(need)))
        return self._automata[need]

    def values(self, need: Need, most: int) -> dict[Hashable, bytes]:
        """Return ``most`` values of a need, or all if there are fewer, each with a text."""
        known = self._known.setdefault(need, {})
        if need not in self._more:
            self._more[need] = self.texts(need)
        while len(known) < most and (text := next(self._more[need], None)) is not None:
            known.setdefault(self.meaning(text), text)
        return known

    def meaning(self, text: bytes) -> Hashable:
        """Return a hashable value of a text in this style: equal for equal values."""
        style = self.machines.style
        if not style.tuples:
            return meaning(text)
        if text in style.words:
            return meaning(JSON_WORDS[style.words.index(text)])
        found = next((s.read(text[1:-1]) for s in style.spellings if text[:1] == s.opening), None)
        return number(text) if found is None else found

    def listed(self, need: Need) -> list[bytes] | None:
        """Return a text of each value of a need; ``None`` if the need does not list its values."""
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
        """Return whether a need lists its values."""
        return need != NEVER and self.listed(need) is not None

    def texts(self, need: Need) -> Iterator[bytes]:
        """Yield texts of the values of a need.
        If they are listed, there is one of each, in the order of ``enum``."""
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
        """Return a text of each number of a shape; ``None`` if they are not listed."""
        found = numbers.listed(shape, MOST_LISTED)
        if found is None:
            return None
        each = (self.machines.shortest_number(Numbers(among=frozenset([v]))) for v in found)
        return [text for text in each if text is not None]

    def matched(self, needs: Sequence[Need], seen: frozenset[Hashable]) -> list[bytes] | None:
        """Return texts of distinct, unseen values, one for each need (bipartite matching).
        Return ``None`` if there are none."""
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
    """Return a text of each string of a shape; ``None`` if they are not listed."""
    if shape.among is None:
        return None
    each = (
        shortest_string(Strings(among=frozenset([word]), atoms=shape.atoms), spelling)
        for word in sorted(shape.among)
    )
    return [text for text in each if text is not None]


def ends(automaton: LazyAutomaton, configuration: Configuration) -> Iterator[bytes]:
    """Yield the texts from a configuration to acceptance, short ones first."""

    def moves(here: Any) -> Iterator[tuple[int, Any]]:
        for low, high, after in automaton.moves(here):
            for byte in range(low, high + 1):
                yield byte, after

    return accepted(configuration, moves, automaton.accepting, lambda here: len(automaton.completion(here)))
