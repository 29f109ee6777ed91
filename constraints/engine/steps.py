"""Configurations of a program, byte by byte.

    configuration = { (stack of frames, environment of observers) }

one pair for each way in which the text so far can be read. It is kept after the *closure*: nodes have been called and frames
have ended until each top frame can read a byte, or nothing is left: then the text may end. Pairs that cannot be completed are
left out, so a byte may come exactly if a pair is left after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..program.left_recursion import check_left_recursion
from ..program.node import Kind, Node
from ..program.nodes import reachable
from ..program.prune import pruned
from . import kinds, observers
from .crossing import PerByte, Weight, cheapest
from .observers import Environment
from .stack import Stack, push

Pair = tuple[Stack | None, Environment]
Configuration = frozenset[Pair]

NO_STATE = -1


def closure(pairs: Iterable[Pair]) -> set[Pair]:
    """Follow calls and ends to the frames that read bytes; the bottom of the stack is None."""
    todo = list(pairs)
    seen, found = set(todo), set[Pair]()
    while todo:
        stack, environment = pair = todo.pop()
        if stack is None:
            found.add(pair)
            continue
        node, register, below = stack.node, stack.register, stack.below
        if kinds.reads(node, register):
            found.add(pair)
        after: list[Pair] = []
        if kinds.ends(node, register):
            outside = observers.leave(node, environment)
            if outside is not None:
                after.append((below, outside))
        inside = observers.enter(node, environment)
        for called, rest in kinds.calls(node, register):
            under = below if rest is None else push(node, rest, below)
            after.append((push(called, kinds.begin(called), under), inside))
        todo += [each for each in after if each not in seen]
        seen.update(after)
    return found


def _moved(pairs: Iterable[Pair], byte: int) -> list[Pair]:
    """Return some pairs after a byte, before their closure."""
    found: list[Pair] = []
    for stack, environment in pairs:
        if stack is None:
            continue
        inside: Environment | None = None
        for low, high, after in kinds.reads(stack.node, stack.register):
            if low <= byte <= high:
                inside = observers.read(environment, byte) if inside is None else inside
                if inside is None:
                    break
                found.append((push(stack.node, after, stack.below), inside))
    return found


class Steps:
    """The configurations of a program, numbered from 0 as they are met; -1 is none.

    Budgets of parts (``TOKENS``) need to be told where tokens end: see :meth:`token_end`. Of a program with such budgets, a
    configuration may have no completion; :mod:`~.masks` asks with a vocabulary.

    Attributes
    ----------
    program
        The node, without the rules that have no texts.
    start
        The state of the empty text, -1 if no text is accepted.
    """

    def __init__(self, node: Node) -> None:
        check_left_recursion(node)
        self.program = pruned(node)
        found = {each.kind for each in reachable(self.program)}
        self.has_budgets = Kind.TOKENS in found
        self._searches = bool(found & {Kind.WITHIN, Kind.APART}) and not self.has_budgets
        self.configurations: list[Configuration] = []
        self._number: dict[Configuration, int] = {}
        self._live: dict[Pair, bool] = {}
        self._ends: dict[tuple[Stack | None, tuple[Hashable, ...]], list[bytes]] = {}
        first = push(self.program, kinds.begin(self.program), None)
        self.start = self._after([(first, ())])

    def _after(self, pairs: Iterable[Pair]) -> int:
        """Return the state of the closure of some pairs, without those that cannot be completed."""
        return self._numbered(frozenset(pair for pair in closure(pairs) if self._is_live(pair)))

    def _numbered(self, found: Configuration) -> int:
        if not found:
            return NO_STATE
        state = self._number.setdefault(found, len(self.configurations))
        if state == len(self.configurations):
            self.configurations.append(found)
        return state

    def _is_live(self, pair: Pair) -> bool:
        """Return whether a pair can be completed: by construction, if nothing that is read later can fail."""
        if not self._searches or pair[0] is None:
            return True
        found = self._live.get(pair)
        if found is None:
            found = self._live[pair] = self._can_end(pair)
        return found

    def _can_end(self, pair: Pair) -> bool:
        """Return whether a pair can be completed: by a text that completes a similar one, else by searching for one."""
        known = self._ends.setdefault((pair[0], observers.memory(pair[1], False).rest), [])
        if any(self._is_read(pair, text) for text in known):
            return True
        found = self.search(frozenset([pair]))
        if found is not None:
            known.append(found.text)
        return found is not None

    def _is_read(self, pair: Pair, text: bytes) -> bool:
        """Return whether a text completes a pair."""
        pairs = closure([pair])
        for byte in text:
            pairs = closure(_moved(pairs, byte))
        return (None, ()) in pairs

    def search(self, configuration: Configuration) -> Weight | None:
        """Return the weight of a shortest text to acceptance; None if there is none."""
        return cheapest(PerByte(), configuration)

    def step(self, state: int, byte: int) -> int:
        """Return the state after a byte, -1 if it may not come."""
        return self._after(_moved(() if state < 0 else self.configurations[state], byte))

    def token_end(self, state: int) -> int:
        """Return the state after the end of a token."""
        if state < 0 or not self.has_budgets:
            return state
        found = self.configurations[state]
        return self._numbered(frozenset((stack, observers.token_end(inside)) for stack, inside in found))

    def accepting(self, state: int) -> bool:
        """Return whether the text may end here."""
        return state >= 0 and (None, ()) in self.configurations[state]

    def moves(self, state: int) -> list[tuple[int, int, int]]:
        """Return rows (lowest byte, highest byte, state after), in the order of the bytes."""
        rows: list[tuple[int, int, int]] = []
        tops = [stack for stack, _ in self.configurations[state] if stack is not None] if state >= 0 else []
        ranges = [row[:2] for top in tops for row in kinds.reads(top.node, top.register)]
        for byte in sorted({byte for low, high in ranges for byte in range(low, high + 1)}):
            target = self.step(state, byte)
            if rows and rows[-1][1:] == (byte - 1, target):
                rows[-1] = (rows[-1][0], byte, target)
            elif target >= 0:
                rows.append((byte, byte, target))
        return rows

    def run(self, state: int, text: bytes) -> int:
        """Return the state after a text, -1 if it may not come."""
        for byte in text:
            state = self.step(state, byte)
        return state

    def accepts(self, text: bytes) -> bool:
        """Return whether a text is accepted."""
        return self.accepting(self.run(self.start, text))
