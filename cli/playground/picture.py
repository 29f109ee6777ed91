"""The picture of a small constraint: its automaton over bytes, and the states that a prefix leads to."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...constraints import Constraint
from ...constraints.automata.dfa import minimize
from ...constraints.automata.lazy import explore
from ...constraints.automata.nfa import Nfa, trim
from ...constraints.lazy_constraint import LazyConstraint
from ...errors import TooManyStates

MOST_STATES, MOST_EXPLORED = 60, 600
LABEL = 18  # characters


@dataclass(frozen=True)
class ByteGraph:
    """An automaton over bytes, as it is drawn."""

    automaton: Nfa

    def to_dict(self) -> dict[str, Any]:
        """States with their distance from the start and whether they accept; one labelled edge for each pair of states."""
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
        """The states that these bytes lead to."""
        states = set(self.automaton.start.tolist())
        for byte in data:
            states = {
                target
                for source, low, high, target in self.automaton.edges.tolist()
                if source in states and low <= byte <= high
            }
        return sorted(states)


def picture(constraint: Constraint) -> ByteGraph | None:
    """The automaton over bytes of a constraint, None where it has more than 60 states."""
    with suppress(TooManyStates):
        if isinstance(constraint, LazyConstraint):
            automaton = minimize(explore(constraint.recording, MOST_EXPLORED))
        else:
            automaton = constraint.bytes_automaton
        automaton = trim(automaton.plain)
        return ByteGraph(automaton) if automaton.num_states <= MOST_STATES else None
    return None


def byte_range(low: int, high: int) -> str:
    """One byte or a range of bytes: ``a–z``, ``\\x80–\\xbf``."""
    first, last = (repr(bytes([byte]))[2:-1] if byte != 0x20 else "␣" for byte in (low, high))
    return first if low == high else f"{first}–{last}"


def cut(label: str) -> str:
    """A label that fits."""
    return label if len(label) <= LABEL else label[: LABEL - 1] + "…"
