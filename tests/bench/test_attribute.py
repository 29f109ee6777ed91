"""Soft attributes: backward messages, the target and the classifier against enumeration."""

import itertools
import math

import pytest
import torch
from smc_reference import (
    CASES,
    COMPILED,
    EOS,
    FUNCTIONS,
    HMM,
    LIMIT,
    RUNS,
    Letters,
    N,
    V,
    estimates,
    random_table,
    sequence_log_prob,
    z_scores,
)

import tractile as tt
from tractile.errors import EvidenceError, ShapeError, VocabularyMismatch
from tractile_bench.attribute import Attribute

END = {"ended": EOS, "exact": None}
W = torch.tensor([0.3, 0.8, 1.0], dtype=torch.float64)


def attribute(case):
    return Attribute(W.log() if case == "ended" else torch.tensor([0.3, 0.8, 0.5]).double().log(), -0.2)


def model(case):
    return tt.lm.TableLM(random_table(V, 2, 3), END[case], Letters())


def enumerated(case, power=1):
    """{x: p_lm(x) (p(attribute | x) / w_0)^power} over what the automaton accepts."""
    lm, one = model(case), attribute(case)
    return {
        x: math.exp(sequence_log_prob(lm, x) + power * (one.log_prob(x) - one.log_bias))
        for x in itertools.product(range(V), repeat=N)
        if CASES[case][1].accepts(x)
    }


# ---------------------------------------------------------------- messages


def test_an_hmm_without_weights_is_told_apart_in_the_cache():
    lm, fa, one = model("ended"), COMPILED["ended"], attribute("ended")
    proposal = tt.inference.smc.LookaheadProposal()
    found = [
        tt.smc(one.on(lm), [], fa, proposal, hmm, 4, N, seed=1).log_evidence
        for hmm in (HMM, one.guide(HMM), HMM, one.guide(HMM))
    ]
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert found[0] != found[1]


# ---------------------------------------------------------------- the target


def z_of(posts, truth):
    moments = [sum(p * f(x) for x, p in truth.items()) for f in FUNCTIONS]
    return z_scores(torch.stack([estimates(post) for post in posts]), moments)


def test_two_attributes_and_one_asked_at_the_end():
    one, fa = attribute("ended"), COMPILED["ended"]
    lm = one.on(one.on(model("ended")))
    posts = tt.smc(lm, prompts=[[]] * RUNS, fa=fa, proposal="gcd", particles=12, max_new_tokens=N)
    z = z_of(posts, enumerated("ended", 2))
    assert (z.abs() < LIMIT).all(), z
    potential = tt.inference.smc.FunctionPotential(
        lambda ids: one.log_prob(ids) - one.log_bias, tt.inference.smc.at_end, tokens=True, log=True
    )
    posts = tt.smc(model("ended"), prompts=[[]] * RUNS, fa=fa, proposal="gcd", particles=12, max_new_tokens=N,
                   potential=potential)  # fmt: skip
    z = z_of(posts, enumerated("ended"))
    assert (z.abs() < LIMIT).all(), z


def test_an_hmm_that_is_the_model_knows_the_attribute():
    """With p_hmm = p_lm the lookahead is exact: all weights are Z."""
    everything = tt.Automaton.from_edges([(0, [0, 1, 2], 0)], 0, [0], V)
    one = attribute("exact")
    proposal = tt.inference.smc.LookaheadProposal()
    post = tt.smc(one.on(tt.CircuitLM(HMM)), [], everything, proposal, one.guide(HMM), 8, N)
    assert post.ess == pytest.approx(8)
    texts = torch.tensor(list(itertools.product(range(V), repeat=N)))
    weights = torch.tensor([one.log_prob(x) - one.log_bias for x in texts.tolist()])
    assert post.log_evidence == pytest.approx(float((tt.log_marginal(HMM, texts) + weights).logsumexp(0)))


# ---------------------------------------------------------------- the classifier


def log_likelihood(weights, bias, texts, labels):
    log_p = torch.stack([bias + weights[torch.tensor(text)].sum() for text in texts])
    return torch.where(torch.tensor(labels), log_p, torch.log(-torch.expm1(log_p))).sum()


def noisy_and(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(0, 4, (count, 5), generator=generator)
    lengths = torch.randint(1, 6, (count, 1), generator=generator)
    w = torch.tensor([1.0, 0.5, 0.9, 1.0], dtype=torch.float64)
    p = 0.9 * w[texts].where(torch.arange(5) < lengths, 1.0).prod(1)
    labels = torch.rand(count, generator=generator) < p
    return [text[:n] for text, (n,) in zip(texts.tolist(), lengths.tolist(), strict=True)], labels.tolist()


def test_fit_finds_the_maximum_of_the_likelihood():
    """At a maximum over costs ≥ 0 the gradient is 0, or negative where the cost is 0."""
    texts, labels = noisy_and(400)
    lm = tt.lm.TableLM({(): torch.zeros(5).double().log_softmax(0)})
    found = Attribute.fit(texts, labels, lm, smoothing=1.0, iterations=100_000)
    costs = torch.cat([-found.token_log_weights, torch.tensor([-found.log_bias])]).requires_grad_()
    value = log_likelihood(-costs[:-1], -costs[-1], texts, labels) - costs.sum()
    (gradient,) = torch.autograd.grad(value, costs)
    assert found.token_log_weights[4] == 0.0  # a token that no text has
    assert (gradient[costs > 0.01].abs() < 0.3).all(), gradient
    assert (gradient[costs <= 0.01] < 0.3).all(), gradient


def test_fit_leaves_the_end_token_alone():
    lm = tt.lm.TableLM({(): torch.zeros(3).double().log_softmax(0)}, EOS)
    found = Attribute.fit([[0, EOS], [1, EOS], [0, 0, EOS]], [True, False, True], lm, smoothing=0.1)
    assert found.token_log_weights[EOS] == 0.0
    assert found.token_log_weights[0] > -0.01
    assert found.token_log_weights[1] < -1
    found = Attribute.fit([[0], [0, EOS], [1], [1, EOS]], [True, False, True, False], lm, smoothing=0.1)
    assert found.token_log_weights[EOS] == 0.0  # though only texts with it lack the attribute


# ---------------------------------------------------------------- bad input


def test_errors():
    lm = tt.lm.TableLM({(): torch.zeros(3).double().log_softmax(0)})
    with pytest.raises(EvidenceError, match="2 texts and 1 labels"):
        Attribute.fit([[0], [1]], [True], lm)
    with pytest.raises(EvidenceError, match="texts of both kinds"):
        Attribute.fit([[0], [1]], [True, True], lm)
    with pytest.raises(EvidenceError, match="no tokenizer"):
        Attribute.fit(["a", "b"], [True, False], lm)
    with pytest.raises(VocabularyMismatch, match="outside the 3"):
        Attribute.fit([[0], [3]], [True, False], lm)
    with pytest.raises(ShapeError, match="0 or less"):
        Attribute(torch.tensor([0.1, 0.0]))
    with pytest.raises(ShapeError, match="log_bias"):
        Attribute(torch.zeros(2), 0.5)
    with pytest.raises(VocabularyMismatch, match="weights for 2 tokens"):
        Attribute(torch.zeros(2)).on(lm)
    with pytest.raises(VocabularyMismatch, match="2 weights for the 3 tokens"):
        Attribute(torch.zeros(2)).guide(HMM)
    counted = {"texts": [[0, 1], [1, 1]], "labels": [True, False], "lm": lm}
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(EvidenceError, match=r"Attribute.fit: iterations must be a whole number"):
            Attribute.fit(**counted, iterations=wrong)
