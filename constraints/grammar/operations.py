"""Terminals beyond one regular expression: ``&``, ``~``, ``%regex``, rules that end at a first match.

They are sets of texts; the preference of ``re`` among matches plays no role:

    lazy(L) = { w in L : no proper prefix of w is in L }        suffix and stop: lazy(L S)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..json.document import read_schema
from ..json.nodes import Reading, value_node
from ..json.text import Writing, json_separators, style_of
from ..narrowing import Narrowing
from ..program.node import Node
from ..regex.pattern import compile_pattern
from .dialect import Extensions, Lazy
from .statements import Token, is_terminal, name_of, refused, repeats

WORDS = re.compile(r"\w+|[^\w\s]|\s+")


class TerminalReader:
    """A recursive-descent parser of terminals' bodies.

    ``literal`` gives the pattern of a string or regular expression, ``pattern`` that of a terminal by name, None if
    undefined.
    """

    def __init__(
        self, extensions: Extensions, literal: Callable[[Token], str], pattern: Callable[[str], str | None]
    ) -> None:
        self.extensions, self.literal, self.pattern = extensions, literal, pattern
        self._known: dict[str, Nfa] = {}
        self._open: set[str] = set()

    def named(self, name: str, token: Token) -> Nfa:
        """Return the texts of a terminal."""
        if name not in self._known:
            if name in self._open:
                raise refused(f"the terminal {name} is made of itself", token)
            self._open.add(name)
            if name in self.extensions.terminals:
                self._known[name] = self.read(self.extensions.terminals[name])
            elif name in self.extensions.regexes:
                self._known[name] = structured(*self.extensions.regexes[name])
            else:
                pattern = self.pattern(name)
                if pattern is None:
                    what = "a terminal" if is_terminal(token.text) else "a rule, and no terminal,"
                    raise refused(f"{what} that is not defined stands here: {name}", token)
                self._known[name] = compile_pattern(pattern, 0, utf8.utf8)
        return self._known[name]

    def read(self, body: Sequence[Token]) -> Nfa:
        """Return the texts of the right side of a terminal."""
        found, end = self._choice(body, 0)
        if end < len(body):
            raise refused(f"{body[end].text!r} cannot stand in a terminal", body[end])
        return dfa.simplify(found)

    def lazy(self, lazy: Lazy) -> Nfa:
        """Return the texts of a rule that ends at its first match."""
        whole = self.read(lazy.body)
        if lazy.suffix is None:
            return dfa.first_matches(whole)
        return dfa.first_matches(nfa.concat([whole, self.read(lazy.suffix)]))

    # ------------------------------------------------------------ choice | all & of | series of | ~ atoms

    def _choice(self, body: Sequence[Token], at: int) -> tuple[Nfa, int]:
        parts = []
        while True:
            found, at = self._conjunction(body, at)
            parts.append(found)
            if at == len(body) or body[at].text != "|":
                return nfa.union(parts), at
            at += 1

    def _conjunction(self, body: Sequence[Token], at: int) -> tuple[Nfa, int]:
        found, at = self._series(body, at)
        while at < len(body) and body[at].text == "&":
            other, at = self._series(body, at + 1)
            found = dfa.intersect(dfa.simplify(found), dfa.simplify(other))
        return found, at

    def _series(self, body: Sequence[Token], at: int) -> tuple[Nfa, int]:
        parts = []
        while at < len(body) and body[at].text not in ("|", "&", ")", "]"):
            found, at = self._repeated(body, at)
            parts.append(found)
        return nfa.concat(parts), at

    def _repeated(self, body: Sequence[Token], at: int) -> tuple[Nfa, int]:
        found, at = self._atom(body, at)
        while True:
            low, high, after = repeats(body, at)
            if after == at:
                return found, at
            found, at = repeat(found, low, high), after

    def _atom(self, body: Sequence[Token], at: int) -> tuple[Nfa, int]:
        token = body[at]
        if token.text == "~":
            if at + 1 == len(body):
                raise refused("nothing follows ~", token)
            found, at = self._atom(body, at + 1)
            return dfa.difference(utf8.text(), found), at
        if token.text in ("(", "["):
            found, end = self._choice(body, at + 1)
            if end == len(body) or body[end].text != {"(": ")", "[": "]"}[token.text]:
                raise refused(f"{token.text!r} is not closed", token)
            return (found if token.text == "(" else nfa.optional(found)), end + 1
        if token.kind in ("STRING", "REGEXP"):
            if token.text == '""':
                return nfa.literal(b""), at + 1
            if at + 2 < len(body) and body[at + 1].text == "..":
                low, high = (self.literal(body[i]) for i in (at, at + 2))
                return compile_pattern(f"[{low}-{high}]", 0, utf8.utf8), at + 3
            return compile_pattern(self.literal(token), 0, utf8.utf8), at + 1
        if token.kind == "NAME":
            return self.named(name_of(token.text), token), at + 1
        if token.text == "%regex":
            return structured(token.value, token.line), at + 1
        raise refused(f"{token.text!r} cannot stand in a terminal", token)


def json_value(schema: Any, line: int) -> tuple[Node, tuple[Narrowing, ...]]:
    """Return the node of the values of ``%json {…}``, without white space around them, and what it lacks.

    Members come in the order in which they are declared.
    """
    schema, writing = written(schema, line)
    return value_node(read_schema(schema), style_of(*writing), Reading(order="declared"))


def written(schema: Any, line: int) -> tuple[Any, Writing]:
    """Return a schema without ``x-guidance``, and the style that ``x-guidance`` asks for.

    The default is any white space.
    """
    options = schema.get("x-guidance", {}) if isinstance(schema, dict) else {}
    if not isinstance(options, dict):
        raise UnsupportedConstraint("x-guidance is an object", path=f"line {line}")
    known = {"item_separator": ",", "key_separator": ":", "whitespace_flexible": True}
    for name in sorted(options.keys() - known.keys()):
        raise UnsupportedConstraint(f"{name} of x-guidance is not supported", path=f"line {line}")
    comma, colon, blank = (known | options).values()
    try:
        separators = json_separators((comma, colon))
    except UnsupportedConstraint as error:
        raise UnsupportedConstraint(f"x-guidance: {error}", path=f"line {line}") from None
    if blank and (comma, colon) != (",", ":"):
        raise UnsupportedConstraint(
            "x-guidance: separators need whitespace_flexible: false; white space may stand anywhere otherwise",
            path=f"line {line}",
        )
    rest = {name: value for name, value in schema.items() if name != "x-guidance"} if options else schema
    return rest, ("flexible", None, "any", None) if blank else ("none", separators, "any", None)


def structured(value: Any, line: int) -> Nfa:
    """Return the texts of ``%regex {…}``: consecutive pieces of a sequence, or none."""
    kinds = {"substring_chunks": list, "substring_words": str, "substring_chars": str}
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in kinds:
        raise UnsupportedConstraint(
            f"%regex has one of {', '.join(kinds)}, not {str(value)[:60]}", path=f"line {line}"
        )
    [(kind, given)] = value.items()
    if not isinstance(given, kinds[kind]) or not all(isinstance(each, str) for each in given):
        raise UnsupportedConstraint(f"{kind} is not {str(given)[:60]}", path=f"line {line}")
    pieces = WORDS.findall(given) if kind == "substring_words" else list(given)
    return pieces_in_a_row(pieces)


def pieces_in_a_row(pieces: Sequence[str]) -> Nfa:
    """Return the texts of consecutive pieces of a sequence, the empty text included."""
    size = len(pieces)
    epsilons = [(0, None, i + 1) for i in range(size)] + [(i + 1, None, size + 2) for i in range(size + 1)]
    arcs = [(i + 1, nfa.literal(piece.encode()), i + 2) for i, piece in enumerate(pieces)]
    return dfa.simplify(nfa.network(size + 3, [*epsilons, *arcs, (0, None, size + 2)], 0, size + 2))
