"""The macros of xgrammar's EBNF: ``Regex(…)``, ``Substring(…)``, ``TagDispatch(…)`` and ``TokenTagDispatch(…)``.

Regex("a+", flags="i", json_string=true)        the texts that match, of characters that JSON strings need not escape;
                                                "." is any character, but with flags other than s no line feed
Substring("ab", "cd")                           consecutive pieces of this sequence, or none
TagDispatch(("<f>", rule), excludes=("end",))   free text, and after each tag a text of its rule
TokenTagDispatch((7, rule), excludes=(8,))      the same with the texts of tokens
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..regex.pattern import compile_pattern
from ..words.free_text import before, without_any
from .operations import pieces_in_a_row
from .tree import Call, Choice, Expression, Repeat, Series, Text

FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "u": 0}
UNESCAPED = r'[^"\\\x00-\x1f]*'


@dataclass(frozen=True)
class Macro:
    """A macro with its arguments: texts, names as ``Call``, tuples of them, and options by name."""

    name: str
    values: tuple[Any, ...]
    options: dict[str, Any]
    line: int

    def expression(self) -> Expression:
        """Return the expression that the macro stands for.

        Raises ``UnsupportedConstraint`` for wrong arguments.
        """
        read, options = MACROS[self.name]
        for name in self.options:
            if name not in options:
                raise self.refused(
                    f"there is no option {name}; its options are {', '.join(options) or 'none'}"
                )
        return read(self)

    def refused(self, why: str) -> UnsupportedConstraint:
        return UnsupportedConstraint(f"{self.name}: {why}", path=f"line {self.line}")

    def texts(self, values: Iterable[Any]) -> list[str]:
        """Check that the values are texts, and drop empty ones."""
        found = list(values)
        if not all(isinstance(value, str) for value in found):
            raise self.refused("texts are expected")
        return [text for text in found if text]

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean option."""
        value = self.options.get(name)
        if value is not None and not (isinstance(value, Call) and value.rule in ("true", "false")):
            raise self.refused(f"{name} is true or false")
        return default if value is None else value.rule == "true"


def regex(macro: Macro) -> Expression:
    """Return the texts that match a pattern."""
    flags = macro.options.get("flags", "s")
    if len(macro.values) != 1 or not isinstance(macro.values[0], str):
        raise macro.refused("one pattern is expected")
    if not isinstance(flags, str) or set(flags) - FLAGS.keys():
        raise macro.refused(f"flags is a text of the letters {''.join(FLAGS)}")
    try:
        found = compile_pattern(macro.values[0], reduce(or_, map(FLAGS.__getitem__, flags), 0), utf8.utf8)
    except UnsupportedConstraint as error:
        raise macro.refused(str(error)) from None
    if macro.flag("json_string", False):
        unescaped = compile_pattern(UNESCAPED, 0, utf8.utf8)
        found = dfa.intersect(dfa.simplify(found), dfa.simplify(unescaped))
    return Text(found)


def substring(macro: Macro) -> Expression:
    """Return consecutive pieces of a sequence, or none."""
    return Text(pieces_in_a_row(macro.texts(macro.values)))


def tag_dispatch(macro: Macro) -> Expression:
    """Return free text in which each tag is followed by a text of its rule.

    A text has any number of tags, or at most one with ``loop_after_dispatch=false``.
    """
    rules: dict[str, list[Expression]] = {}
    for pair in macro.values:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Call)):
            raise macro.refused('pairs ("tag", rule) are expected')
        if not isinstance(pair[0], str) or not pair[0]:
            raise macro.refused("a tag is a text that is not empty")
        rules.setdefault(pair[0], []).append(pair[1])
    excludes = macro.options.get("excludes", ())
    excluded = macro.texts(excludes if isinstance(excludes, tuple) else [excludes])
    tags = list(rules)
    for tag in tags:
        if any(each in tag for each in excluded):
            raise macro.refused(f"a text that is excluded occurs in the tag {tag!r}")
    ways = [
        Series(
            [Text(nfa.concat([before(tag, tags, excluded).nfa, nfa.literal(tag.encode())])), Choice(called)]
        )
        for tag, called in rules.items()
    ]
    rest = Text(without_any([*tags, *excluded]).nfa)
    if macro.flag("loop_after_dispatch", True):
        return Series([Repeat(Choice(ways), 0, None), rest]) if ways else rest
    return Choice([*ways, rest])


MACROS = {
    "Regex": (regex, ("flags", "json_string")),
    "Substring": (substring, ()),
    "TagDispatch": (tag_dispatch, ("excludes", "loop_after_dispatch")),
    "TokenTagDispatch": (tag_dispatch, ("excludes", "loop_after_dispatch")),
}
"""By name: the function that reads the macro, and its options."""
