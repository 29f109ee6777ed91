"""The typed errors: each says what is wrong, where, and what to do.

All derive from :class:`TractileError`, so ``except tt.TractileError`` catches whatever the library raises on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

__all__ = [
    "BudgetTooLarge",
    "BudgetTooSmall",
    "CircuitError",
    "ConstructionStopped",
    "ContextTooLong",
    "CoreMissing",
    "EmptyLanguage",
    "EngineBusy",
    "EngineClosed",
    "EvidenceError",
    "FolderInUse",
    "FormatError",
    "MemoryTooSmall",
    "NoParticleSurvived",
    "PotentialError",
    "ProposalError",
    "RankLost",
    "ShapeError",
    "StorageError",
    "TimeLimitPassed",
    "TooManyStates",
    "TractileError",
    "UnknownArgument",
    "UnsupportedConstraint",
    "VocabularyMismatch",
]


class TractileError(Exception):
    """Base of every error that the library raises on purpose."""


class CoreMissing(TractileError, ImportError):
    """The compiled core is not there, or was built from other sources; raised by ``import tractile``, it says what to do."""


class ShapeError(TractileError, ValueError):
    """A tensor or a layer has a shape that does not fit; the message names the layer."""


class CircuitError(TractileError, ValueError):
    """A circuit lacks a structural property that an operation needs; the message names the layer and the property."""


class EvidenceError(TractileError, ValueError):
    """Evidence does not fit the circuit (variables, vocabulary, shape), or has probability zero and no conditional exists."""


class UnknownArgument(TractileError, TypeError):
    """A function was given a keyword argument that it does not have: ``name``; ``meant`` is the one that was meant, or None."""

    def __init__(self, who: str, name: str, meant: str | None) -> None:
        more = "" if meant is None else f"; did you mean {meant}=…?"
        super().__init__(f"{who} has no argument {name!r}{more}")
        self.name, self.meant = name, meant


class FormatError(TractileError, ValueError):
    """A file, directory or other input does not have the expected format, or is damaged."""


class StorageError(TractileError, OSError):
    """A file could not be written (no room, no permission); its former content is unchanged."""


class FolderInUse(StorageError):
    """Another process writes in the same folder; the message names it and its lock."""


class RankLost(TractileError, RuntimeError):
    """Another process of a distributed job died, failed or does not answer; the message names its rank."""


class UnsupportedConstraint(TractileError, ValueError):
    """A constraint uses something that is not supported; ``path`` says where (schema path, regex position)."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{message} (at {path})" if path else message)
        self.path = path


class EmptyLanguage(TractileError, ValueError):
    """Nothing satisfies the constraint, whatever the budget."""


class BudgetTooSmall(TractileError, ValueError):
    """No accepted sequence fits the token budget; raised before the language model is called.

    ``needed``: length in tokens of the shortest accepted sequence, ``None`` if no sequence is known (masks of an automaton
    look past the query's horizon, other queries do not). ``exact``: whether it is the least. Otherwise it is an upper bound: of
    objects with more than five kinds of members, whose orders are not all tried, and of items that must differ. ``given``: the
    budget in tokens. ``prompt``: the index of the prompt in a list of several, counted from 0; else ``None``. ``tokens``: the
    tokens of a text of the length ``needed``, and ``text`` that text, found when they are read; ``None`` if they are not known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        needed: int | None,
        given: int,
        exact: bool = True,
        prompt: int | None = None,
        tokens: Callable[[], tuple[int, ...]] | None = None,
        spell: Callable[[Sequence[int]], str | None] | None = None,
    ) -> None:
        self._tokens, self._spell = tokens, spell
        if not message:
            bound = "" if exact else " at most (an upper bound)"
            need = "no budget would do" if needed is None else f"{needed} tokens are needed{bound}"
            message = (
                f"no accepted sequence fits the budget: {need}, {given} given; raise the budget or relax it"
            )
        super().__init__(message if prompt is None else f"prompt {prompt} (counted from 0): {message}")
        self.needed, self.given, self.exact, self.prompt = needed, given, exact, prompt

    @cached_property
    def tokens(self) -> tuple[int, ...] | None:
        """The tokens of a text of the length ``needed``, end-of-sequence included."""
        return None if self._tokens is None or self.needed is None else self._tokens()

    @property
    def text(self) -> str | None:
        """The text of ``tokens``."""
        return None if self.tokens is None or self._spell is None else self._spell(self.tokens)

    def of_prompt(self, prompt: int | None) -> BudgetTooSmall:
        """Return a copy that names the prompt by its number, from 0; ``None``: there is one prompt only."""
        return BudgetTooSmall(
            needed=self.needed,
            given=self.given,
            exact=self.exact,
            prompt=prompt,
            tokens=self._tokens,
            spell=self._spell,
        )


class BudgetTooLarge(TractileError, ValueError):
    """A token budget lies beyond the horizon that the query was made for: make the query with a larger ``horizon``.

    ``given`` is the budget, ``horizon`` the largest that the query takes.
    """

    def __init__(self, *, given: int, horizon: int) -> None:
        super().__init__(
            f"a budget of {given} tokens lies beyond the query's horizon of {horizon}; make it with horizon={given}"
        )
        self.given, self.horizon = given, horizon


class VocabularyMismatch(TractileError, ValueError):
    """Two parts (language model, HMM, automaton) were made for different vocabularies."""


class TooManyStates(TractileError, RuntimeError):
    """An automaton construction exceeded its limit of states or transitions.

    ``limit``: the limit; ``path``: the place in the constraint (schema path), None if unknown.
    """

    def __init__(self, message: str = "", *, limit: int, path: str | None = None) -> None:
        message = message or (
            f"the automaton would pass a fixed limit of {limit:,} states or transitions: shorten bounds and repeats,"
            " nest less deep, or combine fewer alternatives"
        )
        super().__init__(message if path is None else f"{message} (at {path or '/'})")
        self.limit, self.path = limit, path


class ConstructionStopped(TractileError, RuntimeError):
    """The construction of a constraint passed its :class:`~tractile.constraints.Limits`, or was stopped from outside."""


class MemoryTooSmall(TractileError, ValueError):
    """A computation does not fit the memory that it was given; ``needed`` and ``given`` are in bytes."""

    def __init__(self, message: str, *, needed: int, given: int) -> None:
        super().__init__(f"{message}: {needed:,} bytes are needed, {given:,} given")
        self.needed = needed
        self.given = given


class ContextTooLong(TractileError, ValueError):
    """A sequence has more tokens than the language model has positions."""


class EngineBusy(TractileError, RuntimeError):
    """The queue of a :class:`tractile.Engine` is full; ``waiting`` requests are in it. Ask again later (HTTP: 503)."""

    def __init__(self, waiting: int) -> None:
        super().__init__(
            f"the engine is busy: {waiting} requests wait, and its queue takes no more; ask again later"
        )
        self.waiting = waiting


class EngineClosed(TractileError, RuntimeError):
    """A :class:`tractile.Engine` was closed before it had done a request, or before it was asked."""


class TimeLimitPassed(TractileError, TimeoutError):
    """A request took longer than its time limit, the time in the queue included; ``seconds``: the limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the request was not done within its time limit of {seconds:g} seconds")
        self.seconds = seconds


class NoParticleSurvived(TractileError, RuntimeError):
    """Every particle has weight zero: the run says nothing about p_lm(x | constraint)."""


class PotentialError(TractileError, RuntimeError):
    """A potential or check raised an error, took too long or returned no valid weight.

    ``name``: the potential's name. ``text``: the text or value that it was called with.
    """

    def __init__(self, name: str, what: str, text: object) -> None:
        super().__init__(
            f"the potential {name!r} {what} on {text!r}; mend it, or say zero_on_error=True to count this as zero"
        )
        self.name, self.text = name, text


class ProposalError(TractileError, RuntimeError):
    """A proposal returned an invalid token or weight (NaN, a forbidden token).

    ``name``: the proposal's class. ``text``: the text drawn so far in the offending row, None if there is no single row.
    """

    def __init__(self, proposal: object, what: str, text: str | None = None) -> None:
        self.name, self.text = type(proposal).__name__, text
        where = "" if text is None else f" after {text!r}"
        super().__init__(
            f"the proposal {self.name!r} {what}{where}; its tokens and log-weights must be properly weighted for "
            "p_lm · 1[allowed], with -inf where no token is"
        )
