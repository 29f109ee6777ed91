"""Convert automata from edge lists, and from and to networkx and automata-lib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from ...argument_checks import short, whole
from ...errors import ShapeError
from ..automaton_algorithms import StateGraph
from ..transitions import MOST, numbers, too_many

if TYPE_CHECKING:
    import networkx as nx
    from automata.fa.fa import FA

Edge = tuple[int, int | Sequence[int], int]
Edges = tuple[list[Edge], list[int], list[int], int]
TokenEdge = tuple[int, int, list[int]]  # source, target, tokens


_FROM_EDGES = "Automaton.from_edges"


def from_edges(
    edges: Iterable[Edge], start: int | Iterable[int], accept: int | Iterable[int], vocab_size: int
) -> tuple[StateGraph, Int[np.ndarray, " vocab"]]:
    """Convert (source, token or tokens, target) triples to a state graph and the class of each token (−1: none).

    States are 0 … the largest one named. Raises :class:`ShapeError` for anything but whole numbers.
    """
    vocab_size = whole(vocab_size, f"{_FROM_EDGES}: vocab_size", 1, ShapeError)
    rows: list[tuple[int, int, int]] = []
    for edge in edges if isinstance(edges, Iterable) else [edges]:
        try:
            s, tokens, d = edge
        except (TypeError, ValueError):
            raise ShapeError(
                f"{_FROM_EDGES}: an edge is (source, token or tokens, target), not {short(edge)}"
            ) from None
        ends = numbers([s, d], f"{_FROM_EDGES}: a state")
        rows += [(ends[0], t, ends[1]) for t in numbers(tokens, f"{_FROM_EDGES}: a token", None)]
    if any(not 0 <= t < vocab_size for _, t, _ in rows):
        raise ShapeError(f"Automaton.from_edges: a token lies outside 0 … {vocab_size - 1}")
    starts, accepts = (numbers(s, f"{_FROM_EDGES}: a state") for s in (start, accept))
    num_states = max([*starts, *accepts, *(s for s, _, _ in rows), *(d for _, _, d in rows)], default=-1) + 1
    if vocab_size > MOST:
        raise too_many(vocab_size, "tokens")
    behaviour: dict[int, list[tuple[int, int]]] = {}
    for s, t, d in sorted(set(rows)):
        behaviour.setdefault(t, []).append((s, d))
    classes: dict[tuple[tuple[int, int], ...], int] = {}
    token_class = np.full(vocab_size, -1, dtype=np.int64)
    for t, moves in behaviour.items():
        token_class[t] = classes.setdefault(tuple(moves), len(classes))
    triples = [(s, c, d) for moves, c in classes.items() for s, d in moves]
    return StateGraph(np.array(triples, np.int64).reshape(-1, 3), starts, accepts, num_states), token_class


def to_networkx(graph: StateGraph, edges: list[TokenEdge], **attributes: Any) -> nx.MultiDiGraph:
    """Make a networkx graph with ``start`` and ``accept`` on nodes, ``tokens`` on edges, and attributes of its own."""
    import networkx as nx

    out: nx.MultiDiGraph = nx.MultiDiGraph(**attributes)
    starts, accepts = set(graph.start), set(graph.accept)
    for s in range(graph.num_states):
        out.add_node(s, start=s in starts, accept=s in accepts)
    for s, d, tokens in edges:
        out.add_edge(s, d, tokens=tokens)
    return out


def from_networkx(graph: nx.DiGraph, vocab_size: int | None = None) -> Edges:
    """Read edges, start states, accepting states and vocabulary size of a (multi)graph.

    Edges carry ``tokens``, nodes ``start`` and ``accept``. Raises :class:`ShapeError` if tokens or the vocabulary size are
    missing.
    """
    number = {node: i for i, node in enumerate(graph)}
    try:
        edges: list[Edge] = [(number[u], data["tokens"], number[v]) for u, v, data in graph.edges(data=True)]
        size = vocab_size if vocab_size is not None else graph.graph["vocab_size"]
    except KeyError as error:
        raise ShapeError(
            f"Automaton.from_networkx: {error} is missing (tokens on edges, vocab_size on the graph)"
        ) from error
    starts = [number[n] for n, data in graph.nodes(data=True) if data.get("start")]
    accepts = [number[n] for n, data in graph.nodes(data=True) if data.get("accept")]
    return edges, starts, accepts, size


def to_automata(graph: StateGraph, edges: list[TokenEdge], vocab_size: int) -> FA:
    """Make a DFA or NFA of the automata-lib package (extra ``automata``), whose symbols are the token ids as text."""
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    moves: dict[int, dict[str, set[int]]] = {s: {} for s in range(graph.num_states)}
    for s, d, tokens in edges:
        for t in tokens:
            moves[s].setdefault(str(t), set()).add(d)
    common: dict[str, Any] = {
        "input_symbols": set(map(str, range(vocab_size))),
        "final_states": set(graph.accept),
    }
    if len(graph.start) == 1 and all(len(d) == 1 for row in moves.values() for d in row.values()):
        table: Any = {s: {t: next(iter(d)) for t, d in row.items()} for s, row in moves.items()}
        states, start = set(moves), graph.start[0]
        return DFA(states=states, transitions=table, initial_state=start, allow_partial=True, **common)
    fresh = graph.num_states  # automata-lib has one start state: a new one with ε to all start states
    ways: dict[int, dict[str, set[int]]] = {**moves, fresh: {"": set(graph.start)}}
    return NFA(states=set(range(fresh + 1)), transitions=ways, initial_state=fresh, **common)


def from_automata(fa: FA, vocab_size: int) -> Edges:
    """Read edges, start states, accepting states and vocabulary size of a DFA or NFA of automata-lib; ε is removed.

    Symbols must be token ids. Raises :class:`ShapeError` for another symbol.
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

    edges, accepts = list[Edge](), list[int]()
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
    return edges, [number[machine.initial_state]], accepts, vocab_size
