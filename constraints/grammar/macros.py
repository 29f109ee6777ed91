"""The macros of xgrammar's EBNF: ``Regex(…)``, ``Substring(…)`` and ``TagDispatch(…)``.

Regex("a+", flags="i", json_string=true)        the texts that match, of characters that JSON strings need not escape;
                                                "." is any character, and with flags any but a line feed, unless one is s
Substring("ab", "cd")                           some of these pieces that stand in a row, or none
TagDispatch(("<f>", rule), excludes=("end",))   free text, and after each tag a text of its rule
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
        """What the macro stands for. Raises ``UnsupportedConstraint`` for arguments that it does not have."""
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
        """The values, which are texts; empty ones are left out."""
        found = list(values)
        if not all(isinstance(value, str) for value in found):
            raise self.refused("texts are expected")
        return [text for text in found if text]

    def flag(self, name: str, default: bool) -> bool:
        """An option that is true or false."""
        value = self.options.get(name)
        if value is not None and not (isinstance(value, Call) and value.rule in ("true", "false")):
            raise self.refused(f"{name} is true or false")
        return default if value is None else value.rule == "true"


def regex(macro: Macro) -> Expression:
    """The texts that match a pattern."""
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
    """Some of the pieces that stand in a row, or none."""
    return Text(pieces_in_a_row(macro.texts(macro.values)))


def tag_dispatch(macro: Macro) -> Expression:
    """Free text in which no tag occurs but before a text of its rule: any number of them, or at most one."""
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
}
"""By name: how a macro is read, and the options that it has."""
