"""Automata from and to other libraries: networkx and automata-lib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx

from ..errors import ShapeError
from .automaton import Automaton

if TYPE_CHECKING:
    from automata.fa.fa import FA


def to_networkx(automaton: Automaton) -> nx.MultiDiGraph:
    """A MultiDiGraph with an edge for each pair of states; ``tokens`` on edges, ``start`` and ``accept`` on nodes."""
    graph = nx.MultiDiGraph(vocab_size=automaton.vocab_size, eos_token_id=automaton.eos_token_id)
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
    return Automaton.from_edges(edges, starts, accepts, size, graph.graph.get("eos_token_id"))


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
