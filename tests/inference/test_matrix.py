"""The matrix: every kind of layer × every semiring × every query × every kind of evidence, against enumeration.

Circuits are random DAGs with shared nodes whose products need not split alike, chains are of any L, B, R and ends; one kind
of layer at a time is sure to be among theirs (:mod:`zoo`).
"""

import math
from functools import reduce

import numpy as np
import oracle
import pytest
import torch
import zoo
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.circuits import is_structured_decomposable
from tractile.errors import CircuitError, EvidenceError
from tractile.inference import Boolean, Counting, Log, MaxProduct, MinPlus, NextToken, Real
from tractile.inference.engine import passes
from tractile.layers import Categorical, Dense, Hadamard, Sum

KINDS = [{"operator": k} for k in zoo.OPERATORS] + [{"inputs": k} for k in zoo.INPUTS]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[next(iter(k.values())) for k in KINDS])
# specimens follow from seeds: there is nothing to shrink
SEEDS = [Phase.explicit, Phase.reuse, Phase.generate]
FEW = settings(max_examples=3, deadline=None, phases=SEEDS)
SEMIRINGS = {
    Real: "total", Log: "total", Boolean: "support", Counting: "paths", MaxProduct: "best", MinPlus: "best",
}  # fmt: skip


class Case:
    """Tables under evidence, one for each row: what every query is asked of."""

    def __init__(self, tables, weights, sizes, continuous):
        rows = range(len(weights[0]))
        self.plain = tables
        positive = [(w > 0) * 1.0 for w in weights]
        self.rows = {
            mode: [oracle.weigh(t, positive if mode == "paths" else weights, r) for r in rows]
            for mode, t in tables.items()
        }
        self.weights, self.sizes, self.continuous = weights, sizes, continuous
        self.discrete = [v for v in sizes if v not in continuous]
        self.possible = all(t.sum() > 0 for t in self.rows["total"])

    def axes(self, variables):
        return tuple(list(self.sizes).index(v) for v in variables)

    def reduce(self, kind, variables=(), skip=()):
        """The ⊕-total for each row, as a function of some variables, whose evidence counts unless it is to be ``skip``-ped."""
        mode = "paths" if kind == "support" else kind
        out = []
        for row in range(len(self.weights[0])):
            table = self.rows[mode][row]
            if skip:
                weights = [(w > 0) * 1.0 for w in self.weights] if mode == "paths" else self.weights
                table = oracle.weigh(self.plain[mode], weights, row, skip=self.axes(skip))
            axes = self.axes(variables)
            gone = tuple(i for i in range(table.ndim) if i not in axes)
            table = table.max(gone) if mode == "best" else table.sum(gone)
            out.append(table.transpose([sorted(axes).index(i) for i in axes]))
        out = np.array(out)
        return (out > 0) * 1.0 if kind == "support" else out


def check_semirings(case, model, evidence, n):
    for semiring, kind in SEMIRINGS.items():
        tolerance = 1e-6 if semiring is Boolean else 1e-9
        actual = tt.log_marginal(model, evidence, semiring=semiring(), **n)
        assert_log_close(actual, log(case.reduce(kind)), tolerance)
    assert_log_close(tt.log_marginal(model, evidence, **n), log(case.reduce("total")), 1e-9)
    assert tt.support(model, evidence, **n).tolist() == (case.reduce("support") > 0).tolist()
    if not case.continuous:
        assert_log_close(tt.partition(model, **n), log(case.plain["total"].sum()))
        assert_log_close(tt.partition(model, semiring=MaxProduct(), **n), log(case.plain["best"].max()))
        if len(case.weights[0]) == 1:
            assert tt.count(model, evidence, paths=True, **n) == case.reduce("paths")[0]


def check_tables(case, model, evidence, n, rng):
    """Conditionals of one and of several variables, and all marginals."""
    if not case.discrete:
        return
    asked = rng.permutation(case.discrete)[: int(rng.integers(1, 4))].tolist()
    for variables in (asked, asked[:1]):
        expected = case.reduce("total", variables, skip=variables)
        totals = expected.reshape(len(expected), -1).sum(1)
        query = tuple(variables) if len(variables) > 1 else variables[0]
        if (totals == 0).any():
            with pytest.raises(EvidenceError, match="probability zero"):
                tt.conditional(model, evidence, query, **n)
            continue
        expected = log(expected / totals.reshape(-1, *[1] * len(variables)))
        assert_log_close(tt.conditional(model, evidence, query, **n), expected, 1e-9)
    if case.continuous:
        with pytest.raises(CircuitError, match="continuous"):
            tt.inference.marginals(model, evidence, **n)
    elif not case.possible:
        with pytest.raises(EvidenceError, match="probability zero"):
            tt.inference.marginals(model, evidence, **n)
    else:
        for v, actual in tt.inference.marginals(model, evidence, **n).items():
            table = case.reduce("total", [v])
            assert_log_close(actual, log(table / table.sum(1, keepdims=True)), 1e-9)


def check_decoding(case, model, evidence, n):
    """The best explanation, the k best and samples, all of the table."""
    if not case.possible:
        for query in (tt.mpe, lambda m, e, **n: tt.sample(m, 2, e, **n)):
            with pytest.raises(EvidenceError, match="probability zero"):
                query(model, evidence, **n)
        return
    x, score = tt.mpe(model, evidence, **n)
    best, continuous = case.rows["best"], {list(case.sizes).index(v) for v in case.continuous}
    assert_log_close(score, log(np.array([b.max() for b in best])), 1e-9)
    at = [b[zoo.place(row, continuous)] for b, row in zip(best, x.tolist(), strict=True)]
    assert_log_close(log(np.array(at)), score, 1e-9)
    samples = tt.sample(model, 4, evidence, **n).view(4, len(best), -1)
    for row, table in enumerate(case.rows["total"]):
        assert all(table[zoo.place(s, continuous)] > 0 for s in samples[:, row].tolist())
    if case.continuous or len(best) > 1:
        return
    found, scores = tt.inference.k_best(model, 4, evidence, **n)
    assert_log_close(scores, log(np.sort(best[0][best[0] > 0])[::-1][:4]), 1e-9)
    assert_log_close(log(np.array([best[0][tuple(row)] for row in found.tolist()])), scores, 1e-9)
    assert len({tuple(row) for row in found.tolist()}) == len(found)


def check_expectations(case, model, evidence, n, rng):
    """Of a function of each variable, and of a mixture of independent factors, which goes with any circuit."""
    if not case.possible or case.continuous:
        return
    tables = np.array([t / t.sum() for t in case.rows["total"]])
    f = {v: rng.normal(size=case.sizes[v]) for v in case.discrete if rng.random() < 0.7}
    expected = sum((case.reduce("total", [v]) @ g for v, g in f.items()), np.zeros(len(tables)))
    actual = tt.inference.expectation(model, {v: torch.tensor(g) for v, g in f.items()}, evidence, **n)
    np.testing.assert_allclose(actual, expected / case.reduce("total"), rtol=1e-9, atol=1e-12)
    mixture, table = independent(rng, case.sizes)
    actual = tt.inference.expectation(model, mixture, evidence, **n)
    np.testing.assert_allclose(actual, (tables * table).sum(tuple(range(1, tables.ndim))), rtol=1e-9)


def independent(rng, sizes):
    """Σ_k w_k Π_v B_v[k, x_v], and its table."""
    circuit, table, w = tt.Circuit(), np.ones([2, *sizes.values()]), rng.random(2)
    nodes = []
    for axis, (v, size) in enumerate(sizes.items()):
        b = rng.random((2, size))
        nodes.append(circuit.input(Categorical(torch.tensor(b)), v))
        table = table * b.reshape(2, *(size if i == axis else 1 for i in range(len(sizes))))
    node = circuit.product(Hadamard(), *nodes) if len(nodes) > 1 else nodes[0]
    circuit.sum(Sum(Dense(torch.tensor(w[None]))), node)
    return circuit, np.einsum("k,k...->...", w, table)


def check_open(case, model, evidence):
    """One variable left open, in every semiring: the root as a function of it."""
    known = tt.inference.queries.evidence.as_evidence(evidence, model.vocab_sizes())
    for v in case.discrete[:1]:
        for semiring, kind in SEMIRINGS.items():
            sr = semiring()
            (opened,) = passes.open_variables(model, sr, known, [v]).values()
            table = sr.log(opened).T.expand(known.batch, -1)
            assert_log_close(table, log(case.reduce(kind, [v], skip=[v])), 1e-6)


# ------------------------------------------------------------------------------------------------------------- circuits


def draw_case(data, plan):
    evidence, weights = data.draw(zoo.evidence(dict(sorted(plan.sizes.items())), plan.continuous))
    tables = {mode: plan.table(mode) for mode in ("total", "best", "paths")}
    return Case(tables, weights, dict(sorted(plan.sizes.items())), plan.continuous), evidence


@each_kind
@given(data=st.data())
@FEW
def test_circuits(kind, data):
    plan = data.draw(zoo.zoos(**kind))
    case, evidence = draw_case(data, plan)
    circuit, rng = plan.build(), np.random.default_rng(data.draw(st.integers(0, 2**31)))
    check_semirings(case, circuit, evidence, {})
    check_tables(case, circuit, evidence, {}, rng)
    check_decoding(case, circuit, evidence, {})
    check_expectations(case, circuit, evidence, {}, rng)
    check_open(case, circuit, evidence)


def enumerated(circuit, plan):
    """The circuit's own table over the variables that it still has, observed ones at their points."""
    sizes = {v: plan.sizes[v] for v in circuit.variables}
    if not sizes:
        return tt.partition(circuit).exp().numpy()
    rows = torch.tensor(list(zoo.every(sizes)), dtype=torch.float64)
    for i, v in enumerate(sizes):
        if v in plan.continuous:
            rows[:, i] = torch.tensor(np.append(zoo.POINTS, np.nan))[rows[:, i].long()]
    rows = rows if plan.continuous & set(sizes) else rows.long()
    return tt.log_marginal(circuit, rows).exp().double().numpy().reshape(list(sizes.values()))


@each_kind
@given(data=st.data())
@FEW
def test_operations_on_circuits(kind, data, tmp_path_factory):
    """Each gives the circuit of the table that it should."""
    plan = data.draw(zoo.zoos(**kind))
    circuit, table = plan.build(), plan.table("total")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    variables = sorted(plan.sizes)

    def same(result, expected):
        assert_log_close(log(enumerated(result, plan)), log(expected), 1e-9)

    def collapsed(gone):  # a continuous variable is summed out by the last entry, its mass
        out = table
        for v in sorted(gone, reverse=True):
            axis = variables.index(v)
            out = out.take(-1, axis) if v in plan.continuous else out.sum(axis)
        return out

    gone = {v for v in variables if rng.random() < 0.5}
    same(tt.circuits.marginalise(circuit, gone), collapsed(gone))
    path = tmp_path_factory.mktemp("circuit")
    circuit.save(path)
    same(tt.load(path), table)
    v = int(rng.choice(variables))
    observed = int(rng.integers(min(plan.sizes[v], 3)))
    value = float(zoo.POINTS[observed]) if v in plan.continuous else observed
    same(tt.inference.condition(circuit, {v: value}), table.take(observed, variables.index(v)))
    if v not in plan.continuous:
        soft = rng.random(plan.sizes[v])
        shape = [-1 if u == v else 1 for u in variables]
        same(tt.inference.condition(circuit, {v: torch.tensor(soft)}), table * soft.reshape(shape))
    same(tt.circuits.mixture([0.25, 2.0], [circuit, circuit]), 2.25 * table)
    total = collapsed(variables)
    if total == 0:
        for operation in (tt.inference.normalise, tt.inference.prune):
            with pytest.raises(CircuitError, match="zero everywhere"):
                operation(circuit)
        return
    normal, pruned = tt.inference.normalise(circuit), tt.inference.prune(circuit)
    assert_log_close(tt.partition(normal), 0.0, 1e-9)
    same(normal, table / total)
    same(pruned, table)
    if not plan.continuous:
        other, factor = independent(rng, dict(sorted(plan.sizes.items())))
        same(circuit * other, table * factor)
        same(other * pruned, table * factor)
    if is_structured_decomposable(circuit):
        points = tuple(slice(3 if v in plan.continuous else None) for v in variables)
        assert_log_close(log(enumerated(circuit * circuit, plan)[points]), log(table[points] ** 2), 1e-9)


# --------------------------------------------------------------------------------------------------------------- chains


@each_kind
@given(data=st.data())
@settings(max_examples=2, deadline=None, phases=SEEDS)
def test_chains(kind, data):
    """Chains of any layers, alone and with an automaton, and the same unrolled."""
    model, n = data.draw(zoo.zoo_chains(**kind))
    if not model.continuous and data.draw(st.booleans()):
        model = oracle.OracleProduct([model, data.draw(oracle.fsas(model.vocab_size))])
    continuous = frozenset(range(n)) if getattr(model, "continuous", False) else frozenset()
    sizes = dict.fromkeys(range(n), model.vocab_size)
    evidence, weights = data.draw(zoo.evidence(sizes, continuous))
    tables = {mode: getattr(model, mode)(n) for mode in ("total", "best", "paths")}
    case, chain = Case(tables, weights, sizes, continuous), model.build()
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    check_semirings(case, chain, evidence, {"n": n})
    check_tables(case, chain, evidence, {"n": n}, rng)
    check_decoding(case, chain, evidence, {"n": n})
    check_expectations(case, chain, evidence, {"n": n}, rng)
    check_open(case, chain.unroll(n), evidence)


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("inputs", zoo.DISCRETE)
@given(data=st.data())
@settings(max_examples=3, deadline=None, phases=SEEDS)
def test_next_token_of_every_chain_in_every_semiring(inputs, semiring, data):
    """Rows with budgets of their own, at every prefix of random walks."""
    operator = data.draw(st.sampled_from(list(zoo.LEAVES)))
    model, horizon = data.draw(zoo.zoo_chains(operator=operator, inputs=inputs))
    kind = SEMIRINGS[semiring]
    mode = "paths" if kind == "support" else kind
    tables = {n: getattr(model, mode)(n) for n in range(1, horizon + 1)}
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    budgets = torch.tensor(rng.integers(1, horizon + 1, 3))
    query = NextToken(model.build(), horizon, semiring())
    query.resume(torch.zeros(3, 0, dtype=torch.long), budgets)
    prefixes = [()] * 3
    for step in range(horizon):
        expected = np.zeros((3, model.vocab_size))
        for i, n in enumerate(budgets.tolist()):
            if step < n:
                rest = tables[n][prefixes[i]].reshape(model.vocab_size, -1)
                expected[i] = rest.max(1) if mode == "best" else rest.sum(1)
        expected = (expected > 0) * 1.0 if kind == "support" else expected
        assert_log_close(query.log_weights(), log(expected), 1e-6 if semiring is Boolean else 1e-9)
        assert query.mask().tolist() == (expected > 0).tolist()
        tokens = rng.integers(0, model.vocab_size, 3)
        query.advance(torch.tensor(tokens))
        prefixes = [
            (*p, int(v)) if step < n else p
            for p, v, n in zip(prefixes, tokens, budgets.tolist(), strict=True)
        ]


# ------------------------------------------------------------------------------------------------- samples, derivatives


def sampled(kind):
    """(model, table of its discrete variables, these, how long) of a circuit and a chain with something to draw."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        plan = zoo.random_zoo(rng, **kind, variables=3)
        model = zoo.random_chain(rng, **kind, vocab_size=2)
        table = plan.table("total")
        for v in sorted(plan.continuous, reverse=True):
            table = table.take(-1, v)
        cases = [(plan.build(), table, [v for v in sorted(plan.sizes) if v not in plan.continuous], {})]
        if not model.continuous:
            cases.append((model.build(), model.total(3), [0, 1, 2], {"n": 3}))
        if all((table > 1e-3 * table.max()).sum() > table.ndim for _, table, _, _ in cases):
            return cases
    raise AssertionError(f"no specimen of {kind} has something to draw")


@each_kind
def test_samples(kind):
    """χ² at fixed seeds of 2,000 samples, joint and given evidence, from a circuit and a chain; a fresh seed would fail with
    probability 1e-5 in each of 66 tests. Of continuous variables the discrete ones beside them are tested."""
    for circuit, table, variables, n in sampled(kind):
        value = int(table.sum(tuple(range(1, table.ndim))).argmax())
        for evidence, left, kept in (
            (None, table, variables),
            ({variables[0]: value}, table[value], variables[1:]),
        ):
            if not kept:
                continue
            x = (
                tt.sample(circuit, 2000, evidence, generator=torch.Generator().manual_seed(29), **n)
                .long()
                .numpy()
            )
            assert oracle.chi_square(x[:, kept], left) > 1e-5
            assert evidence is None or (x[:, variables[0]] == value).all()


@pytest.mark.long
@pytest.mark.parametrize("semiring", [Real, Log])
@each_kind
def test_gradients(kind, semiring):
    """Against finite differences: log_marginal by every parameter of a circuit and of a chain, with rows partly observed."""
    rng = np.random.default_rng(5)
    plan = zoo.random_zoo(rng, **kind, variables=2, zeros=0.0)
    chain = zoo.random_chain(rng, **kind, vocab_size=2, zeros=0.0)
    models = [(plan.build(), plan.continuous), (chain.build(), {0, 1} if chain.continuous else set())]
    for model, real in models if semiring is Real else models[:1]:
        rows = [[0.0, 1.0], [1.0, math.nan], [math.nan, math.nan]]
        evidence = torch.tensor(rows, dtype=torch.float64)
        evidence = evidence if real else evidence.nan_to_num(-1).long()
        evidence = evidence[tt.support(model, evidence)]
        old = list({id(p): p for p in model.parameters()}.values())

        def log_p(*new, model=model, old=old, evidence=evidence):
            known = dict(zip(map(id, old), new, strict=True))
            return tt.log_marginal(model.map(lambda t: known[id(t)]), evidence, semiring=semiring())

        assert torch.autograd.gradcheck(log_p, [p.clone().requires_grad_() for p in old], fast_mode=True)


# ------------------------------------------------------------------------------------------------------------ long chains


def test_deep_circuits():
    """Hundreds of levels: products, their operations and linear trees of regions do not run out of stack."""
    n, hmm = 150, tt.HMM.random(2, 3, dtype=torch.float64)
    odd = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 1], 1), (1, 2, 0)], 0, [1], 3)
    product = hmm.unroll(n) * odd.unroll(n)
    expected = tt.partition(hmm * odd, n=n)
    for circuit in (product, tt.inference.prune(product), tt.circuits.marginalise(product, [1, n - 1])):
        assert_log_close(tt.partition(circuit), expected, 1e-9)
    assert_log_close(tt.partition(tt.inference.normalise(product)), 0.0, 1e-9)
    random = tt.circuits.builders.RandomParameters(0, torch.float64)
    nested = reduce(lambda region, variable: (region, variable), range(1000))
    linear = tt.circuits.builders.regions(nested, random.bernoulli(), random.rows, 2)
    assert_log_close(tt.partition(linear), 0.0, 1e-9)


def test_a_circuit_over_other_variables():
    circuit = tt.HMM.random(2, 3, dtype=torch.float64).unroll(4)
    renamed = circuit.relabel({0: 9, 2: 0})
    assert renamed.variables == (0, 1, 3, 9)
    assert_log_close(tt.log_marginal(renamed, {9: 1, 0: 2}), tt.log_marginal(circuit, {0: 1, 2: 2}))
    for bad in ({1: 2}, {7: 8}):
        with pytest.raises(CircuitError, match="relabel"):
            circuit.relabel(bad)
