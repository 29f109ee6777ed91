"""The trees of grammars in GBNF, EBNF and ABNF.

A *notation* is a pattern with a group for each kind of token. Tokens that stand for texts have names in small letters, which
are those of their trees; others are ``HEAD`` (the name that a rule defines), ``MORE`` (a rule to which alternatives are added),
``BAR``, ``OPEN``, ``CLOSE``, ``TIMES`` (after what it repeats), ``COUNT`` (before it), ``MINUS``, ``COMMA``, ``END``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import UnsupportedConstraint

BRACKETS = {"(": (")", "choice"), "[": ("]", "optional"), "{": ("}", "many"), "(=": (")", "lookahead")}


class Token(str):
    """A token of a grammar, with its kind and line."""

    kind: str
    line: int


@dataclass(slots=True)
class Tree:
    """A part of a grammar: its kind, and the trees and tokens that it is made of."""

    data: str
    children: Sequence[Tree | Token | None]


class Parser:
    """A parser of a grammar's tokens.

    ``syntax``: its name; ``fewest``: the fewest parts of an alternative; ``instead``: what to write for tokens, or kinds of them,
    that are not read.
    """

    def __init__(
        self, text: str, notation: str, syntax: str, fewest: int = 0, instead: Mapping[str, str] | None = None
    ) -> None:
        self.syntax, self.fewest, self.instead = syntax, fewest, instead or {}
        self.left: list[Token] = []  # the last token first
        line = 1
        for match in re.compile(rf"(?:{notation})|(?P<OTHER>.)|(?P<EMPTY>\Z)", re.VERBOSE).finditer(text):
            if match.lastgroup:
                token = Token(match[match.lastgroup])
                token.kind, token.line = match.lastgroup, line
                self.left.append(token)
            line += match[0].count("\n")
        self.left.reverse()

    def take(self, *kinds: str) -> Token | None:
        """Consume and return the next token if it is of one of these kinds, else return None."""
        return self.left.pop() if self.left[-1].kind in kinds else None

    def refused(self) -> UnsupportedConstraint:
        """Return the error for a token that cannot stand where it does."""
        token = self.left[-1]
        what = f"{str(token)!r} cannot stand here" if token else "it ends too early, or has no rules"
        instead = self.instead.get(token) or self.instead.get(token.kind)
        return UnsupportedConstraint(
            f"{token} is not read: {instead}"
            if instead
            else f"the {self.syntax} grammar cannot be read: {what}",
            path=f"line {token.line}",
        )

    def rules(self) -> list[tuple[Token, Tree]]:
        """Return the head and the body of each rule. Raises ``UnsupportedConstraint`` with the line."""
        found = []
        while (head := self.take("HEAD", "MORE")) is not None:
            found.append((head, self.choice()))
            self.take("END")
        if self.left[-1].kind != "EMPTY" or not found:
            raise self.refused()
        return found

    def choice(self) -> Tree:
        """Return the tree of alternatives."""
        parts = [self.series()]
        while self.take("BAR") is not None:
            parts.append(self.series())
        return parts[0] if len(parts) == 1 else Tree("choice", parts)

    def series(self) -> Tree:
        """Return the tree of what stands in a row."""
        parts = []
        while (part := self.term()) is not None:
            while (sign := self.take("MINUS")) is not None:
                part = Tree("without", [part, sign, self.term(needed=True)])
            parts.append(part)
            self.take("COMMA")
        if len(parts) < self.fewest:
            raise self.refused()
        return parts[0] if len(parts) == 1 else Tree("series", parts)

    def term(self, needed: bool = False) -> Tree | None:
        """Parse one term and its repetition; None if no term stands next, which raises where one is ``needed``."""
        count, token = self.take("COUNT"), self.left[-1]
        found: Tree | None = None
        if token.kind.islower():
            found = Tree(token.kind, [self.left.pop()])
        elif self.take("OPEN") is not None:
            closing, data = BRACKETS[token]
            found = self.choice()
            if self.left[-1] != closing:
                raise self.refused()
            self.left.pop()
            found = found if data == "choice" else Tree(data, [found])
        elif needed or count is not None:
            raise self.refused()
        for times in (count, found and self.take("TIMES")):
            found = found if found is None or times is None else Tree("times", [found, times])
        return found
