"""Automata: construction, conversion, determinise, minimise, trim and ambiguity against enumeration."""

import itertools

import networkx as nx
import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.circuits.automaton_algorithms import token_partition
from tractile.errors import ShapeError, VocabularyMismatch

FEW = settings(max_examples=40, deadline=None)
LONGEST = 5


def words(vocab_size, longest=LONGEST):
    return [x for n in range(longest + 1) for x in itertools.product(range(vocab_size), repeat=n)]


def language(automaton, longest=LONGEST):
    return {x for x in words(automaton.vocab_size, longest) if automaton.accepts(x)}


def drawn(data, deterministic=None):
    vocab_size = data.draw(st.integers(1, 3))
    return data.draw(oracle.fsas(vocab_size, deterministic))


def residuals(fsa):
    """Myhill–Nerode on the subset automaton: the number of distinct non-empty sets {w : u w is accepted}."""
    start = frozenset(fsa.start)
    table, queue = {}, [start]
    while queue:
        states = queue.pop()
        if states not in table:
            table[states] = tuple(
                frozenset(d for s, t, d in fsa.edges if s in states and t == v) for v in range(fsa.vocab_size)
            )
            queue += table[states]
    kind = {s: bool(s & set(fsa.accept)) for s in table}
    while True:
        rows = {s: (kind[s], *(kind[t] for t in after)) for s, after in table.items()}
        number = {row: i for i, row in enumerate(set(rows.values()))}
        if len(number) == len(set(kind.values())):
            break
        kind = {s: number[row] for s, row in rows.items()}
    empty = {s for s in table if not oracle.alive(fsa, sorted(s))}
    return len({kind[s] for s in table if s not in empty})


# ----------------------------------------------------------------------------------------------------- construction


@given(st.data())
@FEW
def test_from_edges_accepts_what_its_paths_accept(data):
    fsa = drawn(data)
    automaton = fsa.build()
    assert all(automaton.accepts(x) == fsa.accepts(x) for x in words(fsa.vocab_size))
    assert automaton.is_deterministic == fsa.deterministic
    assert automaton.num_edges == len({(s, d) for s, _, d in fsa.edges})
    assert automaton.start_states == sorted(set(fsa.start))
    assert automaton.accept_states == sorted(set(fsa.accept))
    written = {(s, v, d) for s, d, tokens in automaton.edges() for v in tokens}
    assert written == set(fsa.edges)


@given(st.data())
@FEW
def test_from_transitions_with_classes_of_tokens(data):
    """Tokens by class, some allowed nowhere, classes without a token of their own behaviour, rows given twice."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    classes, states, vocab_size = 3, 3, 6
    token_class = np.append(np.arange(classes), rng.integers(-1, classes, vocab_size - classes))
    rows = rng.integers(0, [states, classes, states], (7, 3))
    automaton = tt.Automaton.from_transitions(*rows.T, token_class, [0, 1], [2], states, eos_token_id=4)
    edges = [(int(s), v, int(d)) for s, c, d in rows for v in range(vocab_size) if token_class[v] == c]
    fsa = oracle.OracleFSA(edges, [0, 1], [2], vocab_size)
    assert automaton.eos_token_id == 4
    assert tt.count(automaton, n=0, paths=True) == 0
    for n in range(1, 4):
        x = torch.tensor(list(itertools.product(range(vocab_size), repeat=n)))
        counts = tt.log_marginal(automaton, x).exp()
        np.testing.assert_allclose(counts, fsa.total(n).flatten(), rtol=1e-6)
        assert tt.count(automaton, n=n, paths=True) == fsa.total(n).sum()


BAD = {
    "a token outside": lambda: tt.Automaton.from_edges([(0, 5, 1)], 0, [1], 3),
    "a negative token": lambda: tt.Automaton.from_edges([(0, -1, 1)], 0, [1], 3),
    "a negative state": lambda: tt.Automaton.from_edges([(0, 1, -1)], 0, [0], 3),
    "no start": lambda: tt.Automaton.from_edges([(0, 1, 1)], [], [1], 3),
    "no state": lambda: tt.Automaton.from_edges([], [], [], 3),
    "a state outside": lambda: tt.Automaton.from_transitions([0], [0], [7], [0], [0], [0], 2),
    "a start outside": lambda: tt.Automaton.from_transitions([0], [0], [1], [0], [2], [0], 2),
    "an accept outside": lambda: tt.Automaton.from_transitions([0], [0], [1], [0], [0], [2], 2),
    "a class outside": lambda: tt.Automaton.from_transitions([0], [3], [1], [0, 1], [0], [0], 2),
    "a negative class": lambda: tt.Automaton.from_transitions([0], [-1], [1], [0, 1], [0], [0], 2),
    "an empty vocabulary": lambda: tt.Automaton.from_edges([], 0, [0], 0),
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused(what):
    with pytest.raises(ShapeError):
        BAD[what]()


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_that_does_not_exist_is_refused(token):
    automaton = tt.Automaton.from_edges([(0, 2, 0)], 0, [0], 3)
    with pytest.raises(VocabularyMismatch, match="token"):
        automaton.accepts([token])


# ---------------------------------------------------------------------------------------------------- constructions


@given(st.data())
@FEW
def test_determinize_keeps_the_language(data):
    fsa = drawn(data)
    dfa = fsa.build().determinize()
    assert dfa.is_deterministic
    assert language(dfa) == {x for x in words(fsa.vocab_size) if fsa.accepts(x)}
    assert dfa.num_states <= 2 ** fsa.build().num_states


@given(st.data())
@FEW
def test_minimize_keeps_the_language_with_the_fewest_states(data):
    fsa = drawn(data)
    small = fsa.build().minimize()
    assert small.is_deterministic
    assert language(small) == {x for x in words(fsa.vocab_size) if fsa.accepts(x)}
    assert small.num_states == max(1, residuals(fsa))


@given(st.data())
@FEW
def test_trim_keeps_the_language_and_only_useful_states(data):
    fsa = drawn(data)
    automaton = fsa.build()
    trimmed = automaton.trim()
    expected = {x for x in words(fsa.vocab_size) if fsa.accepts(x)}
    assert language(trimmed) == expected
    useful = [
        s
        for s in range(automaton.num_states)
        if oracle.alive(fsa, [s]) and any(s in fsa.states(x) for x in words(fsa.vocab_size, 4))
    ]
    assert trimmed.num_states == max(1, len(useful))
    for n in range(1, 4):
        assert tt.count(trimmed, n=n, paths=True) == fsa.total(n).sum()


@given(st.data())
@FEW
def test_unambiguous_is_at_most_one_accepting_path(data):
    """Against enumeration: with S states an ambiguity shows within S² + 1 tokens; here up to 8."""
    fsa = drawn(data, deterministic=False)
    automaton = fsa.build()
    longest = {1: 17, 2: 8, 3: 6}[fsa.vocab_size]
    most = max(fsa.total(n).max() for n in range(longest + 1))
    if automaton.num_states <= 2 or fsa.vocab_size == 1 or most > 1:
        assert automaton.is_unambiguous == (most <= 1)
    elif automaton.is_unambiguous:
        assert most <= 1


# ------------------------------------------------------------------------------------------------------- conversions


@given(st.data())
@FEW
def test_networkx_and_back(data):
    fsa = drawn(data)
    automaton = fsa.build()
    graph = automaton.to_networkx()
    assert isinstance(graph, nx.MultiDiGraph)
    again = tt.Automaton.from_networkx(graph)
    assert again.edges() == automaton.edges()
    assert (again.start_states, again.accept_states) == (automaton.start_states, automaton.accept_states)
    assert again.vocab_size == automaton.vocab_size


def test_from_networkx_takes_any_names_and_says_what_is_missing():
    graph = nx.DiGraph()
    graph.add_node("begin", start=True)
    graph.add_node("end", accept=True)
    graph.add_edge("begin", "end", tokens=[1, 2])
    graph.add_edge("end", "end", tokens=0)
    assert language(tt.Automaton.from_networkx(graph, vocab_size=3), 2) == {(1,), (2,), (1, 0), (2, 0)}
    with pytest.raises(ShapeError, match="vocab_size"):
        tt.Automaton.from_networkx(graph)
    graph.add_edge("end", "begin")
    with pytest.raises(ShapeError, match="tokens"):
        tt.Automaton.from_networkx(graph, vocab_size=3)
    with pytest.raises(ShapeError, match="start"):
        tt.Automaton.from_networkx(nx.DiGraph(vocab_size=3))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_automata_lib_and_back(data):
    pytest.importorskip("automata")
    fsa = drawn(data)
    automaton = fsa.build()
    peer = automaton.to_automata()
    expected = {x for x in words(fsa.vocab_size) if fsa.accepts(x)}
    assert {x for x in words(fsa.vocab_size) if peer.accepts_input(map(str, x))} == expected
    assert language(tt.Automaton.from_automata(peer, fsa.vocab_size)) == expected


def test_epsilon_transitions_of_automata_lib_are_removed():
    nfas = pytest.importorskip("automata.fa.nfa")
    peer = nfas.NFA(
        states={"a", "b", "c", "d"},
        input_symbols={0, 1},
        transitions={"a": {"": {"b", "c"}}, "b": {0: {"b"}, "": {"d"}}, "c": {1: {"d"}}, "d": {"": {"a"}}},
        initial_state="a",
        final_states={"d"},
    )
    automaton = tt.Automaton.from_automata(peer, 2)
    assert language(automaton) == {x for x in words(2) if peer.accepts_input(x)} == set(words(2))
    with pytest.raises(ShapeError, match="'l'"):
        tt.Automaton.from_automata(nfas.NFA.from_regex("l", input_symbols={"l"}), 2)


# ------------------------------------------------------------------------------------------------------------- moves


@pytest.mark.parametrize("seed", range(20))
def test_overlapping_classes_are_split_into_a_partition_of_the_tokens(seed):
    """Two tokens are in one part exactly if they are in the same classes; those in none, the last ones too, in no part."""
    rng = np.random.default_rng(seed)
    classes, vocab_size = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    member = rng.random((classes, vocab_size)) < 0.4
    member[:, vocab_size - 1] &= bool(seed % 2)
    part, pairs = token_partition(*np.nonzero(member), classes, vocab_size)
    assert ((part >= 0) == member.any(0)).all()
    inside = np.flatnonzero(part >= 0)
    for a, b in itertools.product(inside.tolist(), repeat=2):
        assert (part[a] == part[b]) == bool((member[:, a] == member[:, b]).all())
    assert sorted(set(part[inside].tolist())) == list(range(len(set(part[inside].tolist()))))
    found = sorted({(k, int(part[t])) for k, t in zip(*np.nonzero(member), strict=True)})
    assert [tuple(pair) for pair in pairs.tolist()] == found


@given(st.data())
@FEW
def test_whether_acceptance_extends_is_what_its_definition_says(data):
    fsa = drawn(data)
    built = fsa.build()
    sources = {s for s, t, _ in built.edges() if t in built.accept_states}
    assert built.acceptance_extends == (set(built.accept_states) <= sources)
