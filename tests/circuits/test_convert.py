"""HMMs from and to hmmlearn."""

from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import torch

import tractile as tt
from tractile.circuits import from_hmmlearn, to_hmmlearn
from tractile.errors import FormatError


def test_hmms_of_hmmlearn():
    original = oracle.random_hmm(np.random.default_rng(0), 3, 4)
    fitted = SimpleNamespace(
        startprob_=original.initial, transmat_=original.transition, emissionprob_=original.emission
    )
    hmm = from_hmmlearn(fitted)
    tokens = torch.tensor([[0, 3, 1], [2, 2, 0]])
    expected = [np.log(original.total(3)[tuple(row)]) for row in tokens.tolist()]
    np.testing.assert_allclose(tt.log_marginal(hmm, tokens), expected, rtol=1e-12)
    with pytest.raises(FormatError, match="fitted CategoricalHMM"):
        from_hmmlearn(SimpleNamespace(startprob_=original.initial))
    fitted.transmat_ = original.transition[:2]
    with pytest.raises(FormatError, match="fitted CategoricalHMM"):
        from_hmmlearn(fitted)


def test_hmmlearn_scores_alike():
    pytest.importorskip("hmmlearn")
    hmm = tt.HMM.random(4, 5, transition="monarch", dtype=torch.float64)
    model = to_hmmlearn(hmm)
    tokens = torch.tensor([0, 4, 2, 2, 1])
    assert model.score(tokens[:, None].numpy()) == pytest.approx(
        tt.log_marginal(hmm, tokens[None]).item(), rel=1e-10
    )
    assert torch.equal(from_hmmlearn(model).emission_probs, hmm.emission_probs)
