"""Resample–move: E[Ẑ] = Z and E[Ẑ·f] = Z·E[f] whether particles are resampled or not; its copies differ."""

import math

import pytest
import torch
from kernel_reference import no_double
from smc_reference import (
    CASES,
    COMPILED,
    EOS,
    HMM,
    LIMIT,
    Follows,
    N,
    V,
    against_enumeration,
    as_automaton,
    enumerate_target,
    phi,
    random_table,
    spelled,
)

import tractile as tt
from tractile.inference.smc import GCDProposal, resample_move
from tractile.inference.smc.kernel import Kernel

SETTINGS = {
    "gcd": ({"proposal": "gcd"}, lambda x, c: 1.0),
    "lcd": ({"proposal": "lcd"}, lambda x, c: 1.0),
    "pgcd": ({"proposal": "pgcd"}, lambda x, c: 1.0),
    "awrs": (
        {"proposal": tt.inference.smc.AWRSProposal(no_double)},
        lambda x, c: float(no_double(spelled(x, c))),
    ),
    "a function, without replacement": (
        {
            "proposal": "gcd",
            "potential": tt.inference.smc.FunctionPotential(phi, tt.inference.smc.every_line),
            "resampling": "without-replacement",
        },
        lambda x, c: phi(spelled(x, c)),
    ),
    "a potential with a state": (
        {"proposal": "pgcd", "potential": Follows(0.0, tt.lm.TableLM(random_table(V, 1, seed=9), EOS))},
        lambda x, c: 1.0,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("case", CASES)
def test_unbiased(case, name):
    lm, fsa = CASES[case]
    options, psi = SETTINGS[name]
    target = {x: p * psi(x, case) for x, p in enumerate_target(lm, fsa, N).items()}

    def run(seed):
        options_here = {"particles": 4, "max_new_tokens": N, "seed": seed, "moves": 2, "ess_threshold": 1.1}
        return resample_move(lm, [], COMPILED[case], hmm=HMM, **options, **options_here)

    z = against_enumeration(run, target, runs=25)
    assert bool((z.abs() < LIMIT).all()), z


FEW_SURVIVE = tt.lm.TableLM(
    {
        (): torch.tensor([0.9, 0.1, 0, 0]).double().log(),
        (0,): torch.tensor([0.999, 0, 0.001, 0]).double().log(),
        (1,): torch.tensor([0, 0, 0, 1.0]).double().log(),
    }
)  # token 1 always ends well, token 0 almost never
TWO = tt.Automaton.from_edges([(0, [0, 1], 1), (1, [2, 3], 2)], 0, [2], 4)
FIRST = tt.inference.smc.FunctionPotential(lambda tokens: 5.0 if tokens[0] == 1 else 1.0, tokens=True)
UNEVEN = {"lcd": "lcd", "awrs": tt.inference.smc.AWRSProposal(lambda tokens: tokens != (0, 0), tokens=True)}


@pytest.mark.long
@pytest.mark.parametrize("name", UNEVEN)
def test_unbiased_where_resampling_says_what_the_particles_are(name):
    """Two particles are resampled exactly if they differ. If only those were moved, Ẑ would be half of Z on average.

    The error probability of each case is 1e-5; half of Z would be found with a probability above 0.95.
    """

    def run(seed):
        settings = {"moves": 4, "potential": FIRST, "ess_threshold": 0.9}
        post = resample_move(FEW_SURVIVE, [], TWO, UNEVEN[name], None, 2, 2, seed, **settings)
        return math.exp(post.log_evidence)

    found = torch.tensor([run(seed) for seed in range(700)], dtype=torch.float64)
    z = (found.mean() - (5 * 0.1 + 0.9 * 0.001)) / (found.std() / len(found) ** 0.5)
    assert abs(float(z)) < LIMIT


HALF = torch.tensor([0.5, 0.5, 0, 0]).double().log()
LATER = HALF.flip(0)
NOT_ONE = tt.inference.smc.FunctionPotential(
    lambda t: float(not t.startswith("1")), tt.inference.smc.every_token
)


@pytest.mark.parametrize("particles", [4, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "scheme",
    ["systematic", "without-replacement"]
    + [pytest.param(name, marks=pytest.mark.long) for name in ("multinomial", "stratified", "residual")],
)
def test_unbiased_when_fewer_particles_live_than_were_asked_for(scheme, particles):
    """Half of them die at the first token. Error probability of each case 1e-5."""
    lm = tt.lm.TableLM({(): HALF, (0,): LATER, (1,): LATER})

    def run(seed):
        settings = {"potential": NOT_ONE, "resampling": scheme, "ess_threshold": 1.1}
        try:
            return math.exp(
                resample_move(lm, [], TWO, "gcd", None, particles, 2, seed, **settings).log_evidence
            )
        except tt.errors.NoParticleSurvived:
            return 0.0

    found = torch.tensor([run(seed) for seed in range(200)], dtype=torch.float64)
    z = (found.mean() - 0.5) / (found.std() / len(found) ** 0.5)
    assert abs(float(z)) < LIMIT


def test_a_text_that_has_ended_is_moved_as_one_that_has_not():
    """Half of the texts end at once. Error probability 1e-5; were only the others moved, three quarters would."""
    lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.5]).double().log()}, 1)
    runs = 150
    ended = sum(
        resample_move(lm, [], None, "gcd", None, 1, 2, seed).token_ids[0] == (1,) for seed in range(runs)
    )
    assert abs(ended - runs / 2) < LIMIT * math.sqrt(runs) / 2


@pytest.mark.parametrize("ess_threshold", [0.0, 0.5, 1.1])
def test_moves_are_made_at_fixed_steps(monkeypatch, ess_threshold):
    lm = tt.lm.TableLM({(): torch.tensor([0.1, 0.9]).log(), (1,): torch.tensor([0.1, 0.9]).log()}, 1)
    steps, move = [], Kernel.move

    def counted(self, particles, generator, limit):
        steps.append(limit)
        return move(self, particles, generator, limit)

    monkeypatch.setattr(Kernel, "move", counted)
    for seed in range(8):
        steps.clear()
        resample_move(lm, [], None, "gcd", None, 3, 11, seed, moves=2, ess_threshold=ess_threshold)
        assert steps == [1, 1, 2, 2, 4, 4, 8, 8, 11, 11]


def test_copies_become_different():
    """A temperature of 2 draws badly, so that resampling leaves few ancestors."""
    lm = tt.CircuitLM(tt.HMM.random(6, 12, seed=1, dtype=torch.float64))
    fa = tt.Automaton.from_edges([(0, list(range(12)), 0), (0, [3], 1), (1, list(range(12)), 1)], 0, [1], 12)

    def distinct(moves):
        posts = [
            resample_move(lm, [], fa, GCDProposal(2.0), None, 24, 10, seed, moves=moves, ess_threshold=0.7)
            for seed in range(6)
        ]
        return sum(len(set(post.token_ids)) for post in posts)

    assert distinct(3) > 1.2 * distinct(0)


@pytest.mark.parametrize("proposal", ["pgcd", tt.inference.smc.LookaheadProposal(0.4), "gcd"])
def test_without_moves_it_is_smc(proposal):
    lm, fsa = CASES["exact"]
    posts = [
        method(lm, [], as_automaton(fsa), proposal, HMM, 8, N, 3, ess_threshold=0.9, **options)
        for method, options in ((tt.smc, {}), (tt.inference.smc.resample_move, {"moves": 0}))
    ]
    assert posts[0].token_ids == posts[1].token_ids
    assert posts[0].log_weights.tolist() == pytest.approx(posts[1].log_weights.tolist(), rel=1e-9)
    assert posts[0].ess_trace == pytest.approx(posts[1].ess_trace)
    assert posts[0].resampled == posts[1].resampled
