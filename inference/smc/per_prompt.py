"""A potential of its own for each prompt of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...lm.base import LanguageModel, Prompt
from .potentials import Potential, PrefixPotential, Product
from .step import BatchedStep, Extension, Knowledge, Step


@final
class PerPromptPotential(Potential):
    """The potential ``potentials[i]`` for prompt i; an object shared by prompts is evaluated once on all their particles.

    Each distinct potential is given only the states of its own prompts.
    """

    def __init__(self, potentials: Sequence[Potential]) -> None:
        self.potentials = list(potentials)
        self._distinct = list({id(one): one for one in self.potentials}.values())
        places = {id(one): place for place, one in enumerate(self._distinct)}
        self._of_prompt = torch.tensor([places[id(one)] for one in self.potentials])
        self.needs = max((one.needs for one in self.potentials), default=Knowledge.LOCAL)
        self.is_twist = any(one.is_twist for one in self.potentials)

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        self._owner = self._of_prompt  # of each state
        for place, potential in enumerate(self._distinct):
            mine = (self._owner == place).nonzero()[:, 0].tolist()
            potential.start(lm, [prompts[i] for i in mine], [budgets[i] for i in mine])

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        after = self._owner[indices]
        for place, potential in enumerate(self._distinct):
            mine = after == place
            if bool(mine.any()):
                number = (self._owner == place).cumsum(0) - 1
                potential.advance(number[indices[mine]], tokens[mine])
        self._owner = after

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        value = torch.zeros(len(rows.tokens), dtype=torch.float64)
        found: dict[int, list[tuple[Step, int, Tensor]]] = {}
        done = 0
        for part, states in rows.step.parts():
            first, place = int(states[0] - part.rows[0]), int(self._owner[states[0]])
            before = int((self._owner[:first] == place).sum())
            found.setdefault(place, []).append((part, before, torch.arange(done, done + len(states))))
            done += len(states)
        for place, parts in found.items():
            index = torch.cat([where for _, _, where in parts])
            step = parts[0][0]
            if len(parts) > 1 or parts[0][1]:
                step = BatchedStep([part for part, _, _ in parts], [before for _, before, _ in parts])
            shown = Extension(step, rows.tokens[index], rows.ended[index], rows.alive[index])
            value[index] = self._distinct[place].log_value(shown)
        return value


def combined(twists: Sequence[Potential | None], potentials: Sequence[Potential | None]) -> Potential:
    """Return the product of each prompt's twist and potential (None: none); shared objects are evaluated once."""
    factors = [_each(twists), _each(potentials)]
    kept = [factor for factor in factors if not isinstance(factor, PrefixPotential)] or factors[:1]
    return kept[0] if len(kept) == 1 else Product(*kept)


def _each(potentials: Sequence[Potential | None]) -> Potential:
    nothing = PrefixPotential()
    found = [nothing if one is None or isinstance(one, PrefixPotential) else one for one in potentials]
    if not found:
        return nothing
    return found[0] if all(one is found[0] for one in found[1:]) else PerPromptPotential(found)
