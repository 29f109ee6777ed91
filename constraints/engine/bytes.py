"""A program read byte by byte: membership, emptiness, a shortest text."""

from __future__ import annotations

from typing import final

import numpy as np

from ..program.node import Node
from ..vocabulary.vocabulary import Vocabulary
from .tokens import NO_STATE, ProgramStates

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_token_id=256)
"""The vocabulary in which each byte is a token."""


@final
class Bytes:
    """The states of a program over bytes, numbered as they are met; -1 is none."""

    def __init__(self, program: Node) -> None:
        self._tokens = ProgramStates(program, BYTES, require_eos=False)

    @property
    def start(self) -> int:
        """The state of the empty text.

        When the automaton has met so many states that its memory is full, a new one takes over here: states from before are
        none of its own.
        """
        if self._tokens.full:
            self._tokens = self._tokens.renewed()
        return self._tokens.start_state

    @property
    def is_empty(self) -> bool:
        """Whether there is no text."""
        return self._tokens.start_state == NO_STATE

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in a state."""
        return self._tokens.accepting(state)

    def step(self, state: int, byte: int) -> int:
        """Return the state after a byte."""
        return self._tokens.step(state, byte)

    def read(self, text: bytes) -> int:
        """Return the state after the beginning of an accepted text; -1 if no accepted text begins so."""
        state = self.start
        for byte in text:
            if state == NO_STATE or byte not in self.allowed(state):
                return NO_STATE
            state = self.step(state, byte)
        return state

    def accepts(self, text: bytes) -> bool:
        """Return whether a text is accepted."""
        return self.start != NO_STATE and self._tokens.reads(text)

    def moves(self, state: int) -> list[tuple[int, int, int]]:
        """Return rows (lowest byte, highest byte, state after), in the order of the bytes."""
        found: list[tuple[int, int, int]] = []
        for byte in self.allowed(state):
            after = self._tokens.step(state, byte)
            if found and found[-1][1:] == (byte - 1, after):
                found[-1] = (found[-1][0], byte, after)
            else:
                found.append((byte, byte, after))
        return found

    def allowed(self, state: int) -> list[int]:
        """Return the bytes with which an accepted text goes on in a state."""
        return self._bytes(self._tokens.words_within(state))

    def fewest(self, state: int) -> int:
        """Return the bytes of a shortest text from a state to acceptance."""
        return self._tokens.fewest(state)

    def completion(self, state: int) -> bytes:
        """Return a shortest text from a state to acceptance."""
        left, text = self._tokens.fewest(state), bytearray()
        while not self._tokens.accepting(state):
            left -= 1
            byte = min(self._bytes(self._tokens.words_within(state, left)))
            text.append(byte)
            state = self._tokens.step(state, byte)
        return bytes(text)

    def shortest(self) -> bytes:
        """Return a text of the fewest bytes. The language must not be empty."""
        return self.completion(self.start)

    @staticmethod
    def _bytes(words: np.ndarray) -> list[int]:
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:256]
        return [int(byte) for byte in np.flatnonzero(bits)]
