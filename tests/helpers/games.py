"""Games on next-token queries: random moves in every implementation, with all that it says checked against enumeration."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from oracle import assert_log_close, log
from product_queries import padded, product

import tractile as tt
from tractile.errors import EvidenceError
from tractile.inference import Boolean, Counting, Log, MaxProduct, MinPlus, Real
from tractile.inference.next_token.generic import DenseQuery
from tractile.inference.next_token.pgcd import PGCDQuery
from tractile.inference.next_token.query import counted_once
from tractile.inference.semirings.floored import FLOOR
from tractile.testing.query_game import Rows


@dataclass
class Problem:
    """An HMM, an automaton and a horizon; tables of every sequence's weight are computed once for each length."""

    hmm: oracle.OracleHMM
    fsa: oracle.OracleFSA
    horizon: int
    dtype: torch.dtype = torch.float64
    known: dict = field(default_factory=dict)

    def table(self, model, kind, n):
        key = (id(model), kind, n)
        if key not in self.known:
            self.known[key] = getattr(model, kind)(n)
        return self.known[key]

    @cached_property
    def parts(self):
        hmm = self.hmm.build()
        return hmm.map(lambda t: t.to(self.dtype)), self.fsa.build().map(lambda t: t.to(self.dtype))

    @cached_property
    def product(self):
        return self.parts[0] * self.parts[1]


@dataclass
class Kind:
    """An implementation: how it is made, and what it computes (``weight``: a table for a length; ``add``: over the rest)."""

    name: str
    make: Callable[[Problem], Any]
    weight: Callable[[Problem, int], np.ndarray]
    add: Callable[..., Any] = np.sum
    patches: tuple = ()
    unlimited: bool = False  # no horizon: acceptance at any length
    by_mask: bool = False  # what is feasible is what the automaton says; scores may be zero there
    boolean: bool = False
    floor: float = 0.0  # shares of the largest probability below this one count as this one

    def __repr__(self):
        return self.name

    def weights(self, problem, prefix, left):
        """m(v) for every token."""
        if not left:
            return np.zeros(problem.fsa.vocab_size)
        if self.unlimited:
            return oracle.feasible_tokens(problem.fsa, prefix) * 1.0
        table = self.weight(problem, len(prefix) + left)[prefix]
        return self.add(table.reshape(problem.fsa.vocab_size, -1), axis=1)

    def allowed(self, problem, prefix, left):
        if self.by_mask:
            return oracle.feasible_tokens(problem.fsa, prefix, left - 1) if left else np.zeros(0, bool)
        return self.weights(problem, prefix, left) > 0

    def feasible(self, problem, n):
        """Whether a row may begin with n tokens left."""
        if self.unlimited:
            return oracle.alive(problem.fsa, problem.fsa.start)
        if self.by_mask:
            return oracle.alive(problem.fsa, problem.fsa.start, n)
        return bool((self.weight(problem, n) > 0).any())


def _once(p, n):
    return p.table(p.hmm, "total", n) * p.table(p.fsa, "best", n)


def _by_paths(p, n):
    return p.table(p.hmm, "total", n) * p.table(p.fsa, "total", n)


def _best(p, n):
    return p.table(p.hmm, "best", n) * p.table(p.fsa, "best", n)


def _accepted(p, n):
    return p.table(p.fsa, "best", n)


def _pgcd(p):
    return tt.pgcd(*p.parts, p.horizon)


def _static(p):
    return padded(p.parts[0], p.parts[1].determinize(), p.horizon)


def _coarse(p):
    """An exact mask and a guide that is exact, too."""
    hmm, fa = p.parts
    return PGCDQuery(hmm, tt.gcd(fa, p.horizon), counted_once(fa), p.horizon)


def _guide(p):
    return tt.pgcd(*p.parts, p.horizon, tolerance=0.1)


WIDE, GATHERED = (
    "tractile.inference.next_token.product_step.WIDE",
    "tractile.inference.next_token.dfa_tables.GATHERED",
)
GENERIC = [
    Kind("boolean", lambda p: DenseQuery(p.parts[1], p.horizon, Boolean()), _accepted, np.max, boolean=True),
    Kind(
        "boolean, any length",
        lambda p: DenseQuery(p.parts[1], None, Boolean()),
        _accepted,
        np.max,
        unlimited=True,
        boolean=True,
    ),
    Kind(
        "counting",
        lambda p: tt.NextToken(p.parts[1], p.horizon, Counting()),
        lambda p, n: p.table(p.fsa, "paths", n),
    ),
    Kind(
        "boolean, of a product",
        lambda p: tt.NextToken(p.product, p.horizon, Boolean()),
        lambda p, n: 1.0 * (_once(p, n) > 0),
        np.max,
        boolean=True,
    ),
    Kind("real", lambda p: tt.NextToken(p.product, p.horizon, Real()), _by_paths),
    Kind("real, densely", lambda p: DenseQuery(p.product, p.horizon, Real()), _by_paths),
    Kind(
        "real, of an automaton",
        lambda p: tt.NextToken(p.parts[1], p.horizon, Real()),
        lambda p, n: p.table(p.fsa, "paths", n),
    ),
    Kind("log", lambda p: tt.NextToken(p.product, p.horizon, Log()), _by_paths),
    Kind("max-product", lambda p: tt.NextToken(p.product, p.horizon, MaxProduct()), _best, np.max),
    Kind("min-plus", lambda p: tt.NextToken(p.product, p.horizon, MinPlus()), _best, np.max),
]
MASKS = [
    Kind("gcd", lambda p: tt.gcd(p.parts[1], p.horizon), _accepted, np.max, by_mask=True, boolean=True),
    Kind("lcd", lambda p: tt.lcd(p.parts[1]), _accepted, np.max, unlimited=True, boolean=True),
]
PRODUCTS = [
    Kind("pgcd", _pgcd, _once, by_mask=True),
    Kind("pgcd, a mask and a guide", _coarse, _once, by_mask=True),
    Kind("pgcd, to a tolerance", _guide, _once, by_mask=True, floor=FLOOR),
    Kind(
        "pgcd, to a tolerance, all tokens scored",
        _guide,
        _once,
        by_mask=True,
        floor=FLOOR,
        patches=(("tractile.inference.next_token.product_step.FEW", 0),),
    ),
    Kind("pgcd, every label gathered", _pgcd, _once, by_mask=True, patches=((WIDE, 2.0),)),
    Kind(
        "pgcd, weighted by paths",
        lambda p: product(*p.parts, p.horizon),
        _by_paths,
        by_mask=True,
        patches=(
            ("tractile.inference.next_token.product_step.FEW", 0),
            ("tractile.inference.next_token.token_scores.GATHERED_BYTES", 1),
        ),
    ),
    Kind("pgcd in fixed shapes", _static, _once, by_mask=True),
    Kind(
        "pgcd in fixed shapes, gathered",
        _static,
        _once,
        by_mask=True,
        patches=((GATHERED, 0), ("tractile.inference.next_token.padded_step.CHUNK_ELEMENTS", 1)),
    ),
    Kind(
        "pgcd in fixed shapes, nothing gathered", _static, _once, by_mask=True, patches=((GATHERED, 10**9),)
    ),
]
KINDS = [*GENERIC, *MASKS, *PRODUCTS]


def check(kind, problem, query, rows, tolerance=1e-9):
    """remaining, mask, bitmask, log_weights and scores; of the P-GCD queries lookahead and log_lookahead too."""
    vocab_size = problem.fsa.vocab_size
    weights = np.array([kind.weights(problem, *row) for row in rows.state]).reshape(-1, vocab_size)
    allowed = np.array(
        [kind.allowed(problem, *row) if row[1] else np.zeros(vocab_size, bool) for row in rows.state]
    ).reshape(-1, vocab_size)
    left = [left for _, left in rows.state]
    assert query.remaining.tolist() == left
    assert query.mask().tolist() == allowed.tolist()
    assert query.bitmask().dtype == torch.int32
    assert query.bitmask().tolist() == oracle.bits(allowed).tolist()
    assert_log_close(query.log_weights(), log(weights), tolerance)
    mass, open_ = weights.sum(1), np.array(left) > 0
    if ((mass == 0) & open_).any():
        with pytest.raises(EvidenceError, match="no probability"):
            query.scores()
    else:
        total = kind.add(weights, axis=1) if len(weights) else mass
        total = np.where(total > 0, total, 1)
        assert_log_close(query.scores(), log(weights / total[:, None]), tolerance)
    if not kind.by_mask:  # P-GCD queries promise it for rows without tokens left
        ended = [kind.weight(problem, len(prefix))[prefix] for prefix, _ in rows.state]
        assert_log_close(query.ended(), log(np.array(ended, dtype=float)), tolerance)
    if kind.by_mask and not kind.boolean:
        check_lookahead(kind, problem, query, rows, weights, tolerance)


def check_lookahead(kind, problem, query, rows, weights, tolerance):
    heads, totals = [], []
    for prefix, left in rows.state:
        prior = problem.table(problem.hmm, "total", len(prefix))[prefix]
        mass = kind.weight(problem, len(prefix) + left)[prefix].sum()
        totals.append(mass / prior if prior else 0.0)
        heads.append(problem.table(problem.hmm, "total", len(prefix) + 1)[prefix])
    with np.errstate(invalid="ignore"):
        ratio = np.where(weights > 0, weights / np.array(heads).reshape(weights.shape), 0)
    assert_log_close(query.lookahead(), log(ratio), tolerance)
    assert_log_close(query.log_lookahead(), log(np.array(totals)), tolerance)


def begin(kind, problem, query, rng, batch):
    """Unequal budgets, with the rows begun; None where no budget is feasible."""
    lengths = [n for n in range(problem.horizon + 1) if kind.feasible(problem, n)]
    if not lengths:
        return None
    given = rng.choice(lengths, batch).tolist()
    query.start(batch, torch.tensor(given, dtype=torch.long))
    return Rows(given)


def draw(kind, problem, rows, rng):
    """A token for each row, mostly one that is feasible."""
    tokens = []
    for prefix, left in rows.state:
        possible = np.flatnonzero(kind.weights(problem, prefix, left))
        wild = rng.random() < 0.1 or not len(possible)
        tokens.append(int(rng.integers(problem.fsa.vocab_size)) if wild else int(rng.choice(possible)))
    return tokens


def play(kind, problem, query, rng, tolerance=1e-9, batch=3):
    """To the end of all budgets: advance, select with repetitions, and check after every move; False if nothing is feasible."""
    rows = begin(kind, problem, query, rng, batch)
    if rows is None:
        return False
    check(kind, problem, query, rows, tolerance)
    for _ in range(problem.horizon):
        if rng.random() < 0.4:
            indices = rng.integers(0, len(rows.state), rng.integers(1, batch + 2)).tolist()
            query.select(torch.tensor(indices))
            rows.select(indices)
        tokens = draw(kind, problem, rows, rng)
        query.advance(torch.tensor(tokens))
        rows.advance(tokens)
        check(kind, problem, query, rows, tolerance)
    return True
