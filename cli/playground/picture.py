"""The picture of a small constraint: its automaton over bytes, and the states that are active after a prefix."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...constraints import Constraint
from ...constraints.automata.nfa import Nfa
from ...errors import TooManyStates

MOST_STATES = 60
LABEL = 18  # characters


@dataclass(frozen=True)
class ByteGraph:
    """An automaton over bytes, in the form in which the page draws it."""

    automaton: Nfa

    def to_dict(self) -> dict[str, Any]:
        """Return the states, each with its distance from the start and whether it accepts, and one edge for each pair."""
        labels: dict[tuple[int, int], list[str]] = {}
        for source, low, high, target in self.automaton.edges.tolist():
            labels.setdefault((source, target), []).append(byte_range(low, high))
        level = dict.fromkeys(self.automaton.start.tolist(), 0)
        waiting = list(level)
        for state in waiting:
            for source, target in labels:
                if source == state and target not in level:
                    level[target] = level[state] + 1
                    waiting.append(target)
        accept = set(self.automaton.accept.tolist())
        edges = [{"from": a, "to": b, "label": cut(" ".join(names))} for (a, b), names in labels.items()]
        states = [
            {"level": level.get(n, 0), "accepts": n in accept} for n in range(self.automaton.num_states)
        ]
        return {"states": states, "edges": edges}

    def after(self, data: bytes) -> list[int]:
        """Return the states in which the automaton can be after these bytes, ascending."""
        states = set(self.automaton.start.tolist())
        for byte in data:
            states = {
                target
                for source, low, high, target in self.automaton.edges.tolist()
                if source in states and low <= byte <= high
            }
        return sorted(states)


def picture(constraint: Constraint) -> ByteGraph | None:
    """Return the byte automaton of a constraint to draw; None if it has more than ``MOST_STATES`` states."""
    with suppress(TooManyStates):
        texts = constraint if constraint.is_finite else constraint.within()
        if texts.narrowed != constraint.narrowed:
            return None
        automaton = texts.bytes_automaton.plain
        return ByteGraph(automaton) if automaton.num_states <= MOST_STATES else None
    return None


def byte_range(low: int, high: int) -> str:
    """Write a byte or a range of bytes as a label: ``a–z``, ``\\x80–\\xbf``."""
    first, last = (repr(bytes([byte]))[2:-1] if byte != 0x20 else "␣" for byte in (low, high))
    return first if low == high else f"{first}–{last}"


def cut(label: str) -> str:
    """Shorten a label to ``LABEL`` characters."""
    return label if len(label) <= LABEL else label[: LABEL - 1] + "…"
