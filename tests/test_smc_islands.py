"""Islands: unbiased together, the same alone as in a batch, and never worse than one island with its share."""

import math

import pytest
import torch
from smc_reference import (
    CASES,
    COMPILED,
    EOS,
    HMM,
    LIMIT,
    Follows,
    ForgetsItsWeight,
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
from tractile.inference.smc import every_line

OPTIONS = {
    "names": {"islands": ["gcd", "pgcd"]},
    "strengths": {
        "islands": [
            "gcd",
            tt.inference.smc.LookaheadProposal(0.4),
            tt.inference.smc.Island("pgcd", particles=2),
        ]
    },
    "potentials": {
        "islands": [
            tt.inference.smc.Island("lcd", tt.inference.smc.LookaheadPotential()),
            tt.inference.smc.Island("pgcd", tt.inference.smc.PrefixPotential(), 5),
        ]
    },
    "beams": {
        "islands": ["gcd", "pgcd"],
        "beam_factor": 2,
        "resampling": "without-replacement",
    },
    "an expert": {
        "islands": ["gcd", "pgcd"],
        "potential": tt.inference.smc.FunctionPotential(phi, tt.inference.smc.at_end),
    },
    "aligned": {"islands": ["gcd", "pgcd"], "align": every_line},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_unbiased(case, options):
    lm, fsa = CASES[case]
    target = enumerate_target(lm, fsa, N)
    if "potential" in options:
        target = {x: p * phi(spelled(x, case)) for x, p in target.items()}
    z = against_enumeration(
        lambda seed: tt.smc(lm, [], COMPILED[case], hmm=HMM, particles=7, max_new_tokens=N, seed=seed,
                            **{"ess_threshold": 1.1, **options}),
        target,
    )  # fmt: skip
    assert bool((z.abs() < LIMIT).all()), z


def test_a_planted_bias_in_one_island_is_caught():
    lm, fsa = CASES["exact"]
    z = against_enumeration(
        lambda seed: tt.smc(lm, [], COMPILED["exact"], particles=8, max_new_tokens=N, seed=seed,
                            islands=["gcd", ForgetsItsWeight()]),
        enumerate_target(lm, fsa, N),
    )  # fmt: skip
    assert float(z.abs().max()) > 3 * LIMIT


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_never_worse_than_gcd_with_its_share(case, seed):
    """Also beside a guide that is wrong on purpose; the first island is GCD alone, to the bit."""
    lm = CASES[case][0]
    wrong = tt.inference.smc.Island(
        tt.inference.smc.LookaheadProposal(9.0), tt.inference.smc.LookaheadPotential(9.0), 12
    )
    common = {"hmm": HMM, "max_new_tokens": N, "seed": seed}
    post = tt.smc(lm, [], COMPILED[case], islands=["gcd", wrong], particles=16, **common)
    alone = tt.smc(lm, [], COMPILED[case], "gcd", particles=4, **common)
    assert post.islands[0].to_dict() == alone.to_dict()
    assert post.log_evidence >= alone.log_evidence + math.log(4 / 16) - 1e-12
    mean = (4 * math.exp(alone.log_evidence) + 12 * math.exp(post.islands[1].log_evidence)) / 16
    assert post.log_evidence == pytest.approx(math.log(mean))
    assert len(post.particles) == 16
    assert post.to_dict()["islands"][1]["log_evidence"] == pytest.approx(post.islands[1].log_evidence)


def test_a_batch_changes_no_island():
    lm = CASES["ended"][0]
    fa, prompts = COMPILED["ended"], [(0, 1), (), (0, 1)]
    other = Follows(0.5, tt.TableLM(random_table(V, 1, seed=9), EOS))
    options = {
        "islands": ["gcd", "pgcd", "lcd"],
        "particles": 9,
        "max_new_tokens": N,
        "hmm": HMM,
        "potential": other,
    }
    together = tt.smc(lm, prompts=prompts, fa=fa, seed=3, **options)
    for i, (prompt, post) in enumerate(zip(prompts, together, strict=True)):
        assert post.to_dict() == tt.smc(lm, prompt, fa, seed=3 + i, **options).to_dict()
    assert together[0].islands[0].token_ids != together[0].islands[1].token_ids


def test_populations_are_one_batch_of_the_model():
    """Every step is one call of the language model, whatever the number of islands."""
    lm, calls = tt.TableLM(random_table(V, 2, seed=3), EOS), []
    advance = lm.advance
    lm.advance = lambda tokens: (calls.append(len(tokens)), advance(tokens))[1]
    tt.smc(
        lm,
        [],
        COMPILED["ended"],
        hmm=HMM,
        islands=["gcd", tt.inference.smc.LookaheadProposal()],
        particles=16,
        max_new_tokens=N,
    )
    assert len(calls) <= N - 1


@pytest.mark.parametrize(
    ("islands", "message"),
    [
        ([], "a list"),
        ("gcd", "a list"),
        (["nothing"], "choose one of"),
        ([3], "a tt.inference.smc.Proposal"),
        ([tt.inference.smc.Island("gcd", phi)], "tt.inference.smc.Potential"),
        ([tt.inference.smc.Island("gcd", particles=0)], "particles"),
        ([tt.inference.smc.Island("gcd", particles=8), "pgcd"], "are left"),
        (["pgcd"], "hmm="),
    ],
)
def test_what_is_no_island_is_refused(islands, message):
    with pytest.raises(tt.errors.EvidenceError, match=message):
        tt.smc(CASES["ended"][0], [], COMPILED["ended"], particles=8, max_new_tokens=N, islands=islands)


def test_a_trace_is_each_islands_own():
    post = tt.smc(CASES["ended"][0], [], COMPILED["ended"], hmm=HMM, islands=["gcd", "pgcd"], particles=4,
                  max_new_tokens=N, trace=True)  # fmt: skip
    assert "<html" in post.islands[1].to_html()
    assert torch.isfinite(post.log_potentials).all()
    assert tt.inference.smc.Runs([post, post]).log_evidence == pytest.approx(post.log_evidence)
    assert as_automaton(CASES["ended"][1]).accepts_tokens(
        post.best.token_ids + (EOS,) * (N - len(post.best.token_ids))
    )
