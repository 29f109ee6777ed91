"""What a program means: stacks of frames that read one byte after another.

A *frame* is a node that is being read, its register (how far it has come), and the frame below, which called it.

    kind           register                                          begins with
    LEX            state of the table                                0
    COUNT          (state, characters read)                          (0, 0)
    SEQ            index of the next part                            0
    ALT, RULE      0                                                 0
    REPEAT         (items read, whether one comes next)              (0, 0)
    BAG            (bits of the members read, their number, state)   (0, 0, 0)
    WITHIN         (whether its part was called, state)              (False, 0)
    TOKENS         (…, tokens that wrote a byte, whether this has)   (False, 0, False)
    APART          (…, the items read)                               (False, ∅)
    ITEM           (…, the bytes read)                               (False, b"")

The last four have one part and see each byte that is read above them. What has no upper bound is counted up to the lower bound.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from tractile.constraints.program.node import Kind, Node

OBSERVERS = {Kind.WITHIN: (0,), Kind.TOKENS: (0, False), Kind.APART: (frozenset(),), Kind.ITEM: (b"",)}
"""The kinds that see the bytes of their part, and what they keep at its beginning."""


class Frame(NamedTuple):
    """A node that is being read, and the frame that called it, None for the first."""

    node: Node
    register: Any
    below: Stack

    @property
    def looks(self) -> bool:
        """Whether a frame of the stack sees the bytes that are read above it."""
        return self.node.kind in OBSERVERS or (self.below is not None and self.below.looks)


Stack = Frame | None
"""A frame and those below it; None when the text has ended."""


def begin(node: Node, below: Stack) -> Frame:
    """Return the stack on which a node has been called."""
    beginnings: dict[Kind, Any] = {Kind.BAG: (0, 0, 0), Kind.COUNT: (0, 0), Kind.REPEAT: (0, 0)}
    kept = OBSERVERS.get(node.kind)
    return Frame(node, beginnings.get(node.kind, 0) if kept is None else (False, *kept), below)


# ---------------------------------------------------------------- bytes


def read(stack: Frame, byte: int) -> Iterator[Frame]:
    """Yield the stacks after a byte; none where it may not come."""
    after = [register for low, high, register in reads(stack.node, stack.register) if low <= byte <= high]
    if after and (below := seen(stack.below, byte)) is not False:
        yield from (Frame(stack.node, register, below) for register in after)


def reads(node: Node, register: Any) -> list[tuple[int, int, Any]]:
    """Return the bytes that a frame itself may read: rows (lowest, highest, register after)."""
    match node.kind:
        case Kind.LEX:
            return list(node.tables[0].rows[register])
        case Kind.COUNT:
            found, (state, read) = node.tables[0], register
            rows = [
                (low, high, (to, capped(read + bool(found.between[to]), node)))
                for low, high, to in found.rows[state]
            ]
            return [row for row in rows if node.high is None or row[2][1] <= node.high]
        case Kind.BAG:
            bits, count, state = register
            rows = node.tables[count > 0].rows[state]
            return [(low, high, (bits, count, to)) for low, high, to in rows if may_come(node, bits, count)]
    return []


def capped(count: int, node: Node, least: int = 0) -> int:
    """Return a count, as far as a node tells counts apart."""
    return count if node.high is not None else min(count, max(node.low, least))


def seen(stack: Stack, byte: int) -> Stack | bool:
    """Return the frames below the one that reads a byte, when they have seen it; False if one of them refuses it."""
    if stack is None:
        return None
    node, register, below = stack.node, stack.register, seen(stack.below, byte)
    if below is False:
        return False
    match node.kind:
        case Kind.WITHIN:
            rows = node.tables[0].rows[register[1]]
            register = next(((True, to) for low, high, to in rows if low <= byte <= high), None)
        case Kind.TOKENS:
            begins_one_too_many = not register[2] and register[1] == node.high
            register = None if begins_one_too_many else (True, register[1], True)
        case Kind.ITEM:
            register = (True, bytes((*register[1], byte)))
    return Frame(node, register, below) if register is not None else False


def token_end(stack: Stack) -> Stack:
    """Return a stack after the end of a token."""
    if stack is None:
        return None
    node, register = stack.node, stack.register
    if node.kind is Kind.TOKENS:
        register = (register[0], counted(node, register), False)
    return Frame(node, register, token_end(stack.below))


def counted(node: Node, register: Any) -> int:
    """Return how many tokens have written a byte of a ``TOKENS``."""
    return capped(register[1] + register[2], node)


# ---------------------------------------------------------------- calls and ends


def closure(stacks: Iterable[Stack]) -> frozenset[Stack]:
    """Follow calls and ends to the frames that read bytes, and to None, where the text may end."""
    todo = list(stacks)
    found = set(todo)
    while todo:
        if (stack := todo.pop()) is not None:
            after = {*ended(stack), *called(stack)} - found
            found |= after
            todo += after
    return frozenset(stack for stack in found if stack is None or reads(stack.node, stack.register))


def called(stack: Frame) -> Iterator[Frame]:
    """Yield the stacks in which the top frame has called a part; it is not kept if it has nothing left to do but to end."""
    node, register, below = stack
    for part, rest in calls(node, register):
        yield begin(part, below if rest is None else Frame(node, rest, below))


def calls(node: Node, register: Any) -> list[tuple[Node, Any]]:
    """Return the parts that a frame may call, with its register after each; None if nothing can follow but the end."""
    match node.kind:
        case Kind.SEQ if register < len(node.parts):
            return [(node.parts[register], register + 1 if register + 1 < len(node.parts) else None)]
        case Kind.ALT | Kind.RULE:
            return [(part, None) for part in node.parts]
        case Kind.REPEAT if register[0] != node.high:
            count, is_next = register
            if count and not is_next:
                return [(node.parts[1], (count, 1))]
            after = capped(count + 1, node, 1)
            return [(node.parts[0], None if after == node.high else (after, 0))]
        case Kind.BAG:
            bits, count, state = register
            label = int(node.tables[count > 0].label[state])
            if label < 0 or not may_come(node, bits, count) >> label & 1:
                return []
            if label < node.members:  # read once; in order, none before it comes after it
                bits = (2 << label) - 1 if node.ordered else bits | 1 << label
            count = capped(count + 1, node, 1)
            goes_on = may_come(node, bits, count) or not complete(node, bits, count)
            return [(node.parts[label], (bits, count, 0) if goes_on else None)]
        case kind if kind in OBSERVERS and not register[0]:
            return [(node.parts[0], (True, *register[1:]))]
    return []


def may_come(node: Node, bits: int, count: int) -> int:
    """Return the labels that a ``BAG`` may read next, as the bits of a number."""
    labels = {int(label) for label in node.tables[count > 0].label if label >= 0}
    free = {label for label in labels if label >= node.members or not bits >> label & 1}
    if node.ordered:  # a required member is not passed over
        free = {
            label for label in free if label >= node.members or not node.required & ~bits & ((1 << label) - 1)
        }
    return sum(1 << label for label in free) if count != node.high else 0


def complete(node: Node, bits: int, count: int) -> bool:
    """Return whether a ``BAG`` may end after these members."""
    return count >= node.low and not node.required & ~bits


def ended(stack: Frame) -> Iterator[Stack]:
    """Yield the stack in which the top frame has ended, if it may end."""
    node, register, below = stack
    match node.kind:
        case Kind.LEX:
            ends = node.tables[0].label[register] >= 0
        case Kind.COUNT:
            ends = node.tables[0].label[register[0]] >= 0 and register[1] >= node.low
        case Kind.SEQ:
            ends = register == len(node.parts)
        case Kind.REPEAT:
            ends = not register[1] and register[0] >= node.low
        case Kind.BAG:
            ends = not register[2] and complete(node, *register[:2])
        case Kind.WITHIN:
            ends = register[0] and node.tables[0].label[register[1]] >= 0
        case Kind.TOKENS:
            ends = register[0] and counted(node, register) >= node.low
        case Kind.ITEM if register[0]:
            below = with_item(below, value_of(register[1]) if node.low else register[1])
            ends = below is not False
        case kind:
            ends = kind is Kind.APART and register[0]
    if ends:
        yield below


def with_item(stack: Stack, item: Hashable) -> Stack | bool:
    """Return a stack whose nearest ``APART`` has read an item; False if it has one that is equal."""
    if stack is None or stack.node.kind is Kind.APART:
        if stack is None:
            return None
        items = stack.register[1]
        return item not in items and stack._replace(register=(True, items | {item}))
    below = with_item(stack.below, item)
    return below is not False and stack._replace(below=below)


def value_of(text: bytes) -> Hashable:
    """Return what is equal for equal JSON values: 1 and 1.0 are equal, 1 and true are not; members have no order."""

    def hashable(value: Any) -> Hashable:
        match value:
            case list():
                return tuple(map(hashable, value))
            case dict():
                return frozenset((name, hashable(each)) for name, each in value.items())
        return type(value), value

    return hashable(json.loads(text, parse_int=Decimal, parse_float=Decimal))
