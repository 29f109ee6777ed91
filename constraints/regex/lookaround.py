"""Look-ahead and look-behind anywhere in a pattern: under repeats, within one another, with any anchors inside.

A look-around leaves a mark of its own in the automaton, a byte that UTF-8 does not have. Where it may stand is a language
of whole texts with one mark, ⊙ for this one:

    (?=A)   good = Σ* ⊙ A Σ*          (?<=A)   good = Σ* A ⊙ Σ*

With many marks (a repeat), a word is bad if any one of them stands badly, whatever the others do:

    bad = (Σ* ⊙ Σ* − good, all marks let in anywhere)         kept = words − bad, marks erased

and the other way round for ``(?!A)`` and ``(?<!A)``, where good and its opposite change places. A mark that no word has
twice needs no second complement:

    kept = words ∩ (words without ⊙ + good, other marks let in anywhere)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..automata import dfa, nfa, utf8
from ..automata.arrays import reachable
from ..automata.nfa import Nfa
from ..automata.utf8 import Alphabet
from . import anchors

LEVELS = ((0xF5, 0xC0), (0xF6, 0xC1))
"""The bytes of marks: those of look-arounds, those of look-arounds within them, and so on by turns."""


def mark(number: int, level: int) -> bytes:
    """A mark, which is never a part of two others."""
    end, digit = LEVELS[level % 2]
    return bytes([end, *[digit] * number, end])


@dataclass
class Look:
    """One look-around: its mark, what it looks for (with marks of anchors and of the look-arounds within it)."""

    mark: bytes
    inside: Nfa
    ahead: bool
    negative: bool
    level: int
    within: list[Look | Commit] = field(default_factory=list)

    def kept(self, words: Nfa, alphabet: Alphabet) -> Nfa:
        """The words in which the mark stands where it may, wherever it stands."""
        every, byte = nfa.star(alphabet(utf8.EVERY)), LEVELS[self.level % 2][0]
        here = nfa.literal(bytes([byte]))
        middle = [here, self.inside] if self.ahead else [self.inside, here]
        found = resolve(nfa.concat([every, *middle, every]), self.within, alphabet, self.level + 1)
        found = anchors.resolve(found, alphabet, looks=True)
        once = not occurs(words, self.mark, times=2)
        if once == self.negative:
            found = dfa.difference(nfa.concat([every, here, every]), found)
        one = among_marks(found, byte, self.mark)
        if not once:
            return dfa.difference(words, one)
        return dfa.intersect(words, nfa.union([dfa.complement(containing(self.mark)), one]))


@dataclass
class Commit:
    """One atomic group under a repeat: the marks of its beginning and its end, and its first matches (``atomic.py``)."""

    begin: bytes
    end: bytes
    first: Nfa
    mark: int

    def kept(self, words: Nfa, alphabet: Alphabet) -> Nfa:
        """The words without those in which the marks stand around what is not the first match."""
        every, middle = nfa.star(alphabet(utf8.EVERY)), nfa.literal(bytes([self.mark]))
        wrong = dfa.difference(nfa.concat([every, middle, every]), self.first)
        tail = among_marks(wrong, self.mark, self.end, before=False)
        bad = nfa.concat([anchors.transparent(every), nfa.literal(self.begin), tail])
        return dfa.difference(words, bad)


def containing(mark: bytes, times: int = 1) -> Nfa:
    """The words over all bytes that contain the mark so many times."""
    every = nfa.star(nfa.byte_ranges([(0, 255)]))
    return nfa.concat([every, *[nfa.literal(mark), every] * times])


def occurs(words: Nfa, mark: bytes, times: int) -> bool:
    """Whether some word contains the mark so many times."""
    return not dfa.intersect(words, containing(mark, times)).is_empty


def among_marks(automaton: Nfa, byte: int, mark: bytes, before: bool = True) -> Nfa:
    """The automaton of words with one mark, given as a byte, with that mark spelled out and any marks let in after it,
    and before it as well."""
    plain = automaton.plain
    hit = (plain.edges[:, 1] <= byte) & (byte <= plain.edges[:, 2])
    pairs, marked = plain.edges[~hit][:, [0, 3]], plain.edges[hit][:, [0, 3]]
    after = reachable(pairs, marked[:, 1], plain.num_states)
    free = anchors.loops(np.arange(plain.num_states) if before else np.flatnonzero(after))
    word = nfa.literal(mark)
    codes = nfa.network(plain.num_states, [(s, word, t) for s, t in marked.tolist()], 0, 0)
    edges = np.concatenate([plain.edges[~hit], free, codes.edges])
    return Nfa(codes.num_states, edges, codes.epsilons, plain.start, plain.accept)


def resolve(automaton: Nfa, marks: list[Look | Commit], alphabet: Alphabet, level: int = 0) -> Nfa:
    """The words whose marks stand where they may, with those marks erased."""
    for one in marks:
        automaton = one.kept(automaton, alphabet)
    for byte in LEVELS[level % 2] if marks else ():
        automaton = erase(automaton, byte)
    return automaton


def erase(automaton: Nfa, mark: int) -> Nfa:
    """The automaton with the mark read as nothing."""
    edges = automaton.edges
    hit = (edges[:, 1] <= mark) & (mark <= edges[:, 2])
    left, right = edges[hit].copy(), edges[hit].copy()
    left[:, 2], right[:, 1] = mark - 1, mark + 1
    parts = np.concatenate([edges[~hit], left, right])
    epsilons = np.concatenate([automaton.epsilons, edges[hit][:, [0, 3]]])
    return Nfa(
        automaton.num_states, parts[parts[:, 1] <= parts[:, 2]], epsilons, automaton.start, automaton.accept
    )
