"""The machines of a document, one for each need, made on first use; and which needs are empty.

    shortest(need) = min over the shapes of its values, whose parts are short texts of the needs below

The least fixed point of these equations is computed: a need is empty if it has no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import Any

from ....errors import UnsupportedConstraint
from ... import limits
from ...automata.dfa import minimize
from ...automata.machines import Choice, DfaMachine, TextMachine
from ...automata.nfa import union
from ...automata.region import Machine
from ...automata.sharing import new_number, number_of
from ...automata.work import at, limited, metered
from .. import arrays as settling
from .. import strings
from ..document import Document
from ..needs import Needs
from ..numbers import Notation, number_automaton
from ..shapes import ANY, NEVER, Arrays, Need, Numbers, Objects, Strings, both, inside
from ..strings import is_simple
from ..text import Style
from ..values import Value
from .arrays import ArrayMachine, TupleMachine
from .distinct import Distinct
from .listed import ListedArrayMachine
from .objects import ObjectMachine
from .repeating import RepeatingArrayMachine
from .texts import in_quotes, quoted, shortest_string, strings_of
from .unique import DistinctArrayMachine

Look = Callable[[Need], bytes | None]
"""A function from a need to a short text of its values, ``None`` if no value satisfies it."""
MOST_APART = 4
"""The most positions of an array that are compared to see that its items are distinct anyway."""


class Machines(Needs):
    """The needs of one document with their machines."""

    def __init__(
        self,
        document: Document,
        style: Style,
        order: str,
        open_objects: bool,
        asserts_format: bool,
        notation: Notation,
    ) -> None:
        super().__init__(document, order, open_objects, asserts_format, style.tuples)
        self.style, self.notation = style, notation
        self.plain: Machines = self
        self.distinct = Distinct(self)
        self.matching: set[Any] = set()  # arrays of distinct items whose shortest text is being computed
        self._machines: dict[Need, Machine] = {}
        self._texts: dict[Need, bytes | None] = {NEVER: None}
        self._objects: dict[Need, ObjectMachine] = {}
        self._arrays: dict[Need, list[Any]] = {}
        self._meanings: dict[Need, int] = {}

    def value(self, need: Need) -> Value:
        if (found := self.values.get(need)) is None:
            with limited(limits.WORK), at(self.where(need)):
                found = super().value(need)
        return found

    def meaning(self, need: Need) -> int:
        """Return a number that determines the texts of a need, across documents."""
        found = self._meanings.get(need)
        if found is None:
            own = self._meanings[need] = new_number()  # assumed where the need occurs within itself
            known = self.known_parts(self.value(need))
            found = self._meanings[need] = own if known is None else number_of(known)
        return found

    def known_parts(self, value: Value) -> Hashable | None:
        """Return a key that determines the texts of a value.
        Return ``None`` if it has objects with conditions, or arrays with more than a length and one need for all items."""
        if any(shape != Objects() for shape in value.object):
            return None
        items = []
        for shape in value.array:
            if shape != Arrays(
                rest=shape.rest,
                least=shape.least,
                most=shape.most,
                seen=shape.seen,
                seen_kinds=shape.seen_kinds,
                kind=shape.kind,
            ):
                return None
            inner = -1 if shape.rest == ANY else self.meaning(shape.rest)
            items.append((inner, shape.least, shape.most, shape.kind))
        writing = self.style, self.notation, self.open_objects
        return writing, value._replace(array=(), object=()), tuple(items), len(value.object)

    @property
    def below(self) -> Machines:
        """The machines of the values in arrays and objects."""
        return self

    # ------------------------------------------------------------ machines

    @property
    def made(self) -> list[Need]:
        """The needs whose machine has been made."""
        return list(self._machines)

    def machine(self, need: Need) -> Machine:
        """Return the machine of the texts of a need, which some value must satisfy."""
        found = self._machines.get(need)
        if found is None:
            with limited(limits.WORK), at(self.where(need)):
                parts = self.scalars(need) + self.structures(need)
            found = self._machines[need] = parts[0] if len(parts) == 1 else Choice(parts)
        return found

    def scalars(self, need: Need) -> list[Machine]:
        """Return the machines of the values that hold no others."""
        value = self.value(need)
        found: list[Machine] = list(map(TextMachine, self.words(value)))
        found += [
            number_machine(shape, self.notation) for shape in value.number if self.shortest_number(shape)
        ]
        found += [machine for shape in value.string for machine in strings_of(shape, self.style)]
        return found

    def words(self, value: Value) -> list[bytes]:
        """Return the texts of the null and the booleans of a value."""
        null, *booleans = self.style.words
        return [null] * value.null + [booleans[each] for each in sorted(value.boolean)]

    def structures(self, need: Need) -> list[Machine]:
        """Return the machines of the arrays and objects of a need, without empty ones."""
        found: list[Machine] = [m for m in self.arrays(need) if m.shortest(self.shortest) is not None]
        objects = self.objects(need)
        if objects is not None and objects.shortest(self.shortest) is not None:
            found.append(objects)
        return found

    def arrays(self, need: Need) -> list[Any]:
        """Return the machines of the arrays of a need, of which some may have no text."""
        if need not in self._arrays:
            found = []
            for shape in self.value(need).array:
                settled = settling.settle(shape, lambda _: False)
                if settled is not None:
                    found += [self.array(need, each) for each in self.kinds(settled)]
            self._arrays[need] = found
        return self._arrays[need]

    def kinds(self, shape: Arrays) -> list[Arrays]:
        """Return the shape for lists and for tuples, where the syntax has both."""
        if not self.style.tuples or shape.kind is not None:
            return [shape]
        return [replace(shape, kind=kind) for kind in ("list", "tuple")]

    def array(self, need: Need, shape: Arrays) -> Any:
        """Return the machine of a shape of arrays of one kind. Raises ``UnsupportedConstraint``."""
        if shape.unique is None or (shape.unique and self.are_apart(shape)):
            plain = TupleMachine if shape.kind == "tuple" else ArrayMachine
            return plain(self.below, replace(shape, unique=None), self.style)
        if shape.kind == "tuple":
            what = "uniqueItems of tuples is"
            raise UnsupportedConstraint(f"{what} not supported", path=f"{self.where(need)}/uniqueItems")
        size = len(shape.prefix) + 1 if shape.most is None else min(len(shape.prefix) + 1, shape.most)
        needs = [shape.at(n) for n in range(size)]
        if needs and not shape.contains and all(map(self.distinct.are_listed, needs)):
            listed = ListedArrayMachine if shape.unique else RepeatingArrayMachine
            return listed(self.below, shape, self.style, needs)
        if shape.unique and not self.style.tuples:
            self.distinct.are_compared = True
            self.distinct.are_needed |= shape.least > 1 or bool(shape.contains)
            return DistinctArrayMachine(self.below, shape, self.style)
        what = "uniqueItems" + " that must not hold" * (not shape.unique) + " of items that are not listed"
        what += " in Python syntax" * self.style.tuples
        raise UnsupportedConstraint(what, path=f"{self.where(need)}/uniqueItems")

    def are_apart(self, shape: Arrays) -> bool:
        """Return whether no two of a few positions have a value in common."""
        if shape.most is None or shape.most > MOST_APART:
            return False
        needs = [shape.at(i) for i in range(shape.most)]
        return all(self.is_empty(both(a, b)) for a, b in combinations(needs, 2))

    def listed_string(self, text: str) -> Machine:
        """Return the machine of the texts of one string."""
        first, *others = self.style.spellings
        shape = Strings(among=frozenset([text]))
        if not others:
            return TextMachine(first.around(text.encode())) if is_simple(text) else quoted(shape, first)
        parts = [in_quotes(strings.body(shape, spelling), spelling) for spelling in self.style.spellings]
        return DfaMachine(minimize(union(parts)))

    def number_machine(self, shape: Numbers) -> Machine:
        """Return the machine of a shape of numbers."""
        return number_machine(shape, self.notation)

    def objects(self, need: Need) -> ObjectMachine | None:
        """Return the machine of the objects of a need, ``None`` if it has none.
        The machine may have no text."""
        shapes = self.value(need).object
        if shapes and need not in self._objects:
            self._objects[need] = ObjectMachine(self, shapes)
        return self._objects.get(need)

    # ------------------------------------------------------------ short texts

    def is_empty(self, need: Need) -> bool:
        """Return whether no value satisfies a need."""
        return self.shortest(need) is None

    def shortest(self, need: Need) -> bytes | None:
        """Return a short text of a need, ``None`` if no value satisfies it."""
        if need in self._texts:
            return self._texts[need]
        draft: dict[Need, bytes | None] = {}
        open_needs: set[Need] = set()
        cyclic = False

        def look(other: Need) -> bytes | None:
            nonlocal cyclic
            if other in self._texts:
                return self._texts[other]
            if other not in draft:
                draft[other] = None
                open_needs.add(other)
                draft[other] = self.work_out(other, look)
                open_needs.discard(other)
            elif other in open_needs:
                cyclic = True
            return draft[other]

        look(need)
        changed = cyclic
        while changed:
            changed = False
            for other in list(draft):
                text, known = self.work_out(other, look), draft[other]
                if text is not None and (known is None or len(text) < len(known)):
                    draft[other] = text
                    changed = True
        self._texts.update(draft)
        return self._texts[need]

    def work_out(self, need: Need, look: Look) -> bytes | None:
        """Compute a short text of a need from those of the needs below it."""
        value = self.value(need)
        found: list[bytes | None] = [*self.words(value)]
        found += [self.shortest_number(shape) for shape in value.number]
        found += [shortest_string(shape, self.style.spellings[0]) for shape in value.string]
        if any(text is not None and len(text) < 3 for text in found):
            return min((text for text in found if text is not None), key=len)
        found += [machine.shortest(look) for machine in self.arrays(need)]
        if (objects := self.objects(need)) is not None:
            found.append(objects.shortest(look))
        return min((text for text in found if text is not None), key=len, default=None)

    def shortest_number(self, shape: Numbers) -> bytes | None:
        """Return a short text of a number, ``None`` if there is none."""
        if shape == Numbers():
            return b"0"
        candidates = [*range(10), *range(-1, -10, -1)]
        for bound, step in ((shape.low, 1), (shape.high, -1)):
            if bound is not None and bound.value.copy_abs() < 10**15:
                candidates += [math.floor(bound.value) + i * step for i in (0, 1, 2)]
        if shape.among is None:
            limits = (shape.low, shape.high, shape.integer, shape.multiples)
            digits = self.notation.digits
            for n in candidates:
                value = Decimal(n)
                if inside(value, *limits) and value not in shape.but and (not digits or abs(n) < 10**digits):
                    return str(n).encode()
        return number_automaton(shape, self.notation).shortest()


@metered(maxsize=1024)
def number_machine(shape: Numbers, notation: Notation) -> Machine:
    """Return the machine of the numbers of a shape."""
    return DfaMachine(number_automaton(shape, notation))
