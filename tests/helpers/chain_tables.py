"""Circuits of one root unit as tables, and Markov chains as deterministic circuits."""

import itertools

import numpy as np
import torch

import tractile as tt
from tractile.layers import Categorical, Dense, Hadamard, Sum


def table(circuit):
    """The function of a circuit with one root unit, enumerated by the engine: one axis for each variable, in order."""
    sizes = circuit.vocab_sizes()
    if not sizes:
        return tt.partition(circuit).exp().double().numpy()
    rows = torch.tensor(list(itertools.product(*(range(d) for d in sizes.values()))))
    return tt.log_marginal(circuit, rows).exp().double().numpy().reshape(list(sizes.values()))


def decision(weights, tables, root):
    """A deterministic circuit: at each step the value of variable t chooses the unit for the rest (a Markov chain)."""
    c = tt.Circuit()
    ahead = None
    for t in reversed(range(len(tables))):
        v = tables[t].shape[1]
        here = c.input(Categorical(torch.diag(torch.rand(v, dtype=torch.float64) + 0.1)), t)
        node = here if ahead is None else c.product(Hadamard(), here, ahead)
        w = torch.tensor(root if t == 0 else weights[t - 1])
        ahead = c.sum(Sum(Dense(w)), node)
    return c


def markov(rng, n=3, v=3, zeros=0.2):
    steps = [rng.random((v, v)) * (rng.random((v, v)) > zeros) for _ in range(n - 1)]
    return decision(steps, [np.ones((v, v))] * n, rng.random((1, v)))
