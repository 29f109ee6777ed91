"""What a frame may do, by kind of its node.

A *frame* is a node that is being read, with a register: how far it has come.

    kind        register                                   begins with
    LEX         state of the table                         0
    COUNT       (state, characters read)                   (0, 0)
    SEQ         index of the next part                     0
    ALT, RULE   0, before the option or body               0
    REPEAT      (items read, whether one comes next)       (0, 0)
    BAG         (bits, members read, state of the names)   (0, 0, 0)
    others      0 before the part, 1 after it              0

What is counted without an upper bound is counted up to the lower bound only (of ``REPEAT`` and ``BAG`` at least to 1, so that
the first is known from the others). The bits of a ``BAG`` are those of :func:`~..program.counting.read_label`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..program.counting import alive, allowed, may_end, read_label
from ..program.node import Kind, Node

OBSERVERS = frozenset({Kind.WITHIN, Kind.TOKENS, Kind.APART, Kind.ITEM})
"""Kinds that have one part and keep something of its bytes; see ``observers.py``."""


def begin(node: Node) -> Hashable:
    """Return the register of a node of which nothing has been read."""
    if node.kind is Kind.BAG:
        return (0, 0, 0)
    return (0, 0) if node.kind in (Kind.COUNT, Kind.REPEAT) else 0


def reads(node: Node, register: Any) -> list[tuple[int, int, Hashable]]:
    """Return the bytes that a frame itself may read: rows (lowest, highest, register after)."""
    match node.kind:
        case Kind.LEX:
            return list(node.tables[0].rows[register])
        case Kind.COUNT:
            return _reads_character(node, *register)
        case Kind.BAG:
            return _reads_name(node, *register)
    return []


def _reads_character(node: Node, state: int, characters: int) -> list[tuple[int, int, Hashable]]:
    table, live, rows = node.tables[0], alive(node), list[tuple[int, int, Hashable]]()
    for low, high, target in table.rows[state]:
        after = characters + bool(table.between[target])
        if node.high is None:
            after = min(after, node.low)
        if after <= live.last and live.after(after)[target]:
            rows.append((low, high, (target, after)))
    return rows


def _reads_name(node: Node, bits: int, count: int, state: int) -> list[tuple[int, int, Hashable]]:
    table, labels = node.tables[1 if count else 0], allowed(node, bits, count)
    return [
        (low, high, (bits, count, target))
        for low, high, target in table.rows[state]
        if table.labels_ahead[target] & labels
    ]


def calls(node: Node, register: Any) -> list[tuple[Node, Hashable | None]]:
    """Return the nodes that a frame may call: (node, register after it), None if nothing can follow but the end."""
    match node.kind:
        case Kind.SEQ if register < len(node.parts):
            last = register + 1 == len(node.parts)
            return [(node.parts[register], None if last else register + 1)]
        case Kind.ALT | Kind.RULE:
            return [(part, None) for part in node.parts]
        case Kind.REPEAT:
            return _calls_item(node, *register)
        case Kind.BAG:
            return _calls_value(node, *register)
        case kind if kind in OBSERVERS and register == 0:
            return [(node.parts[0], 1)]
    return []


def _calls_item(node: Node, count: int, is_next: int) -> list[tuple[Node, Hashable | None]]:
    if count == node.high:
        return []
    if count and not is_next:
        return [(node.parts[1], (count, 1))]
    after = count + 1 if node.high is not None else min(count + 1, max(node.low, 1))
    return [(node.parts[0], None if after == node.high else (after, 0))]


def _calls_value(node: Node, bits: int, count: int, state: int) -> list[tuple[Node, Hashable | None]]:
    label = int(node.tables[1 if count else 0].label[state])
    if label < 0 or not allowed(node, bits, count) >> label & 1:
        return []
    after = read_label(node, bits, count, label)
    return [(node.parts[label], (*after, 0) if allowed(node, *after) else None)]


def ends(node: Node, register: Any) -> bool:
    """Return whether a frame may end here."""
    match node.kind:
        case Kind.LEX:
            return bool(node.tables[0].label[register] >= 0)
        case Kind.COUNT:
            return bool(node.tables[0].label[register[0]] >= 0) and register[1] >= node.low
        case Kind.SEQ:
            return bool(register == len(node.parts))
        case Kind.REPEAT:
            return not register[1] and register[0] >= node.low
        case Kind.BAG:
            return not register[2] and may_end(node, *register[:2])
        case kind if kind in OBSERVERS:
            return bool(register == 1)
    return False
