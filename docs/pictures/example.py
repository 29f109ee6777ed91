"""The example of *How a constraint becomes a mask*, and its nodes and frames in words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tractile as tt
from tractile.constraints.engine.bytes import Bytes
from tractile.constraints.engine.tokens import ProgramStates
from tractile.constraints.program.node import Kind, Node
from tractile.constraints.program.tables import Table

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "oracle"))
from definition import Definition
from frames import Frame

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}, "uniqueItems": True},
    },
    "required": ["name"],
}
WORDS = [
    *('{"', "name", "tags", "new", "old", '": ', '": "', '": [', '", "', '"]', '"}', "]}"),
    *("Ada", " Love", "lace", 'e"}', 'w"]'),
]
"""The tokens of the example, beside EOS and the 256 bytes."""
FIRST = 257  # the number of the first of them


class Example:
    """The program of the schema, its configurations, and its automaton over tokens."""

    def __init__(self) -> None:
        self.program: Node = tt.constraints.json_schema(SCHEMA).program
        self.vocab = tt.Vocabulary(
            [None, *(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)],
            eos_token_id=0,
        )
        self.tokens = ProgramStates(self.program, self.vocab)
        self.definition = Definition(self.program, self.vocab)

    def stacks(self, text: str) -> list[Frame]:
        """The stacks after a text, in an order that each run has."""
        at = self.definition.start
        for byte in text.encode():
            at = self.definition.byte(at, byte)
        return sorted((stack for stack in at if stack is not None), key=in_words, reverse=True)

    def state(self, text: str) -> int:
        """The state over tokens after a text."""
        state = self.tokens.start_state
        for byte in text.encode():
            state = self.tokens.step(state, byte + 1)
        return state


def in_words(stack: Frame) -> list[list[str]]:
    """The frames of a stack, the bottom first: the kind, the register, and what it says."""
    below = [] if stack.below is None else in_words(stack.below)
    register = str(stack.register)
    return [*below, [f"{kind_of(stack.node)} {register}", *register_in_words(stack.node, stack.register)]]


def kind_of(node: Node) -> str:
    """The kind of a node as the page writes it."""
    return node.kind.name.title()


def register_in_words(node: Node, register: Any) -> list[str]:
    """What a register says."""
    match node.kind:
        case Kind.COUNT:
            return [f"{register[1]} of {node.high} characters"]
        case Kind.SEQ:
            return [f"next: part {register + 1} of {len(node.parts)}"]
        case Kind.REPEAT:
            return ["next: an item" if register[1] else "after an item"]
        case Kind.BAG:
            bits, count, state = register
            read = [label_in_words(node, label) for label in range(node.members) if bits >> label & 1]
            return [
                f"read: {', '.join(read) or ('others' if count else 'none')}",
                *["in a name"] * bool(state),
            ]
    return [("in " if register else "next: ") + leaf_in_words(node)]


def leaf_in_words(node: Node) -> str:
    """The texts of a ``LEX`` node."""
    table = node.tables[0]
    if all(len(row) <= 1 and all(low == high for low, high, _ in row) for row in table.rows):
        return shortest(table)
    return "a number" if Bytes(node).accepts(b"-1.5") else "a string"


def label_in_words(bag: Node, label: int) -> str:
    """The member of a label."""
    return "others" if label >= bag.members else shortest(bag.tables[0], label).strip(' ":')


def shortest(table: Table, label: int = 0) -> str:
    """A shortest text with a label."""
    todo = [(0, "")]
    for state, text in todo:  # grows meanwhile
        if table.label[state] == label:
            return text
        todo += [(target, text + chr(low)) for low, _, target in table.rows[state]]
    raise AssertionError(label)
