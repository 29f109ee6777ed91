"""Products of language models as targets: every sampler against enumeration of Π p_i(x)^power_i."""

import itertools
import math

import pytest
import torch
from kernel_reference import TABULAR, Scripted
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
    padded,
    random_table,
    sequence_log_prob,
    z_scores,
)

import tractile as tt
from tractile.embedded import load_hmm, load_lm
from tractile.errors import EvidenceError, VocabularyMismatch
from tractile.inference.smc.kernel import Kernel, Particles
from tractile.inference.smc.request import Request

END = {"ended": EOS, "exact": None}


def table_lm(case, seed):
    return tt.lm.TableLM(random_table(V, 2, seed), END[case], Letters())


def models(case):
    """Three models, and a factor that reads another prompt: (model, power, prompt)."""
    a, b, c = (table_lm(case, seed) for seed in (3, 11, 12))
    return [(a, 0.7, None), (b, 0.6, None), (c, -0.4, None), (a, 0.5, [1, 0])]


def tempered(case):
    return [(table_lm(case, 3), 0.4, None)]


TARGETS = {"tempered": tempered, "product": models}


def target_of(factors):
    return tt.lm.ProductLM(*map(list, zip(*factors, strict=True)))


def enumerated(factors, case):
    """{x: Π p_i(x)^power_i} over what the automaton accepts, each model asked by itself."""
    found = {}
    for x in itertools.product(range(V), repeat=N):
        if CASES[case][1].accepts(x):
            log = sum(power * sequence_log_prob(lm, x, prompt or ()) for lm, power, prompt in factors)
            found[x] = math.exp(log)
    return found


PROPOSALS = {  # those that are not in test_sharp_products_are_exact
    "gcd, tempered": lambda: tt.inference.smc.GCDProposal(temperature=0.6), "awrs by masks": lambda: "awrs",
    "awrs": lambda: tt.inference.smc.AWRSProposal(bool, tokens=True),
    "characters": lambda: tt.inference.smc.CharacterProposal(Letters(), lambda _: [1.0] * 257),
}  # fmt: skip


def estimates(target, case, proposal, **settings):
    """Ẑ and Ẑ·E[f] of independent runs."""
    posts = tt.smc(
        target,
        prompts=[[]] * RUNS,
        fa=COMPILED[case],
        proposal=proposal(),
        hmm=HMM,
        particles=12,
        max_new_tokens=N,
        **settings,
    )
    return [moments_of(post) for post in posts]


def moments_of(post):
    weights = (post.log_weights.exp() / len(post.log_weights)).tolist()
    texts = [padded(ids, N, EOS) for ids in post.token_ids]
    return [sum(w * f(x) for w, x in zip(weights, texts, strict=True) if w) for f in FUNCTIONS]


@pytest.mark.long
@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_a_proposal_that_is_not_tabular_samples_the_target(case, name, proposal):
    """z-scores of 40 runs; |z| > 4.42 has probability 1e-5."""
    factors = TARGETS[name](case)
    truth = enumerated(factors, case)
    moments = [sum(w * f(x) for x, w in truth.items()) for f in FUNCTIONS]
    values = estimates(target_of(factors), case, PROPOSALS[proposal])
    z = z_scores(values, moments)
    assert (z.abs() < LIMIT).all(), z


def test_with_a_potential_moves_and_a_proposal_that_learns():
    """A potential multiplies the target, resample–move keeps it, and a proposal may learn from run to run of its own."""
    factors = models("ended")
    target = target_of(factors)
    plain = enumerated(factors, "ended")
    weighed = {x: w * 0.3 ** x.count(0) for x, w in plain.items()}
    psi = tt.inference.smc.FunctionPotential(
        lambda text: 0.3 ** text.count("a"), tt.inference.smc.every_token
    )
    settings = {"particles": 12, "max_new_tokens": N}
    runs = {
        "potential": (weighed, lambda i: tt.smc(target, [], fa, "gcd", seed=i, potential=psi, **settings)),
        "moves": (
            weighed,
            lambda i: tt.inference.smc.resample_move(
                target, [], fa, "gcd", seed=i, potential=psi, ess_threshold=0.9, **settings
            ),
        ),
    }
    fa = COMPILED["ended"]
    for name, (truth, run) in runs.items():
        moments = [sum(w * f(x) for x, w in truth.items()) for f in FUNCTIONS]
        z = z_scores([moments_of(run(seed)) for seed in range(RUNS)], moments)
        assert (z.abs() < LIMIT).all(), (name, z)


def test_operators_multiply_the_factors():
    a, b, c = (table_lm("ended", seed) for seed in (3, 11, 12))
    for x in itertools.product(range(EOS), repeat=2):
        log = [sequence_log_prob(lm, x) for lm in (a, b, c)]
        assert sequence_log_prob(a * b / c, x) == pytest.approx(log[0] + log[1] - log[2])
        assert sequence_log_prob((a / b) ** 2 * a**0.5, x) == pytest.approx(2.5 * log[0] - 2 * log[1])
        assert sequence_log_prob(a / (b * c), x) == pytest.approx(log[0] - log[1] - log[2])
        assert sequence_log_prob(a**0, x) == 0.0
    product = a * b
    product.start([[0], [1]])
    fork = product.fork()
    fork.advance(torch.tensor([1, 1]))
    assert torch.equal(product.log_probs(), (a.log_probs() + b.log_probs()))


def test_bad_factors_are_named():
    a, other = table_lm("ended", 3), tt.lm.TableLM(random_table(4, 1, 0), EOS)
    with pytest.raises(VocabularyMismatch, match="model 1 has 4 tokens, model 0 3"):
        a * other
    with pytest.raises(VocabularyMismatch, match="ends with"):
        a * table_lm("exact", 3)
    for power in (math.nan, math.inf, True, "2"):
        with pytest.raises(EvidenceError, match="power"):
            a**power
    with pytest.raises(EvidenceError, match="2 models, 1 powers"):
        tt.lm.ProductLM([a, a], [1.0])
    zero = tt.lm.TableLM({(): torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64).log()}, EOS)
    ratio = a / zero
    ratio.start([[]])
    with pytest.raises(EvidenceError, match="probability zero to token 2"):
        ratio.log_probs()
    both = zero / zero
    both.start([[]])
    assert both.log_probs().tolist() == [[0.0, 0.0, -math.inf]]


def test_functions_that_need_probabilities_refuse_a_product():
    a = table_lm("ended", 3)
    with pytest.raises(EvidenceError, match="do not sum to one"):
        tt.decoding.beam_search(a**2, [], COMPILED["ended"], N)


def test_transformers_with_several_prompts():
    """One model twice, with two prompts: weights are those of two separate models."""
    model, tokenizer = load_lm()
    lm = tt.TransformersLM(model, tokenizer)
    girl, boy = "The name of the girl was", "The name of the boy was"
    product = tt.lm.ProductLM([lm, lm], [1.0, 0.5], prompts=[None, boy])
    product.start([girl, girl])
    product.advance(torch.tensor([5, 6]))
    product.select(torch.tensor([1, 0]))
    expected = torch.zeros(2, lm.vocab_size)
    for prompt, power in ((girl, 1.0), (boy, 0.5)):
        alone = tt.TransformersLM(model, tokenizer)
        alone.start([prompt, prompt])
        alone.advance(torch.tensor([6, 5]))
        expected += power * alone.log_probs()
    assert torch.allclose(product.log_probs(), expected, atol=1e-4)
    names = tt.constraints.regex(" [A-Z][a-z]+")
    post = tt.smc(product, girl, names, "pgcd", load_hmm(), particles=8, max_new_tokens=8)
    assert names.accepts(post.best.text)


@pytest.mark.parametrize("name", TABULAR)
@pytest.mark.parametrize("case", CASES)
def test_sharp_products_are_exact(case, name):
    """Powers of 3 and −1, whose weights have tails too heavy for z-tests: q(x) · W(x) = w(x) for every text."""
    factors = [(table_lm(case, 3), 3.0, None), (table_lm(case, 11), -1.0, None)]
    scripted, total = Scripted(TABULAR[name]), 0.0
    request = Request(target_of(factors), [], COMPILED[case], HMM, scripted, max_new_tokens=N)
    kernel = Kernel(request.prepare())
    for x, weight in enumerated(factors, case).items():
        scripted.read(x)
        path = kernel.extend(Particles.start(1, N), torch.zeros(1).long(), N, torch.Generator())
        q = math.exp(sum(scripted.log_q))
        assert q * float(path.log_value(torch.tensor([0])).exp()) == pytest.approx(weight, rel=1e-9)
        total += q
    assert total < 1 + 1e-9
    if name not in ("lm", "lcd"):
        assert total == pytest.approx(1.0)
