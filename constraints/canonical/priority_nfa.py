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

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..automata import nfa
from ..automata.utf8 import CodePoints
from ..regex import first_match
from ..regex.pattern import Builder
from ..regex.syntax import CHARACTER, LOOK, Item, constants, refused, scoped

END = -1  # the end of the text, in place of an atom
MATCH = first_match.END
Atoms = frozenset[int]


class AtomThreads(first_match.ByteThreads):
    """A pattern over atoms as a graph of threads.

    A thread passes a node of ``ahead`` only if the next atom (or ``END``) is one of these. ``atoms_of``: the atoms of a set of
    characters; ``dollar``: those before which ``$`` holds.
    """

    def __init__(
        self, tree: Any, pattern: str, atoms_of: Callable[[CodePoints], Atoms], dollar: Atoms
    ) -> None:
        self.atoms_of, self.dollar = atoms_of, dollar
        self.ahead: dict[int, Atoms] = {}
        self._open: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}

        def alphabet(points: CodePoints) -> nfa.Nfa:
            return nfa.byte_ranges([(atom, atom) for atom in sorted(atoms_of(points))])

        builder = Builder(pattern, alphabet, False, [], itertools.count(1), 0)
        super().__init__(builder, list(tree), tree.state.flags)

    def open(self, ways: Iterable[int], following: int) -> tuple[int, ...]:
        """Return the nodes that read or match to which threads come without reading, best first, up to the first match.

        ``following`` is the next atom, on which look-aheads depend.
        """
        key = (tuple(ways), following)
        if key not in self._open:
            self._open[key] = self.ways(
                key[0], lambda node: node not in self.ahead or following in self.ahead[node]
            )
        return self._open[key]

    def read(self, ways: Iterable[int], atom: int) -> tuple[int, ...]:
        """Return the nodes of the threads after reading an atom."""
        after = (node for way in ways for low, high, node in self.edges[way] if low <= atom <= high)
        return tuple(dict.fromkeys(after))

    def item(self, item: Item, flags: int, then: int) -> int:
        """Add an item, followed by node ``then``, and return its entry."""
        operation, argument = item
        if operation is constants.AT and argument is constants.AT_END:
            return self.before(self.dollar, then)
        if operation is constants.AT and argument is constants.AT_END_STRING:
            return self.before(Atoms([END]), then)
        if operation in LOOK:
            direction, inner = argument
            if direction < 0 or not one_character(inner):
                raise refused(
                    "a look-behind, or a look-ahead of more than one character", r"\(\?", self.builder.pattern
                )
            return self.before(self.next_character(inner, flags, operation is constants.ASSERT_NOT), then)
        if operation is constants.POSSESSIVE_REPEAT and one_character(argument[2]):
            no_more = self.before(self.next_character(argument[2], flags, negative=True), then)
            return self.repeat(argument, flags, then, no_more, lazy=False)
        return super().item(item, flags, then)

    def before(self, atoms: Atoms, then: int) -> int:
        """Add a node that threads pass only if the next atom is in ``atoms``; it leads to ``then``. Return its number."""
        entry = self.node([then])
        self.ahead[entry] = atoms
        return entry

    def next_character(self, items: Sequence[Item], flags: int, negative: bool) -> Atoms:
        """Return the atoms of items that read one character, or all others and ``END``."""
        operation, argument = items[0]
        if operation is constants.SUBPATTERN:
            return self.next_character(argument[3], scoped(flags, argument[1], argument[2]), negative)
        (moves, _) = self.builder.character(items[0], flags).rows
        found = Atoms(atom for low, high, _ in moves for atom in range(low, high + 1))
        return (self.atoms_of(((0, 0x10FFFF),)) | {END}) - found if negative else found


class SplitState(NamedTuple):
    """A state of a search.

    ``ways``: the threads of the current match (None: between matches). ``never``: threads that must not match. ``kind``: the
    kind of the piece so far: "match", "gap", or "" at the beginning of the text.
    """

    ways: tuple[int, ...] | None
    never: frozenset[int]
    kind: str


class SplitSearch:
    """The automaton that splits a text into matches and, if ``gaps``, the text between them.

    ``bounds`` are the kinds of neighbouring pieces with a marked boundary between them.
    """

    start = SplitState(None, frozenset(), "")

    def __init__(self, program: AtomThreads, gaps: bool, bounds: frozenset[tuple[str, str]]) -> None:
        self.program, self.gaps, self.bounds = program, gaps, bounds

    def step(self, place: SplitState, atom: int) -> list[tuple[bool, SplitState]]:
        """Return all transitions on one atom: (whether a boundary is marked before the atom, next state)."""
        program = self.program
        ways = program.open(sorted(place.never), atom)
        if MATCH in ways:
            return []
        never, found = frozenset(program.read(ways, atom)), list[tuple[bool, SplitState]]()
        if place.ways is None:
            return self._begin(place.kind, never, atom)
        ways = program.open(place.ways, atom)
        before = program.read(ways, atom)
        if before:
            found.append((False, SplitState(before, never, "match")))
        if MATCH in ways:
            found += self._begin("match", never | frozenset(before), atom)
        return found

    def _begin(self, kind: str, never: frozenset[int], atom: int) -> list[tuple[bool, SplitState]]:
        """Return the transitions that begin a match, or begin or continue a gap, with this atom."""
        first = self.program.read(self.program.open([self.program.entry], atom), atom)
        found = [((kind, "match") in self.bounds, SplitState(first, never, "match"))] if first else []
        if self.gaps:
            marked = kind != "gap" and (kind, "gap") in self.bounds
            found.append((marked, SplitState(None, never | frozenset(first), "gap")))
        return found

    def ends(self, place: SplitState) -> bool:
        """Return whether the text may end in this state."""
        if MATCH in self.program.open(sorted(place.never), END):
            return False
        return place.ways is None or MATCH in self.program.open(place.ways, END)


def one_character(items: Sequence[Item]) -> bool:
    """Return whether the items read exactly one character."""
    if len(items) == 1 and items[0][0] is constants.SUBPATTERN:
        return one_character(items[0][1][3])
    return len(items) == 1 and items[0][0] in CHARACTER
