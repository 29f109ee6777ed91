"""Every query, semiring and kind of evidence on chains against enumeration; chains against their unrolled circuits."""

import math

import numpy as np
import oracle
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.errors import CircuitError, EvidenceError
from tractile.inference import Log, Real

FEW = settings(max_examples=25, deadline=None)


@given(st.data())
@FEW
def test_variable_lengths(data):
    model, n = data.draw(oracle.chains(shapes=[(2, 5), (3, 4), (4, 3)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    lengths = rng.integers(0, n + 1, 4)
    tokens = rng.integers(-1, model.vocab_size, (4, n))
    expected = []
    for length, row in zip(lengths.tolist(), tokens, strict=True):
        index = tuple(slice(None) if v < 0 else int(v) for v in row[:length])
        expected.append(model.total(length)[index].sum() if length else empty(model))
    chain, tokens, lengths = model.build(), torch.tensor(tokens), torch.tensor(lengths)
    for semiring in (None, Real(), Log()):
        actual = tt.log_marginal(chain, tokens, lengths=lengths, semiring=semiring)
        assert_log_close(actual, log(np.array(expected)))
    support = tt.support(chain, tokens, lengths=lengths)
    assert support.tolist() == (np.array(expected) > 0).tolist()


def empty(model):
    """The weight of the empty sequence."""
    if isinstance(model, oracle.OracleProduct):
        return math.prod(empty(m) for m in model.models)
    return (
        1.0
        if isinstance(model, oracle.OracleHMM)
        else float(sum(s in model.accept for s in set(model.start)))
    )


@given(st.data())
@FEW
def test_count(data):
    vocab_size, n = data.draw(st.sampled_from(oracle.SHAPES))
    fsa = data.draw(oracle.fsas(vocab_size))
    evidence, weights = data.draw(oracle.evidence(dict.fromkeys(range(n), vocab_size), batch=1))
    positive = [(w[:1] > 0) * 1.0 for w in weights]
    chain = fsa.build()
    assert tt.count(chain, evidence, n=n) == oracle.sums((fsa.total(n) > 0) * 1.0, positive)[0]
    assert tt.count(chain, evidence, n=n, paths=True) == oracle.sums(fsa.paths(n), positive)[0]


@pytest.mark.parametrize(("symbols", "n"), [(3, 30), (2, 51), (2, 53), (3, 32), (7, 18), (2, 60), (7, 200)])
def test_large_counts_are_exact(symbols, n):
    fsa = tt.Automaton.from_edges([(0, list(range(symbols)), 0)], 0, [0], vocab_size=symbols)
    assert tt.count(fsa, n=n) == symbols**n


def test_large_counts_of_paths_and_of_a_product_are_exact():
    """Of texts in which no two ones follow each other (Fibonacci numbers), and with an even number of ones."""
    apart = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 0)], 0, [0, 1], vocab_size=2)
    fibonacci = [1, 2]
    while len(fibonacci) <= 150:
        fibonacci.append(sum(fibonacci[-2:]))
    assert tt.count(apart, n=150) == tt.count(apart, n=150, paths=True) == fibonacci[150]
    either = tt.Automaton.from_edges([(0, [0, 1], 0), (0, [0, 1], 1), (1, [0, 1], 1)], 0, [1], vocab_size=2)
    assert tt.count(either, n=80) == 2**80
    assert tt.count(either, n=80, paths=True) == 80 * 2**80
    assert tt.count(apart * either, n=80, paths=True) == 80 * fibonacci[80]


def test_counts_that_are_refused():
    fsa = tt.Automaton.from_edges([(0, [0, 1], 0)], 0, [0], vocab_size=2)
    with pytest.raises(CircuitError, match="log_marginal"):
        tt.count(fsa, n=1100)
    for model in (HMM, HMM.unroll(2)):
        with pytest.raises(CircuitError, match="paths"):
            tt.count(model, n=2)
    assert_log_close(tt.partition(fsa, n=1100), 1100 * math.log(2))


@given(st.data())
@FEW
def test_entropy_of_an_unambiguous_automaton_is_the_log_of_its_count(data):
    vocab_size, n = data.draw(st.sampled_from(oracle.SHAPES))
    fsa = data.draw(oracle.fsas(vocab_size))
    chain, counts = fsa.build(), fsa.total(n)
    if not chain.is_unambiguous:
        with pytest.raises(CircuitError, match="joint"):
            tt.entropy(chain, n=n)
    elif counts.sum() == 0:
        with pytest.raises(CircuitError, match="no sequence"):
            tt.entropy(chain, n=n)
    else:
        assert counts.max() == 1
        assert_log_close(tt.entropy(chain, n=n), log(counts.sum()))


@given(st.data())
@FEW
def test_joint_entropy(data):
    model, n = data.draw(oracle.chains(shapes=[(2, 3), (3, 2), (4, 2), (2, 1)]))
    weights = np.array([w for paths in model.path_weights(n).values() for w in paths])
    assume(weights.sum() > 0)
    p = weights[weights > 0] / weights.sum()
    assert_log_close(tt.entropy(model.build(), n=n, joint=True), -(p * log(p)).sum(), 1e-9)
    assert_log_close(tt.entropy(model.build().unroll(n), joint=True), -(p * log(p)).sum(), 1e-9)


# ---------------------------------------------------------------------------------------------------------- errors

HMM = oracle.random_hmm(np.random.default_rng(0), 2, 3).build()
BAD_EVIDENCE = {
    "a token outside the vocabulary": torch.tensor([[0, 3]]), "a token below −1": torch.tensor([[0, -2]]),
    "an id outside the vocabulary": {0: 7}, "an empty set": {0: []}, "a negative weight": {0: torch.tensor([0.5, -0.1, 0.2])},
    "a weight that is not a number": {0: torch.tensor([0.5, math.nan, 0.2])},
    "an infinite weight": {0: torch.tensor([0.5, math.inf, 0.2])}, "weights for another vocabulary": {0: torch.ones(4)},
    "a variable that is not there": {5: 1},
    "rows for different batches": {0: torch.tensor([0, 1]), 1: torch.tensor([0, 1, 2])}, "a text": {0: "ab"},
    "a set of unlike values": {0: [0, None]}, "a set of booleans": {0: [True, False, True]},
    "a set with a tensor": {0: [0, torch.tensor([])]}, "complex numbers": torch.zeros(1, 2, dtype=torch.complex64),
    "complex weights": {0: torch.ones(3, dtype=torch.complex64)}, "a truth value": {0: True},
    "weights of a wrong shape": torch.ones(1, 2, 4),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_EVIDENCE)
def test_evidence_that_does_not_fit_is_refused(what):
    for model, length in ((HMM, {"n": 2}), (HMM.unroll(2), {})):
        with pytest.raises(EvidenceError):
            tt.log_marginal(model, BAD_EVIDENCE[what], **length)


def test_a_batch_of_no_rows_has_no_answers():
    nothing = torch.zeros(0, 2, dtype=torch.long)
    for model, length in ((HMM, {"n": 2}), (HMM.unroll(2), {})):
        assert tt.log_marginal(model, nothing, **length).shape == (0,)
        assert tt.inference.marginals(model, nothing, **length)[0].shape == (0, 3)
        assert tt.mpe(model, nothing, **length)[0].shape == (0, 2)
        assert tt.sample(model, 4, nothing, **length).shape == (4, 0, 2)
        assert tt.conditional(model, nothing, (1, 0), **length).shape == (0, 3, 3)
        with pytest.raises(EvidenceError, match="k_best: evidence of one row, not of 0"):
            tt.inference.k_best(model, 2, nothing)
    one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    for model in (one, one * one, (one * one).unroll(2)):
        assert tt.sample(model, 4, nothing).shape == (4, 0, 2)
        assert tt.conditional(model, nothing, (1, 0)).shape == (0, 2, 2)


def test_what_is_observed_must_be_possible_where_nothing_is_left_to_choose():
    sure = tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1.0, 0.0]]))] * 2)
    for query in (tt.sample, tt.mpe):
        with pytest.raises(EvidenceError, match="row 1 of the evidence has probability zero"):
            query(sure, evidence=torch.tensor([[0, 0], [0, 1]]))


def test_numpy_integers_are_evidence():
    for some, same in ({0: np.int64(1)}, {0: 1}), ({0: {np.int32(1), np.uint8(0)}}, {0: {1, 0}}):
        assert tt.log_marginal(HMM, some, n=2) == tt.log_marginal(HMM, same, n=2)


@pytest.mark.parametrize("lengths", [[3], [-1], [1, 1]])
def test_lengths_that_do_not_fit_are_refused(lengths):
    with pytest.raises(EvidenceError, match="lengths"):
        tt.log_marginal(HMM, torch.tensor([[0, 1]]), lengths=torch.tensor(lengths))
    with pytest.raises(EvidenceError, match="lengths"):
        tt.log_marginal(HMM.unroll(2), torch.tensor([[0, 1]]), lengths=torch.tensor(lengths))


@pytest.mark.parametrize("variable", [2, (0, 0), (), (0, 5)])
def test_query_variables_that_are_not_there_are_refused(variable):
    with pytest.raises(EvidenceError, match="query variables"):
        tt.conditional(HMM, None, variable, n=2)


def test_a_tensor_of_truth_values_says_which_tokens_are_allowed():
    allowed = torch.tensor([[[True, False, True], [False, True, True], [True, True, False]]])
    expected = tt.log_marginal(HMM, allowed.double())
    assert_log_close(tt.log_marginal(HMM, allowed), expected)
    assert_log_close(tt.log_marginal(HMM, allowed[0]), expected)


@pytest.mark.parametrize("evidence", [None, {0: 1}, 3, torch.tensor(2)])
def test_a_chain_asked_without_a_length_says_so(evidence):
    fa = tt.Automaton.from_edges([(0, [0, 1], 0)], 0, [0], 2)
    with pytest.raises(EvidenceError, match="give n"):
        tt.count(fa, evidence)
    assert tt.count(fa, n=3) == 8


def test_marginals_keep_every_possible_value():
    """A value of probability 10⁻⁵⁰ beside values of one half, in float32."""
    e = 1e-25
    hmm = tt.HMM(
        torch.tensor([1.0, 0, 0]),
        torch.tensor([[1 - e, e, 0], [0, 1 - e, e], [0, 0, 1]]),
        torch.tensor([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]),
    )
    for model, n in ((hmm, 3), (hmm.unroll(3), None)):
        tables = tt.inference.marginals(model, n=n)
        assert float(tables[2][0, 2]) == pytest.approx(2 * np.log(e), rel=1e-5)
        assert float(tables[1][0, 2]) == -np.inf
        for v, table in tables.items():
            torch.testing.assert_close(table, tt.conditional(model, None, v, n=n))


@pytest.mark.parametrize("weight", [1e-50, 1e50])
def test_soft_evidence_beyond_the_range_of_the_model(weight):
    hmm = tt.HMM.random(37, 4)
    evidence = torch.full((1, 2, 4), weight, dtype=torch.float64)
    for model in (hmm, hmm.unroll(2)):
        found = float(tt.log_marginal(model, evidence))
        assert found == pytest.approx(2 * np.log(weight), rel=1e-6)
    uneven = {0: torch.tensor([1, weight, 0, 0], dtype=torch.float64)}
    expected = tt.log_marginal(hmm, torch.tensor([[1]])) + np.log(weight)
    only = {0: torch.tensor([0, weight, 0, 0], dtype=torch.float64)}
    torch.testing.assert_close(tt.log_marginal(hmm, only, n=1), expected.double())
    torch.testing.assert_close(
        tt.conditional(hmm, uneven, 1, n=2).logsumexp(1),
        torch.zeros(1, dtype=torch.float64),
        atol=1e-6,
        rtol=0,
    )
