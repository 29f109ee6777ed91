"""Records of where a constraint accepts less than was asked for; constraints, automata and posteriors carry them."""

from __future__ import annotations

from typing import Any, NamedTuple

TOKEN = "token"
"""The keyword of a narrowing where a grammar names a token and the constraint accepts the token's text instead."""
VALIDATOR = "validator"
"""The keyword of a narrowing where a Python function may refuse values of a type; the constraint accepts them."""


class Narrowing(NamedTuple):
    """One place where a constraint accepts less than its specification.

    ``path``: the place (a JSON pointer into a schema, a grammar's rule, a position in a pattern, an argument's name);
    ``keyword``: what is restricted there (``maxLength``, ``max_depth``, …); ``asked`` and ``given``: the specified value and
    the one that the constraint has instead; ``why``: the reason, and a remedy if there is one.

    Three keywords lose no value: ``numbers`` and ``escapes`` restrict how numbers and strings are written, ``token`` replaces
    tokens that a grammar names by their texts. One is the other way round: ``validator`` says that a function of a Python type
    may refuse values that the constraint accepts.

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
        """Whether some value cannot be written at all; if False, every value can, but in fewer ways than specified."""
        return self.keyword not in ("numbers", "escapes", TOKEN, VALIDATOR)

    def __str__(self) -> str:
        place = self.path or "/" if self.path != self.keyword else ""
        return f"{place and f'{place}: '}{self.keyword}: {self.given} instead of {self.asked} ({self.why})"
