"""Rows for models that reason first: the reasoning is free, and ends while the tokens left suffice for the answer.

    row = ReasonedRow(grammars, constraint, end=[17], budget=64)     as Grammars.row(constraint, 64), with reasoning before it

The reasoning ends with the first occurrence of the tokens ``end``. Until then every token is allowed but those that end a text;
once only the tokens of ``end`` and of the shortest answer are left, ``end`` is all that is allowed. Tokens of ``opening``, as one
that begins a call, end the reasoning too and are the answer's first; they are allowed where an answer that begins so fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Self, final

import numpy as np
from jaxtyping import Int32
from torch import Tensor

from ..constraints.engine import tokens as engine
from ..errors import BudgetTooSmall
from .grammar_rows import HORIZON, GrammarRow, Grammars


@final
class ReasonedRow:
    """The text of one request, reasoning and answer; methods and properties are those of :class:`.GrammarRow`.

    Args:
        grammars: the constraints of the engine.
        constraint: that of the answer, as for :meth:`.Grammars.row`.
        end: the tokens that end the reasoning.
        budget: the most tokens of reasoning and answer, end-of-sequence included; ``None``: no budget.
        at_most: the most tokens of the reasoning without ``end``; ``None``: what the answer leaves.
        opening: tokens that end the reasoning and are the first of the answer.

    Raises what :meth:`.Grammars.row` raises, and :class:`BudgetTooSmall` where ``end`` and an answer do not fit.
    """

    def __init__(
        self,
        grammars: Grammars,
        constraint: str,
        end: Sequence[int],
        budget: int | None = None,
        at_most: int | None = None,
        opening: Iterable[int] = (),
    ) -> None:
        self._grammars, self._constraint, self._end = grammars, constraint, list(end)
        self._budget = HORIZON if budget is None else budget
        self._first = grammars.row(constraint, budget)  # the answer without reasoning
        self._fewest = self._first.fewest_after([])
        self._opening = {token: self._first.fewest_after([token]) for token in opening}
        most = self._budget - self._fewest
        if most < len(end):
            raise BudgetTooSmall(needed=self._fewest + len(end), given=self._budget)
        self._most = most if at_most is None else min(most, at_most + len(end))  # tokens of the reasoning
        self._stops = {grammars.vocabulary.eos_token_id, *grammars.stops} - {*end}
        self._reasoning: list[int] = []
        self.answer: GrammarRow | None = None  # once the reasoning has ended

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens accepted so far."""
        return (*self._reasoning, *(self.answer.tokens if self.answer else ()))

    @property
    def left(self) -> int:
        """The number of tokens left in the budget."""
        return self.answer.left if self.answer else self._budget - len(self._reasoning)

    @property
    def terminated(self) -> bool:
        """Whether the text has ended."""
        return self.answer is not None and self.answer.terminated

    def accept(self, tokens: Sequence[int]) -> bool:
        """Append all tokens, or none if one is not allowed in the answer; in the reasoning every token is appended."""
        for n, token in enumerate(tokens):
            if not self._append(token):
                self.rollback(n)
                return False
        return True

    def validate(self, tokens: Sequence[int]) -> list[int]:
        """Return the longest prefix of ``tokens`` that could be appended; append nothing."""
        valid = 0
        for token in tokens:
            if (self.answer is None and not self._allows(token)) or not self._append(token):
                break
            valid += 1
        self.rollback(valid)
        return list(tokens[:valid])

    def forced(self, limit: int = 256) -> list[int]:
        """Return the next tokens of the answer as long as exactly one is allowed; none in the reasoning."""
        return [] if self.answer is None else self.answer.forced(limit)

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` tokens."""
        if self.answer is not None:
            last = min(n, len(self.answer.tokens))
            self.answer.rollback(last)
            n -= last
        del self._reasoning[len(self._reasoning) - n :]
        if self.answer is not None and not self.answer.tokens and not self._ended():
            self.answer = None

    def reset(self) -> None:
        """Take back all tokens."""
        self._reasoning, self.answer = [], None

    def fork(self) -> Self:
        """Return an independent row with the same tokens."""
        out = copy(self)
        out._reasoning, out.answer = list(self._reasoning), self.answer and self.answer.fork()
        return out

    def fill(self, bitmask: Int32[Tensor, "rows words"], row: int = 0) -> None:
        """Write the mask of the next token into a row, as :meth:`.GrammarRow.fill` does."""
        if self.answer is not None:
            return self.answer.fill(bitmask, row)
        due, size = self._due(), len(self._grammars.vocabulary)
        line = bitmask.numpy()[row].view(np.uint32)
        line[:] = 0
        if due is None:
            line[: size // 32] = 0xFFFFFFFF
            line[size // 32 : -(-size // 32)] = (1 << size % 32) - 1
        for token in self._shut() if due is None else [due]:
            line[token >> 5] ^= np.uint32(1 << (token & 31))

    def _due(self) -> int | None:
        """Return the token of ``end`` that must come next in the reasoning; ``None``: it may go on."""
        if len(self._reasoning) + 1 + len(self._end) <= self._most:
            return None
        begun = range(min(len(self._end) - 1, len(self._reasoning)), 0, -1)
        return self._end[next((n for n in begun if self._reasoning[-n:] == self._end[:n]), 0)]

    def _shut(self) -> set[int]:
        """Return the tokens that are not allowed in the reasoning: those that end a text, and openings of answers too long."""
        left = self._budget - len(self._reasoning)
        return self._stops | {token for token, needed in self._opening.items() if needed >= left}

    def _allows(self, token: int) -> bool:
        """Return whether the mask of the reasoning has a token."""
        due = self._due()
        if due is not None:
            return token == due
        return 0 <= token < len(self._grammars.vocabulary) and token not in self._shut()

    def _append(self, token: int) -> bool:
        if self.answer is not None:
            return self.answer.accept([token])
        if token in self._opening:
            answer = self._begun()
            if answer.accept([token]):
                self.answer = answer
            return self.answer is not None
        self._reasoning.append(token)
        if self._ended():
            self.answer = self._begun()
        return True

    def _ended(self) -> bool:
        return self._reasoning[-len(self._end) :] == self._end

    def _begun(self) -> GrammarRow:
        """Return the row of an answer that begins now. Where none fits the tokens left, the engine will cut it."""
        left = self._budget - len(self._reasoning)
        return self._grammars.row(self._constraint, max(left, self._fewest))


def fill(rows: Iterable[tuple[GrammarRow | ReasonedRow, int]], bitmask: Int32[Tensor, "rows words"]) -> None:
    """Write the masks of rows under any constraints, each into its row of a bit mask, as :meth:`.GrammarRow.fill` does.

    The engine is called once, and holds no interpreter lock meanwhile.
    """
    out, asked, answers = bitmask.numpy(), [], []
    for row, at in rows:
        answer = row.answer
        if answer is None:
            row.fill(bitmask, at)  # it reasons
            continue
        if (found := answer.ask(out, at)) is not None:
            asked.append((*found, at))
        answers.append((answer, at))
    engine.fill(asked, out)
    for answer, at in answers:
        answer.end(out, at)
