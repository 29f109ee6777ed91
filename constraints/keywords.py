"""Texts that contain given words.

    contains(F) = Σ* \\b F \\b Σ*                     all of them: contains(F₁) ∩ … ∩ contains(F_n)

F is the set of forms of one keyword (dog, dogs). Each ``contains`` is a small deterministic automaton, and so is their
intersection (2^n copies of little more than the forms); in a given order it is Σ* F₁ Σ* F₂ … instead. At least k of
them: T(n, k) = (T(n − 1, k − 1) ∩ contains(F_n)) ∪ T(n − 1, k). Overlapping keywords and forms that begin other forms
come out right, because only the language is asked about.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, Literal

from ..errors import TractileError, UnsupportedConstraint
from . import anchors, dfa, given, nfa, utf8
from .characters import characters, constants
from .constraint import Constraint
from .inflections import as_written_without_dictionary
from .nfa import Nfa, check_limit
from .work import limited

LETTERS = string.ascii_letters + string.digits + "_"
WORD = utf8.normalize([*((ord(c), ord(c)) for c in LETTERS), (0x80, 0x1FFF), (0x2070, 0x10FFFF)])
"""Characters of words: ASCII letters, digits and underscore, and all beyond ASCII but U+2000 to U+206F (dashes,
typographic quotes, spaces). Simpler than Python's ``\\w``, whose exact set makes an automaton ten times as large."""


MOST_STATES = 200_000
"""All of n keywords take about 2^(n − 2) times the states of one each: more than this many are not even tried."""


@as_written_without_dictionary
@limited()
def keywords(
    words: Sequence[str | Iterable[str]],
    *,
    inflections: bool | None = None,
    order: Literal["any", "given"] = "any",
    word_boundaries: bool = True,
    at_least: int | None = None,
    ignore_case: bool = False,
) -> Constraint:
    """Texts that contain every keyword, or ``at_least`` so many of them (1: any of them).

    A keyword is a word, of which any inflected form will do (``inflections=False``: only the word itself), or a list of
    forms, taken as they are. ``order="given"``: one after the other, without overlap. ``word_boundaries=False``: inside
    longer words too. Forms are matched as they are spelled, or with ``ignore_case`` as ``re.IGNORECASE`` does.
    ``inflections`` need the extra ``tractile[inflections]``: ``True`` without it is an error, and ``None`` takes the
    words as they are written then, which ``narrowed`` and a warning say. Raises ``UnsupportedConstraint`` for no
    keywords, keywords without forms and counts that do not fit, ``TooManyStates`` for more than about eleven keywords of
    which several are needed.
    """
    if order not in ("any", "given"):
        raise UnsupportedConstraint(f'the order of keywords is "any" or "given", not {order!r}', path="order")
    choices = [as_forms(word, inflections is not False, index) for index, word in enumerate(listed(words))]
    if not choices:
        raise UnsupportedConstraint("no keywords, so every text would do; give at least one", path="words")
    needed = len(choices) if at_least is None else given.count(at_least, "at_least", 0, len(choices))
    if order == "given" and needed < len(choices):
        raise UnsupportedConstraint('at_least goes with order="any" only', path="at_least")
    edge = nfa.literal(bytes([anchors.ASCII_EDGE]) if word_boundaries else b"")
    every = utf8.text()
    found = [nfa.union([bounded(form, edge, ignore_case) for form in forms]) for forms in choices]
    if order == "given":
        return Constraint(
            dfa.minimize(resolve(nfa.concat([every, *(part for f in found for part in (f, every))])))
        )
    if needed == 1:
        return Constraint(dfa.minimize(resolve(nfa.concat([every, nfa.union(found), every]))))
    contains = [dfa.minimize(resolve(nfa.concat([every, f, every]))) for f in found]
    check_limit(sum(part.num_states for part in contains) << max(len(choices) - 2, 0), MOST_STATES)
    if needed == len(choices):
        return Constraint(
            reduce(dfa.intersect, contains, every)
        )  # small already, where keywords do not overlap
    return Constraint(threshold(contains, needed, every))


def forbidden_words(
    words: Sequence[str | Iterable[str]],
    *,
    inflections: bool = True,
    word_boundaries: bool = True,
    ignore_case: bool = False,
) -> Constraint:
    """Texts that contain none of the words, in no inflected form; the options are those of :func:`keywords`.

    Without the extra ``tractile[inflections]`` this is an error where words have forms that would be let through: pass
    ``inflections=False`` to forbid the words as they are written.
    """
    words = listed(words)
    if not words:
        return Constraint(utf8.text())
    return ~keywords(
        words,
        inflections=inflections,
        word_boundaries=word_boundaries,
        at_least=1,
        ignore_case=ignore_case,
    )


def listed(words: Any) -> list[Any]:
    """The keywords as a list. Raises ``UnsupportedConstraint`` for what is none."""
    if isinstance(words, str | bytes) or not isinstance(words, Iterable):
        raise UnsupportedConstraint(f"keywords are a list of words, not {given.short(words)}", path="words")
    return list(words)


def as_forms(word: Any, inflections: bool, index: int) -> list[str]:
    """The forms of one keyword. Raises ``UnsupportedConstraint``."""
    path = f"words[{index}]"
    if isinstance(word, bytes) or not isinstance(word, Iterable):
        raise UnsupportedConstraint(
            f"a keyword is a word or a list of forms, not {given.short(word)}", path=path
        )
    forms = [given.text(form, path) for form in ([word] if isinstance(word, str) else word)]
    if not forms or not all(forms):
        raise UnsupportedConstraint("a keyword needs at least one form, and no form may be empty", path=path)
    return inflected(forms[0]) if isinstance(word, str) and inflections else forms


def threshold(parts: Sequence[Nfa], needed: int, every: Nfa) -> Nfa:
    """The texts of at least ``needed`` of the parts; ``every`` are all texts."""
    counts = [every, *[nfa.empty()] * needed]  # by how many of the parts so far, at least
    for part in parts:
        more = [dfa.intersect(fewer, part) for fewer in counts[:-1]]
        counts[1:] = [dfa.minimize(nfa.union(pair)) for pair in zip(more, counts[1:], strict=True)]
    return counts[needed]


def bounded(form: str, edge: Nfa, ignore_case: bool) -> Nfa:
    """The form, with the edge mark on the sides where it begins or ends with a character of a word."""
    inside = [any(low <= ord(c) <= high for low, high in WORD) for c in (form[0], form[-1])]
    body = nfa.literal(form.encode())
    if ignore_case:
        literals = [characters((constants.LITERAL, ord(c)), re.IGNORECASE) for c in form]
        body = nfa.concat([utf8.utf8(points) for points in literals])
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
