"""Semirings: the meaning of "sum" (⊕) and "product" (⊗) in the engine's contractions.

    semiring     value of a weight w    ⊕          ⊗     answers
    Real         w, mantissa × scale    +          ×     probabilities, partition functions, next-token distributions
    Log          log w                  logsumexp  +     the same, slower, exact over any dynamic range: the reference
    Boolean      [w > 0]                or         and   support, reachability: GCD, LCD
    Counting     [w > 0]                +          ×     accepting paths
    Residue      [w > 0]                + mod p    × mod p   whether two numbers of paths are equal, however large
    MaxProduct   log w                  max        +     most probable completion (Viterbi)
    MinPlus      −log w                 min        +     cheapest completion: with e⁻¹ for each token, fewest tokens

A value is a tensor, except in :class:`~tractile.inference.semirings.scaled_real.Real`, where it is a
:class:`~tractile.inference.semirings.scaled_real.Scaled`: a mantissa and a power of two that broadcasts
against it. The exponent has size one along axes that are summed by dense contractions (hidden states) and full size along
the batch and along axes touched by incidence (automaton states), so each (state, row) column has its own scale and no
length, vocabulary or state count drives a value to 0 or inf while its logarithm is finite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import log, prod
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from ...layers import Incidence
from ...layers.functorch_utils import is_abstract, transformed, version
from ...layers.log_product import finite
from .labelled_tensor import Labels, align, einsum, kept, safe_log, segments, top_along, unflatten

Value = TypeVar("Value")


class Semiring(ABC, Generic[Value]):
    """A commutative semiring on values with positional axes; the batch is the last axis of a message.

    ``additive``: whether the value of a sum of weights is the ⊕ of their values, so that a product of matrices may be applied
    factor by factor. False for maxima and counts, which would count the paths through the factors.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Boolean, Counting, Log, MaxProduct, MinPlus, Real
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> for semiring in (Real(), Log(), MaxProduct(), MinPlus(), Counting(), Boolean()):  # of the 4 paths that emit 1, 1
    ...     print(type(semiring).__name__, round(tt.log_marginal(hmm, [1, 1], semiring=semiring).exp().item(), 4))
    Real 0.3515
    Log 0.3515
    MaxProduct 0.2835
    MinPlus 0.2835
    Counting 4.0
    Boolean 1.0
    """

    additive = True

    @abstractmethod
    def lift(self, weight: Tensor, *, batched: bool = False) -> Value:
        """Return non-negative weights as a value; ``batched`` says that the last axis is the batch."""

    def lift_log(self, log_weight: Tensor) -> Value:
        """Return weights, given by their logarithms, as a value; the last axis is the batch."""
        return self.lift(log_weight.exp(), batched=True)

    def integral(self, log_mass: Tensor, log_peak: Tensor) -> Value:
        """Return the ⊕ over all values of a density: its mass ∫, unless ⊕ is a maximum (then its peak)."""
        return self.lift_log(log_mass)

    @abstractmethod
    def log(self, x: Value) -> Tensor:
        """Return the log-weight of x in nats; for MinPlus, minus the cost."""

    def along(self, matrix: Tensor, x: Value, axis: int) -> Value:
        """Multiply x by a matrix of weights along ``axis``."""
        labels = list(range(self.ndim(x)))
        out = [len(labels) if i == axis else i for i in labels]
        return self.einsum(self.lift(matrix), [len(labels), axis], x, labels, out)

    @abstractmethod
    def einsum(self, a: Value, a_labels: Labels, b: Value, b_labels: Labels, out: Labels) -> Value:
        """Compute the ⊕ of a ⊗ b over the labels that are not in ``out``."""

    @abstractmethod
    def reduce(self, x: Value, axes: Sequence[int]) -> Value:
        """Compute the ⊕ over ``axes``, which are removed."""

    @abstractmethod
    def mul(self, a: Value, b: Value) -> Value:
        """Compute a ⊗ b elementwise, with broadcasting."""

    @abstractmethod
    def add(self, a: Value, b: Value) -> Value:
        """Compute a ⊕ b elementwise."""

    @abstractmethod
    def segment_sum(self, x: Value, index: Tensor, size: int, axis: int) -> Value:
        """Combine the slices of x along ``axis`` by ⊕ into ``size`` segments; slice i goes to segment ``index[i]``."""

    @abstractmethod
    def gather(self, x: Value, index: Tensor, axis: int) -> Value:
        """Return the slices ``index`` of x along ``axis``."""

    @abstractmethod
    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Return x with its axes in another order."""

    @abstractmethod
    def split(self, x: Value, axis: int, dims: Sequence[int]) -> Value:
        """Reshape one axis to several, of sizes ``dims``."""

    @abstractmethod
    def merge(self, x: Value, axis: int, count: int) -> Value:
        """Reshape ``count`` axes from ``axis`` on to one."""

    @abstractmethod
    def cat(self, values: Sequence[Value]) -> Value:
        """Join values along the batch."""

    @abstractmethod
    def chunk(self, x: Value, count: int) -> list[Value]:
        """Split the batch into ``count`` equal parts."""

    @abstractmethod
    def shape(self, x: Value) -> tuple[int, ...]:
        """Return the size of each axis."""

    @abstractmethod
    def device(self, x: Value) -> torch.device:
        """Return the device of a value."""

    def incidence(self, x: Value, matrix: Incidence, axis: int) -> Value:
        """Apply a 0/1 matrix, given by the positions of its ones, along ``axis``."""
        device = self.device(x)
        return self.segment_sum(
            self.gather(x, matrix.col.to(device), axis), matrix.row.to(device), matrix.shape[0], axis
        )

    def rescaled(self, x: Value) -> Value:
        """Return an equal value prepared for many products (Real: with the maximum of every mantissa column at one)."""
        return x

    def ndim(self, x: Value) -> int:
        """Return the number of axes."""
        return len(self.shape(x))


class TensorSemiring(Semiring[Tensor]):
    """A semiring whose values are plain tensors: the structural operations, and a cache of lifted parameters; abstract."""

    def __init__(self) -> None:
        self._lifted: dict[tuple[Any, ...], tuple[Tensor, int, Tensor]] = {}

    @abstractmethod
    def _lift(self, weight: Tensor) -> Tensor: ...

    def lift(self, weight: Tensor, *, batched: bool = False) -> Tensor:
        if batched or weight.requires_grad or transformed(weight):
            return self._lift(weight)
        base = weight if weight._base is None else weight._base  # a transpose is a new view at each call
        key = (id(base), weight.storage_offset(), weight.shape, weight.stride())
        written, known = version(weight), self._lifted.get(key)
        if written is None:
            return self._lift(weight)
        if known is None or known[1] != written:
            known = self._lifted[key] = (base, written, self._lift(weight))
        return known[2]

    def gather(self, x: Tensor, index: Tensor, axis: int) -> Tensor:
        return x.index_select(axis, index)

    def permute(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return x.permute(list(order))

    def split(self, x: Tensor, axis: int, dims: Sequence[int]) -> Tensor:
        return unflatten(x, axis, dims)

    def merge(self, x: Tensor, axis: int, count: int) -> Tensor:
        return x.flatten(axis, axis + count - 1)

    def cat(self, values: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(values), -1)

    def chunk(self, x: Tensor, count: int) -> list[Tensor]:
        return list(x.chunk(count, -1))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def device(self, x: Tensor) -> torch.device:
        return x.device


class LinearSemiring(TensorSemiring):
    """Ordinary sums and products on plain tensors: the base of Boolean, Counting and Residue."""

    dtype = torch.float64

    def _lift(self, weight: Tensor) -> Tensor:
        return (weight > 0).to(self.dtype)

    def lift_log(self, log_weight: Tensor) -> Tensor:
        return (log_weight > -torch.inf).to(self.dtype)

    def log(self, x: Tensor) -> Tensor:
        return x.log()

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        return self._clip(einsum(a, a_labels, b, b_labels, out))

    def reduce(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return self._clip(x.sum(tuple(axes))) if axes else x

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self._clip(a + b)

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        return self._clip(x.new_zeros(shape).index_add_(axis, index, x))

    def _clip(self, x: Tensor) -> Tensor:
        return x


class Counting(LinearSemiring):
    """Numbers of accepting paths, in float64: exact below 2^53.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Counting
    >>> ends = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 1, 1), (1, [0, 1], 1)], start=0, accept=[1], vocab_size=2)
    >>> tt.log_marginal(ends, [1, 0, 1], semiring=Counting()).exp()  # two paths: through either 1
    tensor([2.], dtype=torch.float64)
    """

    additive = False


class Residue(LinearSemiring):
    """Numbers of accepting paths modulo ``modulus`` < 2²⁰, in int64: exact for sums of up to 2²³ products (on the CPU)."""

    additive = False
    dtype = torch.int64

    def __init__(self, modulus: int) -> None:
        super().__init__()
        self.modulus = modulus

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return self._clip(a * b)

    def _clip(self, x: Tensor) -> Tensor:
        return x % self.modulus


class Boolean(LinearSemiring):
    """Whether any path has positive weight, as 0.0 or 1.0; sums of non-negative numbers never cancel, so "or" is a positive sum.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Boolean
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> tt.log_marginal(one, [1, None, 1], semiring=Boolean())  # two ones: nothing is accepted
    tensor([-inf])
    """

    dtype = torch.float32

    def _clip(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)


class _LogDomain(TensorSemiring):
    """A semiring of logarithms (or costs): ⊗ is +, ⊕ a reduction defined by subclasses; abstract."""

    sign = 1.0
    block_elements = 1 << 24

    @abstractmethod
    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor: ...

    def _lift(self, weight: Tensor) -> Tensor:
        return self.sign * safe_log(weight)

    def lift_log(self, log_weight: Tensor) -> Tensor:
        return self.sign * log_weight

    def log(self, x: Tensor) -> Tensor:
        return self.sign * x

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def reduce(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return self._reduce(x, tuple(axes)) if axes else x

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        shape = (a + b).shape
        return self._reduce(torch.stack([a.expand(shape), b.expand(shape)]), (0,))

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        summed = [label for label in dict.fromkeys([*a_labels, *b_labels]) if label not in out]
        order = [*out, *summed]
        a, b = align(a, a_labels, order), align(b, b_labels, order)
        axes = tuple(range(len(out), len(order)))
        if not axes:
            return a + b
        sizes = [max(i, j) for i, j in zip(a.shape, b.shape, strict=True)]
        rows = max(1, self.block_elements // max(1, prod(sizes[1:])))
        if not out or sizes[0] <= rows:
            return self._reduce(a + b, axes)
        pieces = range(0, sizes[0], rows)
        parts = [self._reduce(_rows(a, i, rows) + _rows(b, i, rows), axes) for i in pieces]
        return torch.cat(parts)


def _rows(x: Tensor, start: int, count: int) -> Tensor:
    return x if x.shape[0] == 1 else x[start : start + count]


class MaxProduct(_LogDomain):
    """The best path: values are log weights, ⊕ is max.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import MaxProduct
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> tt.log_marginal(hmm, [1, 1], semiring=MaxProduct()).exp()  # ½ · 0.9 · 0.7 · 0.9, the path that stays in state 0
    tensor([0.2835])
    """

    additive = False

    def integral(self, log_mass: Tensor, log_peak: Tensor) -> Tensor:
        return self.lift_log(log_peak)

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.amax(axes)

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        empty = x.new_full(shape, -self.sign * float("inf"))
        return empty.scatter_reduce(axis, segments(index, x, axis), x, "amax" if self.sign > 0 else "amin")


class MinPlus(MaxProduct):
    """The cheapest path: values are costs −log w, ⊕ is min.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import MinPlus
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> -tt.partition(hmm, n=2, semiring=MinPlus())  # the cost of the best path of two tokens: −log 0.2835
    tensor(1.2605)
    """

    sign = -1.0

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.amin(axes)


Operand = tuple[Tensor, Labels, Tensor]  # logarithms, their labels, and the largest of each sum


def _depth(x: Tensor) -> float:
    """Return the smallest finite entry of x, at most zero."""
    return float(x.detach().masked_fill(x == -torch.inf, 0).amin().clamp(max=0)) if x.numel() else 0.0


class Log(_LogDomain):
    """Log-space sums, exact over any dynamic range: the reference that Real is tested against.

    The derivative with respect to a weight of zero is zero here (Real has the true one).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference import Log, Real
    >>> stay, sure = [[1.0, 0.0], [0.0, 1.0]], [[1e-35, 1.0], [1.0, 1e-35]]  # each state all but certain of its token
    >>> hmm, tokens = tt.HMM([0.5, 0.5], stay, sure), torch.tensor([[0, 0, 1, 1]])
    >>> tt.log_marginal(hmm, tokens, semiring=Log())  # log 1e-70: either state was surprised twice
    tensor([-161.1810])
    >>> tt.log_marginal(hmm, tokens, semiring=Real())  # in float32 one of them is lost along the way: no answer
    tensor([nan], dtype=torch.float64)
    """

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        top = finite(x.detach().amax(axes, keepdim=True))
        return safe_log((x - top).exp().sum(axes)) + top.squeeze(axes)

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        """Contract by max-shift and a matrix product; entries of b too far below its largest ones in a product of their own.

        If neither operand has a narrow range, contract by broadcasting.
        """
        summed = [label for label in dict.fromkeys([*a_labels, *b_labels]) if label not in out]
        if not summed:
            return super().einsum(a, a_labels, b, b_labels, out)
        top_a, top_b = top_along(a, a_labels, summed), top_along(b, b_labels, summed)
        result = einsum((a - top_a).exp(), a_labels, (b - top_b).exp(), b_labels, out)
        shift = kept(top_a, a_labels, out) + kept(top_b, b_labels, out)
        info = torch.finfo(result.dtype)
        lost = result < info.tiny / info.eps**2
        if is_abstract(lost):
            return super().einsum(a, a_labels, b, b_labels, out)
        if bool(lost.any()):
            ones = [(x.detach() > -torch.inf).to(x.dtype) for x in (a, b)]
            lost = lost & (einsum(ones[0], a_labels, ones[1], b_labels, out) > 0)
            if bool(lost.any()):
                return self._in_bands((a, a_labels, top_a), (b, b_labels, top_b), out)
        return safe_log(result) + shift

    def _in_bands(self, a: Operand, b: Operand, out: Labels) -> Tensor:
        """Contract a with the entries of b near the largest ones, then with the others; a is that of the narrower range."""
        (a, low), (b, _) = sorted(((x, _depth(x[0] - x[2])) for x in (a, b)), key=lambda pair: -pair[1])
        info = torch.finfo(a[0].dtype)
        least = log(info.tiny / info.eps)
        if low < least / 2:
            return super().einsum(a[0], a[1], b[0], b[1], out)
        far = (b[0] - b[2]).detach() < least - low
        near = einsum((a[0] - a[2]).exp(), a[1], (b[0] - b[2]).masked_fill(far, -torch.inf).exp(), b[1], out)
        found = safe_log(near) + kept(a[2], a[1], out) + kept(b[2], b[1], out)
        rest = b[0].masked_fill(~far, -torch.inf)
        return (
            self.add(found, self.einsum(a[0], a[1], rest, b[1], out))
            if bool((rest > -torch.inf).any())
            else found
        )

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        top = x.new_full(shape, -float("inf")).scatter_reduce(
            axis, segments(index, x, axis), x.detach(), "amax"
        )
        top = finite(top)
        total = x.new_zeros(shape).index_add(axis, index, (x - top.index_select(axis, index)).exp())
        return safe_log(total) + top
