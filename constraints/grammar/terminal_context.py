"""Terminals that depend on adjacent text, in lazy grammars.

The grammar reads words with marks around such terminals; a DFA ``D`` accepts the words whose marks are at allowed positions
(``terminals.py``). The text is the word without its marks, so a configuration is a set of pairs (stack, state of ``D``),
closed
under marks. A pair is kept only if it can still be accepted. What a local state of a machine can do to ``D``,

    cost(local, d) = { d' : the fewest bytes that take the machine from ``local`` to its end, and D from d to d' }

is a least fixed point over (min, +), computed for the pairs that occur and what they call (Reps, Schwoon and Jha, 2003).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise

from ...errors import TooManyStates
from ..automata.lazy import Body, Configuration, Move, Moves
from ..automata.machines import DfaMachine
from ..automata.nfa import Nfa
from ..automata.region import Local, Machine
from ..automata.stack import JOIN, Stack, StackAutomaton, stacks_of
from ..automata.work import spend
from ..regex import lookaround

MARKS = frozenset(lookaround.LEVELS[0])
Node = tuple[Machine, Local, int]
Pair = tuple[Stack, int]


class Costs:
    """``cost(local, d)`` of machines with finitely many local states, computed on demand."""

    def __init__(self, allowed: DfaMachine) -> None:
        self.allowed = allowed
        self.known: dict[Node, dict[int, int]] = {}
        self._dependents: dict[Node, set[Node]] = {}

    def __getitem__(self, node: Node) -> dict[int, int]:
        """Return, for each state of ``D`` at the end of the machine, the fewest bytes that lead there."""
        if node not in self.known:
            todo = {node: None}
            self.known[node] = {}
            while todo:
                at, _ = todo.popitem()
                found = self._evaluated(at, todo)
                spend(5)
                if found != self.known[at]:
                    self.known[at] = found
                    todo.update(dict.fromkeys(self._dependents.get(at, ())))
        return self.known[node]

    def _evaluated(self, node: Node, todo: dict[Node, None]) -> dict[int, int]:
        machine, local, d = node
        found = {d: 0} if machine.final(local) else {}

        def value(other: Node) -> dict[int, int]:
            self._dependents.setdefault(other, set()).add(node)
            if other not in self.known:
                self.known[other] = {}
                todo[other] = None
            return self.known[other]

        for weight, byte_target, after in self.steps(machine.moves(local), d):
            for end, length in value((machine, byte_target, after)).items():
                found[end] = min(found.get(end, length + weight), length + weight)
        for called, after_call in machine.calls(local):
            for between, first in value((called, called.start(), d)).items():
                for end, length in value((machine, after_call, between)).items():
                    found[end] = min(found.get(end, first + length), first + length)
        return found

    def steps(self, moves: Sequence[tuple[int, int, Local]], d: int) -> Iterator[tuple[int, Local, int]]:
        """Yield (bytes, local state, state of ``D``) once for each move allowed; a mark has 0 bytes."""
        seen = set()
        for low, high, target in moves:
            for a, b, after in self.allowed.moves(d):
                if a <= high and low <= b:
                    step = (0 if max(a, low) in MARKS else 1, target, after)
                    if step not in seen:
                        seen.add(step)
                        yield step

    def text(self, node: Node, end: int) -> bytes:
        """Return a shortest text that leads from a node to this state of ``D``."""
        found = bytearray()
        calls = [(node, end)]
        while calls:
            (machine, local, d), end = calls.pop()
            length = self[machine, local, d][end]
            if machine.final(local) and d == end and length == 0:
                continue
            for low, high, target in machine.moves(local):
                hit = next(
                    (
                        (max(a, low), (machine, target, after))
                        for a, b, after in self.allowed.moves(d)
                        if a <= high and low <= b
                        for weight in [0 if max(a, low) in MARKS else 1]
                        if self[machine, target, after].get(end, math.inf) == length - weight
                    ),
                    None,
                )
                if hit is not None:
                    if hit[0] not in MARKS:
                        found.append(hit[0])
                    calls.append((hit[1], end))
                    break
            else:
                calls += next(
                    [((machine, after, between), end), ((called, called.start(), d), between)]
                    for called, after in machine.calls(local)
                    for between, first in self[called, called.start(), d].items()
                    if self[machine, after, between].get(end, math.inf) == length - first
                )
        return bytes(found)


class MarkedAutomaton:
    """The lazy automaton of the words of ``words`` that ``allowed`` accepts, without their marks."""

    def __init__(self, words: StackAutomaton, allowed: Nfa, most: int) -> None:
        self.words, self.allowed, self.most = words, DfaMachine(allowed), most
        self.costs = Costs(self.allowed)
        self._left: dict[Pair, float] = {}

    def left(self, pair: Pair) -> float:
        """Return the fewest bytes to acceptance, ``inf`` if it cannot be reached."""
        todo = [pair]
        while todo:
            stack, d = at = todo[-1]
            if at in self._left:
                todo.pop()
                continue
            if stack.machine is JOIN:
                onward = {(each, d): 0 for each in stack.under}
            else:
                ends = self.costs[stack.machine, stack.local, d]
                if stack.parent is None:
                    accepted = (n for end, n in ends.items() if self.allowed.final(end))
                    self._left[at] = min(accepted, default=math.inf)
                    continue
                onward = {(stack.parent, end): n for end, n in ends.items()}
            missing = [each for each in onward if each not in self._left]
            if missing:
                todo += missing
                continue
            self._left[at] = min((n + self._left[each] for each, n in onward.items()), default=math.inf)
        return self._left[pair]

    def _closed(self, pairs: Iterable[Pair]) -> frozenset[Pair]:
        """Return the closure of pairs under marks, without pairs that cannot be accepted."""
        found = set[Pair]()
        fresh = {pair for pair in pairs if self.left(pair) < math.inf}
        while fresh:
            found |= fresh
            behind = {
                (stack, after)
                for low, _, target, d in self._moves_of(fresh)
                if low in MARKS
                for a, b, after in self.allowed.moves(d)
                if a <= low <= b
                for stack in stacks_of(target)
            }
            fresh = {pair for pair in behind - found if self.left(pair) < math.inf}
        if len(found) > self.most:
            raise TooManyStates(
                f"the text can be understood in more than {self.most} ways at the same time", limit=self.most
            )
        return frozenset(found)

    def _moves_of(self, pairs: Iterable[Pair]) -> Iterator[tuple[int, int, Configuration, int]]:
        """Yield (low, high, configuration, state of ``D``), by the stacks that share a state of ``D``."""
        stacks: dict[int, list[Stack]] = {}
        for stack, d in pairs:
            stacks.setdefault(d, []).append(stack)
        for d, together in stacks.items():
            for low, high, target in self.words.moves(frozenset(together)):
                yield low, high, target, d

    def start(self) -> Configuration | None:
        first = self.words.start()
        if first is None:
            return None
        return self._closed({(stack, self.allowed.start()) for stack in stacks_of(first)}) or None

    def moves(self, configuration: Configuration) -> Moves:
        arcs: list[tuple[int, int, Pair]] = []
        pairs: Iterable[Pair] = configuration  # type: ignore[assignment]
        for low, high, target, d in self._moves_of(pairs):
            if low in MARKS and low == high:
                continue
            for a, b, after in self.allowed.moves(d):
                if a <= high and low <= b:
                    arcs += [(max(a, low), min(b, high), (each, after)) for each in stacks_of(target)]
        cuts = sorted({low for low, _, _ in arcs} | {high + 1 for _, high, _ in arcs})
        found: list[Move] = []
        known: dict[frozenset[Pair], frozenset[Pair]] = {}
        for low, end in pairwise(cuts):
            over = frozenset([pair for a, b, pair in arcs if a <= low <= b])
            if not over:
                continue
            if over not in known:
                known[over] = self._closed(over)
            to = known[over]
            if not to:
                continue
            if found and found[-1].high == low - 1 and found[-1].target == to:
                found[-1] = Move(found[-1].low, end - 1, to)
            else:
                found.append(Move(low, end - 1, to))
        return tuple(found)

    def accepting(self, configuration: Configuration) -> bool:
        return any(
            self.allowed.final(d) and self.words.accepting(stack)
            for stack, d in configuration  # type: ignore[attr-defined]
        )

    def completion(self, configuration: Configuration) -> bytes:
        pair: Pair = min(configuration, key=self.left)  # type: ignore[call-overload]
        stack: Stack | None
        found, (stack, d) = [], pair
        while stack is not None:
            if stack.machine is JOIN:
                stack = min(stack.under, key=lambda each, d=d: self.left((each, d)))  # type: ignore[misc]
            above = stack.parent
            ends = self.costs[stack.machine, stack.local, d]

            def left(end: int, above: Stack | None = above) -> float:
                if above is None:
                    return 0 if self.allowed.final(end) else math.inf
                return self.left((above, end))

            end = min(ends, key=lambda end: ends[end] + left(end))
            found.append(self.costs.text((stack.machine, stack.local, d), end))
            stack, d = above, end
        return b"".join(found)

    def completions(self, configuration: Configuration) -> Sequence[bytes]:
        return (self.completion(configuration),)

    def body(self, configuration: Configuration) -> Body | None:
        return None

    def view(self, configuration: Configuration, reach: int) -> Hashable:
        return frozenset([(self.words.view(stack, reach), d) for stack, d in configuration])  # type: ignore[attr-defined]
