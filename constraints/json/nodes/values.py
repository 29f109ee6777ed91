"""The nodes of the needs of a document, in a surface syntax."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ....errors import TooManyStates, UnsupportedConstraint
from ...automata.work import at, limited
from ...narrowing import Narrowing
from ...program import nodes
from ...program.node import Node
from ...program.nodes import NOTHING
from ..document import Document, Schema
from ..needs import Needs
from ..numbers import Notation
from ..shapes import NEVER, Need
from ..survey import narrowings
from ..text import Style
from ..values import Value
from .arrays import arrays
from .leaves import blanks, number_node, string_node
from .objects import objects

MOST_OPEN = 32
"""The most needs within each other whose nodes are written at once: documents may refer from one to the next a thousand times."""


@dataclass(frozen=True)
class Reading:
    """How a schema is read.

    Attributes
    ----------
    order
        Whether members come in ``"any"`` order (or ``"auto"``), or in the ``"declared"`` one.
    open_objects
        Whether objects may have members that no schema declares.
    formats
        Whether formats ``"assert"`` something, only ``"annotate"``, or ``"auto"``: by the draft.
    notation
        How numbers are written; draft 4 and syntaxes with tuples have integers without a point anyway.
    strict
        Whether keywords and formats that no draft defines are refused.
    """

    order: str = "any"
    open_objects: bool = True
    formats: str = "auto"
    notation: Notation = Notation()  # noqa: RUF009
    strict: bool = False


class ValueWriter:
    """The nodes of the needs of a document in a style, at one depth of its values.

    ``left``: the levels of nesting that may follow, -1 beyond the last one.
    """

    def __init__(
        self,
        needs: Needs,
        style: Style,
        notation: Notation,
        narrowed: tuple[Narrowing, ...] = (),
        left: float = math.inf,
    ) -> None:
        self.needs, self.style, self.notation, self.narrowed = needs, style, notation, narrowed
        self.left = left
        self.blank = blanks(style.blank)
        self.parts: dict[Need, dict[Need, None]] | None = None  # by need those in its values, if asked for
        self._known: dict[Need, Node] = {NEVER: NOTHING}
        self._open: dict[Need, Node | None] = {}
        self._later: dict[Need, Node] = {}  # rules whose texts are found when no other need is open

    @classmethod
    def of(
        cls, schema: Schema, style: Style, reading: Reading = Reading(), place: Callable[[str], str] = str
    ) -> ValueWriter:
        """Return the writer of a schema's values; warnings show ``place(path)``. Raises ``UnsupportedConstraint``."""
        document = Document(schema, reading.strict)
        asserts = reading.formats == "assert" or (reading.formats == "auto" and document.draft < 2019)
        needs = Needs(document, reading.order, reading.open_objects, asserts, style.tuples)
        whole = reading.notation.whole or document.draft == 4 or style.tuples
        notation = reading.notation._replace(whole=whole)
        escapes = any(each.free is not None for each in style.spellings)
        return cls(needs, style, notation, narrowings(document, asserts, notation, escapes, place))

    @cached_property
    def comma(self) -> Node:
        """The node of a comma between items, with its white space."""
        return nodes.seq(nodes.text(self.style.comma), self.blank)

    @property
    def below(self) -> ValueWriter:
        """The writer of values one level deeper; without an indent it is this one, since depth does not show."""
        return self if self.style.indent is None else self._deeper

    @cached_property
    def _deeper(self) -> ValueWriter:
        return ValueWriter(self.needs, self.style.deeper, self.notation, left=self.left - 1)

    def value(self, need: Need) -> Value:
        """Return the set of values that satisfy a need."""
        try:
            return self.needs.value(need)
        except TooManyStates as error:
            raise at(self.needs.where(need), error) from None

    def words(self, value: Value) -> list[bytes]:
        """Return the texts of the null and the booleans of a value."""
        null, *booleans = self.style.words
        return [null] * value.null + [booleans[each] for each in sorted(value.boolean)]

    # ------------------------------------------------------------ nodes

    def root(self) -> Node:
        """Return the node of the values of the whole document."""
        return self.written(lambda: self.node(self.needs.keywords.root()))

    def objects(self, need: Need, style: Style | None = None) -> Node:
        """Return the node of the objects of a need. ``style``: how these are written, if not as the values in them."""
        return self.written(lambda: nodes.alt(*objects(self, need, style or self.style)))

    def written(self, write: Callable[[], Node]) -> Node:
        """Return what is written, with an error if the schema nests too deep."""
        try:
            with limited():
                found = write()
                while self._later:
                    need, rule = self._later.popitem()
                    self._open[need] = rule
                    nodes.define(rule, self.body(need))
                    del self._open[need]
                return found
        except RecursionError:
            raise UnsupportedConstraint("the schema nests too deep", path="/") from None

    def node(self, need: Need) -> Node:
        """Return the node of a need's texts; a need within itself becomes a rule, and so does one deep within others."""
        if self.parts is not None and self._open and need != NEVER:
            self.parts.setdefault(next(reversed(self._open)), {})[need] = None
        found = self._known.get(need)
        if found is not None:
            return found
        if self.left < 0:
            return NOTHING
        if need in self._open:
            rule = self._open[need]
            if rule is None:
                # documents share the rule of any value at all, another one is of this document alone
                key = None if need else ("json", self.style, self.notation, self.needs.key)
                rule = self._open[need] = nodes.rule(key)
            return rule
        if len(self._open) >= MOST_OPEN and need:
            rule = self._later[need] = self._known[need] = nodes.rule()
            return rule
        self._open[need] = None
        try:
            body = self.body(need)
        finally:
            rule = self._open.pop(need)
        if rule is not None and not rule.parts:  # else another document has defined it
            nodes.define(rule, body)
        found = self._known[need] = rule or body
        return found

    def body(self, need: Need) -> Node:
        """Return the node of a need's texts, by the types of its values."""
        value = self.value(need)
        try:
            options = [nodes.text(word) for word in self.words(value)] if value.null or value.boolean else []
            options += [number_node(shape, self.notation) for shape in value.number]
            options += [string_node(shape, each) for shape in value.string for each in self.style.spellings]
            options += arrays(self, need) if value.array else ()
            options += objects(self, need, self.style) if value.object else ()
            return options[0] if len(options) == 1 else nodes.alt(*options)
        except TooManyStates as error:
            raise at(self.needs.where(need), error) from None
