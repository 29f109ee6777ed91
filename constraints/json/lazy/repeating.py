"""Arrays of listed items that are not distinct: the registers hold the values used, and whether one has come twice."""

from __future__ import annotations

from functools import cached_property

from ...automata.region import Machine
from ...limits import Bounds
from .listed import ListedArrayMachine


class RepeatingArrayMachine(ListedArrayMachine):
    """The texts of the arrays of one shape whose items are listed and not distinct.
    The bit above all values says that a value has come twice."""

    @cached_property
    def repeated(self) -> int:
        """The bit for a value that has come twice."""
        return 1 << len(self.values.texts)

    def may_end(self, n: int, used: int) -> bool:
        return n >= self.shape.least and used >= self.repeated

    def taken(self, used: int, i: int) -> int:
        return used | 1 << i | (self.repeated if used >> i & 1 else 0)

    def after(self, n: int) -> int:
        steady = max(self.shape.least, len(self.allowed) - 1)
        return n + 1 if self.shape.most is not None else min(n + 1, steady)

    def bounded(self, bounds: Bounds) -> Machine:
        return self

    def good(self, n: int, used: int) -> int:
        key = (n, used)
        if key not in self._good:
            options = (i for i in range(len(self.values.texts)) if self.at(n) >> i & 1)
            after = self.after(n)
            self._good[key] = sum(
                1 << i for i in options if self.to_end(after, self.taken(used, i)) is not None
            )
        return self._good[key]

    def to_end(self, n: int, used: int) -> list[int] | None:
        key = (n, used)
        if key not in self._after:
            self._after[key] = self.ending(n, used)
        return self._after[key]

    def ending(self, n: int, used: int) -> list[int] | None:
        """Return the values of a shortest end.
        An earlier value comes again at the first position that allows it."""
        chosen: dict[int, int] = {}
        end, last = max(n, self.shape.least), max(n, len(self.allowed)) + 1
        if used < self.repeated:
            before, again = used, 0
            for q in range(n, last + 1):
                if again := self.at(q) & before:
                    break
                before |= self.at(q)
            if not again:
                return None
            value = (again & -again).bit_length() - 1
            first = [] if used >> value & 1 else [p for p in range(n, q) if self.at(p) >> value & 1]
            chosen, end = dict.fromkeys((*first[:1], q), value), max(end, q + 1)
        options = [self.at(p) for p in range(n, end)]
        if not all(options):
            return None
        return [chosen.get(n + k, (some & -some).bit_length() - 1) for k, some in enumerate(options)]
