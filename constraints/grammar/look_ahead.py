"""Terminals whose texts depend on what follows: ``X(?=Y)``, ``X(?!Y)``, ``X\\b``, ``X$``.

    after = { u ⊙ v : u is a match before v }

What may follow u is a regular language, so such a terminal is a union of texts, each with its own. Where one text is a prefix of
another, the pattern must prefer the longest match that it can have: then, with lexer="dynamic_complete",

    matches = after − { u ⊙ z v : u z ⊙ v ∈ after, z ≠ ε }
    terminal = matches ∪ { u ⊙ x y v : u ⊙ x ∈ matches, u x y ⊙ v ∈ matches, y ≠ ε }
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..regex import anchors, lookaround
from ..regex.first_match import EVERY, MARK, preferred
from ..regex.pattern import Builder
from ..regex.syntax import CHARACTER, LOOK, REPEAT, Item, constants

SECOND = 0xFE  # the byte of a mark at which a longer match ends
MARKED = nfa.concat([EVERY, nfa.literal(bytes([MARK])), EVERY])
SOME = nfa.plus(utf8.utf8(utf8.EVERY))
Followed = tuple[tuple[Nfa, Nfa | None], ...]
"""Texts, and what may follow them; None: anything."""


def followed(builder: Builder, items: Sequence[Item], flags: int) -> Followed | None:
    """Split the texts of a pattern by the languages that must follow them (its look-ahead).

    None if they depend on the text before them, or it is not known which match is preferred.
    """
    end, begin = (lookaround.mark(number, 1) for number in (1, 2))
    after = resolved(builder, items, flags, [], [nfa.literal(end), EVERY])
    anywhere = nfa.concat([EVERY, nfa.literal(begin), after])
    beside = resolved(builder, items, flags, [EVERY, nfa.literal(begin)], [nfa.literal(end), EVERY])
    if not same(beside, anywhere):
        return None
    after = dfa.minimize(dfa.intersect(with_mark(after, end), MARKED))
    texts = dfa.minimize(nfa.union([each for each, _ in by_what_follows(after)]))
    if dfa.intersect(texts, nfa.concat([texts, SOME])).is_empty:
        return by_what_follows(after)
    matches = preferred_after(builder, items, flags, after)
    if matches is None:
        if not prefers_the_longest(builder, items, flags):
            return None
        matches = dfa.difference(after, nfa.erased(moved(after), SECOND, SECOND))
    matches = dfa.minimize(matches)
    shorter = nfa.concat([matches, SOME, nfa.literal(bytes([SECOND])), EVERY])
    alone = nfa.erased(dfa.intersect(dfa.minimize(moved(matches)), shorter), SECOND, SECOND)
    return by_what_follows(dfa.minimize(nfa.union([matches, alone])))


def resolved(
    builder: Builder, items: Sequence[Item], flags: int, before: Sequence[Nfa], after: Sequence[Nfa]
) -> Nfa:
    """Return the texts of items between others, in which all look-arounds and anchors hold."""
    within = builder._replace(marked=[], level=0, numbers=itertools.count(1))
    found = nfa.concat([*before, *within.plain(items, flags), *after])
    return anchors.resolve(lookaround.resolve(found, within.marked, utf8.utf8), utf8.utf8, looks=True)


def same(one: Nfa, other: Nfa) -> bool:
    """Return whether two languages are equal."""
    return dfa.difference(one, other).is_empty and dfa.difference(other, one).is_empty


def preferred_after(builder: Builder, items: Sequence[Item], flags: int, after: Nfa) -> Nfa | None:
    """Return the matches of a pattern whose look-aheads stand where all its ways through a text agree; None for other patterns.

    Then all ways go on or none does, so what is preferred is what is preferred without look-aheads.
    """
    try:
        found = preferred(builder, dropped(items, is_ahead), flags)
        marked = builder._replace(marked=[], level=0, numbers=itertools.count(1))
        words = nfa.concat(marked.plain(dropped(items, is_anchor), flags))
    except UnsupportedConstraint:
        return None
    if not all(stands_at_one_place(words, each.mark) for each in marked.marked):
        return None
    return dfa.intersect(found, after)


def stands_at_one_place(words: Nfa, mark: bytes) -> bool:
    """Return whether no two words, one of which may be a prefix of the other, have the mark at different places."""
    if lookaround.occurs(words, mark, times=2):
        return False
    one, other = (without_marks(with_mark(words, mark, byte)) for byte in (MARK, SECOND))
    first, second = (
        nfa.concat([nfa.ANYTHING, nfa.literal(bytes([byte])), nfa.ANYTHING]) for byte in (MARK, SECOND)
    )
    bare = dfa.difference(one, first)
    texts = nfa.erased(dfa.intersect(one, first), MARK, MARK)
    if not (prefix_free(bare, texts) and prefix_free(texts, bare)):
        return False
    one = nfa.looped(nfa.concat([dfa.intersect(one, first), EVERY]), ((SECOND, SECOND),))
    other = nfa.looped(dfa.intersect(other, second), ((MARK, MARK),))
    marks = [nfa.literal(bytes([byte])) for byte in (MARK, SECOND)]
    differ = [nfa.concat([EVERY, a, SOME, b, EVERY]) for a, b in (marks, marks[::-1])]
    return dfa.intersect(dfa.intersect(one, nfa.union(differ)), other).is_empty


def prefix_free(one: Nfa, other: Nfa) -> bool:
    """Return whether no word is a prefix of another's word."""
    return dfa.intersect(nfa.concat([one, EVERY]), other).is_empty


def without_marks(words: Nfa) -> Nfa:
    """Return words without the marks of look-arounds."""
    for byte in lookaround.LEVELS[0]:
        words = nfa.erased(words, byte, byte)
    return words


def is_ahead(item: Item) -> bool:
    """Return whether an item is a look-ahead."""
    return item[0] in LOOK and item[1][0] > 0


def is_anchor(item: Item) -> bool:
    """Return whether an item is an anchor or a look-behind."""
    return item[0] is constants.AT or (item[0] in LOOK and item[1][0] < 0)


def prefers_the_longest(builder: Builder, items: Sequence[Item], flags: int) -> bool:
    """Return whether a pattern tries its longest match first, then shorter ones: that holds if it does without look-arounds."""
    try:
        core = dropped(items, lambda item: is_ahead(item) or is_anchor(item))
        matches = dfa.minimize(dfa.intersect(preferred(builder, core, flags), MARKED))
    except UnsupportedConstraint:
        return False
    every = nfa.concat([*builder.plain(core, flags), nfa.literal(bytes([MARK])), EVERY])
    return same(matches, dfa.difference(every, nfa.erased(moved(every), SECOND, SECOND)))


def dropped(items: Sequence[Item], gone: Callable[[Item], bool]) -> list[Item]:
    """Return the items of a pattern without some. Raises ``UnsupportedConstraint`` for conditions on groups."""
    found: list[Item] = []
    for operation, argument in items:
        if gone((operation, argument)):
            continue
        if operation is constants.SUBPATTERN:
            group, added, removed, inner = argument
            argument = group, added, removed, dropped(inner, gone)
        elif operation is constants.BRANCH:
            argument = argument[0], [dropped(each, gone) for each in argument[1]]
        elif operation in REPEAT:
            argument = argument[0], argument[1], dropped(argument[2], gone)
        elif operation not in (*CHARACTER, *LOOK, constants.AT):
            raise UnsupportedConstraint(f"{operation} is not read beside look-ahead")
        found.append((operation, argument))
    return found


def with_mark(words: Nfa, mark: bytes, byte: int = MARK) -> Nfa:
    """Return words in which a mark is one byte."""
    plain = words.plain
    rows = [list(row) for row in plain.rows]
    for state, row in enumerate(plain.rows):
        ends = {state}
        for each in mark:
            ends = {to for at in ends for low, high, to in plain.rows[at] if low <= each <= high}
        rows[state] = sorted([*row, *((byte, byte, to) for to in ends)])
    kept = nfa.of_rows(rows, plain.start.tolist(), plain.accept.tolist())
    return dfa.difference(kept, nfa.concat([nfa.ANYTHING, nfa.literal(mark), nfa.ANYTHING]))


def moved(after: Nfa) -> Nfa:
    """Return ``{u ⊙ z ⊙' v : u z ⊙ v ∈ after, z ≠ ε}``."""
    plain = after.plain
    size = plain.num_states
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(3 * size)]
    for state, row in enumerate(plain.rows):
        rows[state] += [move for move in row if move[0] != MARK]
        rows[state].append((MARK, MARK, size + state))
        for low, high, to in row:
            if low != MARK:  # after the new mark at least one byte is read
                rows[size + state].append((low, high, 2 * size + to))
                rows[2 * size + state].append((low, high, 2 * size + to))
            else:
                rows[2 * size + state].append((SECOND, SECOND, 3 * size + to))
    rows += [[(low, high, 3 * size + to) for low, high, to in row if low != MARK] for row in plain.rows]
    found = nfa.of_rows(rows, plain.start.tolist(), [3 * size + state for state in plain.accept.tolist()])
    whole = nfa.concat([EVERY, nfa.literal(bytes([MARK])), EVERY, nfa.literal(bytes([SECOND])), EVERY])
    return dfa.intersect(found, whole)  # marks stand between characters


def by_what_follows(after: Nfa) -> Followed:
    """Split words t ⊙ z: return each language of z that occurs, with the texts t before it."""
    plain = after.plain
    targets: dict[int, list[int]] = {}
    rows = []
    for state, row in enumerate(plain.rows):
        rows.append([move for move in row if move[0] != MARK])
        for low, _, to in row:
            if low == MARK:
                targets.setdefault(to, []).append(state)
    found = []
    for target, ends in sorted(targets.items()):
        texts = dfa.minimize(nfa.of_rows(rows, plain.start.tolist(), ends))
        rest = dfa.minimize(nfa.of_rows(rows, [target], plain.accept.tolist()))
        free = dfa.difference(utf8.any_text(), rest).is_empty
        found.append((texts, None if free else rest))
    return tuple(found)
