"""A finite answer is right in every dtype: circuits, chains, HMMs and products of every kind against exact rationals.

Weights are ordinary, subnormal, or anywhere in the range of their dtype, some of them zero. An answer is within the tolerance of
the logarithm that fractions give (float64: 1e-9; float32 and 16 bits, which are read as float32: 1e-4), or it is refused with an
error that says that the weights leave the range of float64.
"""

import functools
import itertools
import math

import numpy as np
import oracle
import pytest
import torch
import zoo
from exact import Exact, ExactChain, exact, log, one_hot
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt
from tractile.circuits import Chain
from tractile.errors import CircuitError, EvidenceError
from tractile.inference import Log, NextToken, Real, em_step, expected_counts, marginals
from tractile.layers import Categorical, Dense, Identity, Monarch

TOLERANCE = {torch.float16: 1e-4, torch.bfloat16: 1e-4, torch.float32: 1e-4, torch.float64: 1e-9}
STYLES = ("ordinary", "mixed", "at most one", "subnormal", "any")
INPUTS = [name for name in zoo.DISCRETE if name != "bernoulli"]  # whose parameters are not its weights


def drawn_weights(rng, dtype, style):
    """A function that replaces a tensor by random weights of a dtype."""
    info = torch.finfo(dtype)
    least, most = math.log2(info.tiny * info.eps), math.log2(info.max)
    low, high = {
        "ordinary": (-4, 0),
        "subnormal": (least, math.log2(info.tiny)),
        "any": (max(least, -997), min(most - 0.1, 997)),  # 1e-300 to 1e300
    }.get(style, (least, 0))

    def draw(t):
        power = rng.uniform(low, high, tuple(t.shape))
        if style == "mixed":
            power = np.where(rng.random(power.shape) < 0.6, rng.uniform(-3, 0, power.shape), power)
        kept = torch.tensor(rng.random(power.shape) >= 0.12)
        return torch.tensor(2.0**power).to(dtype) * kept

    return draw


def distributions(rng, draw, *shape):
    """Rows that sum to one, up to rounding: one entry has what the others leave."""
    weight = draw(torch.empty(shape))
    wide = weight.double().clamp(max=1)
    wide = wide.scatter(-1, torch.tensor(rng.integers(shape[-1], size=shape[:-1]))[..., None], 0.0)
    if float(wide.sum(-1).max()) > 0.5:
        wide = wide / wide.sum(-1, keepdim=True).clamp(min=1) / 2
    rest = torch.tensor(rng.integers(shape[-1], size=shape[:-1]))[..., None]
    wide = wide.scatter(-1, rest, 0.0)
    return wide.scatter(-1, rest, 1 - wide.sum(-1, keepdim=True)).to(weight.dtype)


def transition(rng, draw, hidden):
    return Dense(draw(hidden, hidden)) if hidden < 4 else Monarch([draw(2, 2, 2), draw(2, 2, 2)])


def any_chain(rng, dtype, style):
    draw, hidden, vocab_size = (
        drawn_weights(rng, dtype, style),
        int(rng.integers(1, 5)),
        int(rng.integers(2, 4)),
    )

    def weights(*shape):
        return draw(torch.empty(shape))

    return Chain(
        (weights(hidden),), Identity(hidden), Categorical(weights(hidden, vocab_size)),
        transition(rng, weights, hidden), (weights(hidden),),
    )  # fmt: skip


def any_hmm(rng, dtype, style):
    draw, hidden, vocab_size = (
        drawn_weights(rng, dtype, style),
        int(rng.integers(1, 5)),
        int(rng.integers(2, 4)),
    )

    def rows(*shape):
        return distributions(rng, draw, *shape)

    return tt.HMM(rows(hidden), transition(rng, rows, hidden), rows(hidden, vocab_size))


def any_product(rng, dtype, style):
    hmm = any_hmm(rng, dtype, style)
    fsa = oracle.random_fsa(rng, 2, hmm.vocab_size, bool(rng.random() < 0.5))
    return hmm * tt.Automaton.from_edges(fsa.edges, fsa.start, fsa.accept, hmm.vocab_size)


def any_circuit(rng, dtype, style):
    operator = rng.choice([None, *zoo.OPERATORS])
    plan = zoo.random_zoo(rng, operator, rng.choice(INPUTS), int(rng.integers(1, 4)))
    return plan.build().map(drawn_weights(rng, dtype, style))


MODELS = {"circuit": any_circuit, "chain": any_chain, "hmm": any_hmm, "product": any_product}


def close(found, expected, dtype):
    for a, b in zip(found, expected, strict=True):
        assert a == b or abs(a - b) <= TOLERANCE[dtype] * max(1, abs(b)), (found, expected)


def answered(ask):
    """The answer; None where the weights leave the range of float64, and the error says so."""
    try:
        return ask()
    except (CircuitError, EvidenceError) as error:
        if "range of float64" in str(error):
            return None
        raise


class Case:
    """A model, its oracle, three full rows and three with gaps."""

    def __init__(self, kind, dtype, style, seed):
        rng = np.random.default_rng(seed)
        self.drawn, self.dtype, self.rng = (kind, dtype, style, seed), dtype, rng
        self.model = MODELS[kind](rng, dtype, style)
        self.n = None if kind == "circuit" else int(rng.integers(1, 4))
        self.oracle = Exact(self.model) if kind == "circuit" else ExactChain(self.model, self.n)
        self.sizes = self.oracle.sizes
        self.rows = [[int(rng.integers(size)) for _, size in sorted(self.sizes.items())] for _ in range(3)]
        self.gaps = [[x if rng.random() < 0.6 else -1 for x in row] for row in self.rows]

    def __repr__(self):
        return f"Case{self.drawn}"

    def weights(self, row):
        return {v: one_hot(x, self.sizes[v]) for v, x in zip(sorted(self.sizes), row, strict=True) if x >= 0}

    def root(self, row, **more):
        return self.oracle.root(self.weights(row), **more)

    def models(self):
        """The model, and the circuit that a chain is unrolled to."""
        unrolled = None if self.n is None else answered(lambda: self.model.unroll(self.n))
        return [self.model, *([] if unrolled is None else [unrolled])]


@st.composite
def cases(draw, kinds=tuple(MODELS)):
    kind, dtype = draw(st.sampled_from(kinds)), draw(st.sampled_from(list(TOLERANCE)))
    return Case(kind, dtype, draw(st.sampled_from(STYLES)), draw(st.integers(0, 2**31)))


@given(case=cases())
def test_probabilities(case):
    """In the semirings of its choice, and in Real, which marks by NaN or +∞ what it lost."""
    for rows in (case.rows, case.gaps):
        expected = [log(case.root(row)) for row in rows]
        for model, semiring in itertools.product(case.models(), (None, Real(), Log())):
            found = answered(functools.partial(tt.log_marginal, model, torch.tensor(rows), semiring=semiring))
            if found is not None:
                given = [
                    i for i, x in enumerate(found.tolist()) if x < math.inf or not isinstance(semiring, Real)
                ]
                close(
                    found[given].tolist(),
                    [expected[i] for i in given],
                    case.dtype if semiring is None else torch.float32,
                )
    possible = answered(lambda: tt.support(case.model, torch.tensor(case.gaps)))
    if possible is not None:
        assert possible.tolist() == [case.root(row) > 0 for row in case.gaps]


@given(case=cases())
def test_soft_evidence(case):
    size = min(case.sizes.values())
    if len(set(case.sizes.values())) > 1:
        return
    weights = drawn_weights(case.rng, case.dtype, "mixed")(torch.empty(1, len(case.sizes), size))
    known = {v: list(exact(weights[0, i])) for i, v in enumerate(sorted(case.sizes))}
    found = answered(lambda: tt.log_marginal(case.model, weights))
    if found is not None:
        close(found.tolist(), [log(case.oracle.root(known))], case.dtype)


@given(case=cases())
def test_tables_of_a_variable(case):
    row, variables = case.gaps[0], sorted(case.sizes)
    at = int(case.rng.integers(len(variables)))
    v = variables[at]
    joint = [case.root([*row[:at], x, *row[at + 1 :]]) for x in range(case.sizes[v])]
    if not sum(joint):
        return
    evidence = torch.tensor([[*row[:at], -1, *row[at + 1 :]]])
    expected = [log(x / sum(joint)) for x in joint]
    for ask in (lambda: tt.conditional(case.model, evidence, v), lambda: marginals(case.model, evidence)[v]):
        if (found := answered(ask)) is not None:
            close(found[0].tolist(), expected, case.dtype)


@given(case=cases())
def test_samples_and_best_explanations(case):
    row = case.gaps[0]
    if not case.root(row):
        return
    best = log(case.root(row, best=True))
    if (found := answered(lambda: tt.mpe(case.model, torch.tensor([row])))) is not None:
        close(found[1].tolist(), [best], case.dtype)
        close([log(case.root(found[0][0].tolist(), best=True))], [best], case.dtype)
    source = torch.Generator().manual_seed(0)
    if (
        drawn := answered(lambda: tt.sample(case.model, 5, torch.tensor([row]), generator=source))
    ) is not None:
        assert all(case.root(x) for x in drawn.tolist())


@given(case=cases(kinds=("hmm",)))
def test_the_next_token(case):
    prefixes = [row[:-1] for row in case.rows]
    joint = [[case.root([*row, v], last=1) for v in range(case.model.vocab_size)] for row in prefixes]
    possible = [i for i, row in enumerate(joint) if sum(row)]
    if not possible:
        return
    expected = [log(x / sum(joint[i])) for i in possible for x in joint[i]]
    x = torch.tensor([prefixes[i] for i in possible]).long()
    query = NextToken(case.model, case.n + 1, Real()).start(len(x))
    query.resume(x)
    # The rows of an HMM sum to one up to the rounding of its dtype.
    rounding = 8 * torch.finfo(case.dtype).eps
    assert np.allclose(query.scores().flatten().exp(), np.exp(expected), atol=rounding, rtol=1e-3)


@given(case=cases(kinds=("hmm",)))
def test_expected_counts(case):
    """Of the emissions: those of the paths of each row; and a step of EM does not lower the likelihood."""
    rows = [row for row in case.rows if case.root(row)]
    if not rows:
        return
    hmm, x = case.model, torch.tensor(rows)
    found = answered(lambda: expected_counts(hmm, x))
    if found is None:
        return
    counts = found.of(hmm.emission_probs)
    expected = np.zeros(counts.shape)
    for row in rows:
        total = case.root(row, last=1)
        for t, v in enumerate(row):
            for unit in range(hmm.hidden):
                expected[unit, v] += float(case.root(row, last=1, through=(t, unit)) / total)
    np.testing.assert_allclose(counts, expected, rtol=2e-3, atol=1e-4)
    better, before = em_step(hmm, x)
    after = float(tt.log_marginal(better, x).sum())
    assert after >= float(before) - 20 * len(rows) * case.n * torch.finfo(case.dtype).eps - 1e-4


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_oracle_is_the_definition(dtype):
    """A coin of two states, by hand."""
    rows = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=dtype)
    hmm = tt.HMM(rows[0], rows, rows.flip(0))
    # Σ_ij π_i B_i0 A_ij B_j1
    value = sum(
        0.5 * rows.flip(0)[i, 0] * rows[i, j] * rows.flip(0)[j, 1] for i in range(2) for j in range(2)
    )
    assert ExactChain(hmm, 2).root({0: [1, 0], 1: [0, 1]}) == float(value)
