"""Learning: expected counts against enumerated posteriors, EM against Baum–Welch, gradients through torch optimisers."""

import math
import warnings

import numpy as np
import oracle
import pytest
import torch
import zoo
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import assert_log_close
from torch.distributions.transforms import ExpTransform

import tractile as tt
from tractile.circuits import builders
from tractile.circuits.parameters import blocks
from tractile.errors import CircuitError, EvidenceError, ShapeError
from tractile.inference import Evidence, Real, Trainable, em, em_step, expected_counts
from tractile.inference.queries.counts import counts_by_derivatives
from tractile.layers import (
    Bernoulli,
    Categorical,
    Dense,
    Gaussian,
    Hadamard,
    Identity,
    Incidence,
    Indicator,
    Kron,
    Monarch,
    Sum,
)

F64 = torch.float64


@pytest.fixture
def random():
    return builders.RandomParameters(0, F64)


def tokens(rows, n, vocab_size, seed=0, missing=0.0):
    generator = torch.Generator().manual_seed(seed)
    data = torch.randint(vocab_size, (rows, n), generator=generator)
    data[:, 1:2] = torch.where(torch.rand(rows, 1, generator=generator) < 0.7, data[:, :1], data[:, 1:2])
    return data.masked_fill(torch.rand(rows, n, generator=generator) < missing, -1)


def models(random):
    """Every shape of circuit over five variables of three values."""
    inputs = random.categorical(3)
    cp = builders.cp([inputs(v, 4) for v in range(5)], random.rows(4))
    latent = builders.latent_tree(builders.random_tree(5, seed=1), 3, inputs, random)
    tables = [Indicator(3), *(inputs(0, 3) for _ in range(4))]
    return {
        "regions, cp": builders.regions(builders.random_regions(5), inputs, random.rows, 3),
        "regions, tucker": builders.regions(
            ((((0, 1), 2), 3), 4), inputs, random.rows, 2, 3, builders.tucker_join
        ),
        "cp": cp,
        "latent tree": latent,
        "mixture": tt.circuits.mixture(random.rows(2), [cp, latent]),
        "tables": builders.cp(tables, random.rows(3)),
        "hmm": tt.HMM.random(4, 3, dtype=F64),
        "monarch": tt.HMM.random(4, 3, "monarch", dtype=F64),
        "unrolled": tt.HMM.random(4, 3, dtype=F64).unroll(5),
        "factorial": builders.factorial_hmm(
            [random.rows(2), random.rows(3)],
            [Dense(random.rows(2, 2)), Dense(random.rows(3, 3))],
            random.rows(2, 3, 3),
        ),
    }


NAMES = list(models(builders.RandomParameters(0, F64)))


# -------------------------------------------------------------------------------------------------------------- EM


@pytest.mark.parametrize("name", NAMES)
def test_em_never_lowers_the_likelihood(name, random):
    model, data = models(random)[name], tokens(60, 5, 3, missing=0.1)
    fit = em(model, data, epochs=12, tolerance=-1.0)
    steps = np.diff(fit.log_likelihoods)
    assert len(steps) == 11
    assert (steps > -1e-12).all()
    assert fit.log_likelihoods[-1] > fit.log_likelihoods[0] + 0.1
    assert_log_close(tt.partition(fit.model, n=5), 0.0)
    assert type(fit.model) is type(model)


def test_em_on_real_variables(random):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 2, generator=generator, dtype=F64)
    x = torch.cat([0.5 * x[:60] + torch.tensor([2.0, -1.0]), x[60:] - torch.tensor([2.0, 0.0])])
    x[::9, 1] = torch.nan

    def inputs(variable, units):
        means = 2 * torch.randn(units, generator=random.generator, dtype=F64)
        return Gaussian(means, torch.full_like(means, 4.0))

    mixture = builders.cp([inputs(v, 2) for v in range(2)], random.rows(2))
    fit = em(mixture, x, epochs=30, tolerance=-1.0)
    assert (np.diff(fit.log_likelihoods) > -1e-12).all()
    means = sorted(float(m) for m in fit.model.layer(0).mean)
    assert means == [pytest.approx(-2, abs=0.4), pytest.approx(2, abs=0.4)]  # four standard errors
    chain = tt.circuits.Chain(
        (random.rows(2),), Identity(2), inputs(0, 2), Dense(random.rows(2, 2)), (torch.ones(2, dtype=F64),)
    )
    fit = em(chain, x.nan_to_num()[:50], epochs=10, tolerance=-1.0)
    assert (np.diff(fit.log_likelihoods) > -1e-12).all()


def test_gaussian_step_is_the_weighted_moments(random):
    mean, variance, w = (
        torch.tensor([0.0, 1.5], dtype=F64),
        torch.tensor([1.0, 2.0], dtype=F64),
        random.rows(2),
    )
    circuit = builders.cp([Gaussian(mean, variance)], w)
    x = torch.tensor([-0.3, 0.2, 1.9, 4.0], dtype=F64)
    new, _ = em_step(circuit, x[:, None])
    density = (-((x[:, None] - mean) ** 2) / (2 * variance)).exp() / (2 * math.pi * variance).sqrt() * w
    r = density / density.sum(1, keepdim=True)
    centre = (r * x[:, None]).sum(0) / r.sum(0)
    torch.testing.assert_close(new.layer(0).mean, centre)
    torch.testing.assert_close(new.layer(0).variance, (r * (x[:, None] - centre) ** 2).sum(0) / r.sum(0))
    torch.testing.assert_close(new.layer(1).operators[0].weight[0], r.mean(0))


def test_variances_stay_above_their_floor():
    bell = Gaussian(torch.zeros(1, dtype=F64), torch.ones(1, dtype=F64), min_variance=0.01)
    circuit = builders.factorised([bell])
    new = em(circuit, torch.full((5, 1), 3.0, dtype=F64), epochs=3).model
    assert new.layer(0).mean.item() == pytest.approx(3)
    assert new.layer(0).variance.item() == pytest.approx(0.01)


@pytest.mark.parametrize("transition", ["dense", "monarch"])
@pytest.mark.parametrize("pseudocount", [0.0, 0.3])
def test_em_on_an_hmm_is_baum_welch(transition, pseudocount):
    """The forward-backward pass, against derivatives of log p; some tokens are unobserved, some weights zero."""
    hmm, data = tt.HMM.random(4, 5, transition, dtype=F64), tokens(20, 6, 5, missing=0.1)
    emission = hmm.emission_probs.clone()
    emission[1, :2] = emission[3, 4] = 0
    hmm = tt.HMM(hmm.initial_probs, hmm.transition, emission / emission.sum(1, keepdim=True))
    counts, general = expected_counts(hmm, data), counts_by_derivatives(hmm, data)
    assert_log_close(counts.log_likelihood, general.log_likelihood)
    weights = [hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs]
    for weight in weights:
        torch.testing.assert_close(counts.of(weight), general.of(weight))
    new, _ = em_step(hmm, data, pseudocount=pseudocount)
    half, _ = em_step(hmm, data, pseudocount=pseudocount, step=0.5)
    steps = [[m.initial_probs, *m.transition.parameters(), m.emission_probs] for m in (new, half)]
    for weight, after, between in zip(weights, *steps, strict=True):
        expected = general.of(weight) + pseudocount * (weight > 0)
        torch.testing.assert_close(after, expected / expected.sum(-1, keepdim=True))
        torch.testing.assert_close(between, (weight + after) / 2)


def test_factors_that_are_one_tensor():
    """A Monarch transition with one weight in both places: its counts are those of both."""
    weight = torch.rand(2, 2, 2, generator=torch.Generator().manual_seed(0), dtype=F64).softmax(-1)
    random, data = tt.HMM.random(4, 5, dtype=F64), tokens(20, 6, 5)
    hmm = tt.HMM(random.initial_probs, Monarch([weight, weight]), random.emission_probs)
    apart = tt.HMM(random.initial_probs, Monarch([weight, weight.clone()]), random.emission_probs)
    counts = expected_counts(apart, data)
    total = sum(counts.of(w) for w in apart.transition.parameters())
    torch.testing.assert_close(expected_counts(hmm, data).of(weight), total)


def test_counts_of_rows_of_several_lengths_are_those_of_each():
    lengths = torch.tensor([3, 1])
    hmm, x = tt.HMM.random(2, 2, dtype=F64), torch.tensor([[0, 1, 1], [1, 0, 0]])
    whole = expected_counts(hmm, x, lengths)
    parts = [expected_counts(hmm, x[:1]), expected_counts(hmm, x[1:, :1])]
    for p in (hmm.initial_probs, hmm.transition.weight, hmm.emission_probs):
        torch.testing.assert_close(whole.of(p), sum(part.of(p) for part in parts))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_counts_on_random_circuits_are_derivatives(data):
    """Of every weight of a random circuit: d log p / d log θ, by central differences on the enumerated tables."""
    plan = data.draw(zoo.plans())
    circuit = plan.build()
    evidence, weights = data.draw(oracle.evidence(circuit.vocab_sizes()))
    assume((oracle.sums(plan.table("total"), weights) > 1e-9).all())
    counts = expected_counts(circuit, evidence)

    def log_likelihood(node, k, index, factor):
        layer, what, children, dims = plan.nodes[node]
        arrays = list(what) if isinstance(layer, Sum) else [what[1]]
        arrays[k] = arrays[k].copy()
        arrays[k][index] *= factor
        changed = list(plan.nodes)
        changed[node] = (layer, arrays if isinstance(layer, Sum) else (what[0], arrays[0]), children, dims)
        return np.log(oracle.sums(zoo.Zoo(plan.sizes, nodes=changed).table("total"), weights)).sum()

    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    for node in circuit.nodes():
        for k, weight in enumerate(circuit.layer(node).parameters()):
            index = tuple(int(rng.integers(d)) for d in weight.shape)
            ends = [log_likelihood(node, k, index, 1 + e) for e in (-1e-4, 1e-4)]
            assert counts.of(weight)[index].item() == pytest.approx((ends[1] - ends[0]) / 2e-4, abs=1e-5)


def test_counts_of_a_table_from_fewer_parameters(random):
    layers = [Bernoulli(random.rows(2, 2)[:, 1]), Bernoulli(random.rows(2, 2)[:, 1])]
    circuit = builders.cp(layers, random.rows(2))
    data = torch.tensor([[0, 1], [1, 1], [1, 0]])
    counts, same = (
        expected_counts(circuit, data),
        builders.cp([Categorical(la.weight) for la in layers], circuit.layer(3).operators[0].weight[0]),
    )
    expected = expected_counts(same, data)
    for i, layer in enumerate(layers):
        torch.testing.assert_close(counts.of(layer.probs), expected.of(same.layer(i).weight))
    new, _ = em_step(circuit, data)
    c = [counts.of(layer.probs) for layer in layers]
    for i in range(2):
        torch.testing.assert_close(new.layer(i).probs, c[i][:, 1] / c[i].sum(1))
    with pytest.raises(CircuitError, match="no parameter"):
        counts.of(torch.ones(1))


def test_a_sum_over_several_children_is_normalised_jointly(random):
    """Brute force: the two weights of a mixture are the mean posteriors of its components."""
    w = torch.tensor([0.3, 0.7], dtype=F64)
    parts = [random.categorical(3)(0, 1) for _ in range(2)]
    circuit = tt.Circuit()
    nodes = [circuit.input(layer, 0) for layer in parts]
    circuit.sum(Sum(Dense(w[None, :1].clone()), Dense(w[None, 1:].clone())), *nodes)
    data = torch.tensor([[0], [0], [2], [1]])
    new, _ = em_step(circuit, data)
    joint = torch.stack([w[k] * parts[k].weight[0, data[:, 0]] for k in range(2)])
    torch.testing.assert_close(
        torch.cat([op.weight[0] for op in new.layer(2).operators]), (joint / joint.sum(0)).mean(1)
    )
    mixed = tt.Circuit()
    nodes = [mixed.input(random.categorical(3)(0, 2), 0) for _ in range(2)]
    mixed.sum(Sum(Dense(random.rows(1, 2))), mixed.sum(Sum(Dense(w.diag()), Dense((1 - w).diag())), *nodes))
    new = em_step(mixed, data)[0]
    first, second = (op.weight for op in new.layer(2).operators)
    torch.testing.assert_close(first + second, torch.eye(2, dtype=F64))
    assert_log_close(tt.partition(new), 0.0)


def test_tied_parameters_add_up(random):
    """One transition used twice: its counts and its gradient are the sums over its two uses, and it stays one."""
    shared = random.rows(2, 2)
    layers = [random.categorical(3)(0, 2) for _ in range(3)]
    pi = random.rows(2)
    tied = builders.hmm_circuit(pi, [Dense(shared), Dense(shared)], layers)
    apart = [shared.clone(), shared.clone()]
    untied = builders.hmm_circuit(pi, [Dense(w) for w in apart], layers)
    data = tokens(10, 3, 3)
    total = sum(expected_counts(untied, data).of(w) for w in apart)
    torch.testing.assert_close(expected_counts(tied, data).of(shared), total)
    new, _ = em_step(tied, data)
    assert len(new.parameters()) == len(tied.parameters())
    transition = [w for w in new.parameters() if w.shape == (2, 2)]
    torch.testing.assert_close(transition[0], total / total.sum(1, keepdim=True))

    free, others = Trainable(tied), Trainable(untied)
    assert others.num_parameters == free.num_parameters + 4
    for trainable in (free, others):
        tt.log_marginal(trainable(), data).sum().backward()
    gradient = next(raw.grad for raw in free.raw if raw.shape == (2, 2))
    torch.testing.assert_close(gradient, sum(raw.grad for raw in others.raw if raw.shape == (2, 2)))


def test_tied_in_two_ways_is_refused():
    w = torch.ones(1, 2, dtype=F64) / 2
    circuit = tt.Circuit()
    a, b = (circuit.input(Indicator(2), 0) for _ in range(2))
    circuit.sum(Sum(Dense(w), Dense(w)), a, b)
    with pytest.raises(CircuitError, match="tied"):
        blocks(circuit)


def test_mini_batches_and_stochastic_steps(random):
    model, data = models(random)["latent tree"], tokens(200, 5, 3)
    before = float(tt.log_marginal(model, data).mean())
    full = em(model, data, epochs=30).log_likelihoods[-1]
    for options in ({"batch_size": 40, "step": 0.3}, {"batch_size": 10, "step": lambda t: (t + 2) ** -0.6}):
        fit = em(model, data, epochs=6, pseudocount=0.01, **options)
        after = float(tt.log_marginal(fit.model, data).mean())
        assert after > before + 0.6 * (full - before)
        assert len(fit.log_likelihoods) == 6
        again = em(model, data, epochs=6, pseudocount=0.01, **options)
        assert fit.log_likelihoods == again.log_likelihoods


def test_rows_of_different_lengths():
    hmm, data = tt.HMM.random(3, 4, dtype=F64), tokens(40, 6, 4)
    lengths = torch.randint(1, 7, (40,), generator=torch.Generator().manual_seed(3))
    fit = em(hmm, data, epochs=5, lengths=lengths, tolerance=-1.0)
    assert (np.diff(fit.log_likelihoods) > -1e-12).all()
    assert fit.log_likelihoods[0] == pytest.approx(tt.log_marginal(hmm, data, lengths=lengths).mean().item())
    batches = em(hmm, data, epochs=5, lengths=lengths, batch_size=20, step=0.5)
    assert (
        tt.log_marginal(batches.model, data, lengths=lengths).sum()
        > tt.log_marginal(hmm, data, lengths=lengths).sum()
    )


def test_em_stops_when_it_gains_nothing(random):
    data = tokens(50, 2, 3)
    fit = em(builders.factorised([random.categorical(3)(v, 1) for v in range(2)]), data, epochs=50)
    assert len(fit.log_likelihoods) == 3  # one step solves it
    frequencies = torch.bincount(data[:, 0], minlength=3) / 50
    torch.testing.assert_close(fit.model.layer(0).weight[0], frequencies.double())


def test_pseudocounts_keep_weights_positive_and_zeros_zero():
    weight = torch.tensor([[0.5, 0.5, 0.0]], dtype=F64)
    circuit, data = builders.factorised([Categorical(weight)]), torch.zeros(4, 1, dtype=torch.long)
    assert em_step(circuit, data)[0].layer(0).weight.tolist() == [[1, 0, 0]]
    assert em_step(circuit, data, pseudocount=1.0)[0].layer(0).weight.tolist() == [[5 / 6, 1 / 6, 0]]
    coin = builders.factorised([Bernoulli(torch.tensor([0.5], dtype=F64))])
    assert em_step(coin, data, pseudocount=1.0)[0].layer(0).probs.tolist() == [pytest.approx(1 / 6)]
    normal = builders.factorised([Gaussian(torch.zeros(1, dtype=F64), torch.ones(1, dtype=F64))])
    new = em_step(normal, torch.full((3, 1), 2.0, dtype=F64), pseudocount=1.0)[0].layer(0)
    assert new.mean.item() == pytest.approx(1.5)  # three rows at 2, one spread as N(0, 1)
    assert new.variance.item() == pytest.approx((3 * 4 + 1) / 4 - 1.5**2)


def test_what_em_cannot_fit_says_so(random):
    impossible = builders.factorised([Categorical(torch.tensor([[1.0, 0.0]]))])
    with pytest.raises(EvidenceError, match="row 1"):
        em_step(impossible, torch.tensor([[0], [1]]))
    one, other = (models(random)["cp"] for _ in range(2))
    with pytest.raises(CircuitError, match="no closed-form"):
        em_step(one * other, tokens(2, 5, 3))
    with pytest.raises(CircuitError, match="tied"):
        em_step(one * one, tokens(2, 5, 3))
    automaton = tt.Automaton.from_edges([(0, 0, 1), (1, 1, 0)], 0, [1], 3)
    with pytest.raises(CircuitError, match="final weights"):
        em_step(tt.HMM.random(2, 3) * automaton, torch.zeros(1, 1, dtype=torch.long))
    circuit = tt.Circuit()
    nodes = [circuit.product(Hadamard(), circuit.input(random.categorical(2)(0, 4), 0)) for _ in range(2)]
    kron = Kron(Dense(random.rows(1, 2)), Dense(random.rows(1, 2)))
    with pytest.raises(ShapeError):
        circuit.sum(Sum(kron, kron), *nodes)
    fixed = Incidence(torch.tensor([0]), torch.tensor([1]), (1, 4))
    circuit.sum(Sum(Dense(random.rows(1, 4)), fixed), *nodes)
    with pytest.raises(CircuitError, match="no weights that can be fitted"):
        em_step(circuit, torch.zeros(1, 1, dtype=torch.long))


# ------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("name", NAMES)
def test_trainable_starts_at_the_model_and_improves(name, random):
    model, data = models(random)[name], tokens(40, 5, 3)
    trainable = Trainable(model)
    before = tt.log_marginal(model, data).mean()
    assert_log_close(tt.log_marginal(trainable(), data).detach().mean(), before)
    optimiser = torch.optim.Adam(trainable.parameters(), lr=0.1)
    for _ in range(8):
        loss = -tt.log_marginal(trainable(), data).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = trainable()
    assert tt.log_marginal(after, data).mean() > before + 0.05
    assert_log_close(tt.partition(after, n=5).detach(), 0.0)
    assert type(after) is type(model)


def test_trainable_of_real_variables_keeps_variances_positive(random):
    layers = [Gaussian(torch.tensor([0.0, 1.0 + v], dtype=F64), torch.ones(2, dtype=F64)) for v in range(2)]
    trainable = Trainable(builders.cp(layers, random.rows(2)))
    data = torch.full((4, 2), 50.0, dtype=F64)
    optimiser = torch.optim.Adam(trainable.parameters(), lr=0.5)
    first = -tt.log_marginal(trainable(), data).mean()
    for _ in range(5):
        loss = -tt.log_marginal(trainable(), data).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.5 * first
    assert_log_close(tt.partition(trainable()).detach(), 0.0)


def test_weights_that_are_not_normalised(random):
    """A Tucker decomposition is fitted as p / Z."""
    train = builders.tucker([random.categorical(3)(v, 2) for v in range(3)], random.rows(2, 2, 2))
    trainable, data = Trainable(train, ExpTransform()), tokens(50, 3, 3)

    def loss():
        model = trainable()
        return tt.partition(model) - tt.log_marginal(model, data).mean()

    optimiser = torch.optim.Adam(trainable.parameters(), lr=0.05)
    start = loss()
    assert_log_close(start.detach(), tt.partition(train) - tt.log_marginal(train, data).mean())
    for _ in range(20):
        value = loss()
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    assert loss() < start - 0.1
    assert all(bool((p >= 0).all()) for p in trainable().parameters())


def test_loading_a_model_of_another_structure_changes_nothing():
    """A copy that is broadcast, or stops half-way, would train another model."""
    trainable, other = Trainable(tt.HMM.random(3, 4, dtype=F64)), tt.HMM.random(3, 4, seed=1, dtype=F64)
    trainable.load(other)
    assert torch.allclose(trainable().emission_probs, other.emission_probs)
    one_state = tt.HMM([1.0], [[1.0]], [[0.25] * 4])
    for wrong in (one_state, tt.HMM.random(4, 4), tt.HMM.random(4, 4, "monarch")):
        with pytest.raises(ShapeError, match="equal structure"):
            trainable.load(wrong)
    assert torch.allclose(trainable().emission_probs, other.emission_probs)


@pytest.mark.parametrize("rows", [None, ExpTransform()])
def test_weights_of_zero_stay_zero_under_weight_decay(rows):
    hmm = tt.HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], [[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
    model = hmm if rows is None else hmm.unroll(3)
    trainable = Trainable(model, rows)
    before = trainable()
    optimiser = torch.optim.Adam(trainable.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        (-tt.log_marginal(trainable(), torch.tensor([[0, 1, 2]]))).sum().backward()
        optimiser.step()
    for old, new in zip(model.parameters(), trainable().parameters(), strict=True):
        assert bool(new.isfinite().all())
        assert torch.equal(old == 0, new == 0)
    trainable.load(before)
    for old, new in zip(before.parameters(), trainable().parameters(), strict=True):
        torch.testing.assert_close(old, new)
    with pytest.raises(CircuitError, match="zero throughout"):
        Trainable(builders.cp([Categorical(torch.ones(2, 2))], torch.zeros(2)))


def test_parameters_from_a_neural_network(random):
    """p(x | c): the network says the parameters of each row's circuit, one circuit at a time or all by vmap."""
    circuit = builders.latent_tree(builders.random_tree(3), 2, random.categorical(2), random)
    trainable = Trainable(circuit)
    network = torch.nn.Linear(1, trainable.num_parameters, dtype=F64)
    context = torch.tensor([[-1.0], [1.0]] * 10, dtype=F64)
    data = ((context > 0).long() + torch.zeros(20, 3)).long()

    def log_prob(vector, x):
        evidence = Evidence(1)
        evidence.tokens = {v: x[v : v + 1] for v in range(3)}
        return tt.log_marginal(trainable.from_vector(vector), evidence, semiring=Real())[0]

    optimiser = torch.optim.Adam(network.parameters(), lr=0.2)
    losses = []
    for _ in range(10):
        loss = -torch.stack(
            [
                tt.log_marginal(trainable.from_vector(v), x)[0]
                for v, x in zip(network(context), data, strict=True)
            ]
        ).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    vectors = network(context).detach()
    one_by_one = torch.stack([log_prob(v, x) for v, x in zip(vectors, data, strict=True)])
    torch.testing.assert_close(vmapped(log_prob)(vectors, data), one_by_one)
    with pytest.raises(ShapeError, match="parameters are needed"):
        trainable.from_vector(vectors[0, 1:])


def vmapped(fn):
    def call(*args):
        # some integer operations have no batching rule in torch: slower, not wrong
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return torch.func.vmap(fn)(*args)

    return call


@pytest.mark.parametrize("kind", ["hmm", "chain", "circuit"])
def test_counts_of_a_weight_below_the_normal_range(kind):
    """The only path begins in a state of probability 10⁻⁴⁰; the derivative by this weight leaves float32."""
    initial, emission = torch.tensor([1.0, 1e-40]), torch.eye(2)
    hmm, data = tt.HMM(initial, torch.eye(2), emission), torch.tensor([[1, 1]])
    chain = tt.circuits.Chain(hmm.initial, hmm.left, hmm.inputs, hmm.right, hmm.final)
    model = {"hmm": hmm, "chain": chain, "circuit": builders.cp([Categorical(emission)] * 2, initial)}[kind]
    counts, (new, _) = expected_counts(model, data), em_step(model, data)
    weights = model.layer(model.root).operators[0].weight if kind == "circuit" else initial
    torch.testing.assert_close(counts.of(weights).flatten(), torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(counts.of(emission), torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    after = new.layer(new.root).operators[0].weight if kind == "circuit" else new.initial[0]
    torch.testing.assert_close(after.flatten(), torch.tensor([0.0, 1.0]))
    assert all(weight.dtype == torch.float32 for weight in new.parameters())


def test_a_step_where_products_of_weights_leave_the_range_of_float64():
    e = 1e-200
    rows = torch.tensor([[1 - e, e], [e, 1 - e]], dtype=torch.float64)
    hmm = tt.HMM(torch.tensor([0.5, 0.5], dtype=torch.float64), rows, rows.clone())
    better, log_likelihood = tt.inference.em_step(hmm, torch.tensor([[0, 1, 1]]))
    # ½ e each: from state 0 to 1 after the first token, or in state 1 throughout, surprised by it.
    assert log_likelihood.item() == pytest.approx(math.log(e))
    torch.testing.assert_close(better.initial_probs, hmm.initial_probs)
    torch.testing.assert_close(better.transition.weight, torch.tensor([[0.0, 1], [0, 1]]).double())
    torch.testing.assert_close(better.emission_probs, torch.tensor([[1.0, 0], [0.2, 0.8]]).double())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": torch.zeros(0, 3).long()}, "at least one row"),
        ({"data": torch.tensor([1, 1, 0])}, r"not of shape \(3,\); give data\[None\]"),
        ({"data": [[1, 1], [0]]}, "rows must be equally long"),
        ({"data": "101"}, "data is a tensor of rows"),
        ({"data": torch.ones(3, 2)}, "of weights"),
        ({"batch_size": 0}, "em: batch_size must be a whole number, 1 or more"),
        ({"epochs": -1}, "em: epochs"),
        ({"tolerance": math.nan}, "em: tolerance"),
        ({"pseudocount": -1}, "em: pseudocount must be a number, 0 or more"),
        ({"pseudocount": math.nan}, "em: pseudocount"),
        ({"pseudocount": math.inf}, "em: pseudocount must be finite"),
        ({"step": 1.5}, "em: step must be between 0 and 1"),
        ({"step": lambda done: math.nan}, "em: step"),
        ({"lengths": torch.tensor([1, 2])}, "em: lengths of shape"),
        ({"data": torch.tensor([[0, 5]])}, "in 0 … 1"),
    ],
)
def test_what_em_cannot_use_is_refused(arguments, message):
    coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    with pytest.raises(EvidenceError, match=message):
        tt.inference.em(coin, **{"data": torch.tensor([[1, 1, 0]]), **arguments})


def test_em_takes_lists_and_arrays():
    coin, rows = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]]), [[1, 1, 0]]
    fits = [tt.inference.em(coin, given) for given in (rows, np.array(rows), torch.tensor(rows))]
    for fit in fits:
        torch.testing.assert_close(fit.model.emission_probs, torch.tensor([[1 / 3, 2 / 3]]))
        assert fit.log_likelihoods == fits[0].log_likelihoods


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_counts_in_16_bits_may_be_large(dtype):
    coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]]).to(dtype=dtype)
    counts = tt.inference.expected_counts(coin, torch.tensor([[1, 1, 0]] * 30_000))
    assert counts.of(coin.emission_probs).tolist() == [[30_000.0, 60_000.0]]
