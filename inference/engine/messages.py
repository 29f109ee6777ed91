"""Messages: forward and backward over a chain. With M(x) = L diag(b(x)) R,

    forward    α_0 = initial,   α_t = Rᵀ (b(x_t) ∘ Lᵀ α_{t−1})
    backward   β_n = final,     β_{t−1} = L (b(x_t) ∘ R β_t)

and for any t, root = α_tᵀ β_t. A path ends at its last unit: the first step backward is taken from R β_n = ``chain.unit_final``,
summed by ordinary arithmetic in every semiring (the best path of an HMM does not choose a state after its last token).

With x_t open, the root as a function of x_t is Bᵀ(Lᵀ α_{t−1} ∘ R β_t).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from jaxtyping import Int
from torch import Tensor

from ...circuits.chain import Chain
from ...layers import Continuous, InputLayer, Operator
from ...layers.functorch_utils import any_if_concrete
from ..queries.evidence import Evidence
from ..semirings.base import Semiring
from .contract import adjoint, applier, apply, columns, expect, observe, outer, total
from .planned import planned_roots

SR = Semiring[Any]


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
            width = max(1, self.block_elements // (sum(layer.unit_dims) * self.evidence.batch))
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


def forward(
    chain: Chain, semiring: SR, evidence: Evidence, n: int, alpha: Any | None = None
) -> Iterator[Any]:
    """Yield α_0, α_1, …, α_n, each (*state_dims, batch); ``alpha``: an α_0 other than the initial one."""
    emission, step = Emission(semiring, evidence), Step(chain, semiring)
    alpha = outer(semiring, chain.initial, evidence.batch) if alpha is None else alpha
    yield alpha
    for t in range(n):
        alpha = step.right(emission.times(chain.inputs, t, step.left(alpha)))
        yield alpha


class Step:
    """One step forward, prepared for many: ``left`` is x ↦ Lᵀ x, ``right`` x ↦ Rᵀ x."""

    def __init__(self, chain: Chain, semiring: SR) -> None:
        self.chain, self.semiring = chain, semiring
        self.left, self.right = _steps(semiring, chain.left.T, chain.right.T)

    def __call__(self, alpha: Any, tokens: Tensor) -> Any:
        """Return Rᵀ (B[:, tokens] ∘ Lᵀ α)."""
        return self.right(observe(self.semiring, self.chain.inputs, self.left(alpha), tokens))


def last(values: Iterable[Any]) -> Any:
    """Return the last of several messages."""
    *_, found = values
    return found


def totals(
    chain: Chain, semiring: SR, evidence: Evidence, lengths: Collection[int], checkpoint: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield (t, root over the first t positions) for each t in ``lengths``, ascending; each root is (batch,).

    ``checkpoint``: for derivatives, keep a message every ``checkpoint`` positions and recompute the others.
    """
    end = max(lengths)
    if 0 in lengths:
        yield 0, empty(chain, semiring, evidence.batch)
    if not end:
        return
    roots = planned_roots(chain, semiring, evidence, [t for t in lengths if t])
    if roots is not None:
        yield from roots
        return
    alpha, step = outer(semiring, chain.initial, evidence.batch), Step(chain, semiring)
    unit_final = outer(semiring, chain.unit_final, evidence.batch)

    def run(alpha: Any, first: int, stop: int) -> tuple[Any, list[tuple[int, Any]]]:
        emission, roots = Emission(semiring, evidence), []
        for t in range(first, stop):
            emitted = emission.times(chain.inputs, t - 1, step.left(alpha))
            if t in lengths:
                roots.append((t, dot(semiring, emitted, unit_final)))
            if t < end:
                alpha = step.right(emitted)
        return alpha, roots

    width = checkpoint or max(1, end)
    for first in range(1, end + 1, width):
        stop = min(first + width, end + 1)
        alpha, roots = checkpointed(run, alpha, first, stop) if checkpoint else run(alpha, first, stop)
        yield from roots


def empty(chain: Chain, semiring: SR, batch: int) -> Any:
    """Return the root over no positions, (batch,): the ⊕ of ``chain.empty``."""
    x = outer(semiring, chain.empty, batch)
    return semiring.reduce(x, range(semiring.ndim(x) - 1))


def _steps(semiring: SR, *operators: Operator) -> list[Callable[[Any], Any]]:
    return [applier(semiring, op) for op in operators]


def checkpointed(fn: Callable[..., Any], *args: Any) -> Any:
    """Call ``fn`` under gradient checkpointing: its intermediate results are recomputed for derivatives, not kept."""
    return torch.utils.checkpoint.checkpoint(fn, *args, use_reentrant=False)


def backward(chain: Chain, semiring: SR, evidence: Evidence, n: int) -> Iterator[Any]:
    """Yield β_n, β_{n−1}, …, β_0, each (*state_dims, batch)."""
    emission = Emission(semiring, evidence)
    beta = outer(semiring, chain.final, evidence.batch)
    yield beta
    left, right = _steps(semiring, chain.left, chain.right)
    units = outer(semiring, chain.unit_final, evidence.batch)
    for t in reversed(range(n)):
        beta = left(emission.times(chain.inputs, t, units))
        yield beta
        units = right(beta) if t else None


def settled(
    chain: Chain,
    semiring: SR,
    stop: Callable[[Any, Any], bool],
    *,
    any_length: bool = False,
    steps: int | None = None,
) -> Any | None:
    """Return β after unobserved steps, repeated until ``stop(β, the next β)``; None if ``steps`` are not enough.

    ``any_length``: the ⊕ over the steps so far, which says what can be reached with any number of them.
    """
    emission = Emission(semiring, Evidence(1, chain.device))
    beta = outer(semiring, chain.final, 1)
    (left, right), done = _steps(semiring, chain.left, chain.right), 0
    while steps is None or done < steps:
        after = left(emission.times(chain.inputs, 0, right(beta)))
        after = semiring.rescaled(semiring.add(beta, after) if any_length else after)
        if stop(beta, after):
            return after
        beta, done = after, done + 1
    return None


def ahead(chain: Chain, semiring: SR, betas: Iterable[Any]) -> Iterator[Any]:
    """Yield R β for β_n, β_{n−1}, …: what follows each unit, (*unit_dims, batch).

    After the last token nothing follows: R β_n is ``chain.unit_final``, summed by ordinary arithmetic.
    """
    (right,) = _steps(semiring, chain.right)
    for i, beta in enumerate(betas):
        yield right(beta) if i else outer(semiring, chain.unit_final, semiring.shape(beta)[-1])


def dot(semiring: SR, a: Any, b: Any) -> Any:
    """Return Σ_k a_k b_k for messages of one shape (*dims, batch): (batch,)."""
    return semiring.reduce(semiring.mul(a, b), range(semiring.ndim(a) - 1))


def open_token(chain: Chain, semiring: SR, alpha: Any, follows: Any) -> Any:
    """Return the root as a function of x_t: Bᵀ(Lᵀ α_{t−1} ∘ R β_t), (vocab, batch); ``follows`` is R β_t."""
    edge = semiring.mul(apply(semiring, chain.left.T, alpha), follows)
    return adjoint(semiring, chain.inputs, edge)
