"""Automata of strings with a bounded number of characters: a copy of the states for each count.

    (s, c) --byte--> (t, c)  within a character        (s, c) --byte--> (t, c + 1)  at the end of one

States between two characters are told from those within one by running the automaton of all strings alongside. Only states on an
accepting path of the right length are copied.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from .. import limits
from ..automata import dfa, epsilon
from ..automata.arrays import csr_index, ragged_arange, unique_rows
from ..automata.epsilon import NO_EPSILONS
from ..automata.nfa import Nfa, check_limit

Pairs = Int[ndarray, "pair 2"]


class Plan(NamedTuple):
    """The states that each copy has.

    ``sets``: distinct sets of states. ``which``: the index of the set of each copy. ``loops``: whether the last copy leads to
    itself and stands for all further characters.
    """

    sets: Bool[ndarray, "set state"]
    which: Int[ndarray, " copy"]
    loops: bool

    @property
    def size(self) -> int:
        """The number of states in all copies."""
        return int(self.sets.sum(axis=1)[self.which].sum())


class Letters:
    """A DFA of string contents that knows which of its states lie between two characters.
    ``body``: the DFA of the contents of all strings."""

    def __init__(self, found: Nfa, body: Nfa) -> None:
        self.nfa = nfa = dfa.intersect(found, body)
        self.size = nfa.num_states
        self.plans: dict[tuple[int, int | None], Plan] = {}
        table = np.zeros((body.num_states, 256), np.int64)
        for source, low, high, target in body.edges.tolist():
            table[source, low : high + 1] = target
        pointer, order = csr_index(nfa.edges[:, 0], self.size)
        rows, bounds = nfa.edges[order].tolist(), pointer.tolist()
        phase = dict.fromkeys(nfa.start.tolist(), int(body.start[0]))
        for state in (queue := list(phase)):
            for _, byte, _, target in rows[bounds[state] : bounds[state + 1]]:
                if target not in phase:
                    phase[target] = int(table[phase[state], byte])
                    queue.append(target)
        self.between = np.array([phase[s] == body.start[0] for s in range(self.size)], bool)

    @cached_property
    def pairs(self) -> tuple[Pairs, Pairs, Pairs]:
        """Pairs of states (before, after) a character, (before, within) one, and (within, after) one."""
        pairs = unique_rows(self.nfa.edges[:, [0, 3]])
        before, after = self.between[pairs[:, 0]], self.between[pairs[:, 1]]
        enter, inner, leave = pairs[before & ~after], pairs[~before & ~after], pairs[~before & after]
        into, out = [enter], [leave]
        while len(into[-1]):  # a character has a few bytes
            into.append(self.join(into[-1], inner))
            out.append(self.join(inner, out[-1]))
        entries = unique_rows(np.concatenate(into))
        over = unique_rows(np.concatenate([pairs[before & after], self.join(entries, leave)]))
        return over, entries, unique_rows(np.concatenate(out))

    def join(self, a: Pairs, b: Pairs) -> Pairs:
        """Return the composition of two relations.
        It has (x, z) for (x, y) in ``a`` and (y, z) in ``b``."""
        pointer, order = csr_index(b[:, 0], self.size)
        count = pointer[a[:, 1] + 1] - pointer[a[:, 1]]
        ends = b[order[ragged_arange(pointer[a[:, 1]], count)], 1]
        return unique_rows(np.column_stack([np.repeat(a[:, 0], count), ends]))

    def plan(self, least: int, most: int | None) -> Plan:
        """Return the states to copy for strings of ``least`` to ``most`` characters, cached.
        Raises ``TooManyStates``."""
        if (least, most) not in self.plans:
            self.plans[least, most] = self.planned(least, most)
        return self.plans[least, most]

    def planned(self, least: int, most: int | None) -> Plan:
        """Compute the states to copy: those on an accepting path of the right length.
        Raises ``TooManyStates``."""
        over, entries, exits = self.pairs
        last = least if most is None else most
        check_limit((last + 1) * self.size, 100 * limits.STATES)
        start, accept = np.zeros((2, self.size), bool)
        start[self.nfa.start], accept[self.nfa.accept] = True, True
        ahead = spread(start, over, last)
        if most is None:
            ahead[-1] = spread(ahead[-1], over, int(self.between.sum()), always=ahead[-1])[-1]
            late = self.between[None]
        else:
            late = spread(accept, over[:, ::-1], last - least, always=accept)
        behind = np.concatenate([late, spread(late[-1], over[:, ::-1], least)[1:]])[::-1]
        after = np.concatenate([behind[1:], behind[-1:] & (most is None)])
        numbers: dict[bytes, int] = {}
        sets: list[Bool[ndarray, " state"]] = []
        which = []
        for c, key in enumerate(np.packbits(np.concatenate([ahead, behind, after], axis=1), axis=1)):
            if (number := numbers.setdefault(key.tobytes(), len(sets))) == len(sets):
                within = image(ahead[c], entries) & image(after[c], exits[:, ::-1])
                sets.append((ahead[c] & behind[c]) | within)
            which.append(number)
        return Plan(np.array(sets), np.array(which), most is None)

    def copied(self, least: int, most: int | None) -> Nfa:
        """Return the DFA of the strings with ``least`` to ``most`` characters.
        Raises ``TooManyStates``."""
        sets, which, loops = plan = self.plan(least, most)
        check_limit(plan.size)
        edges, between = self.nfa.edges, self.between
        local, size = np.cumsum(sets, axis=1) - 1, sets.sum(axis=1)
        offset = np.cumsum(size[which]) - size[which]
        onward = np.append(np.arange(1, len(which)), len(which) - 1)
        rows, accept = [], []
        kinds, kind = np.unique(np.column_stack([which, which[onward]]), axis=0, return_inverse=True)
        for i, (here, there) in enumerate(kinds.tolist()):
            copies = np.flatnonzero(kind.ravel() == i)
            for ends, target, copy in ((~between, here, copies), (between, there, onward[copies])):
                if ends is between and not loops:
                    copies, copy = copies[copies < len(which) - 1], copy[copies < len(which) - 1]
                kept = edges[sets[here][edges[:, 0]] & ends[edges[:, 3]] & sets[target][edges[:, 3]]]
                shape = len(copies), len(kept)
                columns = [
                    offset[copies][:, None] + local[here][kept[:, 0]],
                    np.broadcast_to(kept[:, 1], shape),
                    np.broadcast_to(kept[:, 2], shape),
                    offset[copy][:, None] + local[target][kept[:, 3]],
                ]
                rows.append(np.column_stack([column.ravel() for column in columns]))
        final = np.zeros(self.size, bool)
        final[self.nfa.accept] = True
        for c in range(least, len(which)):
            accept.append(offset[c] + local[which[c]][final & sets[which[c]]])
        start = local[which[0]][self.nfa.start[sets[which[0]][self.nfa.start]]]
        return plain(Nfa(plan.size, np.concatenate(rows), NO_EPSILONS, start, np.concatenate(accept)))


def image(states: Bool[ndarray, " state"], pairs: Pairs) -> Bool[ndarray, " state"]:
    """Return the states that pairs (source, target) reach from the given states."""
    found = np.zeros(len(states), bool)
    found[pairs[states[pairs[:, 0]], 1]] = True
    return found


def spread(
    states: Bool[ndarray, " state"], pairs: Pairs, count: int, always: Bool[ndarray, " state"] | None = None
) -> Bool[ndarray, "step state"]:
    """Return the states after 0 to ``count`` steps, adding ``always`` after each step."""
    found = np.zeros((count + 1, len(states)), bool)
    found[0] = states
    for c in range(count):
        found[c + 1] = image(found[c], pairs)
        if always is not None:
            found[c + 1] |= always
        if np.array_equal(found[c], found[c + 1]):
            found[c + 2 :] = found[c]
            break
    return found


def plain(nfa: Nfa) -> Nfa:
    """Mark an automaton as trimmed and epsilon-free, and sort its edges."""
    order = nfa.by_byte
    return epsilon.plain(nfa if order is None else replace(nfa, edges=nfa.edges[order]))
