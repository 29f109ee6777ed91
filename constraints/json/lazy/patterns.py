"""The insides of strings that match patterns, as machines over finite automata."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...automata.arrays import ragged_arange
from ...automata.lazy import Flags, Numbers, Pattern, PatternTable
from ...automata.machines import DfaMachine
from ...automata.nfa import Nfa
from ...automata.stack import Local, LocalBody
from .letters import BETWEEN, LETTERS, TABLE, Rows, letters_of, rows_of


class PatternText(DfaMachine):
    """The texts of a deterministic automaton of insides, which knows the states whose letters all lead back to them."""

    def __init__(self, nfa: Nfa) -> None:
        super().__init__(nfa)
        self._loops: dict[int, LocalBody | None] = {}

    @cached_property
    def between(self) -> frozenset[int]:
        """The states between two letters."""
        return frozenset(state for state, phase in (self.phases or {}).items() if phase == BETWEEN)

    @cached_property
    def phases(self) -> dict[int, int] | None:
        """For each state where in a letter it is: a state of ``BODY``; ``None`` if a state is in two places."""
        start = int(self.nfa.start[0])
        rows: Rows = rows_of(self.nfa)
        found, queue = {start: BETWEEN}, [start]
        for state in queue:
            phases = TABLE[found[state]]
            for byte, _, target in rows.get(state, ()):
                phase = found.get(target)
                if phase is None:
                    found[target] = phases[byte]
                    queue.append(target)
                elif phase != phases[byte]:
                    return None
        return found

    def loop(self, state: int) -> LocalBody | None:
        """The body of a state whose letters all lead back to it."""
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
        return LocalBody(letters_of(self.moves, state), None)

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
        """By state: whether the text may end."""
        found = np.zeros(self.nfa.num_states, bool)
        found[self.nfa.accept] = True
        return found

    def pattern(self, local: Local) -> Pattern | None:
        if local not in self.between:
            return None

        def final(state: Numbers, letters: Numbers) -> Flags:
            return np.asarray(self.are_final[state])

        return Pattern(self.table, local, LETTERS, -1, None, final, lambda state, letters: state)

    def body(self, local: Local) -> LocalBody | None:
        return self.loop(local)

    def after_letters(self, local: Local, count: int) -> Local:
        return local
