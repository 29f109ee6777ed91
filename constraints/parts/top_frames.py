"""Stretches: the frames without budgets on top of a stack, with their distances and lengths."""

from __future__ import annotations

from typing import NamedTuple

from ...circuits.automaton import UNREACHABLE
from .. import limits
from ..automata.stack import Stack, StackAutomaton
from ..masks.lazy_tokens import LazyTokens
from ..masks.token_masks import Words
from ..vocabulary.vocabulary import Vocabulary
from .automaton import Twins, frames

NEARBY = 64  # states visited to find out how long a text can become


class Room(NamedTuple):
    """The lengths that the rest of a stretch can have.

    It can take ``least`` tokens, ``least + step``, ``least + 2 step`` and so on (``least`` is ``UNREACHABLE`` if none is
    known). Its longest text has ``most`` bytes, ``UNREACHABLE`` if that is not known.
    """

    least: int
    step: int
    most: int


class Stretches:
    """The frames above the topmost machine with budgets, as stacks of their own, or None.

    Distances are those of texts in which a token ends at the end of the stretch.
    """

    def __init__(self, vocab: Vocabulary, twins: Twins) -> None:
        self.twins, self._stacks = twins, StackAutomaton(None)
        self.tokens = LazyTokens(self._stacks, vocab, require_eos=False)
        self._states, self._distances = self.tokens.states, self.tokens.distances
        self._single = vocab.trie.single
        self._room: dict[Stack, Room] = {}

    @property
    def given_up(self) -> int:
        """The number of searches that were abandoned at their limit."""
        return self._distances.given_up

    def on(self, stack: Stack) -> Stack | None:
        """Return the stretch on top of a stack."""
        own = None
        for frame in frames(stack):
            if self.twins.has_parts(frame.machine):
                own = None
            else:
                own = self._stacks.stack(frame.machine, frame.local, own)
        return own

    def number(self, stretch: Stack | None) -> int:
        """Return the number of a stretch; -1 for None."""
        return -1 if stretch is None else self._states.number(stretch)

    def words(self, stretch: Stack) -> Words:
        """Return the tokens that stay in a stretch as a bit mask; not to be written to."""
        return self.tokens.words_from(self._states.number(stretch))

    def bound(self, stretch: Stack | None) -> int:
        """Return an upper bound of :meth:`fewest`, without a search."""
        return 0 if stretch is None else self._distances.bound(self._states.number(stretch))

    def fewest(self, stretch: Stack | None) -> int:
        """Return the fewest tokens to the end of a stretch."""
        return 0 if stretch is None else self._distances.fewest(self._states.number(stretch))

    def within(self, stretch: Stack | None, most: int) -> bool:
        """Return whether the end is at most ``most`` tokens away."""
        if stretch is None or most < 0:
            return most >= 0
        return self._distances.within(self._states.number(stretch), most)

    def searched(self, stretch: Stack | None, most: int) -> bool:
        """Return :meth:`within`, decided by a search with a hundred times the usual limit."""
        if stretch is None or most < 0:
            return most >= 0
        return self._distances.searched(self._states.number(stretch), most, 100 * limits.POSITIONS)

    def room(self, stretch: Stack | None) -> Room:
        """Return the lengths that the rest of a stretch can have."""
        if stretch is None:
            return Room(UNREACHABLE, 1, 0)
        found = self._room.get(stretch)
        if found is None:
            found = self._room[stretch] = self._found_room(self._states.number(stretch))
        return found

    def _found_room(self, start: int) -> Room:
        """Search nearby states for a cycle of single-byte tokens and, if few, for the longest text."""
        before: dict[int, int] = {start: -1}  # predecessors on shortest paths of single-byte tokens
        queue, least, step = [start], UNREACHABLE, UNREACHABLE
        for state in queue:
            for low, high, target in self._states.moves(state):
                if state in before and self._single[low : high + 1].any():
                    if (length := steps_back(before, state, target)) < step:
                        depth = steps_back(before, target, start) - 1
                        least, step = depth + self._distances.bound(target), length
                    before.setdefault(target, state)
                if target not in queue and len(queue) < NEARBY:
                    queue.append(target)
            if len(queue) == NEARBY and step == 1:
                break
        most = UNREACHABLE if len(queue) == NEARBY else self._longest(queue)
        return Room(min(UNREACHABLE, least), 1 if step >= UNREACHABLE else step, most)

    def _longest(self, states: list[int]) -> int:
        """Return the bytes of the longest path from the first state; ``states`` are all that can be reached."""
        longest = dict.fromkeys(states, 0)
        for _ in states:
            before = dict(longest)
            for state in states:
                after = [before[target] + 1 for _, _, target in self._states.moves(state)]
                longest[state] = max(after, default=0)
            if longest == before:
                return longest[states[0]]
        return UNREACHABLE


def steps_back(before: dict[int, int], state: int, target: int) -> int:
    """Return the length of the cycle closed by an edge from ``state`` back to ``target``.

    Returns ``UNREACHABLE`` if ``target`` is not on the path to ``state``.
    """
    length = 1
    while state != target:
        state, length = before.get(state, -1), length + 1
        if state == -1:
            return UNREACHABLE
    return length
