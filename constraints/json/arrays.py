"""Arrays as automata: a state is how many items there are so far, and how many of each kind that is counted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata.nfa import check_limit
from ..automata.work import spend
from .pieces import Piece
from .shapes import ANY, NEVER, Arrays, Need, both
from .sketches import Sketch
from .text import Style

MAX_COUNTS = 50_000


def settle(shape: Arrays, empty: Callable[[Need], bool], where: str) -> Arrays | None:
    """The shape with its needless conditions dropped, ``None`` if no array has it. Raises ``UnsupportedConstraint``."""
    contains, least = [], shape.least
    for c in shape.contains:
        if c.need == ANY:  # every item counts
            least = max(least, c.least + c.start if c.least else 0)
            if c.most is not None:
                most = c.most + c.start
                shape = replace(shape, most=most if shape.most is None else min(most, shape.most))
        elif c.least and empty(c.need):
            return None
        elif c.least or c.most is not None:
            contains.append(c)
            least = max(least, c.least + c.start if c.least else 0)
    if shape.most is not None and least > shape.most:
        return None
    shape = replace(shape, least=least, contains=tuple(contains))
    if shape.unique and shape.most is not None and shape.most < 2:
        shape = replace(shape, unique=None)
    return shape


def negated(need: Need, where: str) -> Need:
    """What does not satisfy a need of one node."""
    if need == NEVER:
        return ANY
    if len(need) != 1:
        raise UnsupportedConstraint("contains with several conditions", path=where)
    ((node, sign),) = need
    return frozenset([(node, not sign)])


def kinds(shape: Arrays, position: int, where: str) -> list[tuple[Need, tuple[bool, ...]]]:
    """What an item at a position may be, by which of the counted kinds it belongs to."""
    found: list[tuple[Need, tuple[bool, ...]]] = [(shape.at(position), ())]
    for c in shape.contains:
        split = []
        spend(5 * len(found))
        for need, signs in found:
            if position < c.start:
                split.append((need, (*signs, False)))
                continue
            for sign in (True, False):
                part = both(need, c.need if sign else negated(c.need, where))
                if part != NEVER:
                    split.append((part, (*signs, sign)))
        found = split
    return found


def write(shape: Arrays, style: Style, where: str) -> Sketch:
    """The texts of a shape's arrays. Raises ``TooManyStates``."""
    steady = max([len(shape.prefix), shape.least, *(c.start for c in shape.contains)])
    if shape.most is not None:
        steady = shape.most
    check_limit(steady, MAX_COUNTS)
    caps = [c.least if c.most is None else c.most for c in shape.contains]

    splits: dict[int, list[tuple[Need, tuple[bool, ...]]]] = {}

    def choices(position: int, state: tuple[int, ...]) -> list[tuple[Need, tuple[int, ...]]]:
        result = []
        if position not in splits:
            splits[position] = kinds(shape, position, where)
        for item, signs in splits[position]:
            after = tuple(n + s for n, s in zip(state, signs, strict=True))
            over = [n > cap for n, cap in zip(after, caps, strict=True)]
            if any(o and c.most is not None for o, c in zip(over, shape.contains, strict=True)):
                continue
            result.append((item, tuple(min(n, cap) for n, cap in zip(after, caps, strict=True))))
        return result

    def done(state: tuple[int, ...]) -> bool:
        return all(n >= c.least for n, c in zip(state, shape.contains, strict=True))

    return grow(style, steady, shape, tuple(0 for _ in caps), choices, done)


def grow(
    style: Style,
    steady: int,
    shape: Arrays,
    start: Hashable,
    choices: Callable[[int, Any], Sequence[tuple[Piece | Need, Hashable]]],
    done: Callable[[Any], bool],
) -> Sketch:
    """The arrays of items that ``choices`` gives for each position and state; positions from ``steady`` on are alike."""
    sketch = Sketch()
    states: dict[tuple[int, Hashable], int] = {(0, start): sketch.read(0, b"[")}
    queue: list[tuple[int, Hashable]] = [(0, start)]
    for position, state in queue:
        here = states[position, state]
        if style.blank:
            sketch.blank(here)
        if position >= shape.least and done(state):
            sketch.read(here, b"]", -1)
        if shape.most is not None and position >= shape.most:
            continue
        found = choices(position, state)
        spend(20 + 25 * len(found))
        if position and found:
            here = sketch.read(here, style.comma)
            if style.blank:
                sketch.blank(here)
        for item, after in found:
            key = (min(position + 1, max(steady, 1)), after)
            if key not in states:
                states[key] = sketch.state()
                queue.append(key)
            sketch.place(here, item, states[key])
        check_limit(len(states), MAX_COUNTS)
    return sketch


def copies(shape: Arrays) -> int:
    """How often the values of items are written, at most."""
    found = shape.most if shape.most is not None else max(1, len(shape.prefix), shape.least)
    for c in shape.contains:
        found *= 1 + (c.least if c.most is None else c.most)
    return found


def apart(shape: Arrays, empty: Callable[[Need], bool]) -> bool:
    """Whether items of such an array are distinct anyway, because no two positions share a value."""
    if shape.most is None or shape.most > 16:
        return False
    needs = [shape.at(i) for i in range(shape.most)]
    return all(empty(both(a, b)) for a, b in itertools.combinations(needs, 2))
