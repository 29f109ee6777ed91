"""A node of a program: its kind and its attributes. Nodes are made by the functions of ``nodes.py``."""

from __future__ import annotations

import itertools
from enum import IntEnum
from typing import Any

from .tables import Table


class Kind(IntEnum):
    """What a node does. The numbers are those of the core and of constraints as bytes."""

    LEX, SEQ, ALT, RULE, REPEAT, COUNT, BAG, WITHIN, TOKENS, APART, ITEM = range(11)


class Node:
    """A language of bytes. Equality is identity.

    Attributes
    ----------
    kind
        What the node does with the rest.
    parts
        Its nodes: of a sequence or union all of them, of ``REPEAT`` the item and the separator, of ``BAG`` the value that
        follows each name, by label.
    tables
        Its tables: of ``BAG`` the names of the first member and those of later ones, which begin with the separator.
    low, high
        The least and the most that it counts, ``high=None`` for no limit. Of ``ITEM``: ``low=1`` if it compares JSON values.
    required
        Of ``BAG``: the labels of members that must be there, as the bits of a number.
    members
        Of ``BAG``: how many labels are members, read at most once. Larger labels are read any number of times.
    ordered
        Of ``BAG``: whether the labels of members never fall from one to the next.
    number
        Of each node its own; a node made later has a larger one.
    pruned
        Whether each rule in it is known to have a text; see ``prune.py``.
    """

    __slots__ = (
        "__weakref__",
        "high",
        "kind",
        "low",
        "members",
        "number",
        "ordered",
        "parts",
        "pruned",
        "required",
        "tables",
    )
    _numbers = itertools.count()

    def __init__(
        self,
        kind: Kind,
        parts: tuple[Node, ...] = (),
        tables: tuple[Table, ...] = (),
        low: int = 0,
        high: int | None = None,
        required: int = 0,
        members: int = 0,
        ordered: bool = False,
    ) -> None:
        self.kind, self.parts, self.tables, self.low, self.high = kind, parts, tables, low, high
        self.required, self.members, self.ordered = required, members, ordered
        self.number, self.pruned = next(self._numbers), False

    @property
    def attributes(self) -> tuple[Any, ...]:
        """What makes the node what it is, in the order in which it is made: nodes with equal ones read the same texts."""
        counts = self.low, self.high, self.required, self.members, self.ordered
        return self.kind, self.parts, self.tables, *counts

    def __repr__(self) -> str:
        return f"{self.kind.name.title()}({self.number})"

    @property
    def is_nothing(self) -> bool:
        """Whether this is the node without texts."""
        return self.kind is Kind.ALT and not self.parts
