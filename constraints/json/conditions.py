"""``allOf``, and ``if`` with ``then`` and ``else``: chains of conditions on one member are read case by case of its value.

    ⋂ᵢ (if t ∈ Sᵢ then Aᵢ else Bᵢ)  =  ⋃ over the constants c of all Sᵢ  ({t = c} ∩ ⋂ᵢ (Aᵢ if c ∈ Sᵢ else Bᵢ))  ∪  …

The cases left are objects whose ``t`` is something else, objects without it, and other values. Cases have no value in common.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..automata.work import spend
from .closed_objects import APART, CLOSING
from .combinators import disjoint, meet_all
from .document import Subschema
from .shapes import NEVER, Objects, Others
from .tagged import Constants, listed
from .values import EVERYTHING, NOTHING, Value, join, meet

if TYPE_CHECKING:
    from .keywords import Evaluator

CONDITIONAL = {"if", "then", "else"}


def all_of(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``allOf``."""
    subs, must = node.schema["allOf"], node.schema.get("required", [])
    if not sign:
        parts = [k.below(s, node, f"allOf/{i}", False, tracked) for i, s in enumerate(subs)]
        if tracked == APART:
            return disjoint(parts, (k.below(s, node, f"allOf/{i}", True) for i, s in enumerate(subs)))
        return join(*parts)
    if must:
        subs = [requiring(schema, must) for schema in subs]
    parts = []
    for group in grouped(k, subs):
        chains = [found for _, found in group if found is not None]
        if sum(len(found.tests) for found in chains) > 1:
            parts.append(cases(k, node, chains, must, tracked))
        else:
            parts += [k.below(subs[i], node, f"allOf/{i}", True, tracked) for i, _ in group]
    return meet_all(k, parts)


def requiring(schema: Any, names: list[str]) -> Any:
    """Return a schema with ``oneOf`` that also requires these names.
    They tell its alternatives apart. Other schemas are returned unchanged."""
    if not isinstance(schema, dict) or "oneOf" not in schema or "$ref" in schema:
        return schema
    return schema | {"required": list(dict.fromkeys([*names, *schema.get("required", ())]))}


def condition(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``if`` with ``then`` and ``else``."""
    schema = node.schema
    if not {"then", "else"} & schema.keys() and not (tracked and sign):
        return EVERYTHING if sign else NOTHING
    if sign and (found := chain(k, schema, "")) is not None and len(found.tests) > 1:
        return cases(k, node, [found], schema.get("required", []), tracked)
    holds, fails = (k.below(schema["if"], node, "if", s, tracked if s else 0) for s in (True, False))
    then, other = (k.below(schema.get(key, True), node, key, sign, tracked) for key in ("then", "else"))
    return join(k.possible(meet(holds, then)), k.possible(meet(fails, other)), absorb=not tracked)


# ---------------------------------------------------------------- conditions on one member


class Test(NamedTuple):
    """One condition on a tag, and what holds for the values that satisfy it.

    ``inner``: the schema of the tag. ``constants``: those that it lists. ``there``, ``objects``: whether objects without the tag,
    and other values than objects, fail. ``then``: a schema and the step that leads to it.
    """

    inner: Any
    constants: Constants
    there: bool
    objects: bool
    then: tuple[Any, str]


class Switch(NamedTuple):
    """Conditions on one member, of which the first that holds counts. ``other``: what holds where none does, with its step."""

    name: str
    tests: list[Test]
    other: tuple[Any, str]

    def chosen(self, holds: Any) -> tuple[Any, str]:
        """Return the schema behind the first test of which ``holds`` is true, with its step."""
        return next((test.then for test in self.tests if holds(test)), self.other)


def chain(k: Evaluator, schema: dict[str, Any], step: str) -> Switch | None:
    """Return the conditions of a schema with ``if``, and of those in its ``else``, ``None`` if the first is not about a tag."""
    tests, name, other = list[Test](), "", (schema, step)
    prefix = f"{step}/" if step else ""
    while (found := test(k, other[0], prefix)) is not None and name in ("", found[0]):
        name, one = found
        tests.append(one)
        other = (other[0].get("else", True), f"{prefix}else")
        prefix += "else/"
        if not is_conditional(k, other[0]):
            break
    return Switch(name, tests, other) if tests else None


def is_conditional(k: Evaluator, schema: Any) -> bool:
    """Return whether a schema is ``if`` with ``then`` or ``else``, and nothing beside."""
    if not isinstance(schema, dict) or id(schema) in k.document.owner:
        return False
    keys = {key for key in schema if k.document.reads(key)}
    return "if" in keys and keys <= CONDITIONAL


def test(k: Evaluator, schema: dict[str, Any], prefix: str) -> tuple[str, Test] | None:
    """Return the tag and the test of a schema with ``if``, ``None`` if that is about anything else than one tag."""
    asked = schema["if"]
    if not isinstance(asked, dict) or not {key for key in asked if k.document.reads(key)} <= {
        "type", "properties", "required",
    }:  # fmt: skip
        return None
    members, required = asked.get("properties", {}), asked.get("required", [])
    if len(members) != 1 or asked.get("type", "object") != "object" or not {*required} <= {*members}:
        return None
    ((name, inner),) = members.items()
    constants = listed(k, inner)
    if constants is None or {key for key in inner if k.document.reads(key)} not in ({"const"}, {"enum"}):
        return None
    then = (schema.get("then", True), f"{prefix}then")
    return name, Test(inner, constants, bool(required), "type" in asked, then)


def cases(
    k: Evaluator, node: Subschema, chains: Sequence[Switch], must: Collection[str], tracked: int
) -> Value:
    """Return the values that satisfy all ``chains``, which test one tag: a case for each constant, and one for other values.
    ``must``: the members that are required in every case. ``tracked``: see :meth:`.Evaluator.value`."""

    def met(guard: Value, parts: Iterable[tuple[Any, str]]) -> Value:
        values = (k.below(schema, node, step, True, tracked) for schema, step in parts if schema is not True)
        return k.possible(meet_all(k, [guard, *values]))

    def tagged(inner: Any, step: str, tracked: int) -> Value:
        schema = {"properties": {name: inner}, "required": [name]}
        return NOTHING._replace(object=k.below(schema, node, step, True, tracked).object)

    name = chains[0].name
    every: dict[tuple[bool, Any], dict[int, tuple[Test, str]]] = {}
    for place, each in enumerate(chains):
        for one in each.tests:
            for constant in one.constants:
                every.setdefault(constant, {}).setdefault(place, (one, one.then[1]))
    alike: dict[tuple[Any, ...], list[tuple[bool, Any]]] = {}
    for constant, holding in every.items():
        alike.setdefault(tuple((place, step) for place, (_, step) in holding.items()), []).append(constant)
    defaults = {place: each.other for place, each in enumerate(chains) if each.other[0] is not True}
    found = list[Value]()
    for constants in alike.values():
        holding = every[constants[0]]
        one, step = next(iter(holding.values()))
        inner = one.inner if len(one.constants) == len(constants) else {"enum": [c for _, c in constants]}
        chosen = defaults | {place: test.then for place, (test, _) in holding.items()}
        spend(5 * len(chosen))
        found.append(met(tagged(inner, step, tracked), (chosen[place] for place in sorted(chosen))))
    others = {"not": {"enum": [constant for _, constant in every]}}
    found.append(met(tagged(others, "if", 0), defaults.values()))
    if name not in must:
        parts = [each.chosen(lambda test: not test.there) for each in chains]
        is_read = bool(tracked) and any(not test.there for each in chains for test in each.tests)
        seen, declares = Others(frozenset([name] if is_read else [])), tracked == CLOSING and is_read
        lacking = Objects(((name, NEVER),), seen=seen, declares=declares)
        found.append(met(NOTHING._replace(object=(lacking,)), parts))
    parts = [each.chosen(lambda test: not test.objects) for each in chains]
    found.append(met(EVERYTHING._replace(object=()), parts))
    return join(*found, absorb=not tracked)


def grouped(k: Evaluator, subs: Sequence[Any]) -> Iterator[list[tuple[int, Switch | None]]]:
    """Yield the schemas of ``allOf`` by index: those that are conditions on one tag together, each other one alone."""
    groups: dict[Any, list[tuple[int, Switch | None]]] = {}
    for i, schema in enumerate(subs):
        found = chain(k, schema, f"allOf/{i}") if is_conditional(k, schema) else None
        groups.setdefault(i if found is None else found.name, []).append((i, found))
    yield from groups.values()
