"""The token sets on an automaton's edges, with equal sets sharing one number."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from ...circuits.automaton import Automaton


class EdgeLabels:
    """The distinct edge labels of an automaton: the label's ``number`` of each edge, and the token ``classes`` of each label."""

    number: Int[Tensor, " edges"]
    classes: list[tuple[int, ...]]

    def __init__(self, automaton: Automaton) -> None:
        self._labels = labels = automaton.labels
        order = torch.argsort(labels.incidence.row, stable=True)
        counts = torch.bincount(labels.incidence.row, minlength=labels.unit_dims[0]).tolist()
        known: dict[tuple[int, ...], int] = {}
        number = [
            known.setdefault(tuple(sorted(classes.tolist())), len(known))
            for classes in labels.incidence.col[order].split(counts)
        ]
        self.number, self.classes = torch.tensor(number), list(known)
        self._tokens: dict[int, Int[Tensor, " some"]] = {}

    def tokens(self, label: int) -> Int[Tensor, " some"]:
        """Return the token ids of a label, ascending; kept."""
        if (found := self._tokens.get(label)) is None:
            members = [self._labels.members()[c] for c in self.classes[label]]
            found = self._tokens[label] = torch.cat(members).sort().values if members else torch.arange(0)
        return found
