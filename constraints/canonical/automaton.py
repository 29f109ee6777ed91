"""Automata that accept each text of a constraint only in the tokenizer's own segmentation.

    marked texts of the tokenizer  ∩  the constraint, marks let in anywhere          (automata over bytes)
    × the last token, as far as it forbids what may follow within a piece             (over tokens)

A piece is a stretch of text that the pre-tokenizer splits off; tokens do not cross its boundaries. A state over tokens is a
state of the marked automaton with the set of tokens that may not follow; last tokens that forbid equal sets share a state.
A token that starts a piece is read with a mark before it, and may follow any token.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy import ndarray

from ...circuits.automaton import Automaton
from ...errors import EmptyLanguage, TooManyStates
from ...layers import Incidence
from .. import limits
from ..automata import dfa, nfa, utf8
from ..automata.arrays import csr_index, unique_rows
from ..automata.nfa import Nfa
from ..lift import DEAD, token_relations
from ..vocabulary.vocabulary import Vocabulary
from .marked_text import BYTE, MARK
from .segmentation import Segmentation, segmentation_of

TokenIds = Int[ndarray, " token"]
MARKS = ((BYTE, MARK),)


def canonical_automaton(constraint: Nfa, vocab: Vocabulary, require_eos: bool = True) -> Automaton:
    """Return the automaton of ``Constraint.compile(canonical=True)``.

    Raises ``EmptyLanguage``, ``TooManyStates``, ``UnsupportedConstraint``.
    """
    found = segmentation_of(vocab)
    marked = dfa.intersect(nfa.looped(excluding(constraint, found.excluded), MARKS), found.marked)
    if not marked.num_states:
        raise EmptyLanguage(
            "no text that satisfies the constraint is written by the tokenizer without added tokens"
        )
    return Build(marked, found, vocab, require_eos).automaton()


def excluding(constraint: Nfa, excluded: list[str]) -> Nfa:
    """Return the texts of the constraint that contain none of the ``excluded`` strings."""
    every = utf8.any_text()
    words = nfa.union([nfa.literal(text.encode()) for text in excluded])
    contains = nfa.concat([every, words, every])
    if not excluded or dfa.intersect(constraint, contains).is_empty:
        return constraint
    return dfa.difference(constraint, contains)


class Build:
    """Builds the token automaton of canonical texts from the byte automaton ``marked``, states in the order they are reached."""

    def __init__(self, marked: Nfa, found: Segmentation, vocab: Vocabulary, require_eos: bool) -> None:
        self.marked, self.found, self.vocab, self.require_eos = marked, found, vocab, require_eos
        self.size = len(vocab)
        relations, of_token = token_relations(marked, found.vocabulary)
        of_token = of_token[: 2 * self.size]  # each token within a piece, then each with a mark before it
        pointer, order = csr_index(of_token, len(relations.number))
        used = np.setdiff1d(np.unique(of_token), [DEAD])
        which, source, target = relations.pairs(used)
        rows = np.argsort(source, kind="stable")
        self.relation, self.target = used[which[rows]], target[rows]
        self.begin = np.searchsorted(source[rows], np.arange(marked.num_states + 1))
        self.pointer, self.order = pointer, order
        arrivals = unique_rows(np.column_stack([self.target, self.relation]))[:, 1]
        pairs = int((pointer[arrivals + 1] - pointer[arrivals]).sum())
        if pairs > limits.STATES // 5:
            raise TooManyStates(
                f"canonical=True writes out every state with every token that leads to it: {pairs:,} pairs, of at most "
                f"{limits.STATES // 5:,}; bound the free text of the constraint, or compile without canonical",
                limit=limits.STATES // 5,
            )
        self.number: dict[tuple[int, bytes], int] = {}
        self.states: list[tuple[int, TokenIds]] = []
        self.sets: dict[bytes, int] = {}
        self.members: list[TokenIds] = []
        self.rows: list[tuple[int, int, int]] = []
        self.known: dict[int, dict[int, int]] = {}
        self.within: dict[int, Bool[ndarray, " token"]] = {}

    def moves(self, state: int) -> Iterator[tuple[TokenIds, int]]:
        """Yield (tokens, byte state after them). Token + ``size`` is the token at the start of a piece."""
        for row in range(self.begin[state], self.begin[state + 1]):
            relation = self.relation[row]
            yield self.order[self.pointer[relation] : self.pointer[relation + 1]], int(self.target[row])

    def inside(self, state: int) -> Bool[ndarray, " token"]:
        """Return which tokens can continue a piece from a byte state, whatever the last token was."""
        if state not in self.within:
            out = np.zeros(2 * self.size, bool)
            for tokens, _ in self.moves(state):
                out[tokens] = True
            self.within[state] = out[: self.size]
        return self.within[state]

    def state(self, state: int, forbidden: TokenIds) -> int:
        """Return the number of the token state (byte state, forbidden tokens)."""
        key = (state, forbidden.tobytes())
        if key not in self.number:
            self.number[key] = len(self.states)
            self.states.append((state, forbidden))
        return self.number[key]

    def after(self, tokens: TokenIds, target: int) -> Int[ndarray, " token"]:
        """Return the token state after each of these tokens, all of which lead to byte state ``target``."""
        known, inside = self.known.setdefault(target, {}), self.inside(target)
        some = bool(inside.any())
        for token in tokens.tolist():
            if token not in known:
                rest = np.empty(0, np.int64)
                if some and not self.found.single[token]:
                    rest = self.found.followers.forbidden(token)
                    rest = rest[inside[rest]]
                known[token] = self.state(target, rest)
        return np.array([known[token] for token in tokens.tolist()], np.int64)

    def name(self, tokens: TokenIds) -> int:
        """Return the number of a set of tokens."""
        key = tokens.tobytes()
        if key not in self.sets:
            self.sets[key] = len(self.members)
            self.members.append(tokens)
        return self.sets[key]

    def expand(self, index: int) -> None:
        """Add the transitions of a token state."""
        state, forbidden = self.states[index]
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for tokens, target in self.moves(state):
            tokens = np.setdiff1d(tokens, forbidden, assume_unique=True) % self.size
            found.append((tokens, self.after(tokens, target)))
        token, there = (np.concatenate(column) for column in zip(*found, strict=True))
        rows = unique_rows(np.column_stack([token, there]))
        token, there = rows[:, 0], rows[:, 1]
        # nondeterministic: both with and without a mark before the token
        again = np.isin(token, token[1:][token[1:] == token[:-1]])
        for target in np.unique(there[~again]).tolist():
            self.rows.append((index, self.name(token[~again & (there == target)]), target))
        several = dict[tuple[int, ...], list[int]]()
        for t in np.unique(token[again]).tolist():
            several.setdefault(tuple(there[token == t].tolist()), []).append(t)
        for targets, tokens_ in several.items():
            name = self.name(np.array(tokens_, np.int64))
            self.rows += [(index, name, target) for target in targets]
        if len(self.rows) > 10 * limits.STATES:
            raise TooManyStates(limit=10 * limits.STATES)

    def automaton(self) -> Automaton:
        """Return the automaton over tokens of all states reached, EOS included."""
        start = [self.state(s, np.empty(0, np.int64)) for s in self.marked.start.tolist()]
        index = 0
        while index < len(self.states):
            self.expand(index)
            index += 1
        sink, eos = len(self.states), self.vocab.eos_token_id
        ends = set(self.marked.accept.tolist())
        accept = [i for i, (state, _) in enumerate(self.states) if state in ends]
        name = self.name(np.array([eos]))
        rows = np.array([*self.rows, *((i, name, sink) for i in (*accept, sink))], np.int64)
        klass = np.repeat(np.arange(len(self.members)), [len(m) for m in self.members])
        labels = Incidence(
            torch.from_numpy(klass),
            torch.from_numpy(np.concatenate(self.members)),
            (len(self.members), self.size),
        )
        final = [sink] if self.require_eos else [*accept, sink]
        out = Automaton(rows, labels, start, final, sink + 1, eos, trusted=True).trim()
        if not out.accept_states:
            raise EmptyLanguage("no text that satisfies the constraint can be written by the tokenizer")
        return out
