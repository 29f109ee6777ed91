"""The automaton of a pattern's successive leftmost matches in a text, and of the gaps between them.

A backtracking matcher tries the paths through a pattern in an order of preference, and takes the first that succeeds. Read
from left to right, the open paths (threads) form a list, the preferred ones first. When one succeeds, those after it are
dropped, and those before it may still win. The automaton guesses whether they will. If it guesses no, they are kept as a set
of threads that must never succeed, while the next match begins. So every text has exactly one accepting path, which says
where the pieces end.

The alphabet consists of *atoms*, sets of characters that no class of the pattern tells apart; ``END`` stands for the end of
the text. A look-ahead of one character is checked when that character is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import UnsupportedConstraint
from ..automata.utf8 import CodePoints
from ..regex.characters import characters
from ..regex.syntax import CHARACTER, LOOK, REPEAT, Item, constants, scoped

END = -1  # the end of the text, in place of an atom
SET_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL
Atoms = frozenset[int]


class Read(NamedTuple):
    """An instruction that reads one of these atoms and goes to the next instruction."""

    atoms: Atoms


class Look(NamedTuple):
    """A look-ahead: goes to the next instruction if the next atom (or ``END``) is one of these."""

    atoms: Atoms


class Choose(NamedTuple):
    """A fork to any of these instructions, in order of preference."""

    targets: list[int]


MATCH = Choose([])
Instruction = Read | Look | Choose


class Program:
    """A pattern compiled to instructions; the last one is ``MATCH``."""

    def __init__(self, tree: Any, atoms_of: Callable[[CodePoints], Atoms], dollar: Atoms) -> None:
        self.atoms_of, self.dollar, self.code = atoms_of, dollar, list[Instruction]()
        self._closed: dict[tuple[tuple[int, ...], int], list[int]] = {}
        self._sequence(tree, tree.state.flags)
        self.code.append(MATCH)

    def open(self, ways: Sequence[int], following: int) -> list[int]:
        """Return the ``Read`` and ``MATCH`` instructions that threads reach without reading, best first.

        ``following`` is the next atom, on which look-aheads depend.
        """
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
        """Return the instructions of the threads after reading an atom."""
        after = [at + 1 for at in ways if isinstance(i := self.code[at], Read) and atom in i.atoms]
        return tuple(dict.fromkeys(after))

    def matched(self, ways: Sequence[int]) -> int | None:
        """Return the position of ``MATCH`` in a list of threads, None if none has matched."""
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
        """Return the atoms of items that read one character."""
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
            """Append a choice between one more (the next instruction) and leaving, whose target is set later."""
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
            self.code.append(Choose([len(self.code) + 2]))  # all repetitions used: no look-ahead needed
            self.code.append(stop)
        for targets in leaving:
            targets[targets.index(-1)] = len(self.code) - possessive


class Place(NamedTuple):
    """A state of a search.

    ``ways``: the threads of the current match (None: between matches). ``never``: threads that must not match. ``kind``: the
    kind of the piece so far: "match", "gap", or "" at the beginning of the text.
    """

    ways: tuple[int, ...] | None
    never: frozenset[int]
    kind: str


class Search:
    """The automaton that splits a text into matches and, if ``gaps``, the text between them.

    ``bounds`` are the kinds of neighbouring pieces with a marked boundary between them.
    """

    start = Place(None, frozenset(), "")

    def __init__(self, program: Program, gaps: bool, bounds: frozenset[tuple[str, str]]) -> None:
        self.program, self.gaps, self.bounds = program, gaps, bounds

    def step(self, place: Place, atom: int) -> list[tuple[bool, Place]]:
        """Return all transitions on one atom: (whether a boundary is marked before the atom, next state)."""
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
        """Return the transitions that begin a match, or begin or continue a gap, with this atom."""
        first = self.program.read(self.program.open([0], atom), atom)
        found = [((kind, "match") in self.bounds, Place(first, never, "match"))] if first else []
        if self.gaps:
            marked = kind != "gap" and (kind, "gap") in self.bounds
            found.append((marked, Place(None, never | frozenset(first), "gap")))
        return found

    def ends(self, place: Place) -> bool:
        """Return whether the text may end in this state."""
        program = self.program
        if program.matched(program.open(sorted(place.never), END)) is not None:
            return False
        return place.ways is None or program.matched(program.open(place.ways, END)) is not None


def one_character(items: Sequence[Item]) -> bool:
    """Return whether the items read exactly one character."""
    if len(items) == 1 and items[0][0] is constants.SUBPATTERN:
        return one_character(items[0][1][3])
    return len(items) == 1 and items[0][0] in CHARACTER
