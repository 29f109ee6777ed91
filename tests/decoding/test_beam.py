"""Beam search: the top of the enumerated target where the beam is wide, and never a sequence that is not accepted."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smc_reference import (
    CASES,
    EOS,
    HMM,
    Fsa,
    N,
    V,
    as_automaton,
    enumerate_target,
    padded,
    random_table,
)

import tractile as tt

WIDE = V**N


def ranked(lm, fsa, n):
    """log-probabilities of the accepted sequences, the highest first; and each by its sequence."""
    target = {x: math.log(p) for x, p in enumerate_target(lm, fsa, n).items()}
    return sorted(target.values(), reverse=True), target


@pytest.mark.parametrize("hmm", [None, HMM], ids=["plain", "guided"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wanted", [1, 3, WIDE])
def test_a_wide_beam_is_the_top_of_the_target(case, wanted, hmm):
    lm, fsa = CASES[case]
    best, target = ranked(lm, fsa, N)
    found = tt.decoding.beam_search(lm, [], as_automaton(fsa), N, WIDE, hmm)
    assert [beam.log_prob for beam in found] == pytest.approx(best)
    for beam in found:
        assert beam.log_prob == pytest.approx(target[padded(beam.token_ids, N, EOS)])
        assert beam.text == lm.decode(beam.token_ids)
    assert len({beam.token_ids for beam in found}) == len(target)
    some = tt.decoding.beam_search(lm, [], as_automaton(fsa), N, wanted, hmm)
    assert [beam.log_prob for beam in some] == sorted((beam.log_prob for beam in some), reverse=True)
    assert all(beam.log_prob == pytest.approx(target[padded(beam.token_ids, N, EOS)]) for beam in some)


@settings(max_examples=40, deadline=None)
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, V - 1), st.integers(0, 2)), min_size=1, max_size=8
    ),
    accept=st.integers(0, 2),
    n=st.integers(1, 4),
    beams=st.integers(1, 6),
    zero=st.integers(0, V),
    seed=st.integers(0, 50),
)
def test_any_automaton_and_budget(edges, accept, n, beams, zero, seed):
    """All are accepted and finite; as many as asked for if the beam holds every prefix; a token may be impossible."""
    fsa = Fsa(edges, 0, [accept], V)
    lm = tt.lm.TableLM(random_table(V, 1, seed, zero))
    if not any(fsa.accepts(x) for x in itertools.product(range(V), repeat=n)):
        with pytest.raises(tt.errors.BudgetTooSmall):
            tt.decoding.beam_search(lm, [], as_automaton(fsa), n, beams)
        return
    best, target = ranked(lm, fsa, n)
    if not best:
        with pytest.raises(tt.errors.NoParticleSurvived):
            tt.decoding.beam_search(lm, [], as_automaton(fsa), n, beams)
        return
    wide = tt.decoding.beam_search(lm, [], as_automaton(fsa), n, V**n)
    assert [beam.log_prob for beam in wide] == pytest.approx(best)
    try:
        found = tt.decoding.beam_search(lm, [], as_automaton(fsa), n, beams)
    except tt.errors.NoParticleSurvived:
        assert zero < V  # the beams ran into what the model excludes
        return
    assert len(found) <= beams
    assert all(beam.log_prob == pytest.approx(target[beam.token_ids]) for beam in found)
    assert found == sorted(found, key=lambda beam: -beam.log_prob)


def test_bad_settings():
    lm, fsa = CASES["ended"]
    with pytest.raises(tt.errors.EvidenceError, match="beams"):
        tt.decoding.beam_search(lm, [], as_automaton(fsa), N, 0)
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.decoding.beam_search(lm, [], as_automaton(fsa), 1, 2)
    with pytest.raises(tt.errors.VocabularyMismatch):
        tt.decoding.beam_search(lm, [], tt.Automaton.from_edges([(0, 0, 0)], 0, [0], V + 1), N, 2)


@pytest.mark.parametrize("hmm", [None, HMM], ids=["plain", "guided"])
def test_logits_that_are_nan_are_an_error_that_names_the_row(hmm):
    table = {(): [math.log(1 / V)] * V, (0,): [math.nan] * V}
    anything = tt.Automaton.from_edges([(0, list(range(V)), 0)], 0, [0], V)
    with pytest.raises(
        tt.errors.EvidenceError, match=r"gives NaN .* row \d+ \(after '.*0'\): its logits are NaN"
    ):
        tt.decoding.beam_search(tt.lm.TableLM(table), [], anything, max_new_tokens=3, beams=V, hmm=hmm)
