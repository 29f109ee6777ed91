"""Constructions on sets of states: determinise, minimise, decide ambiguity."""

from __future__ import annotations

import numpy as np
import torch

from ..errors import TooManyStates
from .automaton import Automaton


def determinize(automaton: Automaton, limit: int = 100_000) -> Automaton:
    """The deterministic automaton of the same language by the subset construction; :class:`TooManyStates` past ``limit``."""
    automaton = automaton.partitioned
    moves = automaton.transitions_by_class()
    start = frozenset(automaton.start_states)
    number, queue = {start: 0}, [start]
    rows: list[tuple[int, int, int]] = []
    while queue:
        subset = queue.pop()
        reached: dict[int, set[int]] = {}
        for s in subset:
            for klass, targets in moves[s].items():
                reached.setdefault(klass, set()).update(targets)
        for klass, union in reached.items():
            key = frozenset(union)
            if key not in number:
                if len(number) >= limit:
                    raise TooManyStates(
                        f"the deterministic automaton has more than {limit:,} states; pass a larger limit",
                        limit=limit,
                    )
                number[key] = len(number)
                queue.append(key)
            rows.append((number[subset], klass, number[key]))
    accept = set(automaton.accept_states)
    accepting = [i for key, i in number.items() if key & accept]
    token_class = automaton.labels.tokens
    made = Automaton(torch.tensor(rows), token_class, [0], accepting, len(number), automaton.eos_token_id)
    return made.for_vocabulary(automaton.vocabulary_fingerprint)


def minimize(automaton: Automaton, limit: int = 100_000) -> Automaton:
    """The smallest deterministic automaton of the same language (partition refinement; a dead state is implicit)."""
    dfa = determinize(automaton, limit).trim()
    states, classes = dfa.num_states, dfa.labels.num_classes
    table = torch.full((states + 1, classes), states, dtype=torch.long)  # row ``states`` is the dead state
    s, c, d = dfa.transitions.T
    table[s, c] = d
    block = torch.cat([dfa.final[0].long(), torch.zeros(1, dtype=torch.long)])
    while True:
        rows = torch.cat([block[:, None], block[table]], 1)
        refined = torch.unique(rows, dim=0, return_inverse=True)[1]
        if int(refined.max()) == int(block.max()) and len(torch.unique(refined)) == len(torch.unique(block)):
            break
        block = refined
    # the dead state's own class is dropped again by trim
    accepting = {int(block[i]) for i in dfa.accept_states}
    triples = torch.stack([block[s], c, block[d]], 1)
    start = [int(block[dfa.start_states[0]])]
    token_class = dfa.labels.tokens
    merged = Automaton(triples, token_class, start, accepting, int(block.max()) + 1, automaton.eos_token_id)
    return merged.for_vocabulary(automaton.vocabulary_fingerprint).trim()


def is_unambiguous(automaton: Automaton) -> bool:
    """Whether no accepted sequence has two accepting paths: no useful pair of distinct states in the self-product."""
    if automaton.is_deterministic:
        return True
    trimmed = automaton.trim().partitioned
    moves = trimmed.transitions_by_class()
    starts = trimmed.start_states
    frontier = [(p, q) for p in starts for q in starts if p <= q]
    seen, back = set(frontier), dict[tuple[int, int], set[tuple[int, int]]]()
    while frontier:
        p, q = frontier.pop()
        for klass in moves[p].keys() & moves[q].keys():
            for a in moves[p][klass]:
                for b in moves[q][klass]:
                    pair = (min(a, b), max(a, b))
                    back.setdefault(pair, set()).add((p, q))
                    if pair not in seen:
                        seen.add(pair)
                        frontier.append(pair)
    accept = set(trimmed.accept_states)
    useful = [pair for pair in seen if pair[0] in accept and pair[1] in accept]
    alive = set(useful)
    while useful:
        for previous in back.get(useful.pop(), ()):
            if previous not in alive:
                alive.add(previous)
                useful.append(previous)
    return all(p == q for p, q in alive)


def partition(automaton: Automaton) -> Automaton:
    """The same automaton with one partition of the vocabulary for all states: tokens with the same classes are one."""
    if automaton.labels.token_class is not None:
        return automaton
    classes = automaton.labels.classes
    rng = np.random.default_rng(4)
    names = rng.integers(1, 2**63, size=(2, automaton.labels.num_classes), dtype=np.uint64)
    row, col = classes.row.numpy(), classes.col.numpy()
    sums = np.zeros((2, automaton.vocab_size), np.uint64)  # a token is known by its classes, up to 2^-128
    for total, name in zip(sums, names, strict=True):
        np.add.at(total, col, name[row])
    _, first, inverse = np.unique(sums, axis=1, return_index=True, return_inverse=True)
    inside = np.bincount(col, minlength=automaton.vocab_size) > 0
    used = np.flatnonzero(inside[first])
    number = np.full(len(first), -1)
    number[used] = np.arange(len(used))
    token_class = number[inverse.reshape(-1)]
    pairs = np.unique(np.stack([row, token_class[col]], 1), axis=0)  # (old class, new class)
    begin = np.searchsorted(pairs[:, 0], np.arange(automaton.labels.num_classes + 1))
    s, c, d = automaton.transitions.numpy().T
    count = begin[c + 1] - begin[c]
    at = np.repeat(begin[c] - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    rows = np.stack([np.repeat(s, count), pairs[at, 1], np.repeat(d, count)], 1)
    starts, accepts = automaton.start_states, automaton.accept_states
    made = Automaton(rows, token_class, starts, accepts, automaton.num_states, automaton.eos_token_id)
    return made.for_vocabulary(automaton.vocabulary_fingerprint)
