"""References to groups: ``(?(1)yes|no)``, and ``\\1`` if the group matches few texts.

A path carries what the groups have matched so far, as far as it matters later: that they took part, or which text. The
automaton of a sequence has a copy for each such *memory*, so it grows with their number. A back-reference to a group of more
than ``limits.ALTERNATIVES`` texts is refused; with unbounded texts the language is not regular.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ....errors import TooManyStates
from ... import limits
from ...automata import dfa, nfa, utf8
from ...automata.arrays import check_limit
from ...automata.nfa import Nfa
from ..characters import same_in_lower_case
from ..syntax import ATOMIC, LOOK, REPEAT, Item, constants, scoped, walk

if TYPE_CHECKING:
    from ..pattern import Builder

MARKS = re.compile(b"[\xc0\xc1\xf5-\xff]+")  # bytes that never occur in UTF-8
Memory = tuple[
    tuple[int, str | None], ...
]  # for each group that took part: its number, and its text or None if that does not matter
Key = TypeVar("Key", bound=Hashable)
BACK_REFERENCE = r"\\[1-9]|\\g<|\(\?P="


def references(items: Sequence[Item]) -> dict[int, bool]:
    """Return the groups that the items refer to, and whether their text matters."""
    found: dict[int, bool] = {}
    for operation, argument in walk(items):
        if operation is constants.GROUPREF:
            found[argument] = True
        elif operation is constants.GROUPREF_EXISTS:
            found.setdefault(argument[0], False)
    return found


def with_memory(builder: Builder, items: Sequence[Item], flags: int) -> Nfa:
    """Return the automaton of a whole pattern with references.

    Raises ``UnsupportedConstraint`` and ``TooManyStates``.
    """
    graph = Graph(references(items))
    ends = graph.sequence(builder, items, flags, (), 0, frozenset())
    return graph.between(0, ends[()]) if ends else nfa.empty()


class Graph:
    """A network of automata: nodes, and arcs that read a part of the pattern, or nothing (``None``).

    ``groups`` are the groups that are referred to. Each method adds a part that starts at node ``start`` with the ``memory``
    of the groups, and returns the end node for each memory after it. ``later`` are the groups that the rest of the pattern
    refers to.
    """

    def __init__(self, groups: dict[int, bool]) -> None:
        self.groups = groups
        self.nodes = 1
        self.arcs: list[tuple[int, Nfa | None, int]] = []
        self.plain: dict[tuple[tuple[int, ...], int], tuple[Sequence[Item], Nfa]] = {}

    def node(self) -> int:
        """Add a node and return it."""
        check_limit(self.nodes, limits.PART_STATES)
        self.nodes += 1
        return self.nodes - 1

    def read(self, start: int, part: Nfa) -> int:
        """Add an arc that reads a part, and return its end node."""
        end = self.node()
        self.arcs.append((start, part, end))
        return end

    def join(self, ends: dict[Key, int], key: Key, node: int) -> None:
        """Add an epsilon arc from ``node`` to the end node of ``key``, creating that node if needed."""
        if key not in ends:
            ends[key] = self.node()
        self.arcs.append((node, None, ends[key]))

    def free(self, item: Item) -> bool:
        """Return whether an item neither refers to a group nor holds one that is referred to."""
        return not references([item]) and not self.captures(item)

    def captures(self, item: Item) -> bool:
        """Return whether an item holds a group that is referred to."""
        return any(o is constants.SUBPATTERN and a[0] in self.groups for o, a in walk([item]))

    def sequence(
        self,
        builder: Builder,
        items: Sequence[Item],
        flags: int,
        memory: Memory,
        start: int,
        later: frozenset[int],
    ) -> dict[Memory, int]:
        """Add items in a row and return their end nodes by memory.

        A run of :meth:`free` items is a single arc.
        """
        now, i = {memory: start}, 0
        while i < len(items):
            some = list(itertools.takewhile(self.free, items[i:]))
            item, i = items[i], i + max(1, len(some))
            if some:
                key = tuple(map(id, some)), flags  # an item may stand in several places
                if key not in self.plain:
                    self.plain[key] = some, nfa.concat(builder.plain(some, flags))
                now = {before: self.read(node, self.plain[key][1]) for before, node in now.items()}
                continue
            needed = later | references(items[i:]).keys()
            then: dict[Memory, int] = {}
            for before, node in now.items():
                for after, end in self.item(builder, item, flags, before, node, needed).items():
                    after = tuple(entry for entry in after if entry[0] in needed)
                    if then.setdefault(after, end) != end:  # safe: no arc leaves the end of an item yet
                        self.arcs.append((end, None, then[after]))
            now = then
        return now

    def item(
        self, builder: Builder, item: Item, flags: int, memory: Memory, start: int, later: frozenset[int]
    ) -> dict[Memory, int]:
        """Add an item that refers to or holds such groups; return its end nodes by memory.

        No arc leaves the end nodes.
        """
        operation, argument = item
        if (operation is constants.GROUPREF or operation in (*LOOK, *ATOMIC)) and not self.captures(item):
            part = nfa.concat(builder._replace(memory=dict(memory)).plain([item], flags))
            return {memory: self.read(start, part)}
        if operation in REPEAT:
            return self.repeated(builder, argument, flags, memory, start, later)
        ends: dict[Memory, int] = {}
        if operation in (constants.BRANCH, constants.GROUPREF_EXISTS):
            branches = argument[1]
            if operation is constants.GROUPREF_EXISTS:
                branches = [argument[1] if argument[0] in dict(memory) else argument[2] or []]
            for branch in branches:
                for after, end in self.sequence(builder, branch, flags, memory, start, later).items():
                    self.join(ends, after, end)
            return ends
        if operation is not constants.SUBPATTERN:
            what = "references to groups within atomic groups, possessive repeats and look-arounds"
            raise builder.refused(what, rf"{BACK_REFERENCE}|\(\?\(")
        number, added, removed, body = argument
        if number in references(body):
            raise builder.refused("a reference to a group from within", rf"{BACK_REFERENCE}|\(\?\(")
        flags = scoped(flags, added, removed)
        if self.groups.get(number):
            return self.group(builder, number, body, flags, memory, start, later)
        for after, end in self.sequence(builder, body, flags, memory, start, later).items():
            self.join(ends, remember(after, number, None) if number in self.groups else after, end)
        return ends

    def group(
        self,
        builder: Builder,
        number: int,
        body: Sequence[Item],
        flags: int,
        memory: Memory,
        start: int,
        later: frozenset[int],
    ) -> dict[Memory, int]:
        """Add a group whose text is referred to: an arc for each text."""
        if builder.alphabet is not utf8.utf8 and any(o in LOOK for o, _ in walk(body)):
            raise builder.refused("look-arounds in a group that is referred to", BACK_REFERENCE)
        inner, ends = Graph(self.groups), dict[Memory, int]()
        plain = builder._replace(alphabet=utf8.utf8)
        for after, inner_end in inner.sequence(plain, body, flags, memory, 0, later).items():
            for word in words(inner.between(0, inner_end), builder):
                text = MARKS.sub(b"", word).decode()
                self.join(ends, remember(after, number, text), self.read(start, spelled(word, builder)))
        return ends

    def repeated(
        self,
        builder: Builder,
        argument: tuple[int, int, Sequence[Item]],
        flags: int,
        memory: Memory,
        start: int,
        later: frozenset[int],
    ) -> dict[Memory, int]:
        """Add a repeat: a node for each count and memory.

        Without an upper bound, counts above the lower bound share a node.
        """
        if builder.dollar_is_end:  # ECMA-262 forgets what groups have read when a repeat begins again
            raise builder.refused("references to a group under a repeat", BACK_REFERENCE)
        low, high, body = argument
        endless = high == constants.MAXREPEAT
        needed = later | references(body).keys()
        counted, ends = dict[tuple[int, Memory], int](), dict[Memory, int]()
        self.join(counted, (0, memory), start)
        queue = list(counted)
        for count, before in queue:
            node = counted[count, before]
            if count >= low:
                self.join(ends, before, node)
            if count == high:
                continue
            for after, end in self.sequence(builder, body, flags, before, node, needed).items():
                key = (min(count + 1, low) if endless else count + 1, after)
                if key not in counted:
                    queue.append(key)
                self.join(counted, key, end)
        return ends

    def between(self, start: int, end: int) -> Nfa:
        """Return the automaton of the paths from one node to another."""
        entering: dict[int, list[int]] = {}
        for source, _, target in self.arcs:
            entering.setdefault(target, []).append(source)
        useful, stack = {end}, [end]
        while stack:
            for source in entering.get(stack.pop(), ()):
                if source not in useful:
                    useful.add(source)
                    stack.append(source)
        return nfa.network(self.nodes, [arc for arc in self.arcs if arc[2] in useful], start, end)


def remember(memory: Memory, number: int, text: str | None) -> Memory:
    """Return the memory after a group has matched a text."""
    return tuple(sorted([*(entry for entry in memory if entry[0] != number), (number, text)]))


def words(automaton: Nfa, builder: Builder) -> list[bytes]:
    """List all words, marks included.

    Raises ``UnsupportedConstraint`` for more than ``limits.ALTERNATIVES``.
    """
    few = builder.refused(
        f"back-references to a group of more than {limits.ALTERNATIVES} texts", BACK_REFERENCE
    )
    try:
        small = dfa.minimize(automaton, limit=100 * limits.ALTERNATIVES)
    except TooManyStates:
        raise few from None
    leaving: dict[int, list[list[int]]] = {}
    for edge in small.edges.tolist():
        leaving.setdefault(edge[0], []).append(edge)
    accept, found = set(small.accept.tolist()), list[bytes]()
    stack = [(state, b"") for state in small.start.tolist()]
    while stack:
        state, word = stack.pop()
        if state in accept:
            found.append(word)
        if (
            len(found) > limits.ALTERNATIVES
            or len(stack) > 256 * limits.ALTERNATIVES
            or len(word) > small.num_states
        ):
            raise few
        for _, low, high, target in leaving.get(state, ()):
            stack += [(target, word + bytes([byte])) for byte in range(low, high + 1)]
    return sorted(found)


def spelled(word: bytes, builder: Builder) -> Nfa:
    """Return the automaton of a word of UTF-8 and marks in the builder's alphabet."""
    pieces = re.findall(b"(%b)|([^%b)" % (MARKS.pattern, MARKS.pattern[1:]), word)
    parts = [
        nfa.literal(marks) if marks else utf8.string(text.decode(), builder.alphabet)
        for marks, text in pieces
    ]
    return nfa.concat(parts)


def referred(text: str, flags: int, builder: Builder) -> Nfa:
    """Return the automaton of the texts that a back-reference to this text matches."""
    return nfa.concat([builder.alphabet(same_in_lower_case(ord(c), flags)) for c in text])
