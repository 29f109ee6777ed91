"""Markov chains leave p_lm(x | C) · Ψ(x) as it is: transition matrices by enumeration, and chains begun in the target.

z-tests: two-sided error probability 1e-5 for each score.
"""

import math

import pytest
import torch
from kernel_reference import (
    PSI,
    RANDOM,
    TABULAR,
    ahead,
    exact_start,
    kernel_for,
    scores,
    states_of,
    transition_matrix,
)
from smc_reference import (
    CASES,
    EOS,
    FUNCTIONS,
    HMM,
    LIMIT,
    Follows,
    N,
    V,
    as_automaton,
    enumerate_target,
    moments,
    padded,
    random_table,
)

import tractile as tt

OTHER = tt.lm.TableLM(random_table(V, 1, seed=9))


@pytest.mark.parametrize("cut", [pytest.param(None, marks=pytest.mark.long), ahead], ids=["uniform", "late"])
@pytest.mark.parametrize("name", TABULAR)
@pytest.mark.parametrize("psi", PSI)
@pytest.mark.parametrize("case", CASES)
def test_the_target_is_invariant(case, psi, name, cut):
    """Detailed balance and stationarity, in exact probabilities, for lengths that vary."""
    make, value = PSI[psi]
    kernel, found = states_of(case, TABULAR[name], make(), cut, value)
    matrix = transition_matrix(kernel, found)
    share = torch.tensor([p for *_, p in found], dtype=torch.float64)
    flow = share[:, None] * matrix
    assert bool((matrix >= -1e-12).all())
    assert torch.allclose(flow, flow.T, atol=1e-12)
    assert torch.allclose(share @ matrix, share, atol=1e-12)
    assert bool((torch.linalg.matrix_power(matrix, 5000) - share).abs().max() < 1e-6)  # and it is reached


@pytest.mark.parametrize("case", CASES)
def test_moves_follow_the_transition_matrix(case):
    """From every state: the share of each next state."""
    kernel, found = states_of(case, tt.inference.smc.LookaheadProposal(), None, ahead, lambda x, c: 1.0)
    matrix = transition_matrix(kernel, found)
    runs = 4000
    drawing = kernel_for(case, tt.inference.smc.LookaheadProposal(), cut=ahead)
    index = {x: i for i, (x, *_) in enumerate(found)}
    for start in (0, len(found) // 2, len(found) - 1):
        paths = found[start][1].take(torch.zeros(runs, dtype=torch.long))
        after, accepted = drawing.move(paths, torch.Generator().manual_seed(start))
        rows = zip(after.tokens.tolist(), after.length.tolist(), strict=True)
        reached = torch.tensor([index[padded(tokens[:n], N, EOS)] for tokens, n in rows])
        share = torch.bincount(reached, minlength=len(found)).double() / runs
        error = (matrix[start] * (1 - matrix[start]) / runs).sqrt()
        assert bool(((share - matrix[start]).abs() <= 4.9 * error + 1e-12).all())
        assert bool((reached[~accepted] == start).all())


@pytest.mark.long
@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("case", CASES)
def test_random_weights_belong_to_the_state(case, name):
    """Begun in the target, chains stay there."""
    make, value = RANDOM[name]
    lm, fsa = CASES[case]
    target = {x: p * float(value(x, case)) for x, p in enumerate_target(lm, fsa, N).items()}
    kernel, generator = kernel_for(case, make()), torch.Generator().manual_seed(3)
    paths = exact_start(kernel, 300, generator)
    begin = scores(paths, target)
    for _ in range(3):
        paths, _ = kernel.move(paths, generator)
    assert bool((begin.abs() < LIMIT).all()), begin
    assert bool((scores(paths, target).abs() < LIMIT).all()), scores(paths, target)


@pytest.mark.parametrize(
    "potential",
    [
        pytest.param(lambda: Follows(0.6, OTHER), marks=pytest.mark.long),
        lambda: Follows(-0.4, OTHER).at(tt.inference.smc.every_line),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_potentials_that_follow_the_prefix(case, potential):
    """Chains from anywhere, one sample of each after 25 moves."""
    lm, fsa = CASES[case]
    held = potential()
    other, power = OTHER, 0.6 if isinstance(held, Follows) else -0.4

    def psi(x):
        other.start([[]])
        total = 0.0
        for token in x[: x.index(EOS) + 1] if case == "ended" and EOS in x else x:
            total += float(other.log_probs()[0, token])
            other.advance(torch.tensor([token]))
        return math.exp(power * total)

    target = {x: p * psi(x) for x, p in enumerate_target(lm, fsa, N).items()}
    found = tt.inference.smc.mcmc(
        lm, [], as_automaton(fsa), "pgcd", HMM, 500, N, 1, chains=500, burn_in=25, potential=held
    )
    z, *totals = moments(target)
    rows = [padded(draw.token_ids, N, EOS) for draw in found.samples]
    for g, total in zip(FUNCTIONS[1:], totals, strict=True):
        values = torch.tensor([g(x) for x in rows], dtype=torch.float64)
        assert abs(float(values.mean()) - total / z) < LIMIT * float(values.std()) / len(rows) ** 0.5


def test_what_comes_back():
    lm, fsa = CASES["ended"]
    settings = {
        "hmm": HMM, "samples": 10, "max_new_tokens": N, "seed": 5, "chains": 4, "burn_in": 3, "thin": 2,
    }  # fmt: skip
    found = tt.inference.smc.mcmc(lm, [], as_automaton(fsa), "pgcd", **settings)
    assert [len(chain) for chain in found.draws] == [3, 3, 2, 2]
    assert found.trace.shape == (4, 1 + 3 + 2 * 3)
    assert 0 < found.acceptance_rate < 1
    for chain, trace in zip(found.draws, found.trace, strict=True):
        for draw, log_target in zip(chain, trace[3 + 2 :: 2].tolist(), strict=False):
            assert fsa.accepts(padded(draw.token_ids, N, EOS))
            assert draw.log_prob == pytest.approx(log_target)
            assert draw.text == lm.decode(draw.token_ids)
    again = tt.inference.smc.mcmc(lm, [], as_automaton(fsa), "pgcd", **settings)
    assert again.draws == found.draws
    shares = found.group_by(lambda draw: len(draw.token_ids))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert found.expectation(lambda draw: 1.0) == pytest.approx(1.0)


def test_bad_settings():
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)
    for bad in ({"samples": 0}, {"chains": 0}, {"thin": 0}, {"burn_in": -1}):
        with pytest.raises(tt.errors.EvidenceError):
            tt.inference.smc.mcmc(lm, [], fa, "gcd", max_new_tokens=N, **bad)
    for cut in (lambda n: [1.0], lambda n: [0.0] * n, lambda n: [math.nan] * n):
        with pytest.raises(tt.errors.EvidenceError, match="one for each place"):
            tt.inference.smc.mcmc(lm, [], fa, "gcd", max_new_tokens=N, cut=cut)
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.inference.smc.mcmc(lm, [], fa, "gcd", max_new_tokens=1)
    with pytest.raises(tt.errors.NoParticleSurvived, match="no chain can begin"):
        tt.inference.smc.mcmc(
            lm,
            [],
            fa,
            "gcd",
            max_new_tokens=N,
            potential=tt.inference.smc.FunctionPotential(lambda text: 0.0),
        )
