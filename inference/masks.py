"""GCD and LCD: the Boolean next-token query on an automaton, by cached masks.

A prefix keeps few states alive (one, in a deterministic automaton). The mask of a live state is the union of the labels
of its edges into states with β_{r−1} = 1; which edges those are takes few values as r falls, so each union is built
once and kept. Equal, by test, to ``NextToken(automaton, horizon, Boolean())``.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..circuits.automaton import Automaton
from .evidence import Evidence
from .messages import backward
from .next_token import NextToken, pack_bits
from .semiring import Boolean

MASK_CACHE_BYTES = 1 << 27


class MaskQuery(NextToken):
    """The Boolean query on an automaton: live (row, state) pairs instead of a dense message."""

    def __init__(self, automaton: Automaton, horizon: int | None) -> None:
        self.automaton = automaton
        self.labels = automaton.labels
        s, c, d = automaton.transitions.T
        self._state, self._class, self._target = s.contiguous(), c.contiguous(), d.contiguous()
        self._key = self._state * self.labels.num_classes + self._class  # sorted: transitions are
        self._first = torch.searchsorted(self._state, torch.arange(automaton.num_states + 1))
        self._edge_first = torch.searchsorted(automaton.edge_source, torch.arange(automaton.num_states + 1))
        self._masks: OrderedDict[tuple[int, bytes], tuple[Tensor, Tensor]] = OrderedDict()
        super().__init__(automaton, horizon, Boolean())

    def _sweep(self) -> Bool[Tensor, "states lengths"]:
        """β as booleans (states, tokens left + 1), cut where it has become constant."""
        if self.horizon is None:
            return torch.ne(super()._sweep(), 0)
        columns: list[Tensor] = []
        for beta in backward(self.automaton, self.semiring, Evidence(1), self.horizon):
            columns.append(beta > 0)
            if len(columns) > 1 and torch.equal(columns[-1], columns[-2]):
                break
        return torch.cat(columns, 1)

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        lengths: Tensor = self._betas[self.automaton.start_states].any(0)
        if self.horizon is None:
            return lengths
        return torch.cat([lengths, lengths[-1:].expand(self.horizon + 1 - len(lengths))])

    def _needed(self, given: int) -> int | None:
        """The smallest feasible length above ``given``; beyond the horizon, within the number of states more."""
        if (near := super()._needed(given)) is not None or self.horizon is None or not len(self._state):
            return near
        fa = self.automaton
        reached, accept = fa.initial[0] > 0, fa.final[0] > 0
        for n in range(1, given + fa.num_states + 1):
            reached = torch.zeros_like(reached).index_fill_(0, fa.edge_target[reached[fa.edge_source]], True)
            if n > given and bool((reached & accept).any()):
                return n
        return None

    def _begin(self, batch: int) -> None:
        starts = torch.tensor(self.automaton.start_states)
        self._row = torch.arange(batch).repeat_interleave(len(starts))
        self._live = starts.repeat(batch)

    def _column(self) -> Int[Tensor, " batch"]:
        return self._left().clamp(max=self._betas.shape[1] - 1)

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self._union(0).masked_fill(self.remaining.eq(0)[:, None], False)

    def bitmask(self) -> Int[Tensor, "batch words"]:
        return self._union(1).masked_fill(self.remaining.eq(0)[:, None], 0)

    def log_weights(self) -> Tensor:
        return torch.zeros(len(self.remaining), self.vocab_size).masked_fill(~self.mask(), -torch.inf)

    def _union(self, packed: int) -> Tensor:
        width = -(-self.vocab_size // 32) if packed else self.vocab_size
        out = torch.zeros(len(self.remaining), width, dtype=torch.int32 if packed else torch.bool)
        columns = self._column()[self._row].tolist()
        for row, state, column in zip(self._row.tolist(), self._live.tolist(), columns, strict=True):
            out[row] |= self._state_mask(state, column)[packed]
        return out

    def _state_mask(self, state: int, column: int) -> tuple[Tensor, Tensor]:
        """The tokens of the edges out of a state whose targets have β = 1, as booleans and as bits."""
        a, b = int(self._edge_first[state]), int(self._edge_first[state + 1])
        alive = self._betas[self.automaton.edge_target[a:b], column]
        key = (state, alive.numpy().tobytes())
        if key in self._masks:
            self._masks.move_to_end(key)
            return self._masks[key]
        a, b = int(self._first[state]), int(self._first[state + 1])
        mask = self._tokens(self._class[a:b][self._betas[self._target[a:b], column]])
        self._masks[key] = (mask, pack_bits(mask[None])[0])
        while len(self._masks) > max(1, MASK_CACHE_BYTES // self.vocab_size):
            self._masks.popitem(last=False)
        return self._masks[key]

    def _tokens(self, classes: Int[Tensor, " some"]) -> Bool[Tensor, " vocab"]:
        """The tokens of some classes."""
        chosen = torch.zeros(
            self.labels.num_classes + 1, dtype=torch.bool
        )  # the last one stands for class −1
        chosen[classes] = True
        return chosen[self.labels.token_class]

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        self._check_tokens(tokens)
        _, self._row, self._live = self._step(tokens)
        self.remaining = (self.remaining - 1).clamp(min=0)

    def _step(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The transitions that the tokens take: for each its pair, and the (row, state) pairs reached, distinct and sorted."""
        klass = self.labels.token_class[tokens][self._row]
        done = self.remaining[self._row] == 0
        key = self._live * self.labels.num_classes + klass
        low, high = torch.searchsorted(self._key, key), torch.searchsorted(self._key, key, right=True)
        ways = torch.where((klass < 0) & ~done, 0, torch.where(done, 1, high - low))
        pair = torch.arange(len(key)).repeat_interleave(ways)
        offset = torch.arange(len(pair)) - (ways.cumsum(0) - ways)[pair]
        moving, target = ~done[pair], self._live[pair]
        target[moving] = self._target[(low[pair] + offset)[moving]]
        merged = torch.unique(torch.stack([self._row[pair], target], 1), dim=0)
        self._into = torch.stack([self._row[pair], target], 1)
        return pair, merged[:, 0], merged[:, 1]

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        keep = self._select_pairs(indices)
        self._row, self._live = (
            torch.arange(len(indices)).repeat_interleave(self._counts[indices]),
            self._live[keep],
        )
        self.remaining = self.remaining[indices]

    def _select_pairs(self, indices: Tensor) -> Int[Tensor, " pairs"]:
        """The positions of the pairs of rows ``indices``, row after row."""
        self._counts = torch.bincount(self._row, minlength=len(self.remaining))
        first = self._counts.cumsum(0) - self._counts
        counts = self._counts[indices]
        offset = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        return first[indices].repeat_interleave(counts) + offset


def gcd(automaton: Automaton, horizon: int) -> MaskQuery:
    """Globally constrained decoding: the tokens that can still be completed within the budget (Dang et al. 2026, Eq. 2)."""
    return MaskQuery(automaton, horizon)


def lcd(automaton: Automaton) -> MaskQuery:
    """Locally constrained decoding: the tokens that can be completed at some length (Dang et al. 2026, Eq. 1)."""
    return MaskQuery(automaton, None)
