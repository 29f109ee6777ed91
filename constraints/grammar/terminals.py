"""The texts of a Lark terminal and their context, as Earley with ``lexer="dynamic_complete"`` lexes.

At a position the parser asks ``re`` for its preferred match ``w`` of the terminal within the whole text, then also for the
preferred match within every proper prefix of ``w`` alone. With ``⟨`` and ``⟩`` around the terminal's text:

    first   = { x ⟨ u ⟩ v : between x and v the preferred match of the terminal is u }
    taken   = first ∪ { x ⟨ u ⟩ v : u is the preferred match of a text p, and p a proper prefix of that w }
    ignored = first

Without look-arounds and anchors, ``taken`` is ``Σ* ⟨ S ⟩ Σ*``, where ``S`` are the texts that are their own preferred match.
If the adjacent text matters, the automaton of the whole grammar has the marks ``⟨ ⟩`` (two for each such terminal), and the
words with marks at other positions are removed (:meth:`Places.resolve`), as with look-arounds (``lookaround.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.arrays import reachable
from ..automata.nfa import Nfa
from ..regex import anchors, lookaround
from ..regex.exotic.first_match import BEGIN, END, EVERY, First, Program
from ..regex.lookaround import erase
from ..regex.pattern import Builder, compile_pattern, parse
from ..regex.syntax import LOOK, Item, constants, walk

CUT, LAST = 0xFC, 0xFD  # two more marks, bytes that do not occur in UTF-8
OPEN, CLOSE = (nfa.literal(bytes([byte])) for byte in (BEGIN, END))


@dataclass(frozen=True, eq=False)
class Terminal:
    """What a terminal matches.

    ``texts``: all texts that it matches somewhere. ``context``: where they may stand, a language of texts with ``⟨`` and
    ``⟩`` around one; None: anywhere. ``looks``: whether the terminal has look-arounds or anchors.
    """

    texts: Nfa
    context: Nfa | None = None
    looks: bool = False


def read_terminal(pattern: str, ignored: bool) -> Terminal:
    """Read the pattern of a terminal; ``ignored``: of one that the grammar ignores.

    Raises ``UnsupportedConstraint`` with the position, and ``TooManyStates``.
    """
    items, flags = parse(pattern, 0)
    builder = Builder(pattern, utf8.utf8, False, [], itertools.count(1), 0, {})
    try:
        first = First(Program(builder, items, flags))
    except UnsupportedConstraint:  # the preference among matches is not known, but may not matter
        texts = compile_pattern(pattern, 0, utf8.utf8)
        if looks(items) or not dfa.intersect(texts, longer(texts)).is_empty:
            raise
        return Terminal(dfa.minimize(texts))
    taken = first.relation(beside=True) if first.tables else nfa.empty()
    alone = at_the_beginning(taken) if first.tables else first.relation(beside=False)
    own = dfa.minimize(between(dfa.intersect(alone, nfa.concat([EVERY, CLOSE]))))
    if not first.tables and not ignored:
        return Terminal(own)
    if not first.tables:
        taken = nfa.concat([EVERY, OPEN, alone])
    if not ignored:
        taken = nfa.union([taken, shorter(alone, taken)])
    taken = dfa.minimize(taken)
    own = dfa.minimize(between(dfa.intersect(taken, nfa.concat([OPEN, EVERY, CLOSE]))))
    if dfa.difference(taken, anywhere(own)).is_empty and dfa.difference(anywhere(own), taken).is_empty:
        return Terminal(own)
    return Terminal(dfa.minimize(between(taken)), taken, bool(first.tables))


def looks(items: Sequence[Item]) -> bool:
    """Return whether the items contain a look-around or an anchor."""
    return any(operation is constants.AT or operation in LOOK for operation, _ in walk(items))


def longer(texts: Nfa) -> Nfa:
    """Return the texts that have one of these as a proper prefix."""
    return nfa.concat([texts, nfa.plus(utf8.utf8(utf8.EVERY))])


def anywhere(texts: Nfa) -> Nfa:
    """Return one of these texts between ``⟨`` and ``⟩`` with any text on both sides."""
    return nfa.concat([EVERY, OPEN, texts, CLOSE, EVERY])


def is_mark(automaton: Nfa, byte: int) -> np.ndarray:
    """Return whether each edge reads this mark."""
    return np.asarray(automaton.edges[:, 1] == byte)


def at_the_beginning(marked: Nfa) -> Nfa:
    """Return what follows ``⟨`` in the texts that begin with it."""
    plain = marked.plain
    begins = is_mark(plain, BEGIN) & np.isin(plain.edges[:, 0], plain.start)
    return Nfa(
        plain.num_states, plain.edges, plain.epsilons, np.unique(plain.edges[begins, 3]), plain.accept
    ).plain


def between(marked: Nfa) -> Nfa:
    """Return the texts before ``⟩``, from ``⟨`` on if there is one."""
    plain = marked.plain
    begins, ends = is_mark(plain, BEGIN), is_mark(plain, END)
    start = np.unique(plain.edges[begins, 3]) if begins.any() else plain.start
    rest = plain.edges[~(begins | ends)]
    return Nfa(plain.num_states, rest, plain.epsilons, start, np.unique(plain.edges[ends, 0]))


def shorter(alone: Nfa, beside: Nfa) -> Nfa:
    """Return ``x ⟨ u ⟩ v``: u is preferred in a proper prefix of the preferred match after x."""
    more = nfa.plus(utf8.utf8(utf8.EVERY))
    cut, last = (nfa.literal(bytes([byte])) for byte in (CUT, LAST))
    prefix = nfa.concat([EVERY, OPEN, alone, cut, more, last, EVERY])
    plain = beside.plain
    edges = plain.edges.copy()
    edges[is_mark(plain, END), 1:3] = LAST
    states = np.arange(plain.num_states)
    loops = [np.column_stack([states, np.full((len(states), 2), byte), states]) for byte in (END, CUT)]
    whole = Nfa(plain.num_states, np.concatenate([edges, *loops]), plain.epsilons, plain.start, plain.accept)
    return erase(erase(dfa.intersect(prefix, whole), CUT), LAST)


# ---------------------------------------------------------------- context


def never_beside(ignored: Terminal, others: Iterable[Terminal]) -> bool:
    """Return whether the context of an ignored terminal can be dropped.

    That holds if no other terminal begins with a byte that could continue its match, and several matches in a row are one.
    """
    if ignored.context is None:
        return True
    if ignored.looks:
        return False
    wrong = dfa.difference(anywhere(ignored.texts), ignored.context)
    after = np.unique(wrong.edges[is_mark(wrong, END), 3])
    onward = byte_set(wrong, after)
    if any(onward & byte_set(other.texts.plain, other.texts.plain.start) for other in others):
        return False
    twice = nfa.concat([ignored.texts, ignored.texts])
    return dfa.difference(twice, ignored.texts).is_empty


def byte_set(automaton: Nfa, states: np.ndarray) -> set[int]:
    """Return the bytes that may be read in these states."""
    leaving = automaton.edges[np.isin(automaton.edges[:, 0], states)]
    return {byte for _, low, high, _ in leaving.tolist() for byte in range(low, high + 1)}


class Places:
    """The marks of terminals with a context. Terminals with no text in common share their marks."""

    def __init__(self, terminals: Iterable[Terminal] = ()) -> None:
        self.groups: list[list[Terminal]] = []
        for terminal in terminals:
            if terminal.context is None or any(terminal in group for group in self.groups):
                continue
            for group in self.groups:
                known = nfa.union([other.texts for other in group])
                if dfa.intersect(known, terminal.texts).is_empty:
                    group.append(terminal)
                    break
            else:
                self.groups.append([terminal])

    def words(self, terminal: Terminal) -> Nfa:
        """Return the texts of a terminal, between its marks if it has any."""
        for i, group in enumerate(self.groups):
            if terminal in group:
                begin, end = marks_of(i)
                return nfa.concat([nfa.literal(begin), terminal.texts, nfa.literal(end)])
        return terminal.texts

    def resolve(self, automaton: Nfa) -> Nfa:
        """Keep the words in which every marked terminal is at an allowed position, and erase the marks."""
        for wrong in self._wrong():
            automaton = dfa.difference(automaton, wrong)
        for byte in lookaround.LEVELS[0] if self.groups else ():
            automaton = erase(automaton, byte)
        return automaton

    def allowed(self) -> Nfa | None:
        """Return the DFA of words whose marked terminals are at allowed positions; None without marks."""
        every = nfa.star(nfa.byte_ranges([(0, 255)]))
        kept = None
        for wrong in self._wrong():
            kept = dfa.minimize(dfa.difference(every if kept is None else kept, wrong))
        return kept

    def _wrong(self) -> Iterator[Nfa]:
        """Yield, by group, the words in which one of its terminals is at a forbidden position."""
        for i, group in enumerate(self.groups):
            context = nfa.union([terminal.context for terminal in group if terminal.context is not None])
            texts = nfa.union([terminal.texts for terminal in group])
            wrong = dfa.minimize(dfa.difference(anywhere(texts), context))
            yield spelled(wrong, *marks_of(i))


def marks_of(group: int) -> tuple[bytes, bytes]:
    """Return the marks before and after the terminals of a group."""
    return lookaround.mark(2 * group + 1, 0), lookaround.mark(2 * group + 2, 0)


def spelled(wrong: Nfa, begin: bytes, end: bytes) -> Nfa:
    """Write ``⟨`` and ``⟩`` as marks, and let in any other marks before and after them."""
    plain = wrong.plain
    marks: Mapping[int, bytes] = {BEGIN: begin, END: end}
    hit = is_mark(plain, BEGIN) | is_mark(plain, END)
    rest = plain.edges[~hit]
    outside = np.concatenate([plain.start, plain.edges[is_mark(plain, END), 3]])
    free = anchors.loops(np.flatnonzero(reachable(rest[:, [0, 3]], outside, plain.num_states)))
    arcs = [(s, nfa.literal(marks[low]), t) for s, low, _, t in plain.edges[hit].tolist()]
    codes = nfa.network(plain.num_states, arcs, 0, 0)
    edges = np.concatenate([rest, free, codes.edges])
    return Nfa(codes.num_states, edges, codes.epsilons, plain.start, plain.accept)
