"""Operations: pure functions from circuit to circuit, each with its precondition checked (Vergari et al. 2021).

    multiply(a, b)             x ↦ a(x) b(x)                    compatible                    (circuits/product.py)
    mixture(w, [c_1 …])        x ↦ Σ_k w_k c_k(x)               one scope
    marginalise(c, vs)         x ↦ Σ_vs c(x, vs)                smooth, decomposable

Results share parameter tensors with the operands where values are equal. Chains have no numbered variables: unroll them first.
Operations that contract a circuit (condition, normalise, prune) are in :mod:`tractile.inference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import CircuitError, ShapeError, TractileError
from ..layers import InputLayer, Operator, Sum
from ..layers.dense_tensor import DenseTensor
from ..layers.weights import check_weights
from .chain import Chain
from .checks import check_tractable
from .circuit import Circuit, check_circuit
from .graph_transforms import constant, rewrite

Model = TypeVar("Model", Chain, Circuit)


def multiply(a: Model, b: Model) -> Model:
    """Multiply two models: x ↦ a(x)·b(x), a chain of two chains, a circuit of two compatible circuits.

    The variables of the result are the union. Raises :class:`VocabularyMismatch` if two chains have different vocabularies
    (sizes, or fingerprints if both are known), :class:`CircuitError` if two circuits are not compatible: their products must
    split the variables that they share alike, up to nesting.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> product = tt.multiply(coin, one)  # the same as coin * one
    >>> round(tt.partition(product, n=3).exp().item(), 4)
    0.375
    """
    if not (
        (isinstance(a, Chain) and isinstance(b, Chain)) or (isinstance(a, Circuit) and isinstance(b, Circuit))
    ):
        raise CircuitError(
            f"multiply: both must be chains or both circuits, not {type(a).__name__} and {type(b).__name__}; unroll the chain"
        )
    return a * b


def is_compatible(a: Circuit, b: Circuit) -> bool:
    """Return whether ``a * b`` exists: both circuits are smooth and decomposable and split shared variables alike, up to nesting.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits import is_compatible
    >>> random, ways = tt.circuits.builders.RandomParameters(), [((0, 1), 2), (0, (1, 2))]
    >>> one, other = (tt.circuits.builders.regions(way, random.bernoulli(), random.rows, num_units=2) for way in ways)
    >>> is_compatible(one, one), is_compatible(one, other)
    (True, False)
    """
    try:
        multiply(a, b)
    except TractileError:
        return False
    return True


def mixture(weights: Float[Tensor, " circuits"] | Sequence[float], circuits: Sequence[Circuit]) -> Circuit:
    """Mix circuits: x ↦ Σ_k w_k c_k(x), a sum over the roots.

    Raises :class:`CircuitError` if variables or numbers of values differ, :class:`ShapeError` unless each circuit has one
    weight.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> fair, biased = (tt.circuits.builders.factorised([tt.layers.Bernoulli(torch.tensor([p]))] * 2) for p in (0.5, 0.9))
    >>> both = tt.circuits.mixture([0.25, 0.75], [fair, biased])
    >>> tt.log_marginal(both, torch.tensor([[1, 1]])).exp()  # ¼ · 0.5² + ¾ · 0.9²
    tensor([0.6700], dtype=torch.float64)
    """
    weights = torch.as_tensor(weights)
    if weights.shape != (len(circuits),) or not circuits or not weights.is_floating_point():
        raise ShapeError(
            f"mixture: {len(circuits)} circuits need as many floating-point weights, not {tuple(weights.shape)}"
        )
    check_weights(weights, "mixture")
    for circuit in circuits:
        check_circuit(circuit, "mixture")
    if any(circuit.vocab_sizes() != circuits[0].vocab_sizes() for circuit in circuits):
        shown = [circuit.vocab_sizes() for circuit in circuits]
        raise CircuitError(f"mixture: not smooth: the circuits have variables (and values) {shown}")
    out, operators, roots = Circuit(), list[Operator](), list[int]()
    for weight, circuit in zip(weights, circuits, strict=True):
        dims = circuit.unit_dims(circuit.root)
        if set(dims) - {1}:
            raise CircuitError(f"mixture: the root (node {circuit.root}) has units {dims}; one is needed")
        operators.append(DenseTensor(weight.view(1, *dims), 1))
        roots.append(rewrite(circuit, lambda *_: None, out).root)
    out.sum(Sum(*operators), *roots)
    return out


def marginalise(circuit: Circuit, variables: Iterable[int]) -> Circuit:
    """Sum variables out: x ↦ Σ_vs c(x, vs), a circuit over the other variables.

    Raises :class:`CircuitError` for variables that the circuit does not have.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coins = tt.layers.Bernoulli(torch.tensor([0.5, 0.9]))
    >>> circuit = tt.circuits.builders.cp([coins, coins, coins], torch.tensor([0.5, 0.5]))
    >>> rest = tt.circuits.marginalise(circuit, [1])
    >>> rest.variables
    (0, 2)
    >>> tt.log_marginal(rest, {0: 1, 2: 1}).exp()  # ½ · 0.5² + ½ · 0.9²
    tensor([0.5300], dtype=torch.float64)
    """
    check_circuit(circuit, "marginalise")
    check_tractable(circuit)
    gone = frozenset(variables)
    unknown = sorted(gone - circuit.scope(circuit.root))
    if unknown:
        raise CircuitError(
            f"marginalise: the circuit has no variables {unknown}; it has {list(circuit.variables)}"
        )

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer = circuit.layer(node)
        if isinstance(layer, InputLayer) and circuit.scope(node) & gone:
            return constant(out, layer.map(lambda t: t.float() if t.dtype.itemsize < 4 else t).value())
        return None

    return rewrite(circuit, change)
