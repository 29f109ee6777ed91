"""Chain: the time-homogeneous circuit behind HMMs, automata and their products.

    root(x_1 … x_n) = initialᵀ · M(x_1) · M(x_2) ⋯ M(x_n) · final,      M(x) = L · diag(B[:, x]) · R

              state (K) units (J)   L (K→J)     B (J×V)            R (J→K)     initial, final
    HMM       hidden    hidden      identity    categorical        A           π, ones
    automaton states    edges       T_out       edge labels B_f    T_in        start, accept
    product   H × S     H × E       I ⊗ T_out   row-wise Kronecker A ⊗ T_in    π ⊗ start, ones ⊗ accept

A message has one axis for each Kronecker component of the state; ``initial`` and ``final`` hold one vector for each axis.
A latent path has one unit for each token. ``unit_final`` = R · final, by ordinary sums, is the weight with which a path ends in
its last unit: ones for an HMM, f := T_in f for an automaton (Dang et al. 2026, Def. 4.2).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from ..argument_checks import whole
from ..errors import CircuitError, ShapeError
from ..fingerprints import check_vocabularies
from ..layers import Dense, Hadamard, Identity, InputLayer, Kron, Operator, Sum
from ..layers.functorch_utils import is_abstract
from ..layers.input import Constant
from ..layers.operator import Leaf, TensorMap
from ..layers.weights import check_weights
from .circuit import Circuit, for_each_tensor
from .io.draw import Picture
from .io.file_format import VOCABULARY, Writer, register, write
from .io.summary import Described, SummaryTable

Vectors = tuple[Float[Tensor, " units"], ...]


class Chain(Described):
    """initialᵀ · Π_t L diag(B[:, x_t]) R · final, of any length.

    ``initial`` and ``final`` hold one vector for each axis of the state, ``left`` is L (states × units), ``inputs`` B (units ×
    tokens) and ``right`` R (units × states), all non-negative. Raises :class:`ShapeError` if their sizes do not fit.

    ``vocabulary_fingerprint`` identifies the vocabulary of its tokens (``Vocabulary.fingerprint``), None if unknown. Chains of
    different vocabularies cannot be multiplied, nor used with another tokenizer's language model.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Bernoulli, Dense, Identity
    >>> stay = Dense(torch.tensor([[0.9, 0.1], [0.1, 0.9]]))
    >>> coins = Bernoulli(torch.tensor([0.5, 1.0]))  # a fair coin, and one that always shows 1
    >>> chain = tt.circuits.Chain((torch.tensor([1.0, 0.0]),), Identity(2), coins, stay, (torch.ones(2),))
    >>> round(tt.partition(chain, n=5).exp().item(), 4)
    1.0
    >>> tt.log_marginal(chain, torch.tensor([[1, 1], [1, 0]])).exp()  # ½ (0.9 · ½ + 0.1 · 1) and ½ (0.9 · ½)
    tensor([0.2750, 0.2250], dtype=torch.float64)
    """

    vocabulary_fingerprint: str | None = None
    _factors: tuple[Chain, ...] = ()

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
            if list(map(Tensor.size, vectors)) != list(zip(states, strict=True)):
                raise ShapeError(
                    f"{name}: {what} must have one vector for each of {states}, not {[tuple(v.shape) for v in vectors]}"
                )
            if not all(map(Tensor.is_floating_point, vectors)):
                raise ShapeError(f"{name}: {what} must be floating point, not {[v.dtype for v in vectors]}")
            for vector in vectors:
                check_weights(vector, f"{name}: {what}")
        self.initial, self.left, self.inputs, self.right, self.final = initial, left, inputs, right, final

    @property
    def state_dims(self) -> tuple[int, ...]:
        """The sizes of the state axes of a message, one for each Kronecker component."""
        return self.left.row_dims

    @property
    def factors(self) -> tuple[Chain, ...]:
        """The chains that this one is the product of; itself alone if it was not made by multiplication."""
        return self._factors or (self,)

    @cached_property
    def cache(self) -> dict[Hashable, Any]:
        """A place for results derived from this chain that live as long as it does, by name; copies begin with none."""
        return {}

    @property
    def vocab_size(self) -> int:
        """V, the number of tokens."""
        return self.inputs.vocab_size

    @property
    def unit_final(self) -> Vectors:
        """R · final: one vector for each unit axis, in float32 at least, in float64 where an entry leaves the range of less.

        Raises :class:`CircuitError` if one leaves the range of float64, too.
        """
        return tuple([_product(leaf, f) for leaf, f in zip(self.right.leaves(), self.final, strict=True)])

    @property
    def empty(self) -> Vectors:
        """initial ∘ final, the weights of the empty sequence: one vector for each axis.

        Where L is the identity, a state is the unit of the next token, of which there is none: its axis is summed.
        """
        both = [a * b for a, b in zip(self.initial, self.final, strict=True)]
        alone = (isinstance(leaf, Identity) for leaf in self.left.leaves())
        return tuple(v.sum()[None] if sums else v for v, sums in zip(both, alone, strict=True))

    def unroll(self, n: int) -> Circuit:
        """Build the circuit over variables 0 … n−1 (position t is variable t) for sequences of length n.

        Examples
        --------
        >>> import tractile as tt
        >>> hmm = tt.HMM.random(hidden=2, vocab_size=3)
        >>> circuit = hmm.unroll(4)
        >>> circuit
        Circuit(18 layers, variables [0, 1, 2, 3])
        >>> tt.log_marginal(circuit, [0, 1, 2, 0]).exp(), tt.log_marginal(hmm, [0, 1, 2, 0]).exp()
        (tensor([0.0056], dtype=torch.float64), tensor([0.0056], dtype=torch.float64))
        """
        n = whole(n, "unroll: the length", 0, ShapeError)
        circuit = Circuit()
        if not n:
            node = circuit.sum(Sum(_columns(self.empty)), circuit.input(Constant(len(self.state_dims))))
            circuit.sum(Sum(_columns([torch.ones_like(v) for v in self.empty]).T), node)
            return circuit
        ahead = circuit.sum(Sum(_columns(self.unit_final)), circuit.input(Constant(len(self.state_dims))))
        right, left = Sum(self.right), Sum(self.left)
        for t in reversed(range(n)):
            node = circuit.sum(left, circuit.product(Hadamard(), circuit.input(self.inputs, t), ahead))
            if t:
                ahead = circuit.sum(right, node)
        circuit.sum(Sum(_columns(self.initial).T), node)
        return circuit

    def map(self, fn: TensorMap) -> Self:
        """Return a copy, of the same class, with ``fn`` applied to every parameter tensor, once to each.

        ``fn`` is called in the order of ``parameters()``."""
        out, once = self._copy(), for_each_tensor(fn)
        out.initial = tuple(map(once, self.initial))
        out.left, out.inputs, out.right = self.left.map(once), self.inputs.map(once), self.right.map(once)
        out.final = tuple(map(once, self.final))
        # an HMM's own map checks rows
        out._factors = tuple(Chain.map(factor, once) for factor in self._factors)
        return out

    def _copy(self) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update((name, value) for name, value in self.__dict__.items() if name != "cache")
        return out

    def for_vocabulary(self, fingerprint: str | None) -> Self:
        """Set ``vocabulary_fingerprint`` of this chain, in place, and return the chain."""
        self.vocabulary_fingerprint = fingerprint
        return self

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.initial[0].device

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Return a copy with the parameters on another device or in another precision; tied tensors stay tied."""
        return self.map(lambda t: t.to(device=device, dtype=dtype))

    def parameters(self) -> list[Tensor]:
        """Return the real-valued parameter tensors: initial, L, B, R, final."""
        return [
            *self.initial,
            *self.left.parameters(),
            *self.inputs.parameters(),
            *self.right.parameters(),
            *self.final,
        ]

    def __mul__(self, other: Chain) -> Chain:
        """Multiply two chains: x ↦ a(x)·b(x), kept in factors. Raises :class:`VocabularyMismatch` for different vocabularies."""
        if not isinstance(other, Chain):
            raise CircuitError(
                f"multiply: both must be chains or both circuits, not {type(self).__name__} and {type(other).__name__}; "
                "unroll the chain"
            )
        check_vocabularies(
            f"multiply: the {type(self).__name__}", self, f"the {type(other).__name__}", other,
            "compile the constraint with the vocabulary that the other was made for",
        )  # fmt: skip
        made = Chain(
            self.initial + other.initial,
            Kron(self.left, other.left),
            self.inputs.times(other.inputs),
            Kron(self.right, other.right),
            self.final + other.final,
        )
        made._factors = self.factors + other.factors
        return made.for_vocabulary(self.vocabulary_fingerprint or other.vocabulary_fingerprint)

    def save(self, directory: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a directory; ``tt.load`` reads them."""
        write(directory, self._config)

    def _config(self, writer: Writer) -> dict[str, Any]:
        return {"chain": writer.write(self), VOCABULARY: self.vocabulary_fingerprint}

    def table(self) -> SummaryTable:
        """Return a table with a row for each of initial, L, B, R and final."""
        parts: dict[str, tuple[Operator | InputLayer, tuple[int, ...]]] = {
            "L": (self.left, self.left.shape),
            "B": (self.inputs, (*self.inputs.unit_dims, self.vocab_size)),
            "R": (self.right, self.right.shape),
        }
        rows = [
            [
                name,
                type(part).__name__,
                " × ".join(map(str, shape)),
                f"{sum(p.numel() for p in part.parameters()):,}",
            ]
            for name, (part, shape) in parts.items()
        ]
        states = " × ".join(map(str, self.state_dims))
        first, last = (
            [name, "vector", states, f"{sum(map(len, vectors)):,}"]
            for name, vectors in (("initial", self.initial), ("final", self.final))
        )
        return SummaryTable(["part", "layer", "shape", "parameters"], [first, *rows, last], self._footer())

    def _footer(self) -> str:
        return (
            f"{self!r}, {sum(p.numel() for p in {id(p): p for p in self.parameters()}.values()):,} parameters"
        )

    def num_nodes(self) -> int:
        """Return the number of nodes of the chain unrolled for two tokens, as ``draw`` shows it."""
        return self.unroll(2).num_nodes()

    def picture(self, names: Sequence[str] | None = None) -> Picture:
        """Return the nodes and edges for ``draw``: the chain unrolled for two tokens."""
        return self.unroll(2).picture(names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(states={self.state_dims}, units={self.inputs.unit_dims}, vocab_size={self.vocab_size})"


def _columns(vectors: Sequence[Tensor]) -> Operator:
    """Return v_1 ⊗ … ⊗ v_k as an operator with one column on each axis."""
    operator: Operator = Dense(vectors[0][:, None])
    for vector in vectors[1:]:
        operator = Kron(operator, Dense(vector[:, None]))
    return operator


def _product(leaf: Leaf, final: Float[Tensor, " states"]) -> Float[Tensor, " units"]:
    narrow = any(t.dtype.itemsize < 4 for t in (final, *leaf.parameters()))
    found = leaf.times(final.double()).float() if narrow else leaf.times(final)
    if is_abstract(found) or _in_range(leaf, final, found):
        return found
    found = leaf.times(final.double())
    if _in_range(leaf, final, found):
        return found
    raise CircuitError(
        "a chain: its transition times its final weights leaves the range of float64; scale one of them"
    )


def _in_range(leaf: Leaf, final: Float[Tensor, " states"], found: Float[Tensor, " units"]) -> bool:
    """Return whether a product is finite and lost no part of a positive entry to underflow."""
    info, values = torch.finfo(found.dtype), found.detach()
    if not bool((values <= info.max).all()):
        return False
    if len(leaf.parameters()) < 2 and bool(((final == 0) | (final >= 1)).all()):
        return True  # sums of weights: at least as large as each
    small = values < info.tiny / info.eps
    if not bool(small.any()):
        return True
    ones: Any = leaf.map(lambda t: (t.detach() > 0).to(found.dtype))
    positive = ones.times((final.detach() > 0).to(found.dtype))
    return not bool((small & (positive > 0)).any())


register(
    Chain,
    lambda o: (o.initial, o.left, o.inputs, o.right, o.final),
    lambda i, le, b, r, f: Chain(tuple(i), le, b, r, tuple(f)),
)
