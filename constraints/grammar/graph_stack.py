"""A graph-structured stack (Tomita, 1987) for ambiguous grammars: stacks share their frames.

If several stacks call one machine at one byte, it begins once, on a *join* of the stacks to return to. So n bytes may have
exponentially many parses, while the stacks number at most linear in n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...errors import TooManyStates
from .. import limits
from ..automata.lazy import Configuration, Moves
from ..automata.region import Machine
from ..automata.stack import JOIN, Stack, StackAutomaton
from ..automata.work import spend


class GrammarAutomaton(StackAutomaton):
    """A stack automaton with joins. Its machines do not accept the empty text where they are called."""

    def __init__(self, root: Machine) -> None:
        super().__init__(root)
        self._orders: dict[frozenset[Machine], list[Machine]] = {}

    def join(self, stacks: Iterable[Stack]) -> Stack:
        """Return a stack that continues as any of these stacks does."""
        under = tuple(stacks)
        members = frozenset(under)
        if len(members) == 1:
            return under[0]
        key = (id(JOIN), members, id(None))
        found = self._stacks.get(key)
        if found is None:
            found = self._stacks[key] = Stack(JOIN, members, None)
            found.under = under
        return found

    def _active(self, stacks: Iterable[Stack], seen: set[Stack] | None = None) -> tuple[list[Stack], bool]:
        found: dict[Stack, None] = {}
        seen = set() if seen is None else seen
        todo, ends = list(stacks), False
        returns: dict[Machine, dict[Stack, None]] = {}
        while todo:
            stack = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            machine, local, parent = stack.machine, stack.local, stack.parent
            if machine is JOIN:
                todo += local
                continue
            if machine.moves(local):
                found[stack] = None
            for called, after in machine.calls(local):
                returns.setdefault(called, {})[self.stack(machine, after, parent)] = None
            if machine.final(local):
                if parent is None:
                    ends = True
                else:
                    todo.append(parent)
        for machine in self._order(frozenset(returns)) if returns else ():
            below, local = self.join(returns[machine]), machine.start()
            if machine.moves(local):
                found[self.stack(machine, local, below)] = None
            for called, after in machine.calls(local):
                returns.setdefault(called, {})[self.stack(machine, after, below)] = None
        spend(2 * len(seen))
        return list(found), ends

    def _order(self, called: frozenset[Machine]) -> list[Machine]:
        """Return the machines that these call without reading, and these, callers before callees."""
        if called not in self._orders:
            order, entered = list[Machine](), set[Machine]()
            stack: list[tuple[Machine | None, Iterator[Machine]]] = [(None, iter(called))]
            while stack:
                machine, rest = stack[-1]
                following = next(rest, None)
                if following is None:
                    stack.pop()
                    if machine is not None:
                        order.append(machine)
                elif following not in entered:
                    entered.add(following)
                    stack.append((following, iter([m for m, _ in following.calls(following.start())])))
            self._orders[called] = order[::-1]
        return self._orders[called]

    def moves(self, configuration: Configuration) -> Moves:
        return self.bounded(super().moves(configuration))

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        for low, high, target in self.moves(configuration):
            if low <= byte <= high:
                return target
        return None

    def bounded(self, found: Moves) -> Moves:
        """Return the moves. Raise ``TooManyStates`` if one leads to more than ``limits.ALTERNATIVES`` stacks."""
        if any(
            isinstance(move.target, frozenset) and len(move.target) > limits.ALTERNATIVES for move in found
        ):
            raise TooManyStates(
                f"the grammar is ambiguous: a text can be understood in more than {limits.ALTERNATIVES} ways at the same time; "
                "write rules that begin alike as one",
                limit=limits.ALTERNATIVES,
            )
        return found
