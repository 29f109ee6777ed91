"""Look-ahead and look-behind anywhere in a pattern: under repeats, within one another, with any anchors inside.

A look-around leaves a mark of its own in the automaton, a byte that UTF-8 does not have. Where it may stand is a language
of whole texts with one mark, ⊙ for this one:

    (?=A)   good = Σ* ⊙ A Σ*          (?<=A)   good = Σ* A ⊙ Σ*

With many marks (a repeat), a word is bad if any one of them stands badly, whatever the others do:

    bad = (Σ* ⊙ Σ* − good, all marks let in anywhere)         kept = words − bad, marks erased

and the other way round for ``(?!A)`` and ``(?<!A)``, where good and its opposite change places.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from . import anchors, dfa, nfa, utf8
from .nfa import Nfa
from .utf8 import Alphabet

MARKS = (0xC0, 0xC1, 0xF5, 0xF6)


@dataclass
class Look:
    """One look-around: its mark, what it looks for (with marks of anchors and of the look-arounds within it)."""

    mark: int
    inside: Nfa
    ahead: bool
    negative: bool
    within: list[Look] = field(default_factory=list)


def resolve(automaton: Nfa, looks: list[Look], alphabet: Alphabet) -> Nfa:
    """The words whose marks of these look-arounds stand where they may, with those marks erased."""
    every = nfa.star(alphabet(utf8.EVERY))
    for look in looks:
        mark = nfa.literal(bytes([look.mark]))
        middle = [mark, look.inside] if look.ahead else [look.inside, mark]
        good = resolve(nfa.concat([every, *middle, every]), look.within, alphabet)
        good = anchors.resolve(good, alphabet, looks=True)
        opposite = good if look.negative else dfa.difference(nfa.concat([every, mark, every]), good)
        automaton = erase(dfa.difference(automaton, anchors.transparent(opposite)), look.mark)
    return automaton


def erase(automaton: Nfa, mark: int) -> Nfa:
    """The automaton with the mark read as nothing."""
    edges = automaton.edges
    hit = (edges[:, 1] <= mark) & (mark <= edges[:, 2])
    left, right = edges[hit].copy(), edges[hit].copy()
    left[:, 2], right[:, 1] = mark - 1, mark + 1
    parts = np.concatenate([edges[~hit], left, right])
    skips = np.concatenate([automaton.skips, edges[hit][:, [0, 3]]])
    return Nfa(
        automaton.num_states, parts[parts[:, 1] <= parts[:, 2]], skips, automaton.start, automaton.accept
    )
