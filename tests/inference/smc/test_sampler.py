"""The sampler against enumeration: E[Ẑ] = Z and E[Ẑ · f] = Z · E[f | C], exactness where it is promised, errors."""

import math

import pytest
import torch
from smc_reference import (
    CASES,
    ENDED,
    EOS,
    HMM,
    LIMIT,
    ForgetsItsWeight,
    Fsa,
    N,
    V,
    against_enumeration,
    as_automaton,
    enumerate_target,
    padded,
    random_table,
    sequence_log_prob,
)

import tractile as tt
from tractile.inference.smc import LookaheadProposal, Potential
from tractile.inference.smc.proposals import Knowledge


def many_runs(case, particles=8, **settings):
    lm, fsa = CASES[case]
    fa = as_automaton(fsa)

    def run(seed):
        return tt.smc(lm, [], fa, hmm=HMM, particles=particles, max_new_tokens=N, seed=seed, **settings)

    return against_enumeration(run, enumerate_target(lm, fsa, N))


class Arbitrary(Potential):
    """Any positive numbers: the final target must not depend on them."""

    needs = Knowledge.LOCAL

    def log_value(self, rows):
        t = rows.step.prefixes.shape[1]
        return torch.sin(7.0 * rows.tokens + 3.0 * t).double().masked_fill(rows.ended, 0.0)


@pytest.mark.parametrize(
    "scheme", ["multinomial", "stratified", "systematic", "residual", "without-replacement"]
)
@pytest.mark.parametrize("case", CASES)
def test_unbiased_under_forced_resampling_with_each_scheme(case, scheme):
    z = many_runs(case, proposal="gcd", potential=Arbitrary(), resampling=scheme, ess_threshold=1.1)
    assert bool((z.abs() < LIMIT).all()), z


@pytest.mark.parametrize("ess_threshold", [0.0, 1.1])
def test_a_planted_bias_is_caught(ess_threshold):
    z = many_runs("exact", proposal=ForgetsItsWeight(), ess_threshold=ess_threshold)
    assert float(z.abs().max()) > 3 * LIMIT


def test_importance_sampling_is_smc_that_never_resamples():
    lm, fsa = CASES["ended"]
    given = (lm, [], as_automaton(fsa), "gcd", None, 20, N, 1)
    post = tt.inference.smc.importance_sampling(*given)
    assert post.to_dict() == tt.smc(*given, ess_threshold=0.0).to_dict()
    assert not post.resampled


# Exactness


DETERMINISTIC = [
    Fsa([(0, [0, 2], 0), (0, 1, 1), (1, 1, 0), (1, 0, 1)], 0, [0], V),
    Fsa([(0, [0, 2], 0), (0, 1, 1), (1, [0, 1], 1), (1, 2, 0)], 0, [1], V),
]


@pytest.mark.parametrize("fsa", DETERMINISTIC, ids=["parity", "one"])
def test_pgcd_with_the_language_models_own_hmm_is_exact(fsa):
    """p_lm = p_hmm: the lookahead proposal is p_lm(x_t | x_<t, C), every weight is Z."""
    lm = tt.CircuitLM(HMM)
    target = enumerate_target(lm, fsa, 5)
    post = tt.smc(
        lm, [], as_automaton(fsa), LookaheadProposal(), HMM, particles=400, max_new_tokens=5, seed=1
    )
    log_z = math.log(sum(target.values()))
    assert float((post.log_weights - log_z).abs().max()) < 1e-6
    assert post.log_evidence == pytest.approx(log_z, abs=1e-6)
    assert post.ess == pytest.approx(400)
    assert post.resampled == ()
    assert set(post.token_ids) <= set(target)
    # The particles are exact samples: chi-square at error probability about 1e-5 by the normal approximation.
    expected = {x: 400 * p / sum(target.values()) for x, p in target.items()}
    counts = {x: post.token_ids.count(x) for x in target}
    chi = sum((counts[x] - e) ** 2 / e for x, e in expected.items())
    assert chi < len(target) + 6 * math.sqrt(2 * len(target)) + 12


def test_pgcd_with_end_of_sequence_is_exact_where_the_hmm_pads():
    """An HMM with an absorbing end: its padded sequences are the language model's."""
    eos_state = torch.tensor([0.0, 0.0, 1.0])
    initial = torch.tensor([0.5, 0.4, 0.1])
    transition = torch.stack([torch.tensor([0.5, 0.2, 0.3]), torch.tensor([0.1, 0.6, 0.3]), eos_state])
    emission = torch.tensor([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])
    hmm = tt.HMM(initial.double(), transition.double(), emission.double())
    hmm = hmm.to(dtype=torch.float64)
    lm = tt.CircuitLM(hmm, eos_token_id=EOS)
    post = tt.smc(lm, [], as_automaton(ENDED), LookaheadProposal(), hmm, particles=50, max_new_tokens=6)
    log_z = math.log(sum(enumerate_target(lm, ENDED, 6).values()))
    assert float((post.log_weights - log_z).abs().max()) < 1e-6
    assert all(ids[-1] == EOS and EOS not in ids[:-1] for ids in post.token_ids)


ONE_ONE = Fsa([(0, 0, 0), (0, 1, 1), (1, 0, 1)], 0, [1], 2)
# Settings, budgets, failure


class Watched:
    """A language model that may not be called."""

    vocab_size, eos_token_id = V, EOS

    def start(self, prompts):
        raise AssertionError("the language model was called")

    log_probs = advance = select = decode = start


@pytest.mark.parametrize("proposal", ["lm", "lcd", "gcd", "pgcd", "pgcd-mixture"])
def test_budget_too_small_is_raised_before_the_language_model_is_called(proposal):
    with pytest.raises(tt.errors.BudgetTooSmall) as error:
        tt.smc(Watched(), [], as_automaton(ENDED), proposal, HMM, max_new_tokens=1)
    assert error.value.given == 1


def test_the_smallest_feasible_budget_is_met_by_every_particle():
    lm, fsa = CASES["ended"]
    for proposal in ("gcd", "pgcd", "pgcd-mixture"):
        post = tt.smc(lm, [], as_automaton(fsa), proposal, HMM, max_new_tokens=2)
        assert post.token_ids == [(1, EOS)] * 16
        assert all(fsa.accepts(ids) for ids in post.token_ids)


def test_lcd_particles_that_do_not_finish_weigh_nothing():
    # The language model nearly always writes 0; within 3 tokens the constraint is seldom satisfied.
    lm = tt.lm.TableLM({(): torch.tensor([0.98, 0.01, 0.01], dtype=torch.float64).log()}, EOS)
    post = tt.smc(lm, [], as_automaton(ENDED), "lcd", particles=50, max_new_tokens=3, seed=3)
    for particle in post.particles:
        assert (particle.log_weight > -math.inf) == ENDED.accepts(padded(particle.token_ids, 3, EOS))
    assert any(particle.log_weight == -math.inf for particle in post.particles)


def test_all_particles_dead_is_a_failure_and_not_a_result():
    lm = tt.lm.TableLM({(): torch.tensor([1 - 2e-12, 1e-12, 1e-12], dtype=torch.float64).log()}, EOS)
    post = tt.smc(lm, [], as_automaton(ENDED), "lm", particles=8, max_new_tokens=4)
    assert post.failed
    assert post.log_evidence == -math.inf
    assert post.ess == 0.0
    for ask in (lambda: post.best, lambda: post.sample(1), lambda: post.expectation(lambda p: 1.0)):
        with pytest.raises(tt.TractileError, match="none of 8 particles"):
            ask()


def test_a_failure_says_what_the_particles_met():
    lm, fa = CASES["ended"][0], as_automaton(ENDED)

    def never(text):
        return 0.0

    asked = {"proposal": "gcd", "particles": 8, "max_new_tokens": 4}
    for potential in (never, tt.inference.smc.FunctionPotential(never, tt.inference.smc.at_end)):
        with pytest.raises(
            tt.errors.NoParticleSurvived, match=r"potential is zero for all 8 texts.*such as '"
        ):
            tt.smc(lm, [], fa, potential=potential, **asked).best  # noqa: B018
    short = tt.lm.TableLM({(): torch.tensor([0.9, 1e-9, 0.1 - 1e-9], dtype=torch.float64).log()}, EOS)
    with pytest.raises(
        tt.errors.NoParticleSurvived, match=r"8 ran out of max_new_tokens.*keep to the budget"
    ):
        tt.smc(short, [], fa, "lcd", particles=8, max_new_tokens=3).best  # noqa: B018


@pytest.mark.parametrize("hmm", [None, HMM], ids=["no HMM", "an HMM"])
def test_the_proposal_that_is_used_by_default(hmm):
    """Lookahead with an HMM, the mask of the budget without, in every sampler that takes a proposal."""
    lm, fa = CASES["ended"][0], as_automaton(ENDED)
    name = "gcd" if hmm is None else "pgcd"
    given = {"hmm": hmm, "max_new_tokens": N, "seed": 3}
    sampling = tt.inference.smc
    for sampler in (tt.smc, sampling.importance_sampling, sampling.resample_move):
        post, named = sampler(lm, [], fa, **given), sampler(lm, [], fa, name, **given)
        assert post.token_ids == named.token_ids
        assert post.log_weights.tolist() == named.log_weights.tolist()
    few = {"samples": 4, "burn_in": 2, **given}
    assert sampling.mcmc(lm, [], fa, **few).samples == sampling.mcmc(lm, [], fa, name, **few).samples
    mixed = tt.smc(lm, prompts=[[], []], fa=fa, hmm=[hmm, None], max_new_tokens=N, seed=3)
    assert mixed[0].token_ids == tt.smc(lm, [], fa, name, **given).token_ids
    assert mixed[1].strength is None


def test_final_weights_are_not_flattened():
    lm, fsa = CASES["exact"]
    post = tt.smc(lm, [], as_automaton(fsa), "gcd", particles=64, max_new_tokens=N, ess_threshold=1.1)
    assert N - 1 not in post.resampled
    assert float(post.log_weights.std()) > 0
    assert len(post.ess_trace) == N
    assert post.ess == pytest.approx(post.ess_trace[-1])


def test_the_loop_stops_when_every_particle_has_ended():
    lm = tt.lm.TableLM({(): torch.tensor([1e-6, 0.5, 0.5 - 1e-6], dtype=torch.float64).log()}, EOS)
    calls = []

    class Counting:
        vocab_size, eos_token_id = V, EOS

        def __getattr__(self, name):
            method = getattr(lm, name)
            return lambda *arguments: calls.append(name) or method(*arguments)

    post = tt.smc(Counting(), [], as_automaton(ENDED), "gcd", particles=4, max_new_tokens=500)
    longest = max(len(ids) for ids in post.token_ids)
    assert calls.count("log_probs") == longest < 60
    assert calls.count("advance") == longest - 1


def test_the_prompt_conditions_the_language_model():
    table = random_table(V, 2, seed=3)
    fa = as_automaton(ENDED)
    z = sum(enumerate_target(tt.lm.TableLM(table, EOS), ENDED, N, prompt=(0, 1)).values())
    post = tt.smc(tt.lm.TableLM(table, EOS), [0, 1], fa, "gcd", particles=4000, max_new_tokens=N)
    assert post.log_evidence == pytest.approx(math.log(z), abs=0.1)
    assert abs(z - sum(enumerate_target(tt.lm.TableLM(table, EOS), ENDED, N).values())) > 0.02


def test_bad_settings_are_errors():
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)
    with pytest.raises(tt.TractileError, match="unknown resampling"):
        tt.smc(lm, [], fa, "gcd", resampling="none")
    with pytest.raises(tt.TractileError, match="needs hmm"):
        tt.smc(lm, [], fa, "pgcd")
    with pytest.raises(
        tt.errors.VocabularyMismatch, match="the automaton has 2 tokens, the language model 3"
    ):
        tt.smc(lm, [], as_automaton(ONE_ONE), "gcd")
    with pytest.raises(tt.errors.VocabularyMismatch, match="ends a sequence with token 0"):
        tt.smc(tt.lm.TableLM(random_table(V, 1, seed=3), 0), [], fa, "gcd")


def test_no_constraint_is_the_language_model():
    lm, _ = CASES["ended"]
    post = tt.smc(lm, [], None, "lm", particles=300, max_new_tokens=N, seed=1)
    assert torch.equal(post.log_weights, torch.zeros(300, dtype=torch.float64))
    first = sum(ids[0] == EOS for ids in post.token_ids) / 300
    p = math.exp(sequence_log_prob(lm, (EOS,)))
    assert first == pytest.approx(p, abs=4.42 * math.sqrt(p * (1 - p) / 300))
