"""A machine between texts of two automata: a value between the begin and the end of its element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..automata import dfa, nfa
from ..automata.machines import DfaMachine
from ..automata.nfa import Nfa
from ..automata.region import Local, Machine, Region


class Around(Region):
    """A machine with a text of one automaton before it, and one of another after it.

    The local state: (0, state of the first), (1, state of the second).
    """

    def __init__(self, before: Nfa, inner: Machine, after: Nfa) -> None:
        self.parts = DfaMachine(dfa.minimize(before)), DfaMachine(dfa.minimize(after))
        self.inner = inner

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
        """See ``Machine.longest``."""
        return sum(part.longest for part in self.parts) + len(self.inner.completion(self.inner.start()))

    def start(self) -> Local:
        return 0, self.parts[0].start()

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        which, state = local
        return [(low, high, (which, after)) for low, high, after in self.parts[which].moves(state)]

    def forced(self, local: Local) -> tuple[bytes, Local] | None:
        which, state = local
        found = self.parts[which].forced(state)
        return None if found is None else (found[0], (which, found[1]))

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        which, state = local
        return () if which or not self.parts[0].final(state) else ((self.inner, (1, self.parts[1].start())),)

    def final(self, local: Local) -> bool:
        which, state = local
        return bool(which) and self.parts[1].final(state)

    def completion(self, local: Local) -> bytes:
        which, state = local
        text = self.parts[which].completion(state)
        if which:
            return text
        end = self.parts[1]
        return text + self.inner.completion(self.inner.start()) + end.completion(end.start())


def glued(*parts: Machine | Nfa) -> Machine:
    """Return the machine of some parts in a row, of which one at most is no automaton."""
    at = next((i for i, part in enumerate(parts) if not isinstance(part, Nfa)), len(parts))
    before, inner, after = parts[:at], parts[at : at + 1], parts[at + 1 :]
    texts = [nfa.concat([each for each in some if isinstance(each, Nfa)]) for some in (before, after)]
    if not inner:
        return DfaMachine(dfa.minimize(texts[0]))
    assert not isinstance(inner[0], Nfa)
    return Around(texts[0], inner[0], texts[1])
