"""Texts that contain given words.

    contains(F) = Σ* \\b F \\b Σ*                     all of them: contains(F₁) ∩ … ∩ contains(F_n)

F is the set of forms of one keyword (dog, dogs). Each ``contains`` is a small DFA. The intersection of n of them is about
2^n times the size of the forms. In a given order the language is Σ* F₁ Σ* F₂ … instead; at least k of n keywords are
T(n, k) = (T(n − 1, k − 1) ∩ contains(F_n)) ∪ T(n − 1, k). Keywords may overlap, and a form may be a prefix of another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, reduce
from importlib.util import find_spec
from typing import Any, Literal

from ...errors import TractileError, UnsupportedConstraint
from .. import limits, validation
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa, check_limit
from ..automata.utf8 import CodePoints
from ..automata.work import limited
from ..constraint import Constraint
from ..contradictions import named
from ..narrowing import Narrowing, report
from ..regex import anchors
from ..regex.characters import characters, constants, matched

NEIGHBOURS = utf8.normalize([(0, 0xBF), (0x2000, 0x206F), (0x3000, 0x303F), (0xFF00, 0xFF7F)])
"""Blocks from which a character that is not a word character may stand beside a keyword.

ASCII, Latin-1 signs, dashes and typographic quotes, East Asian punctuation, full-width forms.
"""


COMMON_BOUNDARIES = Narrowing(
    path="word_boundaries",
    keyword="word_boundaries",
    asked=r"\b between any characters",
    given="beside ASCII and common punctuation only",
    why='all of Unicode takes some thirty times the states; pass word_boundaries="exact" for it',
)
AS_WRITTEN = Narrowing(
    path="words",
    keyword="inflections",
    asked="every form",
    given="the words as they are written",
    why="lemminflect is not installed: pip install lemminflect, or pass inflections=False",
)


class Keywords(Constraint):
    """Texts with keywords between common characters; ``exact`` builds the language of ``\\b``."""

    def __init__(self, automaton: Nfa, narrowed: tuple[Narrowing, ...], exact: Callable[[], Nfa]) -> None:
        super().__init__(automaton, narrowed)
        self._exact = exact

    def __invert__(self) -> Constraint:
        """Return the complement of the exact language, even if this constraint is narrowed."""
        return ~Constraint(self._exact())


@named
@limited()
def keywords(
    words: Sequence[str | Iterable[str]],
    *,
    inflections: bool | None = None,
    order: Literal["any", "given"] = "any",
    word_boundaries: bool | Literal["exact"] = True,
    at_least: int | None = None,
    ignore_case: bool = False,
) -> Constraint:
    """Accept texts that contain every keyword, or at least ``at_least`` of them (1: any of them).

    A keyword is a word, of which any inflected form counts (``inflections=False``: only the word itself), or a list of forms,
    taken as they are. ``order="given"``: one after the other, without overlap. Forms are matched as they are spelled, or with
    ``ignore_case`` as ``re.IGNORECASE`` does. Inflected forms need the extra ``tractile[inflections]``. Without it
    ``inflections=True`` is an error, and ``None`` uses the words as written, which ``narrowed`` and a warning say.

    ``word_boundaries``: whether forms are whole words, between edges as ``\\b`` of ``re`` has them. ``False``: inside longer
    words too. ``"exact"``: exactly as ``re`` searches for ``\\bform\\b``; the automaton then has some thirty times the
    states, since ``\\w`` has 734 ranges of characters. ``True``: every accepted text contains the words as ``\\b`` has them,
    but an occurrence counts only if the characters beside it are ASCII, Latin-1 signs, typographic or East Asian punctuation,
    or full-width forms (not, for example, an emoji); ``narrowed`` says so. The complement is exact in each case.

    Raises ``UnsupportedConstraint`` for no keywords, keywords without forms and counts that do not fit, ``TooManyStates`` for
    more than about eleven keywords of which several are needed.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.keywords(["dog", "park"], inflections=False)
    >>> c.accepts("The park has a dog."), c.accepts("The park has a cat.")
    (True, False)
    """
    validation.choice(order, "order", ("any", "given"))
    validation.choice(word_boundaries, "word_boundaries", (True, False, "exact"))
    if inflections is not None and not isinstance(inflections, bool):
        raise UnsupportedConstraint(
            f"inflections is True, False or None, not {inflections!r}", path="inflections"
        )
    given = validation.items_of(words, "words", "keywords are a list of words")
    with_forms = has_dictionary() if inflections is None else inflections
    choices = [as_forms(word, with_forms, index) for index, word in enumerate(given)]
    if not choices:
        raise UnsupportedConstraint("no keywords, so every text would do; give at least one", path="words")
    needed = len(choices) if at_least is None else validation.count(at_least, "at_least", 0, len(choices))
    if order == "given" and needed < len(choices):
        raise UnsupportedConstraint('at_least goes with order="any" only', path="at_least")
    build = partial(texts_with, choices, needed, order == "given", ignore_case)
    at_edges = any(any(edges(form)) for forms in choices for form in forms)
    common = word_boundaries is True and at_edges
    found = build(common_words() if common else word_characters() if word_boundaries else None)
    cuts = (COMMON_BOUNDARIES,) if common else ()
    plain = [word for word in given if isinstance(word, str)]
    if inflections is None and not with_forms and plain:
        lacking = AS_WRITTEN._replace(asked=f"every form of {', '.join(plain)}")
        report((lacking,), "warn")
        return Constraint(found, (*cuts, lacking))
    return Keywords(found, cuts, partial(build, word_characters())) if common else Constraint(found)


@cache
def word_characters() -> CodePoints:
    """Return the code points that ``\\w`` matches."""
    return matched((constants.IN, ((constants.CATEGORY, constants.CATEGORY_WORD),)), 0)


@cache
def common_words() -> CodePoints:
    """Return the word characters and all code points outside ``NEIGHBOURS``."""
    return utf8.normalize([*word_characters(), *utf8.negate(NEIGHBOURS)])


@limited()
def texts_with(
    choices: Sequence[Sequence[str]],
    needed: int,
    in_order: bool,
    ignore_case: bool,
    words: CodePoints | None,
) -> Nfa:
    """Return the texts that contain ``needed`` of the choices.

    ``words`` are the word characters that define boundaries; None: no boundaries.
    """
    every = utf8.any_text()
    found = [
        nfa.union([bounded(form, words is not None, ignore_case) for form in forms]) for forms in choices
    ]

    def minimal(parts: Sequence[Nfa]) -> Nfa:
        return dfa.minimize(anchors.resolve(nfa.concat(parts), utf8.utf8, words=words))

    if in_order:
        return minimal([every, *(part for f in found for part in (f, every))])
    if needed == 1:
        return minimal([every, nfa.union(found), every])
    contains = [minimal([every, f, every]) for f in found]
    check_limit(sum(part.num_states for part in contains) << max(len(choices) - 2, 0), limits.STATES)
    if needed == len(choices):
        return reduce(dfa.intersect, contains, every)  # small already, where keywords do not overlap
    return threshold(contains, needed, every)


@named
def forbidden_words(
    words: Sequence[str | Iterable[str]],
    *,
    inflections: bool = True,
    word_boundaries: bool = True,
    ignore_case: bool = False,
) -> Constraint:
    """Accept texts that contain none of the words in any form, exactly as ``re`` finds ``\\bform\\b``.

    The options are those of :func:`keywords`. Without the extra ``tractile[inflections]``, ``inflections=True`` is an error
    for plain words, whose forms would not be forbidden: pass ``inflections=False`` to forbid the words as they are written.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.forbidden_words(["cat"], inflections=False)
    >>> c.accepts("A cat sat."), c.accepts("A cathedral.")
    (False, True)
    """
    words = validation.items_of(words, "words", "keywords are a list of words")
    if not words:
        return Constraint(utf8.any_text())
    return ~keywords(
        words,
        inflections=inflections,
        word_boundaries="exact" if word_boundaries else False,
        at_least=1,
        ignore_case=ignore_case,
    )


def as_forms(word: Any, inflections: bool, index: int) -> list[str]:
    """Return the forms of one keyword. Raises ``UnsupportedConstraint`` if it has none."""
    path = f"words[{index}]"
    if not isinstance(word, str):
        word = validation.items_of(word, path, "a keyword is a word or a list of forms")
    forms = [validation.check_text(form, path) for form in ([word] if isinstance(word, str) else word)]
    if not forms or not all(forms):
        raise UnsupportedConstraint("a keyword needs at least one form, and no form may be empty", path=path)
    return inflected(forms[0]) if isinstance(word, str) and inflections else forms


def threshold(parts: Sequence[Nfa], needed: int, every: Nfa) -> Nfa:
    """Return the texts that at least ``needed`` of the parts accept; ``every`` accepts all texts."""
    counts = [every, *[nfa.empty()] * needed]  # counts[k]: texts in at least k of the parts so far
    for part in parts:
        more = [dfa.intersect(fewer, part) for fewer in counts[:-1]]
        counts[1:] = [dfa.minimize(nfa.union(pair)) for pair in zip(more, counts[1:], strict=True)]
    return counts[needed]


def edges(form: str) -> tuple[bool, bool]:
    """Return whether the form begins, and whether it ends, with a word character."""
    first, last = (any(low <= ord(c) <= high for low, high in word_characters()) for c in (form[0], form[-1]))
    return first, last


def bounded(form: str, boundaries: bool, ignore_case: bool) -> Nfa:
    """Return the form with a marker byte for ``\\b`` at each end that is a word character."""
    first, last = edges(form) if boundaries else (False, False)
    edge = nfa.literal(bytes([anchors.ASCII_EDGE]))  # `anchors.resolve` is told which are word characters
    body = nfa.literal(form.encode())
    if ignore_case:
        literals = [characters((constants.LITERAL, ord(c)), re.IGNORECASE) for c in form]
        body = nfa.concat([utf8.utf8(points) for points in literals])
    return nfa.concat([edge] * first + [body] + [edge] * last)


def has_dictionary() -> bool:
    """Return whether the dictionary of inflected forms (``lemminflect``) is installed."""
    return find_spec("lemminflect") is not None


def inflected(word: str) -> list[str]:
    """Return the word, its inflections, and those of its lemmas: "dogs" gives dog and dogs.

    Raises ``TractileError`` if ``lemminflect`` is not installed.
    """
    try:
        import lemminflect
    except ImportError:
        raise TractileError(
            "inflections need lemminflect: pip install lemminflect, or pass inflections=False or lists of forms"
        ) from None
    lemmas = {word, *(lemma for group in lemminflect.getAllLemmas(word).values() for lemma in group)}
    forms = {
        form for lemma in lemmas for group in lemminflect.getAllInflections(lemma).values() for form in group
    }
    return sorted(forms | lemmas)
