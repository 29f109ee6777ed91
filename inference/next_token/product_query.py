"""The next-token query of a chain × an automaton, by the product step, beside the chain's own totals.

    log_weights(v)  log chain × G (x_<t, v, any rest accepted within the budget), in nats
    lookahead(v)    the same minus log chain (x_<t, v): for an HMM log p_hmm(G | x_<t, v)

Scores are those of :mod:`~.product_step`, or of :mod:`~.padded_step` on an accelerator. Rows that lost something to underflow
are computed again in float64, then in log space. Equal, by test, to the :class:`~.generic.DenseQuery` of the product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...argument_checks import whole_numbers
from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import CircuitError, ShapeError, VocabularyMismatch
from ...layers import Categorical
from ..semirings.base import Semiring
from ..semirings.floored import Floored
from ..semirings.linear import Boolean
from ..semirings.logarithms import Log
from ..semirings.scaled_real import Real
from .padded_step import PaddedMessages
from .product_step import ProductMessages, Scores
from .product_tables import ProductTables, in_one_precision, kept
from .protocol import Tokens
from .row_query import MessageQuery
from .rows import check_horizon, checked_tokens, conditionals, no_hmm


class ProductQuery(MessageQuery):
    """The query of a chain × an automaton beside the chain's own: a :class:`~.protocol.NextTokenQuery`.

    Its mask has the tokens of positive weight. No derivative goes through it.

    Parameters
    ----------
    chain
        The left factor: an HMM, a product of HMMs, any chain.
    automaton
        The right factor, explicit. An ambiguous one weights each sequence by its number of accepting paths (Thm 4.3).
    horizon
        The largest budget in tokens.
    semiring
        Real, or Boolean for masks alone.
    dtype, memory, tolerance
        As in :func:`tractile.pgcd`.
    padded
        Whether steps have fixed shapes, so that none waits for an accelerator; the automaton must be deterministic and the
        chain an HMM. Default: on an accelerator, where that is possible.
    """

    horizon: int

    def __init__(
        self,
        chain: Chain,
        automaton: Automaton,
        horizon: int,
        semiring: Semiring[Any] | None = None,
        *,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        tolerance: float = 0.0,
        padded: bool | None = None,
    ) -> None:
        check_horizon(horizon, "pgcd")
        if dtype is not None and (not dtype.is_floating_point or torch.finfo(dtype).tiny > 1e-37):
            raise ShapeError(
                f"pgcd: tables of {dtype} have too small a range for probabilities; give bfloat16, float32 or float64"
            )
        if padded and memory is not None:
            raise CircuitError("pgcd: steps of fixed shapes need all backward messages; give no `memory`")
        if automaton.device.type != "cpu":  # read on the CPU; the tables made from it are moved
            automaton = automaton.map(lambda t: t.cpu())
        self.automaton = self.guide = automaton
        self.factor, self.horizon = kept(chain, "one precision", lambda: in_one_precision(chain)), horizon
        self.semiring: Semiring[Any] = semiring or (Floored() if tolerance else Real())
        self.vocab_size, self.device = chain.vocab_size, chain.device
        self.has_lookahead = isinstance(self.semiring, Real)
        if padded is None:
            table = type(chain.inputs) is Categorical and len(chain.inputs.unit_dims) == 1
            possible = memory is None and automaton.is_deterministic and table and self.has_lookahead
            padded = chain.device.type != "cpu" and possible
        self.padded = padded
        tables = self._tables = ProductTables(
            self.factor, automaton, horizon, self.semiring, tolerance, memory, dtype, padded
        )
        super().__init__(PaddedMessages(tables) if padded else ProductMessages(tables))
        double = self.factor.initial[0].dtype == torch.float64
        semirings: list[Semiring[Any]] = [Log()] if double else [Real(), Log()]
        self._wider = [partial(self._wide, semiring) for semiring in semirings]
        self._scored: Scores | None = None
        self._ratio: Tensor | None = None  # the lookahead of the scores

    def _wide(self, semiring: Semiring[Any]) -> ProductMessages:
        wide = kept(self.factor, "wide", lambda: self.factor.to("cpu", torch.float64))
        return ProductMessages(ProductTables(wide, self.guide, self.horizon, semiring))

    @property
    def chain(self) -> Chain:
        """The product of the chain and the automaton."""
        return self.factor * (self.guide if self.device.type == "cpu" else self.guide.to(self.device))

    @property
    def nbytes(self) -> int:
        """The size of the backward messages in bytes."""
        return self._tables.backward.nbytes

    # ------------------------------------------------------------ rows

    def _changed(self) -> None:
        self._scored = self._ratio = None

    def _checked(self, tokens: Tokens) -> Int[Tensor, " batch"]:
        """Return the tokens, checked; if ``padded``, tokens on an accelerator are checked when scores are read."""
        rows = len(self.remaining)
        found = whole_numbers(tokens, "advance: token ids", VocabularyMismatch)
        if found.device.type == "cpu" or found.shape != (rows,) or not self.padded:
            found = checked_tokens(found, rows, self.vocab_size)
        return found.to(self.device)

    def _keep(self, indices: Int[Tensor, " rows"]) -> None:
        scored = self._scored
        super()._keep(indices)
        self._scored = None if scored is None else scored.select(indices.to(self.device))

    def capture(self) -> None:
        """Record a step as a CUDA graph, which ``advance`` replays until the next ``start``, for a batch of this size.

        It may be replayed on another stream while a recorded language model works. Raises :class:`ShapeError` without
        padded steps.
        """
        if not isinstance(self._messages, PaddedMessages):
            raise ShapeError(
                "capture: only steps of fixed shapes can be recorded; give an HMM on an accelerator"
            )
        self._messages.capture()

    # ------------------------------------------------------------ scores

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        found = self._tables.totals_of_lengths
        if bool(found.isnan().any()):  # something was lost
            found = self._history.shared("lengths", self._in_boolean).totals_of_lengths
        return found > -torch.inf

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """Return log m(v) = log chain × G (x_<t, v, the rest accepted within the budget) in nats, −∞ where the mask is False."""
        found = self._score()
        weights = (found.product + self._tables.tokens.log_top).double().add_(found.product_scale[:, None])
        return self._as_weight(weights)

    def scores(self) -> Float[Tensor, "batch vocab"]:
        weights = self._as_weight(self._score().product + self._tables.tokens.log_top)
        return conditionals(weights, self.remaining, self.semiring).double()

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """Return log m(v) − log chain(x_<t, v) in nats; for an HMM log p_hmm(G | x_<t, v), ≤ 0 if G is unambiguous.

        −∞ where the mask is False, and where the chain gives the prefix with v no weight.
        """
        self._needs_real()
        found = self._score()
        if self._ratio is None:  # a sampler asks for a proposal and for a potential
            scale = (found.product_scale - found.prior_scale)[:, None]
            ratio = (found.product - found.prior).double().add_(scale)
            self._ratio = ratio.masked_fill_(found.product.isneginf(), -torch.inf)
        return self._ratio

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(G | x_<t) in nats; 0 or −∞ if no token is left."""
        self._needs_real()
        mass = torch.where(self.remaining > 0, self.log_weights().logsumexp(1), self.ended())
        return torch.where(mass > -torch.inf, mass - self.log_prior(), -torch.inf)

    def _needs_real(self) -> None:
        if not self.has_lookahead:
            no_hmm(self)

    def log_prior(self) -> Float[Tensor, " batch"]:
        """Return the log of the chain's own total of the prefix, log p_hmm(prefix), in nats."""
        return self._total(ProductMessages.log_prior, self._messages.log_prior())

    def ended(self) -> Float[Tensor, " batch"]:
        """Return the log of the total of the prefix as a complete text (nats), −∞ if it is not accepted."""
        return self._as_weight(self._total(ProductMessages.log_ended, self._messages.log_ended()))

    def _total(self, ask: Callable[[ProductMessages], Tensor], found: Float[Tensor, " batch"]) -> Tensor:
        return self._history.recovered(
            (found.double(),), self._wider, lambda messages: (ask(messages).double(),)
        )[0]

    def _as_weight(self, logs: Tensor) -> Tensor:
        return logs.clamp_(max=0) if isinstance(self.semiring, Boolean) else logs

    def _score(self) -> Scores:
        """Return the scores, with those of rows that lost something computed again."""
        if self._scored is None:
            found = self._messages.scores()
            lost = (found.product_scale + found.prior_scale).isnan()
            some, outside = torch.stack([lost.any(), self._messages.outside]).tolist()  # waits for the device
            if outside:
                raise VocabularyMismatch(f"advance: a token lay outside the vocabulary of {self.vocab_size}")
            self._scored = self._masked(self._again(found, lost) if some else found)
        return self._scored

    def _again(self, found: Scores, lost: Bool[Tensor, " batch"]) -> Scores:
        """Replace the rows ``lost`` by those of wider steps."""
        nothing = torch.full_like(found.product, torch.nan, dtype=torch.float64)
        wider = self._history.recovered((nothing, nothing), self._wider, ProductMessages.totals)
        top, parts = self._tables.tokens.log_top.double(), list[Tensor]()
        for mine, scale, other in zip(found[::2], found[1::2], wider, strict=True):
            other = torch.where(top.isfinite(), other.to(mine.device) - top, -torch.inf)
            most = other.amax(1)
            most = torch.where(most.isfinite(), most, 0)
            parts.append(torch.where(lost[:, None], (other - most[:, None]).to(mine.dtype), mine))
            parts.append(torch.where(lost, most, scale))
        return Scores(*parts)

    def _masked(self, found: Scores) -> Scores:
        return found

    def _in_boolean(self) -> ProductTables:
        return ProductTables(self.factor, self.guide, self.horizon, Boolean())
