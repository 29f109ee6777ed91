"""Crossings in free text: by whole rests of tokens, to where one leaves the text or ends.

Letters are all alike here, so few numbers of letters matter (:class:`~..automata.region.LocalBody`). Of the counts after which
the text may end in one way, the lowest is kept. Of those before it may end, the highest is, if the most letters are far away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..automata.region import Local, LocalBody, Machine
from .text_steps import TextTokens
from .token_dag import FAR, TokenDag

Leaving = tuple[tuple[int, int, Local], ...]


class InText:
    """The part of a :class:`~.crossings.Crossing` that reads free text."""

    dag: TokenDag
    machine: Machine
    _seen: set[tuple[Local, int]]
    _leaving: dict[Local, Leaving]

    def _push(self, local: Local, node: int, cost: int) -> None:
        raise NotImplementedError("a crossing says how a position in the middle of a token is visited")

    def _begin(self, local: Local, cost: int) -> None:
        raise NotImplementedError("a crossing says how a token's beginning is visited")

    def _text(self, local: Local, node: int, body: LocalBody, cost: int) -> None:
        """Go on in free text by whole rests of tokens: to where one leaves the text, or ends in it."""
        dag, machine = self.dag, self.machine
        text = self.dag.text(body.letters)
        steps = text.of(node, body.exceptions)
        most = FAR if body.most is None else body.most
        after: dict[int, Local] = {0: local}

        def state(count: int) -> Local:
            if body.most is None and body.settled is not None:
                count = min(count, body.settled)
            found = after.get(count)
            if found is None:
                found = after[count] = machine.after_letters(local, count)
            return found

        for byte in body.exceptions:
            child = dag.children(node).get(byte)
            if child is not None:
                for low, high, target in machine.moves(local):
                    if low <= byte <= high:
                        self._push(target, child, cost)
        bytes_out = self._bytes_out(body, state, text)
        for byte in steps.leaving.keys() if bytes_out is None else bytes_out & steps.leaving.keys():
            nodes = steps.leaving[byte]
            for child, counts in nodes:
                kinds: set[Leaving] = set()
                for count in counts:
                    if count > most:
                        break
                    leaving = self._moves_out(state(count), text)
                    if leaving in kinds:
                        continue
                    kinds.add(leaving)
                    for low, high, target in leaving:
                        if low <= byte <= high and (target, child) not in self._seen:
                            self._push(target, child, cost)
        needed, free = self._needed(body, state, text), most >= FAR
        for within, counts in steps.ends.items():
            for count in self._useful(counts, needed, most, free, state, text):
                spelled = text.spelled(within, b"" if count else body.exceptions)
                if within == 0 and node == dag.root and self._no_nearer(local, state(count), body, text):
                    continue
                target = self._run(state(count), spelled)
                if target is not None:
                    self._begin(target, cost + 1)

    def _bytes_out(self, body: LocalBody, state: Callable[[int], Local], text: TextTokens) -> set[int] | None:
        """Return the bytes that may leave the text after any number of letters; ``None`` if costly."""
        if body.most is not None or body.settled is None or body.settled > 2:
            return None
        leaving = [move for count in range(body.settled + 1) for move in self._moves_out(state(count), text)]
        return {byte for low, high, _ in leaving for byte in range(low, high + 1)}

    def _no_nearer(self, local: Local, after: Local, body: LocalBody, text: TextTokens) -> bool:
        """Return whether letters gain nothing: the text may be left before them as after them."""
        kind = self._kind(local, text)
        return not body.exceptions and (bool(kind[0]) or kind[1]) and kind == self._kind(after, text)

    def _kind(self, local: Local, text: TextTokens) -> tuple[Leaving, bool]:
        """Return how the text may end here: the moves that leave it, and whether the region may end."""
        return self._moves_out(local, text), self.machine.final(local)

    def _useful(
        self,
        counts: list[int],
        needed: int,
        most: int,
        free: bool,
        state: Callable[[int], Local],
        text: TextTokens,
    ) -> Iterator[int]:
        """Yield the counts of letters that matter (see the module), ``needed`` being the fewest."""
        counts = [count for count in counts if count <= most]
        fewer = [count for count in counts if count < needed]
        if fewer and (free or most - needed >= 2 * self.dag.longest):
            fewer = fewer[-1:]
        yield from fewer
        kinds: set[tuple[Leaving, bool]] = set()
        for count in counts:
            if count >= needed and (kind := self._kind(state(count), text)) not in kinds:
                kinds.add(kind)
                yield count

    def _needed(self, body: LocalBody, state: Callable[[int], Local], text: TextTokens) -> int:
        """Return the fewest letters after which the text may end, ``FAR`` if there are none."""
        most = FAR if body.most is None else body.most

        def may_end(count: int) -> bool:
            local = state(count)
            return bool(self._moves_out(local, text)) or self.machine.final(local)

        low, high = -1, 0  # not after low letters; after high?
        while not may_end(high):
            if high >= most:
                return FAR
            low, high = high, min(most, max(1, 2 * high))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if may_end(middle) else (middle, high)
        return high

    def _moves_out(self, local: Local, text: TextTokens) -> Leaving:
        """Return the moves that leave free text, as ranges of bytes that begin no letter."""
        found = self._leaving.get(local)
        if found is None:
            parts: list[tuple[int, int, Local]] = []
            for low, high, target in self.machine.moves(local):
                begin = None
                for byte in range(low, high + 2):
                    out = byte <= high and not text.begins[byte]
                    if out and begin is None:
                        begin = byte
                    elif not out and begin is not None:
                        parts.append((begin, byte - 1, target))
                        begin = None
            found = self._leaving[local] = tuple(parts)
        return found

    def _run(self, local: Local, text: bytes) -> Local | None:
        """Return the local state after some bytes, ``None`` if they may not come."""
        for byte in text:
            for low, high, target in self.machine.moves(local):
                if low <= byte <= high:
                    local = target
                    break
            else:
                return None
        return local
