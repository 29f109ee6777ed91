"""Look-ahead and look-behind anywhere in a pattern: under repeats, nested, with any anchors inside.

A look-around leaves a mark of its own in the automaton: bytes that do not occur in UTF-8. The positions where it holds are a
language of whole texts with one mark ⊙:

    (?=A)   good = Σ* ⊙ A Σ*          (?<=A)   good = Σ* A ⊙ Σ*

With many marks (a repeat), a word is bad if the look-around fails at any one of them, whatever the others do:

    bad = (Σ* ⊙ Σ* − good, all marks let in anywhere)         kept = words − bad, marks erased

For ``(?!A)`` and ``(?<!A)``, good and its complement change places. A mark that occurs at most once in each word needs no
second complement:

    kept = words ∩ (words without ⊙ + good, other marks let in anywhere)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.utf8 import Alphabet
from . import anchors

LEVELS = ((0xF5, 0xC0), (0xF6, 0xC1))
"""The bytes (end, digit) of marks at even and odd levels of nested look-arounds."""


def mark(number: int, level: int) -> bytes:
    """Return the mark of a number: end, ``number`` digits, end. No mark occurs across two others."""
    end, digit = LEVELS[level % 2]
    return bytes([end, *[digit] * number, end])


@dataclass
class Look:
    """A look-around: its mark and the automaton of what it looks for.

    ``inside`` contains the marks of anchors and of nested look-arounds; ``within`` lists the nested ones.
    """

    mark: bytes
    inside: Nfa
    ahead: bool
    negative: bool
    level: int
    within: list[Look] = field(default_factory=list)

    def kept(self, words: Nfa, alphabet: Alphabet) -> Nfa:
        """Return the words in which the look-around holds wherever its mark stands."""
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


def containing(mark: bytes, times: int = 1) -> Nfa:
    """Return the words over all bytes that contain the mark at least ``times`` times."""
    return nfa.concat([nfa.ANYTHING, *[nfa.literal(mark), nfa.ANYTHING] * times])


def occurs(words: Nfa, mark: bytes, times: int) -> bool:
    """Return whether an automaton accepts some word in which ``mark`` stands at least ``times`` times."""
    return not dfa.intersect(words, containing(mark, times)).is_empty


def among_marks(automaton: Nfa, byte: int, mark: bytes) -> Nfa:
    """Write out the one mark, given as a byte, and let in any marks before and after it."""
    plain, word = automaton.plain, nfa.literal(mark)
    hit = [
        (state, to) for state, row in enumerate(plain.rows) for low, high, to in row if low <= byte <= high
    ]
    codes = nfa.network(plain.num_states, [(s, word, t) for s, t in hit], 0, 0)
    kept = [[move for move in row if not move[0] <= byte <= move[1]] for row in plain.rows]
    rows = anchors.with_loops(kept, range(len(kept))) + codes.rows[plain.num_states :]
    return nfa.of_rows(rows, plain.start.tolist(), plain.accept.tolist(), codes.skips)


def resolve(automaton: Nfa, marks: list[Look], alphabet: Alphabet, level: int = 0) -> Nfa:
    """Keep the words in which every look-around holds, and erase their marks."""
    for one in marks:
        automaton = one.kept(automaton, alphabet)
    for byte in LEVELS[level % 2] if marks else ():
        automaton = nfa.erased(automaton, byte, byte)
    return automaton
