"""Convert automata from and to OpenFST's text format for unweighted acceptors."""

from __future__ import annotations

from math import inf

from ...errors import FormatError
from ..automaton import Automaton


def to_openfst(automaton: Automaton) -> str:
    """Write an automaton in OpenFST's text format for an unweighted acceptor, for ``fstcompile --acceptor``.

    There is a line "source target label" for each transition and a line "state" for each accepting state; the source of the
    first line is the start state. Label 0 is OpenFST's ε, so token t is label t + 1. Several start states are replaced by one
    new start state.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits import to_openfst
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> for line in to_openfst(one).splitlines():
    ...     print(*line.split())
    0 0 1
    0 1 2
    1 1 1
    1
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
    r"""Read OpenFST's text format of an unweighted acceptor: label t + 1 is token t, ε-transitions (label 0) are removed.

    Raises :class:`FormatError`, naming the line, for weights other than 0, for labels past the vocabulary and for lines
    that are neither an arc nor an accepting state.

    Examples
    --------
    >>> from tractile.circuits import from_openfst
    >>> one = from_openfst("0 0 1\n0 1 2\n1 1 1\n1\n", vocab_size=2)  # label 1 is token 0, label 2 is token 1
    >>> one.accepts([0, 1]), one.accepts([1, 1])
    (True, False)
    """
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
    import networkx as nx

    silent: nx.DiGraph = nx.DiGraph((s, d) for s, d, label in arcs if label == 0)
    states = {start, *accepts, *(s for s, _, _ in arcs), *(d for _, d, _ in arcs)}
    silent.add_nodes_from(states)
    before: dict[int, set[int]] = {s: {s} | set(nx.ancestors(silent, s)) for s in states}
    number_of = {s: i for i, s in enumerate(sorted(states))}
    edges = [(number_of[p], label - 1, number_of[d]) for s, d, label in arcs if label > 0 for p in before[s]]
    ends = {number_of[p] for s in accepts for p in before[s]}
    return Automaton.from_edges(edges, number_of[start], sorted(ends), vocab_size)
