"""The contents of strings that match patterns, as machines over finite automata."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...automata.arrays import ragged_arange
from ...automata.lazy import Flags, Numbers, Pattern, PatternTable
from ...automata.machines import DfaMachine
from ...automata.nfa import Nfa
from ...automata.region import Local, LocalBody
from ..text import Spelling
from .letters import Rows, alphabet_of, letters_of, rows_of

MOST_NEAR = 4_000  # the most pairs of states that are compared


class PatternText(DfaMachine):
    """A DFA of string contents that knows the states in which all letters loop."""

    def __init__(self, nfa: Nfa, spelling: Spelling) -> None:
        super().__init__(nfa)
        self.alphabet = alphabet_of(spelling)
        self._loops: dict[int, LocalBody | None] = {}
        self._near: dict[int, tuple[int, bytes] | None] = {}

    @cached_property
    def between(self) -> frozenset[int]:
        """The states between two letters."""
        return frozenset(
            state for state, phase in (self.phases or {}).items() if phase == self.alphabet.between
        )

    @cached_property
    def phases(self) -> dict[int, int] | None:
        """The position within a letter of each state, as a state of the automaton of all strings.
        ``None`` if a state has two positions."""
        start = int(self.nfa.start[0])
        rows: Rows = rows_of(self.nfa)
        found, queue, table = {start: self.alphabet.between}, [start], self.alphabet.table
        for state in queue:
            phases = table[found[state]]
            for byte, _, target in rows.get(state, ()):
                phase = found.get(target)
                if phase is None:
                    found[target] = phases[byte]
                    queue.append(target)
                elif phase != phases[byte]:
                    return None
        return found

    def loop(self, state: int) -> LocalBody | None:
        """Return the free text of a state to which all its letters lead back; ``None`` for others."""
        if state not in self._loops:
            self._loops[state] = self._loop(state)
        return self._loops[state]

    def _loop(self, state: int) -> LocalBody | None:
        if state not in self.between or not self.moves(state):
            return None
        queue, seen = [state], {state}
        for inner in queue:
            for _, _, target in self.moves(inner):
                if target not in seen:
                    if target in self.between:
                        return None
                    seen.add(target)
                    queue.append(target)
        return LocalBody(letters_of(self.moves, state), None, leaves=b"")

    @cached_property
    def table(self) -> PatternTable:
        """The transitions as an array."""
        size = self.nfa.num_states
        after = np.full((size + 1, 256), size, np.int32)
        source, low, high, target = self.nfa.edges.T
        count = high - low + 1
        after[np.repeat(source, count), ragged_arange(low, count)] = np.repeat(target, count)
        between = np.zeros(size, bool)
        between[list(self.between)] = True
        return PatternTable(after, between)

    @cached_property
    def are_final(self) -> Flags:
        """Whether the text may end, by state of the pattern's automaton."""
        found = np.zeros(self.nfa.num_states, bool)
        found[self.nfa.accept] = True
        return found

    def pattern(self, local: Local) -> Pattern | None:
        if local not in self.between:
            return None

        def final(state: Numbers, letters: Numbers) -> Flags:
            return np.asarray(self.are_final[state])

        return Pattern(
            self.table, local, self.alphabet.letters, -1, None, final, lambda state, letters: state
        )

    def near(self, state: int) -> tuple[int, bytes] | None:
        """Return the loop state that a state equals but for some texts, with their first bytes.

        Return ``None`` if there is none. The state tells apart texts such as those of ``not: {enum: …}``, which all go on as in
        the loop.
        """
        if state not in self._near:
            self._near[state] = self._look_near(state)
        return self._near[state]

    def _look_near(self, state: int) -> tuple[int, bytes] | None:
        if state not in self.between or self.loop(state) is not None:
            return None
        loops = {target for _, _, target in self.moves(state) if self.loop(target) is not None}
        if len(loops) != 1:
            return None
        (loop,), after, size = loops, self.table.after, self.nfa.num_states
        queue = [(state, loop)]
        seen = set(queue)
        for here, there in queue:
            row, free = after[here], after[there]
            if ((row == size) != (free == size)).any():
                return None
            differ = np.flatnonzero(row != free)
            if there == loop and len(differ) == np.count_nonzero(free != size):
                return None
            for pair in set(zip(row[differ].tolist(), free[differ].tolist(), strict=True)) - seen:
                if len(seen) >= MOST_NEAR:
                    return None
                seen.add(pair)
                queue.append(pair)
        return loop, bytes(np.flatnonzero(after[state] != after[loop]).tolist())

    def body(self, local: Local) -> LocalBody | None:
        found = self.loop(local)
        if found is None and (near := self.near(local)) is not None:
            loop = self.loop(near[0])
            assert loop is not None
            return loop._replace(exceptions=near[1], within=True)
        return found

    def after_letters(self, local: Local, count: int) -> Local:
        near = self.near(local) if count else None
        return local if near is None else near[0]
