"""What bounds on counts leave possible: states of a counted table, members of a bag."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ..automata.work import metered, spend
from .node import Node
from .tables import Table, table


class Alive(NamedTuple):
    """Which states of a counted table can be completed, by the characters read.

    ``begins``: the numbers of characters, from 0 upwards, from which on each of ``sets`` holds. ``last``: the most that are
    told apart.
    """

    begins: list[int]
    sets: list[Bool[ndarray, " states"]]
    last: int

    def after(self, characters: int) -> Bool[ndarray, " states"]:
        """Mark the states from which, after so many characters, a text can still be completed."""
        return self.sets[bisect_right(self.begins, characters) - 1]

    @property
    def num_states(self) -> int:
        """How many states there are with their numbers of characters."""
        ends = [*self.begins[1:], self.last + 1]
        lengths = (end - begin for begin, end in zip(self.begins, ends, strict=True))
        return sum(n * int(np.count_nonzero(found)) for n, found in zip(lengths, self.sets, strict=True))


def alive(node: Node) -> Alive:
    """Return for a ``COUNT`` node which states can be completed, as far as it counts.

    Without an upper bound it counts up to the lower one, after which all can.
    """
    found = _alive.get(node)
    if found is None:
        found = _alive[node] = _alive_after(node.tables[0], node.low, node.high)
    return found


_alive: WeakKeyDictionary[Node, Alive] = WeakKeyDictionary()


def _alive_after(found: Table, low: int, high: int | None) -> Alive:
    size = found.num_states
    pairs = np.divmod(np.unique(found.edges[:, 0].astype(np.int64) * size + found.edges[:, 3]), size)
    is_ending = found.between[pairs[1]]  # the moves that end a character
    from_end, to_end, from_inside, to_inside = (
        *(each[is_ending] for each in pairs),
        *(each[~is_ending] for each in pairs),
    )
    accepting = found.label >= 0

    def before(later: Bool[ndarray, " states"], ends: bool) -> Bool[ndarray, " states"]:
        states = accepting.copy() if ends else np.zeros(size, bool)
        states[from_end[later[to_end]]] = True
        known = -1
        while known != (known := int(np.count_nonzero(states))):
            states[from_inside[states[to_inside]]] = True
        return states

    last = low if high is None else high
    begins, sets = [last], [np.ones(size, bool) if high is None else before(np.zeros(size, bool), True)]
    read = last
    while read > 0:
        read -= 1
        spend(20 + size / 50)
        earlier = before(sets[-1], read >= low)
        if np.array_equal(earlier, sets[-1]):
            read = begins[-1] = (
                low if read > low else 0 if read < low else read
            )  # so it stays, until texts may end no more
        else:
            begins.append(read)
            sets.append(earlier)
    return Alive(begins[::-1], sets[::-1], last)


@metered(maxsize=256)
def written_out(node: Node) -> Table:
    """Return a ``COUNT`` node as a table: a copy of the states for each number of characters."""
    found, live = node.tables[0], [alive(node).after(read) for read in range(alive(node).last + 1)]
    numbers, size = list[Int[ndarray, " states"]](), 0
    for states in live:
        numbers.append(np.cumsum(states) - 1 + size)
        size += int(np.count_nonzero(states))
    spend(size / 10)
    edges, label = list[Int[ndarray, "edges 4"]](), list[Int[ndarray, " states"]]()
    source, low, high, target = found.edges.T
    ends = found.between[target]
    for characters, states in enumerate(live):
        label.append(np.where((found.label >= 0) & (characters >= node.low), 0, -1)[states])
        for step in (0, 1):
            after = characters + step
            if node.high is None:
                after = min(after, node.low)
            if after < len(live):
                kept = (ends == bool(step)) & states[source] & live[after][target]
                edges.append(
                    np.column_stack(
                        [
                            numbers[characters][source[kept]],
                            low[kept],
                            high[kept],
                            numbers[after][target[kept]],
                        ]
                    )
                )
    return table(np.concatenate(edges), np.concatenate(label))


def allowed(node: Node, bits: int, count: int) -> int:
    """Return the labels that a ``BAG`` may read next and still be completed, as the bits of a number.

    ``bits``, ``count``: the labels and the number of members that it has read (see :func:`read_label`).
    """
    return _allowed(node, bits, count, node.tables[1 if count else 0].labels)


def may_begin(node: Node) -> bool:
    """Return whether a ``BAG`` may read a label at all and still be completed."""
    return bool(_allowed(node, 0, 0, node.tables[0].labels))


def _allowed(node: Node, bits: int, count: int, ahead: int) -> int:
    live = _live(node)
    labels = live & ahead & ~(bits & ((1 << node.members) - 1))
    if node.ordered and (missing := node.required & ~bits):
        labels &= (1 << node.members) - 1 & ((missing & -missing) * 2 - 1) | -1 << node.members
    later = live & node.tables[1].labels
    if node.high is None and node.low <= count + 1:  # only what is missing matters
        lost = node.required & ~bits & ~later  # what no later member can be
        return labels if not lost else labels & lost if not lost & (lost - 1) else 0
    found, members = 0, (1 << node.members) - 1
    kinds = members & node.required, members & ~node.required, ~members
    for some in (labels & kind & side for kind in kinds for side in (later, ~later)):
        # After each of these it can be completed alike; in order, the more easily the smaller it is.
        while some:
            spend(3)
            last = some.bit_length() - 1
            if _feasible(node, *read_label(node, bits, count, last), later):
                found |= some
                break
            some = some & ~(1 << last) if node.ordered else 0
    return found


def _live(node: Node) -> int:
    """Return the labels of a ``BAG`` whose value has a text, as the bits of a number."""
    known = _lives.get(node)
    if known is None:
        known = _lives[node] = sum(
            1 << label for label, value in enumerate(node.parts) if not value.is_nothing
        )
    return known


_lives: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def read_label(node: Node, bits: int, count: int, label: int) -> tuple[int, int]:
    """Return the bits and the count of a ``BAG`` after a member of this label.

    The bits are the members read. Of an ordered bag they are all members up to the last one read, since the next one may not
    be smaller. Without an upper bound it counts up to the lower one.
    """
    if label < node.members:
        bits = (2 << label) - 1 if node.ordered else bits | 1 << label
    return bits, count + 1 if node.high is not None else min(count + 1, max(node.low, 1))


def may_end(node: Node, bits: int, count: int) -> bool:
    """Return whether a ``BAG`` may end when it has read these members."""
    return count >= node.low and not node.required & ~bits


def _feasible(node: Node, bits: int, count: int, later: int) -> bool:
    """Return whether a ``BAG`` that has read a member can be completed; ``later``: the labels of members after the first."""
    missing = node.required & ~bits
    least = max(node.low - count, missing.bit_count())  # members to come
    if node.high is not None and count + least > node.high:
        return False
    unread = later & ~bits & ((1 << node.members) - 1)
    return not missing & ~unread and (unread.bit_count() >= least or later >> node.members > 0)
