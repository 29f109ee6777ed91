"""The adaptive proposal: properly weighted at every stage of what it has learned, and exact once it has seen everything."""

import itertools
import math

import pytest
import torch
from smc_reference import (
    CASES,
    COMPILED,
    EOS,
    HMM,
    LIMIT,
    RUNS,
    N,
    V,
    against_enumeration,
    enumerate_target,
    padded,
    random_table,
)

import tractile as tt
from tractile.inference.smc import AdaptiveProposal, PrefixPotential

BASES = {"gcd": tt.inference.smc.GCDProposal, "lookahead": tt.inference.smc.LookaheadProposal}


def run(case, proposal, seed, particles=4, **options):
    return tt.smc(CASES[case][0], [], COMPILED[case], proposal, HMM, particles, N, seed, **options)


@pytest.mark.parametrize("potential", ["its own", "prefix"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("case", CASES)
def test_unbiased_while_it_learns(case, base, potential):
    """One object for all runs: each run's Ẑ is unbiased given those before."""
    target = enumerate_target(*CASES[case], N)
    proposal = AdaptiveProposal(BASES[base]())
    psi = proposal.potential if potential == "its own" else PrefixPotential()
    z = against_enumeration(
        lambda seed: run(case, proposal, seed, 2, potential=psi, ess_threshold=0.9), target, runs=40
    )
    assert bool((z.abs() < LIMIT).all()), z


class LooksAgain(tt.inference.smc.Proposal):
    """A planted bias: the weight by what is believed after the draw, not by what drew it."""

    def __init__(self):
        self.adaptive = AdaptiveProposal()
        self.needs = self.adaptive.needs

    def draw(self, step, generator):
        tokens, _ = self.adaptive.draw(step, generator)
        drawn = {
            (tuple(prefix.tolist()), token)
            for prefix, token in zip(step.prefixes, tokens.tolist(), strict=True)
        }
        children = [self.adaptive._tree[prefix].children[token] for prefix, token in drawn]
        for child in children:  # it thinks worse of a token once it was drawn
            child.future *= 0.5
        log_q = self.adaptive.belief(step).log_softmax(1).gather(1, tokens[:, None])[:, 0]
        for child in children:
            child.future *= 2.0
        return tokens, self.adaptive.log_weight(step, log_q, tokens)


def test_weights_from_a_later_belief_are_caught():
    proposal = LooksAgain()
    target = enumerate_target(*CASES["ended"], N)
    z = against_enumeration(
        lambda seed: run("ended", proposal, seed, 2, potential=PrefixPotential(), ess_threshold=0.9), target
    )
    assert float(z.abs().max()) > LIMIT


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("case", CASES)
def test_it_becomes_exact(case, base):
    """Once every prefix was drawn: c̃ of the prompt is Z, every weight Z, samples follow the target."""
    target = enumerate_target(*CASES[case], N)
    z = sum(target.values())
    proposal, bounds = AdaptiveProposal(BASES[base]()), []
    for seed in range(60):
        run(case, proposal, seed, 64, ess_threshold=0.0, potential=PrefixPotential())
        bounds.append(math.exp(proposal.log_evidence))
    if base == "gcd":  # an upper bound that never rises
        assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(bounds))
        assert bounds[0] >= z * (1 - 1e-9)
    else:  # the guess is far too low in places, where it is slow to look
        assert abs(math.log(bounds[-1] / z)) < min(0.1, abs(math.log(bounds[0] / z)))
        return
    assert bounds[-1] == pytest.approx(z, rel=1e-9)
    post = run(case, proposal, 1000, 3000, ess_threshold=0.0, potential=PrefixPotential())
    assert post.log_weights.exp().tolist() == pytest.approx([z] * 3000, rel=1e-9)
    counts = dict.fromkeys(target, 0)
    for tokens in post.token_ids:
        counts[padded(tokens, N, EOS)] += 1
    for x, p in target.items():
        share = p / z
        assert abs(counts[x] / 3000 - share) < 4.9 * math.sqrt(share * (1 - share) / 3000)


def test_draws_improve():
    """The spread of the weights falls with the number of draws before."""
    lm = tt.TableLM(random_table(4, 1, seed=11), 3)
    rare = tt.Automaton.from_edges(
        [(0, [0, 2], 0), (0, 1, 1), (1, [0, 2], 0), (1, 1, 2), (2, [0, 1, 2], 2), (2, 3, 3), (3, 3, 3)],
        0,
        [3],
        4,
        eos_token_id=3,
    )
    proposal = AdaptiveProposal()

    def spread(seed):
        weights = tt.inference.smc.importance_sampling(
            lm, [], rare, proposal, None, 32, 7, seed
        ).log_weights.exp()
        return float(weights.std() / weights.mean())

    first = sum(spread(seed) for seed in range(3)) / 3
    for seed in range(3, 60):
        spread(seed)
    last = sum(spread(seed) for seed in range(60, 63)) / 3
    assert last < first / 3


def test_several_particles_of_one_prefix_and_zero_probabilities():
    table = {(): torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64).log(), (0,): [0.0, -math.inf, -math.inf]}
    table[(0,)] = torch.tensor(table[(0,)], dtype=torch.float64)
    lm = tt.TableLM(table)
    fa = tt.Automaton.from_edges([(0, [0, 1, 2], 0), (0, 1, 1), (0, 2, 1)], 0, [1], V)
    proposal = AdaptiveProposal()
    for seed in range(30):  # after token 0 only zeros follow, and the last must be 1 or 2
        post = tt.smc(lm, [], fa, proposal, None, 8, 3, seed, ess_threshold=0.0)
    assert post.log_evidence == pytest.approx(math.log(0.125))
    assert proposal.log_evidence == pytest.approx(math.log(0.125))


def test_it_is_for_one_task_only():
    proposal = AdaptiveProposal()
    run("ended", proposal, 0)
    with pytest.raises(tt.errors.EvidenceError, match="make a new one"):
        run("exact", proposal, 0)
    with pytest.raises(tt.errors.EvidenceError, match="base must be"):
        AdaptiveProposal(tt.inference.smc.MixtureProposal())
    with pytest.raises(tt.errors.EvidenceError, match="base must be"):
        AdaptiveProposal(tt.inference.smc.GCDProposal(2.0))


def test_it_stops_learning_where_it_is_full():
    target = enumerate_target(*CASES["ended"], N)
    proposal = AdaptiveProposal(max_prefixes=5)
    z = against_enumeration(lambda seed: run("ended", proposal, seed, 2), target, runs=RUNS)
    assert len(proposal._tree) == 5
    assert bool((z.abs() < LIMIT).all()), z
