"""The automaton over tokens of a constraint: masks from states that are met, all transitions on demand."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..circuits.automaton import UNREACHABLE, Automaton
from ..circuits.io.summary import html_table
from ..circuits.narrowing import Narrowing
from ..layers.operator import TensorMap
from .engine.tokens import ProgramStates
from .narrowing import merged
from .vocabulary.reading import vocabulary_of
from .vocabulary.vocabulary import Vocabulary

GUIDE_STATES = 1_000
"""Most byte states of the automaton that guides P-GCD; a larger constraint is approximated."""

WRITTEN_OUT = {
    "initial", "left", "inputs", "right", "final", "labels", "transitions", "edge_source", "edge_target",
    "_transitions_by_class", "_steps",
}  # fmt: skip
"""Attributes of :class:`Automaton` that need all transitions and so build the finite automaton."""


class ConstraintAutomaton(Automaton):
    """An automaton over tokens whose states are created as decoding reaches them.

    Next-token masks are exact and come from :attr:`lazy`. Whatever needs all transitions (products, counting, probabilities,
    random sampling) uses :attr:`finite`. That automaton is built on first use and may accept fewer texts; if so, ``narrowed``
    lists what is lacking and a warning is logged. P-GCD multiplies the HMM with :meth:`guide`.
    """

    def __init__(
        self, lazy: ProgramStates, finite: Callable[[], Automaton], guide: Callable[[int], Automaton]
    ) -> None:
        self._lazy = lazy
        self._make_finite, self._make_guide = finite, guide
        self.eos_token_id: int | None = lazy.eos_token_id
        self.vocabulary_fingerprint: str | None = lazy.vocabulary_fingerprint
        self._narrowed: tuple[Narrowing, ...] = ()
        self.made_for: Callable[[Vocabulary], Automaton] | None = None
        self.cuts: Callable[[], tuple[Narrowing, ...]] = tuple  # what `finite` lacks beside `narrowed`
        self._guides: dict[int, Automaton] = {}

    def __repr__(self) -> str:
        return f"ConstraintAutomaton(states made when they are met, vocab_size={self.vocab_size})"

    def _repr_html_(self) -> str:
        return html_table([], [], repr(self))

    def __reduce__(self) -> tuple[Callable[..., Automaton], tuple[Any, Vocabulary]]:
        """Pickle only the recipe: the reading process compiles again, since caches of masks are not copied."""
        if self.made_for is None:
            raise TypeError(
                "an automaton that was not compiled from a constraint cannot be copied to another process"
            )
        return operator.call, (self.made_for, self.lazy.vocab)

    def __getattr__(self, name: str) -> Any:
        if name not in WRITTEN_OUT or "_make_finite" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.finite, name)

    @property
    def lazy(self) -> ProgramStates:
        """The automaton with states created on demand. A new one takes over when many states have been met: what holds states
        keeps theirs."""
        if self._lazy.full:
            self._lazy = self._lazy.renewed()
        return self._lazy

    @property
    def narrowed(self) -> tuple[Narrowing, ...]:
        """Where the masks, or :attr:`finite` once it is built, accept fewer texts than were asked for."""
        written = self.__dict__.get("_finite")
        return self._narrowed if written is None else merged(self._narrowed, written.narrowed)

    @narrowed.setter
    def narrowed(self, value: tuple[Narrowing, ...]) -> None:
        self._narrowed = value

    @property
    def finite(self) -> Automaton:
        """The automaton with all its states and transitions written out; built on first access."""
        found: Automaton | None = self.__dict__.get("_finite")
        if found is None:
            found = self.__dict__["_finite"] = self._make_finite()
        return found

    def guide(self, most_states: int = GUIDE_STATES) -> Automaton:
        """Return an automaton over tokens that accepts at least all texts of the constraint.

        Its byte automaton has at most about ``most_states`` states. It accepts exactly the constraint's texts if that size
        suffices.
        """
        if most_states not in self._guides:
            self._guides[most_states] = self._make_guide(most_states)
        return self._guides[most_states]

    @property
    def vocab_size(self) -> int:
        return self.lazy.vocab_size

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def map(self, fn: TensorMap) -> Any:
        return self.finite.map(fn)

    def cut(self, vocab_size: int) -> Automaton:
        if vocab_size >= self.vocab_size:
            return self
        if self.made_for is None:
            return self.finite.cut(vocab_size)
        return self.made_for(vocabulary_of(self.lazy.vocab, size=vocab_size))

    @property
    def distances_are_exact(self) -> bool:
        return self.lazy.is_exact

    def fewest_after(self, tokens: Sequence[int]) -> int:
        lazy, state = self._after(tokens)
        return UNREACHABLE if state == -1 else lazy.fewest(state)

    def accepts_tokens(self, tokens: Sequence[int]) -> bool:
        lazy, state = self._after(tokens)
        return lazy.accepting(state)

    def _after(self, tokens: Sequence[int]) -> tuple[ProgramStates, int]:
        lazy = self.lazy
        state = lazy.start_state
        for token in tokens:
            if state == -1:
                break
            state = lazy.step(state, token)
        return lazy, state
