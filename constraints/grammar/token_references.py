"""Token references in grammars: ``<|call|>`` and ``<[128]>`` stand for the text of a token.

A constraint is a language of texts, so a token that is referred to must spell one: an added token does, a special token where
the vocabulary is given its text (:meth:`~tractile.Vocabulary.with_special`). Compiling for a vocabulary without such a token is
refused. Other tokens that spell the same text are allowed beside it, which ``narrowed`` says.

``!<think>`` and ``<[^128]>`` stand for one token in which those texts do not occur. Several in a row are as many tokens, and do
not spell these texts together either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from ...circuits.narrowing import TOKEN
from ...errors import UnsupportedConstraint
from .. import limits
from ..automata import dfa, nfa
from ..narrowing import Narrowing
from ..program import nodes, tables
from ..words.free_text import without_any
from .tree import Choice, Expression, Text, text_of


class ExpressionReader:
    """What the readers of all syntaxes have in common. ``tokens``: the texts of tokens that are named by number."""

    def __init__(self, tokens: Mapping[int, str]) -> None:
        self.tokens = tokens
        self.rules: dict[str, Expression] = {}
        self.lines: dict[str, int] = {}
        self.narrowed: list[Narrowing] = []

    def reference(self, token: Any, low: int = 1, high: int | None = 1) -> Expression:
        """Return the expression of a token that is named; of those that are excluded, ``low`` to ``high`` others."""
        texts, narrowed = referred(token, self.tokens, token.line)
        self.narrowed += narrowed
        if excludes(token):
            return other_tokens(texts, low, high)
        return Choice([self.word(text, token.line) for text in texts])

    def word(self, text: str, line: int) -> Expression:
        """Return the expression of one text."""
        return Text(nodes.text(text.encode()))


def referred(reference: str, tokens: Mapping[int, str], line: int) -> tuple[list[str], list[Narrowing]]:
    """Return the texts of the tokens that a reference names or excludes, with a narrowing for each: others may spell its text.

    Raises ``UnsupportedConstraint`` for what is no list of numbers, and for numbers without a text.
    """
    texts = texts_of(reference, tokens, line)
    keyword, why = TOKEN, "other tokens that spell it are allowed beside it"
    if excludes(reference):
        keyword, why = "excluded token", "other tokens that spell its text are left out too"
    return texts, [Narrowing(f"line {line}", keyword, text, "its text", why) for text in texts]


def texts_of(reference: str, tokens: Mapping[int, str], line: int) -> list[str]:
    """Return the texts of a reference's tokens: its own, or those of its numbers (``<[1,4-7]>``)."""
    reference = reference.removeprefix("!").replace("<[^", "<[")
    inner = reference[1:-1]
    if inner == "[*]":
        return []
    if not (inner.startswith("[") and inner.endswith("]")):
        return [reference]
    ranges = [part.strip().partition("-") for part in inner[1:-1].split(",")]
    if not all(
        low.strip().isdecimal() and (not dash or high.strip().isdecimal()) for low, dash, high in ranges
    ):
        raise UnsupportedConstraint(
            f"{reference} names no tokens: write numbers, as in <[7]> or <[7,10-12]>", path=f"line {line}"
        )
    spans = [range(int(low), int(high if dash else low) + 1) for low, dash, high in ranges]
    if sum(map(len, spans)) > limits.ALTERNATIVES:
        raise UnsupportedConstraint(
            f"{reference} names more than {limits.ALTERNATIVES:,} tokens", path=f"line {line}"
        )
    numbers = list(chain(*spans))
    if unknown := [number for number in numbers if number not in tokens]:
        raise UnsupportedConstraint(
            f"the text of the token {unknown[0]} is not known: grammar(…, tokens={{{unknown[0]}: …}})",
            path=f"line {line}",
        )
    if not numbers:
        raise UnsupportedConstraint(f"{reference} names no tokens", path=f"line {line}")
    return [tokens[number] for number in numbers]


def excludes(reference: str) -> bool:
    """Return whether a reference stands for any token but those that it names."""
    return reference.startswith(("!", "<[^", "<[*]>"))


def other_tokens(texts: Iterable[str], low: int, high: int | None) -> Text:
    """Return ``low`` to ``high`` tokens without these texts."""
    found = without_any(list(texts)).nfa
    if low == 1 and high is None:
        return text_of(dfa.difference(found, nfa.literal(b"")))
    return Text(nodes.tokens(nodes.lex(tables.of_nfa(found)), low, high))
