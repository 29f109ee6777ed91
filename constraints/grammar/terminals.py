"""Which texts a terminal of a Lark grammar takes, and beside which texts: as Earley with ``lexer="dynamic_complete"`` lexes.

At a place of the text, the parser asks ``re`` for its preferred match ``w`` of the terminal, looking at the whole text; then
also for that of every proper prefix of ``w`` by itself. With ``⟨`` and ``⟩`` around the terminal's text:

    first   = { x ⟨ u ⟩ v : between x and v the preferred match of the terminal is u }
    taken   = first ∪ { x ⟨ u ⟩ v : u is the preferred match of a text p, and p a proper prefix of that w }
    ignored = first

Without anything that looks around, ``taken`` is ``Σ* ⟨ S ⟩ Σ*``, where ``S`` are the texts that are their own preferred match.
Where the text beside a terminal matters, the automaton of the whole grammar has the marks ``⟨ ⟩`` (two for each such
terminal), and loses the words in which they stand wrongly (:meth:`Context.resolve`), as with look-arounds
(``lookaround.py``).
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
from ..regex.syntax import ATOMIC, CHARACTER, LOOK, REPEAT, Item, constants, inner, walk

CUT, LAST = 0xFC, 0xFD  # more bytes that UTF-8 does not have
OPEN, CLOSE = (nfa.literal(bytes([byte])) for byte in (BEGIN, END))


@dataclass(frozen=True, eq=False)
class Terminal:
    """``texts`` are those that the terminal takes somewhere. ``context``: where each of them may stand, a language of texts
    with ``⟨`` and ``⟩`` around one; None: anywhere. ``looks``: whether it has look-arounds or anchors."""

    texts: Nfa
    context: Nfa | None = None
    looks: bool = False


def read_terminal(pattern: str, ignored: bool) -> Terminal:
    """What a terminal with this pattern takes, or what is passed over where it is ignored.

    Raises ``UnsupportedConstraint`` with the position, also for a pattern that may match the empty text, which Lark's dynamic
    lexers refuse, and ``TooManyStates``.
    """
    items, flags = parse(pattern, 0)
    builder = Builder(pattern, utf8.utf8, False, [], itertools.count(1), 0, {})
    try:
        first = First(Program(builder, items, flags))
    except UnsupportedConstraint:  # the order of its matches is not known, and may not matter
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


def may_be_empty(items: Iterable[Item]) -> bool:
    """Whether the items may match without reading a character."""
    return all(map(reads_nothing, items))


def reads_nothing(item: Item) -> bool:
    """Whether an item may match without reading a character."""
    operation, argument = item
    if operation in CHARACTER:
        return False
    if operation in (*REPEAT, constants.POSSESSIVE_REPEAT):
        return argument[0] == 0 or may_be_empty(argument[2])
    if operation is constants.SUBPATTERN or operation in ATOMIC:
        return may_be_empty(inner(item)[0])
    if operation is constants.BRANCH:
        return any(map(may_be_empty, argument[1]))
    return True


def looks(items: Sequence[Item]) -> bool:
    """Whether something in the items looks at what stands beside it."""
    return any(operation is constants.AT or operation in LOOK for operation, _ in walk(items))


def longer(texts: Nfa) -> Nfa:
    """The texts that go on after one of these."""
    return nfa.concat([texts, nfa.plus(utf8.utf8(utf8.EVERY))])


def anywhere(texts: Nfa) -> Nfa:
    """One of these texts between ``⟨`` and ``⟩``, beside whatever there is."""
    return nfa.concat([EVERY, OPEN, texts, CLOSE, EVERY])


def is_mark(automaton: Nfa, byte: int) -> np.ndarray:
    """Whether each edge reads this mark."""
    return np.asarray(automaton.edges[:, 1] == byte)


def at_the_beginning(marked: Nfa) -> Nfa:
    """The rests of the texts that begin with ``⟨``."""
    plain = marked.plain
    begins = is_mark(plain, BEGIN) & np.isin(plain.edges[:, 0], plain.start)
    return Nfa(
        plain.num_states, plain.edges, plain.epsilons, np.unique(plain.edges[begins, 3]), plain.accept
    ).plain


def between(marked: Nfa) -> Nfa:
    """The texts up to ``⟩``, from ``⟨`` on if that is there."""
    plain = marked.plain
    begins, ends = is_mark(plain, BEGIN), is_mark(plain, END)
    start = np.unique(plain.edges[begins, 3]) if begins.any() else plain.start
    rest = plain.edges[~(begins | ends)]
    return Nfa(plain.num_states, rest, plain.epsilons, start, np.unique(plain.edges[ends, 0]))


def shorter(alone: Nfa, beside: Nfa) -> Nfa:
    """``x ⟨ u ⟩ v`` where u is the preferred match of a proper prefix, by itself, of the preferred match after x."""
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


# ---------------------------------------------------------------- beside others


def never_beside(ignored: Terminal, others: Iterable[Terminal]) -> bool:
    """Whether what an ignored terminal passes over is never told by what follows it: nothing else begins as it might go on,
    and several in a row are one."""
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
    """The bytes that may be read in these states."""
    leaving = automaton.edges[np.isin(automaton.edges[:, 0], states)]
    return {byte for _, low, high, _ in leaving.tolist() for byte in range(low, high + 1)}


class Places:
    """The marks of terminals that may not stand anywhere. Terminals with no text in common share them."""

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
        """The texts of a terminal, between its marks."""
        for i, group in enumerate(self.groups):
            if terminal in group:
                begin, end = marks_of(i)
                return nfa.concat([nfa.literal(begin), terminal.texts, nfa.literal(end)])
        return terminal.texts

    def resolve(self, automaton: Nfa) -> Nfa:
        """The texts of the words in which every marked terminal stands where it may."""
        for wrong in self._wrong():
            automaton = dfa.difference(automaton, wrong)
        for byte in lookaround.LEVELS[0] if self.groups else ():
            automaton = erase(automaton, byte)
        return automaton

    def allowed(self) -> Nfa | None:
        """The words in which every marked terminal stands where it may, deterministic; ``None`` if there are no marks."""
        every = nfa.star(nfa.byte_ranges([(0, 255)]))
        kept = None
        for wrong in self._wrong():
            kept = dfa.minimize(dfa.difference(every if kept is None else kept, wrong))
        return kept

    def _wrong(self) -> Iterator[Nfa]:
        """For each group, the words in which one of its terminals stands where it may not."""
        for i, group in enumerate(self.groups):
            context = nfa.union([terminal.context for terminal in group if terminal.context is not None])
            texts = nfa.union([terminal.texts for terminal in group])
            wrong = dfa.minimize(dfa.difference(anywhere(texts), context))
            yield spelled(wrong, *marks_of(i))


def marks_of(group: int) -> tuple[bytes, bytes]:
    """The marks before and after a terminal of a group."""
    return lookaround.mark(2 * group + 1, 0), lookaround.mark(2 * group + 2, 0)


def spelled(wrong: Nfa, begin: bytes, end: bytes) -> Nfa:
    """Texts with ``⟨`` and ``⟩``, these written as marks, and any other marks let in before and after them."""
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
