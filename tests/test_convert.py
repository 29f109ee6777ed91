"""Automata and HMMs from and to other formats: OpenFST's text, hmmlearn."""

from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.circuits import from_hmmlearn, from_openfst, to_hmmlearn, to_openfst
from tractile.errors import FormatError


def language(automaton, n):
    rows = torch.tensor(np.array(list(np.ndindex(*(automaton.vocab_size,) * n))))
    return tt.support(automaton, rows).numpy()


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_openfst_text_there_and_back(data):
    fsa = data.draw(oracle.fsas(data.draw(st.integers(1, 3))))
    automaton = fsa.build()
    again = from_openfst(to_openfst(automaton), automaton.vocab_size)
    for n in range(1, 4):
        np.testing.assert_array_equal(language(again, n), fsa.total(n).flatten() > 0)
    assert again.accepts([]) == automaton.accepts([])


def test_openfst_text_is_as_documented():
    automaton = tt.Automaton.from_edges([(0, [1, 2], 1), (1, 0, 1)], start=1, accept=[0, 1], vocab_size=3)
    assert to_openfst(automaton) == "1\t1\t1\n0\t1\t2\n0\t1\t3\n0\n1\n"
    nothing = tt.Automaton.from_edges([(1, 0, 1)], start=0, accept=[1], vocab_size=1)
    assert to_openfst(nothing).splitlines()[0] == "0\tInfinity"
    assert not from_openfst(to_openfst(nothing), 1).accepts([0])


def test_openfst_epsilons_and_weights():
    text = "5 6 0\n6 7 1 0\n7 5 0\n6 6 2 Infinity\n\n7 0.0\n"
    automaton = from_openfst(text, vocab_size=2)
    assert automaton.accepts([0])
    assert automaton.accepts([0, 0])
    assert not automaton.accepts([])
    assert not automaton.accepts([1, 0])  # an arc of infinite weight is none


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("0 1 a\n1\n", r"line 1 .* must hold numbers"),
        ("0 1 1\n1 0.5\n", r"line 2 .* unweighted"),
        ("0 1 1 2 3\n", r"line 1 .* unweighted"),
        ("0 1 4\n", r"line 1 .* over 3 tokens"),
        ("0 -1 1\n", r"line 1 .* unweighted"),
        ("0 1 1\n1 nan\n", r"line 2 .* unweighted"),
    ],
)
def test_odd_openfst_text_is_refused(text, message):
    with pytest.raises(FormatError, match=message):
        from_openfst(text, vocab_size=3)


def test_hmms_of_hmmlearn():
    original = oracle.random_hmm(np.random.default_rng(0), 3, 4)
    fitted = SimpleNamespace(
        startprob_=original.initial, transmat_=original.transition, emissionprob_=original.emission
    )
    hmm = from_hmmlearn(fitted)
    tokens = torch.tensor([[0, 3, 1], [2, 2, 0]])
    expected = [np.log(original.total(3)[tuple(row)]) for row in tokens.tolist()]
    np.testing.assert_allclose(hmm.log_prob(tokens), expected, rtol=1e-12)
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
    assert model.score(tokens[:, None].numpy()) == pytest.approx(hmm.log_prob(tokens[None]).item(), rel=1e-10)
    assert torch.equal(from_hmmlearn(model).emission_probs, hmm.emission_probs)
