"""Machines of lists of calls, ``[ call , call … ]``. The register is the number of calls so far."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..automata.nfa import check_limit
from ..automata.region import Local, Machine, Region
from ..json.lazy.blanks import with_blanks
from ..json.text import Style
from .arguments import Arguments, Called
from .call_machines import CallMachine
from .tools import json_text

BEGIN, OPEN, NEXT, COMMA, ITEM, CLOSED = range(6)


class CallsMachine(Region):
    """Lists of ``low`` to ``high`` calls (``high=None``: any number).

    Raises ``TooManyStates`` if even the shortest list exceeds the limit of a text's length.
    """

    ends_with = b"]"

    def __init__(self, call: CallMachine | None, low: int, high: int | None, style: Style) -> None:
        self.low, self.high, self.style = low, high, style
        self.call = call
        self.least = b"" if call is None else call.shortest
        check_limit(low * len(self.least))

    def start(self) -> Local:
        return (BEGIN, 0)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, count, *at = local
        found: list[tuple[int, int, Local]] = []
        if kind == BEGIN:
            return [(91, 91, (OPEN, 0))]
        if kind == COMMA:
            return [self.in_comma(count, at[0])]
        if kind == NEXT and self.more(count):
            found.append(self.in_comma(count, 0))
        if kind in (OPEN, NEXT) and count >= self.low:
            found.append((93, 93, (CLOSED, 0)))
        return with_blanks(found, local) if self.style.blank and kind != CLOSED else found

    def in_comma(self, count: int, at: int) -> tuple[int, int, Local]:
        """Return the transition on byte ``at`` of the separator between calls."""
        comma = self.style.comma
        after = (COMMA, count, at + 1) if at + 1 < len(comma) else (ITEM, count)
        return comma[at], comma[at], after

    def more(self, count: int) -> bool:
        """Return whether another call may follow."""
        return self.call is not None and (self.high is None or count < self.high)

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        kind, count = local[:2]
        if self.call is None or kind not in (OPEN, ITEM) or not self.more(count):
            return ()
        after = count + 1 if self.high is not None else min(count + 1, self.low)
        return ((self.call, (NEXT, after)),)

    def final(self, local: Local) -> bool:
        return bool(local[0] == CLOSED)

    def completion(self, local: Local) -> bytes:
        kind, count, *at = local
        comma = self.style.comma
        left = max(0, self.low - int(count))
        if kind == CLOSED:
            return b""
        if kind in (BEGIN, OPEN):
            return b"[" * bool(kind == BEGIN) + comma.join([self.least] * left) + b"]"
        if kind == NEXT:
            return (comma + self.least) * left + b"]"
        begin = comma[at[0] :] if kind == COMMA else b""
        return begin + comma.join([self.least] * max(left, 1)) + b"]"

    def view(self, local: Local, reach: int) -> Local:
        kind, count, *at = local
        if self.high is None or count < self.low or kind in (BEGIN, CLOSED):
            return local
        return (kind, "left", min(self.high - count, reach), *at)

    def essential(self) -> Machine:
        return self._essential

    @cached_property
    def _essential(self) -> Machine:
        return FewestCalls(self)

    def coarse(self, level: int) -> Machine:
        return self._coarse if level else self

    @cached_property
    def _coarse(self) -> Machine:
        high = 0 if self.call is None or self.high == 0 else None
        return CallsMachine(self.call, min(self.low, 1), high, self.style)


class FewestCalls(CallsMachine):
    """The lists that end after the fewest calls, for upper bounds of distances."""

    def __init__(self, whole: CallsMachine) -> None:
        self.__dict__.update(whole.__dict__)

    def more(self, count: int) -> bool:
        return count < self.low and super().more(count)

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local[0] == ITEM and not self.more(local[1]):  # behind a comma one call comes
            return (
                ((self.call, (NEXT, local[1] + 1 if self.high is not None else self.low)),)
                if self.call
                else ()
            )
        return super().calls(local)


def calls_machine(
    tools: Sequence[Called], arguments: Arguments, number: tuple[int, int | None], keys: tuple[str, str]
) -> Machine | None:
    """Return the machine of one call (``number`` < 0) or of a list of calls; None if there is no text."""
    low, high = number
    named = json_text(keys[0]), json_text(keys[1])
    call = CallMachine(tools, named, arguments.style, arguments.anything) if tools else None
    if low < 0:
        return call
    if call is None and low:
        return None
    return CallsMachine(call, low, high, arguments.style)
