"""Random choices that are picks of a script: all that a sampler may draw, each with its probability."""

import numpy as np
import torch

from tractile.inference.smc.awrs import Row


class Script:
    """Choices to repeat; then the first option each time. ``branches`` are the scripts that choose otherwise."""

    def __init__(self, given=()):
        self.given, self.taken, self.probability, self.branches = list(given), [], 1.0, []

    def pick(self, weights):
        weights = np.asarray(weights, dtype=np.float64)
        options = np.flatnonzero(weights).tolist()
        if len(self.taken) < len(self.given):
            choice = self.given[len(self.taken)]
        else:
            choice = options[0]
            self.branches += [[*self.taken, other] for other in options[1:]]
        self.probability *= weights[choice] / weights.sum()
        self.taken.append(choice)
        return choice


def outcomes(sample):
    """(probability, result) of ``sample(pick)`` for every way the picks can fall."""
    pending = [[]]
    while pending:
        script = Script(pending.pop())
        result = sample(script.pick)
        pending += script.branches
        yield script.probability, result


class ScriptedRow(Row):
    """A row whose draws are picks, each among the tokens that are left."""

    def __init__(self, q, prefix, pick):
        super().__init__(q, prefix, torch.Generator())
        self.picked = pick

    def pick(self, weights, cumulative=None):
        return self.picked(weights)

    def draw(self):
        return self.pick(np.where(np.isin(np.arange(len(self.q)), list(self._gone)), 0.0, self.q))
