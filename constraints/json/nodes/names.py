"""The names of an object's members as tables: what stands before a name, the name, the colon after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ....errors import TooManyStates
from ...automata.arrays import ragged_arange, reachable
from ...automata.epsilon import NO_EPSILONS
from ...automata.nfa import Nfa, edges_of
from ...automata.subsets import together
from ...automata.work import metered
from ...program import tables
from ...program.tables import Table, in_order
from .. import strings
from ..shapes import Strings
from ..text import Spelling, Style
from .leaves import blanks_at

MOST_STATES = 1 << 16
"""The most states of the names of an object."""
Edges = Int[ndarray, "edges 4"]


@dataclass(frozen=True, eq=False)
class Inside:
    """A byte automaton of names, from the byte after the opening quote to the colon; states and edges as in a :class:`Table`.

    ``root``: its start. ``in_base``, ``apart``: of a table that has a base.
    """

    edges: Edges
    label: Int[ndarray, " states"]
    root: int = 0
    base: Inside | None = None
    in_base: Int[ndarray, " states"] | None = None
    apart: Bool[ndarray, " states"] | None = None

    @cached_property
    def steps(self) -> Nfa:
        """The states after a state by byte."""
        return Nfa(
            len(self.label), self.edges, NO_EPSILONS, np.array([self.root]), np.flatnonzero(self.label >= 0)
        )


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
    if not declared and classes == (Strings(),):
        spelling = spelling.free or spelling
    base = of_classes(classes, spelling, style) if classes else None
    children, ends = strings.trie(live if base is None else declared, spelling)
    if base is None and not ends:
        return None
    size = 0 if base is None else len(base.label)
    if size + len(children) > MOST_STATES:
        raise too_many()
    number = {name: i for i, name in enumerate(live)}
    last = {number[name]: [node] for node, name in ends.items() if name in number}
    edges = np.array(
        [(node, byte, byte, child) for node, onward in enumerate(children) for byte, child in onward.items()],
        np.int64,
    ).reshape(-1, 4)
    own, label = ended(edges, len(children), last, spelling, style)
    if base is None:
        return Inside(in_order(own), label)
    there = [base.root, *[-1] * (len(label) - 1)]  # of each state that of the base
    for node, onward in enumerate(children):
        for byte, child in onward.items():
            there[child] = base.steps.after(there[node], byte) if there[node] >= 0 else -1
    in_base = np.array(there)
    quotes = np.array([(node, spelling.closing) for node in ends], np.int64).reshape(-1, 2)
    rest = without(copied(base.edges, in_base), np.concatenate([edges[:, :2], quotes]))
    found = Inside(
        in_order(
            np.concatenate([base.edges, np.add(own, (size, 0, 0, size)), np.add(rest, (size, 0, 0, 0))])
        ),
        np.concatenate([np.where(base.label < 0, -1, base.label + len(live)), label]),
        size,
        base,
        np.concatenate([np.arange(size), in_base]),
        np.arange(size + len(label)) >= size,
    )
    return found if len(last) == len(ends) else trimmed(found)


def copied(edges: Edges, states: Int[ndarray, " copies"]) -> Edges:
    """Return the edges of a state for each of its copies, which are numbered; −1 is no state."""
    begin, end = (np.searchsorted(edges[:, 0], each) for each in (states, states + 1))
    begin[states < 0] = end[states < 0]
    found: Edges = edges[ragged_arange(begin, end - begin)]
    found[:, 0] = np.repeat(np.arange(len(states)), end - begin)
    return found


def without(edges: Edges, taken: Int[ndarray, "pairs 2"]) -> Edges:
    """Return deterministic edges, in order, without those by some pairs of a state and a byte."""
    state, byte = taken.T
    edge = np.searchsorted(edges[:, 0] * 256 + edges[:, 1], state * 256 + byte, side="right") - 1
    cut = (edge >= 0) & (edges[edge, 0] == state) & (edges[edge, 2] >= byte)
    edge, byte = edge[cut], byte[cut]
    # an edge that is cut n times is n + 1 edges: their lowest and their highest bytes, each ascending
    place = np.concatenate([np.arange(len(edges)), edge]) * 512
    place_of, low = np.divmod(np.sort(place + np.concatenate([edges[:, 1], byte + 1])), 512)
    past = np.sort(place + np.concatenate([edges[:, 2] + 1, byte])) % 512
    found: Edges = np.column_stack([edges[place_of, 0], low, past - 1, edges[place_of, 3]])[low < past]
    return found


def ended(
    edges: Edges, size: int, last: Mapping[int, Sequence[int]], spelling: Spelling, style: Style
) -> tuple[Edges, Int[ndarray, " states"]]:
    """Return edges with those of what closes a name, and the labels of all states. ``last``: by label, the states before it."""
    label, more = [-1] * size, list[tuple[int, int, int, int]]()
    for name, states in last.items():
        more += [(state, spelling.closing, spelling.closing, len(label)) for state in states]
        more += chain(style.joint, len(label))
        label += [*[-1] * len(style.joint), name]
    return np.concatenate([edges, np.array(more, np.int64).reshape(-1, 4)]), np.array(label)


def chain(text: bytes, first: int) -> list[tuple[int, int, int, int]]:
    """Return the edges of a text from a state on."""
    return [(first + i, byte, byte, first + i + 1) for i, byte in enumerate(text)]


@metered(maxsize=256)
def of_classes(classes: tuple[Strings, ...], spelling: Spelling, style: Style) -> Inside | None:
    """Return the automaton of the names of some classes, each labelled by the first class that has it."""
    parts = [strings.body(kind, spelling) for kind in classes]
    if sum(part.num_states for part in parts) > MOST_STATES:
        raise too_many()
    try:
        rows, reads = together(parts, MOST_STATES)
    except TooManyStates:
        raise too_many() from None
    last: dict[int, list[int]] = {}
    for state, labels in enumerate(reads):
        for label in labels[:1]:
            last.setdefault(label, []).append(state)
    edges, label_of = ended(edges_of(rows), len(rows), last, spelling, style)
    return trimmed(Inside(in_order(edges), label_of))


def trimmed(found: Inside) -> Inside | None:
    """Return the automaton without states that lead nowhere; None if nothing is accepted."""
    useful = reachable(found.edges[:, [3, 0]], np.flatnonzero(found.label >= 0), len(found.label))
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
