"""What a semiring promises: its laws, and that each operation is the sums and products that it is named for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..inference.semirings.base import Semiring
from ..layers import Incidence
from .comparison import promise, same

SHAPE = (3, 4, 2)


def check_semiring(semiring: Semiring[Any], *, seed: int = 0, tolerance: float = 1e-6) -> None:
    """Check that a semiring keeps its laws, and that its operations agree with each other.

    Values are compared by their logarithms, ``semiring.log``. They are lifted from random weights over sixteen orders of
    magnitude, a quarter of which are zero.

    Parameters
    ----------
    semiring
        An instance of a class that derives from :class:`tractile.inference.Semiring`.
    seed
        The seed of the random weights.
    tolerance
        The largest difference of two logarithms that should be equal, relative to the larger of 1 and their size.

    Raises
    ------
    AssertionError
        If a promise is broken; it says which.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.testing import check_semiring
    >>> check_semiring(tt.inference.MaxProduct())
    >>> class Forgets(tt.inference.MaxProduct):
    ...     def mul(self, a, b):
    ...         return a
    >>> check_semiring(Forgets())
    Traceback (most recent call last):
        ...
    AssertionError: ⊗ commutes: at (0, 0, 0) it is ...
    """
    generator = torch.Generator().manual_seed(seed)
    _Check(semiring, generator, tolerance).run()


class _Check:
    """A semiring, and values that are equal by their logarithms."""

    def __init__(self, semiring: Semiring[Any], generator: torch.Generator, tolerance: float) -> None:
        self.semiring, self.generator, self.tolerance = semiring, generator, tolerance

    def weights(self, *shape: int) -> Tensor:
        """Return random weights, a quarter of which are zero."""
        size = torch.randint(-8, 8, shape, generator=self.generator)
        some = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return some * 10.0**size * (torch.rand(shape, generator=self.generator) < 0.75)

    def value(self, *shape: int) -> Any:
        return self.semiring.lift(self.weights(*shape), batched=True)

    def same(self, found: Any, expected: Any, said: str) -> None:
        sr = self.semiring
        promise(
            tuple(sr.shape(found)) == tuple(sr.log(found).shape), f"{said}: shape() is that of the logarithm"
        )
        same(sr.log(found), sr.log(expected), said, self.tolerance)

    def slice(self, x: Any, axis: int, index: int) -> Any:
        """Return one slice of a value along an axis that stays."""
        return self.semiring.gather(x, torch.tensor([index]), axis)

    def total(self, x: Any, axis: int) -> Any:
        """Return the ⊕ along an axis that stays, one slice after another."""
        found = self.slice(x, axis, 0)
        for index in range(1, self.semiring.shape(x)[axis]):
            found = self.semiring.add(found, self.slice(x, axis, index))
        return found

    def run(self) -> None:
        self.laws()
        self.sums()
        self.moves()
        self.contractions()

    def laws(self) -> None:
        sr = self.semiring
        a, b, c = (self.value(*SHAPE) for _ in range(3))
        zero, one = (sr.lift(torch.full(SHAPE, w, dtype=torch.float64), batched=True) for w in (0.0, 1.0))
        self.same(sr.add(a, b), sr.add(b, a), "⊕ commutes")
        self.same(sr.mul(a, b), sr.mul(b, a), "⊗ commutes")
        self.same(sr.add(sr.add(a, b), c), sr.add(a, sr.add(b, c)), "⊕ is associative")
        self.same(sr.mul(sr.mul(a, b), c), sr.mul(a, sr.mul(b, c)), "⊗ is associative")
        self.same(sr.mul(a, sr.add(b, c)), sr.add(sr.mul(a, b), sr.mul(a, c)), "⊗ distributes over ⊕")
        self.same(sr.add(a, zero), a, "the value of weight 0 changes no sum")
        self.same(sr.mul(a, one), a, "the value of weight 1 changes no product")
        self.same(sr.mul(a, zero), zero, "a product with the value of weight 0 is that value")

    def sums(self) -> None:
        sr, x = self.semiring, self.value(*SHAPE)
        self.same(sr.reduce(x, []), x, "reduce() over no axis changes nothing")
        for axis in range(len(SHAPE)):
            once = sr.reduce(x, [axis])
            stays = sr.split(once, 0, (1, sr.shape(once)[0]))
            order = [*range(1, axis + 1), 0, *range(axis + 1, len(SHAPE))]
            self.same(sr.permute(stays, order), self.total(x, axis), "reduce() adds the slices")
            index = torch.tensor([0, 2, 0, 2][: SHAPE[axis]])
            found = sr.segment_sum(x, index, 4, axis)
            nothing = sr.mul(self.slice(x, axis, 0), sr.lift(torch.zeros(1, 1, 1, dtype=torch.float64)))
            for segment in range(4):
                expected = nothing
                for place in (index == segment).nonzero()[:, 0].tolist():
                    expected = sr.add(expected, self.slice(x, axis, place))
                self.same(
                    self.slice(found, axis, segment), expected, "segment_sum() adds the slices of a segment"
                )
            ones = Incidence(torch.tensor([1, 0, 1]), torch.tensor([0, 1, 1]), (2, SHAPE[axis]))
            plain = sr.along(ones.dense(), x, axis)
            self.same(
                sr.incidence(x, ones, axis), plain, "incidence() is along() with the matrix of zeros and ones"
            )
        both = sr.reduce(x, [0, 1])
        self.same(both, sr.reduce(sr.reduce(x, [1]), [0]), "reduce() over two axes is one after the other")

    def moves(self) -> None:
        sr, weights = self.semiring, self.weights(*SHAPE)

        def lifted(some: Tensor) -> Any:
            return sr.lift(some, batched=True)

        x = lifted(weights)
        self.same(sr.lift(weights), x, "lift() says the same whether or not there is a batch")
        index = torch.tensor([1, 1, 0])
        for axis in range(len(SHAPE)):
            self.same(
                sr.gather(x, index, axis), lifted(weights.index_select(axis, index)), "gather() takes slices"
            )
        self.same(sr.permute(x, [2, 0, 1]), lifted(weights.permute(2, 0, 1)), "permute() reorders the axes")
        self.same(
            sr.split(x, 1, (2, 2)), lifted(weights.reshape(3, 2, 2, 2)), "split() makes one axis several"
        )
        self.same(sr.merge(x, 0, 2), lifted(weights.reshape(12, 2)), "merge() makes several axes one")
        self.same(sr.cat([x, x]), lifted(torch.cat([weights] * 2, -1)), "cat() joins along the batch")
        parts = sr.chunk(x, 2)
        promise(len(parts) == 2, "chunk() gives as many parts as it is asked for")
        self.same(sr.cat(parts), x, "cat() joins what chunk() splits")
        self.same(sr.rescaled(x), x, "rescaled() changes no value")
        promise(sr.device(x) == weights.device, "a value is on the device of its weights")

    def contractions(self) -> None:
        """Sums of products over a label, over two, and over none, in any order of the axes."""
        sr = self.semiring
        sizes = (2, 3, 2, 3)
        for a_labels, b_labels, out in (
            ([0, 1], [1, 2], [0, 2]),
            ([1, 0], [2, 1], [2, 0]),
            ([0, 1], [0, 1], [1]),
            ([0, 1], [1, 0], []),
            ([0], [1], [0, 1]),
            ([0, 1, 2], [2, 1, 3], [3, 0, 1]),
        ):
            a, b = (self.value(*(sizes[i] for i in labels)) for labels in (a_labels, b_labels))
            found = sr.einsum(a, a_labels, b, b_labels, out)
            gone = sorted({*a_labels, *b_labels} - {*out})
            order = [*out, *gone]
            wide = sr.mul(self.spread(a, a_labels, order, sizes), self.spread(b, b_labels, order, sizes))
            expected = sr.reduce(wide, list(range(len(out), len(order))))
            self.same(found, expected, f"einsum() {a_labels}, {b_labels} → {out} is the sum of products")

    def spread(self, x: Any, labels: list[int], order: list[int], sizes: tuple[int, ...]) -> Any:
        """Return a value with its axes in an order, and those that it lacks repeated."""
        sr = self.semiring
        x = sr.permute(x, [labels.index(label) for label in order if label in labels])
        for axis, label in enumerate(order):
            if label not in labels:
                x = sr.split(x, axis, (1, sr.shape(x)[axis])) if axis < sr.ndim(x) else self.wider(x)
                x = sr.gather(x, torch.zeros(sizes[label], dtype=torch.long), axis)
        return x

    def wider(self, x: Any) -> Any:
        """Return a value with one axis more, of size one, at the end."""
        sr, last = self.semiring, self.semiring.ndim(x) - 1
        return sr.split(x, last, (sr.shape(x)[last], 1))
