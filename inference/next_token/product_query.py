"""P-GCD: the real next-token query on a chain × an automaton, with masks of the constraint (Dang et al. 2026, Algorithm 1).

    mask(v)       1[x_<t v can be completed to a text of the constraint within the budget], exact
    lookahead(v)  log chain × G (x_<t v …) − log chain (x_<t v), −∞ where mask(v) is 0

G accepts at least what the constraint C does: it is C's own automaton, or a smaller one that forgets how long a string is. If G
accepts exactly C, the lookahead of an HMM is log p_hmm(C | x_<t, v). A sampler's weights correct for the rest.

The masks are :mod:`~.gcd`'s, the scores those of :mod:`~.product_step`, or of :mod:`~.padded_step` on an accelerator. Rows that
lost something to underflow are computed again in float64, then in log space. Equal, by test, to
``NextToken(chain * automaton, horizon, Real())``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial, reduce
from math import log
from typing import Any, Self, final

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...argument_checks import whole_numbers
from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import CircuitError, ShapeError, VocabularyMismatch
from ...fingerprints import check_vocabularies
from ..semirings.base import Boolean, Log, Semiring
from ..semirings.scaled_real import FLOOR, Floored, Real
from .ahead import FORCED_LIMIT
from .gcd import GCDQuery
from .history import History, Trail
from .padded_step import PaddedSteps
from .product_step import ProductSteps, ProductTables, Scores
from .protocol import Budgets, Drafts, Tokens
from .rows import (
    Copied,
    check_horizon,
    checked_rollback,
    checked_tokens,
    conditionals,
    described,
    mask_logits,
    resume,
    row_indices,
)


@final
class ProductQuery(Copied):
    """The query of a chain × an automaton beside the chain's own: a :class:`~.protocol.NextTokenQuery`.

    Parameters
    ----------
    chain
        The left factor: an HMM, a product of HMMs, any chain.
    masks
        The masks of the constraint: :func:`tractile.gcd`.
    guide
        The right factor: an explicit automaton that accepts at least the same texts. An ambiguous one weights each sequence by
        its number of accepting paths (Thm 4.3).
    horizon
        The largest budget in tokens.
    dtype, memory, tolerance
        As in :func:`tractile.pgcd`.
    padded
        Whether steps have fixed shapes, so that none waits for an accelerator; the guide must be deterministic.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference.next_token.product_query import ProductQuery
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> query = ProductQuery(coin, tt.gcd(one, 3), one, horizon=3).start(batch=1)
    >>> query.log_lookahead().exp()  # three of eight sequences have one 1
    tensor([0.3750], dtype=torch.float64)
    """

    has_lookahead = True
    resume, apply, fork = resume, mask_logits, copy

    def __init__(
        self,
        chain: Chain,
        masks: GCDQuery,
        guide: Automaton,
        horizon: int,
        *,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        tolerance: float = 0.0,
        padded: bool = False,
    ) -> None:
        check_horizon(horizon, "pgcd")
        check_vocabularies(
            f"the {type(chain).__name__}", chain, "the automaton", masks.automaton,
            "compile the constraint with the tokenizer that the HMM was distilled for, or distil an HMM for this one",
        )  # fmt: skip
        if dtype is not None and (not dtype.is_floating_point or torch.finfo(dtype).tiny > 1e-37):
            raise ShapeError(
                f"pgcd: tables of {dtype} have too small a range for probabilities; give bfloat16, float32 or float64"
            )
        if padded and memory is not None:
            raise CircuitError("pgcd: steps of fixed shapes need all backward messages; give no `memory`")
        if guide.device.type != "cpu":  # read on the CPU; the tables made from it are moved
            guide = guide.map(lambda t: t.cpu())
        self.factor, self.guide, self.horizon, self.padded = in_one_precision(chain), guide, horizon, padded
        self.semiring: Semiring[Any] = Floored() if tolerance else Real()
        self.automaton, self.vocab_size, self.device = masks.automaton, masks.vocab_size, chain.device
        self._masks, self._own = masks, guide is masks.automaton
        tables = ProductTables(
            self.factor,
            guide,
            horizon,
            self.semiring,
            dtype=dtype,
            memory=memory,
            tolerance=tolerance,
            table=padded,
        )
        self._tables = tables
        self._steps: ProductSteps | PaddedSteps = PaddedSteps(tables) if padded else ProductSteps(tables)
        self._history, self._trail = History(), Trail()
        self._scored: Scores | None = None

    __repr__ = described

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._steps = self._steps.fork()
        out._history, out._trail = copy(self._history), copy(self._trail)
        return out

    @property
    def coarse(self) -> bool:
        """Whether the guide is another automaton than the constraint's own."""
        return not self._own

    @property
    def chain(self) -> Chain:
        """The product of the chain and the guide's automaton."""
        return self.factor * (self.guide if self.device.type == "cpu" else self.guide.to(self.device))

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        return self._steps.remaining

    @property
    def nbytes(self) -> int:
        """The size of the backward messages in bytes."""
        return self._tables.backward.nbytes

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        self.take_up(self._masks.fork().start(batch, budgets).remaining)
        return self

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self._steps.take_up(budgets)
        self._history.begin(self._steps.remaining)  # on the same device, so that no token is read back
        self._trail.clear()
        self._scored = None

    def advance(self, tokens: Tokens) -> None:
        self._append(self._checked(tokens), self.remaining > 0)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        moving = moving.to(self.device)
        self._append(
            self._checked(tokens.to(self.device).masked_fill(~moving, 0)), moving & (self.remaining > 0)
        )

    def _checked(self, tokens: Tokens) -> Int[Tensor, " batch"]:
        """Return the tokens, checked; if ``padded``, tokens on an accelerator are checked when scores are read."""
        rows = len(self.remaining)
        found = whole_numbers(tokens, "advance: token ids", VocabularyMismatch)
        if found.device.type == "cpu" or found.shape != (rows,) or not self.padded:
            found = checked_tokens(found, rows, self.vocab_size)
        return found.to(self.device)

    def _append(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        before = self._steps.snapshot()
        self._steps.advance_some(tokens, moving)
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
        if not (n := checked_rollback(n, self._history.tokens.shape[1])):
            return
        self._history.rollback(n)
        self._scored = None
        if (before := self._trail.back(n)) is not None:
            self._steps = before.fork()  # the trail may be another query's, too
            return
        self._steps.take_up(self._history.budgets)
        for tokens in self._history.tokens.T:
            self._steps.advance_some(tokens, tokens >= 0)

    def capture(self) -> None:
        """Record a step as a CUDA graph, which ``advance`` replays until the next ``start``, for a batch of this size.

        It may be replayed on another stream while a recorded language model works. Raises :class:`ShapeError` without
        padded steps.
        """
        if not isinstance(self._steps, PaddedSteps):
            raise ShapeError(
                "capture: only steps of fixed shapes can be recorded; give an HMM on an accelerator"
            )
        self._steps.capture()

    # ------------------------------------------------------------ masks

    def _allowed(self) -> GCDQuery:
        """Return the mask query, after it has read all tokens. Raises :class:`EvidenceError` before rows begin."""
        return self._history.query("masks", lambda: self._masks)

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        return self._masks.feasible_lengths()

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self._allowed().mask()

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        return self._allowed().words(out)

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        return self._allowed().bitmask(out)

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        return self._allowed().validate(tokens)

    def forced(self, limit: int = FORCED_LIMIT) -> list[list[int]]:
        return self._allowed().forced(limit)

    # ------------------------------------------------------------ scores

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """Return log m(v) = log chain × G (x_<t, v, the rest accepted within the budget) in nats, −∞ where the mask is False."""
        found = self._score()
        return (found.product + self._tables.tokens.log_top).double().add_(found.product_scale[:, None])

    def scores(self) -> Float[Tensor, "batch vocab"]:
        return conditionals(self.log_weights(), self.remaining, self.semiring)

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """Return log m(v) − log chain(x_<t, v) in nats; for an HMM log p_hmm(G | x_<t, v), ≤ 0 if G is unambiguous.

        −∞ where the mask is False, and where the chain gives the prefix with v no weight.
        """
        found = self._score()
        ratio = (
            (found.product - found.prior).double().add_((found.product_scale - found.prior_scale)[:, None])
        )
        return ratio.masked_fill_(found.product.isneginf(), -torch.inf)

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(G | x_<t) in nats; 0 or −∞ if no token is left."""
        mass = torch.where(self.remaining > 0, self.log_weights().logsumexp(1), self.ended())
        return torch.where(mass > -torch.inf, mass - self.log_prior(), -torch.inf)

    def log_prior(self) -> Float[Tensor, " batch"]:
        """Return the log of the chain's own total of the prefix, log p_hmm(prefix), in nats."""
        return self._within_range(self._steps.log_prior(), ProductSteps.log_prior)

    def ended(self) -> Float[Tensor, " batch"]:
        """Return the log of the total of the prefix as a complete text (nats), −∞ if it is not accepted."""
        found = self._within_range(self._steps.log_ended(), ProductSteps.log_ended)
        return (
            found
            if self._own
            else found.where(self._allowed().ended().to(self.device) > -torch.inf, -torch.inf)
        )

    def _score(self) -> Scores:
        """Return the scores, with those of rows that lost something computed again, and −∞ where the mask is False."""
        if self._scored is None:
            found = self._steps.scores()
            lost = (found.product_scale + found.prior_scale).isnan()
            some, outside = torch.stack([lost.any(), self._steps.outside]).tolist()  # waits for the device
            if outside:
                raise VocabularyMismatch(f"advance: a token lay outside the vocabulary of {self.vocab_size}")
            if some:
                found = self._recovered(found, lost)
            self._scored = (
                found if self._own and not isinstance(self.semiring, Floored) else self._masked(found)
            )
        return self._scored

    def _masked(self, found: Scores) -> Scores:
        mask = self.mask().to(self.device)
        product, prior = found.product.masked_fill(~mask, -torch.inf), found.prior
        if isinstance(self.semiring, Floored) and bool((missing := mask & product.isneginf()).any()):
            possible = self._history.query("possible", self._in_boolean).scores().product > -torch.inf
            lost, least = missing & possible, log(FLOOR)
            prior = torch.where(lost, prior.clamp(min=least), prior)
            shift = (found.prior_scale - found.product_scale).to(prior.dtype)[:, None]
            product = torch.where(lost, prior + shift + least, product)
        return found._replace(product=product, prior=prior)

    # ------------------------------------------------------------ what arithmetic lost

    def _recovered(self, found: Scores, lost: Bool[Tensor, " batch"]) -> Scores:
        """Replace the rows ``lost`` by those computed in a wider range."""
        top = self._tables.tokens.log_top.double()
        exact = self._wider(ProductSteps.totals)
        parts = []
        for mine, scale, other in zip(found[::2], found[1::2], exact, strict=True):
            other = torch.where(top.isfinite(), other.to(self.device) - top, -torch.inf)
            most = other.amax(1)
            most = torch.where(most.isfinite(), most, 0)
            parts.append(torch.where(lost[:, None], (other - most[:, None]).to(mine.dtype), mine))
            parts.append(torch.where(lost, most, scale))
        return Scores(*parts)

    def _within_range(
        self, found: Float[Tensor, " batch"], ask: Callable[[ProductSteps], Tensor]
    ) -> Float[Tensor, " batch"]:
        """Replace logarithms that are NaN by those computed in a wider range."""
        found = found.double()
        if not bool((lost := found.isnan()).any()):
            return found
        return torch.where(lost, self._wider(lambda steps: (ask(steps).double(),))[0].to(self.device), found)

    def _wider(self, ask: Callable[[ProductSteps], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Ask the same steps in float64, and in log space for the rows that float64 loses, too."""
        found: tuple[Tensor, ...] = ()
        double = self.factor.initial[0].dtype == torch.float64
        for semiring in (Log(),) if double else (Real(), Log()):
            more = ask(self._history.query(type(semiring).__name__, partial(self._made, semiring)))
            found = tuple(torch.where(x.isnan(), y, x) for x, y in zip(found or more, more, strict=True))
            if not any(bool(x.isnan().any()) for x in found):
                break
        return found

    def _made(self, semiring: Semiring[Any]) -> ProductSteps:
        wide = self.factor.to("cpu", torch.float64)
        return ProductSteps(ProductTables(wide, self.guide, self.horizon, semiring))

    def _in_boolean(self) -> ProductSteps:
        return ProductSteps(ProductTables(self.factor, self.guide, self.horizon, Boolean()))


def in_one_precision(chain: Chain) -> Chain:
    """Return the chain in the finest precision of its parameters, at least float32, without derivatives."""
    dtype = reduce(torch.promote_types, (t.dtype for t in chain.parameters()), torch.float32)

    def cast(t: Tensor) -> Tensor:
        return t.detach().to(dtype)

    initial, final = tuple(map(cast, chain.initial)), tuple(map(cast, chain.final))
    return Chain(initial, chain.left.map(cast), chain.inputs.map(cast), chain.right.map(cast), final)
