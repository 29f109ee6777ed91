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
    """One question of a task: the ``prompt``, a ``reference`` answer as text, and the ``facts`` it is judged by."""

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
    """The token budget of an answer where the user names none."""
    one_line: ClassVar[bool] = False
    """Whether a newline ends an answer, as the end token does."""

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        """Ids that the latest :meth:`examples` skipped so far, by reason."""
        return {}

    @abstractmethod
    def examples(self, split: str = "test") -> Iterator[Example]:
        """The examples of ``split``, "train" or "test", always in the same order. Raises :class:`FormatError` for a
        file that is not in the data set's format, naming file and line."""

    @abstractmethod
    def constraint(self, example: Example) -> Constraint:
        """The texts that are well-formed answers."""

    def potential(self, example: Example) -> Potential | None:
        """The expensive potential of the second paper, on partial texts; None where the task has none."""
        return None

    def align(self, example: Example) -> Boundary | None:
        """Where particles wait for each other before they are resampled, in the second paper's methods; None: at every
        token."""
        return None

    @abstractmethod
    def scores(self, example: Example, text: str) -> dict[str, float]:
        """Named scores of one answer, higher is better; :attr:`metric` is among them. Never raises for a bad text."""

    def aggregate(self, answers: Sequence[tuple[Example, Mapping[str, float]]]) -> dict[str, float]:
        """Named scores of all answers together; each example comes with the posterior weights of its texts, which sum to one
        (no text: no answer). None where the task has no such scores."""
        return {}

    def meaning(self, example: Example, text: str) -> str:
        """A key that texts of one meaning share, such as what a query returns; by default the text. Never raises."""
        return text
