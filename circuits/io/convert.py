"""From edges, and from and to other libraries: automata of networkx, automata-lib and OpenFST's text format, HMMs of hmmlearn."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...errors import FormatError, ShapeError
from ..automaton import Automaton, Edge
from ..hmm import HMM

if TYPE_CHECKING:
    import networkx as nx
    from automata.fa.fa import FA


def from_edges(
    edges: Iterable[Edge],
    start: int | Iterable[int],
    accept: Iterable[int],
    vocab_size: int,
    eos_token_id: int | None = None,
) -> Automaton:
    """From (source, token or tokens, target) triples by token id; states are 0 … the largest one named."""
    rows = [
        (int(s), int(t), int(d))
        for s, tokens, d in edges
        for t in (tokens if isinstance(tokens, Iterable) else [tokens])
    ]
    if any(not 0 <= t < vocab_size for _, t, _ in rows):
        raise ShapeError(f"Automaton.from_edges: a token lies outside 0 … {vocab_size - 1}")
    starts = [int(s) for s in (start if isinstance(start, Iterable) else [start])]
    accepts = [int(s) for s in accept]
    num_states = max([*starts, *accepts, *(s for s, _, _ in rows), *(d for _, _, d in rows)], default=-1) + 1
    behaviour: dict[int, list[tuple[int, int]]] = {}
    for s, t, d in sorted(set(rows)):
        behaviour.setdefault(t, []).append((s, d))
    classes: dict[tuple[tuple[int, int], ...], int] = {}
    token_class = np.full(vocab_size, -1, dtype=np.int64)
    for t, moves in behaviour.items():
        token_class[t] = classes.setdefault(tuple(moves), len(classes))
    triples = [(s, c, d) for moves, c in classes.items() for s, d in moves]
    return Automaton(np.array(triples), token_class, starts, accepts, num_states, eos_token_id)


def to_networkx(automaton: Automaton) -> nx.MultiDiGraph:
    """A MultiDiGraph with an edge for each pair of states; ``tokens`` on edges, ``start`` and ``accept`` on nodes."""
    import networkx as nx

    graph = nx.MultiDiGraph(
        vocab_size=automaton.vocab_size,
        eos_token_id=automaton.eos_token_id,
        vocabulary_fingerprint=automaton.vocabulary_fingerprint,
    )
    starts, accepts = set(automaton.start_states), set(automaton.accept_states)
    for s in range(automaton.num_states):
        graph.add_node(s, start=s in starts, accept=s in accepts)
    for s, d, tokens in automaton.edges():
        graph.add_edge(s, d, tokens=tokens)
    return graph


def from_networkx(graph: nx.DiGraph, vocab_size: int | None = None) -> Automaton:
    """From a (multi)graph whose edges carry ``tokens`` and whose nodes carry ``start`` and ``accept``."""
    number = {node: i for i, node in enumerate(graph)}
    try:
        edges = [(number[u], data["tokens"], number[v]) for u, v, data in graph.edges(data=True)]
        size = vocab_size if vocab_size is not None else graph.graph["vocab_size"]
    except KeyError as error:
        raise ShapeError(
            f"Automaton.from_networkx: {error} is missing (tokens on edges, vocab_size on the graph)"
        ) from error
    starts = [number[n] for n, data in graph.nodes(data=True) if data.get("start")]
    accepts = [number[n] for n, data in graph.nodes(data=True) if data.get("accept")]
    made = Automaton.from_edges(edges, starts, accepts, size, graph.graph.get("eos_token_id"))
    return made.for_vocabulary(graph.graph.get("vocabulary_fingerprint"))


def to_automata(automaton: Automaton) -> FA:
    """A DFA or NFA of the automata-lib package (extra ``automata``); a token is its id as text, since symbols there are texts."""
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    moves: dict[int, dict[str, set[int]]] = {s: {} for s in range(automaton.num_states)}
    for s, d, tokens in automaton.edges():
        for t in tokens:
            moves[s].setdefault(str(t), set()).add(d)
    common: dict[str, Any] = {
        "input_symbols": set(map(str, range(automaton.vocab_size))),
        "final_states": set(automaton.accept_states),
    }
    if automaton.is_deterministic:
        table: Any = {s: {t: next(iter(d)) for t, d in row.items()} for s, row in moves.items()}
        states, start = set(range(automaton.num_states)), automaton.start_states[0]
        return DFA(states=states, transitions=table, initial_state=start, allow_partial=True, **common)
    fresh = automaton.num_states  # automata-lib has one start state: reach ours by ε
    ways: dict[int, dict[str, set[int]]] = {**moves, fresh: {"": set(automaton.start_states)}}
    return NFA(states=set(range(fresh + 1)), transitions=ways, initial_state=fresh, **common)


def from_automata(fa: FA, vocab_size: int) -> Automaton:
    """From a DFA or NFA of automata-lib whose symbols are token ids, as numbers or as text; ε-transitions are removed.

    Raises :class:`ShapeError` for another symbol.
    """
    from automata.fa.nfa import NFA

    machine: Any = fa
    number = {state: i for i, state in enumerate(sorted(machine.states, key=repr))}
    single = not isinstance(fa, NFA)
    rows: dict[Any, dict[Any, set[Any]]] = {
        s: {t: {d} if single else set(d) for t, d in row.items()} for s, row in machine.transitions.items()
    }

    def closure(state: Any) -> set[Any]:
        seen, queue = {state}, [state]
        while queue:
            for d in rows.get(queue.pop(), {}).get("", ()):
                if d not in seen:
                    seen.add(d)
                    queue.append(d)
        return seen

    def token(symbol: Any) -> int:
        try:
            return int(symbol)
        except (TypeError, ValueError):
            raise ShapeError(f"Automaton.from_automata: the symbol {symbol!r} is not a token id") from None

    edges, accepts = [], []
    for state, i in number.items():
        reach = closure(state)
        edges += [
            (i, token(t), number[d])
            for s in reach
            for t, ds in rows.get(s, {}).items()
            if t != ""
            for d in ds
        ]
        if reach & set(machine.final_states):
            accepts.append(i)
    return Automaton.from_edges(edges, number[machine.initial_state], accepts, vocab_size)


def to_openfst(automaton: Automaton) -> str:
    """OpenFST's text format for an unweighted acceptor, for ``fstcompile --acceptor``.

    A line "source target label" for each transition and "state" for each accepting state; the first line's source is the
    start. Label 0 is OpenFST's ε, so token t is label t + 1. Several start states become one of their own.
    """
    starts, accepts = automaton.start_states, automaton.accept_states
    arcs = [(s, d, t + 1) for s, d, tokens in automaton.edges() for t in tokens]
    start = starts[0]
    if len(starts) > 1:
        start = automaton.num_states
        arcs += [(start, d, t) for d, t in dict.fromkeys((d, t) for s, d, t in arcs if s in starts)]
        accepts = [*accepts, start] if set(starts) & set(accepts) else accepts
    lines = [f"{s}\t{d}\t{t}" for s, d, t in sorted(arcs, key=lambda arc: (arc[0] != start, arc))]
    if not any(s == start for s, _, _ in arcs):
        lines.insert(0, f"{start}" if start in accepts else f"{start}\tInfinity")
        accepts = [s for s in accepts if s != start]
    return "\n".join([*lines, *map(str, accepts)]) + "\n"


def from_openfst(text: str, vocab_size: int) -> Automaton:
    """From OpenFST's text format for an unweighted acceptor: label t + 1 is token t, ε-transitions (label 0) are removed.

    Raises :class:`FormatError`, naming the line, for weights other than 0, for labels past the vocabulary and for lines
    that are neither an arc nor an accepting state.
    """
    import networkx as nx

    arcs: list[tuple[int, int, int]] = []
    accepts: set[int] = set()
    start: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            state = int(fields[0])
            weight = float(fields[-1]) if len(fields) in (2, 4) else 0.0
            target, label = (int(fields[1]), int(fields[2])) if len(fields) in (3, 4) else (state, 0)
        except ValueError:
            raise FormatError(f"from_openfst: line {number} ({line!r}) must hold numbers") from None
        if len(fields) > 4 or min(state, target, label) < 0 or label > vocab_size or weight not in (0.0, inf):
            raise FormatError(
                f"from_openfst: line {number} ({line!r}) is not an unweighted arc or accepting state over {vocab_size} tokens"
            )
        start = state if start is None else start
        if len(fields) > 2 and weight == 0.0:
            arcs.append((state, target, label))
        elif weight == 0.0:
            accepts.add(state)
    if start is None:
        raise FormatError("from_openfst: the text is empty: an acceptor has at least a start state")
    silent: nx.DiGraph = nx.DiGraph((s, d) for s, d, label in arcs if label == 0)
    states = {start, *accepts, *(s for s, _, _ in arcs), *(d for _, d, _ in arcs)}
    silent.add_nodes_from(states)
    before: dict[int, set[int]] = {s: {s} | set(nx.ancestors(silent, s)) for s in states}
    number_of = {s: i for i, s in enumerate(sorted(states))}
    edges = [(number_of[p], label - 1, number_of[d]) for s, d, label in arcs if label > 0 for p in before[s]]
    ends = {number_of[p] for s in accepts for p in before[s]}
    return Automaton.from_edges(edges, number_of[start], sorted(ends), vocab_size)


def from_hmmlearn(model: Any, dtype: torch.dtype = torch.float64) -> HMM:
    """An HMM from a fitted ``CategoricalHMM`` of the hmmlearn package; :class:`FormatError` for anything else."""
    try:
        parts = [model.startprob_, model.transmat_, model.emissionprob_]
        initial, transition, emission = (torch.as_tensor(part, dtype=dtype) for part in parts)
        return HMM(initial, transition, emission)
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(
            f"from_hmmlearn: {type(model).__name__} is not a fitted CategoricalHMM: {error}"
        ) from error


def to_hmmlearn(hmm: HMM) -> Any:
    """A ``CategoricalHMM`` of the hmmlearn package (which must be installed) with the same probabilities."""
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(n_components=hmm.hidden, n_features=hmm.vocab_size)
    model.startprob_ = hmm.initial_probs.detach().double().cpu().numpy()
    model.transmat_ = hmm.transition.dense().detach().double().cpu().numpy()
    model.emissionprob_ = hmm.emission_probs.detach().double().cpu().numpy()
    return model
