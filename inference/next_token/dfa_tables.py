"""An automaton's tables for steps of fixed shapes: what each state's edges ask for, spread over a fixed number of places."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from .backward_table import label_numbers
from .emission_table import in_pairs

GATHERED = (
    2000  # a gathered column takes an accelerator as long as so many tokens of a product with all of them
)


class PaddedCSR(NamedTuple):
    """What belongs to each state, state after state: entries first[s] … first[s + 1] − 1, at most ``most`` of them."""

    first: Int[Tensor, " states+2"]
    edge: Int[Tensor, " entries"]
    token: Int[Tensor, " entries"]  # of a gathered column
    label: Int[Tensor, " entries"]  # of an edge with many tokens
    most: int

    def of(
        self, state: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch most"], Bool[Tensor, "batch most"]]:
        """The entries of a state, and whether there are so many."""
        place = torch.arange(self.most, device=state.device)
        entry = self.first.index_select(0, state)[:, None] + place
        there = entry < self.first.index_select(0, state + 1)[:, None]
        return entry.clamp(max=len(self.edge) - 1), there


class Tables:
    """The tables of an automaton on a device."""

    def __init__(self, automaton: Automaton, device: torch.device) -> None:
        labels, states = automaton.labels, automaton.num_states
        label, classes = label_numbers(automaton)
        members = labels.members()
        tokens = [torch.cat([members[c] for c in key]) if key else torch.arange(0) for key in classes]
        counts = torch.tensor([len(t) for t in tokens])
        size, source = counts[label], automaton.edge_source
        threshold = _threshold(size, source, states, automaton.vocab_size)
        many = (size > threshold).nonzero().squeeze(1)
        few = (size <= threshold).nonzero().squeeze(1)
        line, place = in_pairs(size[few])
        first = counts.cumsum(0) - counts
        token = torch.cat(tokens)[first[label[few]][line] + place]
        used, number = label[many].unique(return_inverse=True)
        self.member = torch.zeros(max(1, len(used)), automaton.vocab_size, dtype=torch.bool)
        for i, k in enumerate(used.tolist()):
            self.member[i, tokens[k]] = True
        self.member = self.member.to(device)
        self.wide = _spread(states, source[many], many, torch.zeros_like(many), number, device)
        self.narrow = _spread(states, source[few][line], few[line], token, torch.zeros_like(line), device)

        moves, none = automaton.transitions, torch.tensor([[states, labels.num_classes, states]])
        moves = torch.cat([moves, none])  # ascending, so that (state, class) can be looked for
        self._classes, self._none = labels.num_classes + 1, states
        self._key = (moves[:, 0] * self._classes + moves[:, 1]).to(device)
        self._reached = moves[:, 2].to(device)
        begin, of = labels.by_token(torch.device("cpu"))
        line, place = in_pairs(begin.diff())
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


def _spread(
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
