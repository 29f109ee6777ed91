"""Infilling against sums over all tokenisations, by choose; what does not fit is refused."""

import itertools

import pytest
import torch
from choices import choose
from infilling import infill
from smc_reference import LIMIT, RUNS, random_table, z_scores

import tractile as tt
from tractile.constraints import any_of, regex
from tractile.errors import EmptyLanguage

VOCAB = tt.Vocabulary([None, b"a", b"b", b"ab", b"ba", b" ", b"b "], 0)
HMM = tt.HMM.random(3, len(VOCAB), seed=2, dtype=torch.float64)


def table_lm(seed=4):
    return tt.lm.TableLM(random_table(len(VOCAB), 1, seed), 0, VOCAB)


@pytest.mark.parametrize("proposal", ["gcd", pytest.param("pgcd", marks=pytest.mark.long)])
@pytest.mark.parametrize("texts", [("", "b a"), ("", "a", "")])
def test_probabilities_are_those_of_all_tokenisations(texts, proposal):
    """z-scores of 40 runs; |z| > 4.42 has probability 1e-5."""
    lm, options, gaps = table_lm(), ["a", "bb", "ab"], len(texts) - 1
    wholes = {}
    for filled in itertools.product(options, repeat=gaps):
        whole = "".join(gap + text for gap, text in zip(filled, texts[1:], strict=True))
        wholes.setdefault(whole, filled)
    truth = choose(lm, [], list(wholes)).exp()
    top = truth.argsort(descending=True)[:3].tolist()  # rare texts have estimates that are far from normal
    values = []
    for seed in range(RUNS):
        found = infill(
            lm,
            *texts,
            fa=[any_of(*options)] * gaps,
            max_new_tokens=[2] * gaps,
            proposal=proposal,
            hmm=HMM,
            particles=60,
            seed=seed,
        )
        z = torch.tensor(found.posterior.log_evidence).exp()
        weight = found.posterior.group_by(lambda p: p.text)
        values.append(
            [float(z), *(float(z) * weight.get(whole, 0.0) for whole in [list(wholes)[i] for i in top])]
        )
        assert set(found.probs) <= set(itertools.product(options, repeat=gaps))
    exact = [float(truth.sum()), *truth[top].tolist()]
    assert (z_scores(values, exact).abs() < LIMIT).all()


def test_what_does_not_fit():
    lm = table_lm()
    with pytest.raises(ValueError, match="zip"):
        infill(lm, "", "a", "b", fa=[None], max_new_tokens=[2])
    with pytest.raises(EmptyLanguage):
        infill(lm, "", "a", fa=[regex("a{9}")], max_new_tokens=[2], proposal="gcd")
