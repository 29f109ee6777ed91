"""Messages of the next-token query on a chain × an automaton, on the live automaton states and edges only.

A row (prefix) has the chain's forward message α and the live states of the automaton. For each live pair (row, state s) and each
edge e: s → s' from which the sequence can still be accepted in the tokens left,

    m(v) = Σ_e [v ∈ label(e)] · Σ_j B[j, v] · (Lᵀ α_s)[j] · F_{r−1}[j, s']

(Dang et al. 2026, Algorithm 1), with the backward messages F of :mod:`~.backward`. Wide labels share one product with all of B,
narrow ones take their tokens' columns; nothing of size rows × edges × V is formed. A chain of one state in Boolean gives GCD's
mask, an HMM in Real P-GCD, a product of HMMs P-GCD with a factorial guide.

Beside it, p(v) = Σ_j B[j, v] · (Lᵀ α)[j] · (R final)[j] is the chain's own total of the prefix with v, with no automaton.

Axes: messages (*units or *states, batch); a pair is (row, live state).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..engine.contract import apply, observe, outer
from ..engine.filter import dot, where
from .backward import size_of
from .product_tables import ProductTables
from .row_query import Messages
from .token_scores import ragged_arange, row_logsumexp

WIDE = 0.25  # a label with at least this share of the vocabulary is scored for every token
FEW = 64  # labels of at most this many tokens are scored together


class Scores(NamedTuple):
    """Token scores in nats: log m(v) = product + product_scale + log top(v), and likewise ``prior`` for the chain alone.

    A scale is NaN where scaled arithmetic lost something.
    """

    product: Float[Tensor, "batch vocab"]
    product_scale: Float[Tensor, " batch"]
    prior: Float[Tensor, "batch vocab"]
    prior_scale: Float[Tensor, " batch"]

    def select(self, rows: Int[Tensor, " rows"]) -> Scores:
        """Return the rows ``rows``."""
        return Scores(*(x[rows] for x in self))


class Rows(NamedTuple):
    """The rows: α of the chain alone, α of each live pair, the pairs' rows and states (ascending by row), and the tokens left."""

    prior: Any
    alpha: Any  # None where a prefix has one path: α of its pair is then the chain's own
    row: Int[Tensor, " pairs"]
    state: Int[Tensor, " pairs"]
    left: Int[Tensor, " batch"]


@final
class ProductMessages(Messages):
    """The rows of a query on a chain × an automaton: the methods of a next-token query that concern rows and scores."""

    _rows: Rows

    def __init__(self, tables: ProductTables) -> None:
        self._tables, self._states = tables, list[tuple[int, ...]]()
        self.outside = torch.zeros((), dtype=torch.bool, device=tables.device)  # tokens have been checked

    @property
    def nbytes(self) -> int:
        """The size of the messages in bytes."""
        return sum(size_of(x) for x in (self._rows.prior, self._rows.alpha) if x is not None)

    # ------------------------------------------------------------ rows

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""
        tables, left = self._tables, budgets.to(self._tables.device)
        prior = outer(tables.semiring, tables.chain.initial, len(left))
        self._states = [tuple(tables.automaton.start_states)] * len(left)
        row, state = self._pairs()
        alpha = None if tables.deterministic else self._gathered(prior, row)
        self._rows = Rows(prior, alpha, row, state, left)

    def _pairs(self) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
        """Return the row and the state of each live pair."""
        device = self._tables.device
        row = torch.arange(len(self._states)).repeat_interleave(
            torch.tensor([len(s) for s in self._states], dtype=torch.long)
        )
        live = torch.tensor([s for states in self._states for s in states], dtype=torch.long)
        return row.to(device), live.to(device)

    def _gathered(self, x: Any, index: Int[Tensor, " some"]) -> Any:
        """Return columns of a message; the message itself if all are asked for in order."""
        sr = self._tables.semiring
        last = sr.ndim(x) - 1
        if len(index) == sr.shape(x)[last] and index.equal(torch.arange(len(index), device=index.device)):
            return x
        return sr.gather(x, index, last)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True."""
        tables, now, before = self._tables, self._rows, self._states
        moving = moving.to(tables.device)
        tokens = tokens.to(tables.device).masked_fill(~moving, 0)
        step, given, moves = tables.automaton.step, tokens.tolist(), moving.tolist()
        self._states = [
            states if not move else step(states[0], token) if len(states) == 1
            else tuple(sorted({t for s in states for t in step(s, token)}))
            for states, token, move in zip(before, given, moves, strict=True)
        ]  # fmt: skip
        prior = self._moved(now.prior, tokens, moving)
        row, state = self._pairs()
        alpha = None
        if not tables.deterministic:
            moved = self._moved(now.alpha, tokens[now.row], moving[now.row])
            pair, reached, count, place = list[int](), list[int](), 0, 0
            for states, after, token, move in zip(before, self._states, given, moves, strict=True):
                for i, s in enumerate(states, count):
                    for target in step(s, token) if move else (s,):
                        pair.append(i)
                        reached.append(place + after.index(target))
                count, place = count + len(states), place + len(after)
            alpha = self._joined(moved, pair, reached, place)
        self._rows = Rows(prior, alpha, row, state, now.left - moving.long())

    def _moved(self, alpha: Any, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> Any:
        sr, chain = self._tables.semiring, self._tables.chain
        emitted = observe(sr, chain.inputs, apply(sr, chain.left.T, alpha), tokens)
        after = sr.rescaled(apply(sr, chain.right.T, emitted))
        return where(sr, moving, after, alpha)

    def _joined(self, alpha: Any, pair: list[int], reached: list[int], count: int) -> Any:
        """Sum the messages of pairs that reach the same pair."""
        sr, device = self._tables.semiring, self._tables.device
        taken, to = torch.tensor([pair, reached], dtype=torch.long).to(device)
        last = sr.ndim(alpha) - 1
        return sr.segment_sum(sr.gather(alpha, taken, last), to, count, last)

    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order."""
        rows = torch.as_tensor(indices).to(self._tables.device)
        now, sr = self._rows, self._tables.semiring
        counts = torch.bincount(now.row, minlength=len(now.left))
        line, place = ragged_arange(counts[rows])
        keep = (counts.cumsum(0) - counts)[rows][line] + place
        prior = sr.gather(now.prior, rows, sr.ndim(now.prior) - 1)
        alpha = None if now.alpha is None else self._gathered(now.alpha, keep)
        self._states = [self._states[i] for i in rows.tolist()]
        self._rows = Rows(prior, alpha, line, now.state[keep], now.left[rows])

    # ------------------------------------------------------------ scores

    def scores(self) -> Scores:
        """Return the next-token totals of the product and of the chain alone, not normalised."""
        tables, now, sr = self._tables, self._rows, self._tables.semiring
        chain, batch = tables.chain, len(now.left)
        units = apply(sr, chain.left.T, now.prior)
        last = sr.ndim(units) - 1
        alone = sr.mul(units, outer(sr, tables.unit_final, batch))
        ahead = units if tables.deterministic else apply(sr, chain.left.T, now.alpha)
        first, after = tables.first, tables.backward.lengths(now.left)
        pair, place = ragged_arange(
            torch.where(now.left[now.row] > 0, first[now.state + 1] - first[now.state], 0)
        )
        edge = first[now.state][pair] + place
        live = tables.backward.alive[after[now.row[pair]], tables.target[edge]]
        pair, edge = pair[live], edge[live]
        row, kind = now.row[pair], tables.label[edge]
        emitted = sr.gather(ahead, row if tables.deterministic else pair, last)
        x = None
        if len(edge):
            x = sr.rescaled(sr.mul(emitted, tables.backward.ahead(after[row], tables.target[edge])))
        return self._combined(x, sr.rescaled(alone), row, kind, batch)

    def totals(self) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch vocab"]]:
        """Return log m(v) and log p(v) in nats; NaN in a row that lost something."""
        found, top = self.scores(), self._tables.tokens.log_top.double()
        product = found.product.double() + found.product_scale[:, None] + top
        return product, found.prior.double() + found.prior_scale[:, None] + top

    def _combined(
        self, x: Any | None, alone: Any, row: Int[Tensor, " edges"], kind: Int[Tensor, " edges"], batch: int
    ) -> Scores:
        """Score the tokens of each message's label, and add up what the messages of a row give a token; x None: no edge."""
        tables, sr, last = self._tables, self._tables.semiring, self._tables.semiring.ndim(alone) - 1
        wide = tables.sizes[kind] >= WIDE * tables.automaton.vocab_size
        (lines,), (others,) = wide.nonzero(as_tuple=True), (~wide).nonzero(as_tuple=True)
        both = sr.cat([alone, sr.gather(x, lines, last)]) if len(lines) else alone
        logs, scale = tables.tokens.all_tokens(both)
        prior, prior_scale = logs[:batch], scale[:batch]
        parts = list[tuple[Tensor, Tensor, Tensor, Tensor | None]]()
        if len(lines):
            parts.append((lines, logs[batch:], scale[batch:], None))
        parts += self._narrow(sr.gather(x, others, last), others, kind[others]) if len(others) else []
        top = scale.new_full((batch,), -torch.inf)
        for line, _, shift, _ in parts:
            top = top.scatter_reduce(0, row[line], shift, "amax")  # NaN where something is lost
        base = torch.where(top.isneginf(), 0, top)
        out = torch.full(
            (batch, tables.automaton.vocab_size), -torch.inf, dtype=prior.dtype, device=prior.device
        )
        for line, found, shift, tokens in parts:
            by = (shift - base[row[line]]).to(found.dtype)
            here = found.add_(by.view(-1, *[1] * (found.ndim - 1)))
            if tokens is None:
                self._join_wide(out, row[line], kind[line], here)
            else:
                cells = row[line].view(-1, *[1] * (found.ndim - 1)) * out.shape[1] + tokens
                self._join_cells(out.view(-1), cells.flatten(), here.to(out.dtype).flatten())
        return Scores(out, base, prior, prior_scale)

    def _join_wide(
        self, out: Tensor, row: Int[Tensor, " lines"], kind: Int[Tensor, " lines"], here: Tensor
    ) -> None:
        """Add the scores of wide labels, (lines, vocab), to their rows."""
        written = set[int]()
        for i, (r, label) in enumerate(zip(row.tolist(), kind.tolist(), strict=True)):
            here[i].index_fill_(0, self._tables.outside(label), -torch.inf)
            out[r] = torch.logaddexp(out[r], here[i]) if r in written else here[i]
            written.add(r)

    def _join_cells(self, out: Tensor, cells: Int[Tensor, " scores"], here: Tensor) -> None:
        """Add scores to the cells of a flat table."""
        if self._tables.deterministic:  # a token is on at most one edge of a state
            out[cells] = here
            return
        cells, inverse = cells.unique(return_inverse=True)
        out[cells] = torch.logaddexp(out[cells], row_logsumexp(here, inverse, len(cells)))

    def _narrow(
        self, x: Any, lines: Int[Tensor, " lines"], kind: Int[Tensor, " lines"]
    ) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Score the tokens of narrow labels: (lines, scores, their scales, tokens)."""
        tables, sr, last = self._tables, self._tables.semiring, self._tables.semiring.ndim(x) - 1
        parts = []
        few = (tables.sizes[kind] <= FEW).nonzero().squeeze(1)
        if len(few):
            labels, number = kind[few].unique(return_inverse=True)
            counts = tables.sizes[labels]
            line, place = ragged_arange(counts[number])
            at = (counts.cumsum(0) - counts)[number[line]] + place
            names = labels.tolist()
            tokens = torch.cat([tables.labels.tokens(i) for i in names]).to(at.device)[at]
            found = tables.tokens.of_pairs(x, few[line], names, at)
            peak = found.new_full((len(few),), -torch.inf).scatter_reduce(0, line, found, "amax")
            base = torch.where(peak.isneginf(), 0, peak)
            parts.append((lines[few][line], found - base[line], base[line].double(), tokens))
        for label in kind[tables.sizes[kind] > FEW].unique().tolist():
            here = (kind == label).nonzero().squeeze(1)
            found, scale = tables.tokens.of_label(sr.gather(x, here, last), label)
            parts.append((lines[here], found, scale, tables.labels.tokens(label).to(found.device)))
        return parts

    # ------------------------------------------------------------ totals of the prefix

    def log_prior(self) -> Float[Tensor, " batch"]:
        """Return the log of the chain's own total of the prefix (nats)."""
        sr, prior = self._tables.semiring, self._rows.prior
        return sr.log(dot(sr, prior, outer(sr, self._tables.chain.final, len(self._rows.left))))

    def log_ended(self) -> Float[Tensor, " batch"]:
        """Return the log of the product's total of the prefix as a complete sequence (nats)."""
        sr, now, tables = self._tables.semiring, self._rows, self._tables
        accept = tables.automaton.final[0].to(tables.device)[now.state] > 0
        alpha = self._gathered(now.prior, now.row) if now.alpha is None else now.alpha
        found = sr.log(dot(sr, alpha, outer(sr, tables.chain.final, len(now.state))))
        found = found.double().masked_fill(~accept, -torch.inf)
        return row_logsumexp(found, now.row, len(now.left))
