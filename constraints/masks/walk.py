"""The walk down a trie with a state of a lazy automaton beside each node.

It goes node by node. If much is left after :data:`STEPS` nodes, the rest goes on together, level by level in arrays, until
little is left. It does not enter free text with many tokens below: what follows there is in ``text_tokens.py``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata.arrays import mapped, ragged_arange, values_of
from ..automata.lazy import Body, Numbered, Pattern
from ..automata.stack import StackAutomaton, stacks_of
from ..automata.transitions import Transitions
from ..vocabulary.trie import Trie

STEPS = 300  # nodes visited one by one
FEW = 24  # tokens below a node that are walked even in free text
MANY = 500  # tokens below what is left for which a sweep pays
FEW_PAIRS = 40  # pairs left, at which a sweep ends
MAX_BODIES = 1 << 14  # states whose free text is cached
Pairs = list[tuple[int, int]]  # (state, node)


class Found(NamedTuple):
    """What a walk has met."""

    ends: Pairs  # nodes where tokens may end, with the state there
    texts: Pairs  # nodes at which free text begins, with the state there; the tokens below are not walked
    swept: list[
        tuple[Int[ndarray, " token"], Int[ndarray, " token"]]
    ]  # (states, ranks of the tokens that lead there)
    moved: set[int]  # the states that it has moved on from
    patterns: Pairs  # nodes at which a pattern goes on; the tokens below are not walked


class Walk:
    """Walks from the configurations of one automaton, down any trie."""

    def __init__(self, states: Numbered) -> None:
        self.states = states
        self._bodies: dict[int, Body | None] = {}
        self._forgetful: dict[int, int] = {}
        self._forget = getattr(states.automaton, "forgetful", None)
        self._forced: dict[int, tuple[bytes, int] | None] = {}
        self._force = getattr(states.automaton, "forced", None)
        self._rows = Transitions(states.moves, states.after)
        self._patterns: dict[int, Pattern | None] = {}
        self._pattern = getattr(states.automaton, "pattern", None)
        self.unites = type(states.automaton) is StackAutomaton
        """Whether a set of stacks reads what any of its stacks reads."""
        self._words = states.automaton.words if isinstance(states.automaton, StackAutomaton) else None
        self._members: dict[int, tuple[int, ...]] = {}

    def _after_word(self, state: int, which: int) -> int:
        automaton = self.states.automaton
        assert isinstance(automaton, StackAutomaton)
        configuration = automaton.after_word(self.states.configurations[state], which)
        return -1 if configuration is None else self.states.number(configuration)

    def members(self, state: int) -> tuple[int, ...]:
        """Return the states of the stacks of a set; none for a single stack."""
        try:
            return self._members[state]
        except KeyError:
            if len(self._members) >= MAX_BODIES:
                self._members.clear()
            configuration, number = self.states.configurations[state], self.states.number
            found: tuple[int, ...] = ()
            if self.unites and isinstance(configuration, frozenset):
                found = tuple([number(stack) for stack in stacks_of(configuration)])
            self._members[state] = found
            return found

    def body(self, state: int) -> Body | None:
        """Return the free text at a state, ``None`` if there is none."""
        try:
            return self._bodies[state]
        except KeyError:
            if len(self._bodies) >= MAX_BODIES:
                self._bodies.clear()
            automaton, configuration = self.states.automaton, self.states.configurations[state]
            found = self._bodies[state] = automaton.body(configuration)
            return found

    def forgetful(self, state: int) -> int:
        """Return the forgetful state of a state, see ``StackAutomaton.forgetful``."""
        found = self._forgetful.get(state)
        if found is None:
            if len(self._forgetful) >= MAX_BODIES:
                self._forgetful.clear()
            found = state
            if self._forget is not None:
                configuration = self.states.configurations[state]
                found = self.states.number(self._forget(configuration))
            self._forgetful[state] = found
        return found

    def pattern(self, state: int) -> Pattern | None:
        """Return the pattern at a state, ``None`` if there is none."""
        if self._pattern is None:
            return None
        try:
            return self._patterns[state]
        except KeyError:
            if len(self._patterns) >= MAX_BODIES:
                self._patterns.clear()
            found: Pattern | None = self._pattern(self.states.configurations[state])
            self._patterns[state] = found
            return found

    def forced(self, state: int) -> tuple[bytes, int] | None:
        """Return bytes that are each the only one possible in a state, and the state after them."""
        if self._force is None:
            return None
        try:
            return self._forced[state]
        except KeyError:
            if len(self._forced) >= MAX_BODIES:
                self._forced.clear()
            made = self._force(self.states.configurations[state])
            found = None if made is None else (made[0], self.states.number(made[1]))
            self._forced[state] = found
            return found

    def walk(self, trie: Trie, begin: Pairs, exact: bool = True, words: bool = False) -> Found:
        """Read the tokens at and below some nodes from the states beside them.

        With ``exact=False`` a token that ends among forced bytes is given with the state before these, and the stacks of a set
        are walked one by one: a token may be met several times. States are forgetful: what is found is right but for tokens
        that hold two names. With ``words`` a token that ends within a word, too, is given with the state before the word.
        """
        first, own, low, high, _ = trie.views
        letters, moves_of, after, body = trie.letters, self.states.moves, self.states.after, self.body
        children = trie.children
        found, stack, steps = Found([], [], [], set(), []), list(begin), STEPS
        configurations, unites = self.states.configurations, self.unites and not exact
        words_of = self._words if words else None
        seen: set[tuple[int, int]] | None = None  # once a set has been met
        while stack:
            if steps == 0:
                steps = STEPS
                if len(stack) > STEPS or sum([high[node] - low[node] for _, node in stack]) > MANY:
                    stack = self._sweep(trie, stack, found, exact)
                    if not stack:
                        break
            steps -= 1
            state, node = pair = stack.pop()
            if not exact:
                state = self.forgetful(state)
            if unites and configurations[state].__class__ is frozenset:
                stack += [(member, node) for member in self.members(state)]
                seen = set() if seen is None else seen
                continue
            if seen is not None:
                if pair in seen:
                    continue
                seen.add(pair)
            ends, begin_child, end_child = own[node], first[node], first[node + 1]
            if ends:
                found.ends.append((state, node))
            if begin_child == end_child:
                continue
            if high[node] - low[node] - ends > FEW:
                if body(state) is not None:
                    found.texts.append((state, node))
                    continue
                if not exact and self.pattern(state) is not None:
                    found.patterns.append((state, node))
                    continue
            found.moved.add(state)
            if words_of is not None and (some := words_of(configurations[state])) is not None:
                for text, which in some:
                    below = node
                    for byte in text:
                        below = children(below).get(byte, 0)
                        if not below:
                            break
                        if own[below]:
                            found.ends.append((state, below))
                    else:
                        if own[below]:
                            found.ends.pop()
                        if (target := self._after_word(state, which)) >= 0:
                            stack.append((target, below))
                continue
            if not exact and (forced := self.forced(state)) is not None:
                text, target = forced
                for left in range(len(text) - 1, -1, -1):
                    node = children(node).get(text[~left], 0)
                    if not node:
                        break
                    if left and own[node]:
                        found.ends.append((state, node))
                else:
                    stack.append((target, node))
                continue
            if end_child - begin_child < 5:
                for child in range(begin_child, end_child):
                    target = after(state, letters[child])
                    if target >= 0:
                        stack.append((target, child))
            else:
                at = begin_child
                for least, most, target in moves_of(state):
                    at = bisect_left(letters, least, at, end_child)
                    until = at + 1 if least == most else bisect_right(letters, most, at, end_child)
                    if until > at and at < end_child and letters[at] <= most:
                        stack += [(target, child) for child in range(at, until)]
                        at = until
        return found

    def _sweep(self, trie: Trie, pairs: Pairs, found: Found, exact: bool) -> Pairs:
        """Walk from all pairs together, level by level, until few are left; return these."""
        state, nodes = np.array(pairs, np.int64).T
        while len(nodes) > FEW_PAIRS:
            if not exact:
                state = mapped(state, self.forgetful, np.int64)
            own = trie.own[nodes]
            if own.any():
                found.swept.append((np.repeat(state, own), ragged_arange(trie.low[nodes], own)))
            large = np.flatnonzero(trie.high[nodes] - trie.low[nodes] - own > FEW)
            apart = large[mapped(state[large], lambda each: self.body(each) is not None, bool)].tolist()
            if apart:
                found.texts.extend((int(state[i]), int(nodes[i])) for i in apart)
                state, nodes = np.delete(state, apart), np.delete(nodes, apart)
            count = trie.first[nodes + 1] - trie.first[nodes]
            found.moved.update(values_of(state[count > 0]).tolist())
            nodes = ragged_arange(trie.first[nodes], count)
            state = self._rows.after(np.repeat(state, count), trie.byte[nodes])
            kept = state >= 0
            state, nodes = state[kept], nodes[kept]
        return list(zip(state.tolist(), nodes.tolist(), strict=True))
