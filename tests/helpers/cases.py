"""Cases as data: every constraint of ``tests/cases/*.toml``, with texts that it has and has not. Each file is read once.

A table is a sentence that says why, and one case, or several in ``cases``; what stands beside ``cases`` holds for all of them:

    ["A counted repeat has its bounds"]
    has = ["aa", "aaa"]
    not = ["a", "aaaa"]
    cases = [{regex = "a{2,3}"}, {gbnf = 'root ::= "a"{2,3}'}]

The constraint is a function of ``tractile.constraints`` and its first argument (``regex``, ``sql``, ``keywords`` …), which is
written as text where it is JSON (``json_schema``, ``tool_calls`` …); or ``lark``, ``gbnf``, ``ebnf``, ``abnf`` and a grammar; or
``expression``, in Python (``tractile`` is the package). ``$name`` is what stands under that name in the table ``given``; ``with``
has named arguments. A text may be a list of pieces, each with how often it is repeated: ``["(", 40, "x", ")", 40]``.

    has, not        texts that the constraint has, and has not
    narrowed        the keywords of its ``narrowed``, in order of the alphabet
    fewest          the fewest tokens of a text, the end token included, with the vocabulary ``SMALL``
    error           the type of error that it is refused with; ``says``: a pattern for its message; ``at``: its path
    skip            {place = "why the case is not asked there"}
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

import tractile as tt

FOLDER = Path(__file__).parent.parent / "cases"
SYNTAXES = ("lark", "gbnf", "ebnf", "abnf")
AS_JSON = ("json_schema", "structural_tag", "tool_calls", "function_calls", "sql_tables")
DOORS = (*tt.constraints.__all__, *SYNTAXES, "sql_tables", "expression")
KEYS = {"has", "not", "narrowed", "fewest", "error", "says", "at", "skip", "with"}

PIECES = [
    b'{"',
    b'": ',
    b'", "',
    b'"}',
    b"], [",
    b"true",
    b"ab",
    b"aa",
    b"ba",
    b"12",
    b"</",
    b"((",
    b"))",
    b"\xc3\xa9x",
]
"""Tokens of several bytes: some end within what another begins."""
SMALL = tt.Vocabulary([None, *(bytes([byte]) for byte in range(256)), *PIECES], eos_token_id=0)
"""All bytes, the end token, and a few pieces."""


class Case:
    """A constraint, and what is known of it."""

    def __init__(self, name: str, given: dict[str, Any]) -> None:
        self.name = name
        self.door = next(iter(given.keys() & set(DOORS)), "")
        assert given.keys() <= KEYS | {self.door}, f"{name}: {given.keys() - KEYS - {self.door}} is no key"
        self.given, self.options = given.get(self.door), dict(given.get("with", {}))
        self.has = [text_of(each) for each in given.get("has", ())]
        self.lacks = [text_of(each) for each in given.get("not", ())]
        self.narrowed: list[str] | None = given.get("narrowed")
        self.fewest: int | None = given.get("fewest")
        self.error: str | None = given.get("error")
        self.says, self.at = given.get("says", ""), given.get("at")
        self.skip: dict[str, str] = given.get("skip", {})
        assert self.door, f"{name}: no constraint"
        assert self.has or self.lacks or self.error or self.narrowed is not None, f"{name}: nothing is asked"

    def __repr__(self) -> str:
        return f"{self.name}: {self.door} {str(self.given)[:200]!r}"

    def build(self) -> tt.constraints.Constraint:
        """Return the constraint, made anew."""
        given, options = self.given, self.options
        if self.door == "expression":
            names = vars(tt.constraints) | {"tt": tt.constraints, "tractile": tt}
            return eval(given, {"__builtins__": {}}, names)
        if self.door in AS_JSON:
            given = json.loads(given)
        if self.door in SYNTAXES:
            return tt.constraints.grammar(given, syntax=self.door, **options)
        door = "sql" if self.door == "sql_tables" else self.door
        if "flags" in options:
            options = {"flags": eval(options["flags"], {"__builtins__": {}}, vars(re))}
        return getattr(tt.constraints, door)(given, **options)

    @cached_property
    def constraint(self) -> tt.constraints.Constraint:
        """The constraint, which the places that are asked share."""
        return self.build()


def text_of(given: str | list[Any]) -> str:
    """Return a text: as it is written, or of pieces and how often each is repeated."""
    if isinstance(given, str):
        return given
    parts: list[str] = []
    for each in given:
        parts += [each] if isinstance(each, str) else [parts.pop() * each]
    return "".join(parts)


def with_names(case: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return a case with what ``$name`` stands for in place of it."""
    found = dict(case)
    for key in case.keys() & set(DOORS):
        if isinstance(case[key], str) and case[key].startswith("$"):
            found[key] = names.get(case[key][1:], case[key])
    return found


@cache
def groups() -> dict[str, list[Case]]:
    """Return all cases by file and sentence."""
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        names = tables.pop("given", {})
        for why, table in tables.items():
            name = f"{path.stem}: {why}"
            common = {key: value for key, value in table.items() if key != "cases"}
            each = [merged(common, own) for own in table.get("cases", [{}])]
            found[name] = [Case(name, with_names(case, names)) for case in each]
    return found


def merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a case with what holds for all of its table."""
    options = common.get("with", {}) | own.get("with", {})
    return common | own | ({"with": options} if options else {})


def asked(place: str, door: str | None = None) -> list[Any]:
    """Return the cases that a place is asked, by table: all, or those of a door. Those that name it in ``skip`` are left out."""
    tables = []
    for name, cases in groups().items():
        found = [c for c in cases if place not in c.skip and (c.error is None or place == "errors")]
        found = [case for case in found if door in (None, case.door)]
        if found:
            tables.append(pytest.param(found, id=re.sub(r"[^\w:]+", "_", name)))
    return tables


def spelled(text: str, pieces: Sequence[bytes] = ()) -> list[int]:
    """Return tokens of ``SMALL`` that write a text: bytes, and the first of the pieces that stands at a place."""
    data, tokens, at = text.encode(), list[int](), 0
    while at < len(data):
        piece = next((piece for piece in pieces if data.startswith(piece, at)), data[at : at + 1])
        tokens.append(SMALL.token_bytes.index(piece, 1))
        at += len(piece)
    return tokens
