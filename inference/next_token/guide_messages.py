"""Backward messages for guiding a sampler: those of :mod:`~.backward_table`, within a tolerance.

With β_r[h, s] the probability that an HMM in hidden state h and an automaton in state s emit r more tokens and accept,

    F_r = A β_r,      β_{r+1}[h, s] = Σ_{e: s → s'} b_e[h] · F_r[h, s'],      b_e[h] = Σ_{v ∈ label(e)} B[h, v].

There are two approximations. Positive entries below :data:`FLOOR` times the largest of their column are raised to this bound, so
hardly any underflows and no doubt is kept. And the sweep ends once the messages hardly change: with many tokens left, one more
matters little. A sampler's weights correct for the difference.

A step processes the states in blocks, which bounds its memory. Within a block, edges of equal label and target share the product
b_e ∘ F_r[:, s'].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from .backward_table import label_emission
from .edge_labels import EdgeLabels
from .underflow import Times

FLOOR = 1e-30  # the least positive entry of a column, as a share of its largest
EVERY = 4  # steps between two checks of how much the messages change
BLOCK_ELEMENTS = (
    1 << 21
)  # the most numbers in the messages at the targets of a block's edges, unless the block has one state


def floored(rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows hidden"]:
    """Raise positive entries below :data:`FLOOR` to it, in rows with maxima of about one; zeros stay."""
    return torch.where(rows > 0, rows.clamp(min=FLOOR), rows)


class Block(NamedTuple):
    """Consecutive states, the edges that leave them, and the distinct (label, target) pairs of these edges.

    ``edges`` are sorted by source and pair. ``places`` has each edge's source, counted from the block's first state, and pair.
    """

    states: slice
    edges: Int[Tensor, " edges"]
    places: Int[Tensor, "2 edges"]
    target: Int[Tensor, " pairs"]
    emitted: Float[Tensor, "pairs hidden"]  # b_e


def blocks(
    automaton: Automaton, label: Int[Tensor, " edges"], emitted: Float[Tensor, "labels hidden"]
) -> Iterator[Block]:
    """Cut the states of an automaton, whose edges are sorted by source, into blocks."""
    states, source = automaton.num_states, automaton.edge_source
    first = torch.searchsorted(source, torch.arange(states + 1))  # the first edge of each state
    width = max(1, BLOCK_ELEMENTS // emitted.shape[1])
    begin = 0
    while begin < states:
        end = int(torch.searchsorted(first, first[begin] + width, right=True)) - 1
        end = max(begin + 1, min(end, states))
        edges = torch.arange(int(first[begin]), int(first[end]))
        key = label[edges] * states + automaton.edge_target[edges]
        pair, place = torch.unique(key, return_inverse=True)
        order = ((source[edges] - begin) * len(pair) + place).argsort()
        places = torch.stack([source[edges] - begin, place])[:, order]
        yield Block(
            slice(begin, end), edges[order], places, pair % states, emitted.index_select(0, pair // states)
        )
        begin = end


class GuideMessages:
    """The messages F_r for r = 0, 1, … tokens after the next one, until they stay the same within ``tolerance``.

    ``tolerance`` is the error in nats that the logarithm of an entry may have, as estimated from how fast the changes shrink;
    with 0 the sweep goes on to the horizon. ``columns[r]`` and ``scale[r]`` hold F_r; a larger r uses the last ones.
    """

    def __init__(
        self, hmm: HMM, automaton: Automaton, horizon: int, labels: EdgeLabels, tolerance: float
    ) -> None:
        emission = hmm.inputs.table()
        self._move, self._hidden, self._states = Times(hmm.transition), hmm.hidden, automaton.num_states
        self._source, self._target = automaton.edge_source, automaton.edge_target
        emitted = label_emission(emission, automaton, labels)
        parts = list(blocks(automaton, labels.number, emitted))
        self.columns: list[Float[Tensor, "states hidden"]] = []
        self.scale: list[Float[Tensor, " states"]] = []  # nats; −inf where no r more tokens are accepted
        accept = automaton.final[0].to(emission)
        columns, moved = self._move(accept[:, None].expand(-1, hmm.hidden))
        self.columns.append(floored(columns))
        self.scale.append(torch.where(accept > 0, 0.0, -torch.inf).double() + moved)
        change = math.inf
        while len(self.scale) < horizon:
            self._before(parts)
            if tolerance and not len(self.scale) % EVERY:
                change, last = self._change(), change
                if self._rest(change, last, horizon - len(self.scale)) <= tolerance:
                    break

    @property
    def nbytes(self) -> int:
        """The size of the tensors in bytes."""
        return sum(t.nbytes for t in (*self.columns, *self.scale))

    def ahead(
        self, left: Int[Tensor, " queries"], state: Int[Tensor, " queries"]
    ) -> tuple[Float[Tensor, "queries hidden"], Float[Tensor, " queries"]]:
        """Return F_left[:, state] for each pair of ``left`` and ``state``, and the logarithms (nats) of the scales."""
        left = left.clamp(max=len(self.scale) - 1)
        asked = left.unique().tolist()
        if len(asked) == 1:
            r = asked[0]
            return self.columns[r].index_select(0, state), self.scale[r].index_select(0, state)
        columns = self.columns[0].new_empty(len(left), self._hidden)
        scale = self.scale[0].new_empty(len(left))
        for r in asked:
            here = (left == r).nonzero().squeeze(1)
            columns[here] = self.columns[r].index_select(0, state[here])
            scale[here] = self.scale[r].index_select(0, state[here])
        return columns, scale

    def _before(self, parts: list[Block]) -> None:
        """Compute F_{r+1} from the last message F_r, and append it."""
        ahead, scale = self.columns[-1], self.scale[-1]
        ahead_scale = scale.index_select(0, self._target)
        top = torch.full_like(scale, -torch.inf).scatter_reduce(0, self._source, ahead_scale, "amax")
        shift = torch.where(top.isfinite(), top, 0)
        weight = (ahead_scale - shift.index_select(0, self._source)).exp().to(ahead)
        beta, most = torch.empty_like(ahead), ahead.new_empty(len(scale))
        for states, edges, places, target, emitted in parts:
            units = ahead.index_select(0, target).mul_(emitted)
            shape = states.stop - states.start, len(target)
            weights = weight.index_select(0, edges)
            matrix = torch.sparse_coo_tensor(
                places, weights, shape, is_coalesced=True, check_invariants=False
            )
            here = torch.sparse.mm(matrix, units)
            torch.amax(here, 1, out=most[states])
            torch.div(here, torch.where(most[states] > 0, most[states], 1)[:, None], out=beta[states])
        columns, moved = self._move(beta)
        self.columns.append(floored(columns))
        self.scale.append(top + most.double().log() + moved)

    @staticmethod
    def _rest(change: float, last: float, steps: int) -> float:
        """Estimate by how much (nats) ``steps`` more steps change the messages, from the last two changes.

        The estimate is the smaller of two: the changes go on shrinking at the present rate, or they stay as they are. A message
        is a positive linear function of the one before, so the largest change of a logarithm never grows.
        """
        shrinking = EVERY * change / (1 - change / last) if change < last < math.inf else math.inf
        return min(shrinking, steps * change) if steps else 0.0

    def _change(self) -> float:
        """Return the largest difference (nats) of the last two messages, infinite if they are far apart."""
        (a, b), (low, high) = self.scale[-2:], self.columns[-2:]
        if not torch.equal(alive := a.isfinite(), b.isfinite()):
            return math.inf
        if not bool(alive.any()):
            return math.inf
        shift = (b - a)[alive]
        if float(shift.abs().amax()) > 1:  # far from settled, whatever the columns are
            return math.inf
        ratio = (high[alive] / low[alive]).nan_to_num(1.0, torch.inf)  # 0 / 0 is no change
        return float((ratio.log().double() + shift[:, None]).abs().amax())
