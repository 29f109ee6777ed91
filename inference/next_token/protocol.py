"""The protocol of the next-token queries: which token may come next, and how probably, for a batch of prefixes.

    q.start(batch=16, budgets=…)       begin empty prefixes, each with a budget of tokens left
    q.mask(), q.scores()               which tokens may come next, and how probably
    q.advance(tokens)                  append one token to each prefix
    q.select(indices)                  keep rows, after resampling or in beam search
    q.rollback(n), q.fork()            take tokens back, or try some on a copy
    q.validate(drafts), q.forced()     how many drafted tokens are allowed, and which tokens must come

:func:`~.query.NextToken` chooses the implementation: :class:`~.gcd.GCDQuery` (masks of an automaton, GCD and LCD),
:class:`~.product_query.ProductQuery` (chain × automaton), :class:`~.pgcd.PGCDQuery` (with masks of their own) or
:class:`~.generic.DenseQuery` (any chain and semiring). All pass one contract test. Tensors are batch first: one row per prefix.
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
    """The interface that every next-token query implements.

    ``fork`` and ``copy.copy`` both return a copy that has its own rows and shares all tables.

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
        """The chain that the query runs on: an automaton, an HMM or their product."""

    @property
    def semiring(self) -> Semiring[Any]:
        """The semiring of :meth:`log_weights`."""

    @property
    def automaton(self) -> Automaton | None:
        """The automaton of the chain, or that of the masks; None for the dense query on any other chain."""

    @property
    def horizon(self) -> int | None:
        """The largest budget in tokens; None if the budget does not affect which tokens may follow."""

    @property
    def vocab_size(self) -> int:
        """The vocabulary size V, in tokens."""

    @property
    def device(self) -> torch.device:
        """The device that holds the scores."""

    @property
    def has_lookahead(self) -> bool:
        """True for an HMM, or another chain, beside an automaton: :meth:`lookahead` is available."""

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The number of tokens left in each row."""

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        """Begin ``batch`` empty prefixes, with ``budgets`` tokens left each (default: the horizon).

        ``budgets`` is one number for all rows or one for each. Without a horizon a budget only says after how many tokens its
        row ends, and by default no row ends. Raises :class:`BudgetTooSmall` if no accepted sequence has a budget's length,
        :class:`BudgetTooLarge` for a budget beyond the horizon, :class:`ShapeError` for budgets that do not fit the batch.
        """

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget, without checking the budgets."""

    def resume(self, prefixes: Int[Tensor, "batch length"], budgets: Budgets = None) -> None:
        """Begin one row per prefix and append its tokens, skipping −1; feasibility is not checked."""

    def advance(self, tokens: Tokens) -> None:
        """Append one token to each prefix; rows with no tokens left stay as they are.

        Raises :class:`VocabularyMismatch` unless ``tokens`` holds one token id of the vocabulary for each row.
        """

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True; the other rows ignore their token."""

    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order, with repetitions (resampling, beam search).

        ``indices`` holds positions or one Boolean per row, as in ``x[indices]``. Raises :class:`ShapeError` for anything else.
        """

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` calls of ``advance`` and ``advance_some`` in every row (speculative decoding).

        A selection of rows made in between is kept: each present row goes back along its own prefix. Raises
        :class:`ShapeError` if fewer than ``n`` calls were made since the start.
        """

    def fork(self) -> Self:
        """Return a copy that has its own rows and shares all tables."""

    # ------------------------------------------------------------ answers

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        """Return True for each token after which the tokens left suffice for an accepted sequence."""

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        """Return :meth:`bitmask` as a numpy array, written into ``out`` if given."""

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        """Return the mask packed into int32 words: token v is bit v mod 32 of word v div 32.

        The words are written into ``out`` (on the CPU) if given. xgrammar and vLLM use this layout. Raises
        :class:`ShapeError` if ``out`` is not (batch, words) of int32.
        """

    def apply(self, logits: Float[Tensor, "batch vocab"]) -> None:
        """Set the logits of tokens outside the mask, and of columns past the vocabulary, to −inf in place.

        Raises :class:`VocabularyMismatch` unless ``logits`` has one row per prefix and at least V columns.
        """

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        """Count how many of each row's drafted tokens are allowed, one after another; the rows stay as they are.

        The count is the length of the longest prefix of the draft in which every token is in the mask at its position, each
        token using up one of the budget. For a single row ``draft[: q.validate([draft])[0]]`` is that prefix. ``tokens`` holds
        one sequence per row, of any length; an id outside the vocabulary (−1 as padding) ends it. Raises :class:`ShapeError`
        for anything else.
        """

    def forced(self, limit: int = 256) -> list[list[int]]:
        """List the tokens that must come next in each row, at most ``limit``; the rows stay as they are.

        Jump-forward decoding without loss: a token is listed only where the mask holds no other, so a model under the mask
        gives it probability 1. A constraint compiled as usual allows every tokenisation of a text, so even a text that is
        certain has no certain tokens; compiled with ``canonical=True`` the constraint allows only the tokenizer's own
        tokenisation. An end of sequence that must come is listed once.
        """

    def scores(self) -> Float[Tensor, "batch vocab"]:
        """Return log p(v | prefix, accepted) in nats: :meth:`log_weights` divided by its ⊕-total over v.

        In the Boolean semiring that is 0 if v is allowed, else −inf; in MaxProduct it is 0 for the best token. A row with no
        tokens left is −inf throughout. Raises :class:`EvidenceError` if a row has tokens left but no mass.
        """

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """Return log m(v) in nats, not normalised: the ⊕-total of the accepted sequences that begin with the prefix and v."""

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_hmm(accepted | prefix, v) in nats. Raises :class:`EvidenceError` for a query without an HMM."""

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(accepted | prefix) in nats. Raises :class:`EvidenceError` for a query without an HMM."""

    def ended(self) -> Float[Tensor, " batch"]:
        """Return the ⊕-total of the prefix as a complete sequence, as a logarithm (nats); −inf if it is not accepted."""

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Return for each n = 0, 1, … horizon whether some sequence of n tokens is accepted.

        Without a horizon there is one entry: whether any sequence is accepted.
        """
