"""Independent runs together: standard errors that hold, the bound on the divergence, pooled estimates; equal meanings."""

import math

import pytest
import torch
from smc_reference import CASES, EOS, LIMIT, N, as_automaton, enumerate_target, padded

import tractile as tt
from tractile.inference.smc import Particle, json_value


def post(*log_weights):
    n = len(log_weights)
    weights = torch.tensor(log_weights, dtype=torch.float64)
    return tt.inference.smc.Posterior(
        [(i,) for i in range(n)], [str(i) for i in range(n)], weights, torch.zeros(n).double()
    )


DEAD = post(-math.inf, -math.inf)


def test_by_hand():
    runs = tt.inference.smc.Runs(
        [post(math.log(2), math.log(4)), post(math.log(1)), DEAD, post(-math.inf, math.log(2))]
    )
    z = torch.tensor([3.0, 1.0, 0.0, 1.0])
    assert runs.alive == 0.75
    assert runs.log_evidence == pytest.approx(math.log(1.25))
    assert runs.log_evidence_error == pytest.approx(float(z.std()) / 2 / 1.25)
    assert runs.quality == pytest.approx(math.log(3) / 3 + math.log(0.75))
    spread = float(torch.tensor([math.log(3), 0.0, 0.0]).var()) / 3
    assert runs.quality_error == pytest.approx(math.sqrt(spread + 0.25 / (4 * 0.75)), rel=1e-6)
    pooled = runs.pooled()
    assert pooled.log_evidence == pytest.approx(runs.log_evidence)
    assert pooled.expectation(lambda p: float(p.text == "0")) == pytest.approx((1 + 1) / 5)


def test_where_no_run_lives_and_where_there_are_too_few():
    runs = tt.inference.smc.Runs([DEAD, DEAD])
    assert (runs.log_evidence, runs.log_evidence_error, runs.quality) == (-math.inf, math.inf, -math.inf)
    assert math.isnan(runs.quality_error)
    assert runs.pooled().failed
    with pytest.raises(tt.errors.EvidenceError, match="two runs or more, not 1"):
        tt.inference.smc.Runs([DEAD])


@pytest.mark.parametrize("proposal", ["gcd", "lm"])
def test_standard_error_and_quality_against_enumeration(proposal):
    """log Z within 4.42 standard errors; one particle: the quality is log Z − KL of the proposal, known exactly."""
    lm, fsa = CASES["ended"]
    fa, target = as_automaton(fsa), enumerate_target(lm, fsa, N)
    z = sum(target.values())
    runs = tt.inference.smc.Runs(
        tt.smc(lm, prompts=[()] * 400, fa=fa, proposal=proposal, particles=1, max_new_tokens=N)
    )
    assert abs(runs.log_evidence - math.log(z)) < LIMIT * runs.log_evidence_error
    if proposal == "lm":  # begun anew until one lives it is rejection sampling: no divergence at all
        assert abs(runs.quality - math.log(z)) < LIMIT * runs.quality_error
        assert runs.quality_error == pytest.approx(math.sqrt((1 - runs.alive) / (400 * runs.alive)))
    else:
        weight = {padded(ids, N, EOS): w for p in runs.posteriors for ids, w in
                  zip(p.token_ids, p.log_weights.tolist(), strict=True)}  # fmt: skip
        q = {x: p / math.exp(weight[x]) for x, p in target.items() if x in weight}
        assert sum(q.values()) == pytest.approx(1, abs=0.05)  # what was not drawn is rare
        expected = sum(q[x] * weight[x] for x in q)
        assert abs(runs.quality - expected) < LIMIT * runs.quality_error + 0.05
        assert runs.quality < math.log(z)


def particle(text):
    return Particle((), text, 0.5, 0.0, 0.0)


def test_json_of_the_same_value_is_grouped():
    same = ['{"a": 1, "b": [true, null]}', ' {"b":[true,null], "a":1.0}']
    assert len({json_value(particle(text)) for text in same}) == 1
    different = [same[0], '{"a": true, "b": [true, null]}', '{"a": "1", "b": [true, null]}', "[]", "{}", "null", "",
                 '{"a": 1, "b": [null, true]}', '""', "0", "false", "[" * 100_000]  # fmt: skip
    assert len({json_value(particle(text)) for text in different}) == len(different)
