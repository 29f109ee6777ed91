"""P-GCD with any chain as its guide and with products of automata, against the generic query in log space."""

import numpy as np
import oracle
import pytest
import torch
from product_queries import product

import tractile as tt
from tractile.inference import Boolean, Log
from tractile.inference.next_token.generic import DenseQuery
from tractile.layers import Categorical, Dense, Identity

V, HORIZON = 4, 5


def hmm(seed, hidden=3, kind="dense", dtype=torch.float64, zeros=0.0):
    if zeros:
        return oracle.random_hmm(np.random.default_rng(seed), hidden, V, zeros=zeros).build(dtype)
    return tt.HMM.random(hidden, V, kind, seed=seed, dtype=dtype)


def weighted(seed):
    """A chain that is no distribution: an HMM whose tokens and ends have weights, with an L of its own."""
    one, weights = hmm(seed), torch.tensor([0.5, 1.0, 0.1, 2.0], dtype=torch.float64)
    left, final = Dense(torch.tensor([[1.0, 0.5, 0], [0, 1, 0.2], [0.3, 0, 1]]).double()), (weights[:3],)
    return tt.circuits.Chain(one.initial, left, one.inputs.reweighted(weights), one.right, final)


GUIDES = {
    "dense": lambda seed: hmm(seed),
    "Monarch": lambda seed: hmm(seed, 9, "monarch"),
    "with zeros": lambda seed: hmm(seed, zeros=0.5),
    "two HMMs": lambda seed: hmm(seed) * hmm(seed + 1, 2),
    "three, one of them Monarch": lambda seed: hmm(seed, 2) * hmm(seed + 1, 4, "monarch") * hmm(seed + 2, 2),
    "weighted": weighted,
    "a chain of one state": lambda seed: tt.circuits.Chain(
        (torch.ones(1).double(),), Identity(1), Categorical(torch.ones(1, V).double()), Identity(1), (torch.ones(1).double(),)
    ),
}  # fmt: skip


def totals(chain, rows):
    """log chain(x_<t, v) of each row and token."""
    every = torch.cat([rows.repeat_interleave(V, 0), torch.arange(V).repeat(len(rows))[:, None]], 1)
    return tt.log_marginal(chain, every, semiring=Log()).view(len(rows), V)


def walk(query, chain, automaton, budgets):
    """Compare masks, weights and lookaheads along random allowed tokens, and what ends."""
    exact, mask = DenseQuery(chain * automaton, HORIZON, Log()), DenseQuery(automaton, HORIZON, Boolean())
    rows = torch.zeros(len(budgets), 0, dtype=torch.long)
    for one in (query, exact, mask):
        one.take_up(torch.tensor(budgets))
    g = torch.Generator().manual_seed(0)
    for _ in range(HORIZON - 1):
        expected, allowed = exact.log_weights(), mask.mask()
        torch.testing.assert_close(query.log_weights(), expected, rtol=1e-9, atol=1e-9)
        ahead = torch.where(expected > -torch.inf, expected - totals(chain, rows), -torch.inf)
        torch.testing.assert_close(query.lookahead(), ahead, rtol=1e-9, atol=1e-9)
        assert torch.equal(query.mask(), allowed)
        tokens = torch.multinomial(allowed.double() + 1e-30, 1, generator=g)[:, 0]
        rows = torch.cat([rows, tokens[:, None]], 1)
        for one in (query, exact, mask):
            one.advance(tokens)
    torch.testing.assert_close(query.ended(), exact.ended(), rtol=1e-9, atol=1e-9)


def lengths(automaton):
    found = tt.gcd(automaton, HORIZON).feasible_lengths().nonzero()[:, 0].tolist()
    return ([n for n in found if n] * 3)[:3]


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.parametrize("seed", range(3))
def test_any_chain_guides(name, seed):
    automaton = oracle.random_fsa(np.random.default_rng(seed), 4, V, bool(seed % 2)).build()
    budgets, chain = lengths(automaton), GUIDES[name](seed)
    if budgets:
        walk(tt.pgcd(chain, automaton, HORIZON), chain, automaton.determinize(), budgets)
        walk(product(chain, automaton, HORIZON), chain, automaton, budgets)  # weighted by paths


def two_automata(seed):
    rng = np.random.default_rng(seed)
    return [
        oracle.random_fsa(rng, 3, V, deterministic, 0.8).build() for deterministic in (True, bool(seed % 2))
    ]


@pytest.mark.parametrize("seed", range(6))
def test_products_of_automata_are_constraints(seed):
    a, b = two_automata(seed)
    budgets = lengths(a * b)
    chain = hmm(seed) * hmm(seed + 1, 2)
    for query, horizon in ((tt.gcd(a * b, HORIZON), HORIZON), (tt.lcd(a * b), None)):
        generic = DenseQuery(a * b, horizon, Boolean())
        assert torch.equal(query.feasible_lengths(), generic.feasible_lengths())
        if budgets:
            assert torch.equal(query.start(3, budgets).mask(), generic.start(3, budgets).mask())
    if budgets:
        both = tt.circuits.intersect(a, b)
        walk(tt.pgcd(chain, a * b, HORIZON), chain, both.determinize(), budgets)
