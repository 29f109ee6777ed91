"""Upper bounds on the fewest tokens to acceptance: one completion of each configuration, written with the fewest tokens.

A completion is made of those of the frames of a stack. What is known of a frame is kept, so that a new frame on a known
stack costs what its own part of the text does.
"""

from __future__ import annotations

from typing import NamedTuple

from ..automata.lazy import Configuration, LazyAutomaton
from ..automata.stack import Stack, stacks_of
from .token_dag import TokenDag

KEPT = 4  # texts of one stack, of whose ends others are looked for


class Written(NamedTuple):
    """A text and the fewest tokens from each of its places to the end of all."""

    text: bytes
    costs: list[int]
    length: int  # bytes to the end of all


class Completions:
    """Bounds for the configurations of one automaton and one vocabulary; ``eos``: 1 where EOS must be there."""

    def __init__(self, automaton: LazyAutomaton, dag: TokenDag, eos: int) -> None:
        self.automaton, self.dag, self.eos = automaton, dag, eos
        self._end = Written(b"", [eos], 0)
        self._of: dict[Stack, Written] = {}
        self._recent: dict[Stack | None, list[Written]] = {}

    def bound(self, configuration: Configuration) -> int:
        """The fewest tokens that write one completion, ``UNREACHABLE`` if its bytes cannot be written."""
        if isinstance(configuration, Stack | frozenset):
            return min(self._stack(stack).costs[0] for stack in stacks_of(configuration))
        return self.dag.fewest(self.automaton.completion(configuration), [self.eos])[0]

    def _stack(self, stack: Stack) -> Written:
        new: list[Stack] = []
        frame: Stack | None = stack
        while frame is not None and frame not in self._of:
            new.append(frame)
            frame = frame.parent
        below = self._end if frame is None else self._of[frame]
        for frame in reversed(new):
            below = self._of[frame] = self._on(frame, below)
        return below

    def _on(self, frame: Stack, below: Written) -> Written:
        """A frame on what is known of the stack below it."""
        text, reach = frame.machine.completion(frame.local), self.dag.longest
        recent = self._recent.setdefault(frame.parent, [])
        for whole in recent:
            cut = len(whole.text) - len(text)
            if cut >= 0 and whole.text.endswith(text):
                costs = whole.costs[cut:]
                break
        else:
            ahead = below.text[:reach]
            costs = self.dag.fewest(text + ahead, below.costs[: len(ahead) + 1])
            recent.append(Written(text, costs, 0))
            del recent[:-KEPT]
        if len(text) < reach:  # what a token may reach of the stack below
            text += below.text[: reach - len(text)]
        return Written(text, costs[: len(text) + 1], below.length + len(text))
