"""How two constraints differ: shortest texts that only one accepts, and the number of them.

A breadth-first search of the product automaton. A pair of states stands for all texts that lead to it:

    (p, q) --byte--> (p', q'),      q' = NONE where the second automaton cannot go on, and likewise p'

A text is accepted by the first constraint alone if it leads to a pair of which only p accepts. If finitely many pairs are
reachable, they form the automaton of all these texts, in which the texts are counted.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import validation
from .automata.nfa import Nfa
from .constraint import Constraint, checked
from .engine.bytes import Bytes
from .program.prune import without_budgets
from .report import number_of_texts

MAX_PAIRS = 50_000
NONE = -1  # the dead state: the automaton has read a byte that it does not allow
PREFERRED = b"a0A b1,.\"'"  # bytes to write a text with where several are allowed, best first
Pair = tuple[int, int]


@dataclass(frozen=True)
class Difference:
    """The difference of two languages: a text that only the first accepts, and vice versa.

    ``only_first``, ``only_second``: a text of that kind, None if none was found. ``compared``: the length in bytes up to
    which all texts were compared, None if all texts were. A text of at most this length is a shortest one; a longer one need
    not be, and where none was found, longer ones may exist. ``counts``: the number of texts of each kind of at most
    ``max_bytes`` bytes, exact up to 2^53, then a float; None if it was not asked for or not all texts were compared.

    Examples
    --------
    >>> from tractile.constraints import difference, regex
    >>> found = difference(regex("a|b"), regex("b|c"))
    >>> found.only_first, found.only_second
    ('a', 'c')
    """

    only_first: str | None
    only_second: str | None
    compared: int | None = None
    counts: tuple[int | float, int | float] | None = None
    max_bytes: int | None = None

    @property
    def found(self) -> bool:
        """True if some text is accepted by exactly one of the two constraints."""
        return self.only_first is not None or self.only_second is not None

    def __str__(self) -> str:
        within = "" if self.compared is None else f" of at most {self.compared} bytes"
        if not self.found:
            return f"both accept the same texts{within}"
        lines = []
        sides = (("first", self.only_first), ("second", self.only_second))
        for i, (name, text) in enumerate(sides):
            line = f"only the {name}: {f'nothing{within}' if text is None else repr(text)}"
            if text is not None and self.compared is not None and len(text.encode()) > self.compared:
                line += " (there may be a shorter one)"
            if self.counts is not None:
                line += f", {self.counts[i]:,} texts of at most {self.max_bytes} bytes"
            lines.append(line)
        return "\n".join(lines)


def difference(
    a: Constraint, b: Constraint, *, max_bytes: int | None = None, max_pairs: int = MAX_PAIRS
) -> Difference:
    """Find a shortest text (in UTF-8 bytes) that only one constraint accepts, for each of two.

    With ``max_bytes`` the texts of each kind of at most this many bytes are counted. At most ``max_pairs`` pairs of states
    are visited. If there are more (values nest without end, counters are large), ``Difference.compared`` says up to which
    length all texts were compared. The languages compared are those of :meth:`.Constraint.accepts`: if a constraint is
    narrowed, the narrowed language. Raises ``UnsupportedConstraint`` if an argument is no constraint, and ``TooManyStates``
    for a finite automaton that is too large to be made deterministic.

    >>> from tractile.constraints import difference, regex
    >>> found = difference(regex("(ab)*"), regex("(ab){1,}|a"), max_bytes=10)
    >>> found.only_first, found.only_second, found.counts
    ('', 'a', (1, 1))
    >>> difference(regex("(a|b)*"), regex("(a*b*)*")).found
    False
    """
    most = None if max_bytes is None else validation.count(max_bytes, "difference: max_bytes")
    pairs = validation.count(max_pairs, "difference: max_pairs", 1)
    sides = states_of(checked(a)), states_of(checked(b))
    walk = _Walk(sides, guided=False, all_pairs=most is not None)
    compared, texts, counts = walk.run(pairs), walk.texts, None
    if compared is not None and None in texts:
        further = _Walk(sides, guided=True, all_pairs=False)
        further.run(pairs)
        texts = [one if one is not None else other for one, other in zip(texts, further.texts, strict=True)]
    elif compared is None and most is not None:
        counts = walk.count(0, most), walk.count(1, most)
    first, second = (None if text is None else text.decode() for text in texts)
    return Difference(first, second, compared, counts, most)


def states_of(constraint: Constraint) -> Bytes | None:
    """Return the states of a constraint over bytes; None if it accepts nothing."""
    return None if constraint.is_empty() else Bytes(without_budgets(constraint.program))


class _Walk:
    """A search of the product automaton, with the first text that leads to each pair.

    Pairs are visited in the order of these texts' lengths, so that texts found are shortest ones. A ``guided`` walk orders
    pairs by length plus the length of a completion (as A* does, but with a bound that may be too large). As soon as only one
    side can go on, it ends the text with that side's completion. It finds longer texts, which need not be the shortest.
    """

    def __init__(self, sides: tuple[Bytes | None, Bytes | None], *, guided: bool, all_pairs: bool) -> None:
        self._sides, self._guided, self._all_pairs = sides, guided, all_pairs
        self._number: dict[Pair, int] = {}
        self._came: list[tuple[int, int]] = []  # for each pair: the predecessor's number, and the byte read
        self._queue: list[tuple[int, int, int, Pair]] = []  # (priority, number, length of the text, pair)
        self._rows: list[tuple[int, int, int, int]] = []
        self._accept: tuple[list[int], list[int]] = ([], [])  # pairs that only one side accepts, by side
        self.texts: list[bytes | None] = [None, None]

    def run(self, most: int) -> int | None:
        """Visit at most ``most`` pairs. Return the length up to which all texts are compared, or None."""
        p, q = (NONE if side is None else side.start for side in self._sides)
        if (p, q) != (NONE, NONE):
            self._reach((p, q), -1, 0, 0)
        while self._queue:
            _, here, length, pair = heapq.heappop(self._queue)
            if not self._is_wanted(pair):
                continue
            if len(self._number) > most:
                return length
            for low, high, after in sorted(self._moves(*pair), key=lambda move: preferred_byte(*move[:2])):
                there = self._reach(after, here, preferred_byte(low, high)[1], length + 1)
                if self._all_pairs:
                    self._rows.append((here, low, high, there))
        return None

    def count(self, side: int, most_bytes: int) -> int | float:
        """Count the texts up to ``most_bytes`` bytes that only one side accepts, after a full visit."""
        edges, size = np.array(self._rows, np.int64).reshape(-1, 4), len(self._number)
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        accept = np.array(self._accept[side], np.int64)
        found = Nfa(size, edges, (), np.arange(min(size, 1)), accept)
        return number_of_texts(found.plain, most_bytes) or 0

    def _is_wanted(self, pair: Pair) -> bool:
        """Return whether the pair can lead to a text still looked for: a live side lacks its text."""
        return self._all_pairs or any(
            text is None and state != NONE for text, state in zip(self.texts, pair, strict=True)
        )

    def _reach(self, pair: Pair, before: int, byte: int, length: int) -> int:
        """Return the number of a pair. Record and enqueue it if it is new."""
        found = self._number.get(pair)
        if found is not None:
            return found
        found = self._number[pair] = len(self._number)
        self._came.append((before, byte))
        here = list(zip(self._sides, pair, strict=True))
        ends = [state != NONE and side is not None and side.accepting(state) for side, state in here]
        rest = 0  # bytes to an end, at least
        for i, (side, state) in enumerate(here):
            alone = ends[i] and not ends[1 - i]
            if alone:
                self._accept[i].append(found)
            if side is None or state == NONE or not (alone or self._guided):
                continue
            if self.texts[i] is None and (alone or pair[1 - i] == NONE):
                self.texts[i] = self._text_to(found) + (b"" if alone else side.completion(state))
            rest = max(rest, side.fewest(state) if self._guided else 0)
        priority = length + rest
        heapq.heappush(self._queue, (priority, found, length, pair))
        return found

    def _moves(self, p: int, q: int) -> Iterator[tuple[int, int, Pair]]:
        """Yield (low, high, next pair) for all byte ranges on which at least one side can go on."""
        a, b = self._sides
        ours = () if p == NONE or a is None else a.moves(p)
        theirs = () if q == NONE or b is None else b.moves(q)
        cuts = sorted({cut for low, high, _ in (*ours, *theirs) for cut in (low, high + 1)})
        i = j = 0
        for low, end in itertools.pairwise(cuts):
            while i < len(ours) and ours[i][1] < low:
                i += 1
            while j < len(theirs) and theirs[j][1] < low:
                j += 1
            after = (
                ours[i][2] if i < len(ours) and ours[i][0] <= low else NONE,
                theirs[j][2] if j < len(theirs) and theirs[j][0] <= low else NONE,
            )
            if after != (NONE, NONE):
                yield low, end - 1, after

    def _text_to(self, pair: int) -> bytes:
        word = bytearray()
        while (step := self._came[pair])[0] >= 0:
            pair = step[0]
            word.append(step[1])
        return bytes(reversed(word))


def preferred_byte(low: int, high: int) -> tuple[int, int]:
    """Return (rank, byte): the byte of a range to write a text with; low ranks are tried first."""
    found = ((i, byte) for i, byte in enumerate(PREFERRED) if low <= byte <= high)
    return next(found, (len(PREFERRED), min(max(low, 0x20), high)))
