"""Lazy automata: deterministic byte automata whose states are created when they are met.

A state is a *configuration*: any hashable value, such as a control state with registers (how many letters a string may still
have, which members an object has seen) on top of a stack. A lazy automaton is trimmed: from each of its configurations some
text is accepted. So a byte is allowed exactly if :meth:`LazyAutomaton.moves` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Int, Int32
from numpy import ndarray

from ...errors import TooManyStates
from .epsilon import NO_EPSILONS
from .nfa import Nfa

Configuration = Hashable
Numbers = Int[ndarray, " n"]
Flags = Bool[ndarray, " n"]


class Move(NamedTuple):
    """All bytes from ``low`` to ``high`` lead to ``target``."""

    low: int
    high: int
    target: Configuration


Moves = tuple[Move, ...]
"""The moves of one configuration: disjoint ranges, in the order of their bytes."""


@dataclass(frozen=True, eq=False)
class Letters:
    """The units of free text, such as the characters of a JSON string, as a byte automaton.

    A letter is a path from state 0 back to state 0 that does not visit it in between. No letter is a prefix of another.
    Equality is identity, and token sets are cached by it.
    """

    nfa: Nfa  # deterministic; state 0 is its start and its only accepting state
    name: str = ""

    def may_begin(self, low: int, high: int) -> bool:
        """Whether a letter begins with some byte from ``low`` to ``high``."""
        return any(a <= high and low <= b for a, b in self._first)

    @cached_property
    def _first(self) -> list[tuple[int, int]]:
        return [(low, high) for source, low, high, _ in self.nfa.edges.tolist() if source == 0]


class Body(NamedTuple):
    """Free text at a configuration: the letters that may follow, and where they lead.

    Any ``k`` letters with ``k <= most`` (``None``: any number) lead to ``after(k)``, unless the first begins with a byte of
    ``exceptions``, whose moves lead elsewhere. Every move that is neither an exception nor the beginning of a letter leaves
    the text. From ``after(1)`` on there are no exceptions; ``after(k)`` is the same for all ``k >= settled``. ``settled`` is
    ``None`` for a counter: then no letter makes the completion longer, and each keeps all moves that leave the text.

    ``within``: after an exception, too, any letters may follow, and some letter leads to the configuration without the
    exception. Such exceptions only track texts, such as names, that are treated in their own way when they end.

    ``leaves``: all bytes that may leave the text, and perhaps others, none of which begins a letter; ``None`` if unknown.
    """

    letters: Letters
    most: int | None
    after: Callable[[int], Configuration]
    exceptions: bytes = b""
    settled: int | None = 1
    within: bool = False
    leaves: bytes | None = None


EVERY_BYTE = np.arange(256)
"""Each byte a class of its own."""


@dataclass(frozen=True, eq=False)
class PatternTable:
    """The transitions of a DFA; equality is identity.

    ``after[state, classes[byte]]``: the state after a byte; the number of states if there is none, also the index of the last,
    dead row. ``between``: by state, whether it lies between two letters.
    """

    after: Int32[ndarray, "state class"]
    between: Flags
    classes: Int[ndarray, " 256"] = field(default_factory=lambda: EVERY_BYTE)


class Pattern(NamedTuple):
    """Free text at a configuration that a DFA restricts, besides a counter of letters.

    ``state``: of the DFA, between two letters. ``leaves``: the only byte that may follow the pattern; no other machine reads any
    byte of the pattern. The functions take DFA states and the numbers of letters read since: ``live`` says from which of them the
    pattern can be completed (``None``: all), ``final`` where it may end, ``to`` gives the configuration.

    Without ``letters`` nothing is counted, and what follows may begin with any byte (``leaves`` is −1): the pattern ends only in
    the states of ``ends``, which read nothing. ``ends`` is ``None`` where nothing follows.
    """

    table: PatternTable
    state: int
    letters: Letters | None
    leaves: int
    live: Callable[[Numbers, Numbers], Flags] | None
    final: Callable[[Numbers, Numbers], Flags]
    to: Callable[[int, int], Configuration]
    ends: Flags | None = None


class LazyAutomaton(Protocol):
    """A deterministic, trimmed byte automaton with configurations for states."""

    def start(self) -> Configuration | None:
        """Return the first configuration; ``None`` if no text is accepted."""

    def moves(self, configuration: Configuration) -> Moves:
        """Return the moves of a configuration, one for each range of bytes that may come next."""

    def accepting(self, configuration: Configuration) -> bool:
        """Return whether the text read so far is accepted."""

    def completion(self, configuration: Configuration) -> bytes:
        """Return a short text from here to acceptance, the shortest where that is cheap to find."""

    def completions(self, configuration: Configuration) -> Sequence[bytes]:
        """Return a text to acceptance for each parse of the text so far."""

    def body(self, configuration: Configuration) -> Body | None:
        """Return the free text at a configuration, at the beginning of a letter; ``None`` elsewhere."""

    def view(self, configuration: Configuration, reach: int) -> Hashable:
        """Return a cache key for token masks; ``reach`` is the number of bytes of the longest token.

        Configurations with equal keys can read the same next ``reach`` bytes, and may end after the same ones. Reading them
        also changes their completions alike: if one completion becomes n new bytes and then a suffix of the old one, so does the
        other, with the same n and a suffix that begins at the same place.
        """


class Numbered:
    """A lazy automaton whose configurations are numbered as they are met, from 0; −1: none."""

    def __init__(self, automaton: LazyAutomaton) -> None:
        self.automaton = automaton
        self._step = getattr(automaton, "step", None)  # one byte, where that is cheaper than all moves
        self._alone = getattr(
            automaton, "alone", None
        )  # several bytes, where that is cheaper than one by one
        self.configurations: list[Configuration] = []
        self._number: dict[Configuration, int] = {}
        self._moves: list[tuple[tuple[int, int, int], ...] | None] = []
        self._after: dict[int, int] = {}  # by 256 · state + byte

    def number(self, configuration: Configuration) -> int:
        """Return the number of a configuration."""
        found = self._number.get(configuration)
        if found is None:
            found = self._number[configuration] = len(self.configurations)
            self.configurations.append(configuration)
            self._moves.append(None)
        return found

    def start(self) -> int:
        """Return the state of the empty text, −1 if no text is accepted."""
        first = self.automaton.start()
        return -1 if first is None else self.number(first)

    def moves(self, state: int) -> tuple[tuple[int, int, int], ...]:
        """Return (low, high, state after such a byte), in the order of the bytes."""
        found = self._moves[state]
        if found is None:
            moves = self.automaton.moves(self.configurations[state])
            found = self._moves[state] = tuple([(a, b, self.number(c)) for a, b, c in moves])
        return found

    def after(self, state: int, byte: int) -> int:
        """Return the state after a byte, −1 if it may not come."""
        known, key = self._after, state << 8 | byte
        found = known.get(key)
        if found is None and self._moves[state] is None and self._step is not None:
            configuration = self._step(self.configurations[state], byte)
            found = known[key] = -1 if configuration is None else self.number(configuration)
        elif found is None:
            found = -1
            for low, high, target in self.moves(state):
                if low <= byte <= high:
                    found = target
                    break
            known[key] = found
        return found

    def alone(self, state: int, text: bytes, at: int) -> tuple[int, int]:
        """Read one byte or more of ``text`` from ``at`` on, as long as one machine reads alone.
        Return (state, position) after them."""
        if self._alone is None:
            return self.after(state, text[at]), at + 1
        configuration, at = self._alone(self.configurations[state], text, at)
        return -1 if configuration is None else self.number(configuration), at

    def run(self, state: int, text: bytes) -> int:
        """Return the state after a text, −1 if it may not come."""
        for byte in text:
            state = self.after(state, byte)
            if state < 0:
                return -1
        return state

    def accepting(self, state: int) -> bool:
        """Return whether the text may end here."""
        return self.automaton.accepting(self.configurations[state])

    def accepts(self, text: bytes) -> bool:
        """Return whether a text is accepted."""
        state = self.start()
        if state >= 0:
            state = self.run(state, text)
        return state >= 0 and self.accepting(state)


def explore(automaton: LazyAutomaton, limit: int) -> Nfa:
    """Write out a lazy automaton as a DFA. Raises ``TooManyStates`` beyond ``limit`` states."""
    states = Numbered(automaton)
    edges: list[tuple[int, int, int, int]] = []
    state, start = 0, states.start()
    while state < len(states.configurations):
        if len(states.configurations) > limit:
            raise TooManyStates(f"the automaton has more than {limit} states", limit=limit)
        edges += [(state, low, high, target) for low, high, target in states.moves(state)]
        state += 1
    accept = [s for s in range(state) if states.accepting(s)]
    return Nfa(
        max(state, 1),
        np.array(edges, np.int64).reshape(-1, 4),
        NO_EPSILONS,
        np.array([start] if start >= 0 else [], np.int64),
        np.array(accept, np.int64),
    )
