"""The automaton of all texts with a mark wherever a tokenizer splits before it merges.

    "two  cats"  →  "two|  |cats"        as GPT-2 splits it:  "two| | cats"

A mark is a byte that does not occur in UTF-8. Each stage of a pre-tokenizer (``pretokens.py``) splits the pieces of the stage
before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedConstraint
from .. import limits
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa, check_limit
from ..automata.utf8 import CodePoints
from ..regex.syntax import parser
from .pretokens import Stage, refused, spelled_out
from .priority_nfa import END, MATCH, Atoms, AtomThreads, SplitSearch

MARK = 0xFF
BYTE = 0xFE  # the mark before a byte that is a symbol by itself (byte fallback)
NEWLINE, SPACE, LOW_LINE = ord("\n"), ord(" "), ord("▁")


class SymbolAlphabet(NamedTuple):
    """The characters that are symbols, and those written by bytes with ``BYTE`` before each.

    Other characters cannot be written.
    """

    symbols: CodePoints
    bytes: CodePoints


class Combined:
    """The composition of two splits: each piece of ``outer``, a :class:`SplitSearch` or another, is split by ``inner``."""

    def __init__(self, outer: Any, inner: SplitSearch) -> None:
        self.outer, self.inner = outer, inner
        self.start: Any = (outer.start, inner.start)

    def step(self, place: Any, atom: int) -> list[tuple[bool, Any]]:
        """Return all transitions on one atom; see :class:`SplitSearch`."""
        found = list[tuple[bool, Any]]()
        for marked, there in self.outer.step(place[0], atom):
            if not marked:
                found += [(mark, (there, within)) for mark, within in self.inner.step(place[1], atom)]
            elif self.inner.ends(place[1]):
                found += [(True, (there, within)) for _, within in self.inner.step(self.inner.start, atom)]
        return found

    def ends(self, place: Any) -> bool:
        """Return whether the text may end; see :class:`SplitSearch`."""
        return self.outer.ends(place[0]) and self.inner.ends(place[1])


@lru_cache(maxsize=8)
def marked_text(splits: tuple[Stage, ...], spelling: SymbolAlphabet) -> Nfa:
    """Return all texts with a mark at each boundary between two pieces.

    Raises ``UnsupportedConstraint`` for a pattern that is not supported.
    """
    trees, sets = list[Any](), [spelling.symbols, spelling.bytes, ((NEWLINE, NEWLINE),)]
    for stage in splits:

        def collect(points: CodePoints, stage: Stage = stage) -> Atoms:
            sets.append(seen(points, stage))
            return Atoms()

        try:
            trees.append(parser.parse(spelled_out(stage.pattern, stage.engine)))
            AtomThreads(trees[-1], stage.pattern, collect, Atoms())
        except (re.error, OverflowError, RecursionError, UnsupportedConstraint) as error:
            raise refused(f"pattern that is not read ({error}): {stage.pattern}") from None
    atoms = partition(sets)
    searches = list[SplitSearch]()
    for stage, tree in zip(splits, trees, strict=True):

        def members(points: CodePoints, stage: Stage = stage) -> Atoms:
            inside = seen(points, stage)
            return Atoms(i for i, atom in enumerate(atoms) if utf8.within(atom[:1], inside))

        newline = members(((NEWLINE, NEWLINE),)) if stage.dollar_is_line_end else Atoms()
        program = AtomThreads(tree, stage.pattern, members, newline | {END})
        if any(MATCH in program.open([program.entry], atom) for atom in range(len(atoms))):
            raise refused(f"pattern that matches nothing at all: {stage.pattern}")
        searches.append(SplitSearch(program, stage.gaps, stage.bounds))
    automaton = dfa.minimize(nfa.star(nfa.byte_ranges([(0, len(atoms) - 1)])))
    if searches:
        first: Any = searches[0]
        automaton = small(reduce(Combined, searches[1:], first), len(atoms))
    return with_marks(automaton, atoms, spelling)


def seen(points: CodePoints, stage: Stage) -> CodePoints:
    """Return the characters of the text that the stage sees as these, after spaces have become ``▁``."""
    if not stage.low_lines:
        return points
    rest = utf8.within(points, utf8.negate(((SPACE, SPACE), (LOW_LINE, LOW_LINE))))
    has = utf8.within(((LOW_LINE, LOW_LINE),), points)
    return utf8.normalize([*rest, *(((SPACE, SPACE), (LOW_LINE, LOW_LINE)) if has else ())])


def partition(sets: Sequence[CodePoints]) -> list[CodePoints]:
    """Return the coarsest partition of the characters such that each set is a union of its classes."""
    cuts = {0, 0xD800, 0xE000, 0x110000} | {e for points in sets for a, b in points for e in (a, b + 1)}
    edges = sorted(cuts)
    low = np.array(edges[:-1])
    inside = np.zeros((len(low), len(sets)), bool)
    for column, points in enumerate(sets):
        for a, b in points:
            inside[np.searchsorted(low, a) : np.searchsorted(low, b, side="right"), column] = True
    kinds = dict[bytes, list[tuple[int, int]]]()
    for begin, end, row in zip(edges, edges[1:], inside, strict=False):
        kinds.setdefault(row.tobytes(), []).append((begin, end - 1))
    return [points for ranges in kinds.values() if (points := utf8.normalize(ranges))]


def small(machine: Any, atoms: int) -> Nfa:
    """Return the minimal DFA of a split (``machine``, see :class:`SplitSearch`): atoms and marks are one byte each."""
    if atoms >= MARK:
        raise refused("pre-tokenizer of too many classes of characters")
    number, queue, edges = {machine.start: 0}, [machine.start], list[tuple[int, int, int, int]]()
    between = dict[int, int]()  # by (state, atom, target): the state between a mark and the atom
    for place in queue:
        for atom in range(atoms):
            for marked, there in machine.step(place, atom):
                if there not in number:
                    number[there] = len(number)
                    queue.append(there)
                    check_limit(len(number), limits.PART_STATES)
                edges.append((number[place], atom + 256 * marked, atom, number[there]))
    accept = np.array([number[place] for place in queue if machine.ends(place)], np.int64)
    rows, size = list[tuple[int, int, int, int]](), len(number)
    for source, symbol, atom, target in edges:
        if symbol < 256:
            rows.append((source, atom, atom, target))
            continue
        key = (source * atoms + atom) * len(number) + target
        if key not in between:
            between[key] = size
            size += 1
            rows.append((source, MARK, MARK, between[key]))
        rows.append((between[key], atom, atom, target))
    return dfa.minimize(Nfa(size, np.array(rows, np.int64).reshape(-1, 4), (), np.array([0]), accept))


def with_marks(automaton: Nfa, atoms: Sequence[CodePoints], spelling: SymbolAlphabet) -> Nfa:
    """Return an automaton's DFA over bytes: atom i is a character of ``atoms[i]``, written as ``spelling`` says; marks stay."""
    arcs = list[tuple[int, Nfa | None, int]]()
    together = dict[tuple[int, int], list[tuple[int, int]]]()
    for source, low, high, target in automaton.edges.tolist():
        for symbol in range(low, high + 1):
            if symbol == MARK:
                arcs.append((source, nfa.literal(bytes([MARK])), target))
            else:
                together.setdefault((source, target), []).extend(atoms[symbol])
    for (source, target), ranges in together.items():
        points = utf8.normalize(ranges)
        if whole := utf8.within(points, spelling.symbols):
            arcs.append((source, utf8.utf8(whole), target))
        if rest := utf8.within(points, spelling.bytes):
            arcs.append((source, byte_by_byte(utf8.utf8(rest)), target))
    size = automaton.num_states
    arcs += [(int(state), None, size) for state in automaton.accept]
    return dfa.minimize(nfa.network(size + 1, arcs, int(automaton.start[0]), size))


def byte_by_byte(automaton: Nfa) -> Nfa:
    """Return the automaton with the mark ``BYTE`` before each byte."""
    n, edges = automaton.num_states, automaton.edges
    marks = np.column_stack([np.arange(n), np.full(n, BYTE), np.full(n, BYTE), np.arange(n) + n])
    onward = edges + np.array([n, 0, 0, 0])
    return Nfa(2 * n, np.concatenate([marks, onward]), (), automaton.start, automaton.accept)
