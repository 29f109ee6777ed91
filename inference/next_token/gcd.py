"""GCD and LCD: the Boolean next-token query on an automaton, by cached masks (Dang et al. 2026, Eqs. 1–4).

Each row has a state of the automaton and a number of tokens left. Each state's full mask, of the tokens that can be completed at
any length, is kept. It applies unless the tokens left are too few for some of these tokens, near the end of a budget; the
mask then has only the tokens after which acceptance is close enough. Masks come from :class:`~.finite_masks.FiniteMasks` for an
explicit automaton, from :class:`~.lazy_masks.LazyMasks` for one whose states are made on demand. Tensors are made for results
only. Equal, by test, to the Boolean :class:`~.generic.DenseQuery`.
"""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import Automaton
from ..arguments import whole
from ..semirings.linear import Boolean
from .ahead import FORCED_LIMIT, draft_lists
from .finite_masks import FiniteMasks
from .lazy_masks import LazyMasks, TokenStates
from .protocol import Budgets, Drafts, Tokens
from .row_query import RowQuery
from .rows import (
    Shortfall,
    buffer_of,
    check_horizon,
    check_words,
    checked_tokens,
    no_hmm,
    single_bit,
    unpack_bits,
)

Row = tuple[Any, int, Any]  # the state, the tokens left, and the row one token earlier (None at the start)

Masks = FiniteMasks | LazyMasks


@final
class GCDQuery(RowQuery):
    """The masks of an automaton for a batch of prefixes: a :class:`~.protocol.NextTokenQuery`.

    ``horizon``: the largest budget in tokens, None for no budget (LCD). ``masks``: the source of masks; by default one is made
    for the automaton. Raises :class:`BudgetTooSmall` for a horizon below one token.
    """

    _rows: list[Row]  # never written to: copies share it
    lookahead, log_lookahead = no_hmm, no_hmm

    def __init__(self, automaton: Automaton, horizon: int | None, masks: Masks | None = None) -> None:
        check_horizon(horizon, "GCDQuery")
        self.automaton, self.horizon, self.semiring = automaton, horizon, Boolean()
        self.device, self.vocab_size = torch.device("cpu"), automaton.vocab_size
        self._renews = masks is None  # a table of states that is full gives way to a new one
        if masks is None:
            lazy = automaton.lazy
            masks = FiniteMasks(automaton, horizon) if lazy is None else LazyMasks(lazy, horizon)
        self._masks: Masks = masks
        self._width = -(-automaton.vocab_size // 32)
        self._length = 0  # calls of advance since the start
        self._checked: ndarray | None = None  # an array of one row for each row, in one piece
        self._buffer: Tensor | None = None  # the last buffer that `bitmask` wrote to
        self._pointer = 0  # its address
        self._array: Int32[ndarray, "batch words"]  # its memory

    @property
    def chain(self) -> Automaton:
        return self.automaton

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        return torch.tensor([left for _, left, _ in self._rows], dtype=torch.long)

    @property
    def states(self) -> list[Any]:
        """The state of each row: a tuple of live states of an explicit automaton, a state number of a lazy one."""
        return [row[0] for row in self._rows]

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        if self._renews and isinstance(self._masks, LazyMasks):
            self._masks = self._masks.of(self.automaton.lazy)
        return super().start(batch, budgets)

    def _shortfall(self, lengths: list[int]) -> Shortfall | None:
        return self._masks.shortfall(lengths)

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self._begin(budgets.tolist())

    def _begin(self, budgets: list[int]) -> None:  # without a tensor
        self._rows = [(self._masks.start_state, left, None) for left in budgets]
        self._length, self._checked = 0, None

    def advance(self, tokens: Tokens) -> None:
        rows, size = self._rows, self.vocab_size
        if isinstance(tokens, Tensor) and tokens.ndim == 1:
            tokens = tokens.tolist()
        if not isinstance(tokens, list) or len(tokens) != len(rows):
            tokens = checked_tokens(tokens, len(rows), size).tolist()
        for token in tokens:
            if type(token) is not int or not 0 <= token < size:  # an integer of another type, or it raises
                tokens = checked_tokens(tokens, len(rows), size).tolist()
                break
        self._rows = self._masks.after(rows, tokens)
        self._length += 1

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        before, moving = self._rows, moving.cpu()
        self.advance(tokens.cpu().masked_fill(~moving, 0))
        for i in (~moving).nonzero()[:, 0].tolist():  # of the new list
            self._rows[i] = *before[i][:2], before[i]

    def _size(self) -> int:
        return len(self._rows)

    def _appended(self) -> int:
        return self._length

    def _keep(self, indices: Int[Tensor, " rows"]) -> None:
        self._rows = [self._rows[i] for i in indices.tolist()]
        self._checked = None

    def _back(self, n: int) -> None:
        for _ in range(n):
            self._rows = [before for _, _, before in self._rows]
        self._length -= n

    # ------------------------------------------------------------ answers

    @property
    def exact(self) -> bool:
        """Whether each row's mask has all tokens that can be completed within the tokens left.

        It may lack some where a constraint has items that must differ, or objects with more than five kinds of members, and the
        budget is short: the fewest tokens of those may be upper bounds. A mask never has a token too many.
        """
        return isinstance(self._masks, FiniteMasks) or self._masks.exact(self._rows)

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        return self._masks.feasible_lengths()

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return unpack_bits(self.words(), self.vocab_size)

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        if out is None:
            out = np.empty((len(self._rows), self._width), np.int32)
        elif out is not self._checked:
            check_words(out, len(self._rows), self._width)
            if not out.flags.c_contiguous:
                out[:] = self.words()
                return out
            self._checked = out
        self._masks.fill(self._rows, out)
        return out

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        if out is None:
            return torch.from_numpy(self.words())
        if out is not self._buffer or out.data_ptr() != self._pointer:
            self._buffer, self._pointer, self._array = out, out.data_ptr(), buffer_of(out)
        self.words(self._array)
        return out

    def validate(self, tokens: Drafts) -> Int[Tensor, " batch"]:
        drafts = draft_lists(tokens, len(self._rows))
        return torch.tensor(
            [self._allowed(*row[:2], draft) for row, draft in zip(self._rows, drafts, strict=True)],
            dtype=torch.long,
        )

    def _allowed(self, state: Any, left: int, draft: list[int]) -> int:
        """Count the tokens of a draft that are allowed one after another, from a state with ``left`` tokens left."""
        for count, token in enumerate(draft):
            if not 0 <= token < self.vocab_size or not self._masks.allows(state, left, token):
                return count
            state, left = self._masks.step(state, token), left - 1
        return len(draft)

    def forced(self, limit: int = FORCED_LIMIT) -> list[list[int]]:
        limit = whole(limit, "forced: limit", 0)
        return [self._forced(state, left, limit) for state, left, _ in self._rows]

    def _forced(self, state: Any, left: int, limit: int) -> list[int]:
        """Return the tokens that must follow a state; EOS is not forced where the text may end without it."""
        found: list[int] = []
        while len(found) < limit:
            token = single_bit(self._masks.mask(state, left))
            if token is None or (token == self.automaton.eos_token_id and self._masks.accepting(state)):
                break
            found.append(token)
            state, left = self._masks.step(state, token), left - 1
        return found

    def allows(self, row: int, token: int) -> bool:
        """Return whether the mask of a row has a token."""
        state, left, _ = self._rows[row]
        return self._masks.allows(state, left, token)

    def asked(self, row: int) -> tuple[TokenStates, int, int] | None:
        """Return the lazy automaton, state and budget that make the mask of a row; ``None`` for an explicit automaton."""
        if isinstance(self._masks, FiniteMasks):
            return None
        state, left, _ = self._rows[row]
        return self._masks.tokens, state, self._masks.budget(left)

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        return torch.zeros(len(self._rows), self.vocab_size).masked_fill(~self.mask(), -torch.inf)

    def ended(self) -> Float[Tensor, " batch"]:
        accepted = torch.tensor([self._masks.accepting(state) for state in self.states], dtype=torch.bool)
        return torch.zeros(len(accepted)).masked_fill(~accepted, -torch.inf)
