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


def found(post):
    return post.token_ids, post.log_weights.tolist(), post.log_probs.tolist()


def alone(case, fa, options, seed):
    lm = CASES[case][0]
    settings = {"particles": 6, "max_new_tokens": N, "ess_threshold": 0.9, "hmm": HMM}
    return found(tt.smc(lm, [], fa, seed=seed, **settings, **options))


@pytest.mark.parametrize("case", CASES)
def test_runs_moves_and_chains_do_not_depend_on_runs_before_them(case):
    lm, fsa = CASES[case]
    fa = as_automaton(fsa)

    def run():
        moved = sampling.resample_move(lm, [], fa, LOOKAHEAD, HMM, 4, N, 1, moves=2)
        chains = sampling.mcmc(lm, [], fa, LOOKAHEAD, HMM, 12, N, 1)
        drafted = tt.decoding.speculative(lm, [], fa, HMM, LOOKAHEAD, 4, N, 1)
        plain = [alone(case, fa, options, seed=1) for options in OPTIONS.values()]
        return plain, found(moved), chains.samples, found(drafted.posterior)

    first = run()
    for other in OPTIONS.values():
        tt.smc(lm, [], fa, hmm=HMM, max_new_tokens=N + 1, seed=99, **other)
    assert run() == first
