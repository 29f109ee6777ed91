"""Rewrite a grammar so that no terminal looks ahead: each look-ahead becomes a condition on what is read after the terminal.

A state is a set of open conditions (number of an automaton, its state). A terminal that looks ahead adds one; one that any text
satisfies is dropped, and so is one that all terminals that may follow satisfy.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..program import nodes, tables
from ..program.node import Kind
from .columns import AROUND, DEEPER
from .copies import Copier, Copies, joined
from .following import END, Following
from .tree import Choice, Rules, Text

NOTHING_ASKED: frozenset[tuple[int, int]] = frozenset()


def with_look_ahead(grammar: Rules, start: str) -> tuple[Rules, str]:
    """Return the rules of the same language in which no terminal looks ahead."""
    return Asking(grammar, start).copied(start, NOTHING_ASKED)


class Asking(Copier):
    """Copies each rule once for each set of look-aheads that the text from there on must satisfy."""

    def __init__(self, grammar: Rules, start: str) -> None:
        super().__init__(grammar)
        self.automata: list[Nfa] = []
        self._number: dict[Nfa, int] = {}
        self._free: dict[tuple[int, int], bool] = {}
        self._grants: dict[tuple[Text, int, int], bool] = {}
        self.follow = Following(grammar, start).follow
        self._read: dict[tuple[Text, Hashable], Copies] = {}

    def rule(self, name: str, state: Hashable) -> Copies:
        """Return the copies of a rule, without the conditions that every terminal after the rule satisfies."""
        found = super().rule(name, state)
        if name not in self.follow:
            return found
        return joined([{self.open(after, self.follow[name]): copy} for after, copy in found.items()])

    def open(self, state: Hashable, follow: frozenset[Text]) -> Hashable:
        """Return the conditions of a state that some terminal of ``follow`` does not satisfy."""
        assert isinstance(state, frozenset)
        return frozenset([each for each in state if not all(self.grants(text, *each) for text in follow)])

    def grants(self, text: Text, number: int, at: int) -> bool:
        """Return whether every text of a terminal satisfies a condition: automaton ``number`` in state ``at``."""
        key = text, number, at
        if key not in self._grants:
            if text is END:
                self._grants[key] = at in self.automata[number].accept.tolist()
            elif text.node.kind is not Kind.LEX or text.is_empty:
                self._grants[key] = False
            else:
                asked = self.automata[number]
                free = [to for to in range(asked.num_states) if self.is_free(number, to)]
                words = tables.to_nfa(text.node.tables[0])
                self._grants[key] = dfa.difference(words, asked.between([at], free)).is_empty
        return self._grants[key]

    def may_end(self, state: Hashable) -> bool:
        """Return whether the empty text has all that is asked."""
        assert isinstance(state, frozenset)
        return all(at in self.automata[number].accept.tolist() for number, at in state)

    def text(self, text: Text, state: Hashable) -> Copies:
        """Return a terminal's texts by the conditions that are open after them; cached."""
        if (text, state) not in self._read:
            self._read[text, state] = self.read(text, state)
        return self._read[text, state]

    def read(self, text: Text, state: Hashable) -> Copies:
        """Split a terminal's texts, read under the conditions ``state``, by the conditions that are open after them."""
        assert isinstance(state, frozenset)
        if text in (AROUND, DEEPER):
            if not all(is_blind_to_blanks(self.automata[number], at) for number, at in state):
                raise UnsupportedConstraint(
                    "postlex: what a terminal looks ahead to depends on the columns of the next line"
                )
            return {state: text}
        asked = NOTHING_ASKED
        if text.before is not None:
            if text.before not in self._number:
                self._number[text.before] = len(self.automata)
                self.automata.append(text.before.plain)
            number = self._number[text.before]
            asked = frozenset([(number, int(self.automata[number].start[0]))])
        if not state:
            return {asked: Text(text.node)}
        plain = text.node.kind is Kind.LEX
        ways = [(nfa.ANYTHING if not plain else tables.to_nfa(text.node.tables[0]), asked)]
        for number, at in sorted(state):
            found = []
            for words, after in ways:
                for to in range(self.automata[number].num_states):
                    part = dfa.minimize(dfa.intersect(words, self.automata[number].between([at], [to])))
                    if not part.is_empty:
                        found.append((part, after if self.is_free(number, to) else after | {(number, to)}))
            ways = found
        copies: dict[Hashable, list[Text]] = {}
        for words, after in ways:
            table = tables.of_nfa(words)
            node = nodes.lex(table) if plain else nodes.within(text.node, table)
            copies.setdefault(after, []).append(Text(node))
        return {after: Choice(parts) for after, parts in copies.items()}

    def is_free(self, number: int, state: int) -> bool:
        """Return whether anything is accepted from a state on."""
        if (number, state) not in self._free:
            rest = self.automata[number].between([state])
            self._free[number, state] = dfa.difference(utf8.any_text(), rest).is_empty
        return self._free[number, state]


def is_blind_to_blanks(asked: Nfa, state: int) -> bool:
    """Return whether a state stays where it is when blanks are read."""
    moves = asked.rows[state]
    return all(any(low <= blank <= high and to == state for low, high, to in moves) for blank in b" \t")
