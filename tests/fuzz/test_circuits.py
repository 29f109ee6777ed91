"""Random circuits under random operations, in every semiring, against enumeration of all values of all variables.

Circuits with shared nodes and layers, unrolled HMMs and automata, mixtures and products of them; operations are applied
one after another, each beside its meaning as an operation on the table of weights of every x.
"""

from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np
import oracle
import pytest
import torch
import zoo
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, EvidenceError
from tractile.inference import Log, Real
from tractile.layers import Categorical, Sum


@dataclass
class Case:
    """A circuit, its variables in order with their numbers of values, and its weight at every x."""

    circuit: tt.Circuit
    sizes: dict
    table: np.ndarray
    best: np.ndarray | None = (
        None  # by the largest weight of a path, and by the number of paths, where they are known
    )
    paths: np.ndarray | None = None


def of_plan(plan):
    sizes = dict(sorted(plan.sizes.items()))
    return Case(plan.build(), sizes, *(plan.table(mode) for mode in ("total", "best", "paths")))


def of_chain(model, n):
    sizes = dict.fromkeys(range(n), model.vocab_size)
    return Case(model.build().unroll(n), sizes, model.total(n), model.best(n), model.paths(n))


@st.composite
def bases(draw):
    """A random circuit, or a chain unrolled: one layer for all positions."""
    if draw(st.booleans()):
        return of_plan(draw(zoo.plans(max_variables=3)))
    model, n = draw(oracle.chains(shapes=[(2, 3), (3, 2), (2, 4), (2, 1)], kinds=("hmm", "fsa", "hmm*fsa")))
    return of_chain(model, n)


@st.composite
def pairs(draw):
    """Two compatible circuits over the same variables."""
    if draw(st.booleans()):
        tree = draw(zoo.vtrees(3))
        return of_plan(draw(zoo.plans(tree))), of_plan(draw(zoo.plans(tree)))
    shape = draw(st.sampled_from([(2, 3), (3, 2)]))
    return tuple(of_chain(*draw(oracle.chains(shapes=[shape], kinds=("hmm", "fsa")))) for _ in range(2))


def axis(case, v):
    return list(case.sizes).index(v)


def marginalised(case, rng):
    gone = [v for v in case.sizes if rng.random() < 0.5][: len(case.sizes) - 1]
    table = case.table.sum(tuple(axis(case, v) for v in gone))
    rest = {v: k for v, k in case.sizes.items() if v not in gone}
    return Case(tt.circuits.marginalise(case.circuit, gone), rest, table)


def conditioned(case, rng):
    """Each variable observed, in a set, under soft weights, or left alone; at least one stays."""
    items, table, left = {}, case.table, dict(case.sizes)
    for v, size in case.sizes.items():
        kind = rng.choice(["none", "seen", "set", "soft"])
        if kind == "seen" and len(left) > 1:
            value = int(rng.integers(size))
            table = np.take(table, value, list(left).index(v))
            items[v] = value
            del left[v]
        elif kind in ("set", "soft"):
            w = (
                (rng.random(size) < 0.7) * 1.0
                if kind == "set"
                else rng.random(size) * 10.0 ** rng.integers(-3, 3)
            )
            items[v] = torch.tensor(w > 0) if kind == "set" else torch.tensor(w)
            shape = [1] * table.ndim
            shape[list(left).index(v)] = size
            table = table * w.reshape(shape)
    return Case(tt.inference.condition(case.circuit, items), left, table)


def pruned(case, rng):
    return replace(case, circuit=tt.inference.prune(case.circuit)) if case.table.sum() else case


def normalised(case, rng):
    if not case.table.sum():
        with pytest.raises(CircuitError, match="zero everywhere"):
            tt.inference.normalise(case.circuit)
        return case
    return Case(tt.inference.normalise(case.circuit), case.sizes, case.table / case.table.sum())


def squared(case, rng):
    """The square, which has up to as many nodes and weights as theirs squared: of small circuits alone."""
    nodes = [case.circuit.layer(node) for node in case.circuit.nodes()]
    weights = sum(prod(op.shape) for layer in nodes if isinstance(layer, Sum) for op in layer.operators)
    if len(nodes) > 25 or weights > 150:
        return case
    try:
        return Case(case.circuit * case.circuit, case.sizes, case.table**2)
    except CircuitError:  # not compatible with itself
        return case


def mixed(case, rng):
    w = rng.random(2)
    return Case(
        tt.circuits.mixture(torch.tensor(w), [case.circuit, case.circuit]), case.sizes, w.sum() * case.table
    )


def renamed(case, rng):
    names = dict(zip(case.sizes, rng.permutation(10)[: len(case.sizes)].tolist(), strict=True))
    order = sorted(range(len(names)), key=lambda i: list(names.values())[i])
    sizes = {list(names.values())[i]: list(case.sizes.values())[i] for i in order}
    return Case(case.circuit.relabel(names), sizes, case.table.transpose(order))


def moved(case, rng):
    return replace(case, circuit=case.circuit.to("cpu", torch.float64))


OPERATIONS = [marginalised, conditioned, pruned, normalised, squared, mixed, renamed, moved]


def ask(case, evidence, weights, seed, tolerance=1e-9):
    """Every query that needs no more than the table."""
    circuit, sizes = case.circuit, case.sizes
    rows = len(weights[0])
    table = np.stack([oracle.weigh(case.table, weights, row) for row in range(rows)])
    axes = tuple(range(1, table.ndim))
    mass = table.sum(axes)
    for semiring in (None, Real(), Log()):
        assert_log_close(tt.log_marginal(circuit, evidence, semiring=semiring), log(mass), tolerance)
    assert tt.support(circuit, evidence).tolist() == (mass > 0).tolist()
    if not (mass > 0).all():
        for query in (tt.inference.marginals, tt.mpe, tt.sample):
            with pytest.raises(EvidenceError, match="probability zero"):
                query(circuit, evidence=evidence)
        return
    for i, found in enumerate(tt.inference.marginals(circuit, evidence).values()):
        expected = table.sum(tuple(a for a in axes if a != i + 1)) / mass[:, None]
        assert_log_close(found, log(expected), tolerance)
    v = list(sizes)[seed % len(sizes)]
    free = [np.ones_like(w) if u == v else w for u, w in zip(sizes, weights, strict=True)]
    joint = np.stack([oracle.weigh(case.table, free, row) for row in range(rows)])
    joint = joint.sum(tuple(a for a in axes if a != axis(case, v) + 1))
    assert_log_close(
        tt.conditional(circuit, evidence, v), log(joint / joint.sum(1, keepdims=True)), tolerance
    )
    drawn = tt.sample(circuit, 2, evidence, generator=torch.Generator().manual_seed(seed))
    for x in drawn.reshape(2, rows, -1).tolist():
        assert all(table[(row, *values)] > 0 for row, values in enumerate(x))
    values, score = tt.mpe(circuit, evidence)
    for row, x in enumerate(values.tolist()):
        assert table[(row, *x)] * (1 + 1e-6) >= np.exp(float(score[row])) > 0


@given(case=bases(), data=st.data(), seed=st.integers(0, 2**31))
def test_operations_one_after_another(case, data, seed):
    rng = np.random.default_rng(seed)
    for operation in data.draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=3)):
        case = operation(case, rng)
    assert list(case.circuit.variables) == list(case.sizes)
    ask(case, *data.draw(oracle.evidence(case.sizes)), seed)


@given(both=pairs(), data=st.data(), seed=st.integers(0, 2**31))
def test_products_and_mixtures(both, data, seed):
    a, b = both
    w = np.random.default_rng(seed).random(2)
    cases = {
        "product": lambda: Case(a.circuit * b.circuit, a.sizes, a.table * b.table),
        "mixture": lambda: Case(
            tt.circuits.mixture(torch.tensor(w), [a.circuit, b.circuit]),
            a.sizes,
            w[0] * a.table + w[1] * b.table,
        ),
    }
    case = cases[data.draw(st.sampled_from(sorted(cases)))]()
    ask(case, *data.draw(oracle.evidence(case.sizes)), seed)


@st.composite
def deterministic(draw):
    """Weights on the language of a deterministic automaton: a product of its unrolled circuit and independent variables."""
    vocab_size, n = draw(st.sampled_from([(2, 3), (3, 2), (2, 1)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    w = [oracle.rows(rng, vocab_size, zeros=0.3) for _ in range(n)]
    fsa = draw(oracle.fsas(vocab_size, deterministic=True))
    plain = builders.factorised([Categorical(torch.tensor(row)[None]) for row in w])
    table = fsa.total(n) * reduce(np.multiply.outer, w)
    return Case(fsa.build().unroll(n) * plain, dict.fromkeys(range(n), vocab_size), table)


@given(p=deterministic(), q=deterministic())
def test_information(p, q):
    assume(p.table.sum() and q.table.sum())
    x, y = p.table / p.table.sum(), q.table
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(x > 0, x * np.log(x), 0).sum()
    assert float(tt.entropy(tt.inference.normalise(p.circuit))) == pytest.approx(entropy, abs=1e-9)
    assert float(tt.entropy(p.circuit)) == pytest.approx(entropy, abs=1e-9)
    if p.sizes != q.sizes:
        return
    y = y / y.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(x > 0, x * np.log(x / y), 0)
    found = float(tt.inference.kl_divergence(p.circuit, q.circuit))
    assert found == pytest.approx(terms.sum(), abs=1e-9)
