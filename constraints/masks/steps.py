"""Cached steps by tokens."""

from __future__ import annotations


class Steps:
    """States with cached token steps; ``_step`` computes one. Subclasses set ``vocab_size``."""

    vocab_size: int
    most_steps = 1 << 17  # cached pairs (state, token)
    most_states = 1 << 14  # numbered states, of a few kB each, beyond which new rows begin in a new table

    @property
    def full(self) -> bool:
        """Whether so many states have been met that a new table should take over."""
        raise NotImplementedError(f"{type(self).__name__} has no states: it must count them")

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def step(self, state: int, token: int) -> int:
        """Return the state after a token, −1 if it is not allowed."""
        key = state * self.vocab_size + token
        after = self._steps.get(key)
        if after is None:
            if len(self._steps) >= self.most_steps:
                self._steps.clear()
            after = self._steps[key] = self._step(state, token)
        return after

    def _step(self, state: int, token: int) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no steps: it must define them")
