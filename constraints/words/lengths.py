"""Lengths of texts in characters, words or sentences, and texts that end as a sentence does.

    words        text.split(): runs of characters that are not white space
    sentences    a word is *final* if it ends with one of . ! ? … and any closing quotes or brackets;
                 the sentences are the final words, and one more if the last word is not final

So "Dr. Who left." has two sentences: abbreviations are not known.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from ...errors import UnsupportedConstraint
from .. import validation
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..constraint import Constraint
from ..contradictions import named
from ..regex.constraint import regex

FINAL = r"""\S*[.!?…]["'”’»)\]]*"""


@named
def text_length(
    low: int, high: int | None = None, *, unit: Literal["characters", "words", "sentences"] = "characters"
) -> Constraint:
    """Accept texts of ``low`` to ``high`` characters (code points), words or sentences.

    ``high=None``: no upper bound. Words are those of ``text.split()``; a sentence ends at a word that ends with ``. ! ? …``
    and any closing quotes or brackets, or at the end of the text. Raises ``UnsupportedConstraint`` for an unknown unit or an
    empty range, ``TooManyStates`` for lengths beyond reason.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.text_length(1, 3, unit="words")
    >>> c.accepts("one two three"), c.accepts("one two three four")
    (True, False)
    """
    low = validation.count(low, "low")
    high = None if high is None else validation.count(high, "high", low)
    if unit == "characters":
        return Constraint(repeat(utf8.utf8(utf8.EVERY), low, high))
    space, word, final, other = word_automata()
    if unit == "words":
        return Constraint(spaced(separated(word, low, high, space), space, low == 0))
    if unit == "sentences":
        sentence = nfa.concat([nfa.star(nfa.concat([other, space])), final])
        unfinished = nfa.concat([other, nfa.star(nfa.concat([space, other]))])
        last = None if high is None else high - 1
        open_end = [] if high == 0 else [separated(sentence, max(low - 1, 0), last, space, unfinished)]
        body = nfa.union([separated(sentence, low, high, space), *open_end])
        return Constraint(spaced(body, space, low == 0))
    raise UnsupportedConstraint(
        f"a length is counted in characters, words or sentences, not {unit!r}", path="unit"
    )


def ends_as_sentence() -> Constraint:
    """Accept texts that end as a sentence: with ``!``, ``?``, ``…`` or a full stop, and perhaps closing quotes or brackets.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.ends_as_sentence()
    >>> c.accepts("She ran home."), c.accepts("She ran")
    (True, False)
    """
    _, _, final, _ = word_automata()
    return Constraint(nfa.concat([utf8.any_text(), final]))


@lru_cache(maxsize=1)
def word_automata() -> tuple[Nfa, Nfa, Nfa, Nfa]:
    """Return automata (white space, word, final word, other word); none accepts the empty text."""
    space, word, final = (dfa.minimize(regex(pattern).nfa) for pattern in (r"\s+", r"\S+", FINAL))
    return space, word, final, dfa.minimize(dfa.difference(word, final))


def separated(item: Nfa, low: int, high: int | None, between: Nfa, last: Nfa | None = None) -> Nfa:
    """Return ``low`` to ``high`` items with ``between`` between each two.

    The empty text is not accepted. With ``last``, ``low`` to ``high`` items are each followed by ``between``, then comes
    ``last``.
    """
    if last is not None:
        return nfa.concat([repeat(nfa.concat([item, between]), low, high), last])
    if high == 0:
        return nfa.empty()
    more = repeat(nfa.concat([between, item]), max(low - 1, 0), None if high is None else high - 1)
    return nfa.concat([item, more])


def spaced(body: Nfa, space: Nfa, blank: bool) -> Nfa:
    """Return the body with optional space around it; if ``blank``, also space alone or nothing."""
    around = nfa.optional(space)
    return nfa.concat(
        [around, nfa.optional(nfa.concat([body, around])) if blank else nfa.concat([body, around])]
    )
