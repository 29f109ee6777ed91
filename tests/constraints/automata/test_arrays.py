"""Graphs as arrays against searching one state at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractile.constraints.automata import arrays, nfa
from tractile.constraints.automata import epsilon as epsilons
from tractile.errors import TooManyStates

GRAPHS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
        st.lists(st.integers(0, n - 1), max_size=3, unique=True),
    )
)


def distances(n: int, pairs: list[tuple[int, int]], start: list[int]) -> list[int]:
    """The edges from the start to each state, −1 for those not reachable."""
    found, queue = dict.fromkeys(start, 0), list(start)
    for state in queue:
        for target in (b for a, b in pairs if a == state):
            if target not in found:
                found[target] = found[state] + 1
                queue.append(target)
    return [found.get(state, -1) for state in range(n)]


@pytest.mark.parametrize(("few", "pairs_at_most", "many"), [(0, 3_000, 9), (300, 3_000, -1), (300, 2, 9)])
@given(GRAPHS)
def test_reachable_and_shortest_ways(few, pairs_at_most, many, graph):
    n, rows, start = graph
    expected = np.array(distances(n, rows, start))
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "FEW_STATES", few)
        patch.setattr(arrays, "FEW_PAIRS", pairs_at_most)
        patch.setattr(arrays, "MANY_PAIRS", many)
        np.testing.assert_array_equal(arrays.reachable(pairs, np.array(start, np.int64), n), expected >= 0)
        reached, before = arrays.breadth_first(pairs, np.array(start, np.int64), n)
    assert sorted(reached.tolist()) == np.flatnonzero(expected >= 0).tolist()
    assert (np.diff(expected[reached]) >= 0).all()
    for state, there in enumerate(before.tolist()):
        assert (there < 0) == (expected[state] < 0)
        assert (there == n) == (state in start)
        if 0 <= there < n:
            assert (there, state) in rows
            assert expected[there] == expected[state] - 1


def test_breadth_first_searches_of_any_size_find_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    for n, m in ((5, 20), (300, 900), (40, 2_000)):
        pairs, start = rng.integers(0, n, (m, 2)), rng.integers(0, n, 3)
        small = arrays.breadth_first(pairs, start, n)
        monkeypatch.setattr(arrays, "MANY_PAIRS", -1)
        large = arrays.breadth_first(pairs, start, n)
        monkeypatch.undo()
        for a, b in zip(small, large, strict=True):
            np.testing.assert_array_equal(a, b)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=50), st.sampled_from([41, 1 << 16, (1 << 16) + 1]))
def test_groups(keys, size):
    pointer, order = arrays.csr_index(np.array(keys), size)
    for key in range(41):
        members = order[pointer[key] : pointer[key + 1]].tolist()
        assert members == [i for i, k in enumerate(keys) if k == key]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("few", [0, 300])
def test_states_left_out_change_no_way_to_acceptance(seed, few, monkeypatch):
    """The states that some word visits, and the next one on a shortest way from each that is left."""
    monkeypatch.setattr(epsilons, "FEW_STATES", few)
    rng, n = np.random.default_rng(seed), 40
    source, byte, target = rng.integers([[n], [256], [n]], size=(3, 55))
    edges = np.column_stack([source, byte, byte, target])[np.argsort(source, kind="stable")]
    automaton = nfa.Nfa(
        n, edges, epsilons.NO_EPSILONS, rng.integers(n, size=2), np.unique(rng.integers(n, size=4))
    )
    keep = epsilons.useful(automaton)
    pairs = edges[:, [0, 3]].tolist()
    there = distances(n, pairs, automaton.start.tolist())
    left = distances(n, [(t, s) for s, t in pairs], automaton.accept.tolist())
    assert keep.tolist() == [a >= 0 and b >= 0 for a, b in zip(there, left, strict=True)]
    small = epsilons.only(automaton, keep)
    wanted = [d for d, k in zip(left, keep, strict=True) if k]
    reached, onward = small.to_accept
    assert sorted(reached.tolist()) == list(range(small.num_states))
    assert [wanted[s] for s in reached] == sorted(wanted)
    for state, after in enumerate(onward.tolist()):
        assert (after == small.num_states) == (state in small.accept)
        assert after == small.num_states or wanted[after] == wanted[state] - 1


@pytest.mark.parametrize("most", [5, 1 << 31, (1 << 62) - 1])
def test_distinct_rows_are_in_order(most):
    """Numbers of any size: three columns of large ones do not fit into one key of 64 bits."""
    rng = np.random.default_rng(0)
    few = rng.integers(0, most, (6, 3))
    rows = few[rng.integers(0, 6, 200)]
    rows[:, rng.integers(0, 3)] = few[0, 0]
    assert list(map(tuple, arrays.unique_rows(rows).tolist())) == sorted(set(map(tuple, rows.tolist())))


def test_limits_are_the_largest_numbers_allowed():
    arrays.check_limit(7, 7)
    with pytest.raises(TooManyStates):
        arrays.check_limit(8, 7)
