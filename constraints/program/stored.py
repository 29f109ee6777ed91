"""Constraints as bytes, for other processes and the disk: the nodes and tables of a program, and what it lacks.

    first line, SHA-256 of the rest, arrays as safetensors

``program`` is JSON text: rows of nodes, sizes of tables, the number of the root. Nodes and tables are numbered, parts and bases
first; the bodies of rules may come after them. The other arrays are those of all tables, one after the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import ndarray
from safetensors.numpy import load, save

from ...circuits.narrowing import Narrowing
from ...errors import FormatError
from .node import Kind, Node
from .nodes import define, interned, rule
from .rewrite import parts_first
from .spec import checked
from .tables import Table

HEAD = b"tractile constraint 1\n"
"""The first line, with the version of the format."""
ARRAYS = {"edges": np.int32, "label": np.int32, "between": np.uint8, "in_base": np.int32, "apart": np.uint8}
"""The arrays of tables: their edges, labels and ends of characters; by state that of the base, and whether it differs."""

EDGES = 4
"""Numbers of an edge: its source, the lowest and the highest byte, its target."""


def to_bytes(root: Node, is_finite: bool, narrowed: Iterable[Narrowing]) -> bytes:
    """Serialise a program, whether it is to be a finite automaton, and its narrowings; the bytes are the same in each process.

    What was asked for and given comes back as its text, unless it is a text, a number or None.
    """
    order = parts_first(root)
    numbers = {each: number for number, each in enumerate(order)}
    tables = dict[Table, int]()
    for each in order:
        for used in each.tables:
            _number(used, tables)
    given = [_fields(each) for each in tables]
    read = {
        "nodes": [_row(each, numbers, tables) for each in order],
        "tables": [
            [
                len(fields["edges"]),
                len(fields["label"]),
                -1 if each.base is None else tables[each.base],
                len(fields["in_base"]),
            ]
            for each, fields in zip(tables, given, strict=True)
        ],
        "root": numbers[root],
        "finite": is_finite,
        "narrowed": [[_plain(value) for value in each] for each in narrowed],
    }
    text = json.dumps(read, separators=(",", ":"))
    content = save(
        {"program": np.frombuffer(text.encode(), np.uint8)}
        | {
            name: np.concatenate([np.zeros(0, kind), *(each[name].ravel() for each in given)])
            for name, kind in ARRAYS.items()
        }
    )
    return HEAD + hashlib.sha256(content).digest() + content


def from_bytes(data: bytes) -> tuple[Node, bool, tuple[Narrowing, ...]]:
    """Return what :func:`to_bytes` was given. Raises ``FormatError`` for other bytes, and for damaged ones."""
    if not data.startswith(HEAD):
        raise FormatError("these bytes are no constraint that this version of the package has written")
    key, content = data[len(HEAD) :][:32], data[len(HEAD) + 32 :]
    if hashlib.sha256(content).digest() != key:
        raise FormatError("the bytes of a constraint are damaged: write them again with to_bytes")
    arrays = load(content)
    read = json.loads(arrays["program"].tobytes())
    narrowed = tuple(Narrowing(*each) for each in read["narrowed"])
    return _program(read, arrays, key), read["finite"], narrowed


def _program(read: dict[str, Any], arrays: dict[str, ndarray[Any, Any]], key: bytes) -> Node:
    """Return the program that ``read`` (JSON) and ``arrays`` describe. ``key`` and the row of a rule name it."""
    tables = list[Table]()
    at = dict.fromkeys(ARRAYS, 0)

    def cut(name: str, count: int) -> ndarray[Any, Any]:
        at[name] += count
        return arrays[name][at[name] - count : at[name]]

    for edges, states, base, shared in read["tables"]:
        tables.append(
            Table(
                cut("edges", EDGES * edges).reshape(-1, EDGES),
                cut("label", states),
                cut("between", states),
                None if base < 0 else tables[base],
                cut("in_base", shared).tolist(),
                cut("apart", shared).tolist(),
            )
        )
    rows = read["nodes"]
    made = [rule((key, number)) if row[0] == Kind.RULE else None for number, row in enumerate(rows)]
    for number, (kind, parts, named, low, high, required, members, ordered) in enumerate(rows):
        if made[number] is None:
            below = tuple(_whole(made[part]) for part in parts)
            used = tuple(tables[each] for each in named)
            made[number] = interned(Kind(kind), below, used, low, high, int(required, 16), members, ordered)
    for each, row in zip(made, rows, strict=True):
        if row[0] == Kind.RULE:
            define(_whole(each), _whole(made[row[1][0]]))
    return checked(_whole(made[read["root"]]))


def _number(given: Table, numbers: dict[Table, int]) -> None:
    """Give a table the next free number, unless it has one; the table that it is based on gets a lower one."""
    if given not in numbers:
        if given.base is not None:
            _number(given.base, numbers)
        numbers[given] = len(numbers)


def _fields(given: Table) -> dict[str, ndarray[Any, Any]]:
    """Return the arrays of a table, which are what it is copied by."""
    fields: Any = given.__reduce__()[1]
    edges, label, between, _, in_base, apart = fields
    return {
        name: np.asarray(value, ARRAYS[name])
        for name, value in zip(ARRAYS, (edges, label, between, in_base, apart), strict=True)
    }


def _row(given: Node, numbers: dict[Node, int], tables: dict[Table, int]) -> list[Any]:
    """Return the attributes of a node for JSON: its parts and tables by number, required labels in hexadecimal digits."""
    kind, parts, named, low, high, required, members, ordered = given.attributes
    counts = [low, high, f"{required:x}", members, ordered]
    return [int(kind), [numbers[part] for part in parts], [tables[each] for each in named], *counts]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _whole(found: Node | None) -> Node:
    if found is None:
        raise ValueError("a node stands before its parts")
    return found
