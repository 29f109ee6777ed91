"""NextToken: which token comes next, given the prefix and that the rest must end well.

For a chain and a number of tokens left r, with β_r the backward message over r marginalised steps,

    m(v) = Bᵀ (Lᵀ α_{t−1} ∘ R β_{r−1})        (Dang et al. 2026, Algorithm 1)

is the ⊕-total of all sequences with the prefix x_{<t}, token v, and r − 1 tokens more. In the Boolean semiring on an
automaton it is the GCD mask (Eqs. 2–4); with β the states from which acceptance can be reached at all, the LCD mask
(Eq. 1); in the real semiring on HMM × automaton, P-GCD. The chain is time-homogeneous, so one backward sweep serves
every prompt, row and budget up to the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.chain import Chain
from ...errors import BudgetTooLarge, BudgetTooSmall, CircuitError, EvidenceError, VocabularyMismatch
from ..arguments import each_whole, whole
from ..engine.contract import apply, observe, outer
from ..engine.messages import Emission, backward, dot, next_token_contraction
from ..queries.evidence import Evidence
from ..semirings.base import Boolean, Log, Semiring
from ..semirings.scaled_real import Real
from .record import History, row_indices
from .shares import Shares

Budgets = int | Int[Tensor, " batch"] | Sequence[int] | None
Tokens = Int[Tensor, " batch"] | Sequence[int]
UNLIMITED = 2**31  # tokens left where no budget applies


class NextToken:
    """The incremental next-token query of a chain in a semiring.

    ``horizon``: the largest budget in tokens; None where no budget applies: the Boolean query then asks for
    acceptance at any length, and another semiring must have ``final`` as its own backward message (an HMM: all ones).

    In Real a row is computed again, in float64 and then in log space, where a possible token was lost to the dynamic range
    between hidden states, or a hidden state's share may have been (see
    :class:`~tractile.inference.semirings.scaled_real.Real`). Copies (``copy.copy``) share tables and go their own ways.
    """

    has_lookahead = False  # whether it has ``lookahead()`` and ``log_lookahead()``

    def __init__(self, chain: Chain, horizon: int | None, semiring: Semiring[Any]) -> None:
        if horizon is not None and horizon < 1:
            raise BudgetTooSmall(
                f"{type(self).__name__}: the horizon must be at least one token, not {horizon}",
                needed=None,
                given=horizon,
            )
        self.chain, self.horizon, self.semiring = chain, horizon, semiring
        self.device = chain.device
        self.vocab_size = chain.vocab_size
        self.remaining: Int[Tensor, " batch"] = torch.zeros(0, dtype=torch.long)
        self._alpha: Any = None
        self._betas = self._sweep()
        self._record = History() if isinstance(semiring, Real) else None
        self._shares = Shares(chain, self._betas) if isinstance(semiring, Real) else None

    def __copy__(self) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out._record, out._shares = copy(self._record), copy(self._shares)
        return out

    def _sweep(self) -> Any:
        """β for 0, 1, … tokens left along the batch axis; a single column where there is no horizon."""
        sr, everything = self.semiring, Evidence(1, self.device)
        if self.horizon is not None:
            return sr.cat(list(backward(self.chain, sr, everything, self.horizon)))
        first, second = backward(self.chain, sr, everything, 1)
        if isinstance(sr, Boolean):
            emission = Emission(sr, everything)
            while not torch.equal(first, second := sr.add(first, second)):
                first = second
                units = emission.times(self.chain.inputs, 0, apply(sr, self.chain.right, first))
                second = apply(sr, self.chain.left, units)
        elif not torch.allclose(sr.log(first).exp(), sr.log(second).exp(), rtol=1e-4):
            raise CircuitError(
                "NextToken: without a horizon the chain must be normalised (its final vector its own backward message)"
            )
        return first

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        """Begin ``batch`` empty prefixes, with ``budgets`` tokens left each (default: the horizon).

        Without a horizon the budgets only say after how many tokens a row ends; what may come next does not depend on
        them, and by default no row ends. Raises :class:`BudgetTooSmall` if no accepted sequence has a budget's length,
        :class:`BudgetTooLarge` for a budget beyond the horizon, :class:`ShapeError` for budgets that do not fit the batch.
        """
        batch = whole(batch, "start: batch", 0)
        left = self._budgets_of(batch, budgets)
        if len(left) and int(left.min()) < 0:
            raise BudgetTooSmall("budgets must not be negative", needed=None, given=int(left.min()))
        if self.horizon is not None and len(left) and int(left.max()) > self.horizon:
            raise BudgetTooLarge(given=int(left.max()), horizon=self.horizon)
        lengths = torch.zeros_like(left) if self.horizon is None else left
        if (short := self._infeasible(lengths)) is not None:
            raise BudgetTooSmall(needed=self._needed(short), given=short)
        self.take_up(left)
        return self

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin an empty prefix for each of these budgets, which are not checked."""
        self._begin(len(budgets))
        self.remaining = budgets.to(self.device)
        if self._record is not None:
            self._record.begin(self.remaining)
        if self._shares is not None:
            self._shares.begin(len(budgets))

    def resume(self, prefixes: Int[Tensor, "batch length"], budgets: Budgets = None) -> None:
        """Take up prefixes, begun with these budgets; nothing is checked for feasibility. Token −1 is left out."""
        self.take_up(self._budgets_of(len(prefixes), budgets))
        for tokens in prefixes.T:
            self.advance_some(tokens, tokens >= 0)

    def _budgets_of(self, batch: int, budgets: Budgets) -> Int[Tensor, " batch"]:
        if budgets is None:
            budgets = UNLIMITED if self.horizon is None else self.horizon
        return each_whole(budgets, batch, "start: budgets").to(self.device)

    def _infeasible(self, given: Int[Tensor, " batch"]) -> int | None:
        """The smallest of these lengths that no accepted sequence has."""
        feasible = self.feasible_lengths()
        given = given.to(feasible.device)
        feasible = feasible[given]
        return None if bool(feasible.all()) else int(given[~feasible].min())

    def _needed(self, given: int) -> int | None:
        """The smallest feasible length above ``given``, as far as the horizon tells."""
        if self.horizon is None:
            return None
        longer = self.feasible_lengths()[given + 1 :].nonzero()
        return given + 1 + int(longer[0]) if len(longer) else None

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Whether some sequence of exactly 0, 1, … horizon tokens is accepted (one entry, any length, without a horizon)."""
        count = self.semiring.shape(self._betas)[-1]
        initial = outer(self.semiring, self.chain.initial, count)
        feasible = self.semiring.log(dot(self.semiring, initial, self._betas)) > -torch.inf
        if self._record is not None and not bool(feasible.all()):  # or only lost to the dynamic range
            return self._record.made("possible", self._in_boolean).feasible_lengths()
        return feasible

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """m(v): the ⊕-total over accepted sequences with the prefix and then v, as a logarithm (nats), on an absolute scale."""
        beta = self.semiring.gather(self._betas, self._left(), self.semiring.ndim(self._betas) - 1)
        last = False if self.horizon is None else self.remaining.eq(1)
        weights = self.semiring.log(
            next_token_contraction(self.chain, self.semiring, self._alpha, beta, last)
        ).T
        weights = weights.masked_fill(self.remaining.eq(0)[:, None], -torch.inf)
        return weights if self._record is None else self._recovered(weights, self._record)

    def _recovered(
        self, weights: Float[Tensor, "batch vocab"], record: History
    ) -> Float[Tensor, "batch vocab"]:
        """The weights, with rows in log space in which a possible token (by the Boolean query) was lost."""
        zero = weights.isneginf() & self.remaining.ne(0)[:, None]
        assert self._shares is not None
        lost = self._shares.doubtful(self._alpha, self._left()) & self.remaining.ne(0)
        if bool(zero.any()):
            lost = lost | (zero & record.query("possible", self._in_boolean).mask()).any(1)
        if not bool(lost.any()):
            return weights
        exact = record.query("exact", self._more_exact).log_weights()
        return torch.where(lost[:, None], exact.to(weights.dtype), weights)

    def _more_exact(self) -> NextToken:
        """This query in float64, or in log space if it is."""
        if self.chain.parameters() and all(t.dtype == torch.float64 for t in self.chain.parameters()):
            return NextToken(self.chain, self.horizon, Log())
        finer = NextToken(self.chain.map(lambda t: t.double()), self.horizon, Real())
        if self._record is not None and finer._record is not None:
            finer._record.share(self._record, "possible")
        return finer

    def _in_boolean(self) -> NextToken:
        return NextToken(self.chain, self.horizon, Boolean())

    def ended(self) -> Float[Tensor, " batch"]:
        """The ⊕-total of the prefix itself, accepted as it is, as a logarithm (nats)."""
        final = outer(self.semiring, self.chain.final, len(self.remaining))
        return self.semiring.log(dot(self.semiring, self._alpha, final))

    def scores(self) -> Float[Tensor, "batch vocab"]:
        """m(v) over the ⊕-total of m (nats): log p(v | prefix, accepted) in Real, 0 or −inf in Boolean.

        −inf everywhere where no token is left. Raises :class:`EvidenceError` where a row has tokens left but no mass.
        """
        m = self.log_weights()
        total = self._total(m)
        if bool((total.isneginf() & (self.remaining > 0)).any()):
            raise EvidenceError(
                "the chain gives this prefix and its accepted continuations no probability at all"
            )
        return m - total.masked_fill(total.isneginf(), 0)[:, None]

    def _total(self, m: Tensor) -> Tensor:
        return m.amax(1) if isinstance(self.semiring, Boolean) else m.logsumexp(1)

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        """The tokens that still lead to an accepted sequence in the tokens left."""
        return self.log_weights() > -torch.inf

    def bitmask(self) -> Int[Tensor, "batch words"]:
        """The mask packed into 32-bit words, token v in bit v mod 32 of word v div 32 (the layout of xgrammar and vLLM)."""
        return pack_bits(self.mask())

    def advance(self, tokens: Tokens) -> None:
        """Append one token to each prefix; rows with no tokens left stay as they are.

        Raises :class:`VocabularyMismatch` where there is not one token of the vocabulary for each row.
        """
        tokens = as_tokens(tokens)
        self._check_tokens(tokens)
        sr, tokens = self.semiring, tokens.to(self.device)
        if self._shares is not None:
            self._shares.advance(self._alpha)
        after = apply(
            sr,
            self.chain.right.T,
            observe(sr, self.chain.inputs, apply(sr, self.chain.left.T, self._alpha), tokens),
        )
        if bool((done := self.remaining == 0).any()):
            both = sr.cat([after, self._alpha])
            row = torch.arange(len(tokens), device=self.device)
            after = sr.gather(both, torch.where(done, row + len(tokens), row), sr.ndim(both) - 1)
        self._alpha = after
        if self._record is not None:
            self._record.append(tokens.masked_fill(done, -1))
        self.remaining = (self.remaining - 1).clamp(min=0)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows that are ``moving``; the others stay as they are, whatever their token."""
        left = self.remaining
        tokens, moving = tokens.to(left.device), moving.to(left.device)
        self.remaining = left.masked_fill(~moving, 0)
        self.advance(tokens.masked_fill(~moving, 0))
        self.remaining = torch.where(moving, self.remaining, left)

    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order, with repetitions (resampling, beam search).

        Read as PyTorch reads an index: positions, or a Boolean for each row (those marked are kept). Raises
        :class:`ShapeError` for anything else.
        """
        indices = row_indices(indices, len(self.remaining)).to(self.device)
        if self._record is not None:
            self._record.select(indices)
        if self._shares is not None:
            self._shares.select(indices)
        self._alpha = self.semiring.gather(self._alpha, indices, self.semiring.ndim(self._alpha) - 1)
        self.remaining = self.remaining[indices]

    def _begin(self, batch: int) -> None:
        self._alpha = outer(self.semiring, self.chain.initial, batch)

    def _left(self) -> Int[Tensor, " batch"]:
        """The column of β after the next token."""
        return torch.zeros_like(self.remaining) if self.horizon is None else (self.remaining - 1).clamp(min=0)

    def _check_tokens(self, tokens: Tensor) -> None:
        if tokens.shape != self.remaining.shape:
            raise VocabularyMismatch(
                f"advance: one token for each of {len(self.remaining)} rows, not shape {tuple(tokens.shape)}"
            )
        if len(tokens) and (int(tokens.min()) < 0 or int(tokens.max()) >= self.vocab_size):
            raise VocabularyMismatch(f"advance: a token lies outside the vocabulary of {self.vocab_size}")


def as_tokens(tokens: Tokens) -> Int[Tensor, " batch"]:
    """Token ids as a tensor; :class:`VocabularyMismatch` for what is not whole."""
    found = torch.as_tensor(tokens)
    if found.is_floating_point() and found.numel():
        raise VocabularyMismatch(f"advance: token ids are whole numbers, not {found.dtype}")
    return found.long()


def pack_bits(mask: Bool[Tensor, "batch vocab"]) -> Int[Tensor, "batch words"]:
    """Booleans packed into little-endian 32-bit words."""
    padded = torch.nn.functional.pad(mask, (0, -mask.shape[1] % 32)).cpu().numpy()
    words = np.packbits(padded, axis=1, bitorder="little").view("<i4")
    return torch.from_numpy(words.astype(np.int32, copy=False)).to(mask.device)
