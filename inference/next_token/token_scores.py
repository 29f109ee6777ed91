"""The tokens on edges, and their scores: Bᵀ x of messages x at the units of a chain, for all tokens or those of a label.

:class:`TokenScores` asks the engine. :class:`TableScores` is its fast path for an HMM in Real: the table, each token's column
divided by its largest entry top(v), is laid out once for all queries, and columns of labels with few tokens are gathered once.

Scores are logarithms in nats, those of a table without log top(v), each with a scale for each message.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear

from ...circuits.automaton import Automaton
from ...layers import InputLayer
from ..engine.contract import adjoint, columns, observe
from ..semirings.base import Semiring
from ..semirings.scaled import Scaled
from ..semirings.scaled_real import Real

GATHERED_BYTES = 1 << 28  # of columns that are kept with a small table
BLOCK_ELEMENTS = 1 << 26  # entries of the table that are divided at once
LOG2 = 0.6931471805599453

Found = tuple[Tensor, Float[Tensor, " messages"]]


class EdgeLabels:
    """The distinct labels of an automaton's edges: the label's ``number`` of each edge, and for each label its token ``classes``
    and the number of its tokens, ``sizes``."""

    def __init__(self, automaton: Automaton) -> None:
        self._labels = labels = automaton.labels
        order = torch.argsort(labels.incidence.row, stable=True)
        counts = torch.bincount(labels.incidence.row, minlength=labels.unit_dims[0]).tolist()
        known: dict[tuple[int, ...], int] = {}
        number = [
            known.setdefault(tuple(sorted(classes.tolist())), len(known))
            for classes in labels.incidence.col[order].split(counts)
        ]
        self.number, self.classes = torch.tensor(number), list(known)
        of_class = [len(members) for members in labels.members()]
        self.sizes = [sum(of_class[c] for c in key) for key in known]
        self._tokens: dict[int, Int[Tensor, " some"]] = {}

    def tokens(self, label: int) -> Int[Tensor, " some"]:
        """Return the token ids of a label, ascending; kept."""
        if (found := self._tokens.get(label)) is None:
            members = [self._labels.members()[c] for c in self.classes[label]]
            found = self._tokens[label] = torch.cat(members).sort().values if members else torch.arange(0)
        return found


class TokenScores:
    """Bᵀ x in any semiring, for any input layer."""

    def __init__(self, semiring: Semiring[Any], layer: InputLayer, labels: EdgeLabels) -> None:
        self._semiring, self._layer, self._labels = semiring, layer, labels
        device = next((t.device for t in layer.parameters()), torch.device("cpu"))
        self.log_top: Float[Tensor, " vocab"] = torch.zeros(layer.vocab_size, device=device)

    def all_tokens(self, x: Any) -> Found:
        """Score every token: (messages, vocab)."""
        return self._logs(adjoint(self._semiring, self._layer, x))

    def of_label(self, x: Any, label: int) -> Found:
        """Score the tokens of a label: (messages, tokens)."""
        sr, table = self._semiring, self._columns(label)
        units = list(range(sr.ndim(x) - 1))
        one, many = len(units), len(units) + 1
        return self._logs(sr.einsum(x, [*units, one], table, [*units, many], [many, one]))

    def of_pairs(
        self, x: Any, message: Int[Tensor, " lines"], labels: list[int], place: Int[Tensor, " lines"]
    ) -> Tensor:
        """Score pairs: in line i token ``place[i]`` of the joined tokens of ``labels``, by message ``message[i]``."""
        sr, last = self._semiring, self._semiring.ndim(x) - 1
        tokens = torch.cat([self._labels.tokens(i) for i in labels]).to(place.device)[place]
        return sr.log(sr.reduce(observe(sr, self._layer, sr.gather(x, message, last), tokens), range(last)))

    def _columns(self, label: int) -> Any:
        sr, found = self._semiring, None
        for part in columns(sr, self._layer, self._labels.tokens(label).to(self.log_top.device)):
            found = part if found is None else sr.mul(found, part)
        return found

    def _logs(self, found: Any) -> Found:
        logs = self._semiring.log(found).T
        return logs, logs.new_zeros(len(logs), dtype=torch.float64)


class ScaledTable:
    """A table B (H, V), each token's column divided by its largest entry top(v), in ``dtype`` and laid out for products.

    It belongs to an HMM, all of whose queries share it (:func:`~.product_tables.kept`), with the columns gathered last: at most
    a quarter of it, or :data:`GATHERED_BYTES`.
    """

    def __init__(self, table: Float[Tensor, "hidden vocab"], dtype: torch.dtype | None) -> None:
        self._table, self.dtype, top = table, dtype or table.dtype, table.amax(0)
        self.log_top = top.log()  # −inf for a token that is never emitted
        self._divisor = torch.where(top > 0, top, 1)
        self._gathered: dict[bytes, Float[Tensor, "some hidden"]] = {}
        self._bytes, self._most = 0, max(GATHERED_BYTES, table.numel() * self.dtype.itemsize // 4)
        width = max(1, BLOCK_ELEMENTS // len(table))
        parts = zip(table.split(width, 1), self._divisor.split(width), strict=True)
        self._rows: Tensor | None = None  # (V, H) on an accelerator, where columns are gathered from it
        if table.device.type == "cpu":
            self._blocks = [product((block / by).to(self.dtype)) for block, by in parts]
            return
        rows = self._rows = table.new_empty((table.shape[1], len(table)), dtype=self.dtype)
        for part, (block, by) in zip(rows.split(width), parts, strict=True):
            part.copy_((block / by).T)
        self._blocks = [lambda x: x @ rows.T]

    def products(self, rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows vocab"]:
        """Multiply rows by the whole table, in the table's precision."""
        scores = [block(rows.to(self.dtype)) for block in self._blocks]
        return scores[0] if len(scores) == 1 else torch.cat(scores, 1)

    def columns(self, tokens: Int[Tensor, " some"]) -> Float[Tensor, "some hidden"]:
        """Return the scaled columns of some tokens, as rows."""
        tokens = tokens.to(self._table.device)
        if self._rows is not None:
            return self._rows.index_select(0, tokens)
        gathered = self._table.index_select(1, tokens) / self._divisor.index_select(0, tokens)
        return gathered.T.contiguous().to(self.dtype)

    def gathered(self, tokens: Int[Tensor, " some"]) -> Float[Tensor, "some hidden"]:
        """Return the same, kept for the next call with these tokens."""
        name = tokens.cpu().numpy().tobytes()
        if (found := self._gathered.get(name)) is None:
            found = self.columns(tokens)
            if self._bytes + found.nbytes > self._most:
                self._gathered.clear()
                self._bytes = 0
            self._gathered[name], self._bytes = found, self._bytes + found.nbytes
        return found

    @cached_property
    def positive(self) -> Float[Tensor, "vocab hidden"]:
        """1 where an entry of the table is positive, else 0."""
        return (self._table > 0).to(self._table).T

    @cached_property
    def smallest(self) -> float:
        """A lower bound of the positive entries of the table, each divided by its column's largest."""
        height = max(1, BLOCK_ELEMENTS // self._table.shape[1])
        return min(float(smallest_of(rows / self._divisor)) for rows in self._table.split(height))


class TableScores:
    """Bᵀ x for a table B in Real."""

    def __init__(self, semiring: Real, table: ScaledTable, labels: EdgeLabels) -> None:
        self._semiring, self.table, self._labels, self.log_top = semiring, table, labels, table.log_top

    def all_tokens(self, x: Scaled) -> Found:
        rows, scale = self._scaled(x)
        scores = self.table.products(rows)
        return self._logs(scores, rows, scale, lambda ones: torch.cat([ones @ self.table.positive.T], 1))

    def of_label(self, x: Scaled, label: int) -> Found:
        (rows, scale), emitted = self._scaled(x), self._columns(label)
        return self._logs(
            rows @ emitted.to(rows).T, rows, scale, lambda ones: ones @ (emitted > 0).to(ones).T
        )

    def of_pairs(
        self, x: Scaled, message: Int[Tensor, " lines"], labels: list[int], place: Int[Tensor, " lines"]
    ) -> Tensor:
        rows, scale = self._scaled(x)
        rows, scale = rows.index_select(0, message), scale.index_select(0, message)
        emitted = torch.cat([self._columns(i) for i in labels]).index_select(0, place).to(rows)
        found = (rows * emitted).sum(1, keepdim=True)
        logs, scale = self._logs(found, rows, scale, lambda ones: (ones * (emitted > 0)).sum(1, keepdim=True))
        return logs[:, 0].double() + scale

    def _columns(self, label: int) -> Float[Tensor, "tokens hidden"]:
        return self.table.gathered(self._labels.tokens(label))

    def _scaled(self, x: Scaled) -> tuple[Float[Tensor, "messages hidden"], Float[Tensor, " messages"]]:
        """Return messages as rows with maximum one, and the logarithms of their scales (nats)."""
        x = self._semiring.rescaled(x)
        rows = x.mantissa.T
        return rows, (x.exponent.reshape(-1) * LOG2).expand(len(rows))

    def _logs(self, found: Tensor, rows: Tensor, scale: Tensor, truth: Callable[[Tensor], Tensor]) -> Found:
        """Return logarithms; a scale is NaN where a score that is positive in truth is too small to be right."""
        found = found.to(rows.dtype)
        least = self._semiring.least(rows.dtype)
        if least and found.numel() and float(found.detach().amin()) < least:
            small = smallest_of(rows)
            if float(small) * self.table.smallest < least:
                lost = ((found < least) & (truth((rows > 0).to(rows.dtype)) > 0)).any(1)
                scale = scale.masked_fill(lost, torch.nan)
        return found.log_(), scale


def product(table: Float[Tensor, "hidden vocab"]) -> Callable[[Tensor], Tensor]:
    """Return x ↦ x @ table for few rows x, by oneDNN where this CPU has it for the table's precision."""

    def fast(x: Tensor) -> Tensor:
        return linear(x.to_mkldnn(), weight).to_dense()

    usable = table.device.type == "cpu" and table.dtype in (torch.float32, torch.bfloat16)
    if usable and table.numel() and torch.backends.mkldnn.is_available():
        weight = table.T.contiguous().to_mkldnn()
        with suppress(RuntimeError):  # bfloat16 on a CPU without it
            fast(table.new_zeros(1, len(table)))
            return fast
    return lambda x: x @ table


def smallest_of(x: Tensor) -> Tensor:
    """Return the smallest positive entry, in float64; infinite if there is none."""
    return x.masked_fill(x <= 0, torch.inf).amin().double() if x.numel() else torch.tensor(torch.inf)


def ragged_arange(counts: Int[Tensor, " lines"]) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
    """Return, for segments of these lengths end to end, the segment of each entry and its position in the segment."""
    line = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    return line, torch.arange(len(line), device=counts.device) - (counts.cumsum(0) - counts)[line]


def row_logsumexp(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return log Σ exp over the values that belong to each row; −inf for a row without values."""
    top = values.new_full((rows,), -torch.inf).scatter_reduce(0, row, values, "amax")
    shift = torch.where(top.isfinite(), top, 0)
    return values.new_zeros(rows).index_add(0, row, (values - shift[row]).exp()).log() + shift
