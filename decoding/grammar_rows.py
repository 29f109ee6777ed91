"""Constraints of requests as serving engines' structured output asks for them: one row of a bit mask for each request.

    grammars = Grammars(vocabulary)                      one in an engine; compiled constraints are kept
    row = grammars.row(constraint, budget=64)            compiles: call it beside the engine's step, from any thread
    row.fill(bitmask, 3)                                 the tokens that may come next, in row 3
    row.accept([17, 4]), row.validate([17, 4]), row.rollback(1), row.forced(), row.terminated, row.reset(), row.fork()

A mask holds the tokens after which the text can still be completed within the tokens left (globally constrained decoding).
Without a budget it holds those after which it can be completed at some length. Nothing here imports an engine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from copy import copy
from threading import Lock
from typing import NamedTuple, Self, final

import numpy as np
from jaxtyping import Int32
from torch import Tensor

from ..circuits.automaton import Automaton
from ..constraints import Limits, Vocabulary
from ..errors import EvidenceError, VocabularyMismatch
from ..inference.next_token.gcd import GCDQuery, gcd
from .request import compile_request

MOST_COMPILED = 128  # constraints kept in an engine
HORIZON = 1 << 20  # tokens; the largest budget


class Tables(NamedTuple):
    """The masks of a constraint, and the lock that whoever reads them holds: they are made as they are first needed."""

    query: GCDQuery
    lock: Lock


@final
class GrammarRow:
    """The text of one request under a constraint.

    Args:
        tables: the masks of its constraint, shared with other rows.
        budget: tokens that may come, end-of-sequence included; ``None``: no budget.
        stops: tokens that end a text as end-of-sequence does.

    ``terminated``: whether the text has ended.

    Raises :class:`BudgetTooSmall` where no text of the constraint fits.
    """

    def __init__(self, tables: Tables, budget: int | None = None, stops: Iterable[int] = ()) -> None:
        self._query, self._lock = tables.query.fork(), tables.lock
        self._budget = HORIZON if budget is None else budget
        self._eos = end_of_sequence(tables.query.automaton)
        self._ends = frozenset({self._eos, *stops})
        self._tokens: list[int] = []
        self._words: memoryview | None = None  # what may come next, once it was asked for
        # The last bit mask that was filled, where it lies, and the row.
        self._target: tuple[Tensor | None, int, int] = None, 0, 0
        self._line: memoryview  # the words of that row that have tokens
        self._rest: Int32[np.ndarray, " words"]  # those past the vocabulary
        self.reset()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens accepted so far."""
        return tuple(self._tokens)

    def accept(self, tokens: Sequence[int]) -> bool:
        """Append tokens, all of them or, where one is not allowed, none; return whether they were appended."""
        for n, token in enumerate(tokens):
            if not self._allows(token):
                self.rollback(n)
                return False
            self._append(token)
        return True

    def validate(self, tokens: Sequence[int]) -> list[int]:
        """The longest beginning of ``tokens`` that could be appended; nothing is."""
        before = len(self._tokens)
        for token in tokens:
            if not self._allows(token):
                break
            self._append(token)
        valid = self._tokens[before:]
        self.rollback(len(valid))
        return valid

    def forced(self, limit: int = 256) -> list[int]:
        """The tokens that must come next, at most ``limit``: each is the only one that is allowed. The end is not listed."""
        if self.terminated:
            return []
        with self._lock:
            tokens = self._query.forced(limit)[0]
        return [token for token in tokens if token not in self._ends]

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` tokens. Raises :class:`ShapeError` where there are fewer."""
        if n:
            self._query.rollback(n)
            del self._tokens[len(self._tokens) - n :]
            self.terminated, self._words = False, None

    def reset(self) -> None:
        """Take back all tokens."""
        with self._lock:
            self._query.start(1, self._budget)
        self._tokens, self.terminated, self._words = [], False, None

    def fork(self) -> Self:
        """A row of its own with the same tokens; tables are shared."""
        out = copy(self)
        out._query, out._tokens = self._query.fork(), list(self._tokens)
        return out

    def fill(self, bitmask: Int32[Tensor, "rows words"], row: int = 0) -> None:
        """Write the mask into a row of an int32 tensor on the CPU: token v is bit v mod 32 of word v div 32.

        Tokens past the vocabulary are not allowed. A text that has ended, or has no tokens left, may only end.
        Raises :class:`VocabularyMismatch` where the row is too short.
        """
        words = self._words or self._read()
        last, at, last_row = self._target
        if bitmask is not last or row != last_row or bitmask.data_ptr() != at:  # the views of it are kept
            line = bitmask.numpy()[row]
            if len(line) < len(words):
                raise VocabularyMismatch(
                    f"the bit mask has {len(line)} words, the vocabulary needs {len(words)}"
                )
            self._target, self._line = (bitmask, bitmask.data_ptr(), row), line[: len(words)].data
            self._rest = line[len(words) :]
        self._line[:] = words
        self._rest[:] = 0

    def prepare(self) -> None:
        """Make the mask of what may come next now, so that :meth:`fill` only copies it."""
        self._read()

    def _append(self, token: int) -> None:
        ended = token in self._ends
        with self._lock:
            self._query.advance([self._eos if ended else token])
        self._tokens.append(token)
        self.terminated, self._words = ended, None

    def _allows(self, token: int) -> bool:
        if self.terminated or not 0 <= token < self._query.vocab_size:
            return False
        words = self._words or self._read()
        return bool(words[token >> 5] >> (token & 31) & 1)

    def _read(self) -> memoryview:
        """What may come next, as words."""
        with self._lock:
            words = self._query.row_words(0)
        over = self.terminated or len(self._tokens) >= self._budget
        if over or (len(self._ends) > 1 and words[self._eos >> 5] >> (self._eos & 31) & 1):
            own = np.zeros(len(words), np.uint32) if over else np.array(words, np.int32).view(np.uint32)
            for end in self._ends:
                own[end >> 5] |= np.uint32(1 << (end & 31))
            words = own.view(np.int32).data
        self._words = words
        return words


class Grammars:
    """The compiled constraints of an engine, the newest ``limit`` of them; safe to use from several threads.

    Args:
        vocabulary: the tokens of the engine's model.
        stops: tokens that end a text beside the vocabulary's end-of-sequence token; they stand for no text.
        limits: what each constraint may take to be built and compiled; a request cannot change them.
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
        words = vocabulary.token_bytes
        if any(words[stop] is not None for stop in self.stops):
            without = [None if i in self.stops else word for i, word in enumerate(words)]
            vocabulary = Vocabulary(without, vocabulary.eos_token_id)
        self.vocabulary = vocabulary
        self._lock = Lock()
        self._kept: OrderedDict[str, Future[Tables]] = OrderedDict()

    def row(self, constraint: str, budget: int | None = None) -> GrammarRow:
        """A row of a constraint with its first mask; the constraint is compiled if it is new.

        ``constraint`` is JSON text of its kind, its description and its options, as in :mod:`.request`. Raises what
        :func:`.compile_request` raises, and :class:`BudgetTooSmall` where nothing fits the budget.
        """
        row = GrammarRow(self._tables(constraint), budget, self.stops)
        row.prepare()
        return row

    def ready(self, constraint: str) -> bool:
        """Whether a constraint is compiled, so that :meth:`row` takes no time."""
        with self._lock:
            found = self._kept.get(constraint)
            return found is not None and found.done() and found.exception() is None

    def _tables(self, constraint: str) -> Tables:
        """The masks of a constraint; threads that ask for one constraint at once wait for the first of them."""
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
                found.set_result(Tables(gcd(automaton, HORIZON), Lock()))
            except BaseException as error:
                with self._lock:
                    self._kept.pop(constraint, None)
                found.set_exception(error)
        return found.result()


def end_of_sequence(automaton: Automaton) -> int:
    """The token that ends a text. Raises :class:`EvidenceError` for an automaton without one."""
    if automaton.eos_token_id is None:
        raise EvidenceError("the automaton has no end-of-sequence token to stop at")
    return automaton.eos_token_id
