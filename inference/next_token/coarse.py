"""P-GCD with an exact mask and a coarse guide: the HMM multiplied with a smaller automaton than the constraint's own.

    mask(v)       1[x_<t v can be completed to a text of C within the budget]        the constraint itself, exact
    lookahead(v)  log p_hmm(G | x_<t, v), −∞ where mask(v) is 0                      a guide G that accepts all of C

G may forget how long a string is or which members an object has seen; the more it forgets, the fewer states the HMM is
multiplied with. A sampler's weights correct for what it believes, so samples stay exact whatever G is; a coarser G makes them
vary more. Where G accepts exactly C this is P-GCD itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import Automaton
from ...errors import VocabularyMismatch
from ..semirings.scaled_real import Real
from .bitmask import BitmaskQuery
from .generic import Tokens
from .pgcd import PGCDQuery


class CoarseQuery(BitmaskQuery):
    """The next-token query of an exact mask and a coarse guide.

    Parameters
    ----------
    exact
        The Boolean query of the constraint: :func:`~.masks.gcd`.
    guide
        The real query on HMM × guide: :func:`~.guided.pgcd` of an automaton that accepts at least the same texts, with the
        same horizon or a larger one.
    automaton
        The automaton that ``exact`` was made of.

    ``log_lookahead`` is the guide's: −log p_hmm(G | x_<t) cancels between one token and the next.
    """

    has_lookahead = True

    def __init__(self, exact: BitmaskQuery, guide: PGCDQuery, automaton: Automaton) -> None:
        if exact.vocab_size != guide.vocab_size:
            raise VocabularyMismatch(f"the mask has {exact.vocab_size} tokens, the guide {guide.vocab_size}")
        self.exact, self.guide, self.automaton = exact, guide, automaton
        self.horizon, self.semiring, self.vocab_size = exact.horizon, Real(), exact.vocab_size
        self.hmm, self.device = guide.hmm, guide.device
        self._record = self._shares = None

    def __copy__(self) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.exact, out.guide = copy(self.exact), copy(self.guide)
        return out

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""
        return self.exact.remaining

    @remaining.setter
    def remaining(self, budgets: Int[Tensor, " batch"]) -> None:
        self.exact.remaining = budgets
        self.guide.remaining = budgets.to(self.guide.device)

    # ------------------------------------------------------------ beginning and moving on

    def _infeasible(self, given: Int[Tensor, " batch"]) -> int | None:
        return self.exact._infeasible(given)

    def _needed(self, given: int) -> int | None:
        return self.exact._needed(given)

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        return self.exact.feasible_lengths()

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self.exact.take_up(budgets.cpu())
        self.guide.take_up(budgets)

    def advance(self, tokens: Tokens) -> None:
        self.exact.advance(tokens)
        self.guide.advance(tokens)

    def select(self, indices: Tensor | Sequence[int]) -> None:
        self.exact.select(indices)
        self.guide.select(indices)

    # ------------------------------------------------------------ answers

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self.exact.mask()

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        return self.exact.bitmask(out)

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        return self.exact.words(out)

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """log p_hmm(x_<t, v, the rest in the guide's language) of the tokens allowed, nats."""
        return self._allowed(self.guide.log_weights())

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """log p_hmm(guide | x_<t, v), nats, −∞ where the mask is False."""
        return self._allowed(self.guide.lookahead())

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """log p_hmm(guide | x_<t), nats."""
        return self.guide.log_lookahead()

    def ended(self) -> Float[Tensor, " batch"]:
        return self.exact.ended()

    def _total(self, m: Tensor) -> Tensor:
        return m.logsumexp(1)

    def _allowed(self, scores: Float[Tensor, "batch vocab"]) -> Float[Tensor, "batch vocab"]:
        return scores.masked_fill(~self.mask().to(scores.device), -torch.inf)
