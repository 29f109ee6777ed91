"""Statistics of a compiled constraint: longest sequence, number of texts, random examples."""

from __future__ import annotations

import random

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..circuits.automaton import Automaton
from .automata.arrays import csr_index, ragged_arange
from .automata.nfa import Nfa

MOST_EXACT = 2**53
"""The largest number of texts that is counted exactly."""
MOST_TEXTS = 1e300
"""The ceiling of counts of texts: larger numbers are cut to it."""


def longest_in_tokens(fa: Automaton) -> int | None:
    """Return the most tokens of an accepted sequence, with one EOS; None if there is no limit.

    For automata of ``Constraint.compile``: the accepting sink, which loops on EOS, is their only state that may repeat.
    """
    source, target = fa.edge_source.numpy(), fa.edge_target.numpy()
    keep = source != target if fa.eos_token_id is not None else np.ones(len(source), bool)
    sinks = np.asarray(fa.accept_states)
    if np.any((source == target) & ~np.isin(source, sinks)):
        return None
    source, target = source[keep], target[keep]
    length = np.zeros(fa.num_states, np.int64)
    waiting = np.bincount(target, minlength=fa.num_states)
    order = np.argsort(source, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=fa.num_states))])
    ready = np.flatnonzero(waiting == 0).tolist()
    for state in ready:
        onward = target[order[bounds[state] : bounds[state + 1]]]
        np.maximum.at(length, onward, length[state] + 1)
        np.subtract.at(waiting, onward, 1)
        ready += np.unique(onward[waiting[onward] == 0]).tolist()
    return None if len(ready) < fa.num_states else int(length[sinks].max())


def number_of_texts(automaton: Nfa, most_bytes: int | None = None) -> int | float | None:
    """Count the accepted texts, or only those of at most ``most_bytes`` bytes.

    Returns an ``int`` if the number is exact, and an approximate ``float``, at most ``MOST_TEXTS``, beyond 2^53. Returns None
    if the automaton is not deterministic, or if all texts are to be counted and there are infinitely many.
    """
    if not automaton.is_deterministic:
        return None
    automaton = automaton.plain
    if automaton.is_empty:
        return 0
    ways = _ways_by_order(automaton) if most_bytes is None else _ways_by_length(automaton, most_bytes)
    if ways is None:
        return None
    total = min(float(ways[automaton.accept].sum()), MOST_TEXTS)
    return int(total) if max(total, ways.max()) <= MOST_EXACT else total


def _ways_by_order(automaton: Nfa) -> Float[ndarray, " state"] | None:
    """Count the texts that lead to each state, in topological order; None if there is a cycle."""
    source, low, high, target = automaton.edges.T
    ways, done = np.zeros(automaton.num_states), 0
    ways[automaton.start] = 1
    waiting = np.bincount(target, minlength=automaton.num_states)
    pointer, order = csr_index(source, automaton.num_states)
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        done += len(ready)
        edges = order[ragged_arange(pointer[ready], pointer[ready + 1] - pointer[ready])]
        onward = target[edges]
        np.add.at(ways, onward, ways[source[edges]] * (high - low + 1)[edges])
        ways[onward] = np.minimum(ways[onward], MOST_TEXTS)
        np.subtract.at(waiting, onward, 1)
        ready = np.unique(onward[waiting[onward] == 0])
    return ways if done == automaton.num_states else None


def _ways_by_length(automaton: Nfa, most_bytes: int) -> Float[ndarray, " state"]:
    """Count the texts of at most ``most_bytes`` bytes that lead to each state."""
    source, low, high, target = automaton.edges.T
    letters = high - low + 1
    now = np.zeros(automaton.num_states)
    now[automaton.start] = 1
    ways = now.copy()
    for _ in range(most_bytes):
        onward = np.bincount(target, now[source] * letters, automaton.num_states)
        now = np.minimum(onward, MOST_TEXTS).astype(np.float64)
        ways = np.minimum(ways + now, MOST_TEXTS)
    return ways


def random_texts(automaton: Nfa, count: int, seed: int = 0, most_bytes: int = 80) -> list[str]:
    """Draw at most ``count`` different accepted texts by random walks.

    The walks prefer printable ASCII, and take a shortest way to acceptance after ``most_bytes`` bytes. Fewer texts are
    returned if there are fewer, or if ``10 * count`` walks find no more.
    """
    rng = random.Random(seed)
    accept = set(automaton.accept.tolist())
    leaving: dict[int, list[list[int]]] = {}
    entering: dict[int, list[int]] = {}
    for edge in automaton.edges.tolist():
        leaving.setdefault(edge[0], []).append(edge)
        entering.setdefault(edge[3], []).append(edge[0])
    distance = dict.fromkeys(accept, 0)
    frontier = list(accept)
    for state in frontier:
        for before in entering.get(state, ()):
            if before not in distance:
                distance[before] = distance[state] + 1
                frontier.append(before)
    found: dict[str, None] = {}
    for _ in range(10 * count):
        if len(found) == count:
            break
        state, word = rng.choice(automaton.start.tolist()), bytearray()
        while state not in accept or (state in leaving and len(word) < most_bytes and rng.random() < 0.7):
            options = leaving[state]
            if len(word) >= most_bytes:
                options = [edge for edge in options if distance[edge[3]] < distance[state]]
            plain = [edge for edge in options if edge[1] < 0x7F and edge[2] >= 0x20]
            _, low, high, state = rng.choice(plain or options)
            word.append(rng.randint(max(low, 0x20), min(high, 0x7E)) if plain else rng.randint(low, high))
        found[word.decode()] = None
    return list(found)
