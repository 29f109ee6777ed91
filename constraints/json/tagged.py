"""Tagged unions: alternatives that the constants of one member tell apart.

A *tag* is a required member whose value is one of some constants. Objects whose tags have no constant in common differ, so
alternatives need not be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..automata.work import spend
from .shapes import Need, Objects
from .values import Value

if TYPE_CHECKING:
    from .keywords import Keywords

Constants = frozenset[tuple[bool, Any]]
"""Scalars of JSON: (whether it is a boolean, itself), so that 1 is 1.0 and not true."""


def neighbours(k: Keywords, parts: Sequence[Value], must: Collection[str] = ()) -> list[list[int]]:
    """Return for each alternative the indices of the others that may have objects in common with it.
    ``must``: the members that are required of all of them."""
    tags = [[tags_of(k, shape, must) for shape in part.object] for part in parts]
    named: dict[str, set[Any]] = {}
    for each in (found for part in tags for found in part):
        for name, constants in each.items():
            named.setdefault(name, set()).update(constants)
    every = range(len(parts))
    if not named:
        return [[j for j in every if j != i] for i in every]
    name = max(named, key=lambda name: len(named[name]))
    untagged = [i for i, part in enumerate(tags) if not all(name in found for found in part)]
    holders: dict[Any, list[int]] = {}
    for i, part in enumerate(tags):
        for constant in {constant for found in part for constant in found.get(name, ())}:
            holders.setdefault(constant, []).append(i)
    result = []
    for i, part in enumerate(tags):
        sharing = {j for found in part for constant in found.get(name, ()) for j in holders[constant]}
        near = every if i in untagged else sorted(sharing.union(untagged))
        result.append([j for j in near if j != i])
    return result


def tags_of(k: Keywords, shape: Objects, must: Collection[str]) -> dict[str, Constants]:
    """Return the tags of a shape with their constants."""
    names = dict.fromkeys((*shape.required, *(name for name in must if name in shape.by_name)))
    found = ((name, constants_of(k, shape.by_name.get(name))) for name in names)
    return {name: constants for name, constants in found if constants is not None}


def constants_of(k: Keywords, need: Need | None) -> Constants | None:
    """Return the constants of which a need asks for one, ``None`` if it names none."""
    spend(1)
    for number, sign in need or ():
        if sign and number >= 0:
            schema = k.document.nodes[number].schema
            if "$ref" not in schema and (found := listed(k, schema)) is not None:
                return found
    return None


def listed(k: Keywords, schema: Any) -> Constants | None:
    """Return the constants that ``const`` or ``enum`` lists, ``None`` if there is neither or one is an array or an object."""
    if not isinstance(schema, dict):
        return None
    key = next((key for key in ("const", "enum") if key in schema and k.document.reads(key)), None)
    values = [] if key is None else [schema[key]] if key == "const" else schema[key]
    if key is None or any(isinstance(value, list | dict) for value in values):
        return None
    return frozenset((isinstance(value, bool), value) for value in values)


def required_members(schema: Mapping[str, Any]) -> list[str]:
    """Return the members that a schema requires: those of ``required``, and the one that ``discriminator`` of OpenAPI names."""
    named = schema.get("discriminator")
    name = named.get("propertyName") if isinstance(named, dict) else named
    return [*schema.get("required", ()), *([name] if isinstance(name, str) else [])]
