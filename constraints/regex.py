"""Python's ``re`` syntax as automata: the language is that of ``re.fullmatch``.

The standard library's own parser reads the pattern, and its own matcher says which characters a class stands for
(``characters.py``), so both agree with ``re`` by construction.

Zero-width assertions are *marks*: letters that the text does not have (bytes that never occur in UTF-8). The pattern
becomes an automaton over characters and marks; ``anchors.py`` keeps the words whose marks stand where they may, and
erases the marks. Look-ahead intersects (or subtracts from) what follows it; under a repeat, and for look-behind, it is a
mark too (``lookaround.py``). What ``re`` does not read but is regular
(Unicode properties, set operations) is rewritten first, in ``properties.py``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..errors import UnsupportedConstraint
from . import anchors, dfa, lookaround, nfa, utf8
from .characters import Item, characters, constants, parser
from .constraint import Constraint
from .lookaround import Look
from .nfa import Nfa
from .properties import rewritten
from .utf8 import Alphabet

CHARACTER = (constants.LITERAL, constants.NOT_LITERAL, constants.IN, constants.ANY)
REPEAT = (constants.MAX_REPEAT, constants.MIN_REPEAT)
LOOK_AHEAD = (constants.ASSERT, constants.ASSERT_NOT)
REFUSED = {
    constants.GROUPREF: ("back-references", r"\\[1-9]|\(\?P="),
    constants.GROUPREF_EXISTS: ("conditional groups", r"\(\?\("),
    constants.ATOMIC_GROUP: ("atomic groups of more than one character or choice", r"\(\?>"),
    constants.POSSESSIVE_REPEAT: ("possessive repeats of more than one character", r"[*+?}]\+"),
}
FOREIGN = {
    "recursion": r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)",
    "conditional groups": r"\(\?\(",
    "branch reset": r"\(\?\|",
    "backtracking verbs": r"\(\*[A-Z]",
    "the end of the match before": r"\\G",
    "the start of the match": r"\\K",
}
"""What other dialects have and ``re`` has not: not regular, or not about a whole text."""
SET_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL


def regex(pattern: str, flags: int = 0) -> Constraint:
    """The texts that ``re.fullmatch(pattern, text, flags)`` matches.

    Everything but back-references and conditional groups; atomic groups and possessive repeats only where they hold one
    character, one repeat of it, or a choice of such; at most four look-arounds that are look-behind or under a repeat. The
    rest raises ``UnsupportedConstraint`` with the position, as does what is not a pattern at all. Beyond ``re``:
    properties ``\\p{…}``, set operations in classes that use them or that ``re`` refuses (``[\\w--[\\d_]]``), and names
    as ``(?<name>…)``, all as the ``regex`` package reads them. Raises ``TooManyStates`` for patterns beyond reason.
    """
    return Constraint(compile_pattern(pattern, flags, utf8.utf8))


def compile_pattern(pattern: str, flags: int, alphabet: Alphabet, ecma_search: bool = False) -> Nfa:
    """The automaton of the texts that match, each character written as the alphabet writes it.

    With ``ecma_search`` the pattern is read as JSON Schema does: a match anywhere in the text will do, ``$`` is the end
    of the text only, and ``\\d``, ``\\w``, ``\\b`` are about ASCII.
    """
    flags |= re.ASCII if ecma_search else 0
    tree = parse(pattern, flags)
    builder = Builder(pattern, alphabet, ecma_search, [], iter(lookaround.MARKS))
    around = nfa.star(alphabet(utf8.EVERY)) if ecma_search else nfa.literal(b"")
    try:
        body = builder.sequence(list(tree), tree.state.flags, around)
    except RecursionError:
        raise too_deep(pattern) from None
    body = nfa.concat([around, body]) if ecma_search else body
    return anchors.resolve(lookaround.resolve(body, builder.looks, alphabet), alphabet)


def parse(pattern: str, flags: int) -> Any:
    """The tree of the standard library's parser, of the pattern or, where ``re`` refuses that, of what it is rewritten to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about set notation that future versions may read
        try:
            return parser.parse(pattern, flags)
        except re.error as error:
            first = error
        except RecursionError:
            raise too_deep(pattern) from None
        except OverflowError as error:
            raise UnsupportedConstraint(f"{pattern!r}: {error}", path="position 0") from None
        for what, sign in FOREIGN.items():
            if found := place(pattern, sign):
                raise UnsupportedConstraint(
                    f"{what} in {pattern!r} cannot be compiled", path=f"position {found.start()}"
                )
        with suppress(re.error):
            return parser.parse(rewritten(pattern), flags)
    raise UnsupportedConstraint(
        f"{pattern!r} is not a regular expression: {first.msg}", path=f"position {first.pos}"
    )


def too_deep(pattern: str) -> UnsupportedConstraint:
    """The error for groups within groups within groups."""
    return UnsupportedConstraint(f"the groups of {pattern[:40]!r}… nest too deep", path="position 0")


def place(pattern: str, sign: str) -> re.Match[str] | None:
    """The first match of ``sign`` that is neither escaped nor in a class."""
    token = re.compile(rf"({sign})|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
    return next((m for m in token.finditer(pattern) if m[1] is not None), None)


class Builder(NamedTuple):
    """Turns the parser's tree into an automaton; ``flags`` are those in force at the place. ``looks`` collects the
    look-arounds that left a mark."""

    pattern: str
    alphabet: Alphabet
    dollar_is_end: bool
    looks: list[Look]
    marks: Iterator[int]

    def sequence(self, items: Sequence[Item], flags: int, rest: Nfa) -> Nfa:
        """The items one after the other, then ``rest``, which is all of what follows them in the pattern."""
        later = next((i for i in reversed(range(len(items))) if meets_the_rest(items[i])), None)
        if later is None:
            return nfa.concat([*self.plain(items, flags), rest])
        rest = self.sequence(items[later + 1 :], flags, rest)
        operation, argument = items[later]
        if operation in LOOK_AHEAD:
            rest = self.look_ahead(operation, argument, flags, rest)
        elif operation is constants.SUBPATTERN:
            _, added, removed, inner = argument
            rest = self.sequence(list(inner), (flags | added) & ~removed, rest)
        elif operation is constants.BRANCH:
            rest = nfa.union([self.sequence(list(branch), flags, rest) for branch in argument[1]])
        else:
            low, _, inner = argument
            once = self.sequence(list(inner), flags, rest)
            rest = once if low else nfa.union([once, rest])
        return self.sequence(items[:later], flags, rest)

    def look_ahead(self, operation: Any, argument: Any, flags: int, rest: Nfa) -> Nfa:
        """What follows, if it does (or does not) begin with a match."""
        every = nfa.star(self.alphabet(utf8.EVERY))
        match = self.sequence(list(argument[1]), flags, every)
        match = anchors.resolve(match, self.alphabet, middle=self.pattern)
        if operation is constants.ASSERT_NOT:
            match = dfa.difference(every, match)
        return dfa.intersect(rest, anchors.transparent(match))

    def look(self, operation: Any, argument: Any, flags: int) -> Nfa:
        """The mark of a look-around."""
        direction, inner = argument
        within = Builder(self.pattern, self.alphabet, self.dollar_is_end, [], self.marks)
        inside = nfa.concat(within.plain(list(inner), flags))
        negative = operation is constants.ASSERT_NOT
        mark = next(self.marks, None)
        if mark is None:
            raise self.refused("more than four look-behinds or look-aheads under repeats", r"\(\?<?[=!]")
        self.looks.append(Look(mark, inside, direction > 0, negative, within.looks))
        return nfa.literal(bytes([mark]))

    def committed(self, items: Sequence[Item], flags: int, refusal: Any) -> list[Nfa]:
        """The first match of the items by preference, which an atomic group never gives up for another.

        A greedy repeat of one character takes as many as there are, a lazy one as few as will do; of a choice, the first
        that matches: ``A | (?!A) B``. What comes before has to be the same in every match.
        """
        if not items or all(item[0] in CHARACTER for item in items):
            return self.plain(items, flags)
        if items[0][0] in CHARACTER:
            return self.plain(items[:1], flags) + self.committed(items[1:], flags, refusal)
        operation, argument = items[0]
        if len(items) > 1:
            raise self.refused(*REFUSED[refusal])
        if operation is constants.SUBPATTERN:
            _, added, removed, inner = argument
            return self.committed(list(inner), (flags | added) & ~removed, refusal)
        if operation is constants.ATOMIC_GROUP:
            return self.committed(list(argument), flags, refusal)
        if operation is constants.BRANCH:
            *first, last = (list(branch) for branch in argument[1])
            parts, before = [], list[Nfa]()
            for branch in first:
                parts.append(nfa.concat([*before, *self.committed(branch, flags, refusal)]))
                before.append(self.look(constants.ASSERT_NOT, (1, branch), flags))
            return [nfa.union([*parts, nfa.concat([*before, *self.committed(last, flags, refusal)])])]
        if operation not in (*REPEAT, constants.POSSESSIVE_REPEAT) or not one_character(argument[2]):
            raise self.refused(*REFUSED[refusal])
        low, high, inner = argument
        one = nfa.concat(self.plain(list(inner), flags))
        if operation is constants.MIN_REPEAT:
            return [nfa.repeat(one, int(low), int(low))]
        end = self.look(constants.ASSERT_NOT, (1, inner), flags)
        if high == constants.MAXREPEAT:
            return [nfa.repeat(one, int(low), None), end]
        full = nfa.repeat(one, int(high), int(high))
        return [nfa.union([nfa.concat([nfa.repeat(one, int(low), int(high)), end]), full])]

    def plain(self, items: Sequence[Item], flags: int) -> list[Nfa]:
        """The automata of items; look-arounds leave marks."""
        parts = []
        for operation, argument in items:
            if operation in CHARACTER:
                parts.append(self.alphabet(characters((operation, argument), flags & SET_FLAGS)))
            elif operation in REPEAT:
                low, high, inner = argument
                bound = None if high == constants.MAXREPEAT else int(high)
                parts.append(nfa.repeat(nfa.concat(self.plain(list(inner), flags)), int(low), bound))
            elif operation is constants.SUBPATTERN:
                _, added, removed, inner = argument
                parts.extend(self.plain(list(inner), (flags | added) & ~removed))
            elif operation is constants.BRANCH:
                parts.append(nfa.union([nfa.concat(self.plain(list(b), flags)) for b in argument[1]]))
            elif operation is constants.AT:
                parts.append(anchors.mark(argument, flags, self.dollar_is_end))
            elif operation in LOOK_AHEAD:
                parts.append(self.look(operation, argument, flags))
            elif operation in (constants.ATOMIC_GROUP, constants.POSSESSIVE_REPEAT):
                inside = argument if operation is constants.ATOMIC_GROUP else [(operation, argument)]
                parts.extend(self.committed(list(inside), flags, operation))
            elif operation is constants.FAILURE:
                parts.append(nfa.empty())
            else:
                raise self.refused(*REFUSED.get(operation, (str(operation), "")))
        return parts

    def refused(self, what: str, sign: str) -> UnsupportedConstraint:
        """The error for a construct, with the first place in the pattern that looks like it."""
        found = place(self.pattern, sign) if sign else None
        position = found.start() if found else 0
        return UnsupportedConstraint(
            f"{what} in {self.pattern!r} cannot be compiled", path=f"position {position}"
        )


def meets_the_rest(item: Item) -> bool:
    """Whether a look-ahead occurs in the item that can be met with what follows: it is under no repeat, and all inside
    it looks ahead."""
    operation, argument = item
    if operation in LOOK_AHEAD:
        return bool(argument[0] > 0) and all(map(looks_ahead_only, argument[1]))
    if operation in REPEAT:
        return bool(argument[1] == 1) and any(map(meets_the_rest, argument[2]))
    if operation is constants.SUBPATTERN:
        return any(map(meets_the_rest, argument[3]))
    if operation is constants.BRANCH:
        return any(meets_the_rest(inner) for branch in argument[1] for inner in branch)
    return False


def looks_ahead_only(item: Item) -> bool:
    """Whether nothing in the item asks what came before."""
    operation, argument = item
    if operation is constants.AT:
        return argument in (constants.AT_END, constants.AT_END_STRING)
    if operation in LOOK_AHEAD:
        return meets_the_rest(item)
    if operation in REPEAT:
        return all(map(looks_ahead_only, argument[2])) and (
            argument[1] == 1 or not any(map(meets_the_rest, argument[2]))
        )
    if operation is constants.SUBPATTERN:
        return all(map(looks_ahead_only, argument[3]))
    if operation is constants.BRANCH:
        return all(looks_ahead_only(inner) for branch in argument[1] for inner in branch)
    return operation in CHARACTER or operation is constants.FAILURE


def one_character(items: Sequence[Item]) -> bool:
    """Whether the items read exactly one character."""
    if len(items) == 1 and items[0][0] is constants.SUBPATTERN:
        return one_character(items[0][1][3])
    return len(items) == 1 and items[0][0] in CHARACTER
