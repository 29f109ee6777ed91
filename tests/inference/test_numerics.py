"""Nothing is 0, inf or nan where the true logarithm is finite: long sequences, large vocabularies, many states, rare tokens.

References are computed here in float64, each column of a message divided by its maximum whose logarithm is kept.
"""

import math

import numpy as np
import oracle
import pytest
import torch
from oracle import assert_log_close

import tractile as tt
from tractile.inference import Log, Real

# ------------------------------------------------------------- a large HMM and an automaton of tokens in a given order


class InOrder:
    """An HMM and the automaton that must see ``states − 1`` rare tokens in order; state s waits for token s.

    The reference is a backward recursion over (hidden, state) columns: from state s with its token to s + 1, with
    any other token to s itself.
    """

    def __init__(self, hidden, vocab_size, states, rarity=1e-7):
        rng = np.random.default_rng(0)
        initial, transition, emission = (
            oracle.rows(rng, *s) for s in ((hidden,), (hidden, hidden), (hidden, vocab_size))
        )
        emission[:, : states - 1] *= rarity
        emission = (emission / emission.sum(1, keepdims=True)).astype(np.float32)
        self.initial, self.transition = initial.astype(np.float32), transition.astype(np.float32)
        self.emission, self.states = emission, states
        self.hmm = tt.HMM(*(torch.tensor(a) for a in (self.initial, self.transition, emission)))
        last = states - 1
        source = [
            *range(last),
            *(s for s in range(last) for c in range(last + 1) if c != s),
            *[last] * (last + 1),
        ]
        klass = [*range(last), *(c for s in range(last) for c in range(last + 1) if c != s), *range(last + 1)]
        target = [
            *range(1, states),
            *(s for s in range(last) for c in range(last + 1) if c != s),
            *[last] * (last + 1),
        ]
        token_class = np.minimum(np.arange(vocab_size), last)  # the common tokens are one class
        self.fsa = tt.Automaton.from_transitions(source, klass, target, token_class, [0], [last], states)

    def betas(self, n, wanted):
        """{r: log β_r (hidden, states)} for the numbers r of tokens left that are wanted."""
        a, b = self.transition.astype(np.float64), self.emission.astype(np.float64)
        rare = b[:, : self.states - 1]
        mantissa = np.zeros((len(a), self.states))
        mantissa[:, -1] = 1
        scale = np.full(self.states, -np.inf)
        scale[-1] = 0
        out = {}
        for r in range(n + 1):
            if r in wanted:
                out[r] = oracle.log(mantissa) + scale
            ahead = mantissa if r == 0 else a @ mantissa  # a path ends at its last token
            stay = np.concatenate([(1 - rare) * ahead[:, :-1], ahead[:, -1:]], 1)
            go = np.concatenate([rare * ahead[:, 1:], np.zeros((len(a), 1))], 1)
            up = np.append(scale[1:], -np.inf)
            top = np.maximum(scale, up)
            floor = np.where(np.isfinite(top), top, 0)
            mantissa = stay * np.exp(scale - floor) + go * np.exp(up - floor)
            peak = mantissa.max(0)
            mantissa, scale = mantissa / np.where(peak > 0, peak, 1), top + oracle.log(peak)
        return out

    def total(self, beta):
        """log p(C) from log β over all tokens."""
        return np.logaddexp.reduce(oracle.log(self.initial.astype(np.float64)) + beta[:, 0])

    def log_prob(self, x):
        """log p(x) of the HMM alone."""
        alpha, log_p = self.initial.astype(np.float64), 0.0
        for t, v in enumerate(x):
            alpha = (alpha if t == 0 else alpha @ self.transition) * self.emission[:, v]
            log_p += math.log(alpha.sum())
            alpha = alpha / alpha.sum()
        return log_p

    def accepted(self, n, seed=1):
        """An accepted sequence of common tokens with the rare ones in order among them."""
        rng = np.random.default_rng(seed)
        x = rng.integers(self.states - 1, self.emission.shape[1], n)
        x[np.sort(rng.choice(n, self.states - 1, replace=False))] = np.arange(self.states - 1)
        return x


def check_long_queries(hidden, vocab_size, n, states):
    case = InOrder(hidden, vocab_size, states)
    x = case.accepted(n)
    steps = sorted({0, 1, 2, n // 3, n - 2, n - 1})
    betas = case.betas(n, {n} | {n - t for t in steps})
    log_z = case.total(betas[n])
    assert math.isfinite(log_z)
    assert log_z < -1000
    product = case.hmm * case.fsa
    tokens = torch.tensor(x)[None]
    assert_log_close(tt.partition(product, n=n), log_z, 1e-5)
    assert_log_close(tt.log_marginal(product, tokens), [case.log_prob(x)], 1e-5)
    assert_log_close(tt.log_marginal(case.hmm, tokens), [case.log_prob(x)], 1e-5)
    outside = tokens.clone()
    outside[0, int(np.flatnonzero(x == 0)[0])] = states  # the first rare token is missing
    assert tt.log_marginal(product, outside).item() == -math.inf

    query = tt.pgcd(case.hmm, case.fsa, horizon=n).start(1)
    prefix_mass = 0.0
    for t in range(n):
        if t in steps:
            # log p(C | x_<t): the reference's α at the prefix with β of the tokens left
            alpha, state, prefix_mass = forward(case, x[:t])
            expected = np.logaddexp.reduce(alpha + betas[n - t][:, state])
            assert_log_close(query.log_lookahead(), [expected - prefix_mass], 1e-4)
            scores, mask, ahead = query.scores()[0], query.mask()[0], query.lookahead()[0]
            assert bool(mask[x[t]])
            assert not scores.isnan().any()
            assert bool((scores[mask] > -torch.inf).all())
            assert bool((ahead[mask] > -torch.inf).all())
            assert bool((ahead <= 1e-6).all())
            assert bool((scores[~mask] == -torch.inf).all())
            assert abs(scores.logsumexp(0).item()) < 1e-5
        query.advance(torch.tensor(x[t : t + 1]))
    assert_log_close(query.log_lookahead(), [0.0], 1e-6)


def forward(case, prefix):
    """(log α over hidden states before emission, the automaton's state, log p(prefix))."""
    alpha, log_p, state = case.initial.astype(np.float64), 0.0, 0
    for v in prefix:
        alpha = (alpha * case.emission[:, v]) @ case.transition
        log_p += math.log(alpha.sum())
        alpha = alpha / alpha.sum()
        state += int(v == state)
    return oracle.log(alpha) + log_p, state, log_p


def test_long_sequences_of_rare_tokens():
    check_long_queries(hidden=16, vocab_size=2_000, n=300, states=60)


@pytest.mark.slow
def test_the_largest_case():
    """H = 256, V = 32,000, n = 4,096 and 500 states: minutes, and several gigabytes."""
    check_long_queries(hidden=256, vocab_size=32_000, n=4_096, states=500)


# --------------------------------------------------------------------------- states that scaled arithmetic drives apart


def test_a_prefix_that_the_hmm_gives_no_probability():
    """A token that no state emits: −inf, not nan; and nothing to sample from."""
    emission = torch.tensor([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    hmm = tt.HMM(torch.tensor([0.5, 0.5]), torch.full((2, 2), 0.5), emission)
    x = torch.tensor([[0, 1, 0], [0, 2, 0]])
    for semiring in (None, Real(), Log()):
        assert tt.log_marginal(hmm, x, semiring=semiring).isneginf().tolist() == [False, True]
    with pytest.raises(tt.errors.EvidenceError, match="probability zero"):
        tt.conditional(hmm, {1: 2}, 0, n=3)
    fsa = tt.Automaton.from_edges([(0, [0, 1, 2], 0), (0, 2, 1)], 0, [1], 3)  # must end in the token 2
    query = tt.pgcd(hmm, fsa, 3).start(2)
    assert query.mask().all()
    assert query.log_lookahead().tolist() == [-math.inf] * 2
    assert query.lookahead().isneginf().all()
    with pytest.raises(tt.errors.EvidenceError, match="no probability"):
        query.scores()
    free = tt.Automaton.from_edges([(0, [0, 1, 2], 0)], 0, [0], 3)
    query = tt.pgcd(hmm, free, 3).start(1)
    assert query.mask().all()  # the automaton allows it; the HMM has no opinion on what follows
    assert query.scores()[0].isneginf().tolist() == [False, False, True]
    query.advance(torch.tensor([2]))
    assert query.lookahead().isneginf().all()
    assert not query.log_lookahead().isnan().any()


def test_states_from_which_nothing_is_accepted():
    """Dead ends are masked, have no weight and make no nan, in every query."""
    # state 1 is a trap, state 2 accepts and is left by nothing
    edges = [(0, 0, 0), (0, 1, 1), (1, 1, 1), (0, 2, 2)]
    fsa = tt.Automaton.from_edges(edges, 0, [2], 3)
    hmm = tt.HMM.random(3, 3, dtype=torch.float64)
    for query in (tt.gcd(fsa, 4), tt.lcd(fsa), tt.pgcd(hmm, fsa, 4), tt.NextToken(hmm * fsa, 4, Real())):
        query.start(1)
        assert query.mask()[0].tolist() == ([True, False, False] if query.horizon else [True, False, True])
        assert not query.scores().isnan().any()
        query.advance(torch.tensor([1]))  # into the trap
        assert not query.mask().any()
        assert query.log_weights().isneginf().all()
        query.advance(torch.tensor([1]))
        with pytest.raises(tt.errors.EvidenceError, match="no probability"):
            query.scores()


def test_gradients_are_finite_where_states_are_dead():
    """Zeros in parameters and unreachable automaton states give no nan in derivatives."""
    fsa = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (2, 0, 2), (0, 2, 3)], 0, [1], 3)
    emission = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7]], dtype=torch.float64, requires_grad=True)
    initial, transition = torch.tensor([1.0, 0.0]).double(), torch.tensor([[0.5, 0.5], [0.0, 1.0]]).double()
    for semiring in (None, Log()):
        value = tt.partition(tt.HMM(initial, transition, emission) * fsa, n=4, semiring=semiring)
        (gradient,) = torch.autograd.grad(value, emission)
        assert gradient.isfinite().all()
        assert (gradient >= 0).all()


# ------------------------------------------------------------------------------------ the forward algorithm on arrays


@pytest.mark.parametrize("transition", ["dense", "monarch"])
@pytest.mark.parametrize("vocab_size", [5, 500])
def test_the_forward_algorithm_is_the_query(transition, vocab_size):
    """On arrays and in the general filter: with gaps, lengths, any transition and vocabulary."""
    hmm = tt.HMM.random(12, vocab_size, transition, seed=1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(-1, vocab_size, (7, 9), generator=generator)
    lengths = torch.tensor([0, 1, 2, 9, 5, 9, 3])
    for rows in (tokens, tokens.clamp(min=0)):
        for some in (None, lengths):
            assert_log_close(
                tt.log_marginal(hmm, rows, lengths=some),
                tt.log_marginal(hmm, rows, lengths=some, semiring=Log()),
            )
    assert tt.log_marginal(hmm, tokens[:0]).shape == (0,)
    assert tt.log_marginal(hmm, tokens[:, :0]).tolist() == pytest.approx([0.0] * 7)


def test_the_forward_algorithm_loses_no_row():
    """Rows that the precision loses are computed again; impossible ones are −inf; long ones keep their digits."""
    e = 1e-25
    transition = torch.tensor([[1 - e, e, 0], [0, 1 - e, e], [0, 0, 1]])
    emission = torch.tensor([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0]])
    hmm = tt.HMM(torch.tensor([1.0, 0, 0]), transition, emission)
    tokens = torch.tensor([[0, 0, 2], [0, 3, 0], [0, 2, 2], [1, 1, 1]])
    found = tt.log_marginal(hmm, tokens)
    assert_log_close(found, tt.log_marginal(hmm, tokens, semiring=Log()), 1e-6)
    assert found.isfinite().tolist() == [True, False, False, True]
    assert tt.log_marginal(hmm, tokens, lengths=torch.tensor([3, 1, 1, 2])).isfinite().all()
    long = torch.randint(2, (2, 5000), generator=torch.Generator().manual_seed(0))
    random = tt.HMM.random(8, 2)
    exact = tt.log_marginal(random.to(dtype=torch.float64), long)
    assert_log_close(tt.log_marginal(random, long), exact, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_forward_algorithm_divides_again_in_rows_of_rare_tokens(dtype):
    """Four tokens of probability 1e-12 in a row leave float32 within one block of steps; the other rows are common ones."""
    rare = 1e-4 if dtype == torch.float16 else 1e-12
    emission = torch.tensor([[1 - 2 * rare, rare, rare], [0.7, 0.3 - rare, rare]], dtype=torch.float64).to(
        dtype
    )
    transition = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=dtype)
    hmm = tt.HMM(torch.tensor([0.5, 0.5], dtype=dtype), transition, emission)
    tokens = torch.tensor([[0] * 11, [0, 0, 2, 2, 2, 2, 2, 2, 2, 0, 1], [1] * 11, [2] * 11])
    exact = tt.log_marginal(hmm.map(torch.Tensor.double), tokens, semiring=Log())
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert_log_close(tt.log_marginal(hmm, tokens), exact, tolerance)
    for i, row in enumerate(tokens):  # a row's neighbours change nothing
        assert_log_close(tt.log_marginal(hmm, row[None]), tt.log_marginal(hmm, tokens)[i : i + 1], tolerance)


def test_rows_of_which_nothing_is_observed_are_all_computed():
    """After other rows, in whose place they would be computed."""
    hmm = tt.HMM.random(3, 4)
    tt.log_marginal(hmm, torch.tensor([[2, 1], [1, 3], [0, 0]]))
    assert_log_close(tt.log_marginal(hmm, torch.full((3, 2), -1)), [0.0] * 3, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_subnormal_weights_keep_their_scale(dtype):
    """A token whose probability is subnormal in every state: the scale recorded was not the one divided by."""
    least = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    emission = torch.tensor([[1, 9 * least, 4 * least], [1, 3 * least, 7 * least]], dtype=torch.float64).to(
        dtype
    )
    hmm = tt.HMM(
        torch.tensor([0.5, 0.5], dtype=dtype),
        torch.tensor([[0.875, 0.125], [0.25, 0.75]], dtype=dtype),
        emission,
    )
    x, exact = torch.tensor([[1, 0, 2, 1], [0, 0, 1, 2]]), hmm.map(torch.Tensor.double)
    expected = tt.log_marginal(exact, x, semiring=Log())
    everything = tt.Automaton.from_edges([(0, [0, 1, 2], 0)], 0, [0], 3)
    tolerance = 1e-11 if dtype == torch.float64 else 1e-5
    for model in (hmm, hmm * everything, hmm.unroll(4)):
        assert_log_close(tt.log_marginal(model, x), expected, tolerance)
    normalised = tt.log_marginal(tt.inference.Trainable(exact)(), x).detach()
    # rows sum to 1 + 1e-6 there
    assert_log_close(normalised, expected, 1e-5 if dtype == torch.float16 else 1e-9)


def test_a_large_vocabulary_in_float16():
    """Probabilities of 1/20,000 are subnormal there."""
    circuit = tt.HMM.random(8, 20_000).unroll(10).to(dtype=torch.float16)
    x = torch.randint(20_000, (2, 10), generator=torch.Generator().manual_seed(0))
    expected = tt.log_marginal(circuit.to(dtype=torch.float64), x, semiring=Log())
    assert_log_close(tt.log_marginal(circuit, x), expected, 1e-5)


def test_shares_of_a_class_are_no_product_in_the_precision_of_the_table():
    layer = tt.layers.ClassCategorical(
        torch.tensor([[1e-30, 1.0]]), torch.tensor([0, 0, 1]), torch.tensor([1e-30, 1, 1])
    )
    circuit = tt.circuits.builders.factorised([layer])
    assert tt.log_marginal(circuit, torch.tensor([[0]])).item() == pytest.approx(-60 * math.log(10), rel=1e-6)
    assert tt.support(circuit, torch.tensor([[0]])).item()


def test_final_weights_of_a_chain_that_leave_the_range_of_its_precision():
    def one(weight, dtype):
        w = torch.tensor([[weight]], dtype=dtype)
        return tt.circuits.Chain(
            (w[0],), tt.layers.Identity(1), tt.layers.Categorical(w), tt.layers.Dense(w), (w[0],)
        )

    for weight in (1e-30, 1e30):
        for model in (one(weight, torch.float32), one(weight, torch.float32).unroll(2)):
            found = tt.log_marginal(model, torch.tensor([[0, 0]])).item()
            assert found == pytest.approx(6 * math.log(weight), rel=1e-6)
    with pytest.raises(tt.errors.CircuitError, match="leaves the range of float64"):
        tt.log_marginal(one(1e-200, torch.float64), torch.tensor([[0]]))


@pytest.mark.parametrize("elements", [1, 40, 1 << 17])
def test_the_forward_algorithm_gathers_by_blocks(elements, monkeypatch):
    monkeypatch.setattr("tractile.inference.engine.planned.GATHERED_ELEMENTS", elements)
    hmm = tt.HMM.random(6, 5, dtype=torch.float64)
    tokens = torch.randint(-1, 5, (3, 17), generator=torch.Generator().manual_seed(2))
    assert_log_close(tt.log_marginal(hmm, tokens), tt.log_marginal(hmm, tokens, semiring=Log()))


def test_the_forward_algorithm_has_derivatives():
    tokens = torch.tensor([[0, 1, 2, 3, 4, 0, 1], [4, -1, 4, 4, 4, 2, 0]])
    logits = [p.log() for p in tt.HMM.random(4, 5, dtype=torch.float64).parameters()[:3]]
    gradients = []
    for log_p in (tt.log_marginal, lambda m, x: tt.log_marginal(m, x, semiring=Log())):
        learned = [w.clone().requires_grad_() for w in logits]
        initial, emission, transition = (w.softmax(-1) for w in learned)
        hmm = tt.HMM(initial, transition, emission)
        gradients.append(torch.autograd.grad(log_p(hmm, tokens).sum(), learned))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "make", [lambda: tt.HMM.random(4, 6), lambda: tt.HMM.random(4, 6) * tt.HMM.random(3, 6, seed=1)]
)
def test_what_the_filter_keeps_with_a_chain_follows_its_parameters(make):
    """Plans of earlier calls: another batch, parameters written to, two answers at once, inference mode."""
    chain = make()
    tokens = torch.randint(6, (3, 9), generator=torch.Generator().manual_seed(0))

    def expected(tokens):
        return tt.log_marginal(chain.to(dtype=torch.float64), tokens, semiring=tt.inference.Log())

    with torch.inference_mode():
        tt.log_marginal(chain, tokens)
    first = tt.log_marginal(chain, tokens)
    assert "filter" in chain.cache
    assert torch.allclose(tt.log_marginal(chain, tokens[:, :4]), expected(tokens[:, :4]), atol=1e-5)
    assert torch.allclose(first, expected(tokens), atol=1e-5)  # not overwritten
    assert torch.allclose(tt.log_marginal(chain, tokens[:2]), expected(tokens[:2]), atol=1e-5)
    chain.initial[0].copy_(chain.initial[0].flip(0))
    chain.factors[0].emission_probs.copy_(chain.factors[0].emission_probs.flip(1))
    assert torch.allclose(tt.log_marginal(chain, tokens), expected(tokens), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_circuits_of_16_bits_are_read_alike_by_every_operation(dtype):
    """The other side of a coin is what its own 16 bits leave to one, not that rounded to 16 bits."""
    coin = tt.circuits.builders.factorised([tt.layers.Bernoulli(torch.tensor([0.003], dtype=dtype))])
    single, x = coin.map(torch.Tensor.float), torch.tensor([[0], [1]])
    assert abs(tt.inference.kl_divergence(coin, single)) < 1e-6
    for change in (tt.inference.normalise, lambda given: tt.inference.power(given, 2)):
        assert torch.allclose(tt.log_marginal(change(coin), x), tt.log_marginal(change(single), x), atol=1e-6)
    two = tt.circuits.builders.factorised([tt.layers.Bernoulli(torch.tensor([0.003], dtype=dtype))] * 2)
    assert torch.allclose(
        tt.log_marginal(tt.circuits.marginalise(two, [1]), x), tt.log_marginal(single, x), atol=1e-6
    )
