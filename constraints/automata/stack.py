"""Stack automata: machines that call one another, as one lazy automaton.

They are recursive transition networks. A machine (:mod:`.region`) reads one region of a text. Where a value may begin it calls
another machine, and goes on when that one is final. A configuration is a stack of (machine, local state), or a set of stacks
where the text read so far has several parses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Self

from ...errors import UnsupportedConstraint
from .. import limits
from .lazy import Body, Configuration, Move, Moves, Pattern
from .region import Local, Machine, Region

NEVER = 1 << 62


class Stack:
    """A call stack: a machine in a local state on top, and the stack that goes on after it.

    An automaton creates each of its stacks once, so equality is identity. ``under``: the stacks of which one goes on where the
    top frame ends: none at the end of the text, several under a :class:`Join`. What walks a stack to its end follows ``under``.
    """

    __slots__ = (
        "active",
        "completion",
        "depth",
        "key",
        "local",
        "longest",
        "machine",
        "parent",
        "reached",
        "recorded",
        "under",
        "view",
    )

    def __init__(self, machine: Machine, local: Local, parent: Stack | None) -> None:
        self.machine, self.local, self.parent = machine, local, parent
        self.under: tuple[Stack, ...] = () if parent is None else (parent,)
        self.view: tuple[int, int] | None = None
        self.completion: bytes | None = None
        self.active: tuple[list[Stack], bool] | None = None
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.recorded: tuple[int, ...] = (
            () if parent is None else parent.recorded
        )  # depths of machines that compare
        if machine.compares:
            self.recorded += (self.depth,)
        self.reached: tuple[Stack, ...] = ()  # set with `active`: all stacks on the way to these
        self.longest = -1
        self.key: Hashable = None  # see `sharing.py`

    def __repr__(self) -> str:
        below = "" if self.parent is None else f" / {self.parent!r}"
        return f"{type(self.machine).__name__}({self.local!r}){below}"


class Join(Region):
    """The machine of a frame on several stacks; it reads nothing. Its local state is the set of these stacks."""

    def start(self) -> Local:
        return frozenset()

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return ()

    def final(self, local: Local) -> bool:
        return True

    def completion(self, local: Local) -> bytes:
        return b""

    def view(self, local: Local, reach: int) -> None:
        return None


JOIN = Join()


class StackAutomaton:
    """A root machine, with all that it calls, as a lazy automaton. Root ``None``: accept nothing."""

    def __init__(self, root: Machine | None) -> None:
        self.root = root
        self._stacks: dict[tuple[int, Local, int], Stack] = {}
        self._views: dict[Hashable, int] = {}
        self._machines: dict[int, Machine] = {}  # kept alive: `_stacks` has their ids in its keys
        self.compares = False  # whether a machine that compares has been met: see `comparing_stack.py`
        self.may_compare = False  # whether there are such machines
        self.needs_distinct = False  # whether one of them may need several items

    def renewed(self) -> Self:
        """Return the automaton without the stacks that it has met."""
        found = type(self)(self.root)
        found.may_compare, found.needs_distinct = self.may_compare, self.needs_distinct
        return found

    # ------------------------------------------------------------ the stacks

    def stack(self, machine: Machine, local: Local, parent: Stack | None) -> Stack:
        """Return the stack with this frame on top; one that can only end is left out."""
        if (
            parent is not None
            and machine.final(local)
            and not machine.moves(local)
            and not machine.calls(local)
        ):
            return parent
        key = (id(machine), local, id(parent))
        found = self._stacks.get(key)
        if found is None:
            self._machines[id(machine)] = machine
            found = self._stacks[key] = Stack(machine, local, parent)
            self.compares |= machine.compares
        return found

    def active(self, configuration: Configuration) -> tuple[list[Stack], bool]:
        """Return the stacks that read the next byte, and whether the text may end.
        Calls and returns that come before that byte are done."""
        if not isinstance(configuration, Stack):
            return self._active(stacks_of(configuration))
        if configuration.active is None:
            if self._reads_only(configuration):
                configuration.active, configuration.reached = ([configuration], False), (configuration,)
                return configuration.active
            seen = set[Stack]()
            configuration.active = self._active((configuration,), seen)
            configuration.reached = tuple(seen)
        return configuration.active

    def reached(self, configuration: Configuration) -> Iterable[Stack]:
        """Return the stacks that are reached by calls and returns alone, without reading a byte."""
        if not isinstance(configuration, Stack):
            seen = set[Stack]()
            self._active(stacks_of(configuration), seen)
            return seen
        if configuration.active is None:
            self.active(configuration)
        return configuration.reached

    def _reads_only(self, stack: Stack) -> bool:
        """Return whether a stack may only read a byte: it neither calls nor returns, and, as stacks are trimmed, it reads."""
        return not stack.machine.final(stack.local) and not stack.machine.calls(stack.local)

    def _active(self, stacks: Iterable[Stack], seen: set[Stack] | None = None) -> tuple[list[Stack], bool]:
        """Compute :meth:`active`; ``seen`` collects the stacks reached without reading a byte."""
        found: dict[Stack, None] = {}
        seen = set() if seen is None else seen
        todo, ends = [(stack, 0) for stack in stacks], False
        while todo:
            stack, depth = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            machine, local, parent = stack.machine, stack.local, stack.parent
            if machine.reads(local):
                found[stack] = None
            for called, after in machine.calls(local):
                todo.append(
                    (self.stack(called, called.start(), self.stack(machine, after, parent)), depth + 1)
                )
                if depth >= limits.ALTERNATIVES:
                    raise UnsupportedConstraint("a rule begins with itself: left recursion")
            if machine.final(local):
                if parent is None:
                    ends = True
                else:
                    todo.append((parent, depth))
        return list(found), ends

    # ------------------------------------------------------------ the lazy automaton

    def start(self) -> Configuration | None:
        return None if self.root is None else self.stack(self.root, self.root.start(), None)

    def moves(self, configuration: Configuration) -> Moves:
        active, _ = self.active(configuration)
        if len(active) == 1:
            top = active[0]
            return tuple(
                [
                    Move(a, b, self.stack(top.machine, c, top.parent))
                    for a, b, c in top.machine.moves(top.local)
                ]
            )
        arcs = [
            (low, high, self.stack(top.machine, local, top.parent))
            for top in active
            for low, high, local in top.machine.moves(top.local)
        ]
        return merged(arcs)

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """Return the configuration after one byte, ``None`` if it may not come."""
        active, _ = self.active(configuration)
        found = []
        for top in active:
            local = top.machine.step(top.local, byte)
            if local is not None:
                found.append(self.stack(top.machine, local, top.parent))
        to = frozenset(found)
        return None if not to else found[0] if len(to) == 1 else to

    def forced(self, configuration: Configuration) -> tuple[bytes, Configuration] | None:
        """Return bytes that are each the only one possible, and the configuration after them.

        ``None`` if none are known. The frames stay the same until after the last of them.
        """
        active, ends = self.active(configuration)
        if len(active) != 1 or ends:
            return None
        top = active[0]
        found = top.machine.forced(top.local)
        return None if found is None else (found[0], self.stack(top.machine, found[1], top.parent))

    def words(self, configuration: Configuration) -> Sequence[tuple[bytes, int]] | None:
        """Return texts of which one must come, where one machine reads it: see ``Machine.words``."""
        active, ends = self.active(configuration)
        return None if len(active) != 1 or ends else active[0].machine.words(active[0].local)

    def after_word(self, configuration: Configuration, which: int) -> Configuration | None:
        """Return the configuration after a text of :meth:`words`, ``None`` if it may not come."""
        (top,), _ = self.active(configuration)
        local = top.machine.after_word(top.local, which)
        return None if local is None else self.stack(top.machine, local, top.parent)

    def pattern(self, configuration: Configuration) -> Pattern | None:
        """Return the pattern that all stacks are in; ``None`` elsewhere."""
        active, _ = self.active(configuration)
        if not active:
            return None
        found = active[0].machine.pattern(active[0].local)
        if found is None or any(
            s.machine is not active[0].machine or s.local != active[0].local for s in active[1:]
        ):
            return None
        if found.letters is None and found.ends is None and any(top.parent is not None for top in active):
            return None  # another machine may go on at any place

        def to(state: int, letters: int) -> Configuration:
            local = found.to(state, letters)
            stacks = frozenset([self.stack(top.machine, local, top.parent) for top in active])
            return next(iter(stacks)) if len(stacks) == 1 else stacks

        return found._replace(to=to)

    def alone(self, configuration: Configuration, text: bytes, at: int) -> tuple[Configuration | None, int]:
        """Read one byte or more of ``text`` from ``at`` on, until the machine may call or end.

        Return the configuration after that, ``None`` if a byte may not come, and the position. If several stacks read the first
        byte, only that byte is read.
        """
        active, _ = self.active(configuration)
        if len(active) != 1:
            return self.step(configuration, text[at]), at + 1
        top = active[0]
        machine, local, last = top.machine, top.local, len(text) - 1
        while True:
            local = machine.step(local, text[at])
            if local is None:
                return None, at + 1
            at += 1
            if at > last or machine.final(local) or machine.calls(local):
                return self.stack(machine, local, top.parent), at

    def accepting(self, configuration: Configuration) -> bool:
        return self.active(configuration)[1]

    def completion(self, configuration: Configuration) -> bytes:
        return min((self._completion(s) for s in stacks_of(configuration)), key=len)

    def _completion(self, stack: Stack) -> bytes:
        if stack.completion is None:
            for frame in lowest_first((stack,), lambda each: each.completion is not None):
                rests = [each.completion for each in frame.under]
                rest = min((each for each in rests if each is not None), key=len, default=b"")
                frame.completion = frame.machine.completion(frame.local) + rest
        assert stack.completion is not None
        return stack.completion

    def own_completion(self, stack: Stack) -> bytes:
        """Return the completion of the top frame alone."""
        text = self._completion(stack)
        return text if stack.parent is None else text[: len(text) - len(self._completion(stack.parent))]

    def completions(self, configuration: Configuration) -> Sequence[bytes]:
        return [self._completion(s) for s in stacks_of(configuration)]

    def longest(self, configuration: Configuration) -> int:
        """Return an upper bound, in bytes, of the way to acceptance, ``NEVER`` if unknown.

        It depends on the machines of the frames, not on their local states.
        """
        return min([self._longest(stack) for stack in stacks_of(configuration)])

    def _longest(self, stack: Stack) -> int:
        for frame in lowest_first((stack,), lambda each: each.longest >= 0):
            own = frame.machine.longest
            below = max([each.longest for each in frame.under], default=0)
            frame.longest = NEVER if own is None else min(NEVER, below + own)
        return stack.longest

    def forgetful(self, configuration: Configuration) -> Configuration:
        """Replace the top local state by a forgetful one: see :meth:`Machine.forgetful`."""
        if not isinstance(configuration, Stack):
            return configuration
        local = configuration.machine.forgetful(configuration.local)
        if local is configuration.local:
            return configuration
        return self.stack(configuration.machine, local, configuration.parent)

    def names_forgotten(self, configuration: Configuration) -> Configuration:
        """Replace the top machines by those that keep only first bytes of names: see :meth:`Machine.forgetting`."""
        found = []
        for top in stacks_of(configuration):
            machine = top.machine.forgetting(repeats=False)
            found.append(
                self.stack(machine, machine.forgetful(top.local), top.parent) if machine.forgets else top
            )
        return found[0] if len(found) == 1 else frozenset(found)

    def body(self, configuration: Configuration) -> Body | None:
        active, _ = self.active(configuration)
        if len(active) != 1:
            return self._common_body(active)
        top = active[0]
        found = top.machine.body(top.local)
        if found is None:
            return None

        def after(count: int) -> Configuration:
            return self.stack(top.machine, top.machine.after_letters(top.local, count), top.parent)

        return Body(found.letters, found.most, after, *found[2:])

    def _common_body(self, active: Sequence[Stack]) -> Body | None:
        """Return the free text of several stacks; the others may read no first byte of a letter."""
        bodies = [(top, found) for top in active if (found := top.machine.body(top.local)) is not None]
        if not bodies or any(found.letters is not bodies[0][1].letters for _, found in bodies):
            return None
        letters, settled = bodies[0][1].letters, [found.settled for _, found in bodies]
        within = [top for top, _ in bodies]
        for top in active:
            if top not in within and any(
                letters.may_begin(low, high) for low, high, _ in top.machine.moves(top.local)
            ):
                return None
        counters = None in settled
        if counters and any(k is not None and k > 1 for k in settled):
            return None

        def after(count: int) -> Configuration:
            to = frozenset(
                [self.stack(t.machine, t.machine.after_letters(t.local, count), t.parent) for t in within]
            )
            return next(iter(to)) if len(to) == 1 else to

        return Body(
            letters,
            min([found.most for _, found in bodies if found.most is not None], default=None),
            after,
            bytes(sorted({byte for _, found in bodies for byte in found.exceptions})),
            None if counters else max([k or 1 for k in settled]),
            all(found.within or not found.exceptions for _, found in bodies),
        )

    def view(self, configuration: Configuration, reach: int) -> Hashable:
        if isinstance(configuration, Stack):
            return self._view(configuration, reach)
        return frozenset([self._view(s, reach) for s in stacks_of(configuration)])

    def _view(self, stack: Stack, reach: int) -> int:
        """Return the number of a view, equal for two stacks exactly if all their frames look alike."""
        if stack.view is None or stack.view[0] != reach:
            for frame in lowest_first((stack,), lambda each: each.view is not None and each.view[0] == reach):
                views = frozenset([each.view[1] for each in frame.under if each.view is not None])
                key = (id(frame.machine), frame.machine.view(frame.local, reach), views)
                frame.view = (reach, self._views.setdefault(key, len(self._views)))
        assert stack.view is not None
        return stack.view[1]


def lowest_first(stacks: Sequence[Stack], known: Callable[[Stack], bool]) -> Iterator[Stack]:
    """Yield the stacks and those under them that are not ``known``, each once, after all that are under it."""
    todo, seen = [(stack, False) for stack in reversed(stacks)], set[Stack]()
    while todo:
        stack, ready = todo.pop()
        if ready:
            yield stack
        elif stack not in seen and not known(stack):
            seen.add(stack)
            todo.append((stack, True))
            todo += [(each, False) for each in stack.under]


def stacks_of(configuration: Configuration) -> Iterable[Stack]:
    """Return the stacks of a configuration: itself, or the members of a set."""
    return (configuration,) if isinstance(configuration, Stack) else configuration  # type: ignore[return-value]


def forgets_names(configuration: Configuration) -> bool:
    """Return whether a frame has forgotten names: see :meth:`StackAutomaton.names_forgotten`."""
    seen, todo = set[Stack](), list(stacks_of(configuration))
    while todo:
        stack = todo.pop()
        if stack.machine.forgets:
            return True
        todo += [each for each in stack.under if each not in seen]
        seen.update(stack.under)
    return False


def merged(arcs: list[tuple[int, int, Stack]]) -> Moves:
    """Merge arcs with overlapping ranges into moves to sets of stacks: a subset construction."""
    cuts = sorted({low for low, _, _ in arcs} | {high + 1 for _, high, _ in arcs})
    found: list[Move] = []
    for low, end in pairwise(cuts):
        to = frozenset([target for a, b, target in arcs if a <= low <= b])
        if not to:
            continue
        target: Configuration = next(iter(to)) if len(to) == 1 else to
        if found and found[-1].high == low - 1 and found[-1].target == target:
            found[-1] = Move(found[-1].low, end - 1, target)
        else:
            found.append(Move(low, end - 1, target))
    return tuple(found)
