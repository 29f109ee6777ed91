"""Free text, optionally ended by the first occurrence of some string.

    free(W)             Σ* − Σ* W Σ*
    until_first(S, E)   the texts t·s, t in free(W), s in S, in which the first occurrence of one of E is s, at the end

Σ* is UTF-8. Strings are compared byte by byte. That is equivalent, since no character's bytes occur within another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from ...errors import UnsupportedConstraint
from .. import limits, validation
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.work import limited
from ..constraint import Constraint
from .literals import literal


def free(
    until: str | Sequence[str] | None = None,
    *,
    without: str | Iterable[str] = (),
    max_chars: int | None = None,
) -> Constraint:
    """Accept any text, or with ``until`` texts that end with the first occurrence of a string.

    Args:
        until: where the text ends; it is part of the text. ``None``: anywhere.
        without: strings that do not occur in the text; with ``until``, in what precedes it.
        max_chars: the most characters (code points), ``until`` not counted.

    Raises ``UnsupportedConstraint`` for an empty string, ``TooManyStates`` for lengths beyond reason.

    >>> from tractile.constraints import free, json_schema
    >>> thought = free(until="</think>").tokens(at_most=200)
    >>> answer = thought + json_schema({"type": "integer"})
    >>> answer.accepts("Six times seven.</think>42"), answer.accepts("42")
    (True, False)
    """
    stops = None if until is None else strings(until, "until")
    bad = strings(without, "without", least=0)
    if max_chars is not None:
        max_chars = validation.count(max_chars, "max_chars")
    return without_any(bad, max_chars) if stops is None else until_first(stops, stops, bad, max_chars)


@limited()
def without_any(words: Sequence[str], max_chars: int | None = None) -> Constraint:
    """Return texts of at most ``max_chars`` characters in which none of the words occurs."""
    text = utf8.any_text() if max_chars is None else repeat(utf8.utf8(utf8.EVERY), 0, max_chars)
    return Constraint(dfa.minimize(dfa.difference(text, containing(words)) if words else text))


def until_first(
    stops: Sequence[str],
    events: Sequence[str],
    without: Sequence[str] = (),
    max_chars: int | None = None,
    max_tokens: int | None = None,
) -> Constraint:
    """Return texts that end with the first of the ``events`` that occurs, if it is one of ``stops``.

    ``without``: what does not occur before the stop. ``max_tokens``: the most tokens before it.
    """
    if max_tokens is not None:
        texts = {stop: before(stop, until_first([stop], events, without, max_chars).nfa) for stop in stops}
        return reduce(or_, (each.tokens(at_most=max_tokens) + literal(stop) for stop, each in texts.items()))
    found = dfa.first_matches(ending([event.encode() for event in events]))
    if set(stops) != set(events):
        found = dfa.intersect(found, dfa.simplify(nfa.union([last(stop, events) for stop in stops])))
    allowed = nfa.concat([without_any(without, max_chars).nfa, either(stop.encode() for stop in stops)])
    return Constraint(dfa.minimize(dfa.intersect(found, dfa.simplify(allowed))))


def before(stop: str, texts: Nfa) -> Constraint:
    """Return what stands before ``stop`` in the texts of a DFA, all of which end with it."""
    ends = [state for state in range(texts.num_states) if texts.run(state, stop.encode()) in texts.accept]
    return Constraint(dfa.minimize(texts.between(accept=ends)))


def last(word: str, events: Sequence[str]) -> Nfa:
    """Return all byte strings that end with ``word`` but with no longer event that ends with it."""
    longer = [event.encode() for event in events if event != word and event.endswith(word)]
    found = ending([word.encode()])
    return dfa.difference(found, ending(longer)) if longer else found


def containing(words: Sequence[str]) -> Nfa:
    """Return all byte strings in which one of the words occurs."""
    return nfa.concat([ending([word.encode() for word in words]), nfa.ANYTHING])


def ending(words: Sequence[bytes]) -> Nfa:
    """Return all byte strings that end with one of the words."""
    return nfa.concat([nfa.ANYTHING, either(words)])


def either(words: Iterable[bytes]) -> Nfa:
    """Return the minimal DFA of these words, none of which is empty."""
    return dfa.minimize(nfa.sequences([[(byte, byte)] for byte in word] for word in words))


def strings(value: Any, path: str, least: int = 1) -> list[str]:
    """Check that a value is one non-empty string or several; return a list without duplicates.

    Raises ``UnsupportedConstraint`` for anything else, or fewer than ``least`` strings.
    """
    words = (
        [value]
        if isinstance(value, str)
        else validation.items_of(value, path, f"{path} is a string or several")
    )
    found = list(dict.fromkeys(validation.check_text(word, path) for word in words))
    if len(found) < least:
        raise UnsupportedConstraint(f"{path} names no string", path=path)
    if len(found) > limits.ALTERNATIVES:
        raise UnsupportedConstraint(
            f"{path} has {len(found)} strings; at most {limits.ALTERNATIVES:,}", path=path
        )
    if "" in found:
        raise UnsupportedConstraint(f"{path} has an empty string, which would occur everywhere", path=path)
    return found
