"""The classes of the page on extending (docs/howto/extend.md), and a density of one's own, against enumeration.

Each is a class (or a function) and, to be saved, one call of ``register``: nothing in the package is touched.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from extensions import page
from oracle import assert_log_close, log
from scipy import stats
from torch.distributions import constraints

import tractile as tt
from tractile.circuits.io import file_format as serialize
from tractile.errors import CircuitError, FormatError
from tractile.inference import is_deterministic
from tractile.layers import Categorical, Continuous, Dense, Hadamard, Indicator, Leaf, Sum
from tractile.layers.dense_tensor import DenseTensor

F64 = torch.float64


def tensor(array):
    return torch.tensor(np.asarray(array), dtype=F64)


class Logits(Leaf):
    """A matrix whose rows are the softmax of scores; several of one shape are contracted at once."""

    stacks = True

    def __init__(self, scores, axis=1):
        self.scores, self.axis = scores, axis
        (self.row_dims, self.col_dims) = ((n,) for n in scores.shape)

    @property
    def weight(self):
        return self.scores.softmax(self.axis)

    @property
    def T(self):
        return Logits(self.scores.T, 1 - self.axis)

    def factors(self, row, col):
        return [(self.weight, (row[0], col[0]))]

    def map(self, fn):
        return Logits(fn(self.scores), self.axis)

    def parameters(self):
        return [self.scores]

    def dense(self):
        return self.weight


class Exponential(Continuous):
    """Exponential distributions with these rates, over x ≥ 0."""

    def __init__(self, rate):
        self.rate, self.unit_dims = rate, tuple(rate.shape)

    def log_density(self, values):
        density = self.rate.log()[..., None] - self.rate[..., None] * values.to(self.rate)
        return density.masked_fill(values < 0, -torch.inf)

    def log_mass(self):
        return torch.zeros_like(self.rate)

    def log_peak(self):
        return self.rate.log()

    def draw(self, unit, generator=None):
        u = torch.rand(unit.shape, dtype=self.rate.dtype, generator=generator)
        return -torch.log1p(-u) / self.rate.flatten()[unit]

    def mode(self, unit):
        return torch.zeros_like(self.rate.flatten()[unit])

    def map(self, fn):
        return Exponential(fn(self.rate))

    def parameters(self):
        return [self.rate]

    def constraints(self):
        return [constraints.positive]


@pytest.fixture(autouse=True)
def double_precision_and_formats():
    """The page's default precision, and a file format for each class."""
    torch.set_default_dtype(F64)
    known = dict(serialize.TYPES)
    serialize.register(page.Poisson, lambda layer: (layer.rate, layer.vocab_size))
    serialize.register(page.LowRank, lambda operator: (operator.u, operator.v))
    serialize.register(page.PairedUnits, lambda layer: ())
    serialize.register(Exponential, lambda layer: (layer.rate,))
    yield
    torch.set_default_dtype(torch.float32)
    serialize.TYPES.clear()
    serialize.TYPES.update(known)


# -------------------------------------------------------------------------------------------- a circuit of all of them

RNG = np.random.default_rng(0)
RATE, EMISSION = RNG.random(3) * 2 + 0.3, RNG.dirichlet([1, 1], 4)
U, V = RNG.dirichlet([1, 1], 4), RNG.dirichlet([1, 1, 1], 2)
OTHER, SPREAD, ROOT = RNG.dirichlet([1, 1, 1], 3), RNG.random((6, 3)), RNG.dirichlet(np.ones(12))
SIZES = (4, 2, 3)


def poisson_table():
    """As scipy has it, cut off at four values."""
    b = stats.poisson.pmf(np.arange(4), RATE[:, None])
    return b / b.sum(1, keepdims=True)


def circuit():
    """Σ_kij root[k, i, j] a[k, i] b[k, j]: (2, 2) units over x_0, through the low rank, and x_1; (2, 3) over x_1 and x_2."""
    c = tt.Circuit()
    counts = c.sum(Sum(page.LowRank(tensor(U), tensor(V))), c.input(page.Poisson(tensor(RATE), 4), 0))
    a = c.product(Hadamard(), counts, c.input(Categorical(tensor(EMISSION)), 1))
    pairs = c.sum(Sum(Dense(tensor(np.eye(4)))), a)
    first = c.sum(Sum(_split(4)), pairs)
    second = c.sum(Sum(_split(6)), c.sum(Sum(Dense(tensor(SPREAD))), c.input(Categorical(tensor(OTHER)), 2)))
    c.sum(Sum(Dense(tensor(ROOT[None]))), c.product(page.PairedUnits(), first, second))
    return c


def _split(size):
    """One axis of ``size`` units written as (2, size / 2)."""
    return DenseTensor(torch.eye(size, dtype=F64).view(2, size // 2, size), 2)


def paths():
    """The path weights of :func:`circuit`: latent axes first (k, i, r, s, j, t), then x_0, x_1, x_2."""
    left = np.einsum("ar,rs,sx,ay->arsxy", U, V, poisson_table(), EMISSION).reshape(2, 2, 2, 3, 4, 2)
    right = np.einsum("bt,tz->btz", SPREAD, OTHER).reshape(2, 3, 3, 3)
    every = np.einsum("kij,kirsxy,kjtz->kirsjtxyz", ROOT.reshape(2, 2, 3), left, right)
    return every.reshape(-1, *SIZES)


def test_every_query():
    c, table = circuit(), paths().sum(0)
    p = table / table.sum()
    assert_log_close(tt.conditional(c, None, (2, 0))[0], log(p.sum(1).T))
    assert_log_close(tt.conditional(c, {2: 1}, 0)[0], log(p[..., 1].sum(1) / p[..., 1].sum()))
    soft = np.array([0.2, 1.0, 0.0, 3.0])
    weighed = p * soft[:, None, None]
    assert_log_close(
        tt.inference.marginals(c, {0: tensor(soft)})[1][0], log(weighed.sum((0, 2)) / weighed.sum()), 1e-9
    )
    x, score = tt.mpe(c)
    assert_log_close(score[0], log(paths().max()))
    assert paths().max(0)[tuple(x[0].tolist())] == paths().max()
    found, scores = tt.inference.k_best(c, 5)
    assert_log_close(scores, np.sort(log(paths().max(0)).flatten())[::-1][:5])
    assert len(found) == 5
    assert tt.count(c, paths=True) == (paths() > 0).sum()
    samples = tt.sample(c, 3000, generator=torch.Generator().manual_seed(0)).numpy()
    counts = np.bincount(np.ravel_multi_index(samples.T, SIZES), minlength=p.size)
    assert stats.chisquare(counts, 3000 * p.flatten()).pvalue > 1e-4  # a fresh seed fails once in 10,000
    assert not is_deterministic(c)


def test_operations_and_files(tmp_path):
    c, table = circuit(), paths().sum(0)
    rows = torch.tensor(list(itertools.product(*map(range, SIZES))))

    def same(result, expected, rows=rows):
        assert_log_close(tt.log_marginal(result, rows), log(expected.flatten()), 1e-9)

    same(c * c, table**2)
    same(tt.circuits.mixture([0.5, 0.5], [c, c * c]), (table + table**2) / 2)
    same(tt.inference.normalise(c), table / table.sum())
    same(tt.inference.prune(c), table)
    same(
        tt.circuits.marginalise(c, [1]),
        table.sum(1),
        torch.tensor(list(itertools.product(range(4), range(3)))),
    )
    c.save(tmp_path)
    same(tt.load(tmp_path), table)


def test_gradients_and_learning():
    c = circuit()
    old = c.parameters()

    def log_p(*new):
        known = dict(zip(map(id, old), new, strict=True))
        return tt.log_marginal(c.map(lambda t: known.get(id(t), t)), torch.tensor([[1, 0, 2], [3, -1, -1]]))

    # finite differences at zero would ask for a negative weight
    positive = [(p + 0.01).requires_grad_() for p in old]
    assert torch.autograd.gradcheck(log_p, positive, fast_mode=True)
    data = torch.tensor([[0, 1, 2], [1, 1, 2], [0, 1, 1], [0, 0, 2]])
    trainable = tt.inference.Trainable(c)
    optimiser = torch.optim.Adam(trainable.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        model = trainable()
        loss = tt.partition(model) - tt.log_marginal(model, data).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5


def test_an_hmm_with_a_transition_of_your_own(tmp_path):
    """EM, products with automata, P-GCD and files: a low-rank HMM is an HMM."""
    rng = np.random.default_rng(1)
    initial, emission = tensor(rng.dirichlet(np.ones(4))), tensor(rng.dirichlet(np.ones(3), 4))
    u, v = tensor(rng.dirichlet(np.ones(2), 4)), tensor(rng.dirichlet(np.ones(4), 2))
    low, full = tt.HMM(initial, page.LowRank(u, v), emission), tt.HMM(initial, u @ v, emission)
    fa = tt.Automaton.from_edges([(0, [0, 2], 0), (0, 1, 1), (1, [0, 1], 1)], 0, [1], vocab_size=3)
    tokens = torch.tensor(list(itertools.product(range(3), repeat=3)))
    for a, b in ((low, full), (low * fa, full * fa), (low.unroll(3), full.unroll(3))):
        length = {} if isinstance(a, tt.Circuit) else {"n": 3}
        assert_log_close(tt.log_marginal(a, tokens), tt.log_marginal(b, tokens))
        assert_log_close(tt.conditional(a, {1: 1}, 2, **length), tt.conditional(b, {1: 1}, 2, **length))
    ours, theirs = (tt.pgcd(hmm, fa, horizon=3).start(2) for hmm in (low, full))
    assert_log_close(ours.scores(), theirs.scores(), 1e-6)
    assert_log_close(tt.entropy(low, n=3, joint=True), tt.entropy(full, n=3, joint=True))
    fitted = tt.inference.em(low, tokens[:9], epochs=5)
    assert np.all(np.diff(fitted.log_likelihoods) > 0)
    assert isinstance(fitted.model.transition, page.LowRank)
    low.save(tmp_path)
    again = tt.load(tmp_path)
    assert isinstance(again, tt.HMM)
    assert_log_close(tt.log_marginal(again, tokens), tt.log_marginal(low, tokens))


def test_a_deterministic_circuit_with_sums_in_an_operator():
    """Its entropy is that of x, not of x and the units between."""
    c = tt.Circuit()
    v = tensor([[0.4, 0.0, 0.6, 0.0], [0.1, 0.2, 0.3, 0.4]])
    values = c.sum(Sum(page.LowRank(tensor([[0.5, 0.5]]), v)), c.input(Indicator(4), 0))
    c.sum(Sum(Dense(tensor([[1.0]]))), values)
    p = (v.sum(0) / 2).numpy()
    assert is_deterministic(c)
    assert_log_close(tt.entropy(c), -(p * np.log(p)).sum())
    assert_log_close(tt.inference.kl_divergence(c, c), 0.0)


def test_a_density_of_your_own(tmp_path):
    rate, w = np.array([0.5, 3.0]), np.array([0.3, 0.7])
    c = tt.Circuit()
    x = c.input(Exponential(tensor(rate)), 0)
    y = c.input(Categorical(tensor([[0.9, 0.1], [0.2, 0.8]])), 1)
    c.sum(Sum(Dense(tensor(w[None]))), c.product(Hadamard(), x, y))
    c.save(tmp_path)
    for model in (c, tt.load(tmp_path), tt.inference.normalise(c), tt.inference.prune(c)):
        joint = w[0] * 0.5 * math.exp(-0.5) * 0.1 + w[1] * 3 * math.exp(-3) * 0.8
        assert_log_close(tt.log_marginal(model, {0: 1.0, 1: 1})[0], log(joint))
        assert_log_close(tt.log_marginal(model, {1: 1})[0], log(w @ [0.1, 0.8]))
    assert tt.log_marginal(c, {0: -1.0}).item() == -math.inf
    samples = tt.sample(c, 2000, {1: 1}, generator=torch.Generator().manual_seed(0))[:, 0].numpy()
    posterior = w * [0.1, 0.8] / (w @ [0.1, 0.8])
    cdf = stats.kstest(samples, lambda t: posterior @ -np.expm1(-rate[:, None] * t))
    assert cdf.pvalue > 1e-3  # a fresh seed fails once in 1,000
    values, score = tt.mpe(c)
    assert values[0].tolist() == [0.0, 1.0]
    assert_log_close(score[0], log(w[1] * 3 * 0.8))
    with pytest.raises(CircuitError, match=r"Exponential.*times\(\)"):
        tt.multiply(c, c)


# ------------------------------------------------------------------------------------------- the semiring, the queries


def test_a_semiring_of_your_own():
    """The entropy of (x, latent states) given evidence, in one sweep: circuits and chains."""
    weights = paths()
    soft = np.array([0.2, 1.0, 0.0, 3.0])
    for evidence, left in (
        (None, weights),
        ({1: 1}, weights[:, :, 1]),
        ({0: tensor(soft), 2: {0, 2}}, (weights * soft[:, None, None])[..., [0, 2]]),
    ):
        p = left[left > 0] / left.sum()
        actual = tt.log_marginal(circuit(), evidence, semiring=page.PathEntropy())
        assert_log_close(actual[0], -(p * np.log(p)).sum())
    hmm = tt.HMM.random(3, 4, dtype=F64)
    fa = tt.Automaton.from_edges([(0, [0, 2], 0), (0, 1, 1), (1, [0, 3], 1)], 0, [1], vocab_size=4)
    for chain in (hmm, hmm * fa):
        expected = tt.entropy(chain, n=5, joint=True)
        assert_log_close(tt.partition(chain, n=5, semiring=page.PathEntropy()), expected)
        rows = torch.tensor([[-1, 1, -1, 0, -1], [-1] * 5])
        each = tt.log_marginal(chain, rows, semiring=page.PathEntropy())
        posterior = tt.inference.condition(chain.unroll(5), {1: 1, 3: 0})
        query = tt.NextToken(chain, 3, page.PathEntropy())
        query.resume(torch.tensor([[1]]), 3)
        after = tt.inference.condition(chain.unroll(3), {0: 1, 1: 0})
        assert_log_close(query.log_weights()[0, 0], tt.entropy(after, joint=True))
        assert_log_close(each, [tt.entropy(posterior, joint=True), expected])


def test_queries_of_your_own():
    hmm = tt.HMM.random(2, 3, dtype=F64)
    model, rows = hmm.unroll(3), torch.tensor(list(itertools.product(range(3), repeat=3)))
    q = tt.log_marginal(model, rows).exp().view(3, 3, 3)
    assert_log_close(page.agree(model, 0, 2)[0], torch.einsum("iji->", q))
    given = q[:, 1].diagonal().sum() / q[:, 1].sum()
    assert_log_close(page.agree(model, 0, 2, {1: 1})[0], given)
    times = (rows == 2).sum(1).view(3, 3, 3)
    for chain, length in ((hmm, {"n": 3}), (model, {})):
        assert_log_close(page.occurrences(chain, 2, **length)[0], (q * times).sum())
    assert_log_close(page.occurrences(model, 2, {0: 2})[0], (q * times)[2].sum() / q[2].sum())


def test_two_classes_of_one_name_cannot_both_be_saved():
    with pytest.raises(FormatError, match="named Dense"):
        serialize.register(type("Dense", (page.LowRank,), {}), lambda operator: (operator.u, operator.v))


def test_operators_that_stack_are_as_right_as_the_librarys():
    """Two mixtures by operators of one's own, side by side: against the same circuit of dense layers."""
    g = torch.Generator().manual_seed(0)
    tables = [Categorical(torch.rand(3, 4, generator=g, dtype=F64)) for _ in range(4)]
    maps = [Logits(torch.randn(2, 3, generator=g, dtype=F64)) for _ in range(2)]
    top = Dense(torch.rand(1, 2, generator=g, dtype=F64))

    def circuit(operators):
        c = tt.Circuit()
        inputs = [c.input(table, v) for v, table in enumerate(tables)]
        pairs = [c.product(Hadamard(), *inputs[i : i + 2]) for i in (0, 2)]
        sums = [c.sum(Sum(op), node) for op, node in zip(operators, pairs, strict=True)]
        c.sum(Sum(top), c.product(Hadamard(), *sums))
        return c

    mine, theirs = circuit(maps), circuit([Dense(op.weight) for op in maps])
    every = torch.cartesian_prod(*[torch.arange(4)] * 4)
    assert_log_close(tt.log_marginal(mine, every), tt.log_marginal(theirs, every))
    assert torch.equal(tt.mpe(mine)[0], tt.mpe(theirs)[0])
