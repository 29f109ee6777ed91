"""Llguidance's additions to Lark's notation that are written in JSON: ``%json`` and ``%regex``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa
from ..automata.nfa import Nfa
from ..json.document import read_schema
from ..json.nodes import Reading, value_node
from ..json.text import Writing, json_separators, style_of
from ..narrowing import Narrowing
from ..program.node import Node

WORDS = re.compile(r"\w+|[^\w\s]|\s+")


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
