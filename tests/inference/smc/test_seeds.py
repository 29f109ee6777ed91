"""A seed decides a run: nothing that ran before, or runs beside it, changes its tokens or weights."""

import pytest
from smc_reference import CASES, HMM, N, as_automaton, phi

import tractile as tt
from tractile.inference import smc as sampling

LOOKAHEAD = sampling.LookaheadProposal(0.7)
OPTIONS = {
    "lm": {"proposal": "lm"},
    "lcd": {"proposal": "lcd"},
    "gcd": {"proposal": "gcd"},
    "awrs": {"proposal": "awrs"},
    "lookahead": {"proposal": LOOKAHEAD},
    "mixture": {"proposal": "pgcd-mixture"},
    "a check": {"proposal": sampling.AWRSProposal(lambda text: "cc" not in text)},
    "a function at the end": {"proposal": "gcd", "potential": phi},
    "a function at lines": {
        "proposal": LOOKAHEAD,
        "potential": sampling.FunctionPotential(phi, sampling.every_line),
    },
    "waiting at lines": {"proposal": "gcd", "align": sampling.every_line},
    "multinomial": {"proposal": "gcd", "resampling": "multinomial"},
    "split": {"proposal": "gcd", "beam_factor": 2, "resampling": "without-replacement"},
}
SEEDS = range(4)


def found(post):
    return post.token_ids, post.log_weights.tolist(), post.log_probs.tolist()


def alone(case, fa, options, seed):
    lm = CASES[case][0]
    settings = {"particles": 6, "max_new_tokens": N, "ess_threshold": 0.9, "hmm": HMM}
    return found(tt.smc(lm, [], fa, seed=seed, **settings, **options))


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("case", CASES)
def test_runs_do_not_depend_on_runs_before_or_beside_them(case, name):
    (lm, fsa), options = CASES[case], OPTIONS[name]
    fa = as_automaton(fsa)
    first = [alone(case, fa, options, seed) for seed in SEEDS]
    for budget in (N + 2, N + 1, N):  # other requests on the same objects
        for other in OPTIONS.values():
            tt.smc(lm, [], fa, hmm=HMM, particles=5, max_new_tokens=budget, seed=99, **other)
    assert [alone(case, fa, options, seed) for seed in SEEDS] == first
    assert [alone(case, as_automaton(fsa), options, seed) for seed in SEEDS] == first
    together = tt.smc(
        lm,
        prompts=[[], [0], [], [1, 0], [], []],
        fa=fa,
        seed=[0, 50, 1, 51, 2, 3],
        max_new_tokens=[N, N + 2, N, N + 1, N, N],
        particles=6,
        ess_threshold=0.9,
        hmm=HMM,
        **options,
    )
    assert [found(together[i]) for i in (0, 2, 4, 5)] == first


@pytest.mark.parametrize("case", CASES)
def test_moves_and_chains_do_not_depend_on_runs_before_them(case):
    lm, fsa = CASES[case]
    fa = as_automaton(fsa)

    def run():
        moved = sampling.resample_move(lm, [], fa, LOOKAHEAD, HMM, 4, N, 1, moves=2)
        chains = sampling.mcmc(lm, [], fa, LOOKAHEAD, HMM, 12, N, 1)
        drafted = tt.decoding.speculative(lm, [], fa, HMM, LOOKAHEAD, 4, N, 1)
        return found(moved), chains.samples, found(drafted.posterior)

    first = run()
    for other in OPTIONS.values():
        tt.smc(lm, [], fa, hmm=HMM, max_new_tokens=N + 1, seed=99, **other)
    assert run() == first
