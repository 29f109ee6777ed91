"""The partition function on arrays is the general query: sizes, precisions, ranges, long chains, structure, derivatives."""

from __future__ import annotations

import math

import pytest
import torch

import tractile as tt
from tractile.inference import Log
from tractile.layers import Bernoulli, Categorical, Dense, Gaussian, Identity


def weights(*shape, seed, low=-2, high=2):
    """Positive weights over several orders of magnitude, a fifth of them zero."""
    g = torch.Generator().manual_seed(seed)
    exponents = torch.rand(*shape, generator=g, dtype=torch.float64) * (high - low) + low
    return 10**exponents * (torch.rand(*shape, generator=g) > 0.2)


def chain(states, units, vocab_size, seed):
    """A chain with dense L, R, B and any final weights."""
    return tt.circuits.Chain(
        (weights(states, seed=seed) + 0.01,),
        Dense(weights(states, units, seed=seed + 1)),
        Categorical(weights(units, vocab_size, seed=seed + 2)),
        Dense(weights(units, states, seed=seed + 3)),
        (weights(states, seed=seed + 4) + 0.01,),
    )


def exact(model, n):
    """The general query in log space, float64."""
    return tt.log_marginal(model.to(dtype=torch.float64), None, n=n, semiring=Log())[0]


MODELS = {
    "an HMM": lambda: tt.HMM.random(5, 7, seed=1),
    "two HMMs": lambda: tt.HMM.random(5, 7, seed=1) * tt.HMM.random(3, 7, seed=2),
    "three HMMs": lambda: tt.HMM.random(4, 7, seed=1) * tt.HMM.random(2, 7, seed=2) * tt.HMM.random(3, 7, seed=3),
    "L that is no identity": lambda: chain(3, 5, 7, 0),
    "two such chains": lambda: chain(3, 5, 7, 0) * chain(4, 2, 7, 9),
    "one state": lambda: tt.HMM.random(1, 7) * chain(1, 1, 7, 2),
    "a layer that computes its table": lambda: tt.circuits.Chain(
        (torch.ones(2),), Identity(2), Bernoulli(torch.tensor([0.5, 1.0])), Dense(torch.eye(2)), (torch.ones(2),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_general_query(name, dtype):
    model = MODELS[name]().to(dtype=dtype)
    before = [p.clone() for p in model.parameters()]
    for n in (1, 2, 3, 20):
        found = tt.partition(model, n=n)
        assert found.dtype == torch.float64
        tolerance = {"rtol": 1e-6, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
        torch.testing.assert_close(found, exact(model, n), **tolerance)
    assert all(map(torch.equal, model.parameters(), before))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_chains_whose_message_settles(dtype):
    """A message that repeats, after one step or in turns; lengths on all sides of a whole number of turns."""
    swap = tt.HMM([1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], [[0.9, 0.1], [0.5, 0.5]])
    slow = tt.HMM([1.0, 0.0], [[1 - 1e-4, 1e-4], [1e-4, 1 - 1e-4]], [[0.9, 0.1], [0.8, 0.2]])
    mixing = tt.HMM.random(6, 2, seed=3) * tt.HMM.random(4, 2, seed=4)
    for model in (swap * swap, slow * slow, mixing, swap * mixing):
        model = model.to(dtype=dtype)
        for n in (*range(300, 309), 3000):
            tolerance = {"rtol": 1e-6, "atol": 0} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 0}
            torch.testing.assert_close(tt.partition(model, n=n), exact(model, n), **tolerance)


def scaled(model, what, factor):
    """A chain with one of its parts multiplied by a number, its other parts shared."""
    parts = {name: getattr(model, name) for name in ("initial", "left", "inputs", "right", "final")}
    part = parts[what]
    parts[what] = (
        tuple(v * factor for v in part) if isinstance(part, tuple) else part.map(lambda w: w * factor)
    )
    return tt.circuits.Chain(*parts.values())


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("what", ["initial", "left", "inputs", "right", "final"])
def test_any_size_of_weights(what, factor):
    model = scaled(chain(3, 5, 7, 0), what, factor).to(dtype=torch.float32)
    for twice in (model, model * model):
        for n in (1, 2, 40):
            torch.testing.assert_close(tt.partition(twice, n=n), exact(twice, n), rtol=1e-5, atol=1e-4)


def test_steps_that_nearly_lose_everything():
    swap = torch.tensor([[1e-30, 1.0], [1.0, 1e-30]], dtype=torch.float64)
    model = tt.HMM([1.0, 0.0], swap / swap.sum(1, keepdim=True), torch.eye(2, dtype=torch.float64)).to(
        dtype=torch.float32
    )
    stays = tt.HMM([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], torch.eye(2))
    torch.testing.assert_close(tt.partition(model * stays, n=8), exact(model * stays, 8), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_that_falls_behind_for_long_and_counts_at_the_end(dtype):
    """Two states apart, of weights 1 and ½ a step; the end favours the second by 1e30, or allows it alone."""
    right, both = Dense(torch.tensor([[1.0, 0.0], [0.0, 0.5]])), Categorical(torch.ones(2, 1))
    ends = (torch.ones(2), torch.tensor([1e-30, 1.0]))
    chain = tt.circuits.Chain((ends[0],), Identity(2), both, right, (ends[1],)).to(dtype=dtype)
    for n in (50, 100, 1200):
        expected = math.log(1e-30 + 0.5**n) if n < 1000 else math.log(1e-30)
        torch.testing.assert_close(tt.partition(chain, n=n).item(), expected, rtol=1e-6, atol=0)
    last = torch.tensor([0.0, 1.0])
    only = tt.circuits.Chain((ends[0],), Identity(2), both, right, (last,)).to(dtype=dtype)
    assert tt.partition(only, n=1200).item() == pytest.approx(1200 * math.log(0.5), rel=1e-6)


def test_what_has_no_sequence_is_minus_infinity():
    first, second = (tt.HMM([1.0], [[1.0]], [row]) for row in ([1.0, 0.0], [0.0, 1.0]))
    assert tt.partition(first * second, n=5) == -torch.inf
    end = (torch.ones(1),)
    dies = tt.circuits.Chain(end, Identity(1), first.inputs, Dense(torch.zeros(1, 1)), end)
    assert tt.partition(dies, n=3) == -torch.inf


def test_structure_and_derivatives():
    hmm = tt.HMM.random(4, 3, dtype=torch.float64)
    fa = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 1, 2], 1)], 0, [1], 3)
    real = tt.circuits.Chain(
        (torch.ones(2),),
        Identity(2),
        Gaussian(torch.zeros(2), torch.ones(2)),
        Dense(torch.eye(2)),
        (torch.ones(2),),
    )
    for model in (fa, hmm * fa, tt.HMM.random(4, 3, "monarch"), real):
        torch.testing.assert_close(
            tt.partition(model, n=4), exact(model, 4), rtol=1e-6, atol=1e-6, check_dtype=False
        )
    learned = hmm.map(lambda w: w.clone().requires_grad_())
    (gradient,) = torch.autograd.grad(tt.partition(learned, n=4), [learned.emission_probs])
    assert gradient.abs().sum() > 0
    with torch.no_grad():
        torch.testing.assert_close(tt.partition(learned, n=4), exact(hmm, 4), atol=1e-12, rtol=0)
    with torch.inference_mode():
        torch.testing.assert_close(tt.partition(hmm * hmm, n=4), exact(hmm * hmm, 4))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # by torch.func.jvp
def test_derivatives_of_every_kind():
    hmm = tt.HMM.random(3, 4, dtype=torch.float64)
    weight = hmm.transition.weight

    def value(scale):
        model = tt.circuits.Chain(hmm.initial, hmm.left, hmm.inputs, Dense(weight * scale), hmm.final)
        return tt.partition(model, n=3)

    at = torch.tensor(1.0, dtype=torch.float64)
    three = torch.tensor(3.0, dtype=torch.float64)  # R is used for each of the three tokens
    torch.testing.assert_close(torch.func.grad(value)(at), three)
    torch.testing.assert_close(torch.func.jvp(value, (at,), (at,))[1], three)
    scales = torch.tensor([1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(value)(scales), torch.stack([value(s) for s in scales]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(at, at)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(value(dual)).tangent, three)
