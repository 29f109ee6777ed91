"""The contents of strings as machines: free text, and patterns with and without a counter.

A letter is one encoded character.

    (letter state, letters so far)        free text; a letter counts when it begins
    (automaton state, letters so far)     a pattern with bounds; a letter counts when it ends
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ....errors import TooManyStates
from ... import limits
from ...automata.epsilon import NO_EPSILONS
from ...automata.graphs import Graph, of_automaton
from ...automata.lazy import Pattern
from ...automata.machines import DfaMachine
from ...automata.nfa import Nfa, check_limit
from ...automata.region import Local, LocalBody, Machine, Region
from ...automata.work import metered
from ...limits import Bounds
from .. import strings
from ..shapes import Strings
from ..text import JSON, Spelling, Style
from .counted import CountedPattern
from .letters import alphabet_of
from .patterns import PatternText


class FreeText(Region):
    """The contents of all strings of ``least`` to ``most`` letters (``None``: any number)."""

    def __init__(self, least: int, most: int | None, spelling: Spelling) -> None:
        self.least, self.most, self.spelling = least, most, spelling
        self.alphabet = alphabet_of(spelling)
        self.after = self.alphabet.after
        self.longest: int = least + self.alphabet.most_finish

    def start(self) -> Local:
        return (0, 0)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        state, count = local
        if not state:
            if self.most is None:
                count = min(count + 1, self.least)
            elif count < self.most:
                count += 1
            else:
                return ()
        return [(low, high, (target, count)) for low, high, target in self.alphabet.rows[state]]

    def step(self, local: Local, byte: int) -> Local | None:
        state, count = local
        target = self.after[state][byte]
        if target < 0 or state:
            return None if target < 0 else (target, count)
        if self.most is None:
            return target, min(count + 1, self.least)
        return None if count == self.most else (target, count + 1)

    def final(self, local: Local) -> bool:
        return bool(not local[0] and local[1] >= self.least)

    def coarse(self, level: int) -> Machine:
        return free_text(self.spelling) if level else self

    def completion(self, local: Local) -> bytes:
        state, count = local
        need: int = self.least - count
        return (self.alphabet.finish[state] if state else b"") + b"a" * need

    def body(self, local: Local) -> LocalBody | None:
        state, count = local
        if state or count == self.most:
            return None
        if self.most is None:
            return LocalBody(self.alphabet.letters, None, b"", max(1, self.least - count), leaves=b"")
        return LocalBody(self.alphabet.letters, self.most - count, b"", None, leaves=b"")

    def after_letters(self, local: Local, count: int) -> Local:
        after = local[1] + count
        return (0, min(after, self.least) if self.most is None else after)

    def view(self, local: Local, reach: int) -> Any:
        state, count = local
        left = -1 if self.most is None else min(self.most - count, reach)
        return state, min(max(self.least - count, 0), reach), left


@cache
def free_text(spelling: Spelling) -> FreeText:
    """Return the machine of the contents of all strings."""
    return FreeText(0, None, spelling)


class Quoted(Region):
    """A machine of string contents, between quotes.
    ``shape``: the strings, if known."""

    ends_with: bytes

    def __init__(
        self,
        inside: Machine,
        spelling: Spelling,
        shape: Strings | None = None,
    ) -> None:
        self.inside, self.spelling, self.shape = inside, spelling, shape
        self.quote, self.ends_with = spelling.closing, bytes((spelling.closing,))
        self.longest = None if inside.longest is None else inside.longest + 2

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        if local in (0, 1):
            return () if local else ((self.quote, self.quote, (self.inside.start(),)),)
        (inner,) = local
        found = [(low, high, (after,)) for low, high, after in self.inside.moves(inner)]
        if self.inside.final(inner):
            at = bisect_left(found, self.quote, key=lambda move: move[0])
            found.insert(at, (self.quote, self.quote, 1))  # type: ignore[arg-type]
        return found

    def step(self, local: Local, byte: int) -> Local | None:
        if local in (0, 1):
            return (self.inside.start(),) if byte == self.quote and not local else None
        (inner,) = local
        if byte == self.quote and self.inside.final(inner):
            return 1
        after = self.inside.step(inner, byte)
        return None if after is None else (after,)

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        if local in (0, 1):
            return None
        found = self.inside.forced(local[0])
        return None if found is None else (found[0], (found[1],))

    def counter(self, local: Local) -> tuple[Hashable, int] | None:
        return None if local in (0, 1) else self.inside.counter(local[0])

    def pattern(self, local: Local) -> Pattern | None:
        found = None if local in (0, 1) else self.inside.pattern(local[0])
        if found is None or found.letters is None:
            return None
        inner = found.to
        return found._replace(leaves=self.quote, to=lambda state, letters: (inner(state, letters),))

    def reads(self, local: Local) -> bool:
        return bool(local != 1)

    def final(self, local: Local) -> bool:
        return bool(local == 1)

    def coarse(self, level: int) -> Machine:
        inside = self.inside.coarse(level)
        if inside is self.inside:
            return self
        if inside not in _quoted:
            _quoted[inside] = Quoted(inside, self.spelling)
        return _quoted[inside]

    def bounded(self, bounds: Bounds) -> Machine:
        cut = self.shape and shortened(self.shape, bounds.length)
        return self if cut is None or cut is self.shape else quoted(cut, self.spelling)

    def graph(self, most: int) -> Graph:
        if self.shape is None:
            return super().graph(most)
        check_limit(strings.size(self.shape, self.spelling), most)
        return of_automaton(in_quotes(strings.body(self.shape, self.spelling), self.spelling))

    def completion(self, local: Local) -> bytes:
        if local == 1:
            return b""
        if local == 0:
            return self.spelling.around(self.inside.completion(self.inside.start()))
        return self.inside.completion(local[0]) + self.ends_with

    def body(self, local: Local) -> LocalBody | None:
        found = None if local in (0, 1) else self.inside.body(local[0])
        return found if found is None or found.leaves is None else found._replace(leaves=self.ends_with)

    def after_letters(self, local: Local, count: int) -> Local:
        return (self.inside.after_letters(local[0], count),)

    def view(self, local: Local, reach: int) -> Any:
        return local if local in (0, 1) else (self.inside.view(local[0], reach),)

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        return local if local in (0, 1) else (self.inside.short(local[0], prefixes, reach),)

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        if local == 1 or not isinstance(self.inside, FreeText):
            return None
        return (
            "text",
            self.spelling,
            self.inside.view(self.inside.start() if local == 0 else local[0], reach),
            local == 0,
        )


_quoted: WeakKeyDictionary[Machine, Quoted] = WeakKeyDictionary()


@metered(maxsize=1024)
def inside(shape: Strings, spelling: Spelling) -> Machine:
    """Return the machine of the contents of a shape's strings, of which there is at least one."""
    if shape.among is not None:
        return DfaMachine(strings.body(shape, spelling))
    if not shape.atoms and not shape.but:
        return FreeText(shape.least, shape.most, spelling)
    if not shape.least and shape.most is None:
        return PatternText(strings.body(shape, spelling), spelling)
    return CountedPattern(shape, spelling)


@metered(maxsize=1024)
def quoted(shape: Strings, spelling: Spelling) -> Machine:
    """Return the machine of the quoted texts of a shape's strings, of which there is at least one."""
    return Quoted(inside(shape, spelling), spelling, shape)


@metered(maxsize=1024)
def shortened(shape: Strings, length: int) -> Strings:
    """Return the shape with strings of at most ``length`` letters (or its ``least``, if larger).
    Shapes without an upper bound, or without longer strings, stay as they are."""
    if shape.most is None or shape.most <= max(length, shape.least) or shape.among is not None:
        return shape
    most = max(length, shape.least)
    longer = replace(shape, least=most + 1)
    return shape if shortest_string(longer, JSON) is None else replace(shape, most=most)


def in_quotes(inside: Nfa, spelling: Spelling) -> Nfa:
    """Return the automaton of the texts of a deterministic automaton between quotes."""
    n, ends, quote = inside.num_states, inside.accept, spelling.closing
    last = np.column_stack([ends, np.full((len(ends), 2), quote), np.full(len(ends), n + 1)])
    first = [[n, quote, quote, int(inside.start[0])]]
    edges = np.concatenate([inside.edges, last, first])
    return Nfa(n + 2, edges, NO_EPSILONS, np.array([n]), np.array([n + 1]))


@metered(maxsize=4096)
def shortest_string(shape: Strings, spelling: Spelling) -> bytes | None:
    """Return a short text of a shape, ``None`` if no string has it.
    Raises ``TooManyStates`` if it is very long."""
    if shape.least > limits.LENGTH:
        raise TooManyStates(f"strings of at least {shape.least} characters are too long", limit=limits.LENGTH)
    if not shape.atoms and shape.among is None:
        if not shape.but:
            return spelling.around(b"a" * shape.least)
        if shape.most is None or shape.most > 2:
            text, size = "a" * shape.least, shape.least
            while text in shape.but and (shape.most is None or size < shape.most):
                size += 1
                text = "a" * size
            if text not in shape.but:
                return spelling.around(text.encode())
    if not is_possible(shape):
        return None
    machine = quoted(shape, spelling)
    return machine.completion(machine.start())


def strings_of(shape: Strings, style: Style) -> list[Machine]:
    """Return the machines of the texts of a shape, one for each spelling.
    There are none if no string has the shape."""
    if shortest_string(shape, style.spellings[0]) is None:
        return []
    return [quoted(shape, spelling) for spelling in style.spellings]


def is_possible(shape: Strings) -> bool:
    """Return whether some string has the shape."""
    if shape.among is not None or (not shape.least and shape.most is None):
        return not strings.empty(shape)
    if strings.every(shape.atoms, shape.but).is_empty:
        return False
    counted = inside(shape, JSON)
    assert isinstance(counted, CountedPattern)
    return counted.live(*counted.start())
