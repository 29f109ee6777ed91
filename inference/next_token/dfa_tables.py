"""An automaton's tables for steps of fixed shapes: what each state's edges ask for, spread over a fixed number of places."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from .edge_labels import EdgeLabels
from .emission_table import ragged_arange

GATHERED = (
    2000  # on a GPU, gathering one emission column costs about as much as scoring so many tokens densely
)


class PaddedCSR(NamedTuple):
    """Entries by state, first[s] … first[s + 1] − 1, read as rows of ``most`` places, the largest number of entries."""

    first: Int[Tensor, " states+2"]
    edge: Int[Tensor, " entries"]
    token: Int[Tensor, " entries"]  # of a gathered column
    label: Int[Tensor, " entries"]  # of an edge with many tokens
    most: int

    def of(
        self, state: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch most"], Bool[Tensor, "batch most"]]:
        """The entries of each state, and which places are filled."""
        place = torch.arange(self.most, device=state.device)
        entry = self.first.index_select(0, state)[:, None] + place
        there = entry < self.first.index_select(0, state + 1)[:, None]
        return entry.clamp(max=len(self.edge) - 1), there


class Tables:
    """A deterministic automaton on a device: its step, and the tokens of the edges out of each state."""

    def __init__(self, automaton: Automaton, edge_labels: EdgeLabels, device: torch.device) -> None:
        labels, states = automaton.labels, automaton.num_states
        label = edge_labels.number
        tokens = [edge_labels.tokens(i) for i in range(len(edge_labels.classes))]
        counts = torch.tensor([len(t) for t in tokens])
        size, source = counts[label], automaton.edge_source
        threshold = _threshold(size, source, states, automaton.vocab_size)
        many = (size > threshold).nonzero().squeeze(1)
        few = (size <= threshold).nonzero().squeeze(1)
        line, place = ragged_arange(size[few])
        first = counts.cumsum(0) - counts
        token = torch.cat(tokens)[first[label[few]][line] + place]
        used, number = label[many].unique(return_inverse=True)
        self.member = torch.zeros(max(1, len(used)), automaton.vocab_size, dtype=torch.bool)
        for i, k in enumerate(used.tolist()):
            self.member[i, tokens[k]] = True
        self.member = self.member.to(device)
        self.wide = _padded(states, source[many], many, torch.zeros_like(many), number, device)
        self.narrow = _padded(states, source[few][line], few[line], token, torch.zeros_like(line), device)

        moves, none = automaton.transitions, torch.tensor([[states, labels.num_classes, states]])
        moves = torch.cat([moves, none])  # ascending, so that (state, class) can be looked for
        self._classes, self._none = labels.num_classes + 1, states
        self._key = (moves[:, 0] * self._classes + moves[:, 1]).to(device)
        self._reached = moves[:, 2].to(device)
        begin, of = labels.by_token(torch.device("cpu"))
        line, place = ragged_arange(begin.diff())
        most = int(begin.diff().max().clamp(min=1))
        self._of = torch.full((labels.vocab_size, most), labels.num_classes)  # the classes of each token
        self._of[line, place] = of
        self._of = self._of.to(device)

    def step(self, state: Int[Tensor, " batch"], token: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The states after one token."""
        key = state[:, None] * self._classes + self._of.index_select(0, token)
        at = torch.searchsorted(self._key, key).clamp(max=len(self._key) - 1)
        found = self._key.take(at) == key
        return torch.where(found, self._reached.take(at), self._none).amin(1)


def _padded(
    states: int, source: Tensor, edge: Tensor, token: Tensor, label: Tensor, device: torch.device
) -> PaddedCSR:
    """Entries by their states, ascending; one more entry at the end, of no state."""
    first = torch.searchsorted(source, torch.arange(states + 2))
    edge, token, label = (torch.cat([x, x.new_zeros(1)]).to(device) for x in (edge, token, label))
    return PaddedCSR(first.to(device), edge, token, label, max(1, int(first.diff().max())))


def _threshold(
    size: Int[Tensor, " edges"], source: Int[Tensor, " edges"], states: int, vocab_size: int
) -> int:
    """The size of a label above which every token is scored, at the least work in the worst state."""

    def work(threshold: int) -> tuple[int, int]:
        wide = size > threshold
        labels = torch.zeros(states, dtype=torch.long).index_add(0, source, wide.long())
        tokens = torch.zeros(states, dtype=torch.long).index_add(0, source, size * ~wide)
        return int(labels.max()) * vocab_size + GATHERED * int(tokens.max()), threshold

    return min(work(min(1 << i, vocab_size)) for i in range(vocab_size.bit_length() + 1))[1]
