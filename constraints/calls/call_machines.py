"""One call of any of the tools as a machine.

    {"name":  a name of the tools  , "arguments":  its machine  }        a name of the tools (  its machine

The sorted names are read together: a local state is the range of names that start with the bytes read so far. So the cost
does not grow with the number of tools, and the machine of a tool is built only when its name has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import groupby

from ..automata.dfa import minimize
from ..automata.machines import DfaMachine
from ..automata.nfa import concat, literal, plus, union
from ..automata.region import Local, Machine, Region
from ..json.lazy.blanks import with_blanks
from ..json.lazy.texts import quoted
from ..json.shapes import Strings
from ..json.text import Style
from .arguments import Called
from .python_syntax import NAMES, bare

HEAD, NAME, TAIL, ARGUMENTS, CLOSE, END = range(6)
FEW_TOOLS = 30
"""Most tools whose arguments a coarse machine reads each by their own schema."""
MANY_TOOLS = 200
"""Most tools whose machines an abstraction reads exactly at level 0."""
FEW_BYTES = 600
"""Most bytes of all names together for which a coarse machine still tells the names apart."""


class CallMachine(Region):
    """The machine of one call.

    ``keys``: the JSON names of the two members, unused in Python syntax. ``anything``: makes a tool with any arguments, for
    abstractions.
    """

    def __init__(
        self, tools: Sequence[Called], keys: tuple[bytes, bytes], style: Style, anything: Callable[[], Called]
    ) -> None:
        self.tools = sorted(tools, key=lambda tool: tool.name)
        self.names, self.keys, self.style, self.anything = [t.name for t in self.tools], keys, style, anything
        self.ends_with = style.braces[1]
        self.head: tuple[bytes, ...] = ()
        self.tail: tuple[bytes, ...] = ()
        self.end = b""
        if not style.opened:
            self.head = pieces(b"{", keys[0], style.colon, style=style)
            self.tail = pieces(style.comma, keys[1], style.colon, style=style)
            self.end = b"}"
        self._moves: dict[Local, Sequence[tuple[int, int, Local]]] = {}

    @property
    def shortest(self) -> bytes:
        """A short text of a call."""
        return self.completion(self.start())

    def start(self) -> Local:
        return (HEAD, 0, 0) if self.head else self.first_name()

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = self._moves.get(local)
        if found is None:
            found = self._moves[local] = self.work_out(local)
        return found

    def work_out(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        """Compute the transitions of a local state, which :meth:`moves` caches."""
        kind, *rest = local
        found: list[tuple[int, int, Local]] = []
        at_edge = kind in (ARGUMENTS, CLOSE) and bool(self.end)  # where white space may stand
        if kind == HEAD:
            piece, at = rest
            at_edge = piece > 0 and at == 0
            found.append(self.onward((HEAD,), self.head, piece, at, self.first_name()))
        elif kind == TAIL:
            tool, piece, at = rest
            at_edge = at == 0
            found.append(self.onward((TAIL, tool), self.tail, piece, at, (ARGUMENTS, tool)))
        elif kind == NAME:
            at_edge = rest[2] == 0 and bool(self.head)
            found += self.in_name(*rest)
        elif kind == CLOSE:
            found.append((125, 125, (END,)))
        return with_blanks(found, local) if at_edge and self.style.blank else found

    def onward(
        self, state: tuple[int, ...], pieces: Sequence[bytes], piece: int, at: int, then: Local
    ) -> tuple[int, int, Local]:
        """Return the transition on byte ``at`` of a piece; the last piece leads to ``then``."""
        byte = pieces[piece][at]
        piece, at = (piece, at + 1) if at + 1 < len(pieces[piece]) else (piece + 1, 0)
        return byte, byte, (*state, piece, at) if piece < len(pieces) else then

    def first_name(self) -> Local:
        """Return the local state before the name."""
        return (NAME, 0, len(self.names), 0)

    def in_name(self, low: int, high: int, at: int) -> Sequence[tuple[int, int, Local]]:
        """Return the transitions with names ``low`` to ``high`` - 1 possible and ``at`` bytes read."""
        found: list[tuple[int, int, Local]] = []
        for byte, group in groupby(self.names[low:high], key=lambda name: name[at]):
            end = low + sum(1 for _ in group)
            whole = len(self.names[low]) == at + 1  # no name begins another: each ends in a quote or bracket
            found.append((byte, byte, self.named(low) if whole else (NAME, low, end, at + 1)))
            low = end
        return found

    def named(self, tool: int) -> Local:
        """Return the local state after the name of a tool."""
        return (TAIL, self.kind(tool), 0, 0) if self.tail else (ARGUMENTS, self.kind(tool))

    def kind(self, tool: int) -> int:
        """Return the part of a tool's index that the local state stores (a coarse machine stores none)."""
        return tool

    def called(self, kind: int) -> Called:
        """Return the tool whose arguments may follow, by the index stored in the local state."""
        return self.tools[kind]

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local[0] != ARGUMENTS:
            return ()
        return ((self.called(local[1]).machine, (CLOSE,) if self.end else (END,)),)

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    def completion(self, local: Local) -> bytes:
        kind, *rest = local
        if kind == END:
            return b""
        if kind == CLOSE:
            return self.end
        if kind == ARGUMENTS:
            return self.called(rest[0]).shortest + self.end
        if kind == TAIL:
            tool, piece, at = rest
            return b"".join(self.tail[piece:])[at:] + self.completion((ARGUMENTS, tool))
        if kind == NAME:
            low, high, at = rest
            best = self.best(low, high)
            return self.names[best][at:] + self.completion(self.named(best))
        piece, at = rest
        return b"".join(self.head[piece:])[at:] + self.completion(self.first_name())

    def best(self, low: int, high: int) -> int:
        """Return the tool with the shortest call among ``low`` to ``high`` - 1."""
        return min(
            range(low, high), key=lambda i: len(self.names[i]) + len(self.called(self.kind(i)).shortest)
        )

    def essential(self) -> Machine:
        return self._essential

    @cached_property
    def _essential(self) -> Machine:
        return ShortestCall(self)

    def coarse(self, level: int) -> Machine:
        """Return a coarser machine if there are many tools; at level 0 only beyond :data:`MANY_TOOLS`.

        An exact abstraction of so many tools would be too large, and building all their machines takes long.
        """
        few = FEW_TOOLS if level else MANY_TOOLS
        return self if len(self.tools) <= few else self._coarse

    @cached_property
    def _coarse(self) -> Machine:
        if sum(map(len, self.names)) <= FEW_BYTES:
            return CallOfAnything(self)
        return CallOfAnyName(self)


def pieces(*parts: bytes, style: Style) -> tuple[bytes, ...]:
    """Return the parts between which white space may stand, or all of them joined if none may."""
    return parts if style.blank else (b"".join(parts),)


class ShortestCall(CallMachine):
    """Of the tools still possible, only the one with the shortest call, for upper bounds."""

    def __init__(self, whole: CallMachine) -> None:
        self.__dict__.update(whole.__dict__)
        self._moves = {}

    def in_name(self, low: int, high: int, at: int) -> Sequence[tuple[int, int, Local]]:
        byte = self.names[self.best(low, high)][at]
        return [move for move in super().in_name(low, high, at) if move[0] == byte]


class CallOfAnything(CallMachine):
    """The names of the tools, each with any arguments."""

    def __init__(self, exact: CallMachine) -> None:
        super().__init__(exact.tools, exact.keys, exact.style, exact.anything)

    def essential(self) -> Machine:
        return self

    def kind(self, tool: int) -> int:
        return 0

    def called(self, kind: int) -> Called:
        return self._anything

    @cached_property
    def _anything(self) -> Called:
        return self.anything()

    def coarse(self, level: int) -> Machine:
        return self


class CallOfAnyName(CallOfAnything):
    """Any name with any arguments."""

    def in_name(self, low: int, high: int, at: int) -> Sequence[tuple[int, int, Local]]:
        return ()

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local[0] != NAME:
            return super().calls(local)
        if self.tail:
            return ((quoted(Strings(), self.style.spellings[0]), (TAIL, 0, 0, 0)),)
        return ((self._any_name, (ARGUMENTS, 0)),)

    @cached_property
    def _any_name(self) -> Machine:
        """The machine of a name that may contain dots, and the bracket after it."""
        name = plus(union([bare(NAMES), literal(b".")]))
        return DfaMachine(minimize(concat([name, literal(self.style.braces[0])])))
