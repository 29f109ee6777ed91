"""Circuit multiplication by structural recursion; nothing is materialised (Vergari et al. 2021; Dang et al. 2026, Thm 4.4)."""

from __future__ import annotations

from typing import TypeVar

from ..errors import CircuitError, VocabularyMismatch
from ..layers import Constant, Identity, InnerLayer, InputLayer, Kron, Kronecker, Operator, RowKron, Sum
from .chain import Chain
from .circuit import Circuit
from .properties import check_decomposable, check_smooth

Model = TypeVar("Model", Chain, Circuit)


def multiply(a: Model, b: Model) -> Model:
    """The circuit x ↦ a(x)·b(x): a chain of two chains, a circuit of two compatible circuits.

    Raises :class:`VocabularyMismatch` if the variables have different values, :class:`CircuitError` if two circuits are
    not compatible (they must decompose their common scope in the same way).
    """
    if isinstance(a, Chain) and isinstance(b, Chain):
        if a.vocab_size != b.vocab_size:
            raise VocabularyMismatch(f"multiply: the chains have {a.vocab_size} and {b.vocab_size} tokens")
        return Chain(
            a.initial + b.initial,
            Kron(a.left, b.left),
            RowKron(a.inputs, b.inputs),
            Kron(a.right, b.right),
            a.final + b.final,
        )
    if isinstance(a, Circuit) and isinstance(b, Circuit):
        for circuit in (a, b):
            check_smooth(circuit)
            check_decomposable(circuit)
        out = Circuit()
        _Product(a, b, out).node(a.root, b.root)
        return out
    raise CircuitError(
        f"multiply: both must be chains or both circuits, not {type(a).__name__} and {type(b).__name__}; unroll the chain"
    )


class _Product:
    """Multiplies pairs of nodes with equal scope, each pair once."""

    def __init__(self, a: Circuit, b: Circuit, out: Circuit) -> None:
        self.a, self.b, self.out = a, b, out
        self.done: dict[tuple[int, int], int] = {}

    def node(self, i: int, j: int) -> int:
        if (i, j) not in self.done:
            self.done[i, j] = self._node(i, j)
        return self.done[i, j]

    def _node(self, i: int, j: int) -> int:
        a, b = self.a, self.b
        x, y = a.layer(i), b.layer(j)
        if a.scope(i) != b.scope(j):
            raise CircuitError(
                f"multiply: nodes {i} ({x!r}) and {j} ({y!r}) differ in scope, {set(a.scope(i))} and {set(b.scope(j))}"
            )
        if isinstance(x, InputLayer) and isinstance(y, InputLayer):
            if isinstance(x, Constant) and isinstance(y, Constant):
                return self.out.input(Constant(len(x.unit_dims) + len(y.unit_dims)))
            (variable,) = a.scope(i)
            return self.out.input(RowKron(x, y), variable)
        if isinstance(x, Sum) or isinstance(y, Sum):
            return self._sums(i, j)
        if isinstance(x, InnerLayer) and isinstance(y, InnerLayer) and type(x) is type(y):
            return self._products(x, i, j)
        raise CircuitError(
            f"multiply: nodes {i} ({x!r}) and {j} ({y!r}) over {set(a.scope(i))} are not compatible"
        )

    def _sums(self, i: int, j: int) -> int:
        """(Σ_k L_k x_k) ⊗ (Σ_l M_l y_l) = Σ_kl (L_k ⊗ M_l)(x_k ⊗ y_l); a node that is no sum is a sum of itself."""
        terms = [
            (Kron(op_a, op_b), self.node(child_a, child_b))
            for op_a, child_a in _terms(self.a, i)
            for op_b, child_b in _terms(self.b, j)
        ]
        return self.out.sum(Sum(*(op for op, _ in terms)), *(child for _, child in terms))

    def _products(self, layer: InnerLayer, i: int, j: int) -> int:
        left, right = self.a.children(i), list(self.b.children(j))
        pairs = []
        for child in left:
            match = [c for c in right if self.b.scope(c) == self.a.scope(child)]
            if not match:
                raise CircuitError(
                    f"multiply: node {i} has a factor over {set(self.a.scope(child))}, node {j} has none: not compatible"
                )
            right.remove(match[0])
            pairs.append((child, match[0]))
        nodes = [self.node(k, m) for k, m in pairs]
        if not isinstance(layer, Kronecker):
            return self.out.product(layer, *nodes)
        # the units come as (a_1 b_1)(a_2 b_2)…; they go out as those of a, then those of b, each in its own order
        blocks_a: dict[int, list[int]] = {}
        blocks_b: dict[int, list[int]] = {}
        at = 0
        for k, m in pairs:
            na, nb = len(self.a.unit_dims(k)), len(self.b.unit_dims(m))
            blocks_a[k], blocks_b[m] = list(range(at, at + na)), list(range(at + na, at + na + nb))
            at += na + nb
        order = self._ordered(self.a, i, blocks_a) + self._ordered(self.b, j, blocks_b)
        return self.out.product(Kronecker(order), *nodes)

    @staticmethod
    def _ordered(circuit: Circuit, node: int, blocks: dict[int, list[int]]) -> list[int]:
        layer = circuit.layer(node)
        axes = [axis for child in circuit.children(node) for axis in blocks[child]]
        return (
            axes
            if not isinstance(layer, Kronecker) or layer.order is None
            else [axes[i] for i in layer.order]
        )


def _terms(circuit: Circuit, node: int) -> list[tuple[Operator, int]]:
    layer = circuit.layer(node)
    if isinstance(layer, Sum):
        return list(zip(layer.operators, circuit.children(node), strict=True))
    identity: Operator | None = None
    for d in circuit.unit_dims(node):
        identity = Identity(d) if identity is None else Kron(identity, Identity(d))
    assert identity is not None
    return [(identity, node)]
