"""Machines: each reads one region of a text, such as a string, an object, or a grammar rule.

A machine's *local* state is hashable and holds its registers. :mod:`.stack` makes machines that call one another one lazy
automaton.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from .graphs import Graph, explored
from .lazy import Letters, Pattern

Local = Any
"""A local state: any hashable value."""


class LocalBody(NamedTuple):
    """Free text at a local state: the fields of :class:`~.lazy.Body` without ``after``.

    The local state after ``k`` letters is :meth:`Machine.after_letters`; it stays the same from ``settled`` letters on.
    """

    letters: Letters
    most: int | None
    exceptions: bytes = b""
    settled: int | None = 1
    within: bool = False
    leaves: bytes | None = None


class ToCome(NamedTuple):
    """Texts that must all still be read, in any order, without overlap.

    Each text is a pair of machines: one if another text follows, and one if it is the last. ``begins_after`` of a machine is
    the set of bytes that may stand before the text. None of ``whole`` has been begun; of ``may_be_begun`` at most one.
    """

    whole: Sequence[tuple[Machine, Machine]]
    may_be_begun: Sequence[tuple[Machine, Machine]]


class Machine(Protocol):
    """A region of a text. Trimmed: from each local state some text leads to a final one.

    ``ends_with``: the bytes that its texts may end with, ``None`` if unknown. ``begins_after``: the bytes that may stand before
    its texts, for the machines in :meth:`to_come`. ``compares``: whether it allows only some of the texts that it reads,
    depending on what it calls: then it is a :class:`~.comparing_stack.Comparing` machine. ``unindented``: the machine of the
    same values with any white space, if its texts are indented by their depth.
    """

    @property
    def ends_with(self) -> bytes | None:
        """See the class."""

    begins_after: bytes
    compares: bool
    unindented: Machine | None

    def start(self) -> Local:
        """Return the local state at the beginning."""

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        """Return (low, high, local state after): disjoint ranges in the order of the bytes."""

    def first_bytes(self, local: Local) -> Sequence[tuple[int, int]]:
        """Return ranges of bytes that contain those of :meth:`moves`, and perhaps others."""

    def step(self, local: Local, byte: int) -> Local | None:
        """Return the local state after one byte, ``None`` if it may not come."""

    def reads(self, local: Local) -> bool:
        """Return whether there are any moves."""

    def pattern(self, local: Local) -> Pattern | None:
        """Return the pattern that a local state is in, if any; its ``to`` gives local states.
        See :class:`~.lazy.Pattern`."""

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        """Return bytes that are each the only one possible, and the local state after them.

        ``None`` if none are known. The machine can neither end nor call before the last of them.
        """

    def words(self, local: Local) -> Sequence[tuple[bytes, int]] | None:
        """Return non-empty texts of which one must come, numbered for :meth:`after_word`.

        ``None`` if unknown. The machine can neither end nor call before the last byte of one.
        """

    def after_word(self, local: Local, which: int) -> Local | None:
        """Return the local state after a text of :meth:`words`, ``None`` if that may not come."""

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        """Return the machines that may be called here, each with the local state after the call."""

    def final(self, local: Local) -> bool:
        """Return whether the region may end here."""

    def completion(self, local: Local) -> bytes:
        """Return a short text from here to a final state."""

    def completion_size(self, local: Local) -> int:
        """Return the length of :meth:`completion` in bytes."""

    def essential(self) -> Machine:
        """Return a machine with the same local states and some of the texts, short ones among them.

        Upper bounds of distances are found in it. From a local state that it cannot leave there is no bound.
        """

    def divided(self) -> Machine:
        """Return a machine of the same texts and local states that calls a machine of its own for each part that recurs.

        Distances are found once for such a part, not at every place where it stands.
        """

    def forgetting(self, repeats: bool) -> Machine:
        """Return :meth:`divided` without registers for names, each of which would make a state.

        With ``repeats`` the names that it forgets may come again: it reads at least the same texts. Without, their first
        bytes must differ: it reads at most the same texts. ``forgets`` of the result is whether it may differ.
        """

    def wider(self, local: Local) -> Local | None:
        """Return a local state that accepts all texts of this one, and more; ``None`` if unknown."""

    def counter(self, local: Local) -> tuple[Hashable, int] | None:
        """Return (rest of a local state, value of its counter), where a lower value accepts all texts of a higher one."""

    def to_come(self, local: Local) -> Sequence[ToCome]:
        """Return the texts that must still be read, for each parse of the text so far. Lower bounds of distances use them."""

    def body(self, local: Local) -> LocalBody | None:
        """Return the free text that a local state is in, if any; see :class:`~.lazy.Body`."""

    def after_letters(self, local: Local, count: int) -> Local:
        """Return the local state after ``count`` letters, where :meth:`body` is not ``None``."""

    def forgetful(self, local: Local) -> Local:
        """Return a local state with fewer registers that the same tokens may follow.

        Only tokens that hold two names may be told apart wrongly.
        """

    def view(self, local: Local, reach: int) -> Hashable:
        """Return a key: equal ones differ only in what is more than ``reach`` bytes away."""

    def short(self, local: Local, prefixes: Any, reach: int) -> Hashable:
        """Return a key that determines all moves from the local states that :meth:`covers` names.

        ``prefixes``: the trie of the tokens that are read. ``reach``: the bytes of the longest. See :mod:`~.sharing`.
        """

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Hashable | None:
        """Return a key as :meth:`short` does, but comparable across machines and automata.

        Machines with equal keys accept the same bytes, and each leads to local states with equal keys again. ``None``: no other
        machine is known to behave alike.
        """

    def alike(self, local: Local, prefixes: Any) -> Local:
        """Return a local state with the same key from which walks down a trie are shorter."""

    @property
    def forgets(self) -> bool:
        """Whether :meth:`forgetting` gave this machine and its texts may differ."""

    @property
    def covers_all(self) -> bool:
        """Whether :meth:`covers` always holds."""

    def covers(self, origin: Local, local: Local) -> bool:
        """Return whether the key of ``origin`` also determines how a later local state behaves.

        That is, its moves, calls and ends. ``local`` is a tuple of the first entry of the later state alone.
        """

    @property
    def longest(self) -> int | None:
        """An upper bound, in bytes, on the way from any reached local state to an end.
        ``None`` if unknown."""

    def coarse(self, level: int) -> Machine:
        """Return a machine of at least the same texts with fewer local states, for abstractions.

        Level 0 is the machine itself, level 1 forgets all counters, level 2 all registers.
        """

    def bounded(self, bounds: Any) -> Machine:
        """Return a machine of at most the same texts with fewer local states, for finite automata.

        It is the same object each time. ``bounds`` are those of the constraint that the machine is made for.
        """

    def graph(self, most: int) -> Graph:
        """Return the graph of all local states. Raises ``TooManyStates`` beyond ``most``."""


class Region:
    """The base class of machines, with defaults: no calls, no free text, no register to forget."""

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

    def counter(self, local: Local) -> tuple[Hashable, int] | None:
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
