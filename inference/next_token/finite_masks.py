"""Token masks of an explicit automaton, for :class:`~.gcd.GCDQuery`.

A configuration is the tuple of the automaton's live states (one, if it is deterministic). Its mask is the union of the labels
of those edges whose target can still be accepted in the tokens left. If an accepted sequence can always be extended (by a
constraint's end-of-sequence sink), the target's distance to acceptance decides: edges are sorted by distance, and a mask is the
union of a prefix of them. Otherwise the Boolean backward message β decides. Every union is built once and cached.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import UNREACHABLE, Automaton
from ..engine.filter import Filter
from ..queries.evidence import Evidence
from ..semirings.linear import Boolean
from .rows import Shortfall, pack_bits, shortfall_of

MASK_CACHE_BYTES = 1 << 27
States = tuple[int, ...]


class Edges(NamedTuple):
    """The edges out of a state, without dead ends, by ascending distance (tokens) of the target to acceptance."""

    targets: list[int]
    distances: list[int]
    tokens: list[list[Int[ndarray, " some"]]]


@final
class FiniteMasks:
    """The token masks of an explicit automaton; ``horizon``: the largest budget in tokens, None for no budget."""

    def __init__(self, automaton: Automaton, horizon: int | None) -> None:
        self.automaton, self.horizon = automaton, horizon
        self.start_state: States = tuple(automaton.start_states)
        # by configuration: its full mask, and the smallest budget for which that applies
        self._kept: dict[States, tuple[memoryview, int]] = {}
        self.betas = self._sweep()
        self._near: dict[tuple[int, int | bytes], memoryview] = {}  # by state and the edges taken
        self._edges: dict[int, Edges] = {}  # by state
        self._most_kept = max(1, MASK_CACHE_BYTES // (4 * -(-automaton.vocab_size // 32)))
        self._none = np.zeros(-(-automaton.vocab_size // 32), np.int32).data

    def _sweep(self) -> Bool[ndarray, "states lengths"] | None:
        """Return Boolean β (states, tokens left = 0, 1, …) until it is constant; None if distances suffice."""
        if self.horizon is None or self.automaton.acceptance_extends:
            return None
        columns = [self.automaton.final[0][:, None] > 0]
        messages, everything = Filter(self.automaton, Boolean()), Evidence(1, self.automaton.device)
        for ahead in messages.backward(everything, range(self.horizon)):
            columns.append(messages.states(ahead) > 0)
            if torch.equal(columns[-1], columns[-2]):
                break
        found: Bool[ndarray, "states lengths"] = torch.cat(columns, 1).numpy()
        return found

    def step(self, states: States, token: int) -> States:
        """Return the live states after a token."""
        step = self.automaton.step
        if len(states) == 1:
            return step(states[0], token)
        return tuple(sorted({target for state in states for target in step(state, token)}))

    def after(self, rows: Sequence[tuple[Any, ...]], tokens: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return each row after its token: (state, tokens left, row before). A row with no tokens left keeps its state."""
        return [
            (self.step(row[0], token), row[1] - 1, row) if row[1] > 0 else (row[0], 0, row)
            for row, token in zip(rows, tokens, strict=True)
        ]

    def accepting(self, states: States) -> bool:
        """Tell whether one of the states is accepting."""
        return not set(states).isdisjoint(self.automaton.accept_states)

    # ------------------------------------------------------------ masks

    def fill(self, rows: Sequence[tuple[Any, ...]], out: Int32[ndarray, "row words"]) -> None:
        """Write the masks of rows, each of which begins with its configuration and its budget."""
        for line, (states, budget, *_) in zip(out, rows, strict=True):
            line.data[:] = self.mask(states, budget)

    def allows(self, states: States, budget: int, token: int) -> bool:
        """Return whether the mask of a configuration has a token."""
        return bool(self.mask(states, budget)[token >> 5] >> (token & 31) & 1)

    def mask(self, states: States, budget: int) -> memoryview:
        """Return as int32 words the tokens after which acceptance is reachable within ``budget`` − 1 more."""
        known = self._kept.get(states)
        if known is not None and budget >= known[1]:
            return known[0]
        if not budget or not states:
            return self._none
        left = UNREACHABLE - 1 if self.horizon is None else budget - 1
        if len(states) == 1:
            return self._of_state(states[0], left)
        union = np.zeros(len(self._none), np.int32)
        for state in states:
            union |= np.frombuffer(self._of_state(state, left), np.int32)
        return union.data

    def _of_state(self, state: int, left: int) -> memoryview:
        """Return the tokens from a state into states that accept within ``left`` more tokens."""
        edges = self._edges_of(state)
        if self.betas is not None:
            alive = self.betas[edges.targets, min(left, self.betas.shape[1] - 1)]
            return self._chosen(state, edges, alive.tobytes(), alive)
        count = bisect_right(edges.distances, left)
        mask = self._chosen(state, edges, count, np.arange(len(edges.targets)) < count)
        if count == len(edges.targets):
            budget_free = self.horizon is None or not count
            self._kept[state,] = mask, 1 if budget_free else edges.distances[-1] + 1
        return mask

    def _chosen(
        self, state: int, edges: Edges, key: int | bytes, alive: Bool[ndarray, " edges"]
    ) -> memoryview:
        """Return the union of the labels of the edges ``alive``; ``key`` identifies that set in the cache."""
        found = self._near.get((state, key))
        if found is None:
            if len(self._near) > self._most_kept:
                self._kept.clear()
                self._near.clear()
            allowed = np.zeros(self.automaton.vocab_size, bool)
            for pieces, yes in zip(edges.tokens, alive.tolist(), strict=True):
                for tokens in pieces if yes else ():
                    allowed[tokens] = True
            found = self._near[state, key] = pack_bits(torch.from_numpy(allowed)[None])[0].numpy().data
        return found

    def _edges_of(self, state: int) -> Edges:
        edges = self._edges.get(state)
        if edges is None:
            distances = self.automaton.distances
            found = [(int(distances[t]), t, tokens) for t, tokens in self.automaton.edges_from(state)]
            found = sorted((x for x in found if x[0] < UNREACHABLE), key=lambda x: x[0])
            edges = Edges([t for _, t, _ in found], [d for d, _, _ in found], [x for _, _, x in found])
            self._edges[state] = edges
        return edges

    # ------------------------------------------------------------ lengths

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Implement :meth:`NextTokenQuery.feasible_lengths`."""
        if self.horizon is None:
            return torch.tensor([self._fewest() < UNREACHABLE])
        lengths = torch.arange(self.horizon + 1)
        if self.betas is None:
            return lengths >= self._fewest()
        found = torch.from_numpy(self.betas[self.automaton.start_states].any(0))
        return found[lengths.clamp(max=len(found) - 1)]

    def _fewest(self) -> int:
        return int(self.automaton.distances[self.automaton.start_states].min())

    def shortfall(self, lengths: list[int]) -> Shortfall | None:
        """Return the smallest infeasible length of ``lengths`` and the next feasible one; None if all are feasible.

        Past the horizon, the search tries at most as many further lengths as the automaton has states.
        """
        if self.horizon is not None and self.betas is None and min(lengths, default=0) >= self._fewest():
            return None
        found = shortfall_of(self.feasible_lengths(), lengths, self.horizon)
        if found is None or found.needed is not None:
            return found
        given, fa = found.given, self.automaton
        if self.betas is None:
            fewest = self._fewest()
            return Shortfall(given, fewest if self.horizon is not None and fewest < UNREACHABLE else None)
        reached, accept = fa.initial[0] > 0, fa.final[0] > 0
        for n in range(1, given + fa.num_states + 1) if fa.num_edges else ():
            reached = torch.zeros_like(reached).index_fill_(0, fa.edge_target[reached[fa.edge_source]], True)
            if n > given and bool((reached & accept).any()):
                return Shortfall(given, n)
        return Shortfall(given, None)
