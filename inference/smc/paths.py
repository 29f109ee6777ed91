"""Paths into the values of answers: ``person.name``, ``items[0].kind``, or ``""`` for the whole answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from ...errors import EvidenceError

PART = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(-?\d+)\]|\[\"([^\"]*)\"\]")


class Absent(Enum):
    """The value of a field that an answer does not have, as one of another alternative of a union, or a shorter list."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent.ABSENT
"""The value of a field that an answer does not have."""


def read_path(path: str) -> list[str | int]:
    """Return the names and indices of a path. Raises :class:`EvidenceError` for anything else.

    ``["a.b"]`` is a name with a point or a bracket.
    """
    found, end = list[str | int](), 0
    if not isinstance(path, str):
        raise EvidenceError(f"field: the path must be a text such as 'items[0].kind', not {path!r}")
    while end < len(path):
        part = PART.match(path, end)
        if part is None:
            raise EvidenceError(
                f"field: {path!r} cannot be read from {path[end:]!r} on; a path is like 'kind', 'items[0].kind' or '[\"a.b\"]'"
            )
        name, index, quoted = part.groups()
        found.append(int(index) if index is not None else quoted if name is None else name)
        end = part.end()
    return found


def at_path(value: Any, steps: list[str | int]) -> Any:
    """Return what a value has at a path, ``ABSENT`` if it has nothing there."""
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list | tuple) or not -len(value) <= step < len(value):
                return ABSENT
            value = value[step]
        else:
            members = members_of(value)
            if step not in members:
                return ABSENT
            value = members[step]
    return value


def members_of(value: Any) -> Mapping[str, Any]:
    """Return the members of an object: of a dict, a dataclass, a Pydantic model or a call; nothing of other values."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value) if not one.name.startswith("_")}
    if hasattr(type(value), "model_fields"):
        return {**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})}
    return {}


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each number, text or other value without parts, in order; the path of a value alone is ``""``."""
    members = members_of(value)
    if members:
        for name, member in members.items():
            plain = re.fullmatch(r"[^.\[\]]+", name) is not None
            step = (f".{name}" if path else name) if plain else f'["{name}"]'
            yield from leaves(member, path + step)
    elif isinstance(value, list | tuple) and value:
        for i, member in enumerate(value):
            yield from leaves(member, f"{path}[{i}]")
    else:
        yield path
