"""A shortest accepted text, in tokens: under a mask with the least budget every token that is allowed leads to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...circuits.automaton import Automaton
from ...errors import BudgetTooSmall
from .query import gcd


def with_shortest(
    error: BudgetTooSmall,
    automaton: Automaton,
    prefix: Sequence[int] = (),
    spell: Callable[[Sequence[int]], str | None] | None = None,
) -> BudgetTooSmall:
    """Return the error with a shortest text behind a prefix. ``spell``: the text of tokens."""
    return BudgetTooSmall(
        needed=error.needed,
        given=error.given,
        exact=error.exact,
        tokens=partial(shortest_tokens, automaton, error.needed or 0, prefix),
        spell=spell or partial(text_of, automaton),
    )


def shortest_tokens(automaton: Automaton, needed: int, prefix: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the tokens of an accepted text behind a prefix, the first of several: ``needed``, or up to end-of-sequence.

    Some text must end within ``needed`` tokens.
    """
    query = gcd(automaton, len(prefix) + needed).start(1)
    for token in prefix:
        query.advance([token])
    found: list[int] = []
    while len(found) < needed and automaton.eos_token_id not in found:
        found.append(int(query.mask()[0].int().argmax()))
        query.advance(found[-1:])
    return tuple(found)


def text_of(automaton: Automaton, tokens: Sequence[int]) -> str | None:
    """Return the text of tokens by the vocabulary that the automaton was compiled for; None if it is not known."""
    vocabulary = getattr(automaton.lazy, "vocab", None)
    if vocabulary is None:
        return None
    return b"".join(vocabulary.token_bytes[token] or b"" for token in tokens).decode(errors="replace")
