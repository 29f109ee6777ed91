"""Tables: byte automata as the leaves of a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from weakref import WeakValueDictionary

import numpy as np
from jaxtyping import Bool, Int, Int32
from numpy import ndarray

from ..automata.dfa import simplify
from ..automata.epsilon import Rows
from ..automata.nfa import Nfa, literal, network, of_rows, rows_of
from ..automata.subsets import resolved
from ..automata.work import spend, uncollected

_known: WeakValueDictionary[tuple[bytes, ...], Table] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class Table:
    """A byte automaton: state 0 is its start, from each state some text is accepted, and each label is that of some text.

    It is deterministic, unless determinization would take too much: then several moves of a state may read the same byte.
    Equal tables are one object, so equality is identity. Made by :func:`table` or :func:`of_nfa`.

    Attributes
    ----------
    edges
        (edges, 4): source, lowest byte, highest byte, target; sorted by source and lowest byte.
    label
        (states,): what an accepted text is: −1 where none is accepted, otherwise a number ≥ 0, 0 if nothing is told apart.
    between
        (states,): whether a character has just ended; all False in a table whose characters are not counted.
    base, in_base
        A table that is shared by many such as this one, which read what it reads but for some texts; and for each state the
        state of ``base`` that its text leads to there, −1 where it leads to none. Both have the same moves from where
        ``apart`` is False on. An engine need not look at them.
    apart
        (states,): whether something read from here on is read otherwise in ``base``.
    """

    edges: Int32[ndarray, "edges 4"]
    label: Int32[ndarray, " states"]
    between: Bool[ndarray, " states"]
    base: Table | None = None
    in_base: Int32[ndarray, " states"] | None = None
    apart: Bool[ndarray, " states"] | None = None

    @property
    def num_states(self) -> int:
        return len(self.label)

    @cached_property
    def rows(self) -> Rows:
        """For each state its moves (lowest byte, highest byte, target), merged, in the order of their bytes."""
        return rows_of(self.edges, self.num_states)

    @cached_property
    def ends(self) -> list[int]:
        """The states that accept."""
        return [state for state, label in enumerate(self.label.tolist()) if label >= 0]

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether no two moves of a state read the same byte."""
        source, low, high, _ = self.edges.T
        return bool(((source[1:] != source[:-1]) | (low[1:] > high[:-1])).all())

    @cached_property
    def labels(self) -> int:
        """The labels of its texts, as the bits of a number."""
        return sum(1 << label for label in set(self.label.tolist()) if label >= 0)

    @cached_property
    def labels_ahead(self) -> list[int]:
        """For each state the set of labels that may still be read, as the bits of a number."""
        spend(self.num_states * (1 + self.labels.bit_length() / 1000) / 2)
        ahead = [1 << found if found >= 0 else 0 for found in self.label.tolist()]
        pairs = np.unique(self.edges[:, 0].astype(np.int64) * len(ahead) + self.edges[:, 3])[::-1]
        moves = np.column_stack(np.divmod(pairs, len(ahead))).tolist()  # from late states first: few rounds
        changed = True
        while changed:
            changed = False
            for source, target in moves:
                if ahead[target] & ~ahead[source]:
                    ahead[source] |= ahead[target]
                    changed = True
        return ahead


def table(
    edges: Int32[ndarray, "edges 4"] | Iterable[tuple[int, int, int, int]],
    label: Iterable[int],
    between: Iterable[bool] | None = None,
    base: tuple[Table, Iterable[int], Iterable[bool]] | None = None,
) -> Table:
    """Return the table of these arrays, the one that is known if an equal one is alive."""
    rows = in_order(np.array(edges, np.int32).reshape(-1, 4))
    labels = np.array(label, np.int32)
    marks = np.zeros(len(labels), bool) if between is None else np.array(between, bool)
    key = rows.tobytes(), labels.tobytes(), marks.tobytes(), b"" if base is None else b"%d" % id(base[0])
    found = _known.get(key)
    if found is None:
        for each in (rows, labels, marks):
            each.setflags(write=False)
        shared = () if base is None else (base[0], np.array(base[1], np.int32), np.array(base[2], bool))
        found = _known[key] = Table(rows, labels, marks, *shared)
    return found


def in_order(edges: Int[ndarray, "edges 4"]) -> Int[ndarray, "edges 4"]:
    """Return edges sorted by source and lowest byte."""
    key = edges[:, 0] * 256 + edges[:, 1]
    return edges if (key[1:] >= key[:-1]).all() else edges[np.argsort(key, kind="stable")]


@uncollected()
def of_nfa(nfa: Nfa) -> Table | None:
    """Return the table of a byte automaton, minimal if it could be determinized; None if it accepts nothing."""
    plain = simplify(nfa.plain)
    if not plain.is_deterministic:
        plain = resolved(plain)
    if not plain.num_states:
        return None
    if len(plain.start) > 1:  # one start
        plain = network(2, [(0, plain, 1)], 0, 1).plain
    # states in the order of a breadth-first search, so that equal languages give equal tables
    order = plain.start.tolist()
    number = {order[0]: 0}
    for state in order:
        for _, _, target in plain.rows[state]:
            if target not in number:
                number[target] = len(order)
                order.append(target)
    flat = list[int]()
    for source, state in enumerate(order):
        for low, high, target in plain.rows[state]:
            flat += (source, low, high, number[target])
    accept = set(plain.accept.tolist())
    return table(np.array(flat, np.int32), [0 if state in accept else -1 for state in order])


@lru_cache(maxsize=1024)
def of_text(text: bytes) -> Table:
    """Return the table of exactly one text."""
    nfa = literal(text)
    return table(nfa.edges, [*[-1] * len(text), 0])


def with_fresh_start(found: Table) -> Table:
    """Return a table of the same texts whose start has no moves into it: in state 0 nothing has been read."""
    if found.edges[:, 3].min(initial=1):
        return found
    again = found.edges[found.edges[:, 0] == 0]
    edges = np.concatenate([np.add(found.edges, (1, 0, 0, 1)), np.add(again, (0, 0, 0, 1))])
    return table(edges, [found.label[0], *found.label], [found.between[0], *found.between])


@lru_cache(maxsize=1024)
def loop(found: Table) -> Table | None:
    """Return the table of texts of ``found`` in a row, a character ending with each; None if one text goes on where
    another ends."""
    ends = found.label >= 0
    begins_again = bool((found.edges[:, 3] == 0).any())
    if ends[0] or begins_again or ends[found.edges[:, 0]].any() or not found.is_deterministic:
        return None
    # all ends are the start; its number stays
    number = np.where(ends, 0, np.cumsum(~ends) - 1)
    edges = np.array(found.edges)
    edges[:, 0], edges[:, 3] = number[edges[:, 0]], number[edges[:, 3]]
    starts = np.arange(int((~ends).sum())) == 0
    return table(edges, np.where(starts, 0, -1), starts)


def to_nfa(found: Table) -> Nfa:
    """Return a table as an automaton of ``automata``, its labels forgotten."""
    return of_rows(found.rows, [0], found.ends)
