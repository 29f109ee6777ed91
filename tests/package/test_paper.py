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
from tractile.inference import Counting, Real
from tractile.layers import Dense, Identity

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


def weight_of_paths(a, b, pi, f, x):
    """πᵀ diag(b_1) A diag(b_2) … diag(b_n) f: an HMM with an accept vector, by its definition."""
    message = pi * b[:, x[0]]
    for v in x[1:]:
        message = (message @ a) * b[:, v]
    return message @ f


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


@given(st.data())
@FEW
def test_definition_4_1_the_forward_recursion_of_an_hmm(data):
    """Definition 4.1 and Appendix B: α_t = (Aᵀ α_{t−1}) ∘ B(:, x_t), α_1 = π ∘ B(:, x_1), p(x_1:t) = Σ α_t(i)."""
    vocab_size, n = data.draw(st.sampled_from(SHAPES))
    hmm = data.draw(oracle.hmms(vocab_size))
    x = data.draw(st.lists(st.integers(0, vocab_size - 1), min_size=n, max_size=n))
    model = hmm.build()
    for t in range(1, n + 1):
        alpha = hmm.initial * hmm.emission[:, x[0]]
        for v in x[1:t]:
            alpha = (hmm.transition.T @ alpha) * hmm.emission[:, v]
        assert_log_close(tt.log_marginal(model, torch.tensor([x[:t]])), log(alpha.sum())[None])
        lengths = torch.tensor([t])
        assert_log_close(tt.log_marginal(model, torch.tensor([x]), lengths=lengths), log(alpha.sum())[None])


@given(st.data())
@FEW
def test_definition_4_2_the_edge_chain_and_the_state_chain_give_one_distribution(data):
    """Definition 4.2: the HMM over edges (A_f, B_f, π_f, f) weights every sequence as the chain cut at the states does."""
    vocab_size, n = data.draw(st.sampled_from(SHAPES))
    fsa = drawn_fsa(data, vocab_size)
    a_f, b_f, pi_f, f = edge_hmm(fsa)
    assert set(np.unique(a_f)) <= {0, 1}
    x = torch.tensor(sequences(vocab_size, n))
    by_edges = np.array([weight_of_paths(a_f, b_f, pi_f, f, row) for row in x.tolist()])
    by_states = tt.log_marginal(fsa.build(), x, semiring=Counting())
    assert_log_close(by_states, log(by_edges))


@given(st.data())
@FEW
def test_theorem_4_3_weights_are_accepting_path_counts(data):
    """Theorem 4.3: p_fa(x) ∝ the number of accepting paths of x; uniform over the accepted sequences of a DFA."""
    vocab_size, n = data.draw(st.sampled_from(SHAPES))
    fsa = drawn_fsa(data, vocab_size)
    paths = {x: len(ways) for x, ways in fsa.path_weights(n).items()}  # by listing every path
    x = torch.tensor(list(paths))
    weights = tt.log_marginal(fsa.build(), x)
    assert_log_close(weights, log(np.array(list(paths.values()), dtype=float)))
    total = sum(paths.values())
    assert tt.count(fsa.build(), n=n, paths=True) == total
    if fsa.deterministic and total:
        probabilities = (weights - tt.partition(fsa.build(), n=n)).exp()
        expected = np.array([fsa.accepts(row) for row in x.tolist()]) / total
        np.testing.assert_allclose(probabilities.numpy(), expected, atol=1e-12)


# ---------------------------------------------------------------------------------- Section 4.2: the product distribution


@given(st.data())
@FEW
def test_theorem_4_4_the_product_hmm(data):
    """Theorem 4.4: π = π_h ⊗ π_f, A = A_h ⊗ A_f, B = B_h ⊗_row B_f written out give the distribution of hmm * fa."""
    vocab_size, n = data.draw(st.sampled_from(SHAPES))
    hmm, fsa = data.draw(oracle.hmms(vocab_size)), drawn_fsa(data, vocab_size)
    a_f, b_f, pi_f, f = edge_hmm(fsa)
    pi, a = np.kron(hmm.initial, pi_f), np.kron(hmm.transition, a_f)
    b = np.stack([np.kron(hmm.emission[:, v], b_f[:, v]) for v in range(vocab_size)], 1)
    accept = np.kron(np.ones(len(hmm.initial)), f)
    x = sequences(vocab_size, n)
    written_out = np.array([weight_of_paths(a, b, pi, accept, row) for row in x])
    product = hmm.build() * fsa.build()
    assert_log_close(tt.log_marginal(product, torch.tensor(x)), log(written_out))
    # p_prod ∝ p_hmm · p_fa
    separate = [weight_of_paths(a_f, b_f, pi_f, f, row) * hmm.total(n)[row] for row in x]
    assert_log_close(tt.log_marginal(product, torch.tensor(x)), log(np.array(separate)))


@given(st.data())
@FEW
def test_corollary_of_theorem_4_4_the_product_with_a_dfa_is_the_conditional(data):
    """After Theorem 4.4: for a DFA p_prod(x) = p_hmm(x | C)."""
    vocab_size, n = data.draw(st.sampled_from(SHAPES))
    hmm, fsa = data.draw(oracle.hmms(vocab_size)), drawn_fsa(data, vocab_size, deterministic=True)
    p = hmm.total(n) * np.array([fsa.accepts(x) for x in sequences(vocab_size, n)]).reshape((vocab_size,) * n)
    assume(p.sum() > 0)
    product = hmm.build() * fsa.build()
    x = torch.tensor(sequences(vocab_size, n))
    actual = tt.log_marginal(product, x) - tt.partition(product, n=n)
    assert_log_close(actual, log(p.flatten() / p.sum()))


@given(st.integers(0, 2**31))
@FEW
def test_equation_5_the_kronecker_vec_identity(seed):
    """Equation 5: (A_h ⊗ A_f) u = (A_f (A_h u)ᵀ)ᵀ, and it is what the engine computes."""
    from tractile.inference.engine.contract import apply
    from tractile.layers import Kron

    rng = np.random.default_rng(seed)
    h, e = rng.integers(1, 6, 2)
    a_h, a_f, u = rng.random((h, h)), rng.random((e, e)), rng.random((h, e))
    identity = (a_f @ (a_h @ u).T).T
    np.testing.assert_allclose((np.kron(a_h, a_f) @ u.flatten()).reshape(h, e), identity)
    operator, sr = Kron(Dense(torch.tensor(a_h)), Dense(torch.tensor(a_f))), Real()
    message = sr.lift(torch.tensor(u)[..., None], batched=True)
    assert_log_close(sr.log(apply(sr, operator, message))[..., 0], log(identity))
    with_identity = Kron(Identity(int(h)), Dense(torch.tensor(a_f)))
    assert_log_close(sr.log(apply(sr, with_identity, message))[..., 0], log((a_f @ u.T).T))


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


@given(st.data())
@FEW
def test_section_4_3_the_potential_by_bayes_rule(data):
    """Section 4.3: p_hmm(C | x_1:t) ∝ p_hmm(x_1:t | C) / p_hmm(x_1:t), the constant being p_hmm(C)."""
    vocab_size, n = data.draw(st.sampled_from([(2, 4), (3, 3), (4, 2)]))
    hmm, fsa = data.draw(oracle.hmms(vocab_size)), drawn_fsa(data, vocab_size, deterministic=True)
    joint = hmm.total(n) * fsa.total(n)
    assume(joint.sum() > 0)
    query = tt.pgcd(hmm.build(), fsa.build(), n).start(1)
    assert_log_close(query.log_lookahead(), log(joint.sum())[None], 1e-9)
    for t in range(1, n + 1):
        for prefix in sequences(vocab_size, t):
            given_c, alone = joint[prefix].sum() / joint.sum(), hmm.total(t)[prefix]
            if given_c == 0:
                continue
            query.start(1)
            for v in prefix:
                query.advance(torch.tensor([v]))
            assert_log_close(query.log_lookahead(), log(given_c / alone * joint.sum())[None], 1e-9)


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
