"""The intersection of two automata: the sequences that both accept, by pairs of states."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..errors import TooManyStates
from ..fingerprints import check_vocabularies
from .automaton import Automaton
from .automaton_algorithms import DETERMINIZE_LIMIT, StateGraph, split_classes, trim

Rows = list[tuple[int, int, int]]


def intersect(a: Automaton, b: Automaton, limit: int = DETERMINIZE_LIMIT) -> Automaton:
    """Return the automaton of the sequences that both automata accept, trimmed; deterministic if both are.

    It ends with the end token of either and lists what either leaves out (``narrowed``). Raises :class:`VocabularyMismatch`
    for two vocabularies, :class:`TooManyStates` past ``limit`` pairs of states.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits import intersect
    >>> ends_in_1 = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 1, 1)], start=0, accept=[1], vocab_size=2)
    >>> two = tt.Automaton.from_edges([(0, [0, 1], 1), (1, [0, 1], 2)], start=0, accept=[2], vocab_size=2)
    >>> both = intersect(ends_in_1, two)
    >>> both.accepts([0, 1]), both.accepts([1, 0]), both.accepts([0, 0, 1])
    (True, False, False)
    """
    check_vocabularies(
        "the first automaton", a, "the second", b, "compile both constraints with one vocabulary"
    )
    first, second = a.partitioned, b.partitioned
    token_class, ours, theirs = common_partition(first.labels.tokens.numpy(), second.labels.tokens.numpy())  # type: ignore[union-attr]
    graph = trim(_pairs(split_classes(first.graph, ours), split_classes(second.graph, theirs), limit))
    eos = a.eos_token_id if b.eos_token_id is None else b.eos_token_id
    made = Automaton(
        graph.transitions, token_class, graph.start, graph.accept, graph.num_states, eos, trusted=True
    )
    made.narrowed = (*a.narrowed, *(cut for cut in b.narrowed if cut not in a.narrowed))
    return made.for_vocabulary(a.vocabulary_fingerprint or b.vocabulary_fingerprint)


def common_partition(
    a: Int[ndarray, " vocab"], b: Int[ndarray, " vocab"]
) -> tuple[Int[ndarray, " vocab"], Int[ndarray, "pairs 2"], Int[ndarray, "pairs 2"]]:
    """Return the common refinement of two partitions of the tokens, and for both the pairs (old class, new class), sorted.

    Tokens without a class (−1) in either have none in the refinement.
    """
    token_class = np.full(len(a), -1)
    inside = (a >= 0) & (b >= 0)
    found, number = np.unique(np.stack([a[inside], b[inside]], 1), axis=0, return_inverse=True)
    token_class[inside] = number.reshape(-1)
    first, second = (np.stack([old, np.arange(len(found))], 1) for old in found.T)
    return token_class, first, second[np.argsort(second[:, 0], kind="stable")]


def _pairs(a: StateGraph, b: StateGraph, limit: int) -> StateGraph:
    """Return the graph of the pairs of states that are reached together; both graphs use one partition of the tokens."""
    ours, theirs = a.by_class(), b.by_class()
    queue = [(p, q) for p in dict.fromkeys(a.start) for q in dict.fromkeys(b.start)]
    number, rows = {pair: i for i, pair in enumerate(queue)}, Rows()
    start = list(range(len(queue)))
    while queue:
        p, q = pair = queue.pop()
        for klass in ours[p].keys() & theirs[q].keys():
            for reached in ((d, e) for d in ours[p][klass] for e in theirs[q][klass]):
                if reached not in number:
                    if len(number) >= limit:
                        raise TooManyStates(
                            f"intersect: the automata of {a.num_states:,} and {b.num_states:,} states reach more than "
                            f"{limit:,} pairs of states; minimise both, or pass a larger limit",
                            limit=limit,
                        )
                    number[reached] = len(number)
                    queue.append(reached)
                rows.append((number[pair], klass, number[reached]))
    ends_a, ends_b = set(a.accept), set(b.accept)
    accept = [i for (p, q), i in number.items() if p in ends_a and q in ends_b]
    return StateGraph(np.array(rows, np.int64).reshape(-1, 3), start, accept, len(number))
