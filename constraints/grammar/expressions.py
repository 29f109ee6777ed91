"""Expressions of parse trees: what the readers of all syntaxes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from ..automata.work import spend
from ..narrowing import Narrowing
from ..program import nodes
from .token_references import excludes, other_tokens, referred
from .tree import Choice, Expression, Ref, Repeat, Series, Text


class ExpressionReader(ABC):
    """A reader of a grammar. ``tokens``: the texts of tokens that are named by number."""

    def __init__(self, tokens: Mapping[int, str]) -> None:
        self.tokens = tokens
        self.rules: dict[str, Expression] = {}
        self.lines: dict[str, int] = {}
        self.narrowed: list[Narrowing] = []

    def expression(self, tree: Any, given: Mapping[Any, Ref]) -> Expression:
        """Return the expression of a tree. ``given``: what the parameters of its rule stand for."""
        spend(5)
        match tree.data, tree.children:
            case "choice", parts:
                return Choice([self.expression(part, given) for part in parts])
            case "series", parts:
                return Series([self.expression(part, given) for part in parts])
            case (("optional" | "times"), parts):
                part = next(each for each in parts if hasattr(each, "data"))
                low, high = (
                    self.counts(*(each for each in parts if each is not part)) if len(parts) > 1 else (0, 1)
                )
                if part.data == "token" and excludes(part.children[0]):
                    return other_tokens(self.named(part.children[0]), low, high)
                return Repeat(self.expression(part, given), low, high)
            case "token", [token]:
                texts = self.named(token)
                if excludes(token):
                    return other_tokens(texts, 1, 1)
                return Choice([self.word(text, token.line) for text in texts])
        return self.other(tree, given)

    def named(self, token: Any) -> list[str]:
        """Return the texts of the tokens that a reference names or excludes."""
        texts, narrowed = referred(token, self.tokens, token.line)
        self.narrowed += narrowed
        return texts

    @abstractmethod
    def counts(self, token: Any) -> tuple[int, int | None]:
        """Return the fewest and the most repetitions of a quantifier."""

    def word(self, text: str, line: int) -> Expression:
        """Return the expression of one text."""
        return Text(nodes.text(text.encode()))

    @abstractmethod
    def other(self, tree: Any, given: Mapping[Any, Ref]) -> Expression:
        """Return the expression of a tree that only one syntax has."""
