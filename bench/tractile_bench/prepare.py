"""Prepare examples for the sampler: each with its prompt, compiled constraint, potential and HMM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tractile.circuits.automaton import Automaton
from tractile.circuits.hmm import HMM
from tractile.constraints import Constraint, Vocabulary
from tractile.constraints.cache import store
from tractile.errors import TractileError
from tractile.inference.smc import Potential
from tractile.lm.base import Prompt

from .base import Example, Task
from .methods import Method

HMM_MEMORY = 2 << 30
"""The most bytes of backward messages in one batch of methods with an HMM; batches are split to stay below."""


@dataclass
class Prepared:
    """An example with the inputs of all methods, or the ``error`` that preparing it raised.

    ``potential_error`` concerns only methods with a potential. ``judged``: for each text scored so far, its scores and
    whether it satisfies the constraint."""

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
        """Return the error that prevents a run of a method on this example, or None."""
        return self.error or (self.potential_error if method.potential else None)


class Preparer:
    """Prepares examples of a task; ``prompt`` and ``hmm`` as in :class:`~.runner.Bench`."""

    def __init__(
        self,
        task: Task,
        vocab: Vocabulary,
        hmm: HMM | Callable[[Prompt], HMM] | None,
        prompt: Callable[[Example], Prompt],
    ) -> None:
        self.task, self.vocab, self.hmm, self.prompt = task, vocab, hmm, prompt
        self._compiled: dict[str, Automaton] = {}

    def prepare(self, chunk: Sequence[Example]) -> list[Prepared]:
        """Prepare each example. Equal constraints of this chunk and the one before share an automaton."""
        former, self._compiled = self._compiled, {}
        return [self._one(example, former) for example in chunk]

    def _one(self, example: Example, former: dict[str, Automaton]) -> Prepared:
        one = Prepared(example)
        try:
            one.prompt = self.prompt(example)
            one.constraint = self.task.constraint(example)
            nfa = one.constraint.nfa
            name = store.digest([nfa.to_bytes()])
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


def split_by_memory(prepared: Sequence[Prepared], max_new_tokens: int) -> Iterator[list[Prepared]]:
    """Split examples into batches whose backward messages fit in :data:`HMM_MEMORY`.

    Examples with the same automaton and HMM share their messages."""
    part: list[Prepared] = []
    tables: dict[tuple[int, int], int] = {}
    for one in prepared:
        if one.fa is not None and one.hmm is not None:
            key = id(one.fa), id(one.hmm)
            itemsize = one.hmm.initial_probs.element_size()
            tables[key] = one.fa.guide().num_states * one.hmm.hidden * max_new_tokens * itemsize
            if part and sum(tables.values()) > HMM_MEMORY:
                yield part
                part, tables = [], {key: tables[key]}
        part.append(one)
    if part:
        yield part
