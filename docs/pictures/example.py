"""The example of *How a constraint becomes a mask*, and what the running code says of it, in words."""

from __future__ import annotations

import json
from typing import Any

import tractile as tt
from tractile.constraints.automata.abstraction import Approximation
from tractile.constraints.automata.dfa import minimize
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.automata.nfa import Nfa, trim
from tractile.constraints.automata.stack import Stack
from tractile.constraints.automata.subsets import determinize
from tractile.constraints.json.lazy.objects import AFTER, BEFORE, COLON, COMMA, END, KEY, OPEN, START, VALUE
from tractile.constraints.masks.lazy_tokens import LazyTokens

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
CONTROL = {
    START: "start",
    OPEN: "open",
    KEY: "name",
    COLON: "colon",
    VALUE: "value",
    AFTER: "after",
    COMMA: "comma",
    BEFORE: "next",
    END: "end",
}


class Example:
    """The constraint, and its lazy automaton read through the vocabulary."""

    def __init__(self) -> None:
        self.constraint: Any = tt.constraints.json_schema(SCHEMA)
        self.vocab = tt.Vocabulary(
            [None, *(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)],
            eos_token_id=0,
        )
        self.automaton = self.constraint.automaton
        self.lazy = LazyTokens(self.automaton, self.vocab)
        self.states: Numbered = self.lazy.states
        self.machine = self.automaton.root
        self.machines = self.machine.machines

    def state(self, text: str) -> int:
        """The number of the configuration after a text, −1 if no accepted text begins so."""
        return self.states.run(self.states.start(), text.encode())

    def allowed(self, state: int) -> set[int]:
        """The tokens of the mask."""
        words = self.lazy.words_from(state)
        return {token for token in range(len(self.vocab)) if words[token >> 5] >> (token & 31) & 1}


def object_machine(machine: Any, example: Example) -> tuple[dict[tuple[int, int], set[str]], set[str]]:
    """The moves between control states with their bytes, and the needs whose machines are called."""
    edges: dict[tuple[int, int], set[str]] = {}
    called = set[str]()
    todo, seen = [machine.start()], {machine.start()}
    while todo:
        here = todo.pop()
        onward = [after for _, after in machine.calls(here)]
        if onward:
            edges.setdefault((VALUE, AFTER), set())
            called |= {example.machines.where(need) or "/" for need, _ in machine.groups[here[1]]}
        for low, high, after in machine.moves(here):
            edges.setdefault((here[0], after[0]), set()).update(map(chr, range(low, high + 1)))
            onward.append(after)
        todo += [after for after in onward if after not in seen]
        seen.update(onward)
    return edges, called


def seen_names(machine: Any, subset: int) -> str:
    """The members that have been seen at a subset of runs."""
    (run,) = machine.subsets[subset]
    return ", ".join(name for i, name in enumerate(machine.names) if run.seen >> i & 1) or "none"


def described(value: Any) -> list[str]:
    """A set of values in words."""
    lines = []
    for strings in value.string:
        if strings.among is not None:
            lines.append("string: " + " or ".join(json.dumps(text) for text in sorted(strings.among)))
        else:
            lines += ["string", f"letters: {strings.least} to {strings.most}"]
    for arrays in value.array:
        lines += ["array", "items: distinct" if arrays.unique else "items: any"]
    for objects in value.object:
        lines += ["object", "required: " + ", ".join(objects.required), "other members: any value"]
    return lines


def frame_in_words(frame: Stack) -> list[str]:
    """The machine of a frame, and its registers."""
    kind, local, machine = type(frame.machine).__name__, frame.local, frame.machine
    if kind == "ObjectMachine":
        names = seen_names(machine, local[1])
        state = "in a name" if local[0] == KEY else f"state: {CONTROL[local[0]]}"
        return ["object", state, f"seen: {names}"]
    if kind == "Quoted":
        (state, count) = local[0]
        assert not state
        return ["string", f"letters: {count} of 20"]
    if kind == "ListedArrayMachine":
        _, _, used, reading = local
        listed = [text.decode() for text in machine.values.texts]
        seen = [text for i, text in enumerate(listed) if used >> i & 1]
        item = [listed[i] for i, _ in sorted(reading) if not used >> i & 1]
        return ["array, distinct", f"seen: {', '.join(seen) or 'none'}", f"item: {' or '.join(item)}"]
    if kind == "ArrayMachine":
        return ["array", f"state: {'after' if local[0] == 2 else local[0]}"]
    return ["number", f"state: {local}"]


def approximated(example: Example, depth: int, level: int) -> Nfa:
    """The abstraction that keeps so many frames, of machines of a level."""
    approximation = Approximation(depth, level)
    approximation.explore(example.machine.coarse(level), 40_000)
    return minimize(determinize(trim(approximation.automaton().plain), 8_000))
