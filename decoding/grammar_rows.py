"""Bit masks for the structured output of serving engines: each request is one row under its own constraint.

    grammars = Grammars(vocabulary)                      one in an engine; caches compiled constraints
    row = grammars.row(constraint, budget=64)            compiles: call it outside the engine's step, from any thread
    row.fill(bitmask, 3)                                 write the mask of the next token into row 3
    row.accept([17, 4]), row.validate([17, 4]), row.rollback(1), row.forced(), row.terminated, row.reset(), row.fork()

A mask holds the tokens after which the text can still be completed within the tokens left (globally constrained decoding).
Without a budget it holds those after which the text can be completed at any length. Nothing here imports an engine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass
from threading import Lock
from typing import Any, Self, final

import numpy as np
from jaxtyping import Int32
from torch import Tensor

from ..circuits.automaton import Automaton
from ..constraints import Limits, Vocabulary
from ..constraints.engine.tokens import fill
from ..errors import EvidenceError, VocabularyMismatch
from ..inference.next_token.gcd import GCDQuery
from ..inference.next_token.query import gcd
from .request import compile_request, within

MOST_COMPILED = 128  # compiled constraints that an engine caches
HORIZON = 1 << 20  # tokens; the largest budget, and the one of a request without a budget


@dataclass(eq=False)
class SharedQuery:
    """The GCD query of a constraint, which computes masks on first use, and the lock to hold while reading them."""

    query: GCDQuery
    lock: Lock


@final
class GrammarRow:
    """The text of one request, token by token, and the mask of its next token under a constraint.

    Args:
        tables: the masks of the constraint, shared with other rows.
        budget: the most tokens of the text, end-of-sequence included; ``None``: no budget.
        stops: tokens that end a text as end-of-sequence does.

    ``terminated``: whether the text has ended.

    Raises :class:`BudgetTooSmall` where no text of the constraint fits.
    """

    def __init__(self, tables: SharedQuery, budget: int | None = None, stops: Iterable[int] = ()) -> None:
        self._tables, self._query, self._lock = tables, tables.query.fork(), tables.lock
        self._budget = HORIZON if budget is None else budget
        self._eos = end_of_sequence(tables.query.automaton)
        self._ends = frozenset({self._eos, *stops})
        self._tokens: list[int] = []
        self.reset()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens accepted so far."""
        return tuple(self._tokens)

    @property
    def left(self) -> int:
        """The tokens left of the budget."""
        return self._budget - len(self._tokens)

    def fewest_after(self, tokens: Sequence[int]) -> int:
        """Return the fewest tokens that end a text that begins with these, end-of-sequence included; many, if none does."""
        return self._query.automaton.fewest_after(list(tokens))

    def accept(self, tokens: Sequence[int]) -> bool:
        """Append all tokens, or none if one is not allowed; return whether they were appended."""
        for n, token in enumerate(tokens):
            if not self._allows(token):
                self.rollback(n)
                return False
            self._append(token)
        return True

    def validate(self, tokens: Sequence[int]) -> list[int]:
        """Return the longest prefix of ``tokens`` that could be appended; append nothing."""
        before = len(self._tokens)
        for token in tokens:
            if not self._allows(token):
                break
            self._append(token)
        valid = self._tokens[before:]
        self.rollback(len(valid))
        return valid

    def forced(self, limit: int = 256) -> list[int]:
        """Return the next tokens, at most ``limit``, as long as exactly one is allowed; tokens that end the text are left out."""
        if self.terminated:
            return []
        with self._lock:
            tokens = self._query.forced(limit)[0]
        return [token for token in tokens if token not in self._ends]

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` tokens. Raises :class:`ShapeError` if there are fewer."""
        if n:
            self._query.rollback(n)
            del self._tokens[len(self._tokens) - n :]
            self.terminated = False

    def reset(self) -> None:
        """Take back all tokens."""
        with self._lock:
            self._query.start(1, self._budget)
        self._tokens, self.terminated = [], False

    def fork(self) -> Self:
        """Return an independent row with the same tokens; the tables are shared."""
        out = copy(self)
        out._query, out._tokens = self._query.fork(), list(self._tokens)
        return out

    def fill(self, bitmask: Int32[Tensor, "rows words"], row: int = 0) -> None:
        """Write the mask of the next token into a row of an int32 CPU tensor: token v is bit v mod 32 of word v div 32.

        Words past the vocabulary become zero. If the text has ended or its budget is used up, only the tokens that end a text
        are allowed. Raises :class:`VocabularyMismatch` if the row has fewer words than the vocabulary needs.
        """
        out = bitmask.numpy()
        if (asked := self.ask(out, row)) is not None:
            fill([(*asked, row)], out)
        self.end(out, row)

    def prepare(self) -> None:
        """Compute the mask of the next token now, so that :meth:`fill` only copies it."""
        with self._lock:
            self._query.words()

    def _append(self, token: int) -> None:
        ended = token in self._ends
        with self._lock:
            self._query.advance([self._eos if ended else token])
        self._tokens.append(token)
        self.terminated = ended

    def _allows(self, token: int) -> bool:
        if self.terminated or not 0 <= token < self._query.vocab_size:
            return False
        if token in self._ends:
            token = self._eos
        if not self.left:
            return token == self._eos
        with self._lock:
            return self._query.allows(0, token)

    @property
    def answer(self) -> Self:
        """The row itself: all of its text is under the constraint."""
        return self

    def ask(self, out: Int32[np.ndarray, "rows words"], at: int) -> tuple[Any, int, int] | None:
        """Return the automaton, state and budget that make the mask; ``None``: it is written already."""
        words = -(-self._query.vocab_size // 32)
        if out.shape[1] < words:
            raise VocabularyMismatch(f"the bit mask has {out.shape[1]} words, the vocabulary needs {words}")
        asked = None if self.terminated or not self.left else self._query.asked(0)
        if asked is None:
            line = out[at]
            line[:] = 0
            if self.terminated or not self.left:
                line[self._eos >> 5] |= bit(self._eos)
            else:
                with self._lock:
                    self._query.words(line[None, :words])
        return asked

    def end(self, out: Int32[np.ndarray, "rows words"], at: int) -> None:
        """Allow all tokens that end a text in a mask that has end-of-sequence."""
        if len(self._ends) > 1 and out[at, self._eos >> 5] & bit(self._eos):
            for end in self._ends:
                out[at, end >> 5] |= bit(end)


def bit(token: int) -> np.int32:
    """Return the bit of a token in its word of a mask."""
    return np.uint32(1 << (token & 31)).astype(np.int32)


class Grammars:
    """A thread-safe cache of the constraints that an engine has compiled, least recently used dropped first.

    Args:
        vocabulary: the tokens of the engine's model.
        stops: tokens that end a text beside the vocabulary's end-of-sequence token; they spell no text.
        limit: the most constraints in the cache.
        limits: bounds on building and compiling each constraint; a request cannot change them.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stops: Iterable[int] = (),
        *,
        limit: int = MOST_COMPILED,
        limits: Limits | None = None,
    ) -> None:
        self.stops, self._limit, self.limits = frozenset(stops), limit, limits or Limits()
        if any(not 0 <= stop < len(vocabulary) for stop in self.stops):
            raise VocabularyMismatch(
                f"stop tokens {sorted(self.stops)} lie outside the vocabulary of {len(vocabulary)}"
            )
        spelled = {stop for stop in self.stops if vocabulary.token_bytes[stop] is not None}
        self.vocabulary = vocabulary.adapted(silent=spelled)
        self._lock = Lock()
        self._kept: OrderedDict[str, Future[SharedQuery]] = OrderedDict()

    def row(self, constraint: str, budget: int | None = None) -> GrammarRow:
        """Return a new row under a constraint, its first mask computed; compile the constraint if it is not cached.

        ``constraint`` is the JSON text ``[kind, description, options]``, as in :mod:`.request`. Raises what
        :func:`.compile_request` raises, :class:`BudgetTooSmall` if no text of the constraint fits the budget, and
        :class:`UnsupportedConstraint` if the limits do not suffice to find that out.
        """
        tables = self._tables(constraint)

        def begun() -> GrammarRow:
            row = GrammarRow(tables, budget, self.stops)
            row.prepare()
            return row

        return within(self.limits, begun)

    def ready(self, constraint: str) -> bool:
        """Return whether a constraint is in the cache, so that :meth:`row` need not compile."""
        with self._lock:
            found = self._kept.get(constraint)
            return found is not None and found.done() and found.exception() is None

    def _tables(self, constraint: str) -> SharedQuery:
        """Return the tables of a constraint; of several threads that ask for the same one, the first compiles."""
        with self._lock:
            found = self._kept.get(constraint)
            if new := found is None:
                found = self._kept[constraint] = Future()
                if len(self._kept) > self._limit:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(constraint)
        if new:
            try:
                automaton = compile_request(constraint, self.vocabulary, self.limits)
                found.set_result(SharedQuery(gcd(automaton, HORIZON), Lock()))
            except BaseException as error:
                with self._lock:
                    self._kept.pop(constraint, None)
                found.set_exception(error)
        return found.result()


def end_of_sequence(automaton: Automaton) -> int:
    """Return the end-of-sequence token of an automaton. Raises :class:`EvidenceError` if it has none."""
    if automaton.eos_token_id is None:
        raise EvidenceError("the automaton has no end-of-sequence token to stop at")
    return automaton.eos_token_id
