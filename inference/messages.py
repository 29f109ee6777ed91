"""Sweeps: upward and downward over any circuit, forward and backward over a chain.

For a chain, with M(x) = L diag(b(x)) R,

    forward    α_0 = initial,   α_t = Rᵀ (b(x_t) ∘ Lᵀ α_{t−1})
    backward   β_n = final,     β_{t−1} = L (b(x_t) ∘ R β_t)

and for any t, root = α_tᵀ β_t. A path ends at its last unit, so R β_n is ``chain.ending``, summed by ordinary arithmetic in
every semiring (the best path of an HMM does not choose a state after its last token).

For a circuit the upward value of a node is its function of the evidence and the downward value the derivative of the root
by it; with x_t open, the root as a function of x_t is Bᵀ of the derivative at the inputs over t (for the chain:
Bᵀ(Lᵀ α_{t−1} ∘ R β_t)).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..circuits.chain import Chain
from ..circuits.circuit import Circuit
from ..circuits.properties import check_decomposable, check_smooth
from ..errors import CircuitError
from ..layers import Constant, Continuous, Hadamard, InputLayer, Kronecker, Sum
from ..layers.inner import regroup
from .contract import absorb, apply, columns, contract, emit, outer, total, weigh
from .evidence import Evidence
from .semiring import Semiring

SR = Semiring[Any]


class Emission:
    """The values of input layers against evidence, with what does not depend on the row computed once.

    ``shared``: one layer serves every variable (a chain), so observed columns are gathered for many positions at once.
    """

    block_elements = 1 << 20

    def __init__(self, semiring: SR, evidence: Evidence, *, shared: bool = False) -> None:
        self.semiring, self.evidence, self.shared = semiring, evidence, shared
        self._totals: dict[int, Any] = {}
        self._block: dict[int, list[Any]] = {}
        self._table: list[Any] = []

    def times(self, layer: InputLayer, variable: int, x: Any) -> Any:
        """x ∘ b, where b is the layer's value at the variable's evidence."""
        if variable not in self.evidence.tokens:
            return self.semiring.mul(x, self._unobserved(layer, variable))
        for axis in self._observed(layer, variable):
            x = self.semiring.mul(x, axis)
        return x

    def value(self, layer: InputLayer, variable: int) -> Any:
        """The layer's value at the variable's evidence: (*unit_dims, batch or 1)."""
        if variable not in self.evidence.tokens:
            return self._unobserved(layer, variable)
        return emit(self.semiring, layer, None, self.evidence.tokens[variable])

    def _observed(self, layer: InputLayer, variable: int) -> list[Any]:
        """B[:, tokens] as one value for each unit axis."""
        if not self.shared:
            return columns(self.semiring, layer, self.evidence.tokens[variable])
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
        """B[:, tokens]: all of B once, where most values are asked for in the end, and gathered from there."""
        asked = len(self.evidence.tokens) * self.evidence.batch
        if isinstance(layer, Continuous) or layer.vocab_size > asked:
            return columns(self.semiring, layer, tokens)
        if not self._table:
            every = torch.arange(layer.vocab_size, device=tokens.device)
            self._table = columns(self.semiring, layer, every)
        return [self.semiring.gather(axis, tokens, self.semiring.ndim(axis) - 1) for axis in self._table]

    def _unobserved(self, layer: InputLayer, variable: int) -> Any:
        if variable in self.evidence.weights:
            return weigh(self.semiring, layer, self.evidence.weights[variable])
        if id(layer) not in self._totals:
            self._totals[id(layer)] = total(self.semiring, layer)
        return self._totals[id(layer)]


def forward(chain: Chain, semiring: SR, evidence: Evidence, n: int) -> Iterator[Any]:
    """α_0, α_1, …, α_n, each (*cut_dims, batch)."""
    emission, right, left = Emission(semiring, evidence, shared=True), chain.right.T, chain.left.T
    alpha = outer(semiring, chain.initial, evidence.batch)
    yield alpha
    for t in range(n):
        alpha = apply(semiring, right, emission.times(chain.inputs, t, apply(semiring, left, alpha)))
        yield alpha


def totals(
    chain: Chain, semiring: SR, evidence: Evidence, lengths: Collection[int]
) -> Iterator[tuple[int, Any]]:
    """(t, root over the first t positions) for each t in ``lengths``, ascending; each root (batch,)."""
    emission, right, left = Emission(semiring, evidence, shared=True), chain.right.T, chain.left.T
    alpha = outer(semiring, chain.initial, evidence.batch)
    if 0 in lengths:
        yield 0, dot(semiring, alpha, outer(semiring, chain.final, evidence.batch))
    ending, last = outer(semiring, chain.ending, evidence.batch), max(lengths)
    for t in range(1, last + 1):
        emitted = emission.times(chain.inputs, t - 1, apply(semiring, left, alpha))
        if t in lengths:
            yield t, dot(semiring, emitted, ending)
        if t < last:
            alpha = apply(semiring, right, emitted)


def backward(chain: Chain, semiring: SR, evidence: Evidence, n: int) -> Iterator[Any]:
    """β_n, β_{n−1}, …, β_0, each (*cut_dims, batch)."""
    emission = Emission(semiring, evidence, shared=True)
    beta = outer(semiring, chain.final, evidence.batch)
    yield beta
    for t in reversed(range(n)):
        units = ahead(chain, semiring, beta, torch.tensor(t == n - 1))
        beta = apply(semiring, chain.left, emission.times(chain.inputs, t, units))
        yield beta


def ahead(chain: Chain, semiring: SR, beta: Any, last: Bool[Tensor, " *batch"]) -> Any:
    """R β: what each unit of a step is worth given β after it; where the step is the ``last``, the chain's ending."""
    batch = semiring.shape(beta)[-1]
    if not bool(last.any()):
        return apply(semiring, chain.right, beta)
    ending = outer(semiring, chain.ending, batch)
    if bool(last.all()):
        return ending
    both = semiring.cat([apply(semiring, chain.right, beta), ending])
    row = torch.arange(batch, device=semiring.device(both))
    return semiring.gather(both, torch.where(last, row + batch, row), semiring.ndim(both) - 1)


def dot(semiring: SR, a: Any, b: Any) -> Any:
    """Σ_k a_k b_k for messages of one shape (*dims, batch): (batch,)."""
    last = semiring.ndim(a) - 1
    labels = tuple(range(last + 1))
    return contract(semiring, [(a, labels), (b, labels)], (last,))


def open_step(chain: Chain, semiring: SR, alpha: Any, beta: Any, last: Bool[Tensor, " *batch"]) -> Any:
    """The root as a function of x_t: Bᵀ(Lᵀ α_{t−1} ∘ R β_t), (vocab, batch); ``last``: x_t is the last token."""
    edge = semiring.mul(apply(semiring, chain.left.T, alpha), ahead(chain, semiring, beta, last))
    return absorb(semiring, chain.inputs, edge)


def upward(circuit: Circuit, semiring: SR, evidence: Evidence) -> dict[int, Any]:
    """The value of every node below the root, each (*unit_dims, batch)."""
    check_smooth(circuit)
    check_decomposable(circuit)
    emission, values = Emission(semiring, evidence), dict[int, Any]()
    for node in circuit.nodes():
        layer, below = circuit.layer(node), [values[child] for child in circuit.children(node)]
        if isinstance(layer, Constant):
            values[node] = emit(semiring, layer, None, torch.zeros(1, dtype=torch.long))
        elif isinstance(layer, InputLayer):
            (variable,) = circuit.scope(node)
            values[node] = emission.value(layer, variable)
        elif isinstance(layer, Sum):
            terms = [apply(semiring, op, x) for op, x in zip(layer.operators, below, strict=True)]
            values[node] = _fold(semiring.add, terms)
        elif isinstance(layer, Hadamard):
            values[node] = _fold(semiring.mul, below)
        elif isinstance(layer, Kronecker):
            values[node] = _kronecker(semiring, layer, below)
        else:
            raise CircuitError(f"node {node}: the engine does not know the layer {layer!r}")
    return values


def _fold(operation: Any, values: list[Any]) -> Any:
    out = values[0]
    for value in values[1:]:
        out = operation(out, value)
    return out


def _axes(semiring: SR, values: list[Any]) -> list[tuple[int, ...]]:
    """Disjoint labels for the unit axes of each value; label 0 is the batch."""
    labels, at = [], 1
    for value in values:
        k = semiring.ndim(value) - 1
        labels.append(tuple(range(at, at + k)))
        at += k
    return labels


def _kronecker(semiring: SR, layer: Kronecker, below: list[Any]) -> Any:
    axes = _axes(semiring, below)
    flat = tuple(a for block in axes for a in block)
    out = flat if layer.order is None else tuple(flat[i] for i in layer.order)
    below = _same_batch(semiring, below)
    return contract(semiring, [(x, (*a, 0)) for x, a in zip(below, axes, strict=True)], (*out, 0))


def _same_batch(semiring: SR, values: list[Any]) -> list[Any]:
    """Values whose batch axes have one size (marginalised inputs have one row for all)."""
    batch = max(semiring.shape(x)[-1] for x in values)

    def widen(x: Any) -> Any:
        rows = torch.zeros(batch, dtype=torch.long, device=semiring.device(x))
        return x if semiring.shape(x)[-1] == batch else semiring.gather(x, rows, semiring.ndim(x) - 1)

    return [widen(x) for x in values]


def downward(circuit: Circuit, semiring: SR, values: dict[int, Any]) -> dict[int, Any]:
    """The derivative of the root by every node, each (*unit_dims, batch); ``values`` from :func:`upward`."""
    root_dims, batch = circuit.unit_dims(circuit.root), semiring.shape(values[circuit.root])[-1]
    seeds = tuple(torch.ones(d) for d in root_dims)
    derivatives: dict[int, Any] = {circuit.root: outer(semiring, seeds, batch)}

    def accumulate(node: int, value: Any) -> None:
        derivatives[node] = semiring.add(derivatives[node], value) if node in derivatives else value

    for node in reversed(list(circuit.nodes())):
        layer, children = circuit.layer(node), circuit.children(node)
        if isinstance(layer, Sum):
            for op, child in zip(layer.operators, children, strict=True):
                down, dims = apply(semiring, op.T, derivatives[node]), circuit.unit_dims(child)
                if op.col_dims != dims:
                    down = _ungroup(semiring, down, dims, op.col_dims)
                accumulate(child, down)
        elif isinstance(layer, Hadamard):
            for i, child in enumerate(children):
                others = [values[c] for j, c in enumerate(children) if j != i]
                accumulate(child, _fold(semiring.mul, [derivatives[node], *others]))
        elif isinstance(layer, Kronecker):
            below = _same_batch(semiring, [derivatives[node], *(values[c] for c in children)])
            axes = _axes(semiring, below[1:])
            flat = [a for block in axes for a in block]
            out = tuple(flat if layer.order is None else [flat[i] for i in layer.order])
            for i, child in enumerate(children):
                operands = [
                    (x, (*a, 0)) for j, (x, a) in enumerate(zip(below[1:], axes, strict=True)) if j != i
                ]
                accumulate(child, contract(semiring, [(below[0], (*out, 0)), *operands], (*axes[i], 0)))
    return derivatives


def _ungroup(semiring: SR, x: Any, dims: tuple[int, ...], grouped: tuple[int, ...]) -> Any:
    counts, at = regroup(dims, grouped) or [], 0
    for count in counts:
        if count > 1:
            x = semiring.split(x, at, dims[at : at + count])
        at += count
    return x


def open_inputs(
    circuit: Circuit, semiring: SR, evidence: Evidence, variable: int
) -> list[tuple[InputLayer, Any]]:
    """The root as a function of one variable, its evidence ignored: (vocab, batch), under an input layer over the variable;
    of a continuous variable (units, batch) for each of its layers.
    """
    free = Evidence(evidence.batch)
    free.tokens = {v: t for v, t in evidence.tokens.items() if v != variable}
    free.weights = {v: w for v, w in evidence.weights.items() if v != variable}
    values = upward(circuit, semiring, free)
    derivatives = downward(circuit, semiring, values)
    terms = []
    for node in circuit.nodes():
        layer = circuit.layer(node)
        if isinstance(layer, InputLayer) and circuit.scope(node) == {variable}:
            terms.append((layer, absorb(semiring, layer, derivatives[node])))
    if not terms:
        raise CircuitError(f"variable {variable} is not in the circuit; it has {list(circuit.variables)}")
    if isinstance(terms[0][0], Continuous):
        return terms
    return [(terms[0][0], _fold(semiring.add, _same_batch(semiring, [x for _, x in terms])))]


def open_variable(circuit: Circuit, semiring: SR, evidence: Evidence, variable: int) -> Any:
    """The root as a function of one discrete variable, its evidence ignored: (vocab, batch)."""
    ((_, table),) = open_inputs(circuit, semiring, evidence, variable)
    return table
