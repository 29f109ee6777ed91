"""P-GCD: the real next-token query on HMM × automaton (Dang et al. 2026, Algorithm 1).

    m(v) = Σ over h, s, edges e: s → s' with v ∈ label(e) of   α[h, s] · B[h, v] · (A β_{r−1})[h, s']

A query is composed of the automaton's masks (:mod:`~.gcd`), backward messages Aβ for every number of tokens left
(:mod:`~.backward_table`), an emission table (:mod:`~.emission_table`), and steps that update α and score tokens: on live states
only (:mod:`~.pgcd_steps`), or in fixed shapes for an accelerator (:mod:`~.pgcd_static`). A score that underflowed is recomputed
in a wider range. Equal, by test, to ``NextToken(hmm * automaton, horizon, Real())``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, reduce
from typing import Self, final

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...argument_checks import whole_numbers
from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...circuits.hmm import HMM
from ...circuits.weighted_hmm import own_hmm, weights_of
from ...errors import CircuitError, ShapeError, VocabularyMismatch
from ...fingerprints import check_vocabularies
from ..semirings.base import Log
from ..semirings.scaled_real import Real
from .ahead import FORCED_LIMIT
from .backward_table import BackwardTable
from .edge_labels import EdgeLabels
from .emission_table import EmissionTable, Scores
from .finite_masks import FiniteMasks
from .gcd import GCDQuery
from .generic import NextToken
from .history import History, Trail
from .pgcd_static import FixedShapeSteps
from .pgcd_steps import ProductTables, RealFilter, SparseSteps
from .protocol import Budgets, Drafts, Tokens
from .rows import (
    Copied,
    check_horizon,
    checked_budgets,
    checked_rollback,
    checked_tokens,
    conditionals,
    described,
    mask_logits,
    resume,
    row_indices,
)
from .support import SupportQuery
from .underflow import trusted


@final
class PGCDQuery(Copied):
    """The real query on HMM × automaton, beside the HMM's own query on the same prefix: a :class:`~.protocol.NextTokenQuery`.

    The automaton should be unambiguous: an ambiguous one weights each sequence by its number of accepting paths
    (Thm 4.3), and ``lookahead`` is then an expected number of paths. :func:`pgcd` determinises it. ``dtype`` and ``memory`` are
    as in :func:`pgcd`. ``fixed_shapes``: steps that never wait for an accelerator; the automaton must be deterministic.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import PGCDQuery
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> query = PGCDQuery(coin, one, horizon=3).start(batch=1)
    >>> query.log_lookahead().exp()  # P(exactly one 1 in three throws)
    tensor([0.3750], dtype=torch.float64)
    >>> query.lookahead().exp()  # the same after a 0, after a 1
    tensor([[0.5000, 0.2500]], dtype=torch.float64)
    >>> query.scores().exp()
    tensor([[0.6667, 0.3333]], dtype=torch.float64)
    """

    has_lookahead = True
    resume, apply, fork = resume, mask_logits, copy

    def __init__(
        self,
        hmm: HMM,
        automaton: Automaton,
        horizon: int,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        fixed_shapes: bool = False,
    ) -> None:
        check_guide(hmm, automaton)
        if dtype is not None and (not dtype.is_floating_point or torch.finfo(dtype).tiny > 1e-37):
            raise ShapeError(
                f"pgcd: tables of {dtype} have too small a range for probabilities; give bfloat16, float32 or float64"
            )
        if fixed_shapes and memory is not None:
            raise CircuitError("pgcd: steps of fixed shapes need all backward messages; give no `memory`")
        check_horizon(horizon, "pgcd")
        if automaton.device.type != "cpu":  # read on the CPU; the tables made from it are moved
            automaton = automaton.map(lambda t: t.cpu())
        self.hmm = hmm = _one_dtype(hmm.detached())
        self.automaton, self.horizon, self.semiring = automaton, horizon, Real()
        self.vocab_size, self.device = automaton.vocab_size, hmm.device
        self.fixed_shapes, self._memory = fixed_shapes, memory
        self._kept_dtype = dtype or hmm.emission_probs.dtype
        self._weights = weights_of(hmm)
        self._source = source = FiniteMasks(automaton, horizon)
        masks, labels = GCDQuery(automaton, horizon, source), EdgeLabels(automaton)
        self._betas = None if source.betas is None else torch.from_numpy(source.betas)
        self._backward = BackwardTable(hmm, automaton, horizon, self._kept_dtype, memory, labels)
        self._emission = EmissionTable(hmm.emission_probs, labels, self._kept_dtype)
        self._tables = ProductTables(hmm, automaton, self._backward, self._emission, self._betas)
        self._steps: SparseSteps | FixedShapeSteps = (
            FixedShapeSteps(self._tables, masks, self._backward.whole)
            if fixed_shapes
            else SparseSteps(self._tables, masks, RealFilter(hmm))
        )
        self._history, self._trail = History(), Trail()
        self._scored: Scores | None = None

    __repr__ = described

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._history, out._trail, out._steps = copy(self._history), copy(self._trail), self._steps.fork()
        return out

    @cached_property
    def chain(self) -> Chain:
        """The product of HMM and automaton."""
        return self.hmm * (self.automaton if self.device.type == "cpu" else self.automaton.to(self.device))

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        return self._steps.remaining

    @property
    def nbytes(self) -> int:
        """The size in bytes of all backward messages, horizon × automaton states × hidden states numbers."""
        size = self.horizon * self.automaton.num_states * self.hmm.hidden
        return size * self._kept_dtype.itemsize

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        self.take_up(checked_budgets(self, batch, budgets, self._source.shortfall))
        return self

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self._steps.begin(budgets)
        self._history.begin(self.remaining)
        self._trail.clear()
        self._scored = None

    def advance(self, tokens: Tokens) -> None:
        self._append(self._checked(tokens), self.remaining > 0)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        remaining = self.remaining
        moving = moving.to(remaining.device)
        tokens = self._checked(tokens.to(remaining.device).masked_fill(~moving, 0))
        self._append(tokens, moving & (remaining > 0))

    def _checked(self, tokens: Tokens) -> Int[Tensor, " batch"]:
        """Return the tokens, checked; with ``fixed_shapes``, tokens on an accelerator are checked in :meth:`_score` only."""
        rows = self.remaining
        found = whole_numbers(tokens, "advance: token ids", VocabularyMismatch)
        if found.device.type == "cpu" or found.shape != rows.shape or not self.fixed_shapes:
            found = checked_tokens(found, len(rows), self.vocab_size)
        return found.to(rows.device)

    def _append(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        before = self._steps.state
        self._steps.advance(tokens, moving)
        self._history.append(tokens.masked_fill(~moving, -1))
        self._trail.append(before) if before is not None else self._trail.clear()
        self._scored = None

    def select(self, indices: Tensor | Sequence[int]) -> None:
        indices = row_indices(indices, len(self.remaining)).to(self.device)
        self._steps.select(indices)
        self._history.select(indices)
        self._trail.select(indices)
        self._scored = None if self._scored is None else self._scored.select(indices)

    def rollback(self, n: int) -> None:
        length = self._history.tokens.shape[1]
        if not (n := checked_rollback(n, length)):
            return
        self._history.rollback(n)
        if (state := self._trail.back(n)) is not None:
            self._steps.restore(state, n)
        else:
            self._steps.begin(self._history.budgets)
            for tokens in self._history.tokens.T:
                self._steps.advance(tokens.clamp(min=0), tokens >= 0)
        self._scored = None

    def capture(self) -> None:
        """Record a step as a CUDA graph, which ``advance`` replays until the next ``start``, for a batch of this size.

        Raises :class:`ShapeError` without ``fixed_shapes``.
        """
        if not isinstance(self._steps, FixedShapeSteps):
            raise ShapeError("capture: only steps of fixed shapes can be recorded; give fixed_shapes=True")
        self._steps.capture()

    # ------------------------------------------------------------ masks

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        return self._source.feasible_lengths()

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self._masks().mask()

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        return self._masks().words(out)

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        return self._masks().bitmask(out)

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        return self._masks().validate(tokens)

    def forced(self, limit: int = FORCED_LIMIT) -> list[list[int]]:
        return self._masks().forced(limit)

    def _masks(self) -> GCDQuery:
        return self._steps.masks()

    # ------------------------------------------------------------ scores

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """Return log m(v) = log p_hmm(x_<t, v, the rest accepted within the budget) in nats.

        For a ``WeightedHMM``, m(v) includes the weights of v and of the rest.
        """
        found = self._score()
        weights = (found.product + self._emission.log_top).double().add_(found.product_scale[:, None])
        return weights if self._weights is None else weights + self._weights

    def scores(self) -> Float[Tensor, "batch vocab"]:
        return conditionals(self.log_weights(), self.remaining, self.semiring)

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_hmm(C | x_<t, v) = log m(v) − log p_hmm(x_<t, v) in nats; ≤ 0 for an unambiguous automaton.

        For a ``WeightedHMM`` it is the log of the expectation of 1[C] times the weights of the tokens after v. −inf where the
        mask is False, and where the HMM gives the prefix with v probability zero.
        """
        found = self._score()
        ratio = (found.product - found.prior).double()
        ratio.add_((found.product_scale - found.prior_scale)[:, None])
        return ratio if found.certain else torch.where(found.product > -torch.inf, ratio, -torch.inf)

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(C | x_<t) in nats; 0 or −inf if no token is left."""
        open_ = self.remaining.to(self.device) > 0
        mass = torch.where(open_, self.log_weights().logsumexp(1), self.ended())
        return torch.where(mass > -torch.inf, mass - self.log_prior(), -torch.inf)

    def log_prior(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(prefix) in nats."""
        found, doubt = self._steps.log_prior()
        if not bool((doubted := self._doubted(found, doubt)).any()):
            return found
        lost = doubted & (~found.isneginf() | self._support().believes())
        return self._exactly(found, lost, PGCDQuery.log_prior, lambda: self._in_log_space()[1].ended())

    def ended(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(prefix, accepted as it is) in nats, −inf if it is not."""
        found, doubt, accepted = self._steps.log_ended()
        doubted = self._doubted(found, doubt) & accepted
        if not bool(doubted.any()):
            return found
        lost = doubted & (~found.isneginf() | self._support().ends())
        return self._exactly(
            found, lost, PGCDQuery.ended, lambda: self._in_log_space()[0].ended() - self._written().cpu()
        )

    def _doubted(
        self, found: Float[Tensor, " batch"], doubt: Float[Tensor, " batch"]
    ) -> Bool[Tensor, " batch"]:
        """Tell which logarithms may be wrong: those that do not exceed their doubt by more than rounding."""
        return ~trusted(found, doubt, self._tables.dtype) & (doubt > -torch.inf)

    def _score(self) -> Scores:
        """Return the next-token log-weights of the product and of the HMM alone, with rows that underflowed recomputed."""
        if self._scored is None:
            found = self._steps.scores()
            if len(rows := self._steps.doubted(found)):
                self._recover(found, rows)
            self._scored = found
        return self._scored

    # ------------------------------------------------------------ what arithmetic lost

    def _missing(self, found: Scores, rows: Int[Tensor, " rows"]) -> Bool[Tensor, "rows vocab"]:
        """Tell which tokens the automaton allows though their score, or that of the HMM alone, is −inf."""
        none = found.product[rows].isneginf() | found.prior[rows].isneginf()
        return self.mask().to(self.device)[rows] & none & self._emission.log_top.isfinite()

    def _recover(self, found: Scores, rows: Int[Tensor, " rows"]) -> None:
        """Recompute in place the rows in which a possible token has lost its score.

        A token that the automaton allows has no score if the HMM cannot emit it from its present belief, if the HMM cannot
        continue as the constraint requires, or if the score underflowed. Boolean arithmetic
        (:class:`~tractile.inference.next_token.support.SupportQuery`) tells the last case from the others exactly. Only then are
        rows recomputed: in float64, or in log space if float64 loses the score too.
        """
        missing = self._missing(found, rows)
        rows, missing = rows[some := missing.any(1)], missing[some]
        if len(rows):
            support = self._support()
            some = (missing & support.emitted(rows)).any(1)  # needs no backward sweep
            rows, missing = rows[some], missing[some]
        if len(rows):
            rows = rows[(missing & support.possible(rows)).any(1)]
        if not len(rows):
            return
        top = self._emission.log_top.double()
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
        def make() -> SupportQuery:
            return SupportQuery(self.hmm, self.automaton, self.horizon, self._masks(), self._betas)

        return self._history.query("support", make)

    def _finer(self) -> PGCDQuery | None:
        """Return this query in float64; None if it is in float64 already."""
        if self._tables.dtype == self._kept_dtype == torch.float64:
            return None

        def make() -> PGCDQuery:
            memory = None if self._memory is None else 2 * self._memory
            hmm = self.hmm.to(dtype=torch.float64)
            return PGCDQuery(hmm, self.automaton, self.horizon, torch.float64, memory)

        return self._history.query("float64", make)

    def _absolute(self, rows: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        """Return log p(prefix, v, accepted) and log p(prefix, v) of some rows, (rows, vocab), in float64 or log space."""
        finer = self._finer()
        if finer is not None:
            found, top = finer._score(), finer._emission.log_top
            product = (found.product[rows] + top).add_(found.product_scale[rows, None])
            return product, (found.prior[rows] + top).add_(found.prior_scale[rows, None])
        product, prior = (query.log_weights()[rows.cpu()] for query in self._in_log_space())
        if self._weights is not None:  # the chain includes the weights of v and of the prefix
            product = product - (self._written()[rows, None] + self._weights).cpu()
        return product.double().to(self.device), prior.double().to(self.device)

    def _in_log_space(self) -> tuple[NextToken, NextToken]:
        """Return the log-space queries of the product and of the HMM alone, on the CPU."""
        hmm = self.hmm.to("cpu")
        return (
            self._history.query("log", lambda: NextToken(hmm * self.automaton, self.horizon, Log())),
            self._history.query("log prior", lambda: NextToken(own_hmm(hmm), None, Log())),
        )

    def _written(self) -> Float[Tensor, " batch"]:
        """Return the log of the product of the token weights of each row's prefix."""
        tokens = self._history.tokens
        if self._weights is None:
            return torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
        return self._weights.double()[tokens.clamp(min=0)].masked_fill(tokens < 0, 0.0).sum(1)

    def _exactly(
        self,
        found: Float[Tensor, " batch"],
        lost: Bool[Tensor, " batch"],
        ask: Callable[[PGCDQuery], Tensor],
        in_log_space: Callable[[], Tensor],
    ) -> Float[Tensor, " batch"]:
        """Return the logarithms ``found``, with the rows ``lost`` recomputed in float64 or in log space."""
        if not bool(lost.any()):
            return found
        finer = self._finer()
        exact = in_log_space() if finer is None else ask(finer)
        return torch.where(lost, exact.double().to(found.device), found)


def _one_dtype(hmm: HMM) -> HMM:
    """Return the HMM in the most precise of the dtypes of its parameters."""
    dtypes = [t.dtype for t in (hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs)]
    dtype = reduce(torch.promote_types, dtypes)
    return hmm if all(t == dtype for t in dtypes) else hmm.to(dtype=dtype)


def check_guide(hmm: HMM, automaton: Automaton) -> None:
    """Raise :class:`VocabularyMismatch` if an HMM and an automaton were made for different tokens."""
    check_vocabularies(
        "the HMM", hmm, "the automaton", automaton,
        "compile the constraint with the tokenizer that the HMM was distilled for, or distil an HMM for this one",
    )  # fmt: skip
