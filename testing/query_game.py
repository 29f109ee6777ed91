"""A game on a next-token query: random moves, all answers after each, what it takes and what it refuses."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import (
    BudgetTooLarge,
    BudgetTooSmall,
    EvidenceError,
    FormatError,
    ShapeError,
    VocabularyMismatch,
)
from ..inference import log_marginal
from ..inference.next_token.protocol import NextTokenQuery
from .comparison import promise, refused, same

Prefix = tuple[int, ...]
Weights = Callable[[Prefix, int], Sequence[float]]
UNLIMITED = 3
"""The tokens left in each row of a query without a horizon."""


class Rows:
    """What the rows of a query stand for: their tokens, those that are left, and each row before each of its moves."""

    def __init__(self, budgets: Sequence[int]) -> None:
        self.state: list[tuple[Prefix, int]] = [((), left) for left in budgets]
        self.before: list[list[tuple[Prefix, int]]] = [[] for _ in budgets]

    def advance(self, tokens: Sequence[int], moving: Sequence[bool] | None = None) -> None:
        for i, token in enumerate(tokens):
            prefix, left = self.state[i]
            self.before[i] = [*self.before[i], (prefix, left)]
            if left and (moving is None or moving[i]):
                self.state[i] = ((*prefix, token), left - 1)

    def select(self, rows: Sequence[int]) -> None:
        self.state, self.before = [self.state[i] for i in rows], [self.before[i] for i in rows]

    def rollback(self, n: int) -> None:
        for i, before in enumerate(self.before):
            if n:
                self.state[i], self.before[i] = before[-n], before[:-n]


class Game:
    """A query, and what its rows stand for."""

    def __init__(
        self,
        make: Callable[[], NextTokenQuery],
        weights: Weights | None,
        allowed: Weights | None,
        tolerance: float,
        rng: random.Random,
    ) -> None:
        self.make, self.tolerance, self.rng = make, tolerance, rng
        self.query = make()
        self.vocab_size, self.horizon = self.query.vocab_size, self.query.horizon
        self.given, self.masked = weights, allowed
        self.known: dict[tuple[Prefix, int], Tensor] = {}
        automaton = self.query.automaton
        self.most_ahead = 1 if automaton is None else automaton.num_states
        """Without a horizon: what can be completed can be completed with fewer tokens than there are states."""

    # ------------------------------------------------------------------ what is right

    def weights(self, prefix: Prefix, left: int) -> Tensor:
        """Return the logarithm of each token's weight."""
        if not left:
            return torch.full((self.vocab_size,), -torch.inf, dtype=torch.float64)
        if self.given is not None:
            return torch.tensor(self.given(prefix, left), dtype=torch.float64).log()
        if (prefix, left) not in self.known:
            lengths = range(left - 1, left) if self.horizon is not None else range(self.most_ahead)
            totals = [self.completed(prefix, rest) for rest in lengths]
            self.known[prefix, left] = torch.stack(totals).amax(0)
        return self.known[prefix, left]

    def completed(self, prefix: Prefix, rest: int) -> Tensor:
        """Return, by next token, the ⊕-total of the sequences with ``prefix``, the token, and ``rest`` tokens more."""
        rows = torch.tensor([[*prefix, token, *[-1] * rest] for token in range(self.vocab_size)])
        return log_marginal(self.query.chain, rows, semiring=self.query.semiring).double()

    def mask(self, prefix: Prefix, left: int) -> Tensor:
        if not left:
            return torch.zeros(self.vocab_size, dtype=torch.bool)
        if self.masked is not None:
            return torch.tensor(self.masked(prefix, left)) > 0
        return ~self.weights(prefix, left).isneginf()

    # ------------------------------------------------------------------ the game

    def begin(self) -> bool:
        """Begin three rows whose budgets some sequence fits; return False if there is none, which the query must refuse."""
        if self.horizon is None:
            self.lengths = [UNLIMITED]
        else:
            found = self.query.feasible_lengths().tolist()
            self.lengths = [n for n in range(1, self.horizon + 1) if bool(self.mask((), n).any())]
            promise(
                [n for n in range(1, self.horizon + 1) if found[n]] == self.lengths,
                f"feasible_lengths() are the lengths of some sequence: {found}, not {self.lengths}",
            )
        if not self.lengths or not self.mask((), self.lengths[-1]).any():
            refused(lambda: self.make().start(1, 1), BudgetTooSmall, "start() without an accepted sequence")
            return False
        self.query, self.rows = self.started(3)
        return True

    def started(self, count: int) -> tuple[NextTokenQuery, Rows]:
        budgets = [self.rng.choice(self.lengths) for _ in range(count)]
        return self.make().start(count, torch.tensor(budgets, dtype=torch.long)), Rows(budgets)

    def drawn(self, rows: Rows) -> list[int]:
        """Draw a token for each row, mostly one that is allowed."""
        tokens = []
        for prefix, left in rows.state:
            possible = self.mask(prefix, left).nonzero()[:, 0].tolist()
            wild = self.rng.random() < 0.1 or not possible
            tokens.append(self.rng.randrange(self.vocab_size) if wild else self.rng.choice(possible))
        return tokens

    def play(self, moves: int) -> None:
        games = [(self.query, self.rows)]
        self.check(*games[0])
        for _ in range(moves):
            query, rows = self.rng.choice(games)
            move = self.rng.choice(
                ["advance", "advance", "advance", "wait", "select", "rollback", "rollback", "fork"]
            )
            if move == "select":
                chosen = [self.rng.randrange(len(rows.state)) for _ in range(self.rng.randint(1, 4))]
                query.select(torch.tensor(chosen))
                rows.select(chosen)
            elif move == "rollback":
                n = self.rng.randint(0, min(map(len, rows.before)))
                query.rollback(n)
                rows.rollback(n)
            elif move == "fork" and len(games) == 1:
                games.append((query.fork(), copy.deepcopy(rows)))
            else:
                tokens = self.drawn(rows)
                moving = [move != "wait" or self.rng.random() < 0.6 for _ in tokens]
                if move == "wait":
                    query.advance_some(torch.tensor(tokens), torch.tensor(moving))
                else:
                    query.advance(tokens)
                rows.advance(tokens, moving)
            for each in games:
                self.check(*each)
        self.ahead(*games[0])

    def check(self, query: NextTokenQuery, rows: Rows) -> None:
        """Compare all answers with what the rows stand for."""
        said = (
            f"after {[list(prefix) for prefix, _ in rows.state]} with {[left for _, left in rows.state]} left"
        )
        count, size = len(rows.state), self.vocab_size
        weights = torch.stack([self.weights(*row) for row in rows.state]) if count else torch.zeros(0, size)
        mask = torch.stack([self.mask(*row) for row in rows.state]) if count else torch.zeros(0, size) > 0
        left = torch.tensor([left for _, left in rows.state], dtype=torch.long)
        promise(torch.equal(query.remaining.cpu(), left), f"{said}: remaining is {query.remaining.tolist()}")
        promise(
            torch.equal(query.mask().cpu(), mask),
            f"{said}: mask() is {query.mask().tolist()}, not {mask.tolist()}",
        )
        words = query.bitmask().cpu()
        unpacked = torch.stack([words[:, v // 32] >> (v % 32) & 1 for v in range(size)], 1).bool()
        promise(torch.equal(unpacked, mask), f"{said}: bitmask() has the bits of mask()")
        out = torch.full_like(words, -1)
        promise(
            query.bitmask(out=out) is out and torch.equal(out, words),
            f"{said}: bitmask(out=) fills the buffer",
        )
        promise(torch.equal(torch.from_numpy(query.words()), words), f"{said}: words() is bitmask()")
        logits = torch.zeros(count, size + 2)
        query.apply(logits)
        promise(
            torch.equal(logits[:, :size] == 0, mask) and bool(logits[:, size:].isneginf().all()),
            f"{said}: apply() leaves the logits of the mask alone",
        )
        same(query.log_weights(), weights, f"{said}: log_weights()", self.tolerance)
        total = self.total(weights)
        if bool((total.isneginf() & (left > 0)).any()):
            refused(query.scores, EvidenceError, f"{said}: scores() of a row without mass")
        else:
            expected = torch.where(weights.isneginf(), -torch.inf, weights - total[:, None])
            same(query.scores(), expected, f"{said}: scores()", self.tolerance)

    def total(self, weights: Tensor) -> Tensor:
        """Return the ⊕-total of each row of weights, as a logarithm."""
        sr: Any = self.query.semiring
        one = sr.lift(torch.ones(1))
        is_maximum = torch.equal(sr.log(sr.add(one, one)), sr.log(one))
        return weights.amax(1) if is_maximum else weights.logsumexp(1)

    def ahead(self, query: NextTokenQuery, rows: Rows, length: int = 4) -> None:
        """Compare ``validate`` and ``forced`` with masks one after another; the rows stay as they are."""
        before = query.log_weights()
        drafts, valid, forced = [], [], []
        for prefix, left in rows.state:
            draft = [self.rng.randrange(-1, self.vocab_size + 1) for _ in range(self.rng.randint(0, length))]
            read = 0
            while read < len(draft) and 0 <= draft[read] < self.vocab_size:
                if read >= left or not self.mask((*prefix, *draft[:read]), left - read)[draft[read]]:
                    break
                read += 1
            drafts.append(draft)
            valid.append(read)
            tokens: list[int] = []
            while len(tokens) < min(length, left):
                mask = self.mask((*prefix, *tokens), left - len(tokens))
                if int(mask.sum()) != 1:
                    break
                tokens.append(int(mask.int().argmax()))
            forced.append(tokens)
        promise(query.validate(drafts).tolist() == valid, f"validate({drafts}) of {rows.state} is {valid}")
        promise(
            query.forced(length) == forced,
            f"forced() of {rows.state} is {forced}, not {query.forced(length)}",
        )
        promise(
            torch.equal(query.log_weights(), before), "validate() and forced() leave the rows as they are"
        )
        promise(
            query.remaining.tolist() == [left for _, left in rows.state],
            "validate() and forced() use no token up",
        )

    # ------------------------------------------------------------------ what it takes and refuses

    def takes(self) -> None:
        """Rows by index, taken up, begun again and none; a copy goes its own way."""
        query, rows = self.started(3)
        tokens = self.drawn(rows)
        query.advance(torch.tensor(tokens, dtype=torch.uint8))
        rows.advance(tokens)
        for chosen, kept in (
            (torch.tensor([True, False, True]), [0, 2]),
            ([-1, 0], [1, 0]),
            (torch.tensor([1, 0, 0], dtype=torch.int32), [1, 0, 0]),
        ):
            other, others = copy.deepcopy(query), copy.deepcopy(rows)
            query.select(chosen)
            rows.select(kept)
            self.check(query, rows)
            self.check(other, others)
        query.rollback(1)
        rows.rollback(1)
        self.check(query, rows)
        refused(lambda: query.rollback(1), ShapeError, "rollback() of more tokens than there were")
        prefixes = [prefix for prefix, _ in others.state]
        left = [left + len(prefix) for prefix, left in others.state]
        width = max(map(len, prefixes)) + 1
        table = torch.tensor([[*prefix, *[-1] * (width - len(prefix))] for prefix in prefixes])
        query.resume(table, torch.tensor(left))
        others.before = [[] for _ in prefixes]
        self.check(query, others)
        query, rows = query.start(2, self.lengths[-1]), Rows([self.lengths[-1]] * 2)
        self.check(query, rows)
        query.select([])
        rows.select([])
        query.advance([])
        self.check(query, rows)

    def refuses(self) -> None:
        query, rows = self.started(2)
        size, start = self.vocab_size, self.make().start
        long = torch.zeros(2, (size + 31) // 32, dtype=torch.int64)
        wrong: list[tuple[type[Exception], Callable[..., Any], list[Any]]] = [
            (
                VocabularyMismatch,
                query.advance,
                [[0], [0, size], [-1, 0], [[0, 0]], [0.5, 0], [True, False], None],
            ),
            (
                ShapeError,
                query.select,
                [[2], [-3], torch.tensor([True]), torch.tensor([0.0, 1.0]), torch.tensor(0)],
            ),
            (
                ShapeError,
                partial(start, 2),
                [[1, 2, 3], torch.tensor([[1, 2]]), 2.0, torch.tensor([True, False])],
            ),
            (ShapeError, query.validate, [[0, 1], [[0]], torch.zeros(2, 2), [[0.5], [1]], 3]),
            (ShapeError, query.bitmask, [long]),
            (VocabularyMismatch, query.apply, [torch.zeros(1, size)]),
            (EvidenceError, query.forced, [-1]),
            (BudgetTooSmall, partial(start, 1), [-1]),
            (BudgetTooLarge, partial(start, 1), [] if self.horizon is None else [self.horizon + 1]),
            (FormatError, pickle.dumps, [query]),
        ]
        for error, call, arguments in wrong:
            for given in arguments:
                refused(partial(call, given), error, f"{getattr(call, '__name__', 'start')}({given})")
        for ask in ("lookahead", "log_lookahead") if not query.has_lookahead else ():
            refused(getattr(query, ask), EvidenceError, f"{ask}() without an HMM")
        for ask in ("mask", "scores", "log_weights", "words", "bitmask", "ended", "forced"):
            refused(getattr(self.make(), ask), EvidenceError, f"{ask}() before start()")
        self.check(query, rows)
