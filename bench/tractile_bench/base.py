"""The interface of a task: examples, a constraint, a potential, and scores of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tractile.constraints import Constraint
from tractile.inference.smc import Potential
from tractile.inference.smc.boundaries import Boundary


@dataclass(frozen=True)
class Example:
    """One question of a task: the ``prompt``, a ``reference`` answer as text, and the ``facts`` that scores need."""

    id: str
    prompt: str
    reference: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A data set with constraints, potentials and scores of its examples."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """The score that the papers report, a key of :meth:`scores`."""
    max_new_tokens: ClassVar[int]
    """The default token budget of an answer, end-of-sequence included."""
    one_line: ClassVar[bool] = False
    """Whether a newline ends an answer, as the end token does."""

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        """The ids that the latest :meth:`examples` has skipped so far, by reason."""
        return {}

    @abstractmethod
    def examples(self, split: str = "test") -> Iterator[Example]:
        """Yield the examples of ``split``, "train" or "test", always in the same order.

        Raises :class:`FormatError`, naming file and line, for a file that is not in the data set's format."""

    @abstractmethod
    def constraint(self, example: Example) -> Constraint:
        """Return the constraint of well-formed answers."""

    def potential(self, example: Example) -> Potential | None:
        """Return the second paper's expensive potential, which scores partial texts; None if the task has none."""
        return None

    def align(self, example: Example) -> Boundary | None:
        """Return the boundary at which particles are aligned before resampling, in the second paper's methods.

        None: at every token."""
        return None

    @abstractmethod
    def scores(self, example: Example, text: str) -> dict[str, float]:
        """Score one answer: named scores, higher is better, :attr:`metric` among them. Never raises for a bad text."""

    def aggregate(self, answers: Sequence[tuple[Example, Mapping[str, float]]]) -> dict[str, float]:
        """Compute corpus-level scores over all answers; {} if the task has none.

        Each example comes with the posterior weights of its texts, which sum to one (no text: no answer)."""
        return {}

    def meaning(self, example: Example, text: str) -> str:
        """Return a key that texts with equal meaning share, such as the result of a query; by default the text. Never raises."""
        return text
