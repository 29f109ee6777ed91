"""The strength of the lookahead, found by a pilot: unbiased, kept, the same in every order of requests, told in the posterior."""

import logging
import math
from types import SimpleNamespace

import pytest
import torch
from smc_reference import (
    CASES,
    EOS,
    HMM,
    Fsa,
    N,
    V,
    as_automaton,
    random_table,
)

import tractile as tt
from tractile.inference import smc as sampling
from tractile.inference.smc import calibration
from tractile.inference.smc.request import Request
from tractile.inference.smc.strength import STRENGTHS

WRONG = tt.HMM.random(3, V, seed=11, dtype=torch.float64)


class Counted:
    """A language model of its own that counts its passes and their rows."""

    def __init__(self, seed=3):
        self._lm = tt.lm.TableLM(random_table(V, 2, seed=seed), EOS)
        self.vocab_size, self.eos_token_id, self.rows = V, EOS, []

    def start(self, prompts):
        self.rows.append(len(prompts))
        self._lm.start(prompts)

    def advance(self, tokens):
        self.rows.append(len(tokens))
        self._lm.advance(tokens)

    def __getattr__(self, name):
        return getattr(self._lm, name)


def test_an_equal_request_has_no_pilot():
    lm, fsa = Counted(), CASES["ended"][1]
    first = tt.smc(lm, [], as_automaton(fsa), hmm=HMM, particles=4, max_new_tokens=N)
    piloted, lm.rows = lm.rows, []
    assert len(piloted) <= 2 * N
    assert max(piloted) <= 2 * 4 * len(STRENGTHS)
    again = tt.smc(lm, [], as_automaton(fsa), hmm=HMM, particles=4, max_new_tokens=N, seed=5)
    assert len(lm.rows) <= N  # an equal automaton, not the same
    assert again.strength == first.strength
    assert again.calibration is first.calibration
    lm.rows = []
    other = tt.smc(lm, [], as_automaton(fsa), hmm=WRONG, particles=4, max_new_tokens=N)
    assert len(lm.rows) > N
    assert other.calibration is not first.calibration


def test_a_run_is_a_function_of_its_arguments():
    """Whatever was sampled before under the same constraint."""
    fa, settings = (
        as_automaton(CASES["ended"][1]),
        {"hmm": WRONG, "particles": 4, "max_new_tokens": N, "seed": 3},
    )
    fresh = [tt.smc(Counted(), prompt, fa, **settings).to_dict() for prompt in ([], [0], [1, 1])]
    lm = Counted()
    for prompt, expected in zip(([1, 1], [0], []), reversed(fresh), strict=True):
        assert tt.smc(lm, prompt, fa, **settings).to_dict() == expected


def test_few_strengths_are_kept(monkeypatch):
    monkeypatch.setattr(calibration, "KEPT", 2)
    lm, fa = Counted(), as_automaton(CASES["ended"][1])
    for prompt in ([], [0], [1]):
        tt.smc(lm, prompt, fa, hmm=HMM, particles=4, max_new_tokens=N)
    assert len(calibration._kept[lm]) == 2


def test_a_strength_is_shared_by_a_class_of_requests():
    lm, shared = Counted(), sampling.Strength()
    one, other = (as_automaton(Fsa([(0, [0, t], 0), (0, EOS, 1), (1, EOS, 1)], 0, [1], V)) for t in (0, 1))
    assert repr(shared) == "Strength()"
    posts = tt.smc(lm, prompts=[[], [0]], fa=[one, other], proposal=sampling.LookaheadProposal(shared), hmm=HMM,
                   particles=4, max_new_tokens=N)  # fmt: skip
    assert shared.value in STRENGTHS
    assert list(shared.log_evidence) == list(STRENGTHS)
    assert all(post.strength == shared.value and post.calibration is shared for post in posts)
    lm.rows = []
    third = tt.smc(lm, [1], other, sampling.LookaheadProposal(shared), HMM, 4, N)
    assert len(lm.rows) <= N
    assert third.strength == shared.value
    assert str(shared.value) in repr(shared)


def test_a_run_is_that_of_the_strength_it_found():
    """Pilots draw from random numbers of their own: nothing but the strength is left of them."""
    lm, fsa = Counted(), CASES["ended"][1]
    auto = tt.smc(lm, [], as_automaton(fsa), hmm=HMM, particles=8, max_new_tokens=N, seed=3)
    fixed = sampling.GCDProposal() if not auto.strength else sampling.LookaheadProposal(auto.strength)
    plain = tt.smc(lm, [], as_automaton(fsa), fixed, HMM, 8, N, 3)
    assert auto.token_ids == plain.token_ids
    assert torch.equal(auto.log_weights, plain.log_weights)
    assert plain.calibration is None
    assert plain.strength == (auto.strength or None)


def test_a_pilot_asks_no_potential():
    """A judge that costs money is asked about the particles of the run, never about those of the pilot."""
    lm, fsa = Counted(), CASES["ended"][1]

    def asked(proposal):
        seen = []
        potential = sampling.FunctionPotential(lambda text: seen.append(text) or 0.5)
        post = tt.smc(lm, [], as_automaton(fsa), proposal, HMM, 8, N, 3, potential=potential)
        return post, seen

    auto, seen = asked("pgcd")
    assert auto.calibration is not None
    fixed = sampling.GCDProposal() if not auto.strength else sampling.LookaheadProposal(auto.strength)
    assert asked(fixed)[1] == seen


def test_the_pilot_is_on_random_numbers_of_its_own():
    """Whatever the seed of the run that asks for it: else the strength would depend on the run that it steers."""
    found = [
        tt.smc(
            Counted(),
            [],
            as_automaton(CASES["ended"][1]),
            hmm=WRONG,
            particles=4,
            max_new_tokens=N,
            seed=seed,
        )
        for seed in range(4)
    ]
    assert len({post.log_evidence for post in found}) > 1
    assert all(post.calibration.log_evidence == found[0].calibration.log_evidence for post in found)


def test_another_budget_has_a_pilot_of_its_own():
    lm, fa = Counted(), as_automaton(CASES["ended"][1])
    first, other = (tt.smc(lm, [], fa, hmm=HMM, particles=4, max_new_tokens=n) for n in (N, N - 1))
    assert other.calibration is not first.calibration


def test_the_pilot_of_a_single_particle_is_of_single_particles(monkeypatch):
    """What four particles find says little of what one does; single ones have three rounds, of fewer and fewer strengths."""
    asked = []
    run = calibration.run_requests
    monkeypatch.setattr(
        calibration,
        "run_requests",
        lambda requests: asked.append([one.particles for one in requests]) or run(requests),
    )
    lm, fa = Counted(), as_automaton(CASES["ended"][1])
    found = [
        tt.smc(lm, [], fa, hmm=HMM, particles=k, max_new_tokens=N, seed=k).calibration for k in (1, 4, 1, 16)
    ]
    assert asked == [[1] * 8 * len(STRENGTHS), [1] * 8 * 3, [1] * 16 * 2, [4] * 2 * len(STRENGTHS)]
    assert found[0].value in STRENGTHS
    assert found[0] is found[2] is not found[1]
    assert found[1] is found[3]


def test_alone_as_in_a_batch():
    fa = as_automaton(CASES["ended"][1])
    for order in ([0, 1, 2], [2, 0, 1]):
        lm = Counted()
        prompts = [[0], [], [1, 1]]
        together = tt.smc(lm, prompts=[prompts[i] for i in order], fa=fa, hmm=HMM, particles=4, max_new_tokens=N,
                          seed=list(order))  # fmt: skip
        for i, post in zip(order, together, strict=True):
            alone = tt.smc(lm, prompts[i], fa, hmm=HMM, particles=4, max_new_tokens=N, seed=i)
            assert post.to_dict() == alone.to_dict()


def test_a_perfect_guide_is_kept():
    """Random HMMs that are language model and guide at once: no weight varies with strength 1, whatever luck others had."""
    for seed in range(0, 31, 3):
        rng = torch.Generator().manual_seed(seed)
        sharp = 1.0 + seed % 3

        def rows(*shape, rng=rng, sharp=sharp):
            return (sharp * torch.randn(*shape, generator=rng, dtype=torch.float64)).softmax(-1)

        own = tt.HMM(rows(3), rows(3, 3), rows(3, 5))
        edges = [
            (s, [v for v in range(5) if (v + seed) % 3 == r], (s + 1 + r * seed) % 4)
            for s in range(4)
            for r in range(2)
        ]
        fa = tt.Automaton.from_edges(edges, 0, [3], 5)
        post = tt.smc(tt.CircuitLM(own), [], fa, hmm=own, particles=4, max_new_tokens=7)
        assert post.strength == 1.0, seed


def test_a_guide_that_believes_the_opposite_is_not_followed(caplog):
    """The model nearly always satisfies the constraint after token 0, nearly never after 1; the HMM has it the other way."""
    often, seldom = [0.033, 0.033, 0.9, 0.034], [0.333333, 0.333333, 1e-6, 0.333333]
    first = [0.49, 0.49, 0.01, 0.01]
    table = {(): first, (0,): often, (1,): seldom, (2,): seldom, (3,): seldom}
    lm = tt.lm.TableLM({context: torch.tensor(p, dtype=torch.float64).log() for context, p in table.items()})
    emission = torch.tensor([[0.97, 0.01, 0.01, 0.01], [0.01, 0.97, 0.01, 0.01], seldom, often])
    transition = torch.tensor([[0.0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
    hmm = tt.HMM(torch.tensor([0.5, 0.5, 0, 0]).double(), transition.double(), emission.double())
    fa = tt.Automaton.from_edges([(0, [0, 1, 2, 3], 1), (1, 2, 2)], 0, [2], 4)
    with caplog.at_level(logging.WARNING, logger="tractile"):
        post = tt.smc(lm, [], fa, hmm=hmm, particles=4, max_new_tokens=2)
        tt.smc(lm, [], fa, hmm=hmm, particles=4, max_new_tokens=2)
    assert post.strength == 0
    assert post.calibration.guide_hurts
    assert caplog.text.count("no guide") == 1
    plain = tt.smc(lm, [], fa, "gcd", particles=4, max_new_tokens=2)
    assert post.token_ids == plain.token_ids


def runs(log_z):
    """Runs of one particle each, by strength."""
    return {s: [torch.tensor([v], dtype=torch.float64) for v in values] for s, values in log_z.items()}


def test_what_the_pilot_says_is_judged_with_its_neighbours_and_deaths_count():
    strength = sampling.Strength()
    strength.settle([runs({0.0: [-9.0], 0.2: [-math.inf], 0.4: [-5.0], 0.7: [-4.0], 1.0: [-4.1]})])
    assert strength.value == 1.0
    assert strength.log_evidence[0.2] == -19.0
    strength = sampling.Strength()
    strength.settle(
        [runs({0.0: [-3.0, -3.0], 0.2: [-3.1, -3.1], 0.4: [-9, -9], 0.7: [-9, -9], 1.0: [-2.9, -20]})]
    )
    assert strength.value == 0.0
    assert strength.guide_hurts


def test_rounds_keep_the_best_strengths_and_judge_each_by_itself():
    """The second best after eight runs is the best after thirty-two; the worst are not run again."""
    pilot = calibration.Pilot(
        sampling.Strength(),
        1,
        [
            Request(
                Counted(), [], as_automaton(CASES["ended"][1]), HMM, sampling.GCDProposal(), max_new_tokens=N
            )
        ],
    )
    level = {0.0: -9.0, 0.2: -3.0, 0.4: -2.9, 0.7: -5.0, 1.0: -8.0}

    def posteriors(turn):
        strengths = [getattr(one.proposal, "strength", 0.0) for one in pilot.asked(turn)]
        values = level | ({0.4: -3.5} if turn else {})
        # one is lucky
        found = [0.0 if strengths.index(s) == i else values[s] for i, s in enumerate(strengths)]
        return iter([SimpleNamespace(log_weights=torch.tensor([v], dtype=torch.float64)) for v in found])

    left = []
    for turn in range(3):
        pilot.take(turn, posteriors(turn))
        left.append(list(pilot.among))
    assert left == [[0.4, 0.2, 0.7], [0.2, 0.4], [0.2, 0.4]]
    assert [len(pilot.runs[0][s]) for s in STRENGTHS] == [8, 32, 32, 16, 8]
    assert pilot.strength.value == 0.2
    assert pilot.strength.log_evidence[1.0] == -7.0


def test_a_posterior_says_what_its_guide_did():
    lm, fsa = Counted(), CASES["ended"][1]
    post = tt.smc(lm, [], as_automaton(fsa), hmm=HMM, particles=4, max_new_tokens=N, trace=True)
    said = str(post.calibration)
    assert said in str(post)
    assert said in post.to_html()
    assert f"{post.calibration.log_evidence[0.0]:.1f}" in said
    assert "Guide:" not in tt.smc(lm, [], as_automaton(fsa), "gcd", None, 4, N, trace=True).to_html()
    hurts = sampling.Strength()
    assert str(hurts) == "Strength()"
    hurts.settle([runs({0.0: [-3.0], 0.2: [-9.0], 0.4: [-9.0], 0.7: [-9.0], 1.0: [-12.0]})])
    assert str(hurts).startswith("the HMM is no guide here")
    assert "-12.0 with strength 1" in str(hurts)


def test_where_nothing_finds_it_that_is_an_error():
    lm, fsa = CASES["ended"]
    with pytest.raises(tt.errors.EvidenceError, match="hmm="):
        tt.smc(lm, [], as_automaton(fsa), "pgcd", max_new_tokens=N)
    with pytest.raises(tt.errors.EvidenceError, match="give a number"):
        tt.smc(
            lm,
            [],
            as_automaton(fsa),
            sampling.AWRSProposal(bool, base=sampling.LookaheadProposal("auto")),
            HMM,
            max_new_tokens=N,
        )
    with pytest.raises(tt.errors.EvidenceError, match="auto"):
        sampling.LookaheadProposal("best")


def test_chains_and_moves_find_it_too():
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)
    assert sampling.mcmc(lm, [], fa, "pgcd", HMM, 4, N, burn_in=2).samples
    assert sampling.resample_move(lm, [], fa, "pgcd", HMM, 4, N).log_evidence > -math.inf
    said = tt.smc(lm, [], fa, hmm=HMM, particles=4, max_new_tokens=N).to_dict()
    assert said["strength"] in STRENGTHS
    assert len(said["calibration"]) == len(STRENGTHS)
