"""A budget costs no memory that the constraint does not."""

import pytest
import torch

import tractile as tt
from tractile.inference.next_token import backward
from tractile.inference.smc import particles
from tractile.inference.smc.particles import Particles

VOCAB = tt.Vocabulary([None, b"a", b"b"], eos_token_id=0)
COIN = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.4, 0.3, 0.3]]))
BUDGETS = [10**8, 10**9]


@pytest.fixture
def words():
    return tt.constraints.regex("(ab|b)*").compile(VOCAB)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_sample_with_a_budget_that_is_never_needed(words, budget):
    lm = tt.CircuitLM(COIN, eos_token_id=0)
    found, same = (
        tt.smc(lm, [], words, "gcd", particles=8, max_new_tokens=most, seed=0) for most in (budget, 1_000)
    )
    assert found.token_ids == same.token_ids
    assert torch.equal(found.log_weights, same.log_weights)


@pytest.mark.parametrize("budget", BUDGETS)
def test_chains_with_a_budget_that_is_never_needed(words, budget):
    lm = tt.CircuitLM(COIN, eos_token_id=0)
    given = {"samples": 8, "max_new_tokens": budget, "seed": 0}
    found = tt.inference.smc.mcmc(lm, [], words, "gcd", **given)
    assert words.accepts_tokens(found.draws[0][0].token_ids)


@pytest.mark.parametrize("budget", BUDGETS)
def test_masks_with_a_budget_that_is_never_needed(words, budget):
    finite = tt.Automaton.from_edges([(0, 1, 1), (1, [0, 1], 1)], start=0, accept=[1], vocab_size=2)
    assert tt.gcd(words, horizon=budget).start(batch=1).mask().tolist() == [[True, True, True]]
    assert tt.gcd(finite, horizon=budget).start(batch=1).mask().tolist() == [[False, True]]


def test_particles_have_room_for_what_they_read(monkeypatch):
    monkeypatch.setattr(particles, "FIRST_COLUMNS", 2)
    found = Particles.start(2, 10**9)
    rows = torch.arange(2)
    for token in range(9):
        found.append(
            rows, torch.tensor([token, -token]), torch.full((2,), -float(token), dtype=torch.float64)
        )
    assert found.token_ids(0) == tuple(range(9))
    assert found.log_prob.tolist() == [-36.0, -36.0]
    short = Particles.start(2, 10**9)
    assert short.joined(found).token_ids(2) == tuple(range(9))
    assert short.where(torch.tensor([True, False]), found).token_ids(0) == tuple(range(9))


def test_messages_that_never_settle_are_refused_by_name(monkeypatch, words):
    monkeypatch.setattr(backward, "MOST_MESSAGES", 20)
    with pytest.raises(tt.errors.MemoryTooSmall, match="give a smaller budget"):
        tt.pgcd(COIN, words, horizon=10**9)


def test_a_table_of_messages_grows(monkeypatch, words):
    given = [tt.pgcd(COIN, words, horizon=40).start(batch=1, budgets=[n]).scores() for n in (2, 9, 40)]
    monkeypatch.setattr(backward, "FIRST_MESSAGES", 1)
    again = [tt.pgcd(COIN, words, horizon=40).start(batch=1, budgets=[n]).scores() for n in (2, 9, 40)]
    assert all(torch.equal(a, b) for a, b in zip(given, again, strict=True))
