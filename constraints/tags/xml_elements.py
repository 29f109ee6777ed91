"""Machines of XML elements in a row: the members of an object, and the items of an array.

A state of the members is the set of those that have been passed, and their number, which matters only under ``minProperties`` and
``maxProperties``. In declared order a member passes all before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

from ..automata import nfa
from ..automata.machines import Caller, Choice, Concatenation, Repetition
from ..automata.nfa import Nfa
from ..automata.region import Local, Machine
from ..json import objects as members_of
from ..json.shapes import NEVER, Arrays, Objects
from ..regex.constraint import regex
from .around import glued

if TYPE_CHECKING:
    from .xml_machines import Look, XmlMachines


MOST_ORDERED = 8
"""The most members whose every order a finite automaton has."""


class Elements(Caller, ABC):
    """Elements in a row, by number, and the white space after the last, after which the local state is ``None``."""

    def __init__(self, xml: XmlMachines) -> None:
        self.xml = xml
        self.after_all = glued(regex(xml.style.after).nfa)
        self._machines: dict[int, Machine] = {}

    @abstractmethod
    def look(self, look: Look) -> list[bytes | None]:
        """Return the short texts of the elements from those of needs."""

    @abstractmethod
    def element(self, which: int) -> Machine:
        """Return the machine of an element."""

    @abstractmethod
    def open(self, local: Local, texts: Sequence[bytes | None]) -> Iterator[tuple[int, Local]]:
        """Yield the elements that may come next, each with the local state after it."""

    @abstractmethod
    def wanted(self, which: int, local: Local) -> bool:
        """Return whether an element belongs to a short text."""

    @abstractmethod
    def done(self, local: Local) -> bool:
        """Return whether there need not be another element."""

    def final(self, local: Local) -> bool:
        return local is None or self.done(local)

    @cached_property
    def texts(self) -> list[bytes | None]:
        """A short text of each element."""
        return self.look(self.xml.texts)

    def shortest(self, look: Look) -> bytes | None:
        """Return a short text of all elements, ``None`` if there is none."""
        return self.rest(self.start(), self.look(look))

    def rest(self, local: Local, texts: Sequence[bytes | None]) -> bytes | None:
        """Return a short text from a local state to the end."""
        parts = []
        while not self.final(local):
            for which, after in self.open(local, texts):
                if self.wanted(which, local):
                    parts.append(texts[which] or b"")
                    local = after
                    break
            else:
                return None
        return b"".join(parts)

    def completion(self, local: Local) -> bytes:
        found = self.rest(local, self.texts)
        assert found is not None
        return found

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local is None:
            return ()
        found = [(self.machine(which), after) for which, after in self.open(local, self.texts)]
        if self.done(local) and (self.xml.style.blank or local != self.start()):
            found.append((self.after_all, None))
        return found

    def machine(self, which: int) -> Machine:
        """Return the machine of an element, made once."""
        if which not in self._machines:
            self._machines[which] = self.element(which)
        return self._machines[which]

    @cached_property
    def in_any_number(self) -> Machine:
        """The machine of these elements in any order and number."""
        live = [self.machine(which) for which, text in enumerate(self.texts) if text is not None]
        return Concatenation([Repetition(Choice(live), 0, None), self.after_all]) if live else self


class Members(Elements):
    """The members of the objects of a shape: those with a name, then the others. The local state: (those passed, count)."""

    def __init__(self, xml: XmlMachines, shape: Objects, names: Sequence[str]) -> None:
        super().__init__(xml)
        order = members_of.orders(list(names), shape)[0]
        namer = xml.machines.names
        found = [(names[i], members_of.need_of(shape, names[i], namer)) for i in order]
        self.named = [(name, need) for name, need in found if name in shape.required or need != NEVER]
        self.others = xml.undeclared(shape, names)
        self.least, self.most, self.any_order = shape.least, shape.most, xml.any_order
        self.required = sum(1 << i for i, (name, _) in enumerate(self.named) if name in shape.required)
        self.every = (1 << len(self.named)) - 1

    def start(self) -> Local:
        return (0, 0)

    def done(self, local: Local) -> bool:
        seen, count = local
        return not self.required & ~int(seen) and int(count) >= self.least

    def after(self, local: Local, which: int) -> Local:
        """Return the local state after a member."""
        seen, count = local
        if which >= len(self.named):
            seen = seen if self.any_order else self.every
        else:
            seen |= 1 << which if self.any_order else (2 << which) - 1
        return seen, min(count + 1, self.least) if self.most is None else count + 1

    def open(self, local: Local, texts: Sequence[bytes | None]) -> Iterator[tuple[int, Local]]:
        waiting = self.required & ~local[0]
        for which, text in enumerate(texts):
            bit = 1 << which if which < len(self.named) else 0
            if text is None or bit & local[0]:
                continue
            if waiting and not self.any_order and (not bit or waiting & bit - 1):
                return
            after = self.after(local, which)
            if self.reaches(after, texts):
                yield which, after

    def reaches(self, local: Local, texts: Sequence[bytes | None]) -> bool:
        """Return whether as many members may follow as must, and no more than may."""
        seen, count = local
        if self.most is not None and count + (self.required & ~seen).bit_count() > self.most:
            return False
        if count >= self.least or any(text is not None for text in texts[len(self.named) :]):
            return True
        left = sum(text is not None and not seen >> i & 1 for i, text in enumerate(texts[: len(self.named)]))
        return bool(count + left >= self.least)

    def wanted(self, which: int, local: Local) -> bool:
        seen, count = local
        waiting = self.required & ~int(seen)
        return bool(waiting >> which & 1 or count + waiting.bit_count() < self.least)

    def look(self, look: Look) -> list[bytes | None]:
        shorts = [nfa_text(names) for names, _ in self.others]
        named = [self.xml.escaped(name).encode() for name, _ in self.named]
        needs = [need for _, need in (*self.named, *self.others)]
        return [
            None if need == NEVER else self.xml.short(need, self.begin(name), self.end(name), look)
            for name, need in zip([*named, *shorts], needs, strict=True)
        ]

    def begin(self, name: bytes) -> Callable[[str], bytes]:
        """Return the begin of a member with this name, by the type that is written; without white space."""
        text = self.xml.style.begin.replace("{between}", "").encode()
        return lambda kind: text.replace(b"{type}", kind.encode()).replace(b"{name}", name)

    def end(self, name: bytes) -> bytes:
        """Return the end of a member."""
        return self.xml.style.end.encode().replace(b"{name}", name)

    def element(self, which: int) -> Machine:
        style = self.xml.style
        if which < len(self.named):
            name, need = self.named[which]
            written = self.xml.escaped(name).encode()
            names = nfa.literal(written)
        else:
            names, need = self.others[which - len(self.named)]
            written = b""

        def begin(kind: str) -> Nfa:
            between = regex(style.between).nfa
            parts = [between]
            for i, text in enumerate(style.begin.replace("{type}", kind).split("{between}")):
                before, found, behind = text.partition("{name}")
                parts += [between] * (i > 0) + [nfa.literal(before.encode())]
                parts += [names, nfa.literal(behind.encode())] if found else []
            return nfa.concat(parts)

        return self.xml.element(need, begin, self.end(written))

    def coarse(self, level: int) -> Machine:
        """Return the members in any order and number, where their order or number is remembered."""
        remembers = self.any_order or self.least or self.most is not None
        return self.in_any_number if level and remembers else self

    @property
    def is_many(self) -> bool:
        """Whether there are too many orders for a finite automaton."""
        return self.any_order and len(self.named) > MOST_ORDERED

    def bounded(self, bounds: object) -> Machine:
        """Return the members in declared order, if there are too many orders."""
        return self._ordered if self.is_many else self

    @cached_property
    def _ordered(self) -> Machine:
        found = copy(self)
        found.any_order = False
        return found


class Items(Elements):
    """The items of an array, by position. The local state is the number of items, as far as it matters."""

    def __init__(self, xml: XmlMachines, shape: Arrays) -> None:
        super().__init__(xml)
        self.shape = shape
        self.needs = [*shape.prefix, shape.rest]

    def start(self) -> Local:
        return 0

    def done(self, local: Local) -> bool:
        return bool(local >= self.shape.least)

    def open(self, local: Local, texts: Sequence[bytes | None]) -> Iterator[tuple[int, Local]]:
        which = min(local, len(self.needs) - 1)
        if texts[which] is not None and (self.shape.most is None or local < self.shape.most):
            kept = max(self.shape.least, len(self.needs) - 1, not self.xml.style.blank)
            yield which, min(local + 1, kept) if self.shape.most is None else local + 1

    def wanted(self, which: int, local: Local) -> bool:
        return True

    def look(self, look: Look) -> list[bytes | None]:
        style = self.xml.style
        item, end = (style.item or "").encode(), style.item_end.encode()

        def begin(kind: str) -> bytes:
            return item.replace(b"{type}", kind.encode())

        return [None if need == NEVER else self.xml.short(need, begin, end, look) for need in self.needs]

    def element(self, which: int) -> Machine:
        style = self.xml.style

        def begin(kind: str) -> Nfa:
            item = (style.item or "").replace("{type}", kind)
            return nfa.concat([regex(style.between_items).nfa, nfa.literal(item.encode())])

        return self.xml.element(self.needs[which], begin, style.item_end.encode())

    def coarse(self, level: int) -> Machine:
        """Return the items in any order and number, where their number is remembered."""
        remembers = self.shape.most is not None or self.shape.least or self.shape.prefix
        return self.in_any_number if level and remembers else self


def nfa_text(names: Nfa) -> bytes:
    """Return a short text of an automaton that has one."""
    return names.shortest() or b""
