"""Examples made ready to be asked: each with its prompt, automaton, potential and HMM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..circuits.automaton import Automaton
from ..circuits.hmm import HMM
from ..constraints import Constraint, Vocabulary
from ..constraints.cache import store
from ..errors import TractileError
from ..inference.smc import Potential
from ..lm.base import Prompt
from .base import Example, Task
from .methods import Method

HMM_MEMORY = 2 << 30
"""Bytes of backward messages of one batch under methods that use an HMM; such batches are smaller where they need to be."""


@dataclass
class Asked:
    """An example made ready, or the error that this ended in; ``potential_error`` is of the methods with a potential alone.
    ``judged`` has the scores of each text that was looked at, and whether it satisfies the constraint."""

    example: Example
    prompt: Prompt = ""
    constraint: Constraint | None = None
    fa: Automaton | None = None
    potential: Potential | None = None
    hmm: HMM | None = None
    error: TractileError | None = None
    potential_error: TractileError | None = None
    judged: dict[str, tuple[dict[str, float], bool]] = field(default_factory=dict)

    def failed(self, method: Method) -> TractileError | None:
        """Why the method cannot be run on it, None if it can."""
        return self.error or (self.potential_error if method.potential else None)


class Asking:
    """Makes examples of a task ready. ``prompt`` and ``hmm`` are :class:`~.run.Bench`'s."""

    def __init__(
        self,
        task: Task,
        vocab: Vocabulary,
        hmm: HMM | Callable[[Prompt], HMM] | None,
        prompt: Callable[[Example], Prompt],
    ) -> None:
        self.task, self.vocab, self.hmm, self.prompt = task, vocab, hmm, prompt
        self._compiled: dict[str, Automaton] = {}

    def ready(self, chunk: Sequence[Example]) -> list[Asked]:
        """Each example with its automaton; the automata of the last chunk are kept for equal constraints."""
        former, self._compiled = self._compiled, {}
        return [self._one(example, former) for example in chunk]

    def _one(self, example: Example, former: dict[str, Automaton]) -> Asked:
        one = Asked(example)
        try:
            one.prompt = self.prompt(example)
            one.constraint = self.task.constraint(example)
            nfa = one.constraint.nfa
            name = store.digest([nfa.edges, nfa.skips, nfa.start, nfa.accept])
            one.fa = self._compiled.get(name) or former.get(name)
            if one.fa is None:
                one.fa = one.constraint.compile(self.vocab)
            self._compiled[name] = one.fa
            if self.hmm is not None:
                one.hmm = self.hmm if isinstance(self.hmm, HMM) else self.hmm(one.prompt)
        except TractileError as error:
            one.error = error
            return one
        try:
            one.potential = self.task.potential(example)
        except TractileError as error:
            one.potential_error = error
        return one


def parts(asked: Sequence[Asked], max_new_tokens: int) -> Iterator[list[Asked]]:
    """Examples whose backward messages fit :data:`HMM_MEMORY` together; those of one automaton and HMM count once."""
    part: list[Asked] = []
    tables: dict[tuple[int, int], int] = {}
    for one in asked:
        if one.fa is not None and one.hmm is not None:
            key = id(one.fa), id(one.hmm)
            itemsize = one.hmm.emission_probs.element_size()
            tables[key] = one.fa.num_states * one.hmm.hidden * max_new_tokens * itemsize
            if part and sum(tables.values()) > HMM_MEMORY:
                yield part
                part, tables = [], {key: tables[key]}
        part.append(one)
    if part:
        yield part
