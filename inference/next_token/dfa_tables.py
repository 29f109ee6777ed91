"""DFA tables for steps of fixed shapes: each state's edges padded to the same number of entries."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from .token_scores import EdgeLabels, ragged_arange

GATHERED = 2000  # tokens that a GPU scores densely in about the time in which it gathers one emission column


class PaddedCSR(NamedTuple):
    """A ragged table: state s has entries first[s] … first[s + 1] − 1; ``most`` is the largest number of any state."""

    first: Int[Tensor, " states+2"]
    edge: Int[Tensor, " entries"]
    token: Int[Tensor, " entries"]  # whose emission column is gathered (narrow edges)
    most: int

    def of(
        self, state: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch most"], Bool[Tensor, "batch most"]]:
        """Return each state's entries padded to ``most``, and which of the padded places are filled."""
        place = torch.arange(self.most, device=state.device)
        entry = self.first.index_select(0, state)[:, None] + place
        there = entry < self.first.index_select(0, state + 1)[:, None]
        return entry.clamp(max=len(self.edge) - 1), there


class PaddedEdges:
    """A DFA as tensors on a device: its transitions and each state's edges, wide ones (of many tokens) and narrow ones apart."""

    def __init__(self, automaton: Automaton, edge_labels: EdgeLabels, device: torch.device) -> None:
        labels, states = automaton.labels, automaton.num_states
        label = edge_labels.number
        tokens = [edge_labels.tokens(i) for i in range(len(edge_labels.classes))]
        counts = torch.tensor(edge_labels.sizes)
        size, source = counts[label], automaton.edge_source
        threshold = _threshold(size, source, states, automaton.vocab_size)
        many = (size > threshold).nonzero().squeeze(1)
        few = (size <= threshold).nonzero().squeeze(1)
        line, place = ragged_arange(size[few])
        first = counts.cumsum(0) - counts
        token = torch.cat(tokens)[first[label[few]][line] + place]
        self.wide = _padded(states, source[many], many, torch.zeros_like(many), device)
        self.narrow = _padded(states, source[few][line], few[line], token, device)
        leaving: list[list[int]] = [[] for _ in range(states + 1)]  # the labels of each state's wide edges
        for s, k in zip(source[many].tolist(), label[many].tolist(), strict=True):
            leaving[s].append(k)
        kinds = {key: i for i, key in enumerate(dict.fromkeys(map(tuple, leaving)))}
        place_of = torch.full((len(kinds), automaton.vocab_size), self.wide.most, dtype=torch.int16)
        for key, i in kinds.items():
            for column, k in enumerate(key):
                place_of[i, tokens[k]] = column
        self._kind = torch.tensor([kinds[tuple(key)] for key in leaving], device=device)
        self._place_of = place_of.to(device)

        moves, none = automaton.transitions, torch.tensor([[states, labels.num_classes, states]])
        moves = torch.cat([moves, none])  # ascending, for a binary search by (state, class)
        self._classes, self._none = labels.num_classes + 1, states
        self._key = (moves[:, 0] * self._classes + moves[:, 1]).to(device)
        self._reached = moves[:, 2].to(device)
        begin, of = labels.by_token(torch.device("cpu"))
        line, place = ragged_arange(begin.diff())
        most = int(begin.diff().max().clamp(min=1))
        self._of = torch.full((labels.vocab_size, most), labels.num_classes)  # the classes of each token
        self._of[line, place] = of
        self._of = self._of.to(device)

    def wide_edge(self, state: Int[Tensor, " batch"]) -> Int[Tensor, "batch vocab"]:
        """Return the place of each token's wide edge among those of the row's state; ``wide.most`` if it has none."""
        return self._place_of.index_select(0, self._kind.index_select(0, state)).long()

    def step(self, state: Int[Tensor, " batch"], token: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Return the state after one token in each row; the number of states if there is none."""
        key = state[:, None] * self._classes + self._of.index_select(0, token)
        at = torch.searchsorted(self._key, key).clamp(max=len(self._key) - 1)
        found = self._key.take(at) == key
        return torch.where(found, self._reached.take(at), self._none).amin(1)


def _padded(states: int, source: Tensor, edge: Tensor, token: Tensor, device: torch.device) -> PaddedCSR:
    """Build a table from entries sorted by state ``source``, with one entry of padding at the end."""
    first = torch.searchsorted(source, torch.arange(states + 2))
    edge, token = (torch.cat([x, x.new_zeros(1)]).to(device) for x in (edge, token))
    return PaddedCSR(first.to(device), edge, token, max(1, int(first.diff().max())))


def _threshold(
    size: Int[Tensor, " edges"], source: Int[Tensor, " edges"], states: int, vocab_size: int
) -> int:
    """Return the label size above which an edge counts as wide, minimising the work of the worst state."""

    def work(threshold: int) -> tuple[int, int]:
        wide = size > threshold
        labels = torch.zeros(states, dtype=torch.long).index_add(0, source, wide.long())
        tokens = torch.zeros(states, dtype=torch.long).index_add(0, source, size * ~wide)
        return int(labels.max()) * vocab_size + GATHERED * int(tokens.max()), threshold

    return min(work(min(1 << i, vocab_size)) for i in range(vocab_size.bit_length() + 1))[1]
