"""Messages: forward and backward over a chain. With M(x) = L diag(b(x)) R,

    forward    α_0 = initial,   α_t = Rᵀ (b(x_t) ∘ Lᵀ α_{t−1})
    backward   β_n = final,     β_{t−1} = L (b(x_t) ∘ R β_t)

and for any t, root = α_tᵀ β_t. A path ends at its last unit, so R β_n is ``chain.unit_final``, summed by ordinary arithmetic in
every semiring (the best path of an HMM does not choose a state after its last token).

With x_t open, the root as a function of x_t is Bᵀ(Lᵀ α_{t−1} ∘ R β_t).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.chain import Chain
from ...layers import Continuous, InputLayer, Operator
from ...layers.functorch_utils import any_if_concrete
from ..queries.evidence import Evidence
from ..semirings.base import Semiring
from .contract import adjoint, applier, apply, columns, expect, outer, total
from .planned import planned

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
        asked = len(self.evidence.tokens) * self.evidence.batch
        if isinstance(layer, Continuous) or layer.vocab_size > asked or any_if_concrete(tokens < 0):
            return columns(self.semiring, layer, tokens)
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


def forward(chain: Chain, semiring: SR, evidence: Evidence, n: int) -> Iterator[Any]:
    """Yield α_0, α_1, …, α_n, each (*state_dims, batch)."""
    emission, right, left = Emission(semiring, evidence), *_steps(semiring, chain.right.T, chain.left.T)
    alpha = outer(semiring, chain.initial, evidence.batch)
    yield alpha
    for t in range(n):
        alpha = right(emission.times(chain.inputs, t, left(alpha)))
        yield alpha


def totals(
    chain: Chain, semiring: SR, evidence: Evidence, lengths: Collection[int], checkpoint: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield (t, root over the first t positions) for each t in ``lengths``, ascending; each root is (batch,).

    ``checkpoint``: for derivatives, keep a message every ``checkpoint`` positions and recompute the others.
    """
    last = max(lengths)
    if 0 in lengths:
        yield 0, empty(chain, semiring, evidence.batch)
    if last and (plan := planned(chain, semiring, evidence, last)) is not None:
        yield from plan.roots([t for t in lengths if t])
        return
    right, left = _steps(semiring, chain.right.T, chain.left.T)
    alpha = outer(semiring, chain.initial, evidence.batch)
    unit_final = outer(semiring, chain.unit_final, evidence.batch)

    def run(alpha: Any, first: int, stop: int) -> tuple[Any, list[tuple[int, Any]]]:
        emission, roots = Emission(semiring, evidence), []
        for t in range(first, stop):
            emitted = emission.times(chain.inputs, t - 1, left(alpha))
            if t in lengths:
                roots.append((t, dot(semiring, emitted, unit_final)))
            if t < last:
                alpha = right(emitted)
        return alpha, roots

    width = checkpoint or max(1, last)
    for first in range(1, last + 1, width):
        stop = min(first + width, last + 1)
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
    for t in reversed(range(n)):
        units = beta_at_units(chain, semiring, beta, t == n - 1)
        beta = apply(semiring, chain.left, emission.times(chain.inputs, t, units))
        yield beta


def beta_at_units(chain: Chain, semiring: SR, beta: Any, last: bool | Bool[Tensor, " *batch"]) -> Any:
    """Return R β, the backward message at the units of a step; ``chain.unit_final`` in rows where the step is the ``last``."""
    batch = semiring.shape(beta)[-1]
    if isinstance(last, Tensor) and bool(last.all()) == bool(last.any()):
        last = bool(last.all())
    if last is False:
        return apply(semiring, chain.right, beta)
    unit_final = outer(semiring, chain.unit_final, batch)
    if last is True:
        return unit_final
    both = semiring.cat([apply(semiring, chain.right, beta), unit_final])
    row = torch.arange(batch, device=semiring.device(both))
    return semiring.gather(both, torch.where(last, row + batch, row), semiring.ndim(both) - 1)


def dot(semiring: SR, a: Any, b: Any) -> Any:
    """Return Σ_k a_k b_k for messages of one shape (*dims, batch): (batch,)."""
    return semiring.reduce(semiring.mul(a, b), range(semiring.ndim(a) - 1))


def next_token_contraction(
    chain: Chain, semiring: SR, alpha: Any, beta: Any, last: bool | Bool[Tensor, " *batch"]
) -> Any:
    """Return the root as a function of x_t: Bᵀ(Lᵀ α_{t−1} ∘ R β_t), (vocab, batch); ``last``: x_t is the last token."""
    edge = semiring.mul(apply(semiring, chain.left.T, alpha), beta_at_units(chain, semiring, beta, last))
    return adjoint(semiring, chain.inputs, edge)
