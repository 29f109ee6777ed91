"""What bounds on counts leave possible: states of a counted table, members of a bag."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from .node import Node
from .tables import Table


def alive(node: Node) -> list[Bool[ndarray, " states"]]:
    """Return for a ``COUNT`` node which states can be completed after 0, 1, … characters, as far as it counts.

    Without an upper bound it counts up to the lower one, after which all can. Equal answers in a row are one array.
    """
    found = _alive.get(node)
    if found is None:
        found = _alive[node] = _alive_after(node.tables[0], node.low, node.high)
    return found


_alive: WeakKeyDictionary[Node, list[Bool[ndarray, " states"]]] = WeakKeyDictionary()


def _alive_after(found: Table, low: int, high: int | None) -> list[Bool[ndarray, " states"]]:
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

    now = np.ones(size, bool) if high is None else before(np.zeros(size, bool), True)
    last = low if high is None else high
    sets = [now]
    for read in range(last - 1, -1, -1):
        after = before(now, read >= low)
        if np.array_equal(after, now):
            if read > low:  # as it stays until the lower bound
                sets += [now] * (read - low + 1)
                for below in range(low - 1, -1, -1):
                    now = before(now, below >= low)
                    sets.append(now)
                break
            after = now
        sets.append(now := after)
    return sets[::-1]


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
    found = 0
    while labels:
        label = labels & -labels
        labels ^= label
        if _feasible(node, *read_label(node, bits, count, label.bit_length() - 1), later):
            found |= label
    return found


def _live(node: Node) -> int:
    """Return the labels whose value has texts."""
    return sum(1 << label for label, value in enumerate(node.parts) if not value.is_nothing)


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
