"""Nodes: what people write, as data.

A program is a node, and a node is a language of bytes:

    Lex        the texts of a table (a byte automaton)
    Seq, Alt   concatenation, union
    Rule       the texts of the node that it is defined by; rules may call each other in circles
    Repeat     texts of a node, counted, with a separator between them
    Count      the texts of a table with a number of characters within bounds
    Bag        members, each at most once, in any order or in theirs: the members of an object
    Within     the texts of a node that a table accepts as well
    Tokens     the texts of a node with a number of tokens within bounds
    Apart      the texts of a node in which the items that differ do

Nodes are immutable and hash-consed: equal nodes are one object, so what an engine finds out about a node holds for all
constraints that have it. They are made by the functions of this file, which also leave out what cannot be read. A question
about a node is a function with a case for each kind: see ``engine/``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from weakref import WeakValueDictionary, ref

from .counting import alive, may_begin, may_end
from .node import Kind, Node
from .tables import Table, loop, of_text, with_fresh_start

MOST_INLINED = 16
"""The most parts of a sequence that become parts of one around it.

A longer one stays a node of its own: sequences of sequences would double at each level where sharing keeps them small.
"""

SEQ, ALT = Kind.SEQ, Kind.ALT
"""Found faster than the members of an enumeration."""


class NodeReference(ref[Node]):
    """A node that is kept as long as somebody has it, and its attributes."""

    __slots__ = ("attributes",)
    attributes: tuple[Hashable, ...]


def forget(gone: NodeReference) -> None:
    """Forget a node that is no more, unless an equal one has been made since."""
    if _known.get(gone.attributes) is gone:
        del _known[gone.attributes]


_known: dict[tuple[Hashable, ...], NodeReference] = {}
_rules: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()


def interned(
    kind: Kind,
    parts: tuple[Node, ...] = (),
    tables: tuple[Table, ...] = (),
    low: int = 0,
    high: int | None = None,
    required: int = 0,
    members: int = 0,
    ordered: bool = False,
) -> Node:
    """Return the node with these attributes of :class:`.Node`: the existing one if it is alive, else a new one (hash-consing).

    It simplifies nothing; the functions below do, and call this. Rules are made by :func:`rule`.
    """
    attributes = kind, parts, tables, low, high, required, members, ordered
    known = _known.get(attributes)
    found = None if known is None else known()
    if found is None:
        found = Node(*attributes)
        known = _known[attributes] = NodeReference(found, forget)
        known.attributes = attributes
    return found


EMPTY = interned(Kind.SEQ, ())
"""Only the empty text."""
NOTHING = interned(Kind.ALT, ())
"""No text."""


def lex(table: Table | None) -> Node:
    """Return the node of a table's texts; of None, the node without texts."""
    return NOTHING if table is None else interned(Kind.LEX, (), (table,))


@lru_cache(maxsize=256)
def text(data: bytes) -> Node:
    """Return the node of one text."""
    return lex(of_text(data)) if data else EMPTY


def seq(*parts: Node) -> Node:
    """Return the node of texts of some nodes, one after the other."""
    flat: list[Node] = []
    for part in parts:
        if part.kind is SEQ and len(part.parts) <= MOST_INLINED:
            flat += part.parts
        else:
            flat.append(part)
    if NOTHING in flat:
        return NOTHING
    return flat[0] if len(flat) == 1 else interned(SEQ, tuple(flat))


def alt(*options: Node) -> Node:
    """Return the node of the texts of any of some nodes."""
    flat = dict.fromkeys(
        [each for option in options for each in (option.parts if option.kind is ALT else (option,))]
    )
    return next(iter(flat)) if len(flat) == 1 else interned(ALT, tuple(flat))


def rule(key: Hashable = None) -> Node:
    """Return the rule of this key, to be given its texts by :func:`define`; without a key a new one.

    Give a key that says all of what the rule reads: a rule that is alive is shared by whoever asks for the same key.
    """
    if key is None:
        return Node(Kind.RULE)
    found = _rules.get(key)
    if found is None:
        found = _rules[key] = Node(Kind.RULE)
    return found


def define(found: Node, body: Node) -> Node:
    """Let a rule read the texts of ``body``, and return the rule."""
    found.parts = (body,)
    return found


def repeat(item: Node, low: int = 0, high: int | None = None, separator: Node = EMPTY) -> Node:
    """Return the node of ``low`` to ``high`` texts of ``item``, with a text of ``separator`` between them."""
    if high is not None and low > high:
        return NOTHING
    if item is NOTHING or high == 0 or separator is NOTHING:
        options = [EMPTY] if low == 0 else []
        return alt(*options, *([item] if high != 0 and low <= 1 else []))
    if (low, high) == (1, 1):
        return item
    if item.kind is Kind.LEX and separator is EMPTY and (again := loop(item.tables[0])) is not None:
        return count(again, low, high)
    return interned(Kind.REPEAT, (item, separator), (), low, high)


def count(found: Table | None, low: int = 0, high: int | None = None) -> Node:
    """Return the node of those texts of a table that have ``low`` to ``high`` characters; one ends at each ``between``."""
    if found is None or (low == 0 and high is None):
        return lex(found)
    if high is not None and low > high:
        return NOTHING
    node = interned(Kind.COUNT, (), (found,), low, high)
    return node if alive(node).can_begin else NOTHING


def bag(
    first: Table,
    later: Table,
    values: Iterable[Node],
    members: int,
    required: Iterable[int] = (),
    low: int = 0,
    high: int | None = None,
    ordered: bool = False,
) -> Node:
    """Return the node of ``low`` to ``high`` members: each a name, which ``first`` or ``later`` reads, and its value.

    Parameters
    ----------
    first, later
        The names of the first member, and of those after it, with all that stands before and after a name. The label of an
        accepting state says which value follows; no state goes on after one that is accepted (``spec.py`` has all laws).
    values
        The value of each label. A label whose value has no texts is never read.
    members
        How many labels are members, read at most once each; the labels from ``members`` on may be read any number of times.
    required
        Labels of members that must be read.
    ordered
        Labels never fall from one member to the next; the labels from ``members`` on stand anywhere.
    """
    parts = tuple(values)
    needed = sum([1 << each for each in {*required}])
    names = with_fresh_start(first), with_fresh_start(later)
    ordered = ordered and members > 1
    found = interned(Kind.BAG, parts, names, max(low, needed.bit_count()), high, needed, members, ordered)
    if may_begin(found):
        return found
    return EMPTY if may_end(found, 0, 0) else NOTHING


def within(part: Node, found: Table | None) -> Node:
    """Return the node of the texts of ``part`` that a deterministic table accepts as well."""
    if found is not None and not found.is_deterministic:
        raise ValueError("within: the table is not deterministic, so its state after a text is not one")
    return NOTHING if found is None or part is NOTHING else interned(Kind.WITHIN, (part,), (found,))


def tokens(part: Node, low: int = 0, high: int | None = None) -> Node:
    """Return the node of the texts of ``part`` that take ``low`` to ``high`` tokens."""
    if high is not None and low > high:
        return NOTHING
    if part is NOTHING or (low == 0 and high is None):
        return part
    return interned(Kind.TOKENS, (part,), (), low, high)


def apart(part: Node) -> Node:
    """Return the node of the texts of ``part`` in which no two of its items (see :func:`item`) are equal."""
    return NOTHING if part is NOTHING else interned(Kind.APART, (part,))


def item(part: Node, json: bool = False) -> Node:
    """Return the texts of ``part``, as an item of the nearest :func:`apart` around it.

    ``json``: the texts are JSON, and items are equal if their values are: 1 and 1.0, members in another order.
    """
    return NOTHING if part is NOTHING else interned(Kind.ITEM, (part,), (), int(json))


def reachable(*roots: Node) -> Iterator[Node]:
    """Yield the nodes of a program, each once, the roots first."""
    seen = dict.fromkeys(roots)
    todo = list(seen)
    while todo:
        node = todo.pop()
        yield node
        for part in node.parts:
            if part not in seen:
                seen[part] = None
                todo.append(part)
