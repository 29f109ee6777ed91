"""The protocol of the next-token queries: which token may come next, and how probably, for a batch of prefixes.

    q.start(batch=16, budgets=…)       begin empty prefixes, with tokens left for each
    q.mask(), q.scores()               what may follow
    q.advance(tokens)                  append a token to each prefix
    q.select(indices)                  keep rows, after resampling or in beam search
    q.rollback(n), q.fork()            take tokens back, or try some on a copy
    q.validate(drafts), q.forced()     how many drafted tokens are allowed, and which must come

Implementations: :class:`~.generic.NextToken` (any chain and semiring), :class:`~.gcd.GCDQuery` (masks of an automaton, GCD
and LCD), :class:`~.pgcd.PGCDQuery` (HMM × automaton) and :class:`~.coarse.CoarseQuery` (an exact mask, and P-GCD with a
smaller automaton). All pass one contract test. Tensors are batch first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ..semirings.base import Semiring

Budgets = int | Int[Tensor, " batch"] | Sequence[int] | None
Tokens = Int[Tensor, " batch"] | Sequence[int]
Drafts = Int[Tensor, "batch length"] | Sequence[Sequence[int]]


class NextTokenQuery(Protocol):
    """What every next-token query offers.

    ``fork`` and ``copy.copy`` are the same: rows of its own, tables shared.

    Examples
    --------
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> query = tt.gcd(one, horizon=3).start(batch=2)
    >>> query.advance([0, 1])  # one row begins with 0, the other with 1
    >>> query.mask()
    tensor([[ True,  True],
            [ True, False]])
    >>> query.forced()  # after a 1 only zeros may come
    [[], [0, 0]]
    >>> query.validate([[0, 0, 1], [0, 0]])  # how many drafted tokens are allowed
    tensor([1, 2])
    >>> query.rollback(1)
    >>> query.select([0, 0, 0])
    >>> query
    GCDQuery(3 rows, a horizon of 3 tokens, 2 tokens)
    """

    @property
    def chain(self) -> Chain:
        """The chain that is asked: an automaton, an HMM or their product."""

    @property
    def semiring(self) -> Semiring[Any]:
        """The semiring of :meth:`log_weights`."""

    @property
    def automaton(self) -> Automaton | None:
        """The automaton that the masks are of; None for a query of any other chain."""

    @property
    def horizon(self) -> int | None:
        """The largest budget in tokens; None where budgets do not matter to what may follow."""

    @property
    def vocab_size(self) -> int:
        """V."""

    @property
    def device(self) -> torch.device:
        """Where scores are."""

    @property
    def has_lookahead(self) -> bool:
        """Whether :meth:`lookahead` has an answer: whether there is an HMM."""

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        """Begin ``batch`` empty prefixes, with ``budgets`` tokens left each (default: the horizon).

        Without a horizon the budgets only say after how many tokens a row ends, and by default no row ends. Raises
        :class:`BudgetTooSmall` if no accepted sequence has a budget's length, :class:`BudgetTooLarge` for a budget beyond
        the horizon, :class:`ShapeError` for budgets that do not fit the batch.
        """

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin an empty prefix for each of these budgets, which are not checked."""

    def resume(self, prefixes: Int[Tensor, "batch length"], budgets: Budgets = None) -> None:
        """Begin rows and append these tokens; nothing is checked for feasibility. Token −1 is left out."""

    def advance(self, tokens: Tokens) -> None:
        """Append one token to each prefix; rows with no tokens left stay as they are.

        Raises :class:`VocabularyMismatch` where there is not one token of the vocabulary for each row.
        """

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows that are ``moving``; the others stay as they are, whatever their token."""

    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order, with repetitions (resampling, beam search).

        Positions, or a Boolean for each row, as in ``x[indices]``. Raises :class:`ShapeError` for anything else.
        """

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` calls of ``advance`` and ``advance_some`` in every row (speculative decoding).

        Rows that were selected since stay selected: each goes back along its own prefix. Raises :class:`ShapeError` for more
        calls than there were since the start.
        """

    def fork(self) -> Self:
        """A copy with rows of its own, which shares all tables."""

    # ------------------------------------------------------------ answers

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        """The tokens that still lead to an accepted sequence in the tokens left."""

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        """``bitmask`` as a numpy array, written into ``out`` if given."""

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        """The mask as int32 words, token v in bit v mod 32 of word v div 32; written into ``out`` (on the CPU) if given.

        The layout of xgrammar and vLLM. Raises :class:`ShapeError` where ``out`` is not (batch, words) of int32.
        """

    def apply(self, logits: Float[Tensor, "batch vocab"]) -> None:
        """Set the logits of the tokens outside the mask to −inf, in place; columns past the vocabulary too.

        Raises :class:`VocabularyMismatch` where the shape does not fit.
        """

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        """Count how many of each row's drafted tokens are allowed, one after another; the rows stay as they are.

        The length of the longest prefix of which each token is in the mask after those before it, with the budget going
        down: ``draft[: q.validate([draft])[0]]`` is that prefix in a single row. ``tokens`` holds a sequence for each row, of
        any length; an id outside the vocabulary (−1 as padding) ends it. Raises :class:`ShapeError` for anything else.
        """

    def forced(self, limit: int = 256) -> list[list[int]]:
        """List the tokens that must come next in each row, at most ``limit``; the rows stay as they are.

        Jump-forward decoding without loss: a token is listed only where the mask holds no other, so a model under the mask
        would give it probability 1. Text that is certain has many tokenisations under a constraint compiled as usual, and so
        no certain tokens; under one compiled with ``canonical=True`` the tokens are those that the tokenizer writes. The end
        of sequence is listed where it must come, and not again after it.
        """

    def scores(self) -> Float[Tensor, "batch vocab"]:
        """log p(v | prefix, accepted) in nats, or 0 and −inf in the Boolean semiring.

        −inf everywhere where no token is left. Raises :class:`EvidenceError` where a row has tokens left but no mass.
        """

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """m(v): the ⊕-total over accepted sequences with the prefix and then v, as a logarithm (nats), on an absolute scale."""

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """log p_hmm(accepted | prefix, v), nats. Raises :class:`EvidenceError` for a query without an HMM."""

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """log p_hmm(accepted | prefix), nats. Raises :class:`EvidenceError` for a query without an HMM."""

    def ended(self) -> Float[Tensor, " batch"]:
        """The ⊕-total of the prefix as a complete sequence, as a logarithm (nats); −inf where it is not accepted."""

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Whether some sequence of exactly 0, 1, … horizon tokens is accepted (one entry, any length, without a horizon)."""
