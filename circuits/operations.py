"""Operations: pure functions from circuit to circuit, each with its precondition checked (Vergari et al. 2021).

    multiply(a, b)             x ↦ a(x) b(x)                    compatible                    (circuits/product.py)
    power(c, α)                x ↦ c(x)^α on the support        whole α: c · c; any α: deterministic
    quotient(a, b)             x ↦ a(x) / b(x)                  compatible, b deterministic
    mixture(w, [c_1 …])        x ↦ Σ_k w_k c_k(x)               one scope
    marginalise(c, vs)         x ↦ Σ_vs c(x, vs)                smooth, decomposable
    condition(c, evidence)     x ↦ c(x, e)                      smooth, decomposable
    differentiate(c, node)     x ↦ ∂ c(x) / ∂ node              smooth, decomposable
    normalise(c)               x ↦ c(x) / Σ c, locally          smooth, decomposable
    prune(c)                   the same function                smooth, decomposable

Parameters are shared with the operands wherever their values are. Chains have no variables by number: unroll them first,
except for ``power`` and ``quotient``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import isfinite, prod
from typing import Any

import networkx as nx
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import CircuitError, EvidenceError, ShapeError
from ..layers import Categorical, Identity, Incidence, InputLayer, KhatriRao, Operator, Sum
from ..layers.dense_tensor import DenseTensor
from ..layers.gaussian import Continuous
from .automaton import Automaton
from .chain import Chain
from .circuit import Circuit
from .graph_transforms import (
    Factor,
    check_circuit,
    constant,
    copy_node,
    kron,
    monomial,
    read_product,
    rewrite,
    table,
    write_product,
)
from .product import Model, multiply
from .properties import check_decomposable, check_deterministic, check_smooth
from .support import flatten

EvidenceLike = Any


def power(model: Model, exponent: float) -> Model:
    """x ↦ c(x)^α where c(x) > 0, and 0 elsewhere.

    A deterministic model takes any real α: each weight is raised to it. Any other takes α = 1, 2, 3, … by
    multiplication, which asks a circuit to be structured-decomposable; :class:`CircuitError` names what is missing.
    """
    if not isfinite(exponent):
        raise CircuitError(f"power: the exponent must be finite, not {exponent}")
    try:
        check_deterministic(model)
        return _elementwise(model, exponent)
    except CircuitError as error:
        if exponent != int(exponent) or exponent < 1:
            raise CircuitError(
                f"power: the exponent {exponent} needs a deterministic circuit; {error}"
            ) from error
    return reduce(multiply, [model] * int(exponent))


def _elementwise(model: Model, exponent: float) -> Model:
    """Every weight of a deterministic model to the power ``exponent``, zeros staying zeros."""

    def weights(weight: Tensor) -> Tensor:
        return torch.where(weight > 0, torch.where(weight > 0, weight, 1) ** exponent, 0)

    if isinstance(model, Automaton):
        return model  # its weights are zeros and ones
    if isinstance(model, Chain):
        ends = (model.right.dense() > 0).double() @ (flatten(model.final) > 0).double()
        if bool((ends > 1).any()):
            raise CircuitError(f"power: {model!r} ends one path in several states: unroll it to a length")
        left, right = monomial(model.left), monomial(model.right)
        return Chain(model.initial, left, _entries(model.inputs), right, model.final).map(weights)

    def layer(old: Any) -> Any:
        if isinstance(old, InputLayer):
            return _entries(old).map(weights)
        return Sum(*map(monomial, old.operators)).map(weights) if isinstance(old, Sum) else old

    return model.map_layers(layer)


def _entries(layer: InputLayer) -> InputLayer:
    """A layer whose weights are the parameters themselves."""
    if isinstance(layer, Continuous):
        raise CircuitError(f"power: {layer!r} is over a continuous variable and has no table of weights")
    return layer.free_parameters()


def quotient(a: Model, b: Model) -> Model:
    """x ↦ a(x) / b(x) on the support of b, and 0 elsewhere; b must be deterministic and compatible with a."""
    return multiply(a, power(b, -1.0))


def mixture(weights: Float[Tensor, " circuits"] | Sequence[float], circuits: Sequence[Circuit]) -> Circuit:
    """x ↦ Σ_k w_k c_k(x), a sum over the roots; :class:`CircuitError` where scopes or values differ."""
    weights = torch.as_tensor(weights)
    if weights.shape != (len(circuits),) or not circuits or not weights.is_floating_point():
        raise ShapeError(
            f"mixture: {len(circuits)} circuits need as many floating-point weights, not {tuple(weights.shape)}"
        )
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
    """x ↦ Σ_vs c(x, vs): a circuit over the other variables; :class:`CircuitError` for a variable that it does not have."""
    gone = frozenset(variables)
    _check_variables(circuit, gone, "marginalise")

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer = circuit.layer(node)
        if isinstance(layer, InputLayer) and circuit.scope(node) & gone:
            return constant(out, _absorbed(layer, None))
        return None

    return rewrite(circuit, change)


def condition(circuit: Circuit, evidence: EvidenceLike) -> Circuit:
    """x ↦ c(x, e): observed variables leave the circuit; a set of values or soft weights multiply their variable and stay.

    Not normalised: the partition function of the result is the weight of the evidence, and :func:`normalise` makes it
    the conditional distribution. Raises :class:`EvidenceError` for evidence of several rows or that does not fit.
    """
    from ..inference.queries.evidence import as_evidence

    _check_variables(circuit, frozenset(), "condition")
    known = as_evidence(evidence, circuit.vocab_sizes(), circuit.device)
    if known.batch > 1:
        raise EvidenceError(f"condition: evidence of one row, not of {known.batch}")
    weighted: dict[
        tuple[int, int], InputLayer
    ] = {}  # by layer and variable: nodes that share both go on sharing

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer, (variable, *_) = circuit.layer(node), (*circuit.scope(node), -1)
        if not isinstance(layer, InputLayer):
            return None
        if variable in known.tokens and isinstance(layer, Continuous):
            value = known.tokens[variable]
            return None if bool(value.isnan()) else constant(out, layer.log_density(value)[..., 0].exp())
        if variable in known.tokens:
            onehot = torch.nn.functional.one_hot(known.tokens[variable][0], layer.vocab_size)
            return constant(out, _absorbed(layer, onehot.to(torch.get_default_dtype())))
        if variable in known.weights:
            key = (id(layer), variable)
            if key not in weighted:
                weighted[key] = _weighted(layer, known.weights[variable][:, 0])
            return out.input(weighted[key], variable)
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


def _absorbed(layer: InputLayer, weights: Float[Tensor, " vocab"] | None) -> Float[Tensor, "*units"]:
    """Σ_v B[:, v] w(v), or ∫ of a continuous layer."""
    if isinstance(layer, Continuous):
        return layer.log_mass().exp()
    axes = list(range(len(layer.unit_dims)))
    token = len(axes)
    factors = [
        (x if isinstance(x, Tensor) else x.matrix(), own) for x, own in layer.factors(axes, token, token + 1)
    ]
    factors.append((torch.ones(layer.vocab_size) if weights is None else weights, (token,)))
    like = layer.parameters()[0] if layer.parameters() else factors[-1][0].double()
    dtype = torch.promote_types(like.dtype, factors[-1][0].dtype)
    operands = [item for x, own in factors for item in (x.to(like.device, dtype), list(own))]
    result: Tensor = torch.einsum(*operands, axes)
    return result


def _weighted(layer: InputLayer, weights: Float[Tensor, " vocab"]) -> InputLayer:
    """B · diag(w)."""
    if isinstance(layer, KhatriRao):
        return KhatriRao(_weighted(layer.a, weights), layer.b)
    b = table(layer, "condition")
    return Categorical(b * weights)


def differentiate(circuit: Circuit, node: int) -> Circuit:
    """x ↦ ∂ c(x) / ∂ node: the context of a node, over the variables outside it, one root unit for each unit of the node.

    A smooth and decomposable circuit is linear in each node, so c = Σ_u node_u · (∂ c / ∂ node_u) plus what does not pass
    through the node (Darwiche 2003). Raises :class:`CircuitError` for a node that is not below the root.
    """
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
    """The derivative by child k, from that by its parent: (operator, node) of one term."""
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
    others: list[Factor] = [(copies[n], names) for n, names in siblings]
    own = factors[k][1]
    gone = [label for label in labels if label not in own]
    product = write_product(out, [(context, labels), *others], [*own, *gone])
    size = dict(zip(labels, circuit.unit_dims(parent), strict=True))
    first, last, m = [Identity(size[label]) for label in own[:-1]], size[own[-1]], prod(size[g] for g in gone)
    sums = Incidence(torch.arange(last).repeat_interleave(m), torch.arange(last * m), (last, last * m))
    return kron([*first, sums if gone else Identity(last)]), product
