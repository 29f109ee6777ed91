"""JSON values within a text, and strings that none of their strings and names contains."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from ..constraint import Constraint
from ..json.constraint import written
from ..json.document import Schema, read_schema
from ..json.lazy.schema import root_machine, schema_machines, stack_automaton
from ..json.lazy.values import Machines
from ..json.shapes import NEVER, Need, Strings
from ..json.survey import Survey
from ..json.values import Value
from ..lazy_constraint import LazyConstraint, made
from ..narrowing import Narrowing, OnNarrowed, report

Options = tuple[Any, ...]
"""The options of ``json/lazy/schema.py``."""


def options_of(whitespace: str, any_order: bool, plain: bool = False) -> Options:
    """Return the options of a JSON value in a structural tag: its objects are closed."""
    order = "any" if any_order else "declared"
    return whitespace, order, None, None, False, "auto", plain, None, None, "any", None


def containing(words: Iterable[str]) -> str:
    """Return the pattern of the strings that contain one of the words."""
    return "|".join("".join(f"\\u{{{ord(char):x}}}" for char in word) for word in words)


def lacking(words: Iterable[str]) -> Strings:
    """Return the shape of the strings that contain none of the words."""
    pattern = containing(words)
    return Strings(atoms=frozenset([("pattern", pattern, False)] if pattern else []))


class Excluding(Machines):
    """The machines of a document without the values in whose strings or names one of some words occurs."""

    def __init__(self, of: Machines, words: tuple[str, ...]) -> None:
        asserts = of.keywords.asserts_format
        super().__init__(of.document, of.style, of.order, of.open_objects, asserts, of.notation)
        self.excluded = words
        self.names_with, self.strings_without = (containing(words), NEVER), lacking(words)
        self._kept: dict[Need, Value] = {}

    def value(self, need: Need) -> Value:
        if need not in self._kept:
            found = super().value(need)
            strings = (met for shape in found.string if (met := shape.meet(self.strings_without)) is not None)
            objects = (
                replace(o, patterns=(*o.patterns, self.names_with), early=o.early) for o in found.object
            )
            found = found._replace(string=tuple(strings), object=tuple(objects))
            self.values[need] = self._kept[need] = found
        return self._kept[need]

    def known_parts(self, value: Value) -> Hashable | None:
        found = super().known_parts(value)
        return None if found is None else (self.excluded, found)


def machines_without(
    schema: Schema, options: Options, words: tuple[str, ...]
) -> tuple[Machines, tuple[Narrowing, ...]]:
    """Return the machines of a schema without the values that contain one of the words, and its narrowings.

    Integers are written without a point.
    """
    machines, _ = schema_machines(schema, False, options)
    machines.notation = machines.notation._replace(whole=True)
    narrowed = Survey(machines.document, machines.keywords.asserts_format, machines.notation).narrowings()
    return Excluding(machines, words) if words else machines, narrowed


def json_value(schema: Any, options: Options, words: Iterable[str], on_narrowed: OnNarrowed) -> Constraint:
    """Accept the JSON texts that a schema allows, with no white space around them, and none of the words in a string or a name.

    A word is told however it is written: ``\\u003c`` is ``<``.
    """
    found = made(lazily, read_schema(schema), options, tuple(words))
    report(found.narrowed, on_narrowed)
    return found


def lazily(schema: Schema, options: Options, words: tuple[str, ...]) -> LazyConstraint:
    """Return the constraint of a schema without some words as a lazy automaton."""
    machines, narrowed = machines_without(schema, options, words)
    machine = root_machine(machines, inner=True)
    return LazyConstraint(
        stack_automaton(machines, machine), narrowed, partial(written, machines, machine, narrowed)
    )
