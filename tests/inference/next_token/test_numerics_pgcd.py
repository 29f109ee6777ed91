"""P-GCD where others go wrong: probabilities to 1e-4 relative, so logarithms to 1e-4 nats, whatever their size.

Known wrong answers elsewhere: lengths that overlap are added up, so p(C | x) > 1; what is infeasible or underflows becomes
uniform; a token that no hidden state emits becomes nan; patterns of token ids are told apart by their decimal digits.
"""

import itertools
import math

import numpy as np
import oracle
import pytest
import torch
from product_queries import padded, product

import tractile as tt
from tractile.inference import Log, NextToken, Real
from tractile.inference.next_token.pgcd import PGCDQuery

CLOSE = 1e-4  # nats


def assert_nats(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    assert np.abs(found[finite] - expected[finite]).max(initial=0) < CLOSE, (found, expected)


def supported(fa, sequences):
    return tt.support(fa, torch.tensor(sequences)).numpy()


class Chosen:
    """An HMM and a constraint of n steps that leaves a few given tokens at each; by backward recursion in log space."""

    def __init__(self, hmm, sets):
        self.initial, self.transition, self.emission = (
            oracle.log(p.double().numpy())
            for p in (hmm.initial_probs, hmm.transition.dense(), hmm.emission_probs)
        )
        self.sets, n = sets, len(sets)
        self.ahead = [np.zeros(len(self.initial))] * n  # log p(the rest | z_t), after the emission at t
        for t in range(n - 1, 0, -1):
            here = self.emitted(t) + self.ahead[t]
            self.ahead[t - 1] = np.logaddexp.reduce(self.transition + here[None], axis=1)
        self.fa = tt.Automaton.from_edges(
            [(t, [int(v) for v in tokens], t + 1) for t, tokens in enumerate(sets)], 0, [n], hmm.vocab_size
        )

    def emitted(self, t):
        return np.logaddexp.reduce(self.emission[:, self.sets[t]], axis=1)

    def follow(self, path, check):
        """Walk along a path, comparing (log p(C | x_<t), log p(C | x_<t, v), log p(v | x_<t, C)) at each step."""
        alpha = self.initial
        for t, v in enumerate(path):
            prior = np.logaddexp.reduce(alpha)
            each = alpha[:, None] + self.emission[:, self.sets[t]]
            joint = np.logaddexp.reduce(each + self.ahead[t][:, None], axis=0)
            total = np.logaddexp.reduce(joint)
            check(t, v, total - prior, joint - np.logaddexp.reduce(each, axis=0), joint - total)
            alpha = alpha + self.emission[:, v]
            alpha = np.logaddexp.reduce(alpha[:, None] + self.transition, axis=0)


def long_constraint(few, n=500, vocab_size=100_000, seed=0):
    rng = np.random.default_rng(seed)
    hmm = tt.HMM.random(6, vocab_size, seed=seed)
    return hmm, Chosen(hmm, [np.sort(rng.choice(vocab_size, few, replace=False)) for _ in range(n)])


@pytest.mark.parametrize("few", [pytest.param(1, marks=pytest.mark.long), 3])
def test_one_token_in_a_hundred_thousand_for_five_hundred_steps(few):
    hmm, case = long_constraint(few)
    path = [int(s[i % few]) for i, s in enumerate(case.sets)]
    query = tt.pgcd(hmm, case.fa, len(path)).start(1)

    def check(t, v, before, after, scores):
        if t % 25 == 0 or t > 495:
            assert_nats(query.log_lookahead(), [before])
            assert int(query.scores().isfinite().sum()) == few
            assert_nats(query.scores()[0, case.sets[t]], scores)
            assert_nats(query.lookahead()[0, case.sets[t]], after)
        query.advance(torch.tensor([v]))

    case.follow(path, check)
    assert_nats(query.log_lookahead(), [0.0])


def test_the_evidence_of_a_constraint_of_probability_e_to_the_minus_4000():
    """The HMM itself as the language model: one particle is exact, and no weight is lost on the way."""
    hmm, case = long_constraint(2, n=500, vocab_size=20_000)
    total = np.logaddexp.reduce(case.initial + case.emitted(0) + case.ahead[0])
    assert total < -4000
    whole = tt.inference.smc.LookaheadProposal(1.0)
    post = tt.smc(tt.CircuitLM(hmm), [], case.fa, whole, hmm, 1, max_new_tokens=500, seed=0)
    assert abs(post.log_evidence - total) < CLOSE
    assert supported(case.fa, [post.best.token_ids]).all()


def test_lengths_and_spellings_that_overlap_are_united():
    """Alternatives that share texts, texts of many tokenisations: p(C) is a sum over token sequences, each once."""
    pieces = [None, b"a", b"b", b"aa", b"ab", b"aab"]
    vocab = tt.Vocabulary(pieces, eos_token_id=0)
    c = (
        tt.constraints.regex("a{1,3}b?")
        | tt.constraints.regex("a+")
        | tt.constraints.any_of("aab", "ab", "aa", "aaaa")
    )
    emission = torch.tensor(
        [[0.0, 0.4, 0.2, 0.2, 0.1, 0.1], [0.0, 0.1, 0.3, 0.2, 0.2, 0.2], [1.0, 0, 0, 0, 0, 0]]
    )
    transition = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.5, 0.4], [0.0, 0.0, 1.0]])
    hmm, n = tt.HMM(torch.tensor([0.6, 0.4, 0.0]), transition, emission), 5
    sequences = [
        x
        for x in itertools.product(range(6), repeat=n)
        if 0 in x
        and x[x.index(0) :] == (0,) * (n - x.index(0))
        and c.accepts(b"".join(pieces[v] for v in x[: x.index(0)]))
    ]
    mass = tt.log_marginal(hmm, torch.tensor(sequences)).double().exp()
    query = tt.pgcd(hmm, c.compile(vocab), n).start(1)
    assert 0.1 < float(mass.sum()) < 1
    for prefix in ((), (1,), (1, 3), (1, 3, 0)):
        here = [i for i, x in enumerate(sequences) if x[: len(prefix)] == prefix]
        prior = float(tt.log_marginal(hmm, torch.tensor([prefix]))) if prefix else 0.0
        assert_nats(query.log_lookahead(), [math.log(mass[here].sum()) - prior])
        assert float(query.lookahead().max()) <= 1e-6
        if len(prefix) < 3:
            query.advance(torch.tensor([(1, 3, 0)[len(prefix)]]))


# ------------------------------------------------------------- beliefs that fall below the range and come back


def reweighed(dtype=torch.float32, gap=1e-34, odds=1e-30):
    """Two states that stay as they are; token 1 makes the second ``gap`` as likely, token 2 the first by ``odds``."""
    emission = [[1 - gap - odds - 0.5, 0.5, odds], [1 - gap - 0.5, gap, 0.5]]
    transition = torch.eye(2, dtype=torch.float64)
    return tt.HMM(
        torch.tensor([0.5, 0.5], dtype=dtype), transition.to(dtype), torch.tensor(emission, dtype=dtype)
    )


def dfa(edges):
    return tt.Automaton.from_edges(edges, 0, [1], 3).determinize()


AUTOMATA = [
    dfa([(0, [0, 1, 2], 0), (0, [1, 2], 1), (1, [0, 1, 2], 0), (1, 2, 1)]),
    dfa([(0, [0, 1], 0), (0, 2, 1), (1, [0, 1, 2], 1)]),
]


def exactly(kind, hmm, fa, path):
    """All answers of a query along a path, against log space."""
    n, wide = len(path), hmm.to(dtype=torch.float64)
    product, alone = NextToken(wide * fa, n, Log()).start(1), NextToken(wide, None, Log()).start(1)
    query = kind(hmm, fa, n).start(1)
    for v in path:
        m, h = product.log_weights(), alone.log_weights()
        if not bool(m.isfinite().any()):
            break
        assert_nats(query.log_weights(), m)
        assert_nats(query.scores(), m - m.logsumexp(1))
        if isinstance(query, PGCDQuery):
            assert_nats(query.lookahead(), torch.where(m.isfinite(), m - h, m))
            assert_nats(query.log_lookahead(), m.logsumexp(1) - h.logsumexp(1))
        for q in (query, product, alone):
            q.advance(torch.tensor([v]))


PATHS = [[1] * k + [2] * k for k in (2, 4, 8)] + [
    [2, 1] * 4,
    [0, 1, 1, 1, 0, 2, 2, 2],
    [2, 2, 1, 0, 0, 1, 1, 2],
]


@pytest.mark.long
@pytest.mark.parametrize("kind", [product, padded, lambda a, b, n: NextToken(a * b, n, Real())])
@pytest.mark.parametrize(
    ("gap", "odds"), [(1e-12, 1e-12), (1e-30, 1e-35), (1e-160, 1e-170), (1e-290, 1e-300)]
)
@pytest.mark.parametrize("transition", [torch.eye(2), torch.tensor([[1, 1e-18], [1e-36, 1]])])
def test_beliefs_that_drift_apart_and_come_back(gap, odds, transition, kind):
    """The states part by e^−27 to e^−5000, far beyond float32 and then float64, and meet again."""
    dtype = torch.float32 if gap > 1e-37 else torch.float64
    hmm = reweighed(dtype, gap, odds)
    hmm = tt.HMM(hmm.initial_probs, transition.to(dtype), hmm.emission_probs)
    for fa, path in itertools.product(AUTOMATA, PATHS):
        exactly(kind, hmm, fa, path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_range_of_real_within_a_column(dtype):
    """Shares of tiny / ε and more are kept: the documented border of ``log_marginal`` in Real. Log has none."""
    info = torch.finfo(dtype)
    share = 4 * info.tiny / info.eps
    # Token 0 leaves the second state that share, and token 1 gives it back.
    emission = torch.tensor([[1 - 1e-6, 1e-6], [share, 1]], dtype=torch.float64)
    hmm = tt.HMM(torch.tensor([0.5, 0.5], dtype=dtype), torch.eye(2, dtype=dtype), emission.to(dtype))
    for semiring, count in ((None, 1), (Log(), 1), (Log(), 3)):
        log_a, log_b = (
            math.log(0.5) + count * math.log(float(e[0])) + 60 * count * math.log(float(e[1]))
            for e in hmm.emission_probs.double()
        )
        x = torch.tensor([[0] * count + [1] * (60 * count)])
        assert_nats(tt.log_marginal(hmm, x, semiring=semiring), [np.logaddexp(log_a, log_b)])
