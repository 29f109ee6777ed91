"""P-GCD: the real next-token query on HMM × automaton (Dang et al. 2026, Algorithm 1), with work for what is live.

For each live pair (row, state s) with HMM message α_s and each edge e: s → s' alive within the budget,

    m(v) = Σ_e [v ∈ label(e)] · Σ_h B[h, v] · α_s[h] · (A β_{r−1})[h, s'],

so the columns α_s ∘ Aβ_{r−1}[:, s'] are all that meets the emission: wide labels share one product with the whole of B,
narrow ones gather their tokens' columns; nothing of size batch × edges × V is formed. Every column carries its own
scale. Equal, by test, to ``NextToken(hmm * automaton, horizon, Real())``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.hmm import HMM
from ..errors import ShapeError, TooManyStates, VocabularyMismatch
from ..fingerprints import check_same
from .future import Backward, Future, cleared, normalised, times
from .given import an_automaton, an_hmm, whole
from .masks import MaskQuery
from .next_token import NextToken, Tokens, as_tokens
from .record import Record, row_indices
from .scores import Columns, EmissionTable, Scores, in_pairs, row_logsumexp, score, tokens_by_edge
from .semiring import Log

if TYPE_CHECKING:
    from .support_query import SupportQuery


class ProductQuery(MaskQuery):
    """The real query on HMM × automaton, beside the HMM's own query on the same prefix.

    The automaton should be unambiguous: an ambiguous one weights each sequence by its number of accepting paths
    (Thm 4.3), and ``lookahead`` is then an expected number of paths. :func:`pgcd` determinises it.
    """

    def __init__(
        self,
        hmm: HMM,
        automaton: Automaton,
        horizon: int,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
    ) -> None:
        if hmm.vocab_size != automaton.vocab_size:
            raise VocabularyMismatch(
                f"the HMM has {hmm.vocab_size} tokens, the automaton {automaton.vocab_size}"
            )
        known = hmm.vocabulary_fingerprint, automaton.vocabulary_fingerprint
        check_same(
            "the HMM", known[0], "the automaton", known[1],
            "compile the constraint with the tokenizer that the HMM was distilled for, or distil an HMM for this one",
        )  # fmt: skip
        if dtype is not None and (not dtype.is_floating_point or torch.finfo(dtype).tiny > 1e-37):
            raise ShapeError(
                f"pgcd: tables of {dtype} have too small a range for probabilities; give bfloat16, float32 or float64"
            )
        if automaton.device.type != "cpu":  # its structure is read here, and its tables are moved
            automaton = automaton.map(lambda t: t.cpu())
        hmm = _one_dtype(hmm)
        super().__init__(automaton, horizon)
        emission = hmm.emission_probs
        self._dtype, self.device = emission.dtype, emission.device
        self._kept_dtype, self._span, self._memory = dtype or self._dtype, horizon, memory
        self._record: Record = Record()
        self.hmm, self._exclusive, self._times = hmm, automaton.is_deterministic, times(hmm.transition.T)
        self._first = torch.searchsorted(automaton.edge_source, torch.arange(automaton.num_states + 1))
        self._first = (self._first if automaton.num_edges else self._first * 0).to(self.device)
        self._target = automaton.edge_target.to(self.device)
        self._final = automaton.final[0].double().to(self.device)
        if self._betas is None:
            self._distance = torch.from_numpy(automaton.distances).to(self.device)[self._target]
        else:
            self._within = torch.from_numpy(self._betas).to(self.device)
        self._future = self._backward()
        self._table = EmissionTable(emission, tokens_by_edge(automaton), self._kept_dtype)
        self._scored: Scores | None = None

    def _backward(self) -> Backward:
        return Future(self.hmm, self.automaton, self._span, self._kept_dtype, self._memory)

    def _begin(self, batch: int) -> None:
        super()._begin(batch)
        self._pair_up()
        pi = self.hmm.initial_probs.double()
        self._prior = pi.repeat(batch, 1)  # (batch, H): p(prefix, z_t = h), before emission
        self._prior_scale = torch.zeros(batch, dtype=torch.float64, device=self.device)
        self._alpha = pi.repeat(len(self._row), 1)  # (pairs, H): p(prefix, path to the state, z_t = h)
        self._scale = torch.zeros(len(self._row), dtype=torch.float64, device=self.device)
        self._scored = None

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
        open_ = self.remaining.to(self.device) > 0
        mass = torch.where(open_, self.log_weights().logsumexp(1), self._ended())
        return torch.where(mass > -torch.inf, mass - self._log_prior(), -torch.inf)

    def _log_prior(self) -> Float[Tensor, " batch"]:
        """log p(prefix) by the HMM alone."""
        found = self._prior_found()
        zero = found.isneginf()
        if not bool(zero.any()):
            return found
        lost = zero & self._support().believes()
        return self._exactly(found, lost, ProductQuery._log_prior, lambda: self._in_log_space()[1])

    def _ended(self) -> Float[Tensor, " batch"]:
        """log p(prefix, accepted as it is); asked of rows without tokens left."""
        found, accepted = self._ended_found()
        zero = found.isneginf() & accepted & (self.remaining.to(self.device) == 0)
        if not bool(zero.any()):
            return found
        lost = zero & self._support().ends()
        return self._exactly(found, lost, ProductQuery._ended, lambda: self._in_log_space()[0])

    def _prior_found(self) -> Float[Tensor, " batch"]:
        return self._prior.sum(1).log() + self._prior_scale

    def _ended_found(self) -> tuple[Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
        """log p(prefix, accepted), and whether the automaton accepts the prefix."""
        final = self._final[self._live]
        accepted = final.new_zeros(len(self._prior)).index_add(0, self._row, final) > 0
        ended = (self._alpha.sum(1) * final).log() + self._scale
        return row_logsumexp(ended, self._row, len(self._prior)), accepted

    def _score(self) -> Scores:
        """The product's and the HMM's absolute next-token log-weights."""
        if self._scored is None:
            found = self._product()
            if not found.certain and len(rows := self._lost(found)):
                self._recover(found, rows)
            self._scored = found
        return self._scored

    def _lost(self, found: Scores) -> Int[Tensor, " rows"]:
        """The rows in which a token that the automaton allows has no score."""
        return self._missing(found).any(1).nonzero().squeeze(1)

    def _missing(self, found: Scores) -> Bool[Tensor, "batch vocab"]:
        none = found.product.isneginf() & self._table.log_top.isfinite()
        return self.mask().to(self.device) & none

    # ------------------------------------------------------------ what arithmetic lost

    def _recover(self, found: Scores, rows: Tensor) -> None:
        """Write the rows in which a possible token has lost its score.

        A token that the automaton allows has no score where the HMM cannot emit it from its present belief, or cannot
        go on as the constraint asks, or where its score fell below the range of the precision. Support by Boolean
        arithmetic (:class:`~tractile.inference.support_query.SupportQuery`) tells the last from the others exactly; only
        then are rows computed again, in float64, and what float64 loses in log space.
        """
        missing = self._missing(found)[rows]
        support = self._support()
        rows = rows[(missing & support.emitted(rows)).any(1)]  # known without any sweep
        if len(rows):
            rows = rows[(self._missing(found)[rows] & support.possible(rows)).any(1)]
        if not len(rows):
            return
        top = self._table.log_top.double()
        for exact, out, scale in zip(
            self._absolute(rows),
            (found.product, found.prior),
            (found.product_scale, found.prior_scale),
            strict=True,
        ):
            exact = torch.where(top.isfinite(), exact - top, -torch.inf)
            most = exact.amax(1)
            scale[rows] = torch.where(most.isfinite(), most, 0)
            out[rows] = (exact - scale[rows][:, None]).to(out.dtype)

    def _support(self) -> SupportQuery:
        from .support_query import SupportQuery

        return self._record.query("support", lambda: SupportQuery(self.hmm, self.automaton, self._span))

    def _finer(self) -> ProductQuery | None:
        """This query in float64; None if it is."""
        if self._dtype == self._kept_dtype == torch.float64:
            return None

        def make() -> ProductQuery:
            memory = None if self._memory is None else 2 * self._memory
            return ProductQuery(
                self.hmm.to(dtype=torch.float64), self.automaton, self._span, torch.float64, memory
            )

        return self._record.query("float64", make)

    def _absolute(self, rows: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        """log p(prefix, v, accepted) and log p(prefix, v) of some rows, (rows, vocab), without loss."""
        finer = self._finer()
        if finer is not None:
            found, top = finer._score(), finer._table.log_top
            product = (found.product[rows] + top).add_(found.product_scale[rows, None])
            return product, (found.prior[rows] + top).add_(found.prior_scale[rows, None])
        product, prior = (query.log_weights()[rows.cpu()] for query in self._in_log_space())
        return product.double().to(self.device), prior.double().to(self.device)

    def _in_log_space(self) -> tuple[NextToken, NextToken]:
        """The product's query and the HMM's own, on the CPU."""
        hmm = self.hmm.to("cpu")
        return (
            self._record.query("log", lambda: NextToken(hmm * self.automaton, self._span, Log())),
            self._record.query("log prior", lambda: NextToken(hmm, None, Log())),
        )

    def _exactly(
        self,
        found: Float[Tensor, " batch"],
        lost: Bool[Tensor, " batch"],
        ask: Callable[[ProductQuery], Tensor],
        in_log_space: Callable[[], NextToken],
    ) -> Float[Tensor, " batch"]:
        """Logarithms of rows, those that were lost computed again."""
        if not bool(lost.any()):
            return found
        finer = self._finer()
        exact = in_log_space().ended() if finer is None else ask(finer)
        return torch.where(lost, exact.double().to(found.device), found)

    def _product(self) -> Scores:
        prior = self._prior.to(self._dtype)
        return score(self._table, self._columns(), prior, self._prior_scale, self._exclusive)

    def _columns(self) -> Columns:
        first, last = self._first[self._live], self._first[self._live + 1]
        remaining, row = self.remaining.to(self.device), self._row
        pair, place = in_pairs(torch.where(remaining[row] > 0, last - first, 0))
        edge, left = first[pair] + place, (remaining - 1).clamp(min=0)
        alive = self._alive(edge, left[row[pair]])
        edge, order = edge[alive].sort()
        pair = pair[alive][order]
        row = row[pair]
        future, scale = self._future.columns(left[row], self._target[edge])
        values, scale = normalised(self._alpha[pair] * future.double(), self._scale[pair] + scale)
        return Columns(values.to(self._dtype), scale, row, edge)

    def _alive(self, edge: Int[Tensor, " edges"], left: Int[Tensor, " edges"]) -> Bool[Tensor, " edges"]:
        """Whether the targets of edges can be accepted within so many tokens."""
        if self._betas is None:
            return self._distance.take(edge) <= left
        last = self._within.shape[1] - 1
        return self._within.take(self._target.take(edge) * (last + 1) + left.clamp(max=last))

    def _pair_up(self) -> None:
        """The live (row, state) pairs, row after row."""
        counts = torch.tensor([len(states) for states in self._states], dtype=torch.long)
        self._row = in_pairs(counts)[0].to(self.device)
        live = [s for states in self._states for s in states]
        self._live = torch.tensor(live, dtype=torch.long).to(self.device)

    def advance(self, tokens: Tokens) -> None:
        tokens = as_tokens(tokens)
        done, before = self.remaining == 0, list(self._states)
        super().advance(tokens)
        self._record.append(tokens.cpu().masked_fill(done, -1))
        emitted = self.hmm.emission_probs.index_select(1, tokens.to(self.device)).T.double()
        pairs = None if self._exclusive else self._moved_pairs(emitted, before, done, tokens.tolist())
        moved, scale = self._transition(self._prior * emitted, self._prior_scale)
        done = done.to(self.device)
        self._prior = torch.where(done[:, None], self._prior, moved)
        self._prior_scale = torch.where(done, self._prior_scale, scale)
        self._pair_up()
        # The path of a prefix through a deterministic automaton is the only one.
        self._alpha, self._scale = pairs or (self._prior[self._row], self._prior_scale[self._row])
        self._scored = None

    def _moved_pairs(
        self, emitted: Tensor, before: list[tuple[int, ...]], done: Tensor, tokens: list[int]
    ) -> tuple[Tensor, Tensor]:
        """α and its scale for the pairs reached; paths that reach one pair are added up."""
        pair, reached, count, place = list[int](), list[int](), 0, 0
        for states, after, token, over in zip(before, self._states, tokens, done.tolist(), strict=True):
            for i, state in enumerate(states, count):
                for target in (state,) if over else self.automaton.step(state, token):
                    pair.append(i)
                    reached.append(place + after.index(target))
            count, place = count + len(states), place + len(after)
        taken, to = torch.tensor([pair, reached], dtype=torch.long).to(self.device)
        moved, scale = self._transition(self._alpha * emitted[self._row], self._scale)
        still = done.to(self.device)[self._row]
        moved = torch.where(still[:, None], self._alpha, moved)[taken]
        scale = torch.where(still, self._scale, scale)[taken]
        top = scale.new_full((place,), -torch.inf).scatter_reduce(0, to, scale, "amax")
        weight = (scale - torch.where(top.isfinite(), top, 0)[to]).exp()
        return normalised(
            moved.new_zeros(place, moved.shape[1]).index_add(0, to, moved * weight[:, None]), top
        )

    def _transition(self, alpha: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        alpha, scale = normalised(alpha, scale)
        moved, more = self._times(alpha.to(self._dtype))
        return cleared(moved).double(), scale + more

    def select(self, indices: Tensor | Sequence[int]) -> None:
        indices = row_indices(indices, len(self._states)).cpu()
        counts = torch.tensor([len(states) for states in self._states], dtype=torch.long)
        line, place = in_pairs(counts[indices])
        keep = ((counts.cumsum(0) - counts)[indices][line] + place).to(self.device)
        self._alpha, self._scale = self._alpha[keep], self._scale[keep]
        self._record.select(indices)
        super().select(indices)
        self._pair_up()
        indices = indices.to(self.device)
        self._prior, self._prior_scale = self._prior[indices], self._prior_scale[indices]
        if self._scored is not None:
            self._scored = self._scored.select(indices)


def _one_dtype(hmm: HMM) -> HMM:
    """The HMM in the most precise of the dtypes of its parameters."""
    dtypes = [t.dtype for t in (hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs)]
    dtype = reduce(torch.promote_types, dtypes)
    return hmm if all(t == dtype for t in dtypes) else hmm.to(dtype=dtype)


def pgcd(
    hmm: HMM | str | Path,
    automaton: Automaton,
    horizon: int,
    dtype: torch.dtype | None = None,
    memory: int | None = None,
) -> ProductQuery:
    """Probabilistic GCD: p_hmm(next token | prefix, constraint within the budget) (Dang et al. 2026, Algorithm 1).

    ``hmm`` may be the folder of one. ``dtype`` is the precision in which the emission and the backward messages are kept
    (default: the HMM's). bfloat16 takes half the memory and is faster where a processor multiplies it; its scores are right
    to about one part in a hundred.

    ``memory`` is how many bytes the backward messages may take, the work space of their sweep included (default: as
    many as they need, horizon × hidden states × automaton states numbers). Where they do not fit they are computed again
    from checkpoints as the budgets go down; the scores are the same.

    On an accelerator (where the HMM's parameters are) a deterministic automaton without a limit of memory gets a
    :class:`~tractile.inference.static.StaticQuery`, whose steps do not wait for it.

    Every accepted sequence counts once: an automaton that is not deterministic is determinised if that costs few states
    or if it is ambiguous. Raises :class:`VocabularyMismatch` where HMM and automaton differ in their tokens,
    :class:`TooManyStates` where an ambiguous automaton has no deterministic one of reasonable size,
    :class:`MemoryTooSmall` where not even one message fits.
    """
    hmm, horizon = an_hmm(hmm, "pgcd: hmm"), whole(horizon, "pgcd: horizon", None)
    if not an_automaton(automaton, "pgcd: automaton").is_deterministic:
        try:
            automaton = automaton.determinize(limit=4 * automaton.num_states + 64)
        except TooManyStates:
            if not automaton.is_unambiguous:
                automaton = automaton.determinize()
    if hmm.emission_probs.device.type != "cpu" and memory is None and automaton.is_deterministic:
        from .static import StaticQuery

        return StaticQuery(hmm, automaton, horizon, dtype)
    return ProductQuery(hmm, automaton, horizon, dtype, memory)
