"""What a Lark grammar ignores: texts that may stand before each terminal and at the end.

An ignored terminal takes the match that it prefers and no shorter one: a comment ``/#[^\\n]*/`` goes on to the end of its line.
Where that matters, its texts are written between marks (bytes that UTF-8 does not have), words in which other text follows are
removed, and the marks erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
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
            and not allows_shorter_matches(one, [each for each in [*others, *found] if each is not one])
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
            words = nfa.erased(words, byte, byte)
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
        rows = [[move for move in row if move[0] != MARK] for row in wrong.rows]
        arcs = [
            (source, end, to) for source, row in enumerate(wrong.rows) for low, _, to in row if low == MARK
        ]
        after = {to for _, _, to in arcs}
        for state in (todo := list(after)):  # grows meanwhile
            todo += (more := {to for _, _, to in rows[state]} - after)
            after |= more
        unsure = [state for state in after if not is_sure(wrong, state)]
        codes = nfa.network(len(rows), arcs, 0, 0)
        rows = anchors.with_loops(rows, after) + codes.rows[len(rows) :]

        def ending(states: Iterable[int]) -> Nfa:
            found = nfa.of_rows(rows, wrong.start.tolist(), states, codes.skips)
            return dfa.minimize(nfa.concat([nfa.ANYTHING, begin, found]))

        self.wrong, self.unsure = ending(after), ending(unsure)
        self.wrong_at_the_end = ending(wrong.accept.tolist())


def is_sure(wrong: Nfa, state: int) -> bool:
    """Return whether every text from a state on is accepted."""
    return dfa.difference(utf8.any_text(), wrong.between([state])).is_empty


def allows_shorter_matches(ignored: Terminal, others: Iterable[Terminal]) -> bool:
    """Return whether shorter matches of an ignored terminal may be taken too, as they add no texts.

    That holds if no other terminal begins with a byte that could continue its match, and several matches in a row are one.
    """
    assert ignored.matches is not None
    wrong = dfa.difference(nfa.concat([ignored.texts, AFTER]), ignored.matches)
    onward = byte_set(wrong, {to for row in wrong.rows for low, _, to in row if low == MARK})
    if any(onward & byte_set(other.texts.plain, other.texts.plain.start.tolist()) for other in others):
        return False
    twice = nfa.concat([ignored.texts, ignored.texts])
    return dfa.difference(twice, ignored.texts).is_empty


def byte_set(automaton: Nfa, states: Iterable[int]) -> set[int]:
    """Return the bytes that may be read in these states."""
    return {
        byte for state in states for low, high, _ in automaton.rows[state] for byte in range(low, high + 1)
    }
