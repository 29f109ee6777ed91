"""Operations on circuits against the same operations on enumerated tables."""

import itertools

import numpy as np
import pytest
import torch
import zoo
from chain_tables import table
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.circuits import Chain, is_compatible, properties
from tractile.circuits import operations as ops
from tractile.errors import CircuitError, EvidenceError, ShapeError
from tractile.inference import condition, normalise, prune
from tractile.inference.queries import determinism
from tractile.layers import Categorical, Dense, Hadamard, Kronecker, Monarch, Sum

FEW = settings(max_examples=25, deadline=None)


def assert_same(circuit, expected):
    assert properties.is_smooth(circuit)
    assert properties.is_decomposable(circuit)
    assert_log_close(log(table(circuit)), log(expected))


def nested(variables, kind):
    """A vtree over variables, split from the left, the right, or all at once."""
    if len(variables) == 1:
        return variables[0]
    if kind == "flat":
        return ("kron", *variables)
    cut = {"left": len(variables) - 1, "right": 1}[kind]
    return ("hadamard", nested(variables[:cut], kind), nested(variables[cut:], kind))


# ----------------------------------------------------------------------------------------------------------- multiply


@given(data=st.data())
@FEW
def test_product_across_kinds_and_nesting(data):
    """Hadamard against Kronecker, flat against nested: one side splits finer, so that it can be nested like the other."""
    n = data.draw(st.integers(2, 4))
    sizes = {v: 2 + v % 2 for v in range(n)}
    kinds = data.draw(
        st.sampled_from([("flat", "left"), ("flat", "right"), ("left", "flat"), ("flat", "flat")])
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    a, b = (zoo.random_plan(rng, nested(list(range(n)), kind), sizes) for kind in kinds)
    assert is_compatible(a.build(), b.build())
    assert_same(a.build() * b.build(), a.table("total") * b.table("total"))


@given(data=st.data())
@FEW
def test_product_keeps_variables_of_one_side(data):
    a = data.draw(zoo.plans(("hadamard", 0, ("kron", 1, 2))))
    b = data.draw(zoo.plans(("kron", 1, 3)))
    product = a.build() * b.build()
    assert product.variables == (0, 1, 2, 3)
    assert_same(product, a.table("total")[:, :, :, None] * b.table("total")[None, :, None, :])


def test_incompatible_circuits_are_refused():
    rng, sizes = np.random.default_rng(0), dict.fromkeys(range(3), 2)
    trees = (("hadamard", ("hadamard", 0, 1), 2), ("hadamard", ("hadamard", 1, 2), 0))
    left, right = (zoo.random_plan(rng, tree, sizes).build() for tree in trees)
    assert not is_compatible(left, right)
    with pytest.raises(CircuitError, match="not compatible: they split"):
        left * right


def test_operators_whose_entries_are_sums_are_written_out():
    thrice = Monarch([torch.rand(2, 2, 2, dtype=torch.float64) for _ in range(3)], axes=[0, 1, 0])
    circuit = tt.Circuit()
    rows = circuit.sum(Sum(thrice), circuit.input(Categorical(torch.eye(4, dtype=torch.float64)), 0))
    circuit.sum(Sum(Dense(torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64))), rows)
    assert determinism.is_deterministic(circuit)
    p = table(circuit) / table(circuit).sum()
    assert tt.entropy(circuit).item() == pytest.approx(-(p * np.log(p)).sum())


# ------------------------------------------------------------------------------------ mixture, marginalise, condition


def test_mixture_refuses_other_variables():
    a, b = (zoo.random_plan(np.random.default_rng(0), v, {0: 2, 1: 2}) for v in (0, 1))
    with pytest.raises(CircuitError, match="not smooth"):
        ops.mixture([0.5, 0.5], [a.build(), b.build()])
    with pytest.raises(ShapeError, match="weights"):
        ops.mixture([0.5], [a.build(), a.build()])


def test_condition_takes_one_row():
    circuit = zoo.random_plan(np.random.default_rng(0), 0, {0: 2}).build()
    with pytest.raises(EvidenceError, match="one row"):
        condition(circuit, torch.tensor([[0], [1]]))


# ----------------------------------------------------------------------------------------------------- normalise, prune


def test_prune_drops_units_and_terms():
    c = tt.Circuit()
    x = c.input(Categorical(torch.rand(3, 2)), 0)
    y = c.input(Categorical(torch.rand(3, 2)), 1)
    z = c.input(Categorical(torch.rand(1, 2)), 1)
    grid = c.product(Kronecker(), x, y)
    weight = torch.zeros(1, 9)
    weight[0, [0, 2]] = 1.0  # units (0, 0) and (0, 2)
    other = c.product(Kronecker(), x, z)
    c.sum(Sum(Dense(weight), Dense(torch.zeros(1, 3))), grid, other)
    small = prune(c)
    assert_log_close(log(table(small)), log(table(c)), 1e-6)
    shapes = [tuple(p.shape) for p in small.parameters()]
    assert shapes == [(1, 2), (2, 2), (1, 2)]


def test_prune_where_two_products_keep_other_units_of_one_child():
    c = tt.Circuit()
    x, y, z = (c.input(Categorical(torch.rand(4, 2, dtype=torch.float64) + 0.1), v) for v in (0, 1, 1))
    kept = torch.zeros(2, 1, 4, dtype=torch.float64)
    kept[0, 0, 1:3] = torch.tensor([0.3, 0.7])  # units 1 and 2 of x with y
    kept[1, 0, 2:] = torch.tensor([0.4, 0.6])  # units 2 and 3 of x with z; unit 0 with none
    products = [c.product(Hadamard(), x, other) for other in (y, z)]
    c.sum(Sum(*map(Dense, kept)), *products)
    small = prune(c)
    assert_same(small, table(c))
    tables = [layer.weight.shape for n in small.nodes() if isinstance(layer := small.layer(n), Categorical)]
    assert tables == [(3, 2), (2, 2), (2, 2)]


def test_chains_have_no_variables_by_number():
    hmm = tt.HMM.random(2, 2)
    for operation in (
        lambda: ops.marginalise(hmm, [0]),
        lambda: condition(hmm, {0: 1}),
        lambda: ops.mixture([0.5, 0.5], [hmm, hmm]),
        lambda: normalise(hmm),
        lambda: prune(hmm),
    ):
        with pytest.raises(CircuitError, match=r"unroll\(n\) makes one of a chain"):
            operation()


def test_queries_and_operations_name_what_they_cannot_take():
    empty, two = tt.Circuit(), tt.Circuit()
    two.input(Categorical(torch.rand(2, 3)), 0)
    for call in (empty.summary, empty.draw, lambda: prune(empty), lambda: tt.partition(empty)):
        with pytest.raises(CircuitError, match="empty"):
            call()
    with pytest.raises(CircuitError, match=r"units \(2,\)"):
        ops.mixture([1.0], [two])
    nothing = ops.marginalise(tt.HMM.random(2, 2).unroll(2), [0, 1])
    assert tt.sample(nothing, 3).shape == (3, 0)
    assert tt.inference.expectation(tt.HMM.random(2, 2), {}, torch.tensor([[0, 1], [1, 1]])).tolist() == [
        0,
        0,
    ]


def test_only_two_of_a_kind_are_multiplied():
    """In either order, and whatever is no model; the message names both."""
    hmm = tt.HMM.random(2, 2)
    fsa = tt.Automaton.from_edges([(0, 0, 0)], start=0, accept=[0], vocab_size=2)
    kinds = {"HMM": hmm, "Automaton": fsa, "Chain": hmm * fsa, "Circuit": hmm.unroll(2), "int": 3}
    chains = {"HMM", "Automaton", "Chain"}
    for one, other in itertools.product(kinds, repeat=2):
        if {one, other} <= chains or one == other == "Circuit":
            product = tt.multiply(kinds[one], kinds[other])
            assert isinstance(product, Chain if one in chains else tt.Circuit)
            continue
        with pytest.raises(
            CircuitError,
            match=f"both must be chains or both circuits, not {one} and {other}; unroll the chain",
        ):
            tt.multiply(kinds[one], kinds[other])
