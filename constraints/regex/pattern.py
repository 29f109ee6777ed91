"""Python's ``re`` syntax as automata: the language is that of ``re.fullmatch``.

The standard library's own parser reads the pattern, and its own matcher says which characters a class stands for
(``characters.py``), so both agree with ``re`` by construction. Regular constructs that ``re`` does not read are rewritten
first (``dialects.py``, ``properties.py``).

Zero-width assertions are *marks*, bytes that never occur in UTF-8. The pattern becomes an automaton over characters and
marks; ``anchors.py`` keeps the words in which the assertions hold, and erases the marks. A look-ahead outside repeats is
intersected with what follows it; look-behinds and look-aheads under a repeat leave marks too (``lookaround.py``).
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.utf8 import Alphabet
from ..automata.work import limited, spend
from . import anchors, lookaround, syntax
from .characters import characters
from .dialects import re_pattern
from .lookaround import Look
from .syntax import ATOMIC, CHARACTER, LOOK, REPEAT, Item, constants, parser, scoped

BEGINNINGS = (constants.AT, constants.AT_BEGINNING), (constants.AT, constants.AT_BEGINNING_STRING)
ENDS = (constants.AT, constants.AT_END), (constants.AT, constants.AT_END_STRING)
"""Anchors that hold by themselves at the end of a whole match, as ``BEGINNINGS`` do at its beginning."""
_BACK_REFERENCE = (
    "a back-reference: write the texts of the group out, each with its repetition",
    r"\\[1-9]|\(\?P=",
)
REFUSED = {
    **dict.fromkeys(
        ATOMIC,
        (
            "an atomic group or possessive repeat: write (?:…), *, + or ?, and let what follows not begin alike",
            r"\(\?>|[*+?}]\+",
        ),
    ),
    constants.GROUPREF: _BACK_REFERENCE,
    constants.GROUPREF_EXISTS: ("a conditional group: write its two cases as alternatives", r"\(\?\("),
}
"""Constructs of ``re`` that are not compiled: what they are and what to write instead, and their sign in a pattern."""
SET_FLAGS = int(re.IGNORECASE | re.ASCII | re.DOTALL)


@limited()
def compile_pattern(pattern: str, flags: int, alphabet: Alphabet, ecma_search: bool = False) -> Nfa:
    """Return the automaton of the texts that match, with characters encoded by ``alphabet``.

    With ``ecma_search`` the pattern has JSON Schema's meaning: a match anywhere in the text suffices, and ``$`` is only the
    end of the text.
    """
    spend(3 * len(pattern))
    items, flags = parse(pattern, flags)
    builder = Builder(pattern, alphabet, ecma_search, [], itertools.count(1), 0)
    nothing = nfa.literal(b"")
    before = after = nfa.star(alphabet(utf8.EVERY)) if ecma_search else nothing
    lines = ecma_search and bool(flags & re.MULTILINE)  # then ^ and $ match at lines, not only at the ends
    if items and items[0] in BEGINNINGS[lines:]:
        items, before = items[1:], nothing
    if items and items[-1] in ENDS[lines:]:
        items, after = items[:-1], nothing
    try:
        rest = after if any(map(meets_the_rest, items)) else nothing
        body = builder.sequence(items, flags, rest)
    except RecursionError:
        raise too_deep(pattern) from None
    if before is not nothing:
        body = nfa.concat([before, body])
    if rest is not after:  # behind the first match nothing is asked for
        body = nfa.concat([dfa.first_matches(body), after])
    return anchors.resolve(lookaround.resolve(body, builder.marked, alphabet), alphabet).plain


def parse(pattern: str, flags: int) -> tuple[list[Item], int]:
    """Parse a pattern with the standard library's parser: its tree and flags.

    A pattern that ``re`` refuses is first rewritten to one that it reads (``dialects.py``). Raises ``UnsupportedConstraint``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about set notation that future versions may read
        try:
            try:
                tree = parser.parse(pattern, flags)
                return list(tree), tree.state.flags
            except re.error as error:
                first = error
            text = re_pattern(pattern, flags)
            with suppress(re.error):
                tree = parser.parse(text, flags)
                return list(tree), tree.state.flags
        except UnsupportedConstraint:
            raise
        except RecursionError:
            raise too_deep(pattern) from None
        except OverflowError as error:
            raise UnsupportedConstraint(f"{pattern!r}: {error}", path="position 0") from None
        except ValueError as error:  # flags that exclude each other
            raise UnsupportedConstraint(f"{pattern!r}: {error}", path="flags") from None
    raise UnsupportedConstraint(
        f"{pattern!r} is not a regular expression: {first.msg}", path=f"position {first.pos}"
    )


def too_deep(pattern: str) -> UnsupportedConstraint:
    """Return the error for groups that nest too deep."""
    return UnsupportedConstraint(f"the groups of {pattern[:40]!r}… nest too deep", path="position 0")


class Builder(NamedTuple):
    """A translator from the parser's tree to automata.

    ``marked`` collects the look-arounds that left marks. The ``flags`` of each method are those in force at its items.
    """

    pattern: str
    alphabet: Alphabet
    dollar_is_end: bool
    marked: list[Look]
    numbers: Iterator[int]
    level: int

    def sequence(self, items: Sequence[Item], flags: int, rest: Nfa) -> Nfa:
        """Return the concatenation of items with ``rest``, the automaton of all that follows in the pattern."""
        later = next((i for i in reversed(range(len(items))) if meets_the_rest(items[i])), None)
        if later is None:
            return nfa.concat([*self.plain(items, flags), rest])
        rest = self.sequence(items[later + 1 :], flags, rest)
        operation, argument = items[later]
        if operation in LOOK:
            end = later + 1
            while later and items[later - 1][0] in LOOK and meets_the_rest(items[later - 1]):
                later -= 1
            rest = self.look_ahead(items[later:end], flags, rest)
        elif operation is constants.SUBPATTERN:
            _, added, removed, inner = argument
            rest = self.sequence(list(inner), scoped(flags, added, removed), rest)
        elif operation is constants.BRANCH:
            rest = nfa.union([self.sequence(list(branch), flags, rest) for branch in argument[1]])
        else:
            low, _, inner = argument
            once = self.sequence(list(inner), flags, rest)
            rest = once if low else nfa.union([once, rest])
        return self.sequence(items[:later], flags, rest)

    def look_ahead(self, looks: Sequence[Item], flags: int, rest: Nfa) -> Nfa:
        """Return the texts of ``rest`` that begin (or do not begin) with a match of each look-ahead."""
        every = nfa.star(self.alphabet(utf8.EVERY))
        matches = []
        for operation, argument in looks:
            match = self.sequence(list(argument[1]), flags, every)
            match = anchors.resolve(match, self.alphabet, middle=self.pattern)
            matches.append(
                dfa.difference(every, match) if operation is constants.ASSERT_NOT else dfa.simplify(match)
            )
        match = functools.reduce(lambda a, b: dfa.simplify(dfa.intersect(a, b)), matches)
        return dfa.intersect(rest, nfa.looped(match, anchors.ALL_MARKS))

    def look(self, operation: Any, argument: Any, flags: int) -> Nfa:
        """Record a look-around and return the automaton of its mark."""
        direction, inner = argument
        within = self._replace(marked=[], level=self.level + 1)
        inside = nfa.concat(within.plain(list(inner), flags))
        negative = operation is constants.ASSERT_NOT
        mark = lookaround.mark(next(self.numbers), self.level)
        self.marked.append(Look(mark, inside, direction > 0, negative, self.level, within.marked))
        return nfa.literal(mark)

    def character(self, item: Item, flags: int) -> Nfa:
        """Return the automaton of an item that reads one character."""
        return self.alphabet(characters(item, flags & SET_FLAGS))

    def plain(self, items: Sequence[Item], flags: int) -> list[Nfa]:
        """Return the automata of items; look-arounds leave marks."""
        parts = []
        for operation, argument in items:
            if operation in CHARACTER:
                parts.append(self.character((operation, argument), flags))
            elif operation in REPEAT:
                low, high, inner = argument
                bound = None if high == constants.MAXREPEAT else int(high)
                parts.append(repeat(nfa.concat(self.plain(list(inner), flags)), int(low), bound))
            elif operation is constants.SUBPATTERN:
                _, added, removed, inner = argument
                parts.extend(self.plain(list(inner), scoped(flags, added, removed)))
            elif operation is constants.BRANCH:
                parts.append(nfa.union([nfa.concat(self.plain(list(b), flags)) for b in argument[1]]))
            elif operation is constants.AT:
                parts.append(anchors.mark(argument, flags, self.dollar_is_end))
            elif operation in LOOK:
                parts.append(self.look(operation, argument, flags))
            elif operation is constants.FAILURE:
                parts.append(nfa.empty())
            elif operation in REFUSED:
                raise syntax.refused(*REFUSED[operation], self.pattern)
            else:
                raise syntax.refused(str(operation), "", self.pattern)
        return parts


def meets_the_rest(item: Item) -> bool:
    """Return whether the item holds a look-ahead to intersect with what follows.

    It must be under no repeat, and a look-ahead may contain only what looks ahead.
    """
    operation, argument = item
    if operation in LOOK:
        return bool(argument[0] > 0) and all(map(looks_ahead_only, argument[1]))
    if operation in REPEAT:
        return bool(argument[1] == 1) and any(map(meets_the_rest, argument[2]))
    if operation is constants.SUBPATTERN:
        return any(map(meets_the_rest, argument[3]))
    if operation is constants.BRANCH:
        return any(meets_the_rest(inner) for branch in argument[1] for inner in branch)
    return False


def looks_ahead_only(item: Item) -> bool:
    """Return whether no assertion in the item depends on preceding text or on what follows a repeat."""
    operation, argument = item
    if operation is constants.AT:
        return argument in (constants.AT_END, constants.AT_END_STRING)
    if operation in LOOK:
        return meets_the_rest(item)
    if operation in REPEAT and argument[1] != 1 and any(o in LOOK for o, _ in syntax.walk(argument[2])):
        return False
    return all(looks_ahead_only(deeper) for part in syntax.inner(item) for deeper in part)
