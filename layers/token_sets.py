"""The edge labels of an automaton as an input layer of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import whole_numbers
from ..errors import ShapeError
from .incidence import Incidence
from .input import InputLayer
from .operator import Factor, Index, Label, TensorMap


class TokenSets(InputLayer):
    """J sets of tokens (edge labels of an automaton), each a union of given *classes* of tokens.

    B_f = C · K with C ∈ {0,1}^{J × classes} (``unit``, ``klass``: the positions of its ones) and K ∈ {0,1}^{classes × V}.
    ``tokens`` gives K: the class of each token (−1 for a token in no set), or an :class:`Incidence` (class, token) if classes
    overlap. The classes of one unit must not overlap, since B_f is 0/1; this is checked unless ``trusted``.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import TokenSets
    >>> classes = torch.tensor([0, 0, 1, -1])  # tokens 0 and 1 in class 0, token 2 in class 1, token 3 in none
    >>> sets = TokenSets(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), classes, num_units=2)
    >>> sets.table().int()  # {0, 1} and {0, 1, 2}
    tensor([[1, 1, 0, 0],
            [1, 1, 1, 0]], dtype=torch.int32)
    """

    def __init__(
        self,
        unit: Int[Tensor, " ones"],
        klass: Int[Tensor, " ones"],
        tokens: Int[Tensor, " vocab"] | Incidence,
        num_units: int,
        *,
        trusted: bool = False,
    ) -> None:
        self.token_class: Int[Tensor, " vocab"] | None = None
        if isinstance(tokens, Incidence):
            self.classes = tokens
        else:
            if tokens.ndim != 1 or not len(tokens):
                raise ShapeError(
                    f"TokenSets: token_class must be a non-empty vector, not of shape {tuple(tokens.shape)}"
                )
            self.token_class = whole_numbers(tokens, "TokenSets: token_class", ShapeError)
            allowed = (self.token_class >= 0).nonzero().squeeze(1)
            count = max(1, int(self.token_class.max()) + 1)
            self.classes = Incidence(self.token_class[allowed], allowed, (count, len(tokens)))
        self.num_classes, self.vocab_size = self.classes.shape
        if len(klass) and int(klass.max()) >= self.num_classes:
            raise ShapeError(
                f"TokenSets: class {int(klass.max())} has no token; there are {self.num_classes} classes"
            )
        self.incidence = Incidence(unit, klass, (num_units, self.num_classes))
        self.unit_dims = (num_units,)
        self._sets: list[Int[Tensor, " some"]] | None = None
        self._by_token: tuple[Tensor, Tensor] | None = None
        if self.token_class is None and not trusted:
            self._check_disjoint()

    @property
    def tokens(self) -> Int[Tensor, " vocab"] | Incidence:
        """K in the form of the argument: the class of each token if classes are disjoint, else the incidence matrix."""
        return self.classes if self.token_class is None else self.token_class

    def members(self) -> list[Int[Tensor, " some"]]:
        """Return the tokens of each class, ascending."""
        if self._sets is None:
            order = torch.argsort(self.classes.row * self.vocab_size + self.classes.col)
            self._sets = list(self.classes.col[order].split(self.class_sizes().tolist()))
        return self._sets

    def by_token(self, device: torch.device) -> tuple[Int[Tensor, " vocab+1"], Int[Tensor, " entries"]]:
        """Return (first, classes) in CSR form: token v is in the classes ``classes[first[v]:first[v + 1]]``."""
        if self._by_token is None or self._by_token[0].device != device:
            order = torch.argsort(self.classes.col, stable=True)
            counts = torch.bincount(self.classes.col, minlength=self.vocab_size)
            first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            self._by_token = (first.to(device), self.classes.row[order].to(device))
        return self._by_token

    def _check_disjoint(self) -> None:
        sizes, members = self.class_sizes(), self.members()
        order = torch.argsort(self.incidence.row, stable=True)
        counts = torch.bincount(self.incidence.row, minlength=self.unit_dims[0])
        seen = set[tuple[int, ...]]()
        for classes in self.incidence.col[order].split(counts.tolist()):
            key = tuple(sorted(classes.tolist()))
            if len(key) < 2 or key in seen:
                continue
            seen.add(key)
            if len(torch.unique(torch.cat([members[c] for c in key]))) < int(sizes[classes].sum()):
                raise ShapeError(f"TokenSets: two of the classes {list(key)} of one unit share a token")

    def factors(self, units: Sequence[Label], token: Label, fresh: Label) -> list[Factor]:
        return [(self.incidence, (units[0], fresh)), (self.classes, (fresh, token))]

    def columns(self, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "*units batch"], ...]:
        device = tokens.device
        first, classes = self.by_token(device)
        count = first[tokens + 1] - first[tokens]
        where = torch.arange(len(tokens), device=device).repeat_interleave(count)
        offset = torch.arange(len(where), device=device) - (count.cumsum(0) - count)[where]
        onehot = torch.zeros(self.num_classes, len(tokens), device=device)
        onehot[classes[first[tokens][where] + offset], where] = 1
        out = torch.zeros(self.unit_dims[0], len(tokens), device=device)
        return (out.index_add_(0, self.incidence.row.to(device), onehot[self.incidence.col.to(device)]),)

    def _take(self, units: Index) -> TokenSets:
        (index,) = units
        place = torch.full((self.unit_dims[0],), -1).index_put((index,), torch.arange(len(index)))
        unit = place[self.incidence.row]
        return TokenSets(unit[unit >= 0], self.incidence.col[unit >= 0], self.tokens, len(index))

    def class_sizes(self) -> Int[Tensor, " classes"]:
        """Return the number of tokens in each class."""
        return torch.bincount(self.classes.row, minlength=self.num_classes)

    def map(self, fn: TensorMap) -> TokenSets:
        return self

    def parameters(self) -> list[Tensor]:
        return []
