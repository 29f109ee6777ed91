"""What public functions do with numbers, token ids and evidence that do not fit: read as meant, or a typed error."""

import copy
import pickle

import pytest
import torch

import tractile as tt
from tractile.errors import EvidenceError, ShapeError, TractileError, VocabularyMismatch
from tractile.inference import (
    Boolean,
    Log,
    MaxProduct,
    MinPlus,
    cross_entropy,
    expectation,
    k_best,
    marginals,
)
from tractile.layers import Categorical

HMM = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
ONE = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
ANY = tt.Automaton.from_edges([(0, [0, 1], 0)], start=0, accept=[0], vocab_size=2)
NO_NUMBERS = [2.0, 1.5, "3", True, torch.tensor(2.0), None, [2]]


# ------------------------------------------------------------------------------------------------ whole numbers


@pytest.mark.parametrize("wrong", [-1, 10**30, *NO_NUMBERS], ids=repr)
@pytest.mark.parametrize(
    "ask",
    [
        lambda n: tt.sample(HMM, n, n=3),
        lambda n: k_best(HMM, n, n=3),
        lambda n: tt.conditional(HMM, [1, None], n),
        lambda n: HMM.unroll(n),
        lambda n: tt.HMM.random(n, 3),
        lambda n: tt.HMM.random(2, n),
        lambda n: tt.HMM.random(2, 3, seed=n) if n != -1 else HMM.unroll(n),
        lambda n: tt.layers.Indicator(n),
        lambda n: tt.CircuitLM(HMM, eos_token_id=n) if n is not None else HMM.unroll(n),
        lambda n: ONE.determinize(limit=n),
        lambda n: ONE.minimize(limit=n),
        lambda n: tt.pgcd(HMM, ONE, 3, memory=n) if n is not None else HMM.unroll(n),
        lambda n: tt.NextToken(HMM, 3, Log()).start(n),
        lambda n: tt.gcd(ONE, n),
        lambda n: (
            tt.inference.next_token.gcd.GCDQuery(ONE, horizon=n).start().mask()
            if n is not None
            else tt.gcd(ONE, n)
        ),
        lambda n: tt.gcd(ONE, 3).start(1).forced(n),
        lambda n: tt.gcd(ONE, 3).start(1).rollback(n),
        lambda n: tt.Automaton.from_edges([(0, 1, 0)], 0, [0], n),
        lambda n: tt.Automaton.from_edges([(0, 1, n)], 0, [0], 2) if n != [2] else tt.gcd(ONE, n),
        lambda n: tt.Automaton.from_edges([(0, 1, 0)], 0, [n], 2),
    ],
)
def test_what_is_no_whole_number_is_refused(ask, wrong):
    with pytest.raises(TractileError):
        ask(wrong)


@pytest.mark.parametrize("wrong", [-1, 2.0, 1.5, "3", True, torch.tensor(2.0), [2]], ids=repr)
@pytest.mark.parametrize(
    "query", ["partition", "log_marginal", "support", "sample", "mpe", "entropy", "marginals"]
)
def test_the_length_of_a_chain_is_a_whole_number(query, wrong):
    ask = getattr(tt.inference, query)
    with pytest.raises(EvidenceError, match="n, the length of a chain, must be a whole number, 0 or more"):
        ask(ONE, n=wrong)


# ------------------------------------------------------------------------------------------------ token ids


@pytest.mark.parametrize("wrong", [[1.5], ["a"], [True], [2], [-1], 1], ids=repr)
def test_an_automaton_refuses_what_is_no_token(wrong):
    with pytest.raises(VocabularyMismatch, match="accepts"):
        ONE.accepts(wrong)


@pytest.mark.parametrize(
    "lm", [tt.CircuitLM(HMM), tt.lm.TableLM({(): [-0.6931471805599453] * 2})], ids=["hmm", "table"]
)
def test_an_exact_language_model_refuses_what_is_no_token(lm):
    for wrong in ([2], [-1], [0.5], [True]):
        with pytest.raises(VocabularyMismatch, match="the prompt"):
            lm.start([wrong])
    lm.start([[], [1]])
    for tokens in ([0, 2], [0, -2], [0], [0.5, 1.0]):
        with pytest.raises(VocabularyMismatch, match="advance"):
            lm.advance(torch.tensor(tokens))
    before = lm.log_probs()
    lm.advance(torch.tensor([-1, -1]))  # both rows wait
    assert torch.equal(lm.log_probs(), before)


def test_a_transformer_refuses_prompts_of_another_vocabulary():
    lm = tt.TransformersLM(*tt.embedded.load_lm())
    for wrong in ([lm.vocab_size + 10**6], [-1], [0.5]):
        with pytest.raises(VocabularyMismatch, match="prompt"):
            lm.start([[1], wrong])


# ------------------------------------------------------------------------------------------------ edges


@pytest.mark.parametrize(
    ("edges", "start", "accept", "said"),
    [
        ([(0, 0)], 0, [0], "an edge is"),
        ([0], 0, [0], "an edge is"),
        ([(0, 1.5, 1)], 0, [1], "a token must be a whole number"),
        ([(0, torch.tensor([0.5]), 1)], 0, [1], "a token must be a whole number"),
        ([(0, "a", 1)], 0, [1], "a token must be a whole number"),
        ([(0, 1, 1.5)], 0, [1], "a state must be a whole number"),
        ([(0, 1, -1)], 0, [0], "a state must be a whole number, 0 or more"),
        ([(0, 1, 0)], 0.5, [0], "a state must be a whole number"),
        ([(0, 2, 0)], 0, [0], "a token lies outside"),
    ],
)
def test_edges_are_whole_numbers(edges, start, accept, said):
    with pytest.raises(ShapeError, match=said):
        tt.Automaton.from_edges(edges, start, accept, vocab_size=2)


# ------------------------------------------------------------------------------------------------ evidence


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4)])
def test_values_given_as_floats_are_refused_by_their_shape(shape):
    coins = tt.circuits.builders.factorised([Categorical(torch.full((1, 3), 1 / 3))] * 4)
    values = torch.zeros(shape)
    for wrong in (values, values.masked_fill(torch.arange(4) == 2, torch.nan)):
        with pytest.raises(EvidenceError) as raised:
            tt.log_marginal(coins, wrong)
        assert f"not {shape}" in str(raised.value)
        assert "−1 where one is missing" in str(raised.value)


def test_a_weight_that_is_nan_is_refused():
    coins = tt.circuits.builders.factorised([Categorical(torch.full((1, 3), 1 / 3))] * 4)
    with pytest.raises(EvidenceError, match="nan as a weight"):
        tt.log_marginal(coins, torch.full((4, 3), torch.nan))
    assert tt.log_marginal(coins, torch.ones(4, 3)).abs() < 1e-6


# ------------------------------------------------------------------------------------------------ no tokens at all

BOTH_ENDS = tt.Automaton.from_edges([(0, 0, 1), (1, 1, 0)], start=[0, 1], accept=[0, 1], vocab_size=2)


@pytest.mark.parametrize(
    "model", [HMM, ANY, HMM * ANY, HMM.unroll(0), ANY.unroll(0), (HMM * ANY).unroll(0)], ids=repr
)
def test_every_query_is_certain_of_the_empty_sequence(model):
    """An HMM chooses no hidden state where there is no token: the best explanation has weight one, as the only one."""
    n = None if isinstance(model, tt.Circuit) else 0
    for semiring in (None, Boolean(), Log(), MaxProduct(), MinPlus()):
        assert tt.partition(model, n=n, semiring=semiring).abs() < 1e-6
    for values, score in (tt.mpe(model, n=n), k_best(model, 3, n=n)):
        assert (values.shape, values.dtype, score.abs().max() < 1e-6) == ((1, 0), torch.long, True)
    assert tt.sample(model, 2, n=n).shape == (2, 0)
    assert tt.entropy(model, n=n, joint=True) == 0
    assert tt.count(model, n=n, paths=True) == 1
    assert marginals(model, n=n) == {}


def test_the_empty_sequence_where_it_is_not_accepted_or_in_two_ways():
    assert tt.partition(ONE, n=0) == -torch.inf
    with pytest.raises(EvidenceError, match="probability zero"):
        tt.mpe(ONE, n=0)
    with pytest.raises(tt.errors.CircuitError, match="no sequence"):
        tt.entropy(ONE, n=0)
    assert (tt.count(BOTH_ENDS, n=0), tt.count(BOTH_ENDS, n=0, paths=True)) == (1, 2)
    assert tt.mpe(BOTH_ENDS, n=0)[1] == tt.mpe(BOTH_ENDS.unroll(0))[1] == 0
    assert tt.entropy(ANY, n=0) == cross_entropy(ANY, ANY, n=0) == 0
    assert expectation(HMM, ANY, n=0) == 1


# ------------------------------------------------------------------------------------------------ queries


def test_an_automaton_is_pickled_without_its_queries():
    one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], 0, 1, 2)
    tt.smc(tt.CircuitLM(HMM), [], one, "pgcd", HMM, particles=4, max_new_tokens=3, seed=0)
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert again.edges() == one.edges()
        assert tt.gcd(again, 3).start(1).mask().tolist() == tt.gcd(one, 3).start(1).mask().tolist()
