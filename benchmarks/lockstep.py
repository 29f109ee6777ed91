"""The shortest texts that tell a finite byte automaton from a lazy one, whose states are made as they are met."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minimal_dfa import Dfa

from tractile.constraints.automata.lazy import Configuration, LazyAutomaton

MAX_PAIRS = 20_000


class Difference(NamedTuple):
    """``lost``: a shortest text of the finite automaton only; ``gained``: the beginning of a text of the lazy one only;
    ``None`` where there is none. ``complete``: whether every pair of states was visited."""

    lost: bytes | None
    gained: bytes | None
    complete: bool


def difference(dfa: Dfa, lazy: LazyAutomaton, max_pairs: int = MAX_PAIRS) -> Difference:
    """Walk both automata together, breadth first, through at most ``max_pairs`` pairs of states."""
    begin = lazy.start()
    if begin is None or not dfa.num_states:
        return Difference(b"" if dfa.num_states else None, b"" if begin is not None else None, True)
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(dfa.num_states)]
    for source, low, high, target in dfa.edges.tolist():
        rows[source].append((low, high, target))
    accepting = set(dfa.accept.tolist())
    came: dict[tuple[int, Configuration], tuple[tuple[int, Configuration], int] | None] = {(0, begin): None}
    queue = [(0, begin)]
    lost: bytes | None = None
    gained: bytes | None = None
    for pair in queue:
        state, configuration = pair
        accepts, may_end = state in accepting, lazy.accepting(configuration)
        if lost is None and accepts and not may_end:
            lost = text_to(came, pair)
        if gained is None and may_end and not accepts:
            gained = text_to(came, pair)
        for byte, target, after in steps(rows[state], lazy, configuration):
            if target is None or after is None:
                if after is None and lost is None:
                    lost = text_to(came, pair) + bytes([byte])
                elif target is None and gained is None:
                    gained = text_to(came, pair) + bytes([byte])
            elif (target, after) not in came:
                came[target, after] = (pair, byte)
                queue.append((target, after))
        if None not in (lost, gained) or len(came) > max_pairs:
            break
    return Difference(lost, gained, len(came) <= max_pairs)


def steps(
    edges: list[tuple[int, int, int]], lazy: LazyAutomaton, configuration: Configuration
) -> Iterator[tuple[int, int | None, Configuration | None]]:
    """(A byte, the finite automaton's state after it, the lazy one's) for each way that one of the two can go on."""
    moves = lazy.moves(configuration)
    cuts = {c for low, high, _ in (*edges, *moves) for c in (low, high + 1)}
    for byte in sorted(cuts):
        target = next((to for low, high, to in edges if low <= byte <= high), None)
        after = next((to for low, high, to in moves if low <= byte <= high), None)
        if target is not None or after is not None:
            yield byte, target, after


def text_to(
    came: dict[tuple[int, Configuration], tuple[tuple[int, Configuration], int] | None],
    pair: tuple[int, Configuration],
) -> bytes:
    """The text that leads to a pair of states."""
    word = bytearray()
    while (step := came[pair]) is not None:
        pair, byte = step
        word.append(byte)
    return bytes(reversed(word))
