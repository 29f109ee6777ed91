"""Abstraction of a stack automaton: a finite automaton that accepts all its texts, or more.

Two things are forgotten. Registers: each machine gives way to a coarser one (:meth:`~.region.Machine.coarse`). And the stack:
only the ``depth`` frames above the current one are kept; a machine whose caller was forgotten returns to every caller that it
may have had. With depth 0 this is the recursive transition network read as a finite automaton (Nederhof 2000,
"Practical experiments with regular approximation of context-free languages", section 5).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ...errors import TooManyStates
from .. import limits
from .dfa import minimize
from .nfa import Nfa, trim
from .region import Local, Machine
from .subsets import determinize
from .work import attempt

CHOICES = ((3, 0), (3, 1), (3, 2), (2, 1), (2, 2), (1, 1), (1, 2), (0, 2))
"""(frames of the stack that are kept, level of :meth:`~.region.Machine.coarse`), tried in this order."""

Frame = tuple[Machine, Local]
Node = tuple[Machine, Local, tuple[Frame, ...]]


def abstraction(root: Machine, most_states: int) -> Nfa:
    """Return a minimal DFA of at most ``most_states`` states that accepts all texts of ``root``.

    It keeps as much of the stack as fits. Raises ``TooManyStates`` if no pair of :data:`CHOICES` gives so small a DFA.
    """
    for depth, level in CHOICES:
        with suppress(TooManyStates):
            approximation = Approximation(depth, level)
            approximation.explore(root.coarse(level), 8 * most_states)
            with attempt(limits.WORK / 4):
                found = minimize(determinize(trim(approximation.automaton().plain), 8 * most_states))
            if found.num_states <= most_states:
                return found
    raise TooManyStates(f"the automaton has no abstraction of {most_states} states", limit=most_states)


@dataclass
class Approximation:
    """The NFA of an abstraction. A node is (machine, local state, callers' frames that are kept)."""

    depth: int
    level: int
    nodes: list[Node] = field(default_factory=list)
    number: dict[Node, int] = field(default_factory=dict)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    epsilons: set[tuple[int, int]] = field(default_factory=set)
    accept: list[int] = field(default_factory=list)
    ends: dict[tuple[Machine, tuple[Frame, ...]], list[int]] = field(default_factory=dict)
    callers: dict[tuple[Machine, tuple[Frame, ...]], list[int]] = field(default_factory=dict)

    def node(self, machine: Machine, local: Local, frames: tuple[Frame, ...]) -> int:
        """Return the number of a node; add a new one at the end."""
        key = (machine, local, frames)
        found = self.number.get(key)
        if found is None:
            found = self.number[key] = len(self.nodes)
            self.nodes.append(key)
        return found

    def explore(self, root: Machine, limit: int) -> None:
        """Find all nodes that the root reaches. Raises ``TooManyStates`` beyond ``limit`` nodes."""
        outermost: tuple[Frame, ...] = ()
        self.node(root, root.start(), outermost)
        for here, (machine, local, frames) in enumerate(self.nodes):
            if len(self.nodes) > limit:
                raise TooManyStates("the abstraction grows too large", limit=limit)
            for low, high, after in machine.moves(local):
                self.edges.append((here, low, high, self.node(machine, after, frames)))
            for called, after in machine.calls(local):
                back = self.node(machine, after, frames)
                called = called.coarse(self.level)
                below = ((machine, after), *frames)[: self.depth]
                self.epsilons.add((here, self.node(called, called.start(), below)))
                self._returns(called, below, back)
            if machine.final(local):
                if machine is root and not frames:
                    self.accept.append(here)
                self._ends(machine, frames, here)

    def _returns(self, machine: Machine, frames: tuple[Frame, ...], back: int) -> None:
        known = self.callers.setdefault((machine, frames), [])
        if back not in known:
            known.append(back)
            self.epsilons.update((end, back) for end in self.ends.get((machine, frames), ()))

    def _ends(self, machine: Machine, frames: tuple[Frame, ...], here: int) -> None:
        self.ends.setdefault((machine, frames), []).append(here)
        self.epsilons.update((here, back) for back in self.callers.get((machine, frames), ()))

    def automaton(self) -> Nfa:
        """Return the NFA of the nodes found; calls and returns are epsilon transitions."""
        return Nfa(
            len(self.nodes),
            np.array(self.edges, np.int64).reshape(-1, 4),
            np.array(sorted(self.epsilons), np.int64).reshape(-1, 2),
            np.array([0], np.int64),
            np.array(self.accept, np.int64),
        )
