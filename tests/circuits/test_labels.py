"""Edge labels whose classes of tokens overlap: the layer in every semiring, and automata that have a partition for each group."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.circuits.io.serialize import load, save
from tractile.errors import ShapeError
from tractile.layers import Incidence, TokenSets

FEW = settings(max_examples=25, deadline=None)
VOCAB = 6


def partitions(rng, groups):
    """(class, token) incidence of a random partition of some tokens for each group, and the classes of each group."""
    rows, members = [], []
    for _ in range(groups):
        part = rng.integers(-1, 3, VOCAB)
        kinds = np.unique(part[part >= 0])
        first = 1 + max((c for c, _ in rows), default=-1)
        members.append([first + i for i in range(len(kinds))])
        rows += [(first + i, t) for i, k in enumerate(kinds) for t in np.flatnonzero(part == k)]
    rows = np.array(rows or [(0, 0)])
    return Incidence(
        torch.tensor(rows[:, 0]), torch.tensor(rows[:, 1]), (int(rows[:, 0].max()) + 1, VOCAB)
    ), members


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_positions_and_classes_are_whole_numbers(dtype):
    """Not cut to whole numbers in silence: 0.7 is no class."""
    one, wrong = torch.tensor([0]), torch.tensor([0.7]).to(dtype)
    for make in (
        lambda: TokenSets(one, one, wrong, 1),
        lambda: TokenSets(wrong, one, one, 1),
        lambda: Incidence(one, wrong, (1, 1)),
    ):
        with pytest.raises(ShapeError, match="whole numbers"):
            make()


def test_classes_of_one_unit_or_state_do_not_overlap():
    tokens = Incidence(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), (2, 3))
    with pytest.raises(ShapeError, match="share a token"):
        TokenSets(torch.tensor([0, 0]), torch.tensor([0, 1]), tokens, 1)
    rows = [(0, 0, 1), (0, 1, 0)]  # two targets, so two edges, but token 1 is in both classes
    with pytest.raises(ShapeError, match="share a token"):
        tt.Automaton(np.array(rows), tokens, [0], [1], 2)
    apart = tt.Automaton(np.array([(0, 0, 1), (1, 1, 0)]), tokens, [0], [1], 2)
    assert apart.edges() == [(0, 1, [0, 1]), (1, 0, [1])]
    assert apart.accepts([0])
    assert apart.accepts([1, 1, 0])
    assert not apart.accepts([0, 0])


@st.composite
def grouped(draw):
    """An automaton with a partition for each of two groups of states, and the same from its edges."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    states = int(rng.integers(1, 5))
    tokens, members = partitions(rng, 2)
    rows = [
        (s, c, int(d))
        for s in range(states)
        for c in members[s % 2]
        for d in np.flatnonzero(rng.random(states) < 0.4)
    ]
    accept = np.flatnonzero(rng.random(states) < 0.5).tolist()
    ours = tt.Automaton(np.array(rows).reshape(-1, 3), tokens, [0], accept, states)
    listed = [(s, t, d) for s, c, d in rows for t in tokens.col[tokens.row == c].tolist()]
    theirs = tt.Automaton.from_edges(listed, [0], [*accept], VOCAB)
    return ours, theirs


@given(grouped())
@FEW
def test_constructions_on_automata_with_a_partition_for_each_group(pair):
    ours, theirs = pair
    words = [w for n in range(4) for w in itertools.product(range(VOCAB), repeat=n)]

    def language(automaton):
        return {w for w in words if automaton.accepts(w)}

    expected = language(theirs)
    assert ours.edges() == theirs.edges()
    assert ours.is_deterministic == theirs.is_deterministic
    assert ours.is_unambiguous == theirs.is_unambiguous
    assert language(ours) == language(ours.trim()) == language(ours.partitioned) == expected
    dfa = ours.determinize()
    assert dfa.is_deterministic
    assert language(dfa) == expected
    assert ours.minimize().num_states == theirs.minimize().num_states
    for n in (1, 2):
        assert tt.count(ours, n=n, paths=True) == tt.count(theirs, n=n, paths=True)
        x = torch.tensor(list(itertools.product(range(VOCAB), repeat=n)))
        np.testing.assert_allclose(tt.log_marginal(ours, x), tt.log_marginal(theirs, x))


def test_saved_and_loaded(tmp_path):
    tokens = Incidence(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), (2, 3))
    automaton = tt.Automaton(np.array([(0, 0, 1), (1, 1, 0)]), tokens, [0], [1], 2, eos_token_id=2)
    save(automaton, tmp_path)
    again = load(tmp_path)
    assert isinstance(again, tt.Automaton)
    assert again.edges() == automaton.edges()
    assert again.eos_token_id == 2
