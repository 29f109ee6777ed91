"""JSON values within a text, and strings that none of their strings and names contains."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from ..constraint import Constraint
from ..json.document import Schema, read_schema
from ..json.needs import Needs
from ..json.nodes import Reading, Writer
from ..json.numbers import Notation
from ..json.shapes import NEVER, Need, Strings
from ..json.text import Space, style_of
from ..json.values import Value
from ..narrowing import OnNarrowed, report


def containing(words: Iterable[str]) -> str:
    """Return the pattern of the strings that contain one of the words."""
    return "|".join("".join(f"\\u{{{ord(char):x}}}" for char in word) for word in words)


def lacking(words: Iterable[str]) -> Strings:
    """Return the shape of the strings that contain none of the words."""
    pattern = containing(words)
    return Strings(atoms=frozenset([("pattern", pattern, False)] if pattern else []))


class Excluding(Needs):
    """The needs of a document without the values in whose strings or names one of some words occurs."""

    def __init__(self, of: Needs, words: tuple[str, ...]) -> None:
        self.__dict__.update(of.__dict__)
        self.values, self.hollow = {}, {}
        self.words = words
        self.names_with, self.strings_without = (containing(words), NEVER), lacking(words)
        self._kept: dict[Need, Value] = {}

    @property
    def key(self) -> Hashable:
        return super().key, self.words

    def value(self, need: Need) -> Value:
        if need not in self._kept:
            found = super().value(need)
            strings = (met for shape in found.string if (met := shape.meet(self.strings_without)) is not None)
            objects = (replace(o, patterns=(*o.patterns, self.names_with)) for o in found.object)
            found = found._replace(string=tuple(strings), object=tuple(objects))
            self.values[need] = self._kept[need] = found
        return self._kept[need]


def writer_without(
    schema: Schema, whitespace: Space, any_order: bool, words: tuple[str, ...], plain: bool = False
) -> Writer:
    """Return the writer of the values of a schema that contain none of the words; its objects are closed."""
    order = "any" if any_order else "declared"
    reading = Reading(order, open_objects=False, notation=Notation(whole=True, plain=plain))
    found = Writer.of(schema, style_of(whitespace), reading)
    if not words:
        return found
    return Writer(Excluding(found.needs, words), found.style, found.notation, found.narrowed)


def json_value(
    schema: Any, whitespace: Space, any_order: bool, words: Iterable[str], on_narrowed: OnNarrowed
) -> Constraint:
    """Accept the JSON texts that a schema allows, with no white space around them, and none of the words in a string or a name.

    A word is told however it is written: ``\\u003c`` is ``<``.
    """
    found = written(read_schema(schema), whitespace, any_order, tuple(words))
    report(found.narrowed, on_narrowed)
    return found


def written(schema: Schema, whitespace: Space, any_order: bool, words: tuple[str, ...]) -> Constraint:
    """Return the constraint of :func:`json_value`."""
    writer = writer_without(schema, whitespace, any_order, words)
    return Constraint(writer.root(), writer.narrowed, partial(written, schema, whitespace, any_order, words))
