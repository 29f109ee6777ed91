"""Arrays and objects state by state, before the values in them are written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from itertools import chain

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata.arrays import group_by
from ..automata.nfa import check_limit, trim
from ..automata.work import spend
from ..narrowing import Narrowing
from .pieces import NO_EDGES, Piece, piece, renumbered, repeated
from .shapes import Need


class Sketch:
    """A piece under construction: states and edges one by one, and values placed between states, as pieces or by the needs
    that stand for them. State 0 is the start, state −1 the sink."""

    def __init__(self) -> None:
        self.size = 1
        self.edges: list[tuple[int, int, int, int]] = []
        self.copied: Int[ndarray, "edge 4"] = NO_EDGES  # further ones, of which none enters the sink
        self.placed: dict[
            tuple[Piece | Need, int], list[int]
        ] = {}  # where a value ends, and where it may start
        self.narrowed: list[
            Narrowing
        ] = []  # what the values lack of those asked for; their paths are set later

    def state(self) -> int:
        """A new state."""
        self.size += 1
        return self.size - 1

    def read(self, source: int, text: bytes, target: int | None = None) -> int:
        """Read a text, to a new state if none is given; where that ends."""
        for i, byte in enumerate(text):
            here = target if target is not None and i == len(text) - 1 else self.state()
            self.edges.append((source, byte, byte, here))
            source = here
        return source

    def blank(self, state: int) -> None:
        """Let white space be read at a state."""
        self.edges += [(state, low, high, state) for low, high in ((9, 10), (13, 13), (32, 32))]

    def place(self, source: int, value: Piece | Need, target: int) -> None:
        """Read a value. One that is read to the same end from several states is written once."""
        sources = self.placed.setdefault((value, target), [])
        if source not in sources:
            sources.append(source)

    @cached_property
    def counts(self) -> Counter[Need]:
        """How often the values of each need are written."""
        return Counter(value for value, _ in self.placed if not isinstance(value, Piece))

    def finish(self, value_of: Callable[[Need], Piece]) -> Piece:
        """The piece, with the values of each need. Raises ``TooManyStates``."""
        placed: dict[tuple[Piece, int], list[int]] = {}
        for (value, target), sources in self.placed.items():
            found = value if isinstance(value, Piece) else value_of(value)
            known = placed.setdefault((found, target), [])
            known += sources if not known else [s for s in sources if s not in known]
        whole = all(value.size for value, _ in placed)
        placed = {key: sources for key, sources in placed.items() if key[0].size}
        total = self.size + sum(p.size - 1 - p.has_sink for p, _ in placed) + 1
        check_limit(total)
        flat = chain.from_iterable(self.edges)
        own = np.fromiter(flat, np.int64, 4 * len(self.edges)).reshape(-1, 4)
        own[own[:, 3] < 0, 3] = total - 1
        own = np.concatenate([own, self.copied])
        edges, size = [own], self.size
        spend(250 + len(own) / 4)
        pointer, order = group_by(own[:, 0], size)
        onward: dict[int, Int[ndarray, "edge 4"]] = {}
        for (part, target), sources in placed.items():
            number = np.arange(part.size) + size - 1
            number[0] = sources[0]
            if part.has_sink:
                number[-1] = target
            copies = [renumbered(part.edges, number)]
            if len(sources) > 1:
                copies.append(repeated(copies[0][part.edges[:, 0] == 0], np.array(sources[1:])))
            if len(part.open):
                if target not in onward:
                    onward[target] = own[order[pointer[target] : pointer[target + 1]]]
                spend(len(onward[target]) * len(part.open) / 2)
                copies.append(repeated(onward[target], number[part.open]))
            spend(10 + sum(map(len, copies)) / 14)
            edges += copies
            size += part.size - 1 - part.has_sink
        found = Piece(total, np.concatenate(edges), True, np.empty(0, np.int64))
        return found if whole else piece(trim(found.nfa))
