"""The example on structures: Chow–Liu trees against all trees, density estimation end to end."""

import importlib
import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from oracle import assert_log_close

import tractile as tt
from tractile.circuits import builders
from tractile.layers import Dense, Indicator

F64 = torch.float64


def table(circuit):
    """The circuit's value at every assignment."""
    sizes = list(circuit.vocab_sizes().values())
    every = torch.tensor(list(itertools.product(*map(range, sizes))))
    return tt.log_marginal(circuit, every).exp().view(sizes).detach().numpy()


# ---------------------------------------------------------------------------------------------------- Chow–Liu trees


def planted(n, seed, strength=0.85):
    """A tree and rows drawn from a distribution that follows it: each variable repeats its parent with ``strength``."""
    graph = builders.random_tree(n, seed=seed)
    flip = torch.full((3, 3), (1 - strength) / 2, dtype=F64).fill_diagonal_(strength)
    circuit = builders.tree(
        graph,
        dict.fromkeys(graph, Indicator(3)),
        torch.full((3,), 1 / 3, dtype=F64),
        dict.fromkeys(graph.edges, Dense(flip)),
    )
    return graph, circuit, tt.sample(circuit, 3000, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_tree_is_found(seed):
    """Edges carry 0.6 nats and pairs two edges apart 0.3: with 3,000 rows the estimates are off by about 0.01."""
    graph, truth, data = planted(7, seed)
    found = builders.chow_liu_tree(data, 3)
    assert {frozenset(e) for e in found.edges} == {frozenset(e) for e in graph.edges}
    learned = builders.chow_liu(data, 3)
    assert_log_close(tt.partition(learned), 0.0)
    gain = tt.log_marginal(learned, data).mean() - tt.log_marginal(truth, data).mean()
    assert 0 < gain < 0.02  # it fits its own data better, by about (parameters / 2 rows)


def test_it_is_the_best_of_all_trees():
    data = torch.randint(2, (60, 4), generator=torch.Generator().manual_seed(1))
    data[:, 2] = (data[:, 0] + (torch.rand(60, generator=torch.Generator().manual_seed(2)) < 0.2)) % 2
    learned = tt.log_marginal(builders.chow_liu(data, 2), data).sum()
    best = -math.inf
    for edges in itertools.combinations(itertools.combinations(range(4), 2), 3):
        graph = nx.Graph(edges)
        if len(graph) == 4 and nx.is_connected(graph):
            best = max(best, tree_log_likelihood(nx.bfs_tree(graph, 0), data.numpy()))
    assert_log_close(learned, best)


def tree_log_likelihood(tree, data):
    """Of the tree with the frequencies of the data as its tables, row by row."""
    total = 0.0
    for v in tree:
        parent = next(iter(tree.predecessors(v)), None)
        for row in data:
            same = data if parent is None else data[data[:, parent] == row[parent]]
            total += math.log((same[:, v] == row[v]).mean())
    return total


def test_a_value_that_is_never_seen():
    data = torch.tensor([[0, 0], [0, 1], [2, 1]])  # no row has x_0 = 1
    np.testing.assert_allclose(
        table(builders.chow_liu(data, 3)), [[1 / 3, 1 / 3, 0], [0, 0, 0], [0, 1 / 3, 0]], atol=1e-12
    )
    smooth = table(builders.chow_liu(data, 3, pseudocount=1.0))
    assert (smooth > 0).all()
    assert smooth.sum() == pytest.approx(1)


def test_latent_states_say_more_than_the_tree():
    """Rows of a mixture of two opposite chains, which no single tree of the variables can be."""
    flip = torch.full((2, 2), 0.05, dtype=F64).fill_diagonal_(0.95)
    graph, half = nx.path_graph(4, create_using=nx.DiGraph), torch.tensor([0.5, 0.5], dtype=F64)
    indicators = dict.fromkeys(graph, Indicator(2))
    chains = [
        builders.tree(graph, indicators, half, dict.fromkeys(graph.edges, Dense(m)))
        for m in (flip, flip.flip(0))
    ]
    truth = tt.circuits.mixture(half, chains)
    data = tt.sample(truth, 400, generator=torch.Generator().manual_seed(0))
    tree = tt.log_marginal(builders.chow_liu(data, 2), data).mean()
    fit = tt.inference.em(builders.hidden_tree(data, 2, 6, seed=1), data, epochs=60)
    assert fit.log_likelihoods[-1] > tree + 0.03


# ------------------------------------------------------------------------------------------------- density estimation


def test_each_structure_learns():
    pytest.importorskip("sklearn")
    script = importlib.import_module("density_estimation")
    train, test = script.digits()
    assert (train.shape, test.shape, set(train.unique().tolist())) == ((1437, 64), (360, 64), {0, 1})
    p = (train.double().mean(0) * 1437 + 1) / 1439
    apart = (test * p.log() + (1 - test) * (1 - p).log()).sum(1).mean()
    for name, model in script.structures(train, states=3, steps=3).items():
        assert abs(float(tt.partition(model))) < 1e-4, name
        assert tt.log_marginal(model, test).mean() > apart + 1, name
