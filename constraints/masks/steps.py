"""Steps by tokens that are kept."""

from __future__ import annotations


class Steps:
    """States whose steps are worked out once; ``_step`` works out one. Set ``vocab_size`` and call ``__init__``."""

    vocab_size: int
    most_steps = 1 << 17  # (state, token) whose target is kept

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def step(self, state: int, token: int) -> int:
        """The state after a token, −1 where it is not allowed."""
        key = state * self.vocab_size + token
        after = self._steps.get(key)
        if after is None:
            if len(self._steps) >= self.most_steps:
                self._steps.clear()
            after = self._steps[key] = self._step(state, token)
        return after

    def _step(self, state: int, token: int) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no steps: it must define them")
