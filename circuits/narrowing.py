"""What a language lacks of what was asked for: constraints say it, automata and posteriors carry it."""

from __future__ import annotations

from typing import Any, NamedTuple

TOKEN = "token"
"""The keyword of a token that was asked for and is given by its text."""


class Narrowing(NamedTuple):
    """One place where a constraint accepts less than what was written.

    ``path``: the place (a JSON pointer into a schema, a grammar's rule, a position in a pattern, an argument's name);
    ``keyword``: what is cut there (``maxLength``, ``max_depth``, …); ``asked`` and ``given``: what was written and what the
    constraint has instead; ``why``: the reason, and what to do where something can be done. Two keywords lose no value:
    ``numbers`` is about how numbers are written, ``token`` about tokens that a grammar names, which their texts stand for.

    Examples
    --------
    >>> import tractile as tt
    >>> text = tt.constraints.json_schema({"type": "string", "maxLength": 4000})
    >>> (cut,) = text.finite.narrowed  # the masks are exact; the automaton of all states is not
    >>> cut.keyword, cut.asked, cut.given, cut.loses_values
    ('maxLength', 4000, 1000, True)
    """

    path: str
    keyword: str
    asked: Any
    given: Any
    why: str

    @property
    def loses_values(self) -> bool:
        """Whether some value cannot be written at all; otherwise each can, in fewer ways than were asked for."""
        return self.keyword not in ("numbers", TOKEN)

    def __str__(self) -> str:
        place = self.path or "/" if self.path != self.keyword else ""
        return f"{place and f'{place}: '}{self.keyword}: {self.given} instead of {self.asked} ({self.why})"
