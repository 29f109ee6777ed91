"""Rollouts and learned twists: the target stays exact whatever they say; rollouts estimate what they should."""

import math

import pytest
import torch
from smc_reference import (
    CASES,
    EOS,
    HMM,
    LIMIT,
    N,
    V,
    against_enumeration,
    as_automaton,
    enumerate_target,
    phi,
    spelled,
)

import tractile as tt
from tractile.inference.smc import HiddenTwist, LMProposal, LookaheadProposal, RolloutPotential, Step
from tractile.inference.smc.step import Extension

TWISTS = {
    "to the end": lambda: RolloutPotential(2),
    "by the model": lambda: RolloutPotential(3, proposal=LMProposal()),
    "short": lambda: RolloutPotential(2, 1),
    "short, judged": lambda: RolloutPotential(2, 1, proposal=LookaheadProposal()),
    "for a function": lambda: RolloutPotential(2, function=phi),
    "at lines": lambda: RolloutPotential(2).at(tt.inference.smc.every_line),
}


@pytest.mark.parametrize("name", TWISTS)
@pytest.mark.parametrize("case", CASES)
def test_unbiased(case, name):
    """For p_lm · 1[C], and times another potential beside the twist."""
    lm, fsa = CASES[case]
    fa, target = as_automaton(fsa), enumerate_target(lm, fsa, N)
    other = (
        tt.inference.smc.FunctionPotential(phi, tt.inference.smc.at_end) if name == "for a function" else None
    )
    if other is not None:
        target = {x: p * phi(spelled(x, case)) for x, p in target.items()}

    def run(seed):
        twist = TWISTS[name]()
        psi = twist if other is None else twist * other
        return tt.smc(lm, [], fa, "gcd", HMM, 6, N, seed, potential=psi, ess_threshold=0.9)

    z = against_enumeration(run, target, runs=30)
    assert bool((z.abs() < LIMIT).all()), z


def shown(case, prefix, tokens, potential, needs_hmm):
    """The potential asked about one prefix and some tokens."""
    lm, fsa = CASES[case]
    fa = as_automaton(fsa)
    lm.start([[]])
    query = (tt.pgcd(HMM, fa, N) if needs_hmm else tt.gcd(fa, N)).start(1)
    potential.start(lm, [[]], [N])
    for token in prefix:
        lm.advance(torch.tensor([token]))
        query.advance(torch.tensor([token]))
    rows = len(tokens)
    step = Step(
        lm.log_probs(),
        query,
        torch.tensor([prefix] * rows),
        torch.zeros(rows, dtype=torch.long),
        decode=lm.decode,
        eos_token_id=fsa.eos_token_id,
    )
    chosen = torch.tensor(tokens)
    return potential.log_value(Extension(step, chosen, step.ends(chosen), torch.ones(rows, dtype=torch.bool)))


@pytest.mark.parametrize("function", [None, phi])
@pytest.mark.parametrize("proposal", [None, LMProposal(), LookaheadProposal()])
@pytest.mark.parametrize("case", CASES)
def test_rollouts_to_the_end_are_unbiased(case, proposal, function):
    """The mean over many estimates of E_lm[1[x ∈ C] f(x) | x_≤t]."""
    lm, fsa = CASES[case]
    target = enumerate_target(lm, fsa, N)
    runs, m = 30, 20
    found = torch.stack(
        [
            shown(
                case,
                [0],
                [0, 1],
                RolloutPotential(m, proposal=proposal, function=function, seed=seed),
                isinstance(proposal, LookaheadProposal),
            ).exp()
            for seed in range(runs)
        ]
    )
    for column, token in enumerate((0, 1)):
        lm.start([[]])
        p = float(lm.log_probs()[0, 0].exp())
        lm.advance(torch.tensor([0]))
        p *= float(lm.log_probs()[0, token].exp())
        total = sum(
            w * (1.0 if function is None else phi(spelled(x, case)))
            for x, w in target.items()
            if x[:2] == (0, token)
        )
        values = found[:, column]
        assert abs(float(values.mean()) - total / p) < LIMIT * float(values.std()) / math.sqrt(runs) + 1e-12


def test_a_short_rollout_is_judged_by_the_hmm():
    """With the HMM as the language model the estimate is p(C | x_≤t) itself, of however few tokens."""
    fsa = CASES["exact"][1]
    fa, lm = as_automaton(fsa), tt.CircuitLM(HMM)
    lm.start([[]])
    query = tt.pgcd(HMM, fa, N).start(1)
    potential = RolloutPotential(2, 1, proposal=LookaheadProposal())
    potential.start(lm, [[]], [N])
    step = Step(lm.log_probs(), query, torch.zeros(1, 0, dtype=torch.long))
    token = torch.tensor([1])
    value = potential.log_value(Extension(step, token, torch.tensor([False]), torch.tensor([True])))
    assert float(value[0]) == pytest.approx(float(query.lookahead()[0, 1]), abs=1e-6)


def test_many_prompts():
    """Several prompts in one batch: each unbiased, as far as two runs of many particles can tell."""
    lm, fsa = CASES["ended"]
    posts = tt.smc(
        lm,
        prompts=[[], [0], [1]],
        fa=as_automaton(fsa),
        proposal="gcd",
        particles=400,
        max_new_tokens=N,
        potential=RolloutPotential(2),
    )
    for prompt, post in zip(([], [0], [1]), posts, strict=True):
        z = sum(enumerate_target(lm, fsa, N, prompt).values())
        assert post.log_evidence == pytest.approx(math.log(z), abs=0.15)


def test_rollouts_steer():
    """At least six zeros in eight tokens: particles that are on the way to them are kept."""
    lm = tt.TableLM({(): torch.tensor([0.35, 0.35, 0.3], dtype=torch.float64).log()})
    edges = [edge for n in range(7) for edge in ((n, 0, min(n + 1, 6)), (n, [1, 2], n))]
    fa = tt.Automaton.from_edges(edges, 0, [6], V)

    def spread(potential):
        values = [
            math.exp(tt.smc(lm, [], fa, "gcd", None, 16, 8, seed, potential=potential).log_evidence)
            for seed in range(50)
        ]
        return float(torch.tensor(values).std() / torch.tensor(values).mean())

    assert spread(RolloutPotential(16)) < 0.85 * spread(tt.inference.smc.PrefixPotential())


def random_head(dim, vocab_size):
    weights = torch.randn(dim, vocab_size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return lambda hidden: hidden @ weights


@pytest.mark.parametrize("resampling", ["systematic", "without-replacement"])
def test_a_twist_on_hidden_states(resampling):
    """Any head leaves the target as it is; its value is that of the chosen token."""
    fsa = CASES["ended"][1]
    hmm = tt.HMM.random(4, V, seed=2, dtype=torch.float64)
    lm, head = tt.CircuitLM(hmm, EOS), random_head(4, V)
    target = enumerate_target(lm, fsa, N)

    def run(seed):
        return tt.smc(
            lm,
            [],
            as_automaton(fsa),
            "gcd",
            None,
            6,
            N,
            seed,
            potential=HiddenTwist(head, 1.5),
            ess_threshold=0.9,
            resampling=resampling,
        )

    z = against_enumeration(run, target)
    assert bool((z.abs() < LIMIT).all()), z
    lm.start([[]])
    twist = HiddenTwist(head, 1.5)
    twist.start(lm, [[]], [N])
    query = tt.gcd(as_automaton(fsa), N).start(1)
    step = Step(
        lm.log_probs(), query, torch.zeros(2, 0, dtype=torch.long), torch.tensor([0, 0]), eos_token_id=EOS
    )
    value = twist.log_value(
        Extension(step, torch.tensor([1, EOS]), torch.tensor([False, True]), torch.ones(2, dtype=torch.bool))
    )
    expected = 1.5 * float(head(hmm.initial_probs[None].double())[0, 1])
    assert value.tolist() == pytest.approx([expected, 0.0])


class Plain:
    """A language model that can neither fork nor show hidden states."""

    def __init__(self, lm):
        self.vocab_size, self.eos_token_id = lm.vocab_size, lm.eos_token_id
        self.start, self.log_probs, self.advance = lm.start, lm.log_probs, lm.advance
        self.select, self.decode = lm.select, lm.decode


def test_failures():
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)

    def run(potential, model=lm):
        return tt.smc(model, [], fa, "gcd", particles=4, max_new_tokens=N, potential=potential)

    with pytest.raises(tt.errors.EvidenceError, match="no fork"):
        run(RolloutPotential(), Plain(lm))
    with pytest.raises(tt.errors.EvidenceError, match="no hidden"):
        run(HiddenTwist(lambda hidden: hidden), Plain(lm))
    with pytest.raises(tt.errors.PotentialError, match="<lambda>' raised ZeroDivisionError"):
        run(RolloutPotential(function=lambda text: 1 / 0))
    with pytest.raises(tt.errors.PotentialError, match="<lambda>' returned -1"):
        run(RolloutPotential(function=lambda text: -1))
    circuit = tt.CircuitLM(tt.HMM.random(4, V, seed=2), EOS)
    with pytest.raises(tt.errors.ShapeError, match="the head returned shape"):
        run(HiddenTwist(lambda hidden: hidden), circuit)
    with pytest.raises(tt.errors.PotentialError, match="infinite or no number"):
        run(HiddenTwist(lambda hidden: torch.full((len(hidden), V), math.nan)), circuit)
    for bad in ({"rollouts": 0}, {"length": 0}):
        with pytest.raises(tt.errors.EvidenceError):
            RolloutPotential(**bad)
