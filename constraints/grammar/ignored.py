"""What a Lark grammar ignores: texts that may stand before each terminal and at the end.

An ignored terminal takes the match that it prefers and no shorter one: a comment ``/#[^\\n]*/`` goes on to the end of its line.
Where that matters, its texts are written between marks (bytes that UTF-8 does not have), words in which other text follows are
removed, and the marks erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.arrays import reachable
from ..automata.epsilon import NO_EPSILONS
from ..automata.nfa import Nfa
from ..regex import anchors, lookaround
from ..regex.first_match import MARK
from .terminals import AFTER, Terminal
from .tree import Text, text_of


class Ignored:
    """The terminals that a grammar ignores; ``others``: those that may follow them."""

    def __init__(self, terminals: Iterable[Terminal], others: Sequence[Terminal]) -> None:
        found = list(terminals)
        self.greedy = [
            Greedy(one, number)
            for number, one in enumerate(found, 1)
            if one.matches is not None
            and not is_free(one, [each for each in [*others, *found] if each is not one])
        ]
        marked = {greedy.terminal: greedy.words for greedy in self.greedy}
        self.words = nfa.star(nfa.union([marked.get(one, one.texts) for one in found]))

    def before(self, texts: Nfa, name: str) -> Nfa:
        """Return texts, those of a terminal of this name, after what is ignored."""
        words = nfa.concat([self.words, texts])
        for greedy in self.greedy:
            if not dfa.intersect(words, greedy.unsure).is_empty:
                raise UnsupportedConstraint(
                    f"what is ignored before {name} ends where the text after {name} decides: let it end by itself, as in "
                    "/#[^\\n]*\\n/"
                )
            words = dfa.difference(words, greedy.wrong)
        return self.erased(words)

    def at_the_end(self) -> Nfa:
        """Return what is ignored at the end of a text."""
        words = self.words
        for greedy in self.greedy:
            words = dfa.difference(words, greedy.wrong_at_the_end)
        return self.erased(words)

    def alone(self, line: int) -> list[Text]:
        """Return what is ignored before a nested grammar or a value in JSON, on this line."""
        if self.greedy:
            why = "what is ignored before %lark and %json ends by itself, as in /#[^\\n]*\\n/"
            raise UnsupportedConstraint(why, path=f"line {line}")
        return [text_of(self.words)]

    def erased(self, words: Nfa) -> Nfa:
        """Return words without marks."""
        for byte in lookaround.LEVELS[0] if self.greedy else ():
            words = anchors.erased(words, byte, byte)
        return words


class Greedy:
    """An ignored terminal whose texts depend on what follows.

    ``words``: its texts between marks. ``wrong``: words over marks in which other text than may follow it has followed it;
    ``unsure``: those that a longer text may still make right; ``wrong_at_the_end``: those that are wrong as they stand.
    """

    def __init__(self, terminal: Terminal, number: int) -> None:
        assert terminal.matches is not None
        self.terminal = terminal
        begin, end = (nfa.literal(lookaround.mark(2 * number + i, 0)) for i in (0, 1))
        self.words = nfa.concat([begin, terminal.texts, end])
        wrong = dfa.minimize(dfa.difference(nfa.concat([terminal.texts, AFTER]), terminal.matches))
        plain = wrong.plain
        is_mark = plain.edges[:, 1] == MARK
        first = np.unique(plain.edges[is_mark, 3])
        after = np.flatnonzero(reachable(plain.edges[~is_mark][:, [0, 3]], first, plain.num_states))
        unsure = [state for state in after.tolist() if not is_sure(wrong, state)]
        arcs = [(source, end, target) for source, _, _, target in plain.edges[is_mark].tolist()]
        codes = nfa.network(plain.num_states, arcs, 0, 0)
        edges = np.concatenate([plain.edges[~is_mark], anchors.loops(after), codes.edges])

        def ending(states: Iterable[int]) -> Nfa:
            accept = np.array(list(states), np.int64)
            found = Nfa(codes.num_states, edges, codes.epsilons, plain.start, accept)
            return dfa.minimize(nfa.concat([nfa.ANYTHING, begin, found]))

        self.wrong, self.unsure = ending(after.tolist()), ending(unsure)
        self.wrong_at_the_end = ending(plain.accept.tolist())


def is_sure(wrong: Nfa, state: int) -> bool:
    """Return whether every text from a state on is accepted."""
    rest = Nfa(wrong.num_states, wrong.edges, NO_EPSILONS, np.array([state]), wrong.accept)
    return dfa.difference(utf8.text(), rest).is_empty


def is_free(ignored: Terminal, others: Iterable[Terminal]) -> bool:
    """Return whether an ignored terminal may as well end anywhere.

    That holds if no other terminal begins with a byte that could continue its match, and several matches in a row are one.
    """
    assert ignored.matches is not None
    wrong = dfa.difference(nfa.concat([ignored.texts, AFTER]), ignored.matches)
    after = np.unique(wrong.edges[wrong.edges[:, 1] == MARK, 3])
    onward = byte_set(wrong, after)
    if any(onward & byte_set(other.texts.plain, other.texts.plain.start) for other in others):
        return False
    twice = nfa.concat([ignored.texts, ignored.texts])
    return dfa.difference(twice, ignored.texts).is_empty


def byte_set(automaton: Nfa, states: np.ndarray) -> set[int]:
    """Return the bytes that may be read in these states."""
    leaving = automaton.edges[np.isin(automaton.edges[:, 0], states)]
    return {byte for _, low, high, _ in leaving.tolist() for byte in range(low, high + 1)}
