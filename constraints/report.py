"""What a compiled constraint is like: how long its texts are, how many there are, and some of them."""

from __future__ import annotations

import random

import numpy as np

from ..circuits.automaton import Automaton
from .nfa import Nfa


def longest_in_tokens(fa: Automaton) -> int | None:
    """The most tokens of an accepted sequence, EOS counted once; ``None`` if there is no limit.

    For automata of ``Constraint.compile``: their sink, which loops on EOS, is the one accepting state that may repeat.
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


def number_of_texts(automaton: Nfa, most_bytes: int) -> int | None:
    """How many texts of at most ``most_bytes`` bytes are accepted; ``None`` if the automaton is not deterministic."""
    if not automaton.is_deterministic:
        return None
    ways = np.zeros(automaton.num_states, object)
    ways[automaton.start] = 1
    source, low, high, target = automaton.edges.T
    letters = (high - low + 1).astype(object)
    total = int(ways[automaton.accept].sum())
    for _ in range(most_bytes):
        onward = np.zeros_like(ways)
        np.add.at(onward, target, ways[source] * letters)
        ways = onward
        total += int(ways[automaton.accept].sum())
    return total


def random_texts(automaton: Nfa, count: int, seed: int = 0, most_bytes: int = 80) -> list[str]:
    """Different accepted texts, at most ``count``, drawn by walks that prefer printable ASCII and head for the end after
    ``most_bytes`` bytes. Fewer where there are fewer, or where ten times as many walks find no more."""
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
