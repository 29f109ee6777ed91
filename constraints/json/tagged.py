"""Tagged unions: alternatives that the constants of one member tell apart.

A *tag* is a required member whose value is one of some constants, a required member of such a member, or an item at a place that
an array must have. Values whose tags have no constant in common differ, so alternatives need not be compared in pairs. So do
objects of which one requires a member that the other may not have.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..automata.work import spend
from .counted_patterns import words_of
from .objects import is_closed
from .shapes import NEVER, Arrays, Need, Objects
from .values import Value
from .vocabulary import tag_name

if TYPE_CHECKING:
    from .keywords import Evaluator

Constants = frozenset[tuple[bool, Any]]
"""Scalars of JSON: (whether it is a boolean, itself), so that 1 is 1.0 and not true."""
Tags = dict[Hashable, Constants]
"""The constants of each tag of a shape; a tag is a name, a name and one within it, or a place in an array."""


MOST_TAGS = 3
"""The most tags by which alternatives are told apart: those with the most constants."""


def objects_in_common(k: Evaluator, parts: Sequence[Value], must: Collection[str] = ()) -> list[list[int]]:
    """Return for each alternative the indices of the others that may have objects in common with it.
    ``must``: the members that are required of all of them."""
    found = in_common([[tags_of(k, shape, must) for shape in part.object] for part in parts])
    others = not_excluded([part.object for part in parts])
    return [[j for j in near if j in others[i] and i in others[j]] for i, near in enumerate(found)]


def in_common(tags: Sequence[Sequence[Tags]]) -> list[list[int]]:
    """Return for each alternative the indices of the others of which the constants of one tag do not tell it apart.
    ``tags``: by alternative, those of each of its shapes."""
    named: dict[Hashable, set[Any]] = {}
    for each in (found for part in tags for found in part):
        for name, constants in each.items():
            named.setdefault(name, set()).update(constants)
    best = sorted(named, key=lambda name: -len(named[name]))[:MOST_TAGS]
    nears: list[list[Collection[int]]] = [[range(len(tags))] for _ in tags]
    for name in best:
        untagged = [i for i, part in enumerate(tags) if not all(name in found for found in part)]
        holders: dict[Any, list[int]] = {}
        for i, part in enumerate(tags):
            for constant in {constant for found in part for constant in found.get(name, ())}:
                holders.setdefault(constant, []).append(i)
        for i in set(range(len(tags))).difference(untagged):
            own = {constant for found in tags[i] for constant in found[name]}
            nears[i].append({*untagged, *(j for constant in own for j in holders[constant])})
    return [sorted(set(near[-1]).intersection(*near) - {i}) for i, near in enumerate(nears)]


def not_excluded(parts: Sequence[Sequence[Objects]]) -> list[Collection[int]]:
    """Return for each alternative the numbers of those that allow all the members that it requires."""
    every, open_ones = range(len(parts)), set[int]()
    holders: dict[str, set[int]] = {}
    for i, shapes in enumerate(parts):
        for shape in shapes:
            spend(len(shape.names) / 10)
            if not is_closed(shape):
                open_ones.add(i)
            for name, need in shape.names:
                if need != NEVER:
                    holders.setdefault(name, set()).add(i)

    def may_have(shape: Objects) -> Collection[int]:
        some = [holders.get(name, set()) for name in shape.required]
        return min(some, key=len) | open_ones if some else every

    return [set[int]().union(*map(may_have, shapes)) for shapes in parts]


def tags_of(k: Evaluator, shape: Objects, must: Collection[str]) -> Tags:
    """Return the tags of a shape with their constants."""
    found: Tags = {}
    for name in dict.fromkeys((*shape.required, *(name for name in must if name in shape.by_name))):
        need = shape.by_name.get(name)
        if (constants := constants_of(k, need)) is not None:
            found[name] = constants
        else:
            found |= {(name, inner): constants for inner, constants in tags_within(k, need)}
    return found


def tags_of_items(k: Evaluator, shape: Arrays) -> Tags:
    """Return the tags of a shape of arrays with their constants."""
    each = {i: constants_of(k, need) for i, need in enumerate(shape.prefix[: shape.least])}
    return {i: constants for i, constants in each.items() if constants is not None}


def tags_within(k: Evaluator, need: Need | None) -> list[tuple[str, Constants]]:
    """Return the tags that a schema of a need gives all values, which are objects."""
    for number, sign in need or ():
        schema = k.document.nodes[number].schema if sign and number >= 0 else {}
        if schema.get("type") == "object" and "$ref" not in schema:
            inner = schema.get("properties", {})
            each = [(name, listed(k, inner[name])) for name in schema.get("required", ()) if name in inner]
            return [(name, constants) for name, constants in each if constants is not None]
    return []


def constants_of(k: Evaluator, need: Need | None) -> Constants | None:
    """Return the constants of which a need asks for one, ``None`` if it names none."""
    spend(1)
    for number, sign in need or ():
        if sign and number >= 0:
            schema = k.document.nodes[number].schema
            if "$ref" not in schema and (found := listed(k, schema)) is not None:
                return found
    return None


def listed(k: Evaluator, schema: Any) -> Constants | None:
    """Return the constants that ``const``, ``enum`` or a pattern of strings lists, ``None`` if none does or one is an array or
    an object."""
    if not isinstance(schema, dict):
        return None
    words = words_of(schema["pattern"]) if "pattern" in schema else None
    if words is not None and schema.get("type") == "string":
        return frozenset((False, word) for word in words)
    key = next((key for key in ("const", "enum") if key in schema and k.document.reads(key)), None)
    values = [] if key is None else [schema[key]] if key == "const" else schema[key]
    if key is None or any(isinstance(value, list | dict) for value in values):
        return None
    return frozenset((isinstance(value, bool), value) for value in values)


def required_members(schema: Mapping[str, Any]) -> list[str]:
    """Return the members that a schema requires: those of ``required``, and the one that ``discriminator`` of OpenAPI names."""
    name = tag_name(schema.get("discriminator"))
    return [*schema.get("required", ()), *([name] if isinstance(name, str) else [])]
