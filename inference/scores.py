"""Scores of tokens: rows over hidden states met by the emission, for all tokens or for those of a label.

The table holds B[h, v] / top(v), top(v) the largest emission of token v, so that rare tokens use the whole range of the
precision. Labels with few tokens keep their columns gathered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.automaton import Automaton

GATHER_CACHE_BYTES = 1 << 28
WIDE = 0.25  # a label with at least this share of the vocabulary is scored for every token
FEW = 64  # labels with at most so many tokens are scored together


class Label(NamedTuple):
    """The tokens of an edge, ascending, and their columns as rows; for a wide one the tokens outside, and no columns."""

    tokens: Int[Tensor, " some"]
    columns: Float[Tensor, "some hidden"] | None


class Scores(NamedTuple):
    """log m(v) = product + product_scale + log top(v), and likewise for the HMM alone: the prior. Nats."""

    product: Float[Tensor, "batch vocab"]
    product_scale: Float[Tensor, " batch"]
    prior: Float[Tensor, "batch vocab"]
    prior_scale: Float[Tensor, " batch"]
    certain: bool  # no score was lost to the range of the precision, and none is zero

    def select(self, rows: Int[Tensor, " rows"]) -> Scores:
        """The rows ``rows``."""
        product, product_scale, prior, prior_scale = (x[rows] for x in self[:4])
        return Scores(product, product_scale, prior, prior_scale, self.certain)


class EmissionTable:
    """An emission matrix (H, V) in some precision, each token's largest entry one."""

    def __init__(
        self, emission: Float[Tensor, "hidden vocab"], tokens_of: Callable[[int], Tensor], dtype: torch.dtype
    ) -> None:
        top = emission.amax(0)
        self.table = (emission / torch.where(top > 0, top, 1)).to(dtype)
        self.log_top = top.log()  # −inf for a token that the HMM never emits
        self._tokens_of = tokens_of
        self._labels: OrderedDict[int, Label] = OrderedDict()
        self._bytes = 0

    def label(self, edge: int) -> Label:
        """An edge's label, kept."""
        if edge in self._labels:
            self._labels.move_to_end(edge)
            return self._labels[edge]
        tokens, vocab_size = self._tokens_of(edge), self.table.shape[1]
        if len(tokens) >= WIDE * vocab_size:
            outside = torch.ones(vocab_size, dtype=torch.bool).index_fill_(0, tokens, False)
            label = Label(outside.nonzero().squeeze(1), None)
        else:
            label = Label(tokens, self.table.index_select(1, tokens).T.contiguous())
            self._bytes += label.columns.nbytes if label.columns is not None else 0
        self._labels[edge] = label
        while len(self._labels) > 1 and self._bytes > GATHER_CACHE_BYTES:
            _, (_, columns) = self._labels.popitem(last=False)
            self._bytes -= 0 if columns is None else columns.nbytes
        return label

    def all_tokens(self, rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows vocab"]:
        """The rows against every token."""
        return (rows.to(self.table.dtype) @ self.table).to(rows.dtype)


def solid(x: Tensor) -> tuple[Tensor, bool]:
    """x with what is near the least representable number set to zero, and whether nothing in it is zero.

    Lost is better than wrong, since what is lost is recovered.
    """
    info = torch.finfo(x.dtype)
    least = info.tiny / info.eps
    if not x.numel() or float(x.amin()) >= least:
        return x, True
    return x.masked_fill(x < least, 0), False


def in_pairs(counts: Int[Tensor, " lines"]) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
    """For lines of so many entries each: the line of every entry, and its place in the line."""
    line = torch.arange(len(counts)).repeat_interleave(counts)
    return line, torch.arange(len(line)) - (counts.cumsum(0) - counts)[line]


def tokens_by_edge(automaton: Automaton) -> Callable[[int], Tensor]:
    """The tokens of an edge, ascending."""
    labels = automaton.labels
    order = torch.argsort(labels.incidence.row, stable=True)
    counts = torch.bincount(labels.incidence.row, minlength=labels.unit_dims[0]).tolist()
    classes = labels.incidence.col[order].split(counts)

    def tokens(edge: int) -> Tensor:
        return torch.cat([labels.members()[c] for c in classes[edge].tolist()]).sort().values

    return tokens


def normalised(alpha: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with maximum one and their scales; −inf for a row of zeros."""
    if not len(alpha):
        return alpha, scale
    top = alpha.amax(1)
    return alpha / torch.where(top > 0, top, 1)[:, None], scale + top.log()


def row_logsumexp(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """log Σ exp of the values of each row; −inf for a row without any."""
    top = torch.full((rows,), -torch.inf, dtype=values.dtype).scatter_reduce(0, row, values, "amax")
    shift = torch.where(top.isfinite(), top, 0)
    return torch.zeros(rows, dtype=values.dtype).index_add(0, row, (values - shift[row]).exp()).log() + shift
