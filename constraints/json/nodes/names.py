"""The names of an object's members as tables: what stands before a name, the name, the colon after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ....errors import TooManyStates
from ...automata.dfa import together
from ...automata.work import metered
from ...program import tables
from ...program.tables import Table, in_order
from .. import strings
from ..shapes import Strings
from ..text import Spelling, Style
from .leaves import blanks_at

MOST_STATES = 1 << 16
"""The most states of the names of an object."""


@dataclass(frozen=True, eq=False)
class Inside:
    """A byte automaton of names, from the byte after the opening quote to the colon; states and edges as in a :class:`Table`.

    ``root``: its start. ``in_base``, ``apart``: of a table that has a base.
    """

    edges: Int[ndarray, "edges 4"]
    label: Int[ndarray, " states"]
    root: int = 0
    base: Inside | None = None
    in_base: Int[ndarray, " states"] | None = None
    apart: Bool[ndarray, " states"] | None = None
    _steps: dict[int, list[int]] = field(default_factory=dict)
    _rests: dict[tuple[int, tuple[int, ...]], Int[ndarray, "edges 3"]] = field(default_factory=dict)

    @cached_property
    def moves(self) -> list[list[tuple[int, int, int]]]:
        """For each state its moves (lowest byte, highest byte, target), in the order of their bytes."""
        found: list[list[tuple[int, int, int]]] = [[] for _ in self.label]
        for source, low, high, target in self.edges.tolist():
            found[source].append((low, high, target))
        return found

    def steps(self, state: int) -> list[int]:
        """Return the states after a state by byte, −1 where there is none."""
        found = self._steps.get(state)
        if found is None:
            found = self._steps[state] = [-1] * 256
            for low, high, target in self.moves[state]:
                found[low : high + 1] = [target] * (high + 1 - low)
        return found

    def rest(self, state: int, taken: tuple[int, ...]) -> Int[ndarray, "edges 3"]:
        """Return the moves (lowest byte, highest byte, target) of a state without those by some bytes, ascending."""
        found = self._rests.get((state, taken))
        if found is None:
            rows = list[int]()
            for low, high, target in self.moves[state]:
                for byte in taken:
                    if low <= byte <= high:
                        if low < byte:
                            rows += low, byte - 1, target
                        low = byte + 1
                if low <= high:
                    rows += low, high, target
            found = np.array(rows, np.int64).reshape(-1, 3)
            if len(taken) < 2:
                self._rests[state, taken] = found
        return found


def names_tables(
    live: tuple[str, ...], declared: tuple[str, ...], classes: tuple[Strings, ...], style: Style
) -> tuple[Table, Table] | None:
    """Return the tables of the names of a first member and of later ones, which begin with the comma; None if there is no name.

    Labels are those of the ``live`` names, then of the ``classes`` of others, to which no name of ``declared`` belongs.
    Raises ``TooManyStates``.
    """
    parts = tuple(inside(live, declared, classes, spelling, style) for spelling in style.spellings)
    if all(part is None for part in parts):
        return None
    return after_text(parts, style.lead, style), after_text(parts, style.comma, style)


@metered(maxsize=1024)
def inside(
    live: tuple[str, ...],
    declared: tuple[str, ...],
    classes: tuple[Strings, ...],
    spelling: Spelling,
    style: Style,
) -> Inside | None:
    """Return the automaton of the names, as :func:`names_tables`: a trie of those declared, on that of the classes."""
    base = of_classes(classes, spelling, style) if classes else None
    if base is None:
        declared = live
    number = {name: i for i, name in enumerate(live)}
    children, ends = strings.trie([name for name in declared if all(map(spelling.ways, name))], spelling)
    if base is None and not ends:
        return None
    first = 0 if base is None else len(base.label)
    states = [(0, -1 if base is None else base.root)]  # of the trie and of the base
    place = {states[0]: first}
    edges: list[tuple[int, int, int, int]] = []
    sources, rests, chains = [], [], dict[int, int]()
    bare = False  # whether a state is left by declared names only
    quote = spelling.closing
    last: dict[int, list[int]] = {}  # by label the states before the closing quote
    for source, (node, there) in enumerate(states, first):
        steps = [-1] * 256 if there < 0 or base is None else base.steps(there)
        taken = []
        for byte, child in children[node].items():
            target = (child, steps[byte])
            at = place.get(target)
            if at is None:
                at = place[target] = first + len(states)
                states.append(target)
            edges.append((source, byte, byte, at))
            taken.append(byte)
        if node in ends:
            taken.append(quote)
            label = number.get(ends[node])
            if label is not None:
                last.setdefault(label, []).append(source)
        if there < 0 or base is None:
            bare = True
            continue
        rest = base.rest(there, tuple(sorted(taken)))
        sources.append((source, len(rest)))
        rests.append(rest)
        bare |= not len(rest)
    size = first + len(states)
    if size > MOST_STATES:
        raise too_many()
    for label, before in last.items():
        chains[label] = size
        edges += [(source, quote, quote, size) for source in before]
        edges += chain(style.joint, size)
        size += len(style.joint) + 1
    label_of = np.full(size, -1)
    for label, at in chains.items():
        label_of[at + len(style.joint)] = label
    rows = [np.array(edges, np.int64).reshape(-1, 4)]
    if base is None:
        return Inside(in_order(rows[0]), label_of, first)
    label_of[:first] = np.where(base.label < 0, -1, base.label + len(live))
    rows.append(base.edges)
    if rests:
        each, sizes = np.array(sources, np.int64).T
        rows.append(np.column_stack([np.repeat(each, sizes), np.concatenate(rests)]))
    in_base = np.full(size, -1)
    in_base[:first] = np.arange(first)
    in_base[first : first + len(states)] = [there for _, there in states]
    apart = np.arange(size) >= first
    found = Inside(in_order(np.concatenate(rows)), label_of, first, base, in_base, apart)
    return trimmed(found) if bare and len(last) < len(ends) else found


def chain(text: bytes, first: int) -> list[tuple[int, int, int, int]]:
    """Return the edges of a text from a state on."""
    return [(first + i, byte, byte, first + i + 1) for i, byte in enumerate(text)]


@metered(maxsize=256)
def of_classes(classes: tuple[Strings, ...], spelling: Spelling, style: Style) -> Inside | None:
    """Return the automaton of the names of some classes, each labelled by the first class that has it."""
    if sum(strings.size(kind, spelling) for kind in classes) > MOST_STATES:
        raise too_many()
    parts = [strings.body(kind, spelling) for kind in classes]
    try:
        edges, reads = together(parts, MOST_STATES)
    except TooManyStates:
        raise too_many() from None
    size, last = len(reads), np.flatnonzero(reads.any(axis=1))
    first = reads[last].argmax(axis=1).tolist()
    chains = {label: size + i * (len(style.joint) + 1) for i, label in enumerate(sorted({*first}))}
    more = [
        (at, *[spelling.closing] * 2, chains[label]) for at, label in zip(last.tolist(), first, strict=True)
    ]
    label_of = np.full(size + len(chains) * (len(style.joint) + 1), -1)
    for label, at in chains.items():
        more += chain(style.joint, at)
        label_of[at + len(style.joint)] = label
    edges = in_order(np.concatenate([edges, np.array(more, np.int64).reshape(-1, 4)]))
    return trimmed(Inside(edges, label_of))


def trimmed(found: Inside) -> Inside | None:
    """Return the automaton without states that lead nowhere; None if nothing is accepted."""
    size = len(found.label)
    before: list[list[int]] = [[] for _ in range(size)]
    for source, target in np.unique(found.edges[:, [0, 3]], axis=0).tolist():
        before[target].append(source)
    useful = found.label >= 0
    todo = np.flatnonzero(useful).tolist()
    while todo:
        for source in before[todo.pop()]:
            if not useful[source]:
                useful[source] = True
                todo.append(source)
    if not useful[found.root]:
        return None
    place = np.cumsum(useful) - 1
    edges = found.edges[useful[found.edges[:, 0]] & useful[found.edges[:, 3]]]
    edges = np.column_stack([place[edges[:, 0]], edges[:, 1:3], place[edges[:, 3]]])
    shared = (
        () if found.in_base is None or found.apart is None else (found.in_base[useful], found.apart[useful])
    )
    return Inside(edges, found.label[useful], int(place[found.root]), found.base, *shared)


@metered(maxsize=2048)
def after_text(
    parts: tuple[Inside | None, ...],
    before: bytes,
    style: Style,
    labels: tuple[int, ...] | None = None,
    others: tuple[int, ...] = (),
) -> Table:
    """Return the table of a text before a name, its opening quote and the rest, in each of the spellings.

    Parameters
    ----------
    parts
        By spelling, the automaton of the names, None if there is none.
    labels
        The label to write in place of each label of ``parts``, if not the same.
    others
        Labels of members whose name is no part of the table: they are read where a name begins.
    """
    blank, ends = blanks_at(len(before), len(before) + 1, style.blank if before else 0)
    start = chain(before, 0) + blank
    begun = size = len(before) + len(ends)
    label = [-1] * size + list(others)
    start += [
        (source, low, high, size + i)
        for i in range(len(others))
        for source, low, high, target in start
        if target in ends
    ]
    rows, marks = [], [np.array(label)]
    size += len(others)
    for part, spelling in zip(parts, style.spellings, strict=True):
        if part is None:
            continue
        if spelling.opening:
            start += [(end, *spelling.opening * 2, size + part.root) for end in ends]
        else:  # the name begins at once
            first = part.edges[part.edges[:, 0] == part.root].tolist()
            start += [(end, low, high, size + target) for end in ends for _, low, high, target in first]
        rows.append(np.add(part.edges, (size, 0, 0, size)))
        marks.append(part.label if labels is None else np.append(labels, -1)[part.label])
        size += len(part.label)
    edges = np.concatenate([np.array(start, np.int64).reshape(-1, 4), *rows])
    (only, *more) = parts
    if more or others or only is None or only.base is None or only.in_base is None or only.apart is None:
        return tables.table(edges, np.concatenate(marks))
    there = np.concatenate([np.arange(begun), np.where(only.in_base < 0, -1, only.in_base + begun)])
    apart = np.concatenate([np.ones(begun, bool), only.apart])
    base = after_text((only.base,), before, style)
    return tables.table(edges, np.concatenate(marks), None, (base, there, apart))


def too_many() -> TooManyStates:
    """Return the error of an object whose names take too many states."""
    return TooManyStates("the names of an object take too many states", limit=MOST_STATES)
