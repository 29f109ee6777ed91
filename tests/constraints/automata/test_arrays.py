"""Graphs as arrays against searching one state at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractile.constraints.automata import arrays

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


@given(GRAPHS)
def test_reachable(graph):
    n, rows, start = graph
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    found = arrays.reachable(pairs, np.array(start, np.int64), n)
    assert found.tolist() == [d >= 0 for d in distances(n, rows, start)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=50), st.sampled_from([41, 1 << 16, (1 << 16) + 1]))
def test_groups(keys, size):
    pointer, order = arrays.csr_index(np.array(keys), size)
    for key in range(41):
        members = order[pointer[key] : pointer[key + 1]].tolist()
        assert members == [i for i, k in enumerate(keys) if k == key]


@pytest.mark.parametrize("most", [5, 1 << 31, (1 << 62) - 1])
def test_distinct_rows_are_in_order(most):
    """Numbers of any size: three columns of large ones do not fit into one key of 64 bits."""
    rng = np.random.default_rng(0)
    few = rng.integers(0, most, (6, 3))
    rows = few[rng.integers(0, 6, 200)]
    rows[:, rng.integers(0, 3)] = few[0, 0]
    assert list(map(tuple, arrays.unique_rows(rows).tolist())) == sorted(set(map(tuple, rows.tolist())))
