"""What bounds on counts leave possible: states of a counted table, members of a bag."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ..._core import Alive as Alive
from ..._core import alive as alive_of
from ..._core import written_out as copies_of
from ..automata.work import metered, spend
from .node import Kind, Node
from .tables import Table


def alive(node: Node) -> Alive:
    """Return for a ``COUNT`` node which pairs (state, number of characters) lead to acceptance.

    Without an upper bound it counts up to the lower one, after which all can. ``after(characters)`` marks the states; ``last``:
    the most characters that are told apart; ``num_states``: the states with their numbers of characters.
    """
    found = _alive.get(node)
    if found is None:
        found = _alive[node] = alive_of(node.tables[0], node.low, node.high)
    return found


_alive: WeakKeyDictionary[Node, Alive] = WeakKeyDictionary()


@metered(maxsize=256)
def written_out(node: Node) -> Table:
    """Return a ``COUNT`` node as a table: a copy of the states for each number of characters."""
    return copies_of(node.tables[0], alive(node), node.low, node.high)


def allowed(node: Node, bits: int, count: int) -> int:
    """Return the labels that a ``BAG`` may read next and still be completed, as the bits of a number.

    ``bits``, ``count``: the labels and the number of members that it has read (see :func:`read_label`).
    """
    return _allowed(node, bits, count, node.tables[1 if count else 0].labels)


def may_begin(node: Node) -> bool:
    """Return whether a ``BAG`` may read a label at all and still be completed."""
    live = _live(node)
    first, later = live & node.tables[0].labels, live & node.tables[1].labels
    if node.high is None and node.low == node.required.bit_count() and not node.required & ~(first & later):
        return first != 0  # no more is wanted than the required ones, which may come in any place
    return bool(_allowed(node, 0, 0, node.tables[0].labels))


def _allowed(node: Node, bits: int, count: int, ahead: int) -> int:
    """Return the labels of ``ahead`` that may come after ``count`` members, those of ``bits`` among them; sets are bit masks."""
    live, members = _live(node), (1 << node.members) - 1
    labels = live & ahead & ~(bits & members)
    if node.ordered and (missing := node.required & ~bits):
        labels &= members & ((missing & -missing) * 2 - 1) | -1 << node.members
    later = live & node.tables[1].labels
    if node.high is None and node.low <= count + 1:  # only what is missing matters
        lost = node.required & ~bits & ~later  # what no later member can be
        return labels if not lost else labels & lost if not lost & (lost - 1) else 0
    found, kinds = 0, (members & node.required, members & ~node.required, ~members)
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
    nothing = [
        1 << label for label, value in enumerate(node.parts) if value.kind is Kind.ALT and not value.parts
    ]
    return (1 << len(node.parts)) - 1 - sum(nothing)


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
