"""The filter: the messages of a chain forward and backward, at its units, one unit for each token of a latent path.

    predicted   p_1 = Lᵀ initial,     p_{t+1} = Lᵀ Rᵀ u_t
    filtered    u_t = b(x_t) ∘ p_t
    ahead       f_n = R final,        f_{t−1} = R L (b(x_t) ∘ f_t)

For any t, root = Σ u_t ∘ f_t. With x_t open, the root as a function of x_t is Bᵀ(p_t ∘ f_t). A path ends at its last unit: f_n is
``chain.unit_final``, summed by ordinary arithmetic in every semiring (the best path of an HMM does not choose a state after its
last token).

Messages are (*unit_dims, batch). Positions are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal

import torch
import torch.utils.checkpoint
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.chain import Chain
from ...layers import Continuous, InputLayer, Operator
from ...layers.functorch_utils import any_if_concrete
from ..queries.evidence import Evidence
from ..semirings.base import Semiring
from .contract import adjoint, applier, columns, expect, observe, outer, total
from .planned import planned_roots

SR = Semiring[Any]
TensorMap = Callable[[Any], Any]


class Emission:
    """The values of a chain's input layer at the evidence; values that do not depend on the row are computed once.

    One layer serves every variable of a chain, so columns at observed tokens are gathered for many positions at once.
    """

    block_elements = 1 << 20

    def __init__(self, semiring: SR, evidence: Evidence) -> None:
        self.semiring, self.evidence = semiring, evidence
        self._totals: dict[int, Any] = {}
        self._block: dict[int, list[Any]] = {}
        self._table: list[Any] = []

    def times(self, layer: InputLayer, variable: int, x: Any) -> Any:
        """Return x ∘ b, where b is the layer's value at the variable's evidence."""
        if variable not in self.evidence.tokens:
            return self.semiring.mul(x, self._unobserved(layer, variable))
        for axis in self._observed(layer, variable):
            x = self.semiring.mul(x, axis)
        return x

    def _observed(self, layer: InputLayer, variable: int) -> list[Any]:
        """Return B[:, tokens] at the variable's tokens, as one value for each run of unit axes."""
        if variable not in self._block:
            width = max(1, self.block_elements // (sum(layer.unit_dims) * max(1, self.evidence.batch)))
            first = variable // width * width
            block = [v for v in range(first, first + width) if v in self.evidence.tokens]
            tokens = torch.cat([self.evidence.tokens[v] for v in block])
            parts = zip(
                *(self.semiring.chunk(axis, len(block)) for axis in self._gathered(layer, tokens)),
                strict=True,
            )
            self._block = dict(zip(block, map(list, parts), strict=True))
        return self._block[variable]

    def _gathered(self, layer: InputLayer, tokens: Int[Tensor, " count"]) -> list[Any]:
        """Return B[:, tokens], gathered from a lifted B if there are at least as many tokens in all as columns of B."""
        asked, gaps = len(self.evidence.tokens) * self.evidence.batch, any_if_concrete(tokens < 0)
        if isinstance(layer, Continuous) or layer.vocab_size > asked or gaps:
            return columns(self.semiring, layer, tokens, gaps)
        if not self._table:
            every = torch.arange(layer.vocab_size, device=tokens.device)
            self._table = columns(self.semiring, layer, every)
        return [self.semiring.gather(axis, tokens, self.semiring.ndim(axis) - 1) for axis in self._table]

    def _unobserved(self, layer: InputLayer, variable: int) -> Any:
        if variable in self.evidence.weights:
            return expect(self.semiring, layer, self.evidence.weights[variable])
        if id(layer) not in self._totals:
            found = total(self.semiring, layer, self.evidence.device)
            self._totals[id(layer)] = self.semiring.rescaled(found)
        return self._totals[id(layer)]


class Filter:
    """The recursions of one chain in one semiring, prepared for many steps.

    ``tokens``: another semiring of the same values, in which the tokens of a position are summed.
    """

    def __init__(self, chain: Chain, semiring: SR, *, tokens: SR | None = None) -> None:
        self.chain, self.semiring, self._tokens = chain, semiring, tokens or semiring
        self._maps: dict[tuple[str, bool], TensorMap] = {}

    def emission(self, evidence: Evidence) -> Emission:
        """Return the values of the input layer at the evidence."""
        return Emission(self._tokens, evidence)

    @property
    def left(self) -> TensorMap:
        """α ↦ Lᵀ α, from states to units."""
        return self._map("left", transposed=True)

    @property
    def right(self) -> TensorMap:
        """u ↦ Rᵀ u, from units to states."""
        return self._map("right", transposed=True)

    @property
    def _back(self) -> tuple[TensorMap, TensorMap]:
        return self._map("left", transposed=False), self._map("right", transposed=False)

    def _map(self, side: Literal["left", "right"], *, transposed: bool) -> TensorMap:
        # Not a cached_property, whose lock torch.compile cannot enter in Python 3.11.
        if (found := self._maps.get((side, transposed))) is None:
            op: Operator = getattr(self.chain, side)
            found = self._maps[side, transposed] = applier(self.semiring, op.T if transposed else op)
        return found

    def initial(self, batch: int) -> Any:
        """Return p_1."""
        return self.left(outer(self.semiring, self.chain.initial, batch))

    def last(self, batch: int) -> Any:
        """Return f_n."""
        return outer(self.semiring, self.chain.unit_final, batch)

    def observed(self, predicted: Any, tokens: Int[Tensor, " batch"]) -> Any:
        """Return u_t given p_t and one token a row."""
        return observe(self.semiring, self.chain.inputs, predicted, tokens)

    def next(self, filtered: Any) -> Any:
        """Return p_{t+1} given u_t."""
        return self.left(self.right(filtered))

    def append(
        self, predicted: Any, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"] | None = None
    ) -> tuple[Any, Any]:
        """Return u_t and p_{t+1} given p_t and one token a row; rows that are not ``moving`` keep p_t."""
        filtered = self.observed(predicted, tokens)
        after = self.next(filtered)
        return filtered, after if moving is None else where(self.semiring, moving, after, predicted)

    def forward(
        self, evidence: Evidence, positions: range, predicted: Any | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (p_t, u_t) for each position; ``predicted`` is the first p_t, by default p_1."""
        emission = self.emission(evidence)
        x = self.initial(evidence.batch) if predicted is None else predicted
        for t in positions:
            filtered = emission.times(self.chain.inputs, t, x)
            yield x, filtered
            if t != positions[-1]:
                x = self.next(filtered)

    def backward(
        self, evidence: Evidence, positions: range, lengths: Int[Tensor, " batch"] | None = None
    ) -> Iterator[Any]:
        """Yield f_t for each position, the last first: there the sequences end, or after as many tokens as ``lengths`` says."""
        emission, (left, right) = self.emission(evidence), self._back
        x = last = self.last(evidence.batch)
        for t in reversed(positions):
            yield x
            if t != positions[0]:
                x = right(left(emission.times(self.chain.inputs, t, x)))
                x = x if lengths is None else where(self.semiring, lengths > t, x, last)

    def states(self, ahead: Any) -> Any:
        """Return β = L (b ∘ f) of an unobserved token at the states before it, given what is ahead of the token."""
        emission = self.emission(Evidence(1, self.chain.device))
        return self._back[0](emission.times(self.chain.inputs, 0, ahead))

    def settled(
        self, stop: Callable[[Any, Any], bool], *, any_length: bool = False, steps: int | None = None
    ) -> Any | None:
        """Return f after unobserved steps, repeated until ``stop(f, the next f)``; None if ``steps`` are not enough.

        ``any_length``: the ⊕ over the steps so far, which says what can be reached with any number of them.
        """
        emission, done = self.emission(Evidence(1, self.chain.device)), 0
        left, right = self._back
        x = self.last(1)
        while steps is None or done < steps:
            after = right(left(emission.times(self.chain.inputs, 0, x)))
            after = self.semiring.rescaled(self.semiring.add(x, after) if any_length else after)
            if stop(x, after):
                return after
            x, done = after, done + 1
        return None

    def open(self, predicted: Any, ahead: Any) -> Any:
        """Return the root as a function of x_t, given p_t and f_t: (vocab, batch)."""
        return adjoint(self.semiring, self.chain.inputs, self.semiring.mul(predicted, ahead))

    def empty(self, batch: int) -> Any:
        """Return the root over no positions, (batch,): the ⊕ of ``chain.empty``."""
        return total_of(self.semiring, outer(self.semiring, self.chain.empty, batch))

    def roots(
        self, evidence: Evidence, lengths: Collection[int], checkpoint: int | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (t, root over the first t positions) for each t in ``lengths``, ascending; each root is (batch,).

        ``checkpoint``: for derivatives, keep a message every ``checkpoint`` positions and recompute the others.
        """
        end = max(lengths)
        if 0 in lengths:
            yield 0, self.empty(evidence.batch)
        if not end:
            return
        planned = planned_roots(self.chain, self.semiring, evidence, [t for t in lengths if t])
        if planned is not None:
            yield from planned
            return
        predicted, last = self.initial(evidence.batch), self.last(evidence.batch)

        def run(predicted: Any, positions: range) -> tuple[Any, list[tuple[int, Any]]]:
            found: list[tuple[int, Any]] = []
            filtered = predicted
            for t, (_, filtered) in zip(positions, self.forward(evidence, positions, predicted), strict=True):
                if t + 1 in lengths:
                    found.append((t + 1, dot(self.semiring, filtered, last)))
            after = self.next(filtered) if positions.stop < end else None
            return after, found

        width = checkpoint or end
        for first in range(0, end, width):
            positions = range(first, min(first + width, end))
            predicted, found = (
                checkpointed(run, predicted, positions) if checkpoint else run(predicted, positions)
            )
            yield from found


def where(semiring: SR, chosen: Bool[Tensor, " batch"], x: Any, y: Any) -> Any:
    """Return the columns of x where ``chosen`` is True, else those of y."""
    if bool(chosen.all()):
        return x
    both, row = semiring.cat([x, y]), torch.arange(len(chosen), device=chosen.device)
    return semiring.gather(both, torch.where(chosen, row, row + len(chosen)), semiring.ndim(both) - 1)


def columns_of(semiring: SR, x: Any, index: Int[Tensor, " rows"]) -> Any:
    """Return the columns ``index`` of a message."""
    return semiring.gather(x, index, semiring.ndim(x) - 1)


def checkpointed(fn: Callable[..., Any], *args: Any) -> Any:
    """Call ``fn`` under gradient checkpointing: its intermediate results are recomputed for derivatives, not kept."""
    return torch.utils.checkpoint.checkpoint(fn, *args, use_reentrant=False)


def total_of(semiring: SR, x: Any) -> Any:
    """Return the ⊕ of a message over all axes but the batch: (batch,)."""
    return semiring.reduce(x, range(semiring.ndim(x) - 1))


def dot(semiring: SR, a: Any, b: Any) -> Any:
    """Return Σ_k a_k b_k for messages of one shape (*dims, batch): (batch,)."""
    return total_of(semiring, semiring.mul(a, b))
