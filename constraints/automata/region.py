"""Machines: each reads one region of a text, such as a string, an object, or a rule of a grammar.

A machine's *local* state is hashable and holds its registers. :mod:`.stack` makes machines that call one another one lazy
automaton.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from .graphs import Graph, explored
from .lazy import Letters, Pattern

Local = Any
"""Hashable."""


class LocalBody(NamedTuple):
    """What a local state in free text says of the letters that may follow: see :class:`~.lazy.Body`.

    The local state after ``k`` letters is :meth:`Machine.after_letters`; it stays the same from ``settled`` letters on.
    """

    letters: Letters
    most: int | None
    exceptions: bytes = b""
    settled: int | None = 1
    within: bool = False


class ToCome(NamedTuple):
    """Texts that must still be read, one apart from the other, in any order. Each is a pair of machines: of the text as it is
    followed by another one, and as it is the last; both have ``begins_after``, the bytes that may stand before it. One of
    ``may_be_begun`` may have been read in part."""

    whole: Sequence[tuple[Machine, Machine]]
    may_be_begun: Sequence[tuple[Machine, Machine]]


class Machine(Protocol):
    """A region of a text. Trimmed: from each local state some text leads to a final one.

    ``ends_with``: the bytes that its texts may end with, ``None`` where that is not known. ``begins_after``: the bytes that may
    stand before its texts, where it is one of those that :meth:`to_come` names. ``compares``: whether it allows only some of the
    texts that it reads, by what it calls: it is a :class:`~.recording.Comparing` machine. ``unindented``: the machine of the same
    values with any white space, where the texts have an indent by their depth.
    """

    @property
    def ends_with(self) -> bytes | None:
        """See the class."""

    begins_after: bytes
    compares: bool
    unindented: Machine | None

    def start(self) -> Local:
        """The local state at the beginning."""

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        """(low, high, local state after such a byte): disjoint ranges in the order of the bytes."""

    def first_bytes(self, local: Local) -> Sequence[tuple[int, int]]:
        """The bytes that :meth:`moves` has, and perhaps others, as ranges."""

    def step(self, local: Local, byte: int) -> Local | None:
        """The local state after one byte, ``None`` if it may not come."""

    def reads(self, local: Local) -> bool:
        """Whether there are any moves."""

    def pattern(self, local: Local) -> Pattern | None:
        """The pattern that a local state is in; its ``to`` gives local states. See :class:`~.lazy.Pattern`."""

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        """Bytes of which each is the only one that may come, with no way to end or call before the last of them, and the local
        state after them; ``None`` where there are none, or it is not known."""

    def words(self, local: Local) -> Sequence[tuple[bytes, int]] | None:
        """Texts of which one must come, none of them empty, with no way to end or call before the last byte: each with a number
        for :meth:`after_word`. ``None`` where that is not known."""

    def after_word(self, local: Local, which: int) -> Local | None:
        """The local state after one of :meth:`words`, ``None`` if it may not come after all."""

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        """The machines that may begin here, each with the local state after it."""

    def final(self, local: Local) -> bool:
        """Whether the region may end here."""

    def completion(self, local: Local) -> bytes:
        """A short text from here to a final state."""

    def completion_size(self, local: Local) -> int:
        """The bytes of :meth:`completion`."""

    def essential(self) -> Machine:
        """A machine of some of its texts, short ones among them, with the same local states: upper bounds of distances are
        found in it. From a local state that it cannot leave there is no bound."""

    def divided(self) -> Machine:
        """An equal machine with the same local states that calls parts of its text which recur: distances are found in it."""

    def forgetting(self, repeats: bool) -> Machine:
        """As :meth:`divided`, but it does not remember the names that it reads, which would make a state of each.

        With ``repeats`` the names that it forgets may come again: it reads at least the same texts. Without, their first
        bytes must differ: it reads at most the same texts. The machine ``forgets`` if it may differ."""

    def wider(self, local: Local) -> Local | None:
        """A local state from which all texts are accepted that are from this one, and more; ``None`` if none is known."""

    def to_come(self, local: Local) -> Sequence[ToCome]:
        """Texts that must still be read, for each way to read what precedes: lower bounds of distances."""

    def body(self, local: Local) -> LocalBody | None:
        """The free text that a local state is in; see :class:`~.lazy.Body`."""

    def after_letters(self, local: Local, count: int) -> Local:
        """The local state after so many letters, where :meth:`body` is not ``None``."""

    def forgetful(self, local: Local) -> Local:
        """A local state from which the same tokens may come, but for those that hold two names, with fewer registers."""

    def view(self, local: Local, reach: int) -> Hashable:
        """A key: local states with equal keys differ only in what is more than ``reach`` bytes away."""

    def short(self, local: Local, prefixes: Any, reach: int) -> Hashable:
        """A key of a local state: see :mod:`~.sharing`. It determines all moves from the local states that it covers.
        ``prefixes``: the beginnings of the tokens that are read."""

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Hashable | None:
        """The same for machines of all automata: local states of two machines with equal keys read the same, and lead to such
        again. ``None``: no other machine reads the same."""

    def alike(self, local: Local, prefixes: Any) -> Local:
        """A local state with the same key from which walks are shorter."""

    @property
    def forgets(self) -> bool:
        """Whether it is one that :meth:`forgetting` gives and may differ."""

    @property
    def covers_all(self) -> bool:
        """Whether :meth:`covers` always holds."""

    def covers(self, origin: Local, local: Local) -> bool:
        """Whether the key of one local state determines the moves, calls and ends of those others that follow it and have this
        first entry: ``local`` is a tuple of it alone."""

    @property
    def longest(self) -> int | None:
        """The most bytes from any local state that is reached to a final one, by the shortest way, or somewhat more than
        that; ``None`` where that is not known."""

    def coarse(self, level: int) -> Machine:
        """A machine that reads at least the same texts with fewer local states, for abstractions. Level 0 is the machine
        itself, level 1 forgets all counters, level 2 all registers."""

    def bounded(self, bounds: Any) -> Machine:
        """A machine that reads at most the same texts with fewer local states, for finite automata: the same one each time.
        ``bounds`` are those of the constraint that the machine is made for."""

    def graph(self, most: int) -> Graph:
        """All local states. Raises ``TooManyStates`` beyond ``most``."""


class Region:
    """The base of machines, with the defaults of most: no calls of other machines, no free text, no register forgotten."""

    ends_with: bytes | None = None
    begins_after: bytes = b""
    compares: bool = False
    forgets: bool = False
    longest: int | None = None
    unindented: Machine | None = None
    covers_all: bool = True

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        raise NotImplementedError(f"{type(self).__name__} has no moves: a machine must define them")

    def first_bytes(self, local: Local) -> Sequence[tuple[int, int]]:
        return [(low, high) for low, high, _ in self.moves(local)]

    def step(self, local: Local, byte: int) -> Local | None:
        for low, high, after in self.moves(local):
            if low <= byte <= high:
                return after
        return None

    def reads(self, local: Local) -> bool:
        return bool(self.moves(local))

    def pattern(self, local: Local) -> Pattern | None:
        return None

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        return None

    def words(self, local: Local) -> Sequence[tuple[bytes, int]] | None:
        return None

    def after_word(self, local: Local, which: int) -> Local | None:
        raise NotImplementedError(f"{type(self).__name__} has no words")

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return ()

    def completion_size(self, local: Local) -> int:
        return len(self.completion(local))

    def completion(self, local: Local) -> bytes:
        raise NotImplementedError(f"{type(self).__name__} has no completion: a machine must define one")

    def essential(self) -> Any:
        return self

    def divided(self) -> Any:
        return self

    def forgetting(self, repeats: bool) -> Any:
        return self.divided()

    def wider(self, local: Local) -> Local | None:
        return None

    def to_come(self, local: Local) -> Sequence[ToCome]:
        return ()

    def body(self, local: Local) -> LocalBody | None:
        return None

    def after_letters(self, local: Local, count: int) -> Local:
        raise NotImplementedError("a region without free text has no letters")

    def forgetful(self, local: Local) -> Local:
        return local

    def view(self, local: Local, reach: int) -> Any:
        return local

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        return self.view(local, reach)

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        return None

    def alike(self, local: Local, prefixes: Any) -> Local:
        return local

    def covers(self, origin: Local, local: Local) -> bool:
        return True

    def coarse(self, level: int) -> Any:
        return self

    def bounded(self, bounds: Any) -> Any:
        return self

    def graph(self, most: int) -> Graph:
        return explored(self, most)  # type: ignore[arg-type]
