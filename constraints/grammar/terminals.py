"""The texts of a Lark terminal, as Earley with ``lexer="dynamic_complete"`` lexes.

At a position the parser asks ``re`` for its preferred match of the terminal, then for the preferred match within every proper
prefix of that alone. So a terminal's texts are those that are their own preferred match, and of an ignored terminal only the
preferred match is taken. Terminals whose texts depend on what stands beside them are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..regex import anchors, lookaround
from ..regex.first_match import EVERY, MARK, preferred
from ..regex.pattern import Builder, compile_pattern, parse
from ..regex.syntax import LOOK, Item, constants, walk
from . import look_ahead
from .look_ahead import Followed

AFTER = nfa.concat([nfa.literal(bytes([MARK])), nfa.ANYTHING])


@dataclass(frozen=True, eq=False)
class Terminal:
    """What a terminal matches.

    ``matches``: ``u ⊙ v`` for the match u before v; None: each of ``texts`` matches whatever follows it. ``followed``: the texts
    by what may follow them, where that matters.
    """

    texts: Nfa
    matches: Nfa | None = None
    followed: Followed = ()


def read_terminal(pattern: str, ignored: bool) -> Terminal:
    """Read the pattern of a terminal; ``ignored``: of one that the grammar ignores.

    Raises ``UnsupportedConstraint`` with the position, and ``TooManyStates``.
    """
    items, flags = parse(pattern, 0)
    builder = Builder(pattern, utf8.utf8, False, [], itertools.count(1), 0)
    looking = any(operation is constants.AT or operation in LOOK for operation, _ in walk(items))
    if looking:
        texts = compile_pattern(pattern, 0, utf8.utf8)
        beside = looks_beside(builder, items, flags, texts)
        if not beside and is_prefix_free(texts):
            return Terminal(dfa.minimize(texts))
        found = None if ignored else look_ahead.followed(builder, items, flags)
        if found is not None:
            plain = len(found) == 1 and found[0][1] is None
            every = dfa.minimize(nfa.union([part for part, _ in found]))
            return Terminal(every, followed=() if plain else found)
        if beside:
            raise UnsupportedConstraint(
                f"{pattern!r} depends on the text before the terminal (\\b, ^, look-behind), or on the text after it in a way "
                "that is not known: write what stands there into a rule, or leave texts out by A & ~B",
                path="position 0",
            )
    try:
        matches = dfa.minimize(preferred(builder, items, flags))
    except UnsupportedConstraint:  # the preference among matches is not known, but may not matter
        texts = compile_pattern(pattern, 0, utf8.utf8)
        if not is_prefix_free(texts):
            raise
        return Terminal(dfa.minimize(texts))
    own = before_mark(dfa.intersect(matches, nfa.concat([EVERY, nfa.literal(bytes([MARK]))])))
    if not ignored or dfa.difference(nfa.concat([own, AFTER]), matches).is_empty:
        return Terminal(own)
    return Terminal(before_mark(matches), matches)


def looks_beside(builder: Builder, items: Sequence[Item], flags: int, texts: Nfa) -> bool:
    """Return whether the texts of a pattern depend on what stands before or after them; ``texts``: those alone."""
    within = builder._replace(marked=[], level=0, numbers=itertools.count(1))
    begin, end = (nfa.literal(lookaround.mark(number, 1)) for number in (1, 2))
    found = nfa.concat([EVERY, begin, *within.plain(items, flags), end, EVERY])
    found = anchors.resolve(lookaround.resolve(found, within.marked, utf8.utf8), utf8.utf8, looks=True)
    anywhere = nfa.concat([EVERY, begin, texts, end, EVERY])
    return not (dfa.difference(found, anywhere).is_empty and dfa.difference(anywhere, found).is_empty)


def is_prefix_free(texts: Nfa) -> bool:
    """Return whether no text has another as a proper prefix."""
    longer = nfa.concat([texts, nfa.plus(utf8.utf8(utf8.EVERY))])
    return dfa.intersect(texts, longer).is_empty


def before_mark(marked: Nfa) -> Nfa:
    """Return what stands before ⊙."""
    plain = marked.plain
    rows = [[move for move in row if move[0] != MARK] for row in plain.rows]
    ends = [state for state, row in enumerate(rows) if len(row) < len(plain.rows[state])]
    return dfa.minimize(nfa.of_rows(rows, plain.start.tolist(), ends))
