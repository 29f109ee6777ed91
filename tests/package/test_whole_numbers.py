"""Every argument that counts something: its least number is taken, one less is refused, and the message says what was meant."""

import re

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.inference import arguments
from tractile.inference import smc as sampling

VOCAB = tt.Vocabulary([b"a", b"b", None], 2)
HMM = tt.HMM.random(2, 3, seed=1)
FA = tt.constraints.regex("a{0,2}b?").compile(VOCAB)


def run(sampler, **settings):
    lm = tt.CircuitLM(HMM, 2, VOCAB)
    return sampler(lm, [], FA, **{"max_new_tokens": 3} | settings)


def query():
    return tt.gcd(FA, 4).start()


def chains(**settings):
    return run(sampling.mcmc, proposal="gcd", **{"samples": 1, "burn_in": 0} | settings)


def moved(**settings):
    return run(sampling.resample_move, proposal="gcd", **{"particles": 2} | settings)


def smc(**settings):
    return run(tt.smc, proposal="gcd", **{"particles": 2} | settings)


def speculative(**settings):
    return run(tt.decoding.speculative, hmm=HMM, **{"particles": 2} | settings)


COUNTS = {
    "smc: particles": (lambda n: smc(particles=n), 1),
    "smc: max_new_tokens": (lambda n: smc(max_new_tokens=n), 1),
    "smc: beam_factor": (lambda n: smc(beam_factor=n), 1),
    "mcmc: samples": (lambda n: chains(samples=n), 1),
    "mcmc: chains": (lambda n: chains(chains=n), 1),
    "mcmc: thin": (lambda n: chains(thin=n), 1),
    "mcmc: burn_in": (lambda n: chains(burn_in=n), 0),
    "resample_move: particles": (lambda n: moved(particles=n), 1),
    "resample_move: moves": (lambda n: moved(moves=n), 0),
    "speculative: particles": (lambda n: speculative(particles=n), 1),
    "speculative: draft": (lambda n: speculative(draft=n), 1),
    "start: batch": (lambda n: tt.gcd(FA, 4).start(n), 0),
    "rollback: n": (lambda n: query().rollback(n), 0),
    "forced: limit": (lambda n: query().forced(limit=n), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_the_least_number_is_taken_and_one_less_is_not(name):
    call, least = COUNTS[name]
    call(np.int64(least))
    for wrong in (least - 1, least + 0.5, True, "2", torch.ones(2)):
        message = f"{name} must be a whole number, {least} or more, not {arguments.short(wrong)}"
        with pytest.raises(tt.errors.EvidenceError, match=f"^{re.escape(message)}$"):
            call(wrong)


def test_numbers_may_be_infinite_and_not_negative():
    assert arguments.not_negative(np.float32(0), "x") == 0
    assert arguments.not_negative(torch.inf, "x") == torch.inf
    for wrong in (-1e-300, torch.nan, True, "1", [], torch.zeros(2)):
        with pytest.raises(tt.errors.EvidenceError, match=r"^x must be a number, 0 or more, not "):
            arguments.not_negative(wrong, "x")


def test_a_number_for_each_row():
    assert arguments.each_whole(3, 2, "x") == [3, 3]
    assert arguments.each_whole([3], 2, "x") == [3, 3]
    assert arguments.each_whole(torch.tensor([3, 4]), 2, "x") == [3, 4]
    for wrong, count in (([3, 4, 5], 3), ([[3, 4]], 2), (torch.empty(0, dtype=torch.long), 0)):
        with pytest.raises(
            tt.errors.ShapeError, match=rf"^x has {count} entries for 2 rows; give one, or one for each$"
        ):
            arguments.each_whole(wrong, 2, "x")
