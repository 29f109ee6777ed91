"""Token scores: products of messages over hidden states with the emission matrix, for all tokens or those of an edge.

The table holds B[h, v] / top(v), where top(v) = max_h B[h, v], so that rare tokens use the whole range of the precision. The
gathered columns of labels with few tokens are cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .edge_labels import EdgeLabels

GATHER_CACHE_BYTES = 1 << 28
BLOCK_ELEMENTS = 1 << 26  # entries of the table that are divided and packed at once
WIDE = 0.25  # a label with at least this share of the vocabulary is scored for every token
FEW = 64  # labels of at most this many tokens are scored together in one gather
ROWS = 32  # the number of rows that the packed layout is optimised for


class Label(NamedTuple):
    """A label's sorted token ids and their emission columns, as rows.

    A wide label, with at least :data:`WIDE` of the vocabulary, has the ids of the complement and no columns.
    """

    tokens: Int[Tensor, " some"]
    columns: Float[Tensor, "some hidden"] | None


class Scores(NamedTuple):
    """Token scores in nats: log m(v) = product + product_scale + log top(v), and likewise ``prior`` for the HMM alone."""

    product: Float[Tensor, "batch vocab"]
    product_scale: Float[Tensor, " batch"]
    prior: Float[Tensor, "batch vocab"]
    prior_scale: Float[Tensor, " batch"]
    certain: bool  # True if no score is zero or lost to underflow
    lost: Bool[Tensor, " batch"] | None = None  # if known: the rows in which a feasible token has no score

    def select(self, rows: Int[Tensor, " rows"]) -> Scores:
        """Return the rows ``rows``."""
        product, product_scale, prior, prior_scale = (x[rows] for x in self[:4])
        lost = None if self.lost is None else self.lost[rows]
        return Scores(product, product_scale, prior, prior_scale, self.certain, lost)


class EmissionTable:
    """An emission matrix (H, V) in ``dtype``, each token's column divided by its largest entry, and products with it."""

    def __init__(
        self, emission: Float[Tensor, "hidden vocab"], labels: EdgeLabels, dtype: torch.dtype
    ) -> None:
        self.edge_labels = labels
        self._labels: OrderedDict[int, Label] = OrderedDict()
        self._bytes = 0
        top = emission.amax(0)
        self.dtype, self.vocab_size = dtype, emission.shape[1]
        self.log_top = top.log()  # −inf for a token that the HMM never emits
        self._emission, self._divisor = emission, torch.where(top > 0, top, 1)
        self._rows: Tensor | None = None  # (V, H), where columns are gathered from the table itself
        width = max(1, BLOCK_ELEMENTS // len(emission))
        blocks = zip(emission.split(width, 1), self._divisor.split(width), strict=True)
        if emission.device.type == "cpu":
            self._blocks = [product((block / top).to(dtype)) for block, top in blocks]
            return
        rows = self._rows = emission.new_empty((self.vocab_size, len(emission)), dtype=dtype)
        for part, (block, top) in zip(rows.split(width), blocks, strict=True):
            part.copy_((block / top).T)
        self._blocks = [lambda x: x @ rows.T]

    def label(self, edge: int) -> Label:
        """Return the label of an edge, from the cache if it is there."""
        number = self._numbers[edge]
        if number in self._labels:
            self._labels.move_to_end(number)
            return self._labels[number]
        tokens = self.edge_labels.tokens(number)
        if len(tokens) >= WIDE * self.vocab_size:
            outside = torch.ones(self.vocab_size, dtype=torch.bool).index_fill_(0, tokens, False)
            label = Label(outside.nonzero().squeeze(1).to(self._emission.device), None)
        else:
            label = Label(tokens := tokens.to(self._emission.device), self.columns(tokens))
            self._bytes += label.columns.nbytes if label.columns is not None else 0
        self._labels[number] = label
        while len(self._labels) > 1 and self._bytes > GATHER_CACHE_BYTES:
            _, (_, columns) = self._labels.popitem(last=False)
            self._bytes -= 0 if columns is None else columns.nbytes
        return label

    @cached_property
    def _numbers(self) -> list[int]:
        return self.edge_labels.number.tolist()

    @cached_property
    def smallest(self) -> float:
        """The smallest positive entry of the matrix; infinite if there is none."""
        height = max(1, BLOCK_ELEMENTS // self.vocab_size)
        return min(float(smallest(rows).amin()) for rows in self._emission.split(height))

    def columns(self, tokens: Int[Tensor, " some"]) -> Float[Tensor, "some hidden"]:
        """Return the scaled columns of some tokens, as rows."""
        if self._rows is not None:
            return self._rows.index_select(0, tokens)
        gathered = self._emission.index_select(1, tokens) / self._divisor.index_select(0, tokens)
        return gathered.T.contiguous().to(self.dtype)

    def all_tokens(self, rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows vocab"]:
        """Multiply rows by the whole table: a score for every token, in the table's precision."""
        scores = [block(rows.to(self.dtype)) for block in self._blocks]
        return scores[0] if len(scores) == 1 else torch.cat(scores, 1)


def product(table: Float[Tensor, "hidden vocab"]) -> Callable[[Tensor], Tensor]:
    """Return x ↦ x @ table for few rows x, with the table packed once by oneDNN if possible."""
    if not packs(table):
        return lambda x: x @ table
    packed = torch.ops.mkldnn._reorder_linear_weight(table.T, ROWS)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def packs(table: Tensor) -> bool:
    """Tell whether oneDNN can pack this table (on the CPU, float32 or supported bfloat16)."""
    if table.device.type != "cpu" or table.requires_grad or not torch.backends.mkldnn.is_available():
        return False
    if table.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return table.dtype == torch.float32


class EdgeMessages(NamedTuple):
    """The messages α_s ∘ Aβ[:, s'] of all (row, edge) pairs alive, sorted by edge, with maximum one and log scales (nats).

    Scores below ``least`` (in units of the scale) are not to be trusted, since the messages have lost entries to underflow.
    """

    values: Float[Tensor, "columns hidden"]
    scale: Float[Tensor, " columns"]
    row: Int[Tensor, " columns"]
    edge: Int[Tensor, " columns"]
    least: Float[Tensor, " columns"]


def score(table: EmissionTable, columns: EdgeMessages, prior: EdgeMessages, exclusive: bool) -> Scores:
    """Score all tokens in each row; ``exclusive``: no token is in two labels of one row.

    ``prior`` has one message per row, and its edges are not used. A score of −inf is zero or lost to underflow.
    """
    columns, labels, wide, top = _by_label(table, columns, len(prior.scale))
    out, alone, certain = _written(table, columns, prior, labels, wide, exclusive)
    if not exclusive and not certain:  # one label may have lost more than another contributes
        most, _, _ = _written(table, columns, prior, labels, wide, exclusive, upper=True)
        out.masked_fill_(most - out > torch.finfo(out.dtype).eps ** 0.75, -torch.inf)
    return Scores(out, top, alone, prior.scale.clone(), certain)


def exclusive_scores(
    table: EmissionTable, columns: EdgeMessages, prior: EdgeMessages
) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch vocab"]]:
    """Return log scores of product and prior, divided by top(v), where no token is in two labels of one row.

    A score of −inf is zero or underflowed; ``least`` is ignored.
    """
    columns, prior = (one._replace(least=torch.zeros_like(one.least)) for one in (columns, prior))
    columns, labels, wide, top = _by_label(table, columns, len(prior.scale))
    out, alone, _ = _written(table, columns, prior, labels, wide, exclusive=True)
    return out.double() + top[:, None], alone


def _by_label(
    table: EmissionTable, columns: EdgeMessages, batch: int
) -> tuple[EdgeMessages, list[Label], Bool[Tensor, " columns"], Float[Tensor, " batch"]]:
    """Return the messages with ``edge`` indexing the labels, the labels, which messages are wide, and each row's scale."""
    row, edge, device = columns.row, columns.edge, columns.scale.device
    edges, kind = torch.unique_consecutive(edge, return_inverse=True)
    labels = [table.label(e) for e in edges.tolist()]
    wide = torch.tensor([label.columns is None for label in labels], dtype=torch.bool, device=device)[kind]
    top = columns.scale.new_full((batch,), -torch.inf).scatter_reduce(0, row, columns.scale, "amax")
    scale = (columns.scale - torch.where(top.isfinite(), top, 0)[row]).to(columns.values.dtype)
    return columns._replace(scale=scale, edge=kind), labels, wide, top


def _written(
    table: EmissionTable,
    columns: EdgeMessages,
    prior: EdgeMessages,
    labels: list[Label],
    wide: Bool[Tensor, " columns"],
    exclusive: bool,
    upper: bool = False,
) -> tuple[Tensor, Tensor, bool]:
    """Return the scores of product and prior and whether none was flushed; ``upper``: flushed scores get upper bounds."""
    batch, bounded = len(prior.scale), _at_least if upper else flush_subnormals
    values = torch.cat([prior.values, columns.values[wide]])
    found = table.all_tokens(values).to(values.dtype)
    found, certain = bounded(found, torch.cat([prior.least, columns.least[wide]]))
    found = found.log_()
    alone, found = found[:batch], found[batch:].add_(columns.scale[wide, None])
    out = torch.full((batch, table.vocab_size), -torch.inf, dtype=found.dtype, device=found.device)
    rows, begin, written = columns.row[wide], 0, set[int]()
    for label, size in zip(labels, torch.bincount(columns.edge, minlength=len(labels)).tolist(), strict=True):
        if label.columns is not None:
            continue
        here, at = found[begin : begin + size], rows[begin : begin + size]
        begin += size
        here[:, label.tokens] = -torch.inf
        out[at] = here if written.isdisjoint(at.tolist()) else _join(out[at], here, exclusive)
        written.update(at.tolist())
    certain &= _narrow(out, columns, labels, exclusive, bounded)
    return out, alone, certain


def _narrow(
    out: Tensor, columns: EdgeMessages, labels: list[Label], exclusive: bool, bounded: Callable[..., Any]
) -> bool:
    """Write the scores of narrow labels into ``out`` (``edge`` indexes ``labels``); return whether none was flushed."""
    values, scale, row, kind, least = columns
    few = [i for i, label in enumerate(labels) if label.columns is not None and len(label.tokens) <= FEW]
    certain, done = True, set[int]()
    if few and exclusive:
        count = torch.zeros(len(labels), dtype=torch.long)
        count[few] = torch.tensor([len(labels[i].tokens) for i in few])
        count = count.to(out.device)
        lines = (count[kind] > 0).nonzero().squeeze(1)
        line, place = ragged_arange(count[kind[lines]])
        at = (count.cumsum(0) - count)[kind[lines]][line] + place
        tokens = torch.cat([labels[i].tokens for i in few])[at]
        emitted = torch.cat([c for i in few if (c := labels[i].columns) is not None]).index_select(0, at)
        lines = lines[line]
        found = (values.index_select(0, lines) * emitted.to(values.dtype)).sum(1)
        found, certain = bounded(found, least[lines])
        out[row[lines], tokens] = found.log() + scale[lines]
        done = set(few)
    for i, (tokens, emission) in enumerate(labels):
        if emission is None or i in done:
            continue
        here = (kind == i).nonzero().squeeze(1)
        found, whole = bounded(values[here] @ emission.T.to(values.dtype), least[here])
        certain &= whole
        cells = row[here][:, None], tokens[None]
        out[cells] = _join(out[cells], found.log() + scale[here, None], exclusive)
    return certain


def _join(a: Tensor, b: Tensor, exclusive: bool) -> Tensor:
    return torch.maximum(a, b) if exclusive else torch.logaddexp(a, b)


def flush_subnormals(x: Float[Tensor, "rows ..."], least: Float[Tensor, " rows"]) -> tuple[Tensor, bool]:
    """Set entries below their row's ``least`` to zero; return the entries and whether none was set.

    A zero is noticed later and recomputed; an inaccurate score would not be.
    """
    if not x.numel() or float(x.amin()) >= float(least.amax()):
        return x, True
    thin = x < least.view(-1, *[1] * (x.ndim - 1))
    return x.masked_fill(thin, 0), not bool(thin.any())


def _at_least(x: Tensor, least: Float[Tensor, " rows"]) -> tuple[Tensor, bool]:
    """Raise entries below their row's ``least`` to that bound."""
    return torch.maximum(x, least.view(-1, *[1] * (x.ndim - 1)).to(x.dtype)), False


def ragged_arange(counts: Int[Tensor, " lines"]) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
    """Return for concatenated segments of these lengths each entry's segment and position within the segment."""
    line = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    return line, torch.arange(len(line), device=counts.device) - (counts.cumsum(0) - counts)[line]


def smallest(rows: Float[Tensor, "rows some"]) -> Float[Tensor, " rows"]:
    """Return the smallest positive entry of each row, in float64; infinite if there is none."""
    return rows.masked_fill(rows <= 0, torch.inf).amin(1).double()


def row_logsumexp(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return log Σ exp over the values that belong to each row; −inf for a row without values."""
    top = values.new_full((rows,), -torch.inf).scatter_reduce(0, row, values, "amax")
    shift = torch.where(top.isfinite(), top, 0)
    return values.new_zeros(rows).index_add(0, row, (values - shift[row]).exp()).log() + shift
