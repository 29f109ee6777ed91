"""Upper bounds on the fewest tokens to acceptance, from one completion of each configuration.

The completion of a stack is made of those of its frames. Results are cached by frame, so that a new frame on a known stack
costs what its own part of the text does.
"""

from __future__ import annotations

from typing import NamedTuple

from ..automata.lazy import Configuration, LazyAutomaton
from ..automata.stack import JOIN, Stack, lowest_first, stacks_of
from .token_dag import TokenDag

KEPT = 4  # recent texts on one stack, whose suffixes are used again


class Written(NamedTuple):
    """The start of a stack's completion, and the fewest tokens from each place to acceptance.
    It is at least as long as the longest token, or whole."""

    text: bytes
    costs: list[int]


class Completions:
    """Bounds for configurations of one automaton and vocabulary; ``eos``: 1 if EOS is required."""

    def __init__(self, automaton: LazyAutomaton, dag: TokenDag, eos: int) -> None:
        self.automaton, self.dag, self.eos = automaton, dag, eos
        self._end = Written(b"", [eos])
        self._of: dict[Stack, Written] = {}
        self._recent: dict[Stack | None, list[Written]] = {}

    def bound(self, configuration: Configuration) -> int:
        """Return the fewest tokens that write one completion, ``UNREACHABLE`` if none can."""
        if isinstance(configuration, Stack | frozenset):
            return min(self._stack(stack).costs[0] for stack in stacks_of(configuration))
        return self.dag.fewest(self.automaton.completion(configuration), [self.eos])[0]

    def _stack(self, stack: Stack) -> Written:
        if stack not in self._of:
            for frame in lowest_first((stack,), self._of.__contains__):
                below = min(
                    [self._of[each] for each in frame.under],
                    key=lambda each: each.costs[0],
                    default=self._end,
                )
                self._of[frame] = below if frame.machine is JOIN else self._on(frame, below)
        return self._of[stack]

    def _on(self, frame: Stack, below: Written) -> Written:
        """Compute the entry of a frame from that of the stack below it."""
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
            recent.append(Written(text, costs))
            del recent[:-KEPT]
        if len(text) < reach:  # what a token may reach of the stack below
            text += below.text[: reach - len(text)]
        return Written(text, costs[: len(text) + 1])
