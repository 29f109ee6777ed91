"""Random HMM × automaton in every implementation of the next-token query, against enumeration.

The HMMs have zeros, tokens that cannot be emitted, and probabilities so small that beliefs are lost to the range of the
precision and would later outweigh what is left. Products of all of them stay within the float64 of the enumeration.
"""

import games
import numpy as np
import oracle
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

SHAPES = [(2, 4), (3, 3), (2, 3), (3, 2), (1, 2), (4, 2)]  # (vocabulary, horizon)


@st.composite
def hmms(draw, vocab_size, decades):
    """With zeros, tiny probabilities, tokens that no state emits, or a Monarch transition."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["plain", "zeros", "tiny", "tiny", "unheard", "monarch"]))
    if kind == "monarch":
        return oracle.random_hmm(rng, 4, vocab_size, (2, 2), 0.3)
    hmm = oracle.random_hmm(rng, draw(st.integers(1, 3)), vocab_size, (), 0.4 if kind != "plain" else 0.0)
    if kind == "unheard" and vocab_size > 1:
        hmm.emission[:, rng.integers(vocab_size)] = 0
        hmm.emission[:, 0] += hmm.emission.sum(1) == 0
        hmm.emission /= hmm.emission.sum(1, keepdims=True)
    if kind == "tiny":
        for table in (hmm.initial, hmm.transition, hmm.emission):
            rows = table.reshape(-1, table.shape[-1])
            for row in rows:
                if rng.random() < 0.7:
                    row[rng.integers(len(row))] = 10.0 ** -rng.integers(*decades)
                    row[np.argmax(row)] += 1 - row.sum() if row.max() > 1e-6 else 1.0
                    row /= row.sum()
    return hmm


@st.composite
def problems(draw, deterministic=None):
    vocab_size, horizon = draw(st.sampled_from(SHAPES))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    hmm = draw(hmms(vocab_size, (20, 61) if dtype == torch.float64 else (3, 38)))
    problem = games.Problem(hmm, draw(oracle.fsas(vocab_size, deterministic)), horizon, dtype)
    if problem.dtype == torch.float32:  # the oracle has the very numbers of the model
        hmm = problem.parts[0].to(dtype=torch.float64)
        problem.hmm.initial, problem.hmm.emission = hmm.initial_probs.numpy(), hmm.emission_probs.numpy()
        problem.hmm.transition = hmm.transition.dense().numpy()
    return problem


def tolerance(problem, kind):
    """Of logarithms, relative; infinite where small probabilities count as larger ones: only zeros are compared then."""
    tables = (problem.hmm.initial, problem.hmm.transition, problem.hmm.emission)
    least = min(table[table > 0].min() for table in tables) ** (
        2 * problem.horizon + 1
    )  # of one path, at least
    if least < kind.floor:
        return np.inf
    return 1e-9 if problem.dtype == torch.float64 else 2e-4


@given(problem=problems(), seed=st.integers(0, 2**31), kind=st.sampled_from([*games.MASKS, *games.PRODUCTS]))
def test_fast_queries_are_the_enumeration(problem, seed, kind):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kind.patches:
            patch.setattr(name, value)
        query = kind.make(problem)
        assume(games.play(kind, problem, query, np.random.default_rng(seed), tolerance(problem, kind)))


@given(problem=problems(), seed=st.integers(0, 2**31), kind=st.sampled_from(games.GENERIC))
def test_generic_queries_are_the_enumeration(problem, seed, kind):
    query = kind.make(problem)
    assume(games.play(kind, problem, query, np.random.default_rng(seed), tolerance(problem, kind), batch=2))
