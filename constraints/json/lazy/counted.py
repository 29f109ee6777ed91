"""Patterns with bounds on the length: the product of a DFA and a counter, made as it is read.

    (automaton state, letters so far)     a letter counts when it ends

A state may be entered if an allowed number of letters can still be reached. The fewest letters to acceptance nearly always decide
that; where more are needed, longer paths are searched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...automata import dfa
from ...automata.lazy import Flags, Numbers, Pattern
from ...automata.region import Local, LocalBody, Machine, Region
from .. import strings
from ..patterns import any_text
from ..shapes import Strings
from ..text import Spelling
from .letters import MOST_LETTER
from .patterns import PatternText


class CountedPattern(Region):
    """The texts of a pattern that have ``least`` to ``most`` letters."""

    def __init__(self, shape: Strings, spelling: Spelling) -> None:
        self.least, self.most = shape.least, shape.most
        found = strings.every(shape.atoms, shape.but, spelling)
        self.text = PatternText(found, spelling)
        if self.text.phases is None:
            self.text = PatternText(dfa.intersect(found, any_text(spelling.alphabet)), spelling)
        assert self.text.phases is not None
        self.between = self.text.between
        self._live: dict[tuple[int, int], bool] = {}
        self._towards_end: dict[Local, tuple[int, Local]] = {}
        self._sizes: dict[Local, int] = {}
        size = self.text.nfa.num_states
        self.longest = size * (self.least + 1)
        if self.most is not None:
            self.longest = min(self.longest, MOST_LETTER * (self.most + 1))

    @cached_property
    def fewest(self) -> dict[int, int]:
        """The fewest letters completed on the way from a state to acceptance, by state."""
        before: dict[int, list[int]] = {}
        for source, target in dict.fromkeys(map(tuple, self.text.nfa.edges[:, [0, 3]].tolist())):
            before.setdefault(target, []).append(source)
        fewest = dict.fromkeys(self.text.nfa.accept.tolist(), 0)
        queue = deque(fewest)
        while queue:  # breadth first, where only moves into a state between letters count
            target = queue.popleft()
            step = int(target in self.between)
            for source in before.get(target, ()):
                if fewest[target] + step < fewest.get(source, 1 << 60):
                    fewest[source] = fewest[target] + step
                    (queue.append if step else queue.appendleft)(source)
        return fewest

    def live(self, state: int, count: int) -> bool:
        """Return whether an allowed number of letters can be reached."""
        known = self.known(state, count)
        if known is not None:
            return known
        stack = [(state, count)]
        while stack:  # depth first: more letters than the fewest are needed
            here = stack[-1]
            onward = self.onward(*here)
            answers = [self.known(*there) for there in onward]
            if True in answers:
                self._live[here] = True
            elif None in answers:
                stack.append(onward[answers.index(None)])
                continue
            else:
                self._live[here] = False
            stack.pop()
        return self._live[state, count]

    def known(self, state: int, count: int) -> bool | None:
        """Return whether an allowed number of letters can be reached, ``None`` if not known yet."""
        fewest = self.fewest[state]
        if count + fewest >= self.least:
            return self.most is None or count + fewest <= self.most
        return self._live.get((state, count))

    def onward(self, state: int, count: int) -> list[tuple[int, int]]:
        """Return (state, number of letters read) after each byte that may follow."""
        return [(target, self.counted(target, count)) for _, _, target in self.text.moves(state)]

    def counted(self, target: int, count: int) -> int:
        """Return the number of letters read on entering a state, as far as it matters."""
        if target not in self.between:
            return count
        return min(count + 1, self.least) if self.most is None else count + 1

    def start(self) -> Local:
        return (int(self.text.nfa.start[0]), 0)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        state, count = local
        found = []
        for low, high, target in self.text.moves(state):
            after = self.counted(target, count)
            if self.live(target, after):
                found.append((low, high, (target, after)))
        return found

    def final(self, local: Local) -> bool:
        state, count = local
        return count >= self.least and self.text.final(state)

    def counter(self, local: Local) -> tuple[int, int] | None:
        state, count = local
        if self.most is None:
            return state, self.least - count  # letters that must still come
        return (state, count) if count >= self.least else None

    def coarse(self, level: int) -> Machine:
        return self.text if level else self

    def completion(self, local: Local) -> bytes:
        out = bytearray()
        while not self.final(local):
            byte, local = self.towards_end(local)
            out.append(byte)
        return bytes(out)

    def completion_size(self, local: Local) -> int:
        path = []
        while local not in self._sizes and not self.final(local):
            path.append(local)
            local = self.towards_end(local)[1]
        size = self._sizes.get(local, 0)
        for here in reversed(path):
            size += 1
            self._sizes[here] = size
        return size

    def towards_end(self, local: Local) -> tuple[int, Local]:
        """Return the next byte of :meth:`completion`, and the local state after it."""
        if local not in self._towards_end:
            ways = []
            for low, _, after in self.moves(local):
                needed = max(self.fewest[after[0]], self.least - after[1])
                # a letter that brings nothing nearer comes last
                ways.append((needed, after[0] in self.between, low, after))
            self._towards_end[local] = min(ways)[2:]
        return self._towards_end[local]

    @cached_property
    def _fewest(self) -> Numbers:
        """:attr:`fewest` as an array."""
        return np.array([self.fewest[state] for state in range(self.text.nfa.num_states)])

    def pattern(self, local: Local) -> Pattern | None:
        begin, count = local
        if begin not in self.between:
            return None
        text, most = self.text, self.most

        def live(state: Numbers, letters: Numbers) -> Flags:
            least = count + letters + self._fewest[state]
            found = np.ones(len(state), bool) if most is None else least <= most
            if count < self.least:
                few = np.flatnonzero(found & (least < self.least))
                kinds, which = np.unique(state[few] * (1 << 32) + letters[few], return_inverse=True)
                pairs = [divmod(kind, 1 << 32) for kind in kinds.tolist()]
                found[few] = np.array([self.live(s, count + k) for s, k in pairs], bool)[which]
            return np.asarray(found)

        def final(state: Numbers, letters: Numbers) -> Flags:
            return np.asarray(text.are_final[state] & (count + letters >= self.least))

        def to(state: int, letters: int) -> Local:
            return state, min(count + letters, self.least) if most is None else count + letters

        return Pattern(text.table, begin, text.alphabet.letters, -1, live, final, to)

    def body(self, local: Local) -> LocalBody | None:
        state, count = local
        found = self.text.loop(state) if self.text.final(state) else None
        if found is None or count == self.most:
            return None
        if self.most is None:
            return found._replace(settled=max(1, self.least - count))
        return found._replace(most=self.most - count, settled=None)

    def after_letters(self, local: Local, count: int) -> Local:
        after = local[1] + count
        return (local[0], min(after, self.least) if self.most is None else after)

    def view(self, local: Local, reach: int) -> Any:
        state, count = local
        if self.text.loop(state) is None or not self.text.final(state):
            return local
        left = -1 if self.most is None else min(self.most - count, reach)
        return state, min(max(self.least - count, 0), reach), left
