"""P-GCD with an exact mask and a coarse guide: the HMM multiplied with a smaller automaton than the constraint's own.

    mask(v)       1[x_<t v can be completed to a text of C within the budget]        the constraint itself, exact
    lookahead(v)  log p_hmm(G | x_<t, v), −∞ where mask(v) is 0                      a guide G that accepts all of C

G may forget how long a string is or which members of an object have been written; the more G forgets, the fewer states the
HMM is multiplied with. A sampler's importance weights correct for the difference, so samples stay exact whatever G is; a coarser
G makes the weights vary more. If G accepts exactly C, this is P-GCD itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Self, final

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.chain import Chain
from ...fingerprints import check_vocabularies
from .ahead import FORCED_LIMIT
from .gcd import GCDQuery
from .guide_query import GuideQuery
from .pgcd_query import PGCDQuery
from .protocol import Budgets, Drafts, Tokens
from .rows import Copied, conditionals, described, mask_logits, resume


@final
class CoarseQuery(Copied):
    """A :class:`~.protocol.NextTokenQuery` with an exact mask and the lookahead of a coarser automaton.

    Parameters
    ----------
    exact
        The masks of the constraint: :func:`~.gcd.gcd`.
    guide
        The real query on HMM × guide: :func:`~.pgcd.pgcd` of an automaton that accepts at least the same texts, with the
        same horizon or a larger one.

    ``log_lookahead`` is the guide's.
    """

    has_lookahead = True
    resume, apply, fork = resume, mask_logits, copy

    def __init__(self, exact: GCDQuery, guide: PGCDQuery | GuideQuery) -> None:
        check_vocabularies("the mask", exact, "the guide", guide)
        self.exact, self.guide = exact, guide
        self.automaton, self.horizon, self.vocab_size = exact.automaton, exact.horizon, exact.vocab_size
        self.semiring, self.device = guide.semiring, guide.device
        self._ahead: Tensor | None = None  # the lookahead of the present rows, once computed

    __repr__ = described

    def __copy__(self) -> Self:
        out = super().__copy__()
        out.exact, out.guide = copy(self.exact), copy(self.guide)
        return out

    @property
    def chain(self) -> Chain:
        """The product of the HMM and the guide's automaton."""
        return self.guide.chain

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        return self.exact.remaining

    @property
    def nbytes(self) -> int:
        """The size of the guide's backward messages in bytes."""
        return self.guide.nbytes

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        self.guide.take_up(self.exact.start(batch, budgets).remaining)
        self._ahead = None
        return self

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self.exact.take_up(budgets)
        self.guide.take_up(budgets)
        self._ahead = None

    def advance(self, tokens: Tokens) -> None:
        self.exact.advance(tokens)
        self.guide.advance(tokens)
        self._ahead = None

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        self.exact.advance_some(tokens, moving)
        self.guide.advance_some(tokens, moving)
        self._ahead = None

    def select(self, indices: Tensor | Sequence[int]) -> None:
        self.exact.select(indices)
        self.guide.select(indices)
        self._ahead = None

    def rollback(self, n: int) -> None:
        self.exact.rollback(n)
        self.guide.rollback(n)
        self._ahead = None

    # ------------------------------------------------------------ answers

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        return self.exact.feasible_lengths()

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self.exact.mask()

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        return self.exact.words(out)

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        return self.exact.bitmask(out)

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        return self.exact.validate(tokens)

    def forced(self, limit: int = FORCED_LIMIT) -> list[list[int]]:
        return self.exact.forced(limit)

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_hmm(x_<t, v, G) in nats, −∞ where the mask is False."""
        return self._allowed(lambda: self.guide.log_weights())

    def scores(self) -> Float[Tensor, "batch vocab"]:
        return conditionals(self.log_weights(), self.remaining, self.semiring)

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_hmm(G | x_<t, v) in nats, −∞ where the mask is False."""
        if self._ahead is None:
            self._ahead = self._allowed(lambda: self.guide.lookahead())
        return self._ahead

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(G | x_<t) in nats."""
        return self.guide.log_lookahead()

    def ended(self) -> Float[Tensor, " batch"]:
        return self.exact.ended()

    def _allowed(self, ask: Callable[[], Float[Tensor, "batch vocab"]]) -> Float[Tensor, "batch vocab"]:
        """Return the guide's scores, −∞ where the mask is False, filling in those lost to its tolerance."""
        mask = self.mask().to(self.device)
        found = ask().masked_fill(~mask, -torch.inf)
        if isinstance(self.guide, GuideQuery) and bool((missing := mask & found.isneginf()).any()):
            self.guide.settle(missing)
            found = ask().masked_fill(~mask, -torch.inf)
        return found
