"""Chain: the time-homogeneous circuit behind HMMs, automata and their products.

    root(x_1 … x_n) = initialᵀ · M(x_1) · M(x_2) ⋯ M(x_n) · final,      M(x) = L · diag(B[:, x]) · R

              state (K) units (J)   L (K→J)     B (J×V)            R (J→K)     initial, final
    HMM       hidden    hidden      identity    categorical        A           π, ones
    automaton states    edges       T_out       edge labels B_f    T_in        start, accept
    product   H × S     H × E       I ⊗ T_out   row-wise Kronecker A ⊗ T_in    π ⊗ start, ones ⊗ accept

A message has one axis for each Kronecker component of the state; ``initial`` and ``final`` hold one vector for each.
A latent path is one unit for each token and ends at the last: ``unit_final`` = R · final, by ordinary sums, is what its last
unit is worth (ones for an HMM, whose last transition leads nowhere; Dang et al. 2026, Def. 4.2, f := T_in f, for an automaton).
"""

from __future__ import annotations

from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from ..layers import Constant, Dense, Hadamard, InputLayer, Kron, Operator, Sum
from ..layers.operator import TensorMap
from .circuit import Circuit
from .described import Described

Vectors = tuple[Float[Tensor, " units"], ...]


class Chain(Described):
    """initialᵀ · Π_t L diag(B[:, x_t]) R · final, of any length.

    ``vocabulary_fingerprint`` says which vocabulary its tokens are of (``Vocabulary.fingerprint``), None if that is not known:
    chains of different vocabularies are not multiplied, nor used with another tokenizer's language model.
    """

    vocabulary_fingerprint: str | None = None

    def __init__(
        self, initial: Vectors, left: Operator, inputs: InputLayer, right: Operator, final: Vectors
    ) -> None:
        states, units = left.row_dims, inputs.unit_dims
        name = type(self).__name__
        if left.col_dims != units:
            raise ShapeError(f"{name}: L has columns {left.col_dims}, but the input layer has units {units}")
        if right.row_dims != units or right.col_dims != states:
            raise ShapeError(
                f"{name}: R must map units {units} to the states {states}, not {right.row_dims} to {right.col_dims}"
            )
        for what, vectors in (("initial", initial), ("final", final)):
            if tuple(tuple(v.shape) for v in vectors) != tuple((d,) for d in states):
                raise ShapeError(
                    f"{name}: {what} must have one vector for each of {states}, not {[tuple(v.shape) for v in vectors]}"
                )
        self.initial, self.left, self.inputs, self.right, self.final = initial, left, inputs, right, final

    @property
    def state_dims(self) -> tuple[int, ...]:
        """The state axes of a message: one for each Kronecker component."""
        return self.left.row_dims

    @property
    def vocab_size(self) -> int:
        """V, the number of tokens."""
        return self.inputs.vocab_size

    @property
    def unit_final(self) -> Vectors:
        """R · final: one vector for each unit axis."""
        return tuple(leaf.times(f) for leaf, f in zip(self.right.leaves(), self.final, strict=True))

    def unroll(self, n: int) -> Circuit:
        """The plain circuit over variables 0 … n−1 (position t is variable t), built from the end backwards."""
        if n < 1:
            raise ShapeError(f"unroll: the length must be positive, not {n}")
        circuit = Circuit()
        ahead = circuit.sum(Sum(_columns(self.unit_final)), circuit.input(Constant(len(self.state_dims))))
        right, left = Sum(self.right), Sum(self.left)
        for t in reversed(range(n)):
            node = circuit.sum(left, circuit.product(Hadamard(), circuit.input(self.inputs, t), ahead))
            if t:
                ahead = circuit.sum(right, node)
        circuit.sum(Sum(_columns(self.initial).T), node)
        return circuit

    def map(self, fn: TensorMap) -> Self:
        """The same chain, of the same class, with ``fn`` applied to every parameter tensor (move, cast, …)."""
        out = self._copy()
        out.initial = tuple(map(fn, self.initial))
        out.left, out.inputs, out.right = self.left.map(fn), self.inputs.map(fn), self.right.map(fn)
        out.final = tuple(map(fn, self.final))
        return out

    def _copy(self) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def for_vocabulary(self, fingerprint: str | None) -> Self:
        """This chain itself, with ``vocabulary_fingerprint`` set: to mark one that has just been made."""
        self.vocabulary_fingerprint = fingerprint
        return self

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return self.initial[0].device

    def to(self, device: torch.device | str | None = None) -> Self:
        """The same chain with its parameters on another device."""
        return self.map(lambda t: t.to(device=device))

    def parameters(self) -> list[Tensor]:
        """The real-valued parameter tensors: initial, L, B, R, final."""
        return [
            *self.initial,
            *self.left.parameters(),
            *self.inputs.parameters(),
            *self.right.parameters(),
            *self.final,
        ]

    def __mul__(self, other: Chain) -> Chain:
        from .product import multiply

        product: Chain = multiply(self, other)
        return product

    def __repr__(self) -> str:
        return f"{type(self).__name__}(states={self.state_dims}, units={self.inputs.unit_dims}, vocab_size={self.vocab_size})"


def _columns(vectors: Vectors) -> Operator:
    """v_1 ⊗ … ⊗ v_k as an operator with one column for each axis."""
    operator: Operator = Dense(vectors[0][:, None])
    for vector in vectors[1:]:
        operator = Kron(operator, Dense(vector[:, None]))
    return operator
