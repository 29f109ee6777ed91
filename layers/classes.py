"""Categorical distributions over classes of values, with fixed shares within each class (Brown et al. 1992):

    B[j, v] = C[j, class(v)] · share(v)

A table of K columns instead of V, for a vocabulary that is much larger than what the units tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import whole_numbers
from ..errors import ShapeError
from .incidence import Incidence
from .input import Categorical, InputLayer, normalised_counts
from .operator import Factor, Index, Label, TensorMap
from .weights import check_weights


class ClassCategorical(InputLayer):
    """J categorical distributions over K classes of V values; within its class each value has a fixed share.

    ``class_weight``: C of shape (J, K); ``class_of`` and ``share``: the class and the share of each value, which learning
    keeps. B's rows are distributions if those of C are and the shares in each class sum to one. Raises :class:`ShapeError` if
    shapes differ, a class lies outside C, or numbers are negative, infinite or NaN.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import ClassCategorical
    >>> common_or_rare = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
    >>> layer = ClassCategorical(common_or_rare, torch.tensor([0, 1, 1, 1]), torch.tensor([1, 0.2, 0.2, 0.6]))
    >>> layer.table()
    tensor([[0.9000, 0.0200, 0.0200, 0.0600],
            [0.5000, 0.1000, 0.1000, 0.3000]])
    """

    def __init__(
        self,
        class_weight: Float[Tensor, "units classes"],
        class_of: Int[Tensor, " vocab"],
        share: Float[Tensor, " vocab"],
    ) -> None:
        if class_weight.ndim != 2 or share.ndim != 1 or class_of.shape != share.shape or not share.numel():
            raise ShapeError(
                "ClassCategorical: class_weight (units, classes), class_of (vocab,) and share (vocab,) must agree, not "
                f"{tuple(class_weight.shape)}, {tuple(class_of.shape)} and {tuple(share.shape)}"
            )
        check_weights(class_weight, "ClassCategorical")
        check_weights(share, "ClassCategorical")
        class_of = whole_numbers(class_of, "ClassCategorical: class_of", ShapeError).cpu()
        self.class_weight, self.share = class_weight, share
        self.unit_dims, self.vocab_size = (len(class_weight),), len(share)
        self.classes = Incidence(class_of, torch.arange(len(share)), (class_weight.shape[1], len(share)))

    @property
    def class_of(self) -> Int[Tensor, " vocab"]:
        """The class of each value."""
        return self.classes.row

    def class_totals(self) -> Float[Tensor, " classes"]:
        """Return the sum of the shares of each class."""
        return self.classes.times(self.share.cpu().double())

    @property
    def _shares(self) -> Float[Tensor, " vocab"]:
        return self.share.to(self.class_weight)

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [
            (self.class_weight, (*units, fresh)),
            (self.classes, (fresh, token)),
            (self._shares, (token,)),
        ]

    def columns(
        self, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "units batch"], Float[Tensor, " batch"]]:
        classes = self.class_of.to(tokens.device)[tokens]
        return self.class_weight.index_select(1, classes), self._shares.index_select(0, tokens)

    def condensed(self, kind: Int[Tensor, " vocab"]) -> tuple[ClassCategorical, Int[Tensor, " pairs"]]:
        pairs, place = torch.stack([self.class_of, kind.cpu()]).unique(dim=1, return_inverse=True)
        share = self.share.new_zeros(pairs.shape[1]).index_add(0, place.to(self.share.device), self.share)
        return ClassCategorical(self.class_weight, pairs[0], share), pairs[1]

    def log_rows(self, unit: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        weight, classes = self.class_weight.double(), self.class_of.to(unit.device)
        return weight[unit][:, classes].log() + self._shares.double().log()

    def value(self, weights: Float[Tensor, " vocab"] | None = None) -> Float[Tensor, " units"]:
        weighted = self._shares if weights is None else self._shares * weights
        return self.class_weight.to(weighted.dtype) @ self.classes.times(weighted)

    def reweighted(self, weights: Float[Tensor, " vocab"]) -> ClassCategorical:
        return ClassCategorical(self.class_weight, self.class_of, self._shares * weights)

    def _take(self, units: Index) -> ClassCategorical:
        return self.map(lambda weight: weight.index_select(0, units[0].to(weight.device)))

    def map(self, fn: TensorMap) -> ClassCategorical:
        return ClassCategorical(fn(self.class_weight), self.class_of, self.share)

    def parameters(self) -> list[Tensor]:
        return [self.class_weight]

    def free_parameters(self) -> Categorical:
        return Categorical(self.table())

    def maximise(self, derivatives: Sequence[Tensor], pseudocount: float) -> list[Tensor]:
        by_class = self.classes.times((derivatives[0] * self._shares).T).T
        return [normalised_counts(self.class_weight, by_class, pseudocount)]
