"""P-GCD: the real next-token query on HMM × automaton (Dang et al. 2026, Algorithm 1), with work for what is live.

For each live pair (row, state s) with HMM message α_s and each edge e: s → s' alive within the budget,

    m(v) = Σ_e [v ∈ label(e)] · Σ_h B[h, v] · α_s[h] · (A β_{r−1})[h, s'],

so the columns α_s ∘ Aβ_{r−1}[:, s'] are all that meets the emission: wide labels share one product with the whole of B,
narrow ones gather their tokens' columns; nothing of size batch × edges × V is formed. Every column carries its own
scale, and a bound of what it lost to the range of the precision (:mod:`~tractile.inference.next_token.range`): a score that this
could change is computed again. Equal, by test, to ``NextToken(hmm * automaton, horizon, Real())``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import ShapeError, TooManyStates, VocabularyMismatch
from ...fingerprints import check_same
from ..arguments import an_automaton, an_hmm, whole
from ..semirings.base import Log
from .backward_table import Backward, BackwardTable
from .emission_table import (
    EdgeMessages,
    EmissionTable,
    Scores,
    in_pairs,
    row_logsumexp,
    score,
    tokens_by_edge,
)
from .gcd import GCDQuery, gcd
from .generic import NextToken, Tokens, as_tokens
from .range import Belief, Transition, added, doubt_of_product, least, normalised, trusted
from .record import History, row_indices

if TYPE_CHECKING:
    from .coarse import CoarseQuery
    from .support import SupportQuery


class PGCDQuery(GCDQuery):
    """The real query on HMM × automaton, beside the HMM's own query on the same prefix.

    The automaton should be unambiguous: an ambiguous one weights each sequence by its number of accepting paths
    (Thm 4.3), and ``lookahead`` is then an expected number of paths. :func:`pgcd` determinises it.
    """

    has_lookahead = True

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
        self._record: History = History()
        self.hmm, self._exclusive = hmm, automaton.is_deterministic
        self._move = Transition(hmm.transition.T, self._dtype)
        self._wide_move: Transition | None = None
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
        return BackwardTable(self.hmm, self.automaton, self._span, self._kept_dtype, self._memory)

    def _begin(self, batch: int) -> None:
        super()._begin(batch)
        self._pair_up()
        pi = self.hmm.initial_probs.double()
        nothing = pi.new_zeros(batch)
        # Before emission: p(prefix, z_t = h) of each row, and p(prefix, path to the state, z_t = h) of each pair.
        self._prior = Belief(pi.repeat(batch, 1), nothing, nothing - torch.inf)
        self._alpha = self._prior.select(self._row)
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
        found, doubt = self._prior_found()
        zero, doubted = found.isneginf(), ~trusted(found, doubt, self._dtype)
        if not bool(doubted.any()):
            return found
        lost = doubted & (~zero | self._support().believes())
        return self._exactly(found, lost, PGCDQuery._log_prior, lambda: self._in_log_space()[1])

    def _ended(self) -> Float[Tensor, " batch"]:
        """log p(prefix, accepted as it is); asked of rows without tokens left."""
        found, doubt, accepted = self._ended_found()
        accepted = accepted & (self.remaining.to(self.device) == 0)
        zero, doubted = found.isneginf(), ~trusted(found, doubt, self._dtype) & accepted
        if not bool(doubted.any()):
            return found
        lost = doubted & (~zero | self._support().ends())
        return self._exactly(found, lost, PGCDQuery._ended, lambda: self._in_log_space()[0])

    def _prior_found(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """log p(prefix) and its doubt."""
        return self._prior.alpha.sum(1).log() + self._prior.scale, self._prior.doubt

    def _ended_found(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
        """log p(prefix, accepted), its doubt, and whether the automaton accepts the prefix."""
        final, batch = self._final[self._live], len(self._prior.scale)
        accepted = final.new_zeros(batch).index_add(0, self._row, final) > 0
        ended = (self._alpha.alpha.sum(1) * final).log() + self._alpha.scale
        doubt = self._alpha.doubt.masked_fill(final == 0, -torch.inf)
        return row_logsumexp(ended, self._row, batch), row_logsumexp(doubt, self._row, batch), accepted

    def _score(self) -> Scores:
        """The product's and the HMM's absolute next-token log-weights."""
        if self._scored is None:
            found = self._product()
            if not found.certain and len(rows := self._lost(found)):
                self._recover(found, rows)
            self._scored = found
        return self._scored

    def _lost(self, found: Scores) -> Int[Tensor, " rows"]:
        """The rows in which a token that the automaton allows has no score, or none by the HMM alone."""
        return self._missing(found).any(1).nonzero().squeeze(1)

    def _missing(self, found: Scores) -> Bool[Tensor, "batch vocab"]:
        none = found.product.isneginf() | found.prior.isneginf()
        return self.mask().to(self.device) & none & self._table.log_top.isfinite()

    # ------------------------------------------------------------ what arithmetic lost

    def _recover(self, found: Scores, rows: Tensor) -> None:
        """Write the rows in which a possible token has lost its score.

        A token that the automaton allows has no score where the HMM cannot emit it from its present belief, or cannot
        go on as the constraint asks, or where its score fell below what the precision may have lost. Support by Boolean
        arithmetic (:class:`~tractile.inference.next_token.support.SupportQuery`) tells the last from the others exactly; only
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
        from .support import SupportQuery

        return self._record.query("support", lambda: SupportQuery(self.hmm, self.automaton, self._span))

    def _finer(self) -> PGCDQuery | None:
        """This query in float64; None if it is."""
        if self._dtype == self._kept_dtype == torch.float64:
            return None

        def make() -> PGCDQuery:
            memory = None if self._memory is None else 2 * self._memory
            return PGCDQuery(
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
        ask: Callable[[PGCDQuery], Tensor],
        in_log_space: Callable[[], NextToken],
    ) -> Float[Tensor, " batch"]:
        """Logarithms of rows, those that were lost computed again."""
        if not bool(lost.any()):
            return found
        finer = self._finer()
        exact = in_log_space().ended() if finer is None else ask(finer)
        return torch.where(lost, exact.double().to(found.device), found)

    def _product(self) -> Scores:
        return score(self._table, self._columns(), self._prior_columns(), self._exclusive)

    def _prior_columns(self) -> EdgeMessages:
        """The HMM's own belief, as a column of each row; edge 0 says nothing."""
        alpha, scale, doubt = self._prior
        row = torch.arange(len(scale), device=self.device)
        return EdgeMessages(alpha.to(self._dtype), scale, row, row * 0, self._least(doubt, scale))

    def _least(self, doubt: Tensor, scale: Tensor) -> Tensor:
        """The least score in units of e^scale that the doubt does not change."""
        eps = torch.finfo(self._dtype).eps
        return ((doubt - scale).exp() / eps).nan_to_num(0.0, torch.inf).clamp(min=least(self._dtype))

    def _columns(self) -> EdgeMessages:
        first, last = self._first[self._live], self._first[self._live + 1]
        remaining, row = self.remaining.to(self.device), self._row
        pair, place = in_pairs(torch.where(remaining[row] > 0, last - first, 0))
        edge, left = first[pair] + place, (remaining - 1).clamp(min=0)
        alive = self._alive(edge, left[row[pair]])
        edge, order = edge[alive].sort()
        pair = pair[alive][order]
        row = row[pair]
        ahead, alpha = self._future.columns(left[row], self._target[edge]), self._alpha.select(pair)
        values, scale = normalised(alpha.alpha * ahead.columns.double(), alpha.scale + ahead.scale)
        least = self._least(doubt_of_product(alpha, ahead.scale, ahead.doubt), scale)
        return EdgeMessages(values.to(self._dtype), scale, row, edge, least)

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
        emission = self.hmm.emission_probs.index_select(1, tokens.to(self.device)).T.double()
        top = self._table.log_top.index_select(0, tokens.to(self.device)).double()
        pairs = None if self._exclusive else self._moved_pairs(emission, top, before, done, tokens.tolist())
        moved = self._transition(self._prior.emitted(emission, top))
        self._prior = self._prior.where(done.to(self.device), moved)
        self._pair_up()
        # The path of a prefix through a deterministic automaton is the only one.
        self._alpha = pairs or self._prior.select(self._row)
        self._scored = None

    def _moved_pairs(
        self,
        emission: Float[Tensor, "batch hidden"],
        top: Float[Tensor, " batch"],
        before: list[tuple[int, ...]],
        done: Bool[Tensor, " batch"],
        tokens: list[int],
    ) -> Belief:
        """The pairs reached; paths that reach one pair are added up."""
        pair, reached, count, place = list[int](), list[int](), 0, 0
        for states, after, token, over in zip(before, self._states, tokens, done.tolist(), strict=True):
            for i, state in enumerate(states, count):
                for target in (state,) if over else self.automaton.step(state, token):
                    pair.append(i)
                    reached.append(place + after.index(target))
            count, place = count + len(states), place + len(after)
        taken, to = torch.tensor([pair, reached], dtype=torch.long).to(self.device)
        moved = self._transition(self._alpha.emitted(emission[self._row], top[self._row]))
        still = done.to(self.device)[self._row]
        return added(self._alpha.where(still, moved).select(taken), to, place)

    def _transition(self, belief: Belief) -> Belief:
        """A belief after a transition; rows that lose something in the precision of the HMM move in float64."""
        alpha, scale = normalised(belief.alpha, belief.scale)
        moved = self._move(alpha)
        if moved.lost is not None and self._dtype != torch.float64:
            if self._wide_move is None:
                self._wide_move = Transition(self.hmm.transition.T, torch.float64)
            rows = moved.lost.nonzero().squeeze(1)
            wide = self._wide_move(alpha[rows])
            moved = moved.with_rows(rows, wide)
        return belief.moved(scale, moved)

    def select(self, indices: Tensor | Sequence[int]) -> None:
        indices = row_indices(indices, len(self._states)).cpu()
        counts = torch.tensor([len(states) for states in self._states], dtype=torch.long)
        line, place = in_pairs(counts[indices])
        keep = ((counts.cumsum(0) - counts)[indices][line] + place).to(self.device)
        self._alpha = self._alpha.select(keep)
        self._record.select(indices)
        super().select(indices)
        self._pair_up()
        indices = indices.to(self.device)
        self._prior = self._prior.select(indices)
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
) -> PGCDQuery | CoarseQuery:
    """Probabilistic GCD: p_hmm(next token | prefix, constraint within the budget) (Dang et al. 2026, Algorithm 1).

    ``hmm`` may be the folder of one. ``dtype`` is the precision in which the emission and the backward messages are kept
    (default: the HMM's). bfloat16 takes half the memory and is faster where a processor multiplies it; its scores are right
    to about one part in a hundred.

    ``memory`` is how many bytes the backward messages may take, the work space of their sweep included (default: as
    many as they need, horizon × hidden states × automaton states numbers). Where they do not fit they are computed again
    from checkpoints as the budgets go down; the scores are the same.

    On an accelerator (where the HMM's parameters are) a deterministic automaton without a limit of memory gets a
    :class:`~tractile.inference.next_token.pgcd_static.StaticPGCDQuery`, whose steps do not wait for it.

    A constraint whose automaton is not written out gives a
    :class:`~tractile.inference.next_token.coarse.CoarseQuery`: exact masks, and the HMM
    multiplied with a finite automaton that accepts at least the same texts.

    Every accepted sequence counts once: an automaton that is not deterministic is determinised if that costs few states
    or if it is ambiguous. Raises :class:`VocabularyMismatch` where HMM and automaton differ in their tokens,
    :class:`TooManyStates` where an ambiguous automaton has no deterministic one of reasonable size,
    :class:`MemoryTooSmall` where not even one message fits.
    """
    hmm, horizon = an_hmm(hmm, "pgcd: hmm"), whole(horizon, "pgcd: horizon", None)
    if (coarse := an_automaton(automaton, "pgcd: automaton").guide()) is not automaton:
        from .coarse import CoarseQuery

        guide = pgcd(hmm, coarse, horizon, dtype, memory)
        return CoarseQuery(gcd(automaton, horizon), cast(PGCDQuery, guide), automaton)
    if not an_automaton(automaton, "pgcd: automaton").is_deterministic:
        try:
            automaton = automaton.determinize(limit=4 * automaton.num_states + 64)
        except TooManyStates:
            if not automaton.is_unambiguous:
                automaton = automaton.determinize()
    if hmm.emission_probs.device.type != "cpu" and memory is None and automaton.is_deterministic:
        from .pgcd_static import StaticPGCDQuery

        return StaticPGCDQuery(hmm, automaton, horizon, dtype)
    return PGCDQuery(hmm, automaton, horizon, dtype, memory)
