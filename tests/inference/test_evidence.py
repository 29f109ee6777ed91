"""Evidence is checked once, where it enters: every query refuses the same, and lists and arrays mean the same to all."""

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, EvidenceError
from tractile.inference import Evidence, expectation, expected_counts, k_best, marginals
from tractile.layers import Categorical, Dense, Gaussian, Hadamard, Sum

HMM = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
QUERIES = {
    "log_marginal": tt.log_marginal,
    "support": tt.support,
    "conditional": lambda model, evidence, **n: tt.conditional(model, evidence, 1, **n),
    "marginals": marginals,
    "sample": lambda model, evidence, **n: tt.sample(model, 2, evidence, **n),
    "mpe": tt.mpe,
    "expectation": lambda model, evidence, **n: expectation(model, {1: torch.ones(2)}, evidence, **n),
}
STATES = {"filter": tt.filter, "smooth": tt.smooth, "viterbi": tt.viterbi}
every_query = pytest.mark.parametrize("query", [*QUERIES, *STATES])


@every_query
@pytest.mark.parametrize(
    ("batch", "variable", "tokens", "message"),
    [(1, 7, [1], "variables \\[7\\]"), (1, 0, [99], "0 … 1"), (3, 0, [1, 0], "batch of 3 rows"), (1, 0, [0.5], "variable 0")],
)  # fmt: skip
def test_evidence_objects_are_checked(query, batch, variable, tokens, message):
    wrong = Evidence(batch).observe(variable, torch.tensor(tokens))
    with pytest.raises(EvidenceError, match=message):
        (QUERIES | STATES)[query](HMM, wrong, n=3)


def test_evidence_of_one_row_is_that_of_all():
    known = Evidence(3).observe(0, torch.tensor([1]))
    assert tt.log_marginal(HMM, known, n=2).tolist() == [float(tt.log_marginal(HMM, [1, None]))] * 3


@every_query
def test_lists_of_rows_and_arrays_are_rows(query):
    ask, rows = (QUERIES | STATES)[query], [[0, 1, -1], [1, 1, 0]]
    for given in (rows, tuple(map(tuple, rows)), np.array(rows), [np.array(row) for row in rows]):
        torch.manual_seed(0)
        found = ask(HMM, given)
        torch.manual_seed(0)
        expected = ask(HMM, torch.tensor(rows))
        assert str(found) == str(expected)


def test_sets_are_sets_and_lists_within_evidence_are_refused():
    either = tt.log_marginal(HMM, [{0, 1}, {1}])
    torch.testing.assert_close(either, tt.log_marginal(HMM, [None, 1]))
    for given in ([[0, 1], None], {0: [0, 1]}, [0, [1]]):
        with pytest.raises(EvidenceError, match="set"):
            tt.log_marginal(HMM, given, n=2)
    with pytest.raises(EvidenceError, match="equal length"):
        tt.log_marginal(HMM, [[0, 1], [1]])


@pytest.mark.parametrize("query", [*QUERIES, "k_best"])
def test_a_root_of_two_units_is_refused(query):
    circuit = builders.factorised([Categorical(torch.full((2, 2), 0.5))] * 2)
    with pytest.raises(CircuitError, match="a query needs one"):
        (QUERIES | {"k_best": lambda model, evidence: k_best(model, 2, evidence)})[query](circuit, None)


@pytest.mark.parametrize(
    "query", [*sorted({**QUERIES, **STATES}.keys() - {"log_marginal", "support"}), "expected_counts"]
)
def test_an_impossible_row_is_named(query):
    certain = tt.HMM([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    ask = (QUERIES | STATES | {"expected_counts": expected_counts})[query]
    with pytest.raises(EvidenceError, match="row 1 of the evidence has probability zero"):
        ask(certain, torch.tensor([[0, 0], [1, 1]]))


def test_the_expectation_of_one_variable_beside_a_continuous_one():
    circuit = tt.Circuit()
    parts = (
        circuit.input(Categorical(torch.tensor([[0.5, 0.5], [0.1, 0.9]])), 0),
        circuit.input(Gaussian(torch.tensor([0.0, 3.0]), torch.ones(2)), 1),
    )
    circuit.sum(Sum(Dense(torch.tensor([[0.25, 0.75]]))), circuit.product(Hadamard(), *parts))
    assert expectation(circuit, {0: torch.tensor([0.0, 1.0])}).tolist() == pytest.approx([0.8])


def test_a_parameter_written_to_behind_torch_is_read_again():
    for write in (lambda p, q: p.data.copy_(q), lambda p, q: p.numpy().__setitem__(..., q.numpy())):
        hmm = tt.HMM.random(2, 3, seed=0)
        hmm.log_prob([[0, 1, 2]])
        other = tt.HMM.random(2, 3, seed=1).emission_probs
        write(hmm.emission_probs, other)
        fresh = tt.HMM(hmm.initial_probs, hmm.transition, other)
        assert hmm.log_prob([[0, 1, 2]]) == tt.log_marginal(fresh, [[0, 1, 2]])


class TestDerivatives:
    """Entropies, divergences and scores have derivatives; expected counts say that they have none."""

    def coins(self, p):
        return builders.factorised([Categorical(torch.stack([1 - x, x])[None]) for x in p])

    def test_entropy_and_divergence(self):
        p = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
        q = torch.tensor([0.6, 0.4], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: tt.entropy(self.coins(x)), (p,))
        for ask in (tt.inference.kl_divergence, tt.inference.cross_entropy):
            assert torch.autograd.gradcheck(lambda x, y, ask=ask: ask(self.coins(x), self.coins(y)), (p, q))
        learned = HMM.map(lambda t: t.double().requires_grad_())
        entropy = tt.entropy(learned, n=3, joint=True)
        (found,) = torch.autograd.grad(entropy, learned.emission_probs)
        assert float(found.abs().sum()) > 0
        assert not tt.entropy(HMM, n=2, joint=True).requires_grad

    def test_scores_of_the_best(self):
        p = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: k_best(self.coins(x), 2)[1], (p,))

    def test_counts_refuse(self):
        learned = HMM.map(lambda t: t.clone().requires_grad_())
        with pytest.raises(CircuitError, match="no derivative"):
            expected_counts(learned, torch.tensor([[0, 1]]))
        with torch.no_grad():
            expected_counts(learned, torch.tensor([[0, 1]]))
        assert tt.inference.em_step(learned, torch.tensor([[0, 1]]))
