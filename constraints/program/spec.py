"""What a legal program is, as a table: a row for each kind of node, checked on every node of a program.

The functions of ``nodes.py`` keep to it, and so must whatever rewrites programs. Programs that have been rewritten (``prune.py``)
or read back (``stored.py``) are checked where the environment variable ``TRACTILE_CHECK_PROGRAMS`` is set when the package is
imported, as the tests do; otherwise none is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakSet

from . import nodes
from .node import Kind, Node
from .nodes import SEQ

Law = Callable[[Node], bool]


class Shape(NamedTuple):
    """What a node of one kind has. All that is not named here has its default in :class:`.Node`.

    Attributes
    ----------
    parts
        The least and the most parts, None for no limit.
    tables
        The number of tables.
    fields
        The attributes that may differ from their defaults.
    laws
        What holds beside, each by a sentence about the node.
    """

    parts: tuple[int, int | None]
    tables: int
    fields: frozenset[str] = frozenset()
    laws: tuple[tuple[str, Law], ...] = ()


DEFAULTS = {"low": 0, "high": None, "required": 0, "members": 0, "ordered": False}
COUNTS = frozenset({"low", "high"})


IN_ORDER = (
    "the least count is not above the most",
    lambda node: 0 <= node.low and (node.high is None or node.low <= node.high),
)
BOUNDS_SOMETHING = ("its bounds leave some texts out", lambda node: (node.low, node.high) != (0, None))
PARTS_HAVE_TEXTS = (
    "no part is the node without texts",
    lambda node: not any(part.is_nothing for part in node.parts),
)

LEGAL: dict[Kind, Shape] = {
    Kind.LEX: Shape(parts=(0, 0), tables=1),
    Kind.SEQ: Shape(
        parts=(0, None),
        tables=0,
        laws=(
            ("it has more than one part, or none", lambda node: len(node.parts) != 1),
            (
                "no part is a short sequence: its parts would be parts of this one",
                lambda node: all(p.kind is not SEQ or len(p.parts) > nodes.MOST_INLINED for p in node.parts),
            ),
            PARTS_HAVE_TEXTS,
        ),
    ),
    Kind.ALT: Shape(
        parts=(0, None),
        tables=0,
        laws=(
            ("it has more than one part, or none", lambda node: len(node.parts) != 1),
            (
                "no part is a union: its parts would be parts of this one",
                lambda node: not any(part.kind is Kind.ALT for part in node.parts),
            ),
            ("no part comes twice", lambda node: len(set(node.parts)) == len(node.parts)),
        ),
    ),
    Kind.RULE: Shape(parts=(1, 1), tables=0),
    Kind.REPEAT: Shape(
        parts=(2, 2),
        tables=0,
        fields=COUNTS,
        laws=(
            IN_ORDER,
            PARTS_HAVE_TEXTS,
            ("it may read more or fewer than one item", lambda node: (node.low, node.high) != (1, 1)),
            ("it may read an item", lambda node: node.high != 0),
        ),
    ),
    Kind.COUNT: Shape(parts=(0, 0), tables=1, fields=COUNTS, laws=(IN_ORDER, BOUNDS_SOMETHING)),
    Kind.BAG: Shape(
        parts=(0, None),
        tables=2,
        fields=frozenset(DEFAULTS),
        laws=(
            IN_ORDER,
            (
                "each label of a name has a value",
                lambda node: all(table.labels >> len(node.parts) == 0 for table in node.tables),
            ),
            ("members are labels with a value", lambda node: 0 <= node.members <= len(node.parts)),
            ("what is required are members", lambda node: node.required >> node.members == 0),
            ("it counts what is required", lambda node: node.low >= node.required.bit_count()),
            ("only several members have an order", lambda node: node.members > 1 or not node.ordered),
            (
                "each name ends with a byte of its own, and none is empty",
                lambda node: not any(table.goes_on or table.accepts_empty for table in node.tables),
            ),
            (
                "no byte of a name leads back to the start of its table",
                lambda node: not any((table.edges[:, 3] == 0).any() for table in node.tables),
            ),
        ),
    ),
    Kind.WITHIN: Shape(
        parts=(1, 1),
        tables=1,
        laws=(PARTS_HAVE_TEXTS, ("its table is deterministic", lambda node: node.tables[0].is_deterministic)),
    ),
    Kind.TOKENS: Shape(
        parts=(1, 1), tables=0, fields=COUNTS, laws=(IN_ORDER, BOUNDS_SOMETHING, PARTS_HAVE_TEXTS)
    ),
    Kind.APART: Shape(parts=(1, 1), tables=0, laws=(PARTS_HAVE_TEXTS,)),
    Kind.ITEM: Shape(
        parts=(1, 1),
        tables=0,
        fields=frozenset({"low"}),
        laws=(PARTS_HAVE_TEXTS, ("it compares texts or JSON values", lambda node: node.low in (0, 1))),
    ),
}
"""What a node of each kind is."""


def faults(node: Node) -> list[str]:
    """Return what is wrong with one node, whatever its parts are; an empty list if it is legal."""
    shape = LEGAL[node.kind]
    least, most = shape.parts
    found = []
    if len(node.parts) < least or (most is not None and len(node.parts) > most):
        found.append(f"it has {len(node.parts)} parts")
    if len(node.tables) != shape.tables:
        found.append(f"it has {len(node.tables)} tables")
    found += [
        f"it has {name}={getattr(node, name)}"
        for name, default in DEFAULTS.items()
        if name not in shape.fields and getattr(node, name) != default
    ]
    if not found:
        found = [f"it breaks: {sentence}" for sentence, holds in shape.laws if not holds(node)]
    if node.kind is not Kind.RULE and nodes.interned(*node.attributes) is not node:
        found.append("another node with the same attributes is alive")
    return found


_legal: WeakSet[Node] = WeakSet()


def check(root: Node) -> Node:
    """Return a program, whose nodes all keep to :data:`LEGAL`; raise ``AssertionError`` with the first that does not."""
    for node in nodes.reachable(root):
        if node not in _legal:
            if found := faults(node):
                raise AssertionError(f"{node!r} is no legal node: {'; '.join(found)}")
            if node.kind is not Kind.RULE:  # which may be defined anew
                _legal.add(node)
    return root


checked: Callable[[Node], Node] = check if os.environ.get("TRACTILE_CHECK_PROGRAMS") else lambda root: root
"""Check a program if programs are checked, and return it."""
