"""From bytes to tokens: the transitions of every token of a vocabulary, found together.

    f_token = f_byte1 ; f_byte2 ; ...        f_byte = { (p, q) : p --byte--> q }

A token acts on the states of a byte automaton as a relation, the composition of those of its bytes. The walk goes down
the vocabulary's trie level by level, carrying for every node the *number* of its relation instead of its states: nodes
that act alike share it, each (relation, byte class) is composed only once, and nodes whose relation is empty are
dropped with all below them. A state that loops on a set of bytes thus takes all tokens made of them as one relation, and
in a string of at most n characters all tokens of k characters are one. What is left over for each token is one table
look-up; tokens with the same relation are one class.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..errors import EmptyLanguage
from . import limits
from .automata import request_limits
from .automata.arrays import ragged_arange, reachable, unique_rows
from .automata.nfa import Nfa, check_limit
from .vocabulary.vocabulary import Vocabulary

UNKNOWN, DEAD, IDENTITY = -1, 0, 1


class TokenTransitions(NamedTuple):
    """What :meth:`.Automaton.from_transitions` makes a token-level automaton of: a row for each (source, class, target)."""

    source: Int[ndarray, " row"]
    token_class_of_edge: Int[ndarray, " row"]
    target: Int[ndarray, " row"]
    token_class: Int[ndarray, " token"]  # -1: never allowed
    start: Int[ndarray, " start"]
    accept: Int[ndarray, " accept"]
    num_states: int


class Relations:
    """A growing list of distinct relations on states, and what each becomes after one more byte.

    Relation i is the rows ``begin[i] .. begin[i + 1]`` of ``source`` and ``target``. Relation 0 is empty and stays so
    (``DEAD``); relation 1 is the identity.
    """

    def __init__(self, rows: Int[ndarray, "row 3"], states: int, classes: int) -> None:
        self.classes, self.onward = classes, rows[:, 2]
        count = np.bincount(rows[:, 0] * classes + rows[:, 1], minlength=states * classes)
        self.pointer = np.concatenate([[0], np.cumsum(count)])  # by (state, class), into onward
        self.weight = np.random.default_rng(3).integers(1, 2**63, size=(2, 2, states), dtype=np.uint64)
        self.number: dict[tuple[int, int], int] = {(0, 0): DEAD}
        self.begin = np.zeros(2, np.int64)
        self.source = self.target = np.empty(0, np.int64)
        self.after = np.full((256, classes), UNKNOWN)  # relation, class -> relation
        self.after[DEAD] = DEAD
        everyone = np.arange(states)
        self.add(np.zeros(states, np.int64), everyone, everyone, 1)

    def add(
        self,
        owner: Int[ndarray, " pair"],
        source: Int[ndarray, " pair"],
        target: Int[ndarray, " pair"],
        size: int,
    ) -> Int[ndarray, " owner"]:
        """Add ``size`` relations given by their pairs, owners ascending; return their numbers.
        ``DEAD`` stands for those without pairs."""
        count = np.bincount(owner, minlength=size)
        begin = np.cumsum(count) - count
        alive = np.flatnonzero(count)
        result = np.full(size, DEAD)
        if not len(alive):
            return result
        # Two sums over the pairs of w(source) * w'(target), modulo 2^64: equal for equal relations, and for unequal ones
        # with a chance of about 2^-120.
        sums = [np.add.reduceat(w[0][source] * w[1][target], begin[alive]).tolist() for w in self.weight]
        fresh = []
        for index, key in zip(alive.tolist(), zip(*sums, strict=True), strict=True):
            if key not in self.number:
                self.number[key] = len(self.number)
                fresh.append(index)
            result[index] = self.number[key]
        new = np.array(fresh, np.int64)
        take = ragged_arange(begin[new], count[new])
        used, size = int(self.begin[-1]), int(self.begin[-1]) + len(take)
        check_limit(size, limits.TRANSITIONS)
        if size > len(self.source):
            self.source, self.target = (
                np.resize(column[:used], 2 * size) for column in (self.source, self.target)
            )
        self.source[used:size], self.target[used:size] = source[take], target[take]
        self.begin = np.concatenate([self.begin, used + np.cumsum(count[new])])
        if len(self.number) > len(self.after):
            grown = np.full((2 * len(self.number), self.classes), UNKNOWN)
            grown[: len(self.after)] = self.after
            self.after = grown
        return result

    def pairs(
        self, relations: Int[ndarray, " n"]
    ) -> tuple[Int[ndarray, " pair"], Int[ndarray, " pair"], Int[ndarray, " pair"]]:
        """Return (position in ``relations``, source, target) of all pairs of some relations."""
        count = self.begin[relations + 1] - self.begin[relations]
        check_limit(int(count.sum()), limits.TRANSITIONS)
        take = ragged_arange(self.begin[relations], count)
        return np.repeat(np.arange(len(relations)), count), self.source[take], self.target[take]

    def compose(self, relation: Int[ndarray, " n"], klass: Int[ndarray, " n"]) -> None:
        """Compute the relations after one more byte: of class ``klass[i]`` after ``relation[i]``; the pairs are distinct."""
        request_limits.check()
        owner, source, middle = self.pairs(relation)
        want = middle * self.classes + klass[owner]
        low = self.pointer[want]
        count = self.pointer[want + 1] - low
        check_limit(int(count.sum()), limits.TRANSITIONS)
        many = bool(np.any(count > 1))
        owner, source, target = (
            np.repeat(owner, count),
            np.repeat(source, count),
            self.onward[ragged_arange(low, count)],
        )
        if many:  # several ways to the same state
            rows = unique_rows(np.column_stack([owner, source, target]))
            owner, source, target = rows[:, 0], rows[:, 1], rows[:, 2]
        self.after[relation, klass] = self.add(owner, source, target, len(relation))


def token_relations(nfa: Nfa, vocab: Vocabulary) -> tuple[Relations, Int[ndarray, " token"]]:
    """Return the relation of every token on the states of a plain automaton."""
    classes = int(nfa.byte_class.max()) + 1
    relations = Relations(nfa.transitions, nfa.num_states, classes)
    trie = vocab.trie
    klass = nfa.byte_class[trie.byte]
    at_node = np.full(len(klass), DEAD)
    at_node[0] = IDENTITY
    for low, high in itertools.pairwise(trie.bounds[1:]):
        step = at_node[trie.parent[low:high]] * classes + klass[low:high]
        found = relations.after.take(step)
        unknown = found == UNKNOWN
        if unknown.any():
            key = np.unique(step[unknown])
            relations.compose(key // classes, key % classes)
            found = relations.after.take(step)
        if not found.any():
            break
        at_node[low:high] = found
    return relations, np.where(trie.node < 0, DEAD, at_node[trie.node])


def lift(nfa: Nfa, vocab: Vocabulary, require_eos: bool = True) -> TokenTransitions:
    """Return the token-level automaton of a byte-level one, EOS included.

    See ``Constraint.compile``. Raises ``EmptyLanguage`` if the vocabulary can write no accepted text, ``TooManyStates``.
    """
    nfa = nfa.plain
    relations, of_token = token_relations(nfa, vocab)
    seen = np.zeros(len(relations.number), bool)
    seen[of_token] = True
    seen[DEAD] = False
    used = np.flatnonzero(seen)
    token_class = np.where(of_token == DEAD, -1, (np.cumsum(seen) - 1)[of_token])
    klass, source, target = relations.pairs(used)

    # Keep the states that some accepted token sequence visits.
    n = nfa.num_states
    moves = unique_rows(np.column_stack([source, target]))
    keep = reachable(moves, nfa.start, n) & reachable(moves[:, ::-1], nfa.accept, n)
    if not keep[nfa.start].any():
        raise EmptyLanguage(
            "no text that satisfies the constraint can be written with the tokens of this vocabulary"
        )
    number = np.cumsum(keep) - 1
    rows = keep[source] & keep[target]
    klass, source, target = klass[rows], number[source[rows]], number[target[rows]]
    start, accept = number[nfa.start[keep[nfa.start]]], number[nfa.accept[keep[nfa.accept]]]
    size = int(keep.sum())
    if not rows.all():
        klass, token_class, source, target = merge_classes(klass, token_class, source, target, size)

    # EOS: from every accepting state into a sink, which loops on it.
    sink = size
    eos = int(token_class.max(initial=-1)) + 1
    token_class[vocab.eos_token_id] = eos
    ends = np.append(accept, sink)
    source, target = np.concatenate([source, ends]), np.concatenate([target, np.full(len(ends), sink)])
    klass = np.concatenate([klass, np.full(len(ends), eos)])
    final = np.array([sink]) if require_eos else ends
    return TokenTransitions(source, klass, target, token_class, start, final, size + 1)


def merge_classes(
    klass: Int[ndarray, " row"],
    token_class: Int[ndarray, " token"],
    source: Int[ndarray, " row"],
    target: Int[ndarray, " row"],
    states: int,
) -> tuple[Int[ndarray, " row"], Int[ndarray, " token"], Int[ndarray, " row"], Int[ndarray, " row"]]:
    """Merge classes with the same rows and number them afresh; −1 for those without rows."""
    size = int(token_class.max(initial=-1)) + 1
    relations = Relations(np.empty((0, 3), np.int64), states, 1)
    order = np.argsort(klass, kind="stable")
    number = relations.add(klass[order], source[order], target[order], size)
    alive = np.flatnonzero(number)
    _, first, inverse = np.unique(number[alive], return_index=True, return_inverse=True)
    new = np.full(size + 1, -1)  # the last entry answers for class -1
    new[alive] = inverse
    chosen = np.isin(klass, alive[first])
    return new[klass[chosen]], new[token_class], source[chosen], target[chosen]
