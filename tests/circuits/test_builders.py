"""Builders against their formulas, written out over all values."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from oracle import assert_log_close, log

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, ShapeError
from tractile.layers import Dense, Gaussian, Indicator

F64 = torch.float64
SIZES = (2, 3, 2)


@pytest.fixture
def random():
    return builders.RandomParameters(0, F64)


def table(circuit):
    """The circuit's value at every assignment."""
    sizes = list(circuit.vocab_sizes().values())
    every = torch.tensor(list(itertools.product(*map(range, sizes))))
    return tt.log_marginal(circuit, every).exp().view(sizes).detach().numpy()


def check(circuit, expected):
    """Values, marginals and a product with itself agree with the table; the structure is what queries need."""
    np.testing.assert_allclose(table(circuit), expected, rtol=1e-10)
    assert tt.circuits.is_smooth(circuit)
    assert tt.circuits.is_structured_decomposable(circuit)
    assert_log_close(tt.partition(circuit), log(expected.sum()))
    last = circuit.variables[-1]
    assert_log_close(tt.log_marginal(circuit, {last: 1})[0], log(expected[..., 1].sum()))
    assert_log_close(tt.partition(circuit * circuit), log((expected**2).sum()))


def weights(layers):
    return [layer.table().numpy() for layer in layers]


def test_tucker(random):
    layers, core = [random.categorical(v)(i, 2 + i) for i, v in enumerate(SIZES)], random.rows(2, 3, 4)
    check(builders.tucker(layers, core), np.einsum("xyz,xa,yb,zc->abc", core, *weights(layers)))
    with pytest.raises(ShapeError, match="core"):
        builders.tucker(layers, core[..., :2])


def test_inhomogeneous_hmm(random):
    layers = [random.categorical(v)(0, k) for v, k in zip(SIZES, (2, 3, 2), strict=True)]
    initial, a, b = random.rows(2), random.rows(2, 3), random.rows(3, 2)
    circuit = builders.hmm_circuit(initial, [Dense(a), Dense(b)], layers)
    check(
        circuit,
        np.einsum(
            "i,ia,ij,jb,jk,kc->abc", initial, weights(layers)[0], a, weights(layers)[1], b, weights(layers)[2]
        ),
    )
    with pytest.raises(ShapeError, match="transitions"):
        builders.hmm_circuit(initial, [Dense(a)], layers)


def test_hmm_with_one_transition_is_the_homogeneous_one():
    model = tt.HMM.random(3, 4, dtype=F64)
    same = builders.hmm_circuit(model.initial_probs, [model.transition] * 3, [model.inputs] * 4)
    x = torch.randint(4, (10, 4), generator=torch.Generator().manual_seed(0))
    assert_log_close(tt.log_marginal(same, x), tt.log_marginal(model, x))
    assert len(same.parameters()) == 4  # initial, transition, emission; the ones at the end


def test_chain_with_a_real_variable_beside_discrete_ones(random):
    gaussian = Gaussian(torch.tensor([0.0, 2.0], dtype=F64), torch.ones(2, dtype=F64))
    categorical = random.categorical(3)(0, 2)
    pi, a = random.rows(2), random.rows(2, 2)
    circuit = builders.hmm_circuit(pi, [Dense(a)], [gaussian, categorical])
    x = 0.7
    density = np.exp(-0.5 * (x - np.array([0.0, 2.0])) ** 2) / math.sqrt(2 * math.pi)
    expected = np.einsum("i,i,ij,jb->b", pi, density, a, categorical.weight)
    assert_log_close(
        tt.log_marginal(circuit, {0: torch.full((3,), x, dtype=F64), 1: torch.arange(3)}), log(expected)
    )


def test_factorial_hmm(random):
    pi, a, emission = (
        [random.rows(2), random.rows(3)],
        [random.rows(2, 2), random.rows(3, 3)],
        random.rows(2, 3, 4),
    )
    chain = builders.factorial_hmm(pi, [Dense(m) for m in a], emission)
    assert chain.state_dims == (2, 3)
    flat = tt.HMM(torch.kron(*pi), torch.kron(*a), emission.view(6, 4))
    x = torch.randint(-1, 4, (8, 5), generator=torch.Generator().manual_seed(0))
    assert_log_close(tt.log_marginal(chain, x), tt.log_marginal(flat, x))
    assert_log_close(tt.log_marginal(chain.unroll(5), x), tt.log_marginal(flat, x))
    assert_log_close(tt.conditional(chain, x, 2), tt.conditional(flat, x, 2))
    with pytest.raises(ShapeError, match="hidden sizes"):
        builders.factorial_hmm(pi, [Dense(m) for m in a], emission[:1])


def test_tree_of_the_variables_themselves(random):
    graph = nx.DiGraph([(1, 0), (1, 2)])
    prior, a, c = random.rows(3), random.rows(3, 2), random.rows(3, 2)
    layers = {0: Indicator(2), 1: Indicator(3), 2: Indicator(2)}
    circuit = builders.tree(graph, layers, prior, {(1, 0): Dense(a), (1, 2): Dense(c)})
    check(circuit, np.einsum("b,ba,bc->abc", prior, a, c))
    with pytest.raises(CircuitError, match="arborescence"):
        builders.tree(nx.DiGraph([(0, 2), (1, 2)]), layers, prior, {})


def test_random_trees_and_regions():
    for n in (1, 2, 7):
        tree = builders.random_tree(n, seed=3)
        assert nx.is_arborescence(tree)
        assert set(tree) == set(range(n))
        assert set(builders.random_tree(n, seed=3).edges) == set(tree.edges)
    assert builders.image_regions(2, 3) == ((0, 3), ((1, 2), (4, 5)))
    with pytest.raises(ShapeError, match="pixel"):
        builders.image_regions(0, 3)
    assert sorted(nx.utils.flatten(builders.random_regions(9, seed=1))) == list(range(9))
    assert builders.random_regions(9, seed=1) == builders.random_regions(9, seed=1)
    assert len({str(builders.random_regions(9, seed=s)) for s in range(5)}) > 1


@pytest.mark.parametrize("join", [builders.cp_join, builders.tucker_join])
@pytest.mark.parametrize("region", [((0, 1), 2), (0, (1, 2)), (2, 0, 1), builders.random_regions(3, 4)])
def test_regions(join, region):
    """By the recursion itself, on tables: a region's units as functions of its variables' values."""
    made, inputs = [], {}

    def draw(rows, cols):
        made.append(random.rows(rows, cols))
        return made[-1]

    def layer(variable, units):
        inputs[variable] = random.categorical(SIZES[variable])(variable, units)
        return inputs[variable]

    random = builders.RandomParameters(5, F64)
    circuit = builders.regions(region, layer, draw, num_units=2, num_inputs=3, join=join)
    todo = [w.numpy() for w in made]

    def grow(part):  # (units, x_0, x_1, x_2), of size one where the region lacks the variable
        if isinstance(part, int):
            shape = [3, 1, 1, 1]
            shape[part + 1] = SIZES[part]
            return inputs[part].table().numpy().reshape(shape)
        below = [grow(child) for child in part]
        if join is builders.cp_join:
            return math.prod(np.einsum("ij,jabc->iabc", todo.pop(0), x) for x in below)
        joint = below[0]
        for x in below[1:]:
            joint = (joint[:, None] * x[None]).reshape(-1, *np.broadcast_shapes(joint.shape[1:], x.shape[1:]))
        return np.einsum("ij,jabc->iabc", todo.pop(0), joint)

    expected = grow(region)
    expected = np.einsum("ij,jabc->iabc", todo.pop(0), expected)[0]
    assert not todo
    check(circuit, expected)
