"""The first paper (Dang et al. 2026), transcribed place by place and held against the library.

The transcriptions use numpy matrices with the paper's names: T_out (S×E), T_in (E×S), B_f (E×V), π_f, f; A_h (H×H), B_h (H×V),
π_h; n the length of a sequence.
"""

import itertools
import math

import numpy as np
import oracle
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.inference import Real

FEW = settings(max_examples=15, deadline=None)


def one(x):
    """The paper's 1{·}."""
    return (x > 0) * 1.0


def tensorized(fsa):
    """Definition 3.2: T_out, T_in, B_f, π_f, f of an edge list; one edge for each pair of states."""
    pairs = sorted({(s, d) for s, _, d in fsa.edges})
    states = 1 + max([*fsa.start, *fsa.accept, *(s for e in fsa.edges for s in (e[0], e[2]))])
    t_out, t_in = np.zeros((states, len(pairs))), np.zeros((len(pairs), states))
    b_f = np.zeros((len(pairs), fsa.vocab_size))
    for k, (s, d) in enumerate(pairs):
        t_out[s, k] = t_in[k, d] = 1
    for s, v, d in fsa.edges:
        b_f[pairs.index((s, d)), v] = 1
    pi_f, f = np.zeros(states), np.zeros(states)
    pi_f[fsa.start], f[fsa.accept] = 1, 1
    return t_out, t_in, b_f, pi_f, f


def edge_hmm(fsa):
    """Definition 4.2: A_f = T_in T_out, B_f, and π_f, f lifted to edges."""
    t_out, t_in, b_f, pi_f, f = tensorized(fsa)
    return t_in @ t_out, b_f, t_out.T @ pi_f, t_in @ f


def sequences(vocab_size, n):
    return list(itertools.product(range(vocab_size), repeat=n))


def drawn_fsa(data, vocab_size, **kwargs):
    fsa = data.draw(oracle.fsas(vocab_size, **kwargs))
    assume(fsa.edges)
    return fsa


SHAPES = [(2, 5), (3, 4), (4, 3), (2, 1)]


# ------------------------------------------------------------------------------------- Section 3: tensorized automata


@given(st.data())
@FEW
def test_definition_3_2_the_tensors_of_an_automaton(data):
    """Definition 3.2: T_out, T_in, B_f, π_f, f are the layers of the chain."""
    fsa = drawn_fsa(data, data.draw(st.integers(1, 4)))
    t_out, t_in, b_f, pi_f, f = tensorized(fsa)
    chain = fsa.build()
    np.testing.assert_array_equal(chain.left.dense(), t_out)
    np.testing.assert_array_equal(chain.right.dense(), t_in)
    np.testing.assert_array_equal(chain.inputs.table(), b_f)
    np.testing.assert_array_equal(chain.initial[0], pi_f)
    np.testing.assert_array_equal(chain.final[0], f)


@given(st.data())
@FEW
def test_equations_2_3_4_the_mask_of_gcd(data):
    """Equations 2–4 literally: forward states for every token, backward states, mask = 1{αᵀβ}, at every feasible prefix."""
    vocab_size, n = data.draw(st.sampled_from(SHAPES))
    fsa = drawn_fsa(data, vocab_size)
    assume(fsa.total(n).sum() > 0)
    t_out, t_in, b_f, pi_f, f = tensorized(fsa)
    beta = {n: f}
    for t in range(n, 0, -1):
        beta[t - 1] = one(t_out @ ((t_in @ beta[t]) * (b_f @ np.ones(vocab_size))))  # Eq. 4
    query = tt.gcd(fsa.build(), horizon=n)
    for t in range(1, n + 1):
        for prefix in sequences(vocab_size, t - 1):
            query.start(1)
            realised = pi_f
            for v in prefix:
                realised = one(t_in.T @ ((t_out.T @ realised)[:, None] * b_f))[:, v]
                query.advance(torch.tensor([v]))
            alpha = one(t_in.T @ ((t_out.T @ realised)[:, None] * b_f))  # Eq. 3
            mask = one(alpha.T @ beta[t])
            assert query.mask()[0].tolist() == (mask > 0).tolist()
            # Eq. 2: exactly the prefixes with a completion of length n
            extends = [fsa.total(n)[(*prefix, v)].sum() > 0 for v in range(vocab_size)]
            assert query.mask()[0].tolist() == extends


@given(st.data())
@FEW
def test_equation_1_the_mask_of_lcd(data):
    """Equation 1: X_{t,*} is the union of X_{t,m} over every length m."""
    vocab_size = data.draw(st.integers(1, 3))
    fsa = drawn_fsa(data, vocab_size)
    states = len(tensorized(fsa)[3])
    lengths = range(3 + states)  # no shortest completion is longer than the number of states
    assume(any(fsa.total(m).sum() for m in lengths) and vocab_size ** len(lengths) < 1e5)
    query = tt.lcd(fsa.build())
    for prefix in (p for t in range(3) for p in sequences(vocab_size, t)):
        query.start(1)
        for v in prefix:
            query.advance(torch.tensor([v]))
        t = len(prefix) + 1
        expected = [
            any(fsa.total(m)[(*prefix, v)].sum() > 0 for m in lengths if m >= t) for v in range(vocab_size)
        ]
        assert query.mask()[0].tolist() == expected


# ---------------------------------------------------------------------------------------------- Section 4.1: FA as HMM


# ---------------------------------------------------------------------------------- Section 4.2: the product distribution


def algorithm_1(a_h, b_h, pi_h, a_f, b_f, pi_f, f, prefix, n):
    """Algorithm 1, line by line: p_prod(x_t = v, x_<t) for every v; messages are H×E."""
    # Step 1: precompute backward messages
    beta = {n: np.outer(np.ones(len(pi_h)), f)}
    emitted = b_h @ b_f.T  # emission marginalised over the vocabulary
    for k in range(n, 1, -1):
        beta[k - 1] = (a_f @ (a_h @ (emitted * beta[k])).T).T
    # total probability mass; the printed line leaves out the emission of x_1
    gamma = pi_h @ (emitted * beta[1]) @ pi_f
    # Step 2: compute prefix marginal
    alpha = np.outer(pi_h, pi_f) / gamma
    for x in prefix:
        b_x = np.outer(b_h[:, x], b_f[:, x])
        alpha = (a_f.T @ (a_h.T @ (alpha * b_x)).T).T  # emit x_{t−1}, then transition
    t = len(prefix) + 1
    return np.diag(b_f.T @ (b_h.T @ (alpha * beta[t])).T)


@given(st.data())
@FEW
def test_algorithm_1_next_token_probabilities_at_every_prefix(data):
    """Algorithm 1 against P-GCD, the generic query and enumeration; p(x_t | x_<t, C) is its result normalised over v."""
    vocab_size, n = data.draw(st.sampled_from([(2, 4), (3, 3), (4, 2), (2, 1)]))
    hmm, fsa = data.draw(oracle.hmms(vocab_size)), drawn_fsa(data, vocab_size, deterministic=True)
    joint = hmm.total(n) * fsa.total(n)
    assume(joint.sum() > 0)
    parameters = (hmm.transition, hmm.emission, hmm.initial, *edge_hmm(fsa))
    fast, product = tt.pgcd(hmm.build(), fsa.build(), n), hmm.build() * fsa.build()
    generic = tt.NextToken(product, n, Real())
    log_z = float(tt.partition(product, n=n))
    for t in range(n):
        for prefix in sequences(vocab_size, t):
            expected = algorithm_1(*parameters, prefix, n)
            enumerated = oracle.next_token(joint, prefix) / joint.sum()
            np.testing.assert_allclose(expected, enumerated, rtol=1e-9, atol=1e-15)
            for query in (fast, generic):
                query.start(1)
                for v in prefix:
                    query.advance(torch.tensor([v]))
                assert_log_close(query.log_weights()[0] - log_z, log(expected), 1e-9)
                if expected.sum() > 0:
                    assert_log_close(query.scores()[0], log(expected / expected.sum()), 1e-9)


# ------------------------------------------------------------------------------------------------------- Appendix A

UNIFORM_BITS = (torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
EXACTLY_ONE = [(0, 0, 0), (0, 1, 1), (1, 0, 1)]
VALID = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]


def probability(query, log_lm, x):
    """The probability that sampling from p_lm reweighted by the query's scores yields x."""
    p, query = 1.0, query.start(1)
    for v in x:
        logits = log_lm + query.scores()[0]
        p *= float((logits - logits.logsumexp(0)).exp()[v])
        query.advance(torch.tensor([v]))
    return p


def test_appendix_a_lcd_distorts_the_distribution():
    """Appendix A: uniform bits of length 3 with exactly one 1: LCD gives 001, 010, 100 with 1/4, 1/4, 1/2.

    As in the appendix a mask knows the length, so that the bit is forced at the end: the automaton over positions.
    """
    edges = [
        (3 * t + s, v, 3 * (t + 1) + s + v) for t in range(3) for s in (0, 1) for v in (0, 1) if s + v < 2
    ]
    fa = tt.Automaton.from_edges(edges, start=0, accept=[3 * 3 + 1], vocab_size=2)
    log_lm = torch.full((2,), math.log(0.5))
    assert [probability(tt.lcd(fa), log_lm, x) for x in VALID] == pytest.approx([1 / 4, 1 / 4, 1 / 2])
    # GCD masks the same here: it guarantees the constraint, and has the same bias
    fa = tt.Automaton.from_edges(EXACTLY_ONE, start=0, accept=[1], vocab_size=2)
    assert [probability(tt.gcd(fa, 3), log_lm, x) for x in VALID] == pytest.approx([1 / 4, 1 / 4, 1 / 2])
    # LCD by Eq. 1, without the length, ends without a 1 one time in eight
    chances = [probability(tt.lcd(fa), log_lm, x) for x in [(0, 0, 0), *VALID]]
    assert chances == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 2])


def test_appendix_a_pgcd_with_the_exact_hmm_samples_the_conditional():
    """Appendix A: P-GCD with the exact HMM gives 1/3 each."""
    fa = tt.Automaton.from_edges(EXACTLY_ONE, start=0, accept=[1], vocab_size=2)
    query = tt.pgcd(tt.HMM(*UNIFORM_BITS), fa, horizon=3)
    assert [probability(query, torch.zeros(2), x) for x in VALID] == pytest.approx([1 / 3] * 3)


def test_appendix_a_a_lookahead_is_p_of_the_constraint():
    """Appendix A: p(C) = 3/8; after a first 1 it is 1/4, after a first 0 it is 1/2."""
    fa = tt.Automaton.from_edges(EXACTLY_ONE, start=0, accept=[1], vocab_size=2)
    query = tt.pgcd(tt.HMM(*UNIFORM_BITS), fa, horizon=3).start(1)
    assert query.log_lookahead().exp().tolist() == pytest.approx([3 / 8])
    assert query.lookahead()[0].exp().tolist() == pytest.approx([1 / 2, 1 / 4])
