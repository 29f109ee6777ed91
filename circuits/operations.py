"""Operations: pure functions from circuit to circuit, each with its precondition checked (Vergari et al. 2021).

    multiply(a, b)             x ↦ a(x) b(x)                    compatible                    (circuits/product.py)
    mixture(w, [c_1 …])        x ↦ Σ_k w_k c_k(x)               one scope
    marginalise(c, vs)         x ↦ Σ_vs c(x, vs)                smooth, decomposable
    differentiate(c, node)     x ↦ ∂ c(x) / ∂ node              smooth, decomposable

Results share parameter tensors with the operands where values are equal. Chains have no numbered variables: unroll them first.
Operations that contract a circuit (condition, normalise, prune, power, quotient) are in :mod:`tractile.inference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import CircuitError, ShapeError, TractileError
from ..layers import Identity, Incidence, InputLayer, Operator, Sum
from ..layers.dense_tensor import DenseTensor
from ..layers.weights import check_weights
from .chain import Chain
from .checks import check_decomposable, check_smooth
from .circuit import Circuit, check_circuit
from .graph_transforms import (
    LabelledNode,
    constant,
    copy_node,
    kron,
    read_product,
    rewrite,
    write_product,
)

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
        operators.append(DenseTensor(weight.view(1, *_root_dims(circuit, "mixture")), 1))
        roots.append(rewrite(circuit, lambda *_: None, out).root)
    out.sum(Sum(*operators), *roots)
    return out


def _root_dims(circuit: Circuit, operation: str) -> tuple[int, ...]:
    dims = circuit.unit_dims(circuit.root)
    if set(dims) - {1}:
        raise CircuitError(f"{operation}: the root (node {circuit.root}) has units {dims}; one is needed")
    return dims


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
    gone = frozenset(variables)
    _check_variables(circuit, gone, "marginalise")

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer = circuit.layer(node)
        if isinstance(layer, InputLayer) and circuit.scope(node) & gone:
            return constant(out, layer.value())
        return None

    return rewrite(circuit, change)


def _check_variables(circuit: Circuit, variables: frozenset[int], operation: str) -> None:
    check_circuit(circuit, operation)
    check_smooth(circuit)
    check_decomposable(circuit)
    unknown = sorted(variables - circuit.scope(circuit.root))
    if unknown:
        raise CircuitError(
            f"{operation}: the circuit has no variables {unknown}; it has {list(circuit.variables)}"
        )


def differentiate(circuit: Circuit, node: int) -> Circuit:
    """Differentiate by a node: x ↦ ∂ c(x) / ∂ node, a circuit over the variables outside the node.

    The root has one unit for each unit of the node. A smooth and decomposable circuit is linear in each node, so
    c = Σ_u node_u · (∂ c / ∂ node_u) plus the terms that do not contain the node (Darwiche 2003). Raises
    :class:`CircuitError` for a node that is not below the root.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Bernoulli, Dense, Hadamard, Sum
    >>> c = tt.Circuit()
    >>> first, second = (c.input(Bernoulli(torch.tensor([p])), v) for v, p in enumerate([0.5, 0.9]))
    >>> root = c.sum(Sum(Dense(torch.tensor([[2.0]]))), c.product(Hadamard(), first, second))
    >>> context = tt.circuits.differentiate(c, first)  # ∂ (2 a b) / ∂ a = 2 b
    >>> context.variables
    (1,)
    >>> tt.log_marginal(context, {1: 1}).exp()
    tensor([1.8000], dtype=torch.float64)
    """
    import networkx as nx

    check_circuit(circuit, "differentiate")
    check_smooth(circuit)
    check_decomposable(circuit)
    above = nx.ancestors(circuit.graph, node) & set(circuit.nodes()) if node in circuit.graph else set()
    if node != circuit.root and not above:
        raise CircuitError(f"differentiate: node {node} is not below the root, node {circuit.root}")
    out, copies = Circuit(), dict[int, int]()
    for below in circuit.nodes():
        if below not in above:
            copies[below] = copy_node(circuit, below, out, copies)
    terms: dict[int, list[tuple[Operator, int]]] = {below: [] for below in (*above, node)}
    dims = circuit.unit_dims(circuit.root)
    terms[circuit.root] = [(kron([Identity(d) for d in dims]), constant(out, torch.ones(dims)))]
    for parent in sorted(terms, reverse=True):
        operators, nodes = zip(*terms[parent], strict=True)
        context = out.sum(Sum(*operators), *nodes)
        if parent == node:
            break
        for k, child in enumerate(circuit.children(parent)):
            if child in terms:
                terms[child].append(_context(circuit, parent, k, context, out, copies))
    out.root = context
    return out


def _context(
    circuit: Circuit, parent: int, k: int, context: int, out: Circuit, copies: dict[int, int]
) -> tuple[Operator, int]:
    """Return a term (operator, node) of the derivative by child k; ``context`` is the node of the derivative by the parent."""
    layer, child = circuit.layer(parent), circuit.children(parent)[k]
    if isinstance(layer, Sum):
        op, dims = layer.operators[k], circuit.unit_dims(child)
        if op.col_dims != dims:
            op = DenseTensor(op.dense().view(*op.row_dims, *dims), len(op.row_dims))
        return op.T, context
    factors, labels = read_product(circuit, parent)
    siblings = [(n, names) for i, (n, names) in enumerate(factors) if i != k]
    if any(n not in copies for n, _ in siblings):
        raise CircuitError(f"differentiate: node {parent} ({layer!r}) has the node in two of its factors")
    others: list[LabelledNode] = [(copies[n], names) for n, names in siblings]
    own = factors[k][1]
    gone = [label for label in labels if label not in own]
    product = write_product(out, [(context, labels), *others], [*own, *gone])
    size = dict(zip(labels, circuit.unit_dims(parent), strict=True))
    first, last, m = [Identity(size[label]) for label in own[:-1]], size[own[-1]], prod(size[g] for g in gone)
    sums = Incidence(torch.arange(last).repeat_interleave(m), torch.arange(last * m), (last, last * m))
    return kron([*first, sums if gone else Identity(last)]), product
