"""Where a search finds the matches of a pattern, one after the other, and what lies between them: as an automaton.

A backtracking matcher tries the ways through a pattern in an order of preference, and takes the first that succeeds. Read
from left to right: the ways still open form a list, the preferred ones first; where one succeeds, those after it are out,
and those before it may yet do better. The automaton guesses whether they will. If it says no, they are kept as a set that
must never succeed, while the next match begins. So every text has one way through the automaton, which says where the
pieces end.

Characters are numbers of *atoms*, sets of characters that no class of the pattern tells apart; ``END`` stands for the end of
the text. A look-ahead of one character is met when that character is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import UnsupportedConstraint
from ..automata.utf8 import CodePoints
from ..regex.characters import characters
from ..regex.syntax import CHARACTER, LOOK, REPEAT, Item, constants, scoped

END = -1  # instead of an atom
SET_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL
Atoms = frozenset[int]


class Read(NamedTuple):
    """Reads one of these atoms, goes to the next instruction."""

    atoms: Atoms


class Look(NamedTuple):
    """Look-ahead: goes on, reading nothing, if the next atom (or the end of the text) is one of these."""

    atoms: Atoms


class Choose(NamedTuple):
    """Goes on at any of these instructions, preferably at the first."""

    targets: list[int]


MATCH = Choose([])
Instruction = Read | Look | Choose


class Program:
    """A pattern as instructions; the last one is ``MATCH``."""

    def __init__(self, tree: Any, atoms_of: Callable[[CodePoints], Atoms], dollar: Atoms) -> None:
        self.atoms_of, self.dollar, self.code = atoms_of, dollar, list[Instruction]()
        self._closed: dict[tuple[tuple[int, ...], int], list[int]] = {}
        self._sequence(tree, tree.state.flags)
        self.code.append(MATCH)

    def open(self, ways: Sequence[int], following: int) -> list[int]:
        """The instructions that read, or match, which are reached without reading; preferred ones first."""
        key = (tuple(ways), following)
        if key not in self._closed:
            found, seen, stack = list[int](), set[int](), list(reversed(ways))
            while stack:
                at = stack.pop()
                if at in seen:
                    continue
                seen.add(at)
                instruction = self.code[at]
                if isinstance(instruction, Read) or instruction is MATCH:
                    found.append(at)
                elif isinstance(instruction, Choose):
                    stack += reversed(instruction.targets)
                elif following in instruction.atoms:
                    stack.append(at + 1)
            self._closed[key] = found
        return self._closed[key]

    def read(self, ways: Iterable[int], atom: int) -> tuple[int, ...]:
        """The instructions after reading an atom at these."""
        after = [at + 1 for at in ways if isinstance(i := self.code[at], Read) and atom in i.atoms]
        return tuple(dict.fromkeys(after))

    def matched(self, ways: Sequence[int]) -> int | None:
        """The place of a match among open ways."""
        last = len(self.code) - 1
        return ways.index(last) if last in ways else None

    # ------------------------------------------------------------ from the parser's tree

    def _sequence(self, items: Iterable[Item], flags: int) -> None:
        for operation, argument in items:
            if operation in CHARACTER:
                self.code.append(Read(self.atoms_of(characters((operation, argument), flags & SET_FLAGS))))
            elif operation in REPEAT or operation is constants.POSSESSIVE_REPEAT:
                self._repeat(operation, argument, flags)
            elif operation is constants.SUBPATTERN:
                _, added, removed, inner = argument
                self._sequence(inner, scoped(flags, added, removed))
            elif operation is constants.BRANCH:
                self._branch(argument[1], flags)
            elif operation is constants.AT and argument in (constants.AT_END, constants.AT_END_STRING):
                self.code.append(Look(self.dollar if argument is constants.AT_END else Atoms([END])))
            elif operation in LOOK and argument[0] > 0 and one_character(argument[1]):
                self.code.append(Look(self._next_character(operation, argument[1], flags)))
            elif operation is constants.FAILURE:
                self.code.append(Look(Atoms()))
            else:
                raise UnsupportedConstraint(
                    f"canonical=True: the tokenizer splits text by a pattern with {str(operation).lower()}, which is not read"
                )

    def _next_character(self, operation: Any, items: Sequence[Item], flags: int) -> Atoms:
        points = self._points(items, flags)
        every = self.atoms_of(((0, 0x10FFFF),)) | {END}
        return every - points if operation is constants.ASSERT_NOT else points

    def _points(self, items: Sequence[Item], flags: int) -> Atoms:
        """The atoms of items that read one character."""
        operation, argument = items[0]
        if operation is constants.SUBPATTERN:
            return self._points(argument[3], scoped(flags, argument[1], argument[2]))
        return self.atoms_of(characters((operation, argument), flags & SET_FLAGS))

    def _branch(self, branches: Sequence[Any], flags: int) -> None:
        choice = Choose([])
        ends: list[list[int]] = []
        self.code.append(choice)
        for branch in branches:
            choice.targets.append(len(self.code))
            self._sequence(branch, flags)
            end = Choose([0])
            ends.append(end.targets)
            self.code.append(end)
        for targets in ends:
            targets[0] = len(self.code)

    def _repeat(self, operation: Any, argument: Any, flags: int) -> None:
        low, high, inner = int(argument[0]), argument[1], argument[2]
        possessive, stop = operation is constants.POSSESSIVE_REPEAT, Look(Atoms())
        if possessive:
            if not one_character(inner):
                raise UnsupportedConstraint(
                    "canonical=True: the tokenizer's pattern has a possessive repeat of more than one character"
                )
            stop = Look(self._next_character(constants.ASSERT_NOT, inner, flags))

        def fork() -> list[int]:
            """A choice between one more (the next instruction) and leaving, which is filled in later."""
            at = len(self.code)
            leave = [at + 1, -1] if operation is not constants.MIN_REPEAT else [-1, at + 1]
            self.code.append(Choose(leave))
            return leave

        for _ in range(low):
            self._sequence(inner, flags)
        leaving = []
        if high == constants.MAXREPEAT:
            begin = len(self.code)
            leaving.append(fork())
            self._sequence(inner, flags)
            self.code.append(Choose([begin]))
        else:
            for _ in range(int(high) - low):
                leaving.append(fork())
                self._sequence(inner, flags)
        if possessive:
            self.code.append(Choose([len(self.code) + 2]))  # as many as may be: nothing to look for
            self.code.append(stop)
        for targets in leaving:
            targets[targets.index(-1)] = len(self.code) - possessive


class Place(NamedTuple):
    """Where a search is: the open ways of the current match (None: between matches), what must never match, what comes
    before: "match", "gap" or, at the beginning of the text, nothing."""

    ways: tuple[int, ...] | None
    never: frozenset[int]
    kind: str


class Search:
    """The pieces of a text: matches and, if ``gaps`` may be, what lies between them. ``bounds`` are the pairs of kinds of
    neighbouring pieces that a boundary is marked between."""

    start = Place(None, frozenset(), "")

    def __init__(self, program: Program, gaps: bool, bounds: frozenset[tuple[str, str]]) -> None:
        self.program, self.gaps, self.bounds = program, gaps, bounds

    def step(self, place: Place, atom: int) -> list[tuple[bool, Place]]:
        """(whether a boundary is marked before the atom, the place after it), in every way that may turn out right."""
        program = self.program
        ways = program.open(sorted(place.never), atom)
        if program.matched(ways) is not None:
            return []
        never, found = frozenset(program.read(ways, atom)), list[tuple[bool, Place]]()
        if place.ways is None:
            return self._begin(place.kind, never, atom)
        ways = program.open(place.ways, atom)
        end = program.matched(ways)
        before = program.read(ways if end is None else ways[:end], atom)
        if before:
            found.append((False, Place(before, never, "match")))
        if end is not None:
            found += self._begin("match", never | frozenset(before), atom)
        return found

    def _begin(self, kind: str, never: frozenset[int], atom: int) -> list[tuple[bool, Place]]:
        """A match, or a gap, that begins or goes on with this atom."""
        first = self.program.read(self.program.open([0], atom), atom)
        found = [((kind, "match") in self.bounds, Place(first, never, "match"))] if first else []
        if self.gaps:
            marked = kind != "gap" and (kind, "gap") in self.bounds
            found.append((marked, Place(None, never | frozenset(first), "gap")))
        return found

    def ends(self, place: Place) -> bool:
        """Whether the text may end here."""
        program = self.program
        if program.matched(program.open(sorted(place.never), END)) is not None:
            return False
        return place.ways is None or program.matched(program.open(place.ways, END)) is not None


def one_character(items: Sequence[Item]) -> bool:
    """Whether the items read exactly one character."""
    if len(items) == 1 and items[0][0] is constants.SUBPATTERN:
        return one_character(items[0][1][3])
    return len(items) == 1 and items[0][0] in CHARACTER
