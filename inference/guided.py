"""P-GCD: the real next-token query on HMM × automaton (Dang et al. 2026, Algorithm 1), with work for what is live.

For each live pair (row, state s) with HMM message α_s and each edge e: s → s' alive within the budget,

    m(v) = Σ_e [v ∈ label(e)] · Σ_h B[h, v] · α_s[h] · (A β_{r−1})[h, s'],

so the columns α_s ∘ Aβ_{r−1}[:, s'] are all that meets the emission: wide labels share one product with the whole of B,
narrow ones gather their tokens' columns; nothing of size batch × edges × V is formed. Every column carries its own
scale. Equal, by test, to ``NextToken(hmm * automaton, horizon, Real())``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.hmm import HMM
from ..errors import ShapeError, TooManyStates, VocabularyMismatch
from .contract import apply
from .evidence import Evidence
from .masks import MaskQuery
from .messages import backward
from .next_token import Budgets, NextToken
from .real import Real, Scaled
from .scores import (
    FEW,
    EmissionTable,
    Label,
    Scores,
    in_pairs,
    normalised,
    row_logsumexp,
    solid,
    tokens_by_edge,
)
from .semiring import Boolean, Log


class ProductQuery(MaskQuery):
    """The real query on HMM × automaton, beside the HMM's own query on the same prefix.

    The automaton should be unambiguous: an ambiguous one weights each sequence by its number of accepting paths
    (Thm 4.3), and ``lookahead`` is then an expected number of paths. :func:`pgcd` determinises it.
    """

    def __init__(
        self, hmm: HMM, automaton: Automaton, horizon: int, dtype: torch.dtype | None = None
    ) -> None:
        if hmm.vocab_size != automaton.vocab_size:
            raise VocabularyMismatch(
                f"the HMM has {hmm.vocab_size} tokens, the automaton {automaton.vocab_size}"
            )
        if dtype is not None and (not dtype.is_floating_point or torch.finfo(dtype).tiny > 1e-37):
            raise ShapeError(
                f"pgcd: tables of {dtype} have too small a range for probabilities; give bfloat16, float32 or float64"
            )
        super().__init__(automaton, horizon)
        self.hmm, self._real, self._exclusive = hmm, Real(), automaton.is_deterministic
        state, target = automaton.edge_source, automaton.edge_target
        self._first = torch.searchsorted(state, torch.arange(automaton.num_states + 1))
        if not automaton.num_edges:
            self._first = torch.zeros_like(self._first)
        self._alive = self._alive_targets(target)
        self._table = EmissionTable(
            hmm.emission_probs, tokens_by_edge(automaton), dtype or hmm.emission_probs.dtype
        )
        self._dtype = hmm.emission_probs.dtype
        future: list[Tensor] = []
        scales: list[Tensor] = []
        for r, beta in enumerate(backward(hmm * automaton, self._real, Evidence(1), horizon)):
            if r < horizon:  # A β_r, one column for each automaton state
                column = Scaled(beta.mantissa[..., 0], beta.exponent[..., 0])
                ahead = apply(self._real, hmm.transition, column)
                future.append(solid(ahead.mantissa)[0].T.to(self._table.table.dtype))
                scales.append((ahead.exponent * log(2)).expand(1, automaton.num_states)[0])
        self._future = torch.stack(future)  # (horizon, S, H)
        self._future_scale = torch.stack(scales)  # (horizon, S), nats
        self._scored: Scores | None = None

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        super().start(batch, budgets)
        self._pair_up()
        pi = self.hmm.initial_probs.double()
        self._alpha = pi.repeat(
            len(self._row), 1
        )  # (pairs, H): p(prefix, path to the state, z_t = h), before emission
        self._scale = torch.zeros(len(self._row), dtype=torch.float64)
        self._prior = pi.repeat(batch, 1)  # (batch, H): p(prefix, z_t = h)
        self._prior_scale = torch.zeros(batch, dtype=torch.float64)
        self._history = torch.zeros(batch, 0, dtype=torch.long)
        self._budgets = self.remaining.clone()
        self._scored = None
        return self

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """m(v) = log p_hmm(x_<t, v, the rest accepted within the budget), nats."""
        found = self._score()
        return (found.product + self._table.log_top).double().add_(found.product_scale[:, None])

    def _total(self, m: Float[Tensor, "batch vocab"]) -> Float[Tensor, " batch"]:
        return m.logsumexp(1)

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """log p_hmm(C | x_<t, v) = m(v) − log p_hmm(x_<t, v), nats, ≤ 0 for an unambiguous automaton.

        −inf where the mask is False, and where the HMM itself gives the prefix no probability and so has no opinion.
        """
        found = self._score()
        ratio = (found.product - found.prior).double()
        ratio.add_((found.product_scale - found.prior_scale)[:, None])
        return ratio if found.certain else torch.where(found.product > -torch.inf, ratio, -torch.inf)

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """log p_hmm(C | x_<t), nats; 0 or −inf where no token is left."""
        prior = self._prior.sum(1).log() + self._prior_scale
        final = self.automaton.final[0].double()[self._live]
        ended = row_logsumexp(
            (self._alpha.sum(1) * final).log() + self._scale, self._row, len(self.remaining)
        )
        mass = torch.where(self.remaining > 0, self.log_weights().logsumexp(1), ended)
        return torch.where(mass > -torch.inf, mass - prior, -torch.inf)

    def _score(self) -> Scores:
        """The product's and the HMM's absolute next-token log-weights."""
        if self._scored is None:
            found = self._product()
            if not found.certain:
                lost = (self.mask() & found.product.isneginf() & self._table.log_top.isfinite()).any(1)
                if bool(lost.any()):
                    self._recover(found, lost.nonzero()[:, 0])
            self._scored = found
        return self._scored

    def _recover(self, found: Scores, rows: Tensor) -> None:
        """Write rows in which scaled arithmetic lost a possible token, from their prefixes in log space."""
        product = self.hmm * self.automaton
        possible = self._replayed(NextToken(product, self.horizon, Boolean()), rows).mask()
        rows = rows[
            (possible & found.product[rows].isneginf()).any(1)
        ]  # in the others the HMM itself says zero
        if not len(rows):
            return
        top = self._table.log_top.double()
        for log_space, out, scale in (
            (NextToken(product, self.horizon, Log()), found.product, found.product_scale),
            (NextToken(self.hmm, None, Log()), found.prior, found.prior_scale),
        ):
            exact = self._replayed(log_space, rows).log_weights().double()
            exact = torch.where(top.isfinite(), exact - top, -torch.inf)
            scale[rows] = exact.amax(1)
            out[rows] = (exact - scale[rows][:, None]).to(out.dtype)

    def _replayed(self, query: NextToken, rows: Tensor) -> NextToken:
        query.resume(self._history[rows], self._budgets[rows])
        return query

    def _product(self) -> Scores:
        batch, table = len(self.remaining), self._table
        columns, scale, row, edge = self._columns()
        edges, kind, sizes = torch.unique_consecutive(edge, return_inverse=True, return_counts=True)
        labels = [table.label(e) for e in edges.tolist()]
        wide = torch.tensor([label.columns is None for label in labels], dtype=torch.bool)[kind]
        top = torch.full((batch,), -torch.inf, dtype=torch.float64).scatter_reduce(0, row, scale, "amax")
        scale = (scale - torch.where(top.isfinite(), top, 0)[row]).to(self._dtype)

        scores, certain = solid(table.all_tokens(torch.cat([self._prior.to(self._dtype), columns[wide]])))
        scores = scores.log_()
        prior, scores = scores[:batch], scores[batch:].add_(scale[wide, None])
        out = torch.full((batch, self.vocab_size), -torch.inf, dtype=self._dtype)
        begin, written = 0, set[int]()
        for label, size in zip(labels, sizes.tolist(), strict=True):
            if label.columns is not None:
                continue
            here = scores[begin : begin + size]
            rows = row[wide][begin : begin + size]
            begin += size
            here[:, label.tokens] = -torch.inf
            if written.isdisjoint(rows.tolist()):
                out[rows] = here
            else:
                out[rows] = self._join(out[rows], here)
            written.update(rows.tolist())
        certain &= self._narrow(out, columns, scale, row, kind, labels)
        return Scores(out, top, prior, self._prior_scale.clone(), certain)

    def _narrow(
        self, out: Tensor, columns: Tensor, scale: Tensor, row: Tensor, kind: Tensor, labels: list[Label]
    ) -> bool:
        """Write the scores of the labels with fewer tokens; whether none is lost."""
        few = [i for i, label in enumerate(labels) if label.columns is not None and len(label.tokens) <= FEW]
        certain = True
        if few and self._exclusive:  # edges out of one state of a deterministic automaton share no token
            count = torch.zeros(len(labels), dtype=torch.long)
            count[few] = torch.tensor([len(labels[i].tokens) for i in few])
            lines = (count[kind] > 0).nonzero().squeeze(1)
            line, place = in_pairs(count[kind[lines]])
            at = (count.cumsum(0) - count)[kind[lines]][line] + place
            tokens = torch.cat([labels[i].tokens for i in few])[at]
            emitted = torch.cat([c for i in few if (c := labels[i].columns) is not None]).index_select(0, at)
            lines = lines[line]
            found, certain = solid((columns.index_select(0, lines) * emitted.to(columns.dtype)).sum(1))
            out[row[lines], tokens] = found.log() + scale[lines]
            few_done = set(few)
        else:
            few_done = set()
        for i, (tokens, emission) in enumerate(labels):
            if emission is None or i in few_done:
                continue
            here = (kind == i).nonzero().squeeze(1)
            found, whole = solid(columns[here] @ emission.T.to(columns.dtype))
            certain &= whole
            cells = row[here][:, None], tokens[None]
            out[cells] = self._join(out[cells], found.log() + scale[here, None])
        return certain

    def _join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b) if self._exclusive else torch.logaddexp(a, b)

    def _columns(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """α_s ∘ Aβ[:, s'] for every live pair and alive edge, sorted by edge: (Q, H), log-scales, rows, edges, each (Q,)."""
        first, last = self._first[self._live], self._first[self._live + 1]
        counts = torch.where(self.remaining[self._row] > 0, last - first, 0)
        pair = torch.arange(len(counts)).repeat_interleave(counts)
        edge = first[pair] + torch.arange(len(pair)) - (counts.cumsum(0) - counts)[pair]
        alive = self._alive(edge, self._left()[self._row[pair]])
        pair, edge = pair[alive], edge[alive]
        edge, order = edge.sort()
        pair = pair[order]
        row = self._row[pair]
        left, target = self._left()[row], self.automaton.edge_target[edge]
        columns = self._alpha[pair] * self._future[left, target].double()
        top = columns.amax(1) if len(columns) else columns.new_zeros(0)
        scale = self._scale[pair] + self._future_scale[left, target] + top.log()
        columns = columns / torch.where(top > 0, top, 1)[:, None]
        return columns.to(self._dtype), scale, row, edge

    def _alive_targets(self, target: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """Whether the targets of edges can be accepted within so many tokens."""
        if self._betas is None:
            distance = torch.from_numpy(self.automaton.distances)[target]
            return lambda edge, left: distance[edge] <= left
        betas = torch.from_numpy(self._betas)
        return lambda edge, left: betas[target[edge], left.clamp(max=betas.shape[1] - 1)]

    def _pair_up(self) -> None:
        """The live (row, state) pairs, row after row."""
        counts = torch.tensor([len(states) for states in self._states], dtype=torch.long)
        self._row = torch.arange(len(counts)).repeat_interleave(counts)
        self._live = torch.tensor([s for states in self._states for s in states], dtype=torch.long)

    def advance(self, tokens: Int[Tensor, " batch"] | Sequence[int]) -> None:
        tokens = torch.as_tensor(tokens)
        remaining, before = self.remaining, list(self._states)
        super().advance(tokens)
        done = remaining == 0
        # for each path from a pair: the pair, and the place of the pair reached
        pair, reached, count, place = [], [], 0, 0
        for states, after, token, over in zip(
            before, self._states, tokens.tolist(), done.tolist(), strict=True
        ):
            for i, state in enumerate(states, count):
                for target in (state,) if over else self.automaton.step(state, token):
                    pair.append(i)
                    reached.append(place + after.index(target))
            count, place = count + len(states), place + len(after)
        taken, merged = torch.tensor(pair, dtype=torch.long), torch.tensor(reached, dtype=torch.long)
        emitted, pairs = self.hmm.emission_probs.T[tokens].double(), len(self._alpha)
        moved, scale = self._transition(
            torch.cat([self._alpha * emitted[self._row], self._prior * emitted]),
            torch.cat([self._scale, self._prior_scale]),
        )
        (moved, prior), (scale, prior_scale) = moved.tensor_split([pairs]), scale.tensor_split([pairs])
        still = done[self._row]
        moved, scale = torch.where(still[:, None], self._alpha, moved), torch.where(still, self._scale, scale)
        # pairs that reach one state are added up
        top = torch.full((place,), -torch.inf, dtype=torch.float64).scatter_reduce(
            0, merged, scale[taken], "amax"
        )
        weight = (scale[taken] - torch.where(top.isfinite(), top, 0)[merged]).exp()
        alpha = torch.zeros(place, self.hmm.hidden, dtype=torch.float64).index_add(
            0, merged, moved[taken] * weight[:, None]
        )
        self._alpha, self._scale = normalised(alpha, top)
        self._prior = torch.where(done[:, None], self._prior, prior)
        self._prior_scale = torch.where(done, self._prior_scale, prior_scale)
        self._pair_up()
        self._history = torch.cat([self._history, tokens[:, None]], 1)
        self._scored = None

    def _transition(self, alpha: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        alpha, scale = normalised(alpha, scale)
        if not len(alpha):
            return alpha, scale
        value = Scaled(alpha.T.to(self._dtype), torch.zeros(1, len(alpha), dtype=torch.float64))
        moved = apply(self._real, self.hmm.transition.T, value)
        return solid(moved.mantissa)[0].T.double(), scale + moved.exponent[0] * log(2)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        counts = torch.tensor([len(states) for states in self._states], dtype=torch.long)
        first = (counts.cumsum(0) - counts)[indices]
        keep = first.repeat_interleave(counts[indices]) + torch.cat(
            [torch.arange(n) for n in counts[indices].tolist()]
        )
        self._alpha, self._scale = self._alpha[keep], self._scale[keep]
        self._prior, self._prior_scale = self._prior[indices], self._prior_scale[indices]
        self._history, self._budgets = self._history[indices], self._budgets[indices]
        if self._scored is not None:
            self._scored = self._scored.select(indices)
        super().select(indices)
        self._pair_up()


def pgcd(hmm: HMM, automaton: Automaton, horizon: int, dtype: torch.dtype | None = None) -> ProductQuery:
    """Probabilistic GCD: p_hmm(next token | prefix, constraint within the budget) (Dang et al. 2026, Algorithm 1).

    ``dtype`` is the precision in which the emission and the backward messages are kept (default: the HMM's). bfloat16 takes
    half the memory and is faster where a processor multiplies it; its scores are right to about one part in a hundred.

    Every accepted sequence counts once: an automaton that is not deterministic is determinised if that costs few states
    or if it is ambiguous. Raises :class:`VocabularyMismatch` where HMM and automaton differ in their tokens,
    :class:`TooManyStates` where an ambiguous automaton has no deterministic one of reasonable size.
    """
    if not automaton.is_deterministic:
        try:
            automaton = automaton.determinize(limit=4 * automaton.num_states + 64)
        except TooManyStates:
            if not automaton.is_unambiguous:
                automaton = automaton.determinize()
    return ProductQuery(hmm, automaton, horizon, dtype)
