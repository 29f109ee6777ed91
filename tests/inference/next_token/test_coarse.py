"""P-GCD with an exact mask and a coarse guide."""

import math
import pickle

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.constraints import json_schema

VOCAB = tt.Vocabulary(
    [bytes([i]) for i in range(256)] + [b'", "', b'{"', b'": ', b"true", None], eos_token_id=260
)


def accepted(fa, budget, tokens=()):
    """All accepted sequences of tokens up to the first end token, by steps of the finite automaton."""
    if tokens and tokens[-1] == fa.eos_token_id:
        yield list(tokens)
    elif budget:
        query = tt.gcd(fa.finite, budget + len(tokens)).start(1)
        for token in tokens:
            query.advance([token])
        for token in query.mask()[0].nonzero()[:, 0].tolist():
            yield from accepted(fa, budget - 1, (*tokens, token))


@pytest.fixture(scope="module")
def parts():
    """A constraint with a counter, an HMM, and the exact and the coarse query."""
    fa = json_schema({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}).compile(
        VOCAB
    )
    hmm = tt.HMM.random(6, 261, seed=0)
    return fa, hmm


@pytest.mark.long
def test_a_coarse_guide_leaves_the_mask_exact_and_the_estimates_unbiased(parts):
    """Z by enumeration; a mean of 100 estimates is within 5 standard errors (error probability about 6e-7)."""
    fa, hmm = parts
    coarse = json_schema({"type": "array", "items": {"type": "boolean"}}).compile(VOCAB).finite
    fa._guides = {1000: coarse}
    own, budget = tt.HMM.random(3, 261, seed=1), 8
    lm = tt.CircuitLM(own, eos_token_id=260)
    texts = [torch.tensor([text]) for text in accepted(fa, budget)]
    exact = torch.stack([tt.log_marginal(own, text)[0] for text in texts]).logsumexp(0)
    query = tt.pgcd(hmm, fa, budget).start(1)
    assert torch.equal(query.mask(), tt.gcd(fa.finite, budget).start(1).mask())
    found = np.array(
        [
            tt.smc(lm, [], fa, hmm=hmm, particles=4, max_new_tokens=budget, seed=seed).log_evidence
            for seed in range(100)
        ]
    )
    ratio = np.exp(found - float(exact))
    assert ratio.std() > 0
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / math.sqrt(len(ratio))


def test_copies_for_other_processes():
    constraint = (json_schema({"enum": ["ab", 1]}) + json_schema({"type": "boolean"})).repeat(1, 2)
    again = pickle.loads(pickle.dumps(constraint))
    assert again.accepts('"ab"true1false')
    assert not again.accepts('"ab"true1')
    one, other = constraint.compile(VOCAB), pickle.loads(pickle.dumps(constraint.compile(VOCAB)))
    assert torch.equal(tt.gcd(one, 20).start(1).mask(), tt.gcd(other, 20).start(1).mask())
