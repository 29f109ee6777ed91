"""GCD and LCD: the Boolean next-token query on an automaton, by cached masks.

A prefix keeps few states alive (one, in a deterministic automaton). The mask of a live state is the union of the labels
of its edges into states that can still be accepted in the tokens left. Where an accepted sequence can always be made
longer (a constraint's end-of-sequence sink), those are the states at most that many tokens from acceptance, so the edges
are sorted by the distance of their targets and a mask is a prefix of them; elsewhere they are read off β. Every union
is built once and kept. Nothing here touches a tensor but to hand out the answer. Equal, by test, to
``NextToken(automaton, horizon, Boolean())``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import UNREACHABLE, Automaton
from ...circuits.bitsets import pack, set_bits
from ...errors import ShapeError
from ..arguments import an_automaton, whole
from ..engine.messages import backward
from ..queries.evidence import Evidence
from ..semirings.base import Boolean
from .bitmask import BitmaskQuery
from .generic import Tokens
from .record import row_indices

MASK_CACHE_BYTES = 1 << 27
Words = Int32[ndarray, " words"]
Mask = Words | list[int]  # bits, or the tokens where they are few


class GCDQuery(BitmaskQuery):
    """The Boolean query on an automaton: live states instead of a dense message."""

    def __init__(self, automaton: Automaton, horizon: int | None) -> None:
        self.automaton = automaton
        self._width = -(-automaton.vocab_size // 32)
        self._from: dict[int, _Edges] = {}  # by state
        self._kept: dict[int | tuple[int, int | bytes], Mask] = {}
        self._states: list[tuple[int, ...]] = []  # alive in each row
        self._budget: list[int] = []
        self._by_distance = horizon is None or automaton.acceptance_extends
        super().__init__(automaton, horizon, Boolean())
        self._ample = (
            UNREACHABLE if self._betas is not None else automaton.max_distance
        )  # tokens with which all may be taken

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._states, out._budget = list(self._states), list(self._budget)
        return out

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""
        return torch.tensor(self._budget, dtype=torch.long)

    @remaining.setter
    def remaining(self, budgets: Int[Tensor, " batch"]) -> None:
        self._budget = budgets.tolist()

    def _sweep(self) -> Bool[ndarray, "states lengths"] | None:
        """β as booleans (states, tokens left + 1), cut where it has become constant; None where distances do."""
        if self._by_distance or self.horizon is None:
            return None
        columns: list[Tensor] = []
        for beta in backward(self.automaton, self.semiring, Evidence(1, self.automaton.device), self.horizon):
            columns.append(beta > 0)
            if len(columns) > 1 and torch.equal(columns[-1], columns[-2]):
                break
        return torch.cat(columns, 1).numpy()

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        if self._betas is None:
            fewest = int(self.automaton.distances[self.automaton.start_states].min())
            if self.horizon is None:
                return torch.tensor([fewest < UNREACHABLE])
            return torch.arange(self.horizon + 1) >= fewest
        assert self.horizon is not None
        feasible = torch.from_numpy(self._betas[self.automaton.start_states].any(0))
        return torch.cat([feasible, feasible[-1:].expand(self.horizon + 1 - len(feasible))])

    def _infeasible(self, given: Int[Tensor, " batch"]) -> int | None:
        fa = self.automaton
        if self._betas is None and len(given):
            left = UNREACHABLE - 1 if self.horizon is None else int(given.min())
            if left >= fa.max_distance or left >= int(fa.distance_bounds[fa.start_states].min()):
                return None
        return super()._infeasible(given)

    def _needed(self, given: int) -> int | None:
        """The smallest feasible length above ``given``; beyond the horizon, within the number of states more."""
        fa = self.automaton
        if self._betas is None:
            fewest = int(fa.distances[fa.start_states].min())
            return fewest if self.horizon is not None and fewest < UNREACHABLE else None
        if (near := super()._needed(given)) is not None or not fa.num_edges:
            return near
        reached, accept = fa.initial[0] > 0, fa.final[0] > 0
        for n in range(1, given + fa.num_states + 1):
            reached = torch.zeros_like(reached).index_fill_(0, fa.edge_target[reached[fa.edge_source]], True)
            if n > given and bool((reached & accept).any()):
                return n
        return None

    def _begin(self, batch: int) -> None:
        self._states = [tuple(self.automaton.start_states)] * batch

    # ------------------------------------------------------------ masks

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        """``bitmask`` as a numpy array, written into ``out`` if given."""
        if out is None:
            out = np.empty((len(self._states), self._width), np.int32)
        elif out.shape != (len(self._states), self._width) or out.dtype != np.int32:
            raise ShapeError(
                f"the buffer must be int32 of shape ({len(self._states)}, {self._width}), not {out.dtype} of {out.shape}"
            )
        for row, (states, budget) in enumerate(zip(self._states, self._budget, strict=True)):
            line, empty = out[row], True
            left = UNREACHABLE - 1 if self.horizon is None else budget - 1
            for state in states if budget else ():
                mask = self._words(state, left)
                if isinstance(mask, list):
                    if empty:
                        line.fill(0)
                    set_bits(line, mask)
                elif empty:
                    line[:] = mask
                else:
                    line |= mask
                empty = False
            if empty:
                line.fill(0)
        return out

    def _words(self, state: int, left: int) -> Mask:
        """The tokens out of a state into states that can be accepted within ``left`` more tokens, as bits."""
        if left >= self._ample:
            words = self._kept.get(state)
            return self._keep(state, self.automaton.mask_from(state)) if words is None else words
        fa = self.automaton
        if self._betas is None and left >= fa.largest_bound:
            self._ample = fa.largest_bound
            return self._words(state, left)
        if self._betas is None and left >= fa.bounds_after[state]:
            words = self._kept.get(state)
            return self._keep(state, fa.mask_from(state)) if words is None else words
        edges = self._from.get(state)
        if edges is None:
            edges = self._from[state] = _Edges(fa, state)
        if self._betas is not None:
            return self._read_off(edges, min(left, self._betas.shape[1] - 1))
        count = -1 if left >= edges.bound else edges.within(left)
        key = state if left >= edges.bound else (state, count)  # the bound may be better known now
        words = self._kept.get(key)
        if words is not None:
            return words
        return self._keep(key, fa.mask_from(state) if key == state else pack(edges.first(count)))

    def _read_off(self, edges: _Edges, column: int) -> Mask:
        assert self._betas is not None
        alive = self._betas[edges.targets(), column]
        key = (edges.state, alive.tobytes())
        words = self._kept.get(key)
        return self._keep(key, pack(edges.chosen(alive))) if words is None else words

    def _keep(self, key: int | tuple[int, int | bytes], words: Mask) -> Mask:
        if len(self._kept) > max(1, MASK_CACHE_BYTES // (4 * self._width)):
            self._kept.clear()
        self._kept[key] = words
        return words

    # ------------------------------------------------------------ moving on

    def advance(self, tokens: Tokens) -> None:
        chosen = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        if len(chosen) != len(self._states) or (
            chosen and (min(chosen) < 0 or max(chosen) >= self.vocab_size)
        ):
            self._check_tokens(torch.tensor(chosen))
        step = self.automaton.step
        for row, token in enumerate(chosen):
            if not self._budget[row]:
                continue
            self._budget[row] -= 1
            states = self._states[row]
            if len(states) == 1:
                self._states[row] = step(states[0], token)
            else:
                self._states[row] = tuple(sorted({d for s in states for d in step(s, token)}))

    def select(self, indices: Tensor | Sequence[int]) -> None:
        rows = row_indices(indices, len(self._states)).tolist()
        self._states = [self._states[i] for i in rows]
        self._budget = [self._budget[i] for i in rows]


class _Edges:
    """The edges out of a state, by the distance of their targets from acceptance."""

    def __init__(self, automaton: Automaton, state: int) -> None:
        self.automaton, self.state = automaton, state
        self.bound = automaton.max_distance  # with so many tokens left all may be taken
        self._exact = False
        self._edges: list[tuple[int, list[Int[ndarray, " some"]]]] | None = None
        self._distance: list[int] = []

    def edges(self) -> list[tuple[int, list[Int[ndarray, " some"]]]]:
        if self._edges is None:
            self._edges = self.automaton.edges_from(self.state)
        return self._edges

    def targets(self) -> list[int]:
        return [target for target, _ in self.edges()]

    def within(self, left: int) -> int:
        """How many edges, nearest first, lead to states at most ``left`` tokens from acceptance; −1: surely all."""
        if not self._exact:
            bounds = self.automaton.distance_bounds[self.targets()]
            self.bound = int(bounds.max(initial=0))
            if left >= self.bound:
                return -1
            edges, distances = self.edges(), self.automaton.distances[self.targets()]
            order = np.argsort(distances, kind="stable")
            self._edges = [edges[i] for i in order]
            self._distance = distances[order].tolist()
            self.bound, self._exact = (self._distance[-1] if edges else 0), True
        return bisect_right(self._distance, left)

    def first(self, count: int) -> Bool[ndarray, " vocab"]:
        return self.chosen(np.arange(len(self.edges())) < count)

    def chosen(self, alive: Bool[ndarray, " edges"]) -> Bool[ndarray, " vocab"]:
        """The tokens of the edges chosen."""
        out = np.zeros(self.automaton.vocab_size, bool)
        for (_, pieces), yes in zip(self.edges(), alive.tolist(), strict=True):
            for tokens in pieces if yes else ():
                out[tokens] = True
        return out


def gcd(automaton: Automaton, horizon: int) -> BitmaskQuery:
    """Globally constrained decoding: the tokens that can still be completed within the budget (Dang et al. 2026, Eq. 2).

    Raises :class:`EvidenceError` for a constraint that has not been compiled, and where the horizon is no number of tokens.
    """
    horizon = whole(horizon, "gcd: horizon", None)
    return _masking(an_automaton(automaton, "gcd: automaton"), horizon)


def lcd(automaton: Automaton) -> BitmaskQuery:
    """Locally constrained decoding: the tokens that can be completed at some length (Dang et al. 2026, Eq. 1).

    ``start(budgets=…)`` only says after how many tokens a row ends: the masks do not depend on it.
    """
    return _masking(an_automaton(automaton, "lcd: automaton"), None)


def _masking(automaton: Automaton, horizon: int | None) -> BitmaskQuery:
    if automaton.lazy is None:
        return GCDQuery(automaton, horizon)
    from .lazy_gcd import LazyGCDQuery

    return LazyGCDQuery(automaton.lazy, horizon, automaton)
