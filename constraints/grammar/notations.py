"""The parser of grammars in GBNF, EBNF and ABNF.

A *notation* is a pattern with a group for each kind of token. Those that a reader makes expressions of have names in small
letters. Others are ``HEAD`` (the name that a rule defines), ``MORE`` (a rule to which alternatives are added), ``BAR``,
``OPEN``, ``CLOSE``, ``TIMES`` (after what it repeats), ``COUNT`` (before it), ``MINUS``, ``COMMA``, ``END``.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping

from ...errors import UnsupportedConstraint
from ..automata.work import spend
from .token_references import ExpressionReader, excludes
from .tree import Choice, Expression, Repeat, Series, Without

CLOSING = {"(": ")", "[": "]", "{": "}", "(=": ")"}
"""Brackets, by which they open: around what is one, may be there, may be repeated, or is a hint of what follows."""


class Token(str):
    """A token of a grammar, with its kind and line."""

    __slots__ = ("kind", "line")
    kind: str
    line: int


class TokenReader(ExpressionReader):
    """A reader of what a token stands for."""

    @abstractmethod
    def leaf(self, token: Token) -> Expression:
        """Return the expression of a token."""

    @abstractmethod
    def counts(self, token: Token) -> tuple[int, int | None]:
        """Return the fewest and the most repetitions of a quantifier."""


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
        spend(2 * len(text))
        pattern = re.compile(rf"(?:(?:{notation})|(?P<OTHER>.)|(?P<EMPTY>\Z))[^\S\n]*", re.VERBOSE)
        for match in pattern.finditer(text):
            if kind := match.lastgroup:
                token = Token(match[kind])
                token.kind, token.line = kind, line
                self.left.append(token)
            line += match[0].count("\n")
        spend(30 * len(self.left))
        self.left.reverse()

    def take(self, kind: str) -> Token | None:
        """Return the next token if it is of this kind, and go on behind it."""
        return self.left.pop() if self.left[-1].kind == kind else None

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

    @property
    def heads(self) -> list[Token]:
        """The names of the rules."""
        return [token for token in reversed(self.left) if token.kind in ("HEAD", "MORE")]

    def rules(self, reader: TokenReader) -> list[tuple[Token, Expression]]:
        """Return the head and the body of each rule. Raises ``UnsupportedConstraint`` with the line."""
        found, self.reader = [], reader
        while (head := self.take("HEAD") or self.take("MORE")) is not None:
            found.append((head, self.choice()))
            self.take("END")
        if self.left[-1].kind != "EMPTY" or not found:
            raise self.refused()
        return found

    def choice(self) -> Expression:
        """Return alternatives."""
        parts = [self.series()]
        while self.take("BAR") is not None:
            parts.append(self.series())
        return parts[0] if len(parts) == 1 else Choice(parts)

    def series(self) -> Expression:
        """Return what stands in a row."""
        parts = []
        while (part := self.term()) is not None:
            while (sign := self.take("MINUS")) is not None:
                if (minus := self.term()) is None:
                    raise self.refused()
                part = Without(part, minus, sign.line)
            parts.append(part)
            self.take("COMMA")
        if len(parts) < self.fewest:
            raise self.refused()
        return parts[0] if len(parts) == 1 else Series(parts)

    def term(self) -> Expression | None:
        """Return what stands next, as often as it is repeated; None where nothing does."""
        before, token = self.take("COUNT"), self.left[-1]
        found: Expression
        if token.kind.islower():
            self.left.pop()
            if token.kind == "token" and excludes(token):
                times = self.take("TIMES")
                return self.reader.reference(token, *(self.reader.counts(times) if times else (1, 1)))
            found = self.reader.leaf(token)
        elif self.take("OPEN") is not None:
            found = self.choice()
            if self.left[-1] != CLOSING[token]:
                raise self.refused()
            self.left.pop()
            if token != "(":
                found = Series([]) if token == "(=" else Repeat(found, 0, 1 if token == "[" else None)
        elif before is not None:
            raise self.refused()
        else:
            return None
        for times in (before, self.take("TIMES")):
            if times is not None:
                found = Repeat(found, *self.reader.counts(times))
        return found
