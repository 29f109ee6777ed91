"""Structural properties against their definitions: scopes by hand, determinism by counting the paths of every input."""

import numpy as np
import oracle
import pytest
import torch
import zoo
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.circuits import checks, is_compatible, properties
from tractile.errors import CircuitError
from tractile.inference.queries import determinism
from tractile.layers import Categorical, Dense, Hadamard, Identity, Sum, TokenSets

FEW = settings(max_examples=40, deadline=None)


def coin(circuit, variable, units=2):
    return circuit.input(Categorical(torch.rand(units, 2)), variable)


def single(operator, circuit, *children):
    return circuit.sum(Sum(*[operator] * len(children)), *children)


def test_structured_decomposable():
    c = tt.Circuit()
    x, y, z = (coin(c, v) for v in range(3))
    left = c.product(Hadamard(), single(Identity(2), c, c.product(Hadamard(), x, y)), z)
    assert properties.is_structured_decomposable(c)
    right = c.product(Hadamard(), x, single(Identity(2), c, c.product(Hadamard(), y, z)))
    single(Dense(torch.ones(1, 2)), c, left, right)
    assert properties.is_decomposable(c)
    assert not properties.is_structured_decomposable(c)
    with pytest.raises(CircuitError, match=r"not structured-decomposable: it splits \[0, 1, 2\]"):
        checks.check_structured_decomposable(c)
    assert not is_compatible(c, c)


def test_omni_compatible():
    c = tt.Circuit()
    x, y, z = (single(Identity(2), c, coin(c, v)) for v in range(3))
    flat = c.product(Hadamard(), c.product(Hadamard(), x, y), z)
    single(Dense(torch.ones(1, 2)), c, flat)
    assert properties.is_omni_compatible(c)
    inner = single(Identity(2), c, c.product(Hadamard(), x, y))
    c.product(Hadamard(), inner, z)
    assert not properties.is_omni_compatible(c)
    with pytest.raises(CircuitError, match="not omni-compatible"):
        checks.check_omni_compatible(c)


@given(data=st.data())
@FEW
def test_omni_compatible_circuits_multiply_with_any(data):
    sizes = {v: 2 + v % 2 for v in range(4)}
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    vtree = data.draw(zoo.vtrees())
    other = zoo.random_plan(rng, vtree, sizes)
    c = tt.Circuit()
    scope = sorted(zoo.leaves(vtree))
    inputs = {v: c.input(Categorical(torch.rand(2, sizes[v], dtype=torch.float64)), v) for v in scope}
    terms = [single(Dense(torch.rand(1, 2, dtype=torch.float64)), c, inputs[v]) for v in scope]
    if len(terms) > 1:
        c.product(Hadamard(), *terms)
    assert properties.is_omni_compatible(c)
    assert is_compatible(c, other.build())
    assert is_compatible(other.build(), c)


@given(data=st.data())
@FEW
def test_deterministic_is_at_most_one_path_for_each_input(data):
    """Structured-decomposable circuits: decided exactly. A path counts if all its weights are positive."""
    zeros = data.draw(st.sampled_from([0.15, 0.7, 0.85]))  # of sparse weights some circuits are deterministic
    plan = data.draw(zoo.plans(max_variables=3, zeros=zeros))
    circuit = plan.build()
    unique = bool((plan.table("paths") <= 1).all())
    if properties.is_structured_decomposable(circuit):
        assert determinism.is_deterministic(circuit) == unique
    elif determinism.is_deterministic(circuit):
        assert unique


@given(data=st.data())
@FEW
def test_unrolled_automata_are_deterministic_where_unambiguous(data):
    fsa = data.draw(oracle.fsas(data.draw(st.integers(1, 3))))
    n = data.draw(st.integers(1, 4))
    automaton = fsa.build()
    unique = bool((fsa.paths(n) <= 1).all())
    assert determinism.is_deterministic(automaton.unroll(n)) == unique
    if determinism.is_deterministic(automaton):
        assert automaton.is_unambiguous
        assert unique


def test_deterministic_chains():
    observed = tt.HMM(torch.tensor([0.5, 0.5]), torch.tensor([[0.3, 0.7], [0.6, 0.4]]), torch.eye(2))
    assert determinism.is_deterministic(observed)  # its states can be read off its tokens
    assert determinism.is_deterministic(observed.unroll(3))
    hidden = tt.HMM.random(2, 3)
    assert not determinism.is_deterministic(hidden)
    with pytest.raises(CircuitError, match="two paths of one sequence"):
        determinism.check_deterministic(hidden)
    nfa = tt.Automaton.from_edges([(0, 0, 0), (0, 0, 1), (1, 1, 1)], start=0, accept=[0, 1], vocab_size=2)
    with pytest.raises(CircuitError, match="determinise"):
        determinism.check_deterministic(nfa)
    assert determinism.is_deterministic(nfa.determinize())


def test_determinism_that_cannot_be_decided_says_so():
    """Products that split {0, 1, 2} differently, equal in every single variable."""
    c = tt.Circuit()
    even = torch.tensor([[1.0, 0], [0, 1]])
    x, y, z = (c.input(Categorical(even), v) for v in range(3))
    both, swap = Dense(torch.ones(1, 2)), Dense(torch.eye(2).flip(0))
    zero = Categorical(torch.tensor([[1.0, 0]]))
    equal = single(both, c, c.product(Hadamard(), x, y))
    differ = single(both, c, c.product(Hadamard(), y, single(swap, c, z)))
    left = c.product(Hadamard(), equal, c.input(zero, 2))  # 000, 110
    right = c.product(Hadamard(), c.input(zero, 0), differ)  # 001, 010
    single(Identity(1), c, left, right)
    with pytest.raises(CircuitError, match="could not be shown"):
        determinism.check_deterministic(c)
    apart = tt.Circuit()
    one = torch.zeros(1, dtype=torch.long)
    only = [TokenSets(one, one, torch.tensor(klass), 1) for klass in ([0, -1], [-1, 0])]
    u, v, w = (coin(apart, i, 1) for i in range(3))
    first, second = (apart.input(layer, 3) for layer in only)
    pair = single(Identity(1), apart, apart.product(Hadamard(), u, v))
    other = single(Identity(1), apart, apart.product(Hadamard(), v, w))
    single(
        Identity(1),
        apart,
        apart.product(Hadamard(), pair, w, first),
        apart.product(Hadamard(), u, other, second),
    )
    assert not properties.is_structured_decomposable(apart)
    assert determinism.is_deterministic(apart)  # told apart by variable 3


def test_what_is_too_large_to_analyse_is_said_not_tried():
    hmm = tt.HMM.random(100, 10)
    product = hmm * hmm * hmm  # its transition has 10¹² entries
    with pytest.raises(CircuitError, match="too many to decide"):
        determinism.check_deterministic(product)
    assert not determinism.is_deterministic(product)


def test_chains_have_the_properties_of_their_unrolled_circuits():
    hmm = tt.HMM.random(2, 2)
    assert properties.is_smooth(hmm)
    assert properties.is_structured_decomposable(hmm)
    assert not properties.is_omni_compatible(hmm)
