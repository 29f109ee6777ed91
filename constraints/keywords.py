"""Texts that contain given words.

    contains(F) = Σ* \\b F \\b Σ*                     in any order: contains(F₁) ∩ … ∩ contains(F_k)

F is the set of forms of one keyword (dog, dogs). Each ``contains`` is a small deterministic automaton, and so is their
intersection (2^k copies of little more than the forms); in a given order it is Σ* F₁ Σ* F₂ … instead. Overlapping
keywords and forms that begin other forms come out right, because only the language is asked about.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Literal

from ..errors import TractileError, UnsupportedConstraint
from . import anchors, dfa, nfa, utf8
from .constraint import Constraint
from .nfa import Nfa

LETTERS = string.ascii_letters + string.digits + "_"
WORD = utf8.normalize([*((ord(c), ord(c)) for c in LETTERS), (0x80, 0x1FFF), (0x2070, 0x10FFFF)])
"""Characters of words: ASCII letters, digits and underscore, and all beyond ASCII but U+2000 to U+206F (dashes,
typographic quotes, spaces). Simpler than Python's ``\\w``, whose exact set makes an automaton ten times as large."""


def keywords(
    words: Sequence[str | Iterable[str]],
    *,
    inflections: bool = True,
    order: Literal["any", "given"] = "any",
    word_boundaries: bool = True,
) -> Constraint:
    """Texts that contain every keyword.

    A keyword is a word, of which any inflected form will do (``inflections=False``: only the word itself), or a list of
    forms, taken as they are. ``order="given"``: one after the other, without overlap. ``word_boundaries=False``: inside
    longer words too. Forms are matched as they are spelled. Inflections need the extra ``tractile[inflections]``.
    """
    if order not in ("any", "given"):
        raise UnsupportedConstraint(f'the order of keywords is "any" or "given", not {order!r}', path="order")
    edge = nfa.literal(bytes([anchors.ASCII_EDGE]) if word_boundaries else b"")
    every = utf8.text()
    found = []
    for index, word in enumerate(words):
        forms = (
            inflected(word)
            if isinstance(word, str) and inflections
            else [word]
            if isinstance(word, str)
            else list(word)
        )
        if not forms or not all(forms):
            raise UnsupportedConstraint(
                "a keyword needs at least one form, and no form may be empty", path=f"words[{index}]"
            )
        found.append(nfa.union([bounded(form, edge) for form in forms]))
    if order == "given":
        return Constraint(
            dfa.minimize(resolve(nfa.concat([every, *(part for f in found for part in (f, every))])))
        )
    contains = [dfa.minimize(resolve(nfa.concat([every, f, every]))) for f in found]
    return Constraint(reduce(lambda a, b: dfa.minimize(dfa.intersect(a, b)), contains, every))


def bounded(form: str, edge: Nfa) -> Nfa:
    """The form, with the edge mark on the sides where it begins or ends with a character of a word."""
    inside = [any(low <= ord(c) <= high for low, high in WORD) for c in (form[0], form[-1])]
    body = nfa.literal(form.encode())
    return nfa.concat([edge] * inside[0] + [body] + [edge] * inside[1])


def resolve(marked: Nfa) -> Nfa:
    """The texts in which the edge marks stand at edges of words."""
    return anchors.resolve(marked, utf8.utf8, words=WORD)


def inflected(word: str) -> list[str]:
    """The word, its inflections, and those of its lemmas: "dogs" gives dog and dogs.

    Raises ``TractileError`` if ``lemminflect`` is not installed.
    """
    try:
        import lemminflect
    except ImportError:
        raise TractileError(
            'inflections need lemminflect: pip install "tractile[inflections]", or pass inflections=False or lists of forms'
        ) from None
    lemmas = {word, *(lemma for group in lemminflect.getAllLemmas(word).values() for lemma in group)}
    forms = {
        form for lemma in lemmas for group in lemminflect.getAllInflections(lemma).values() for form in group
    }
    return sorted(forms | lemmas)
