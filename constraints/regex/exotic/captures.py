"""What depends on what a group has read: ``(?(1)yes|no)``, and ``\\1`` where the group reads few texts.

A path carries what the groups have read so far, as far as it matters later: that they took part, or which text. So the
automaton of a sequence is one for each such *memory*, and grows with their number. A back-reference to a group of more
than ``limits.ALTERNATIVES`` texts is refused; to one of any length it is not regular.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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
]  # for each group that took part its text, None where that does not matter
BACK_REFERENCE = r"\\[1-9]|\\g<|\(\?P="


def references(items: Sequence[Item]) -> dict[int, bool]:
    """The groups that the items refer to, and whether their text matters."""
    found: dict[int, bool] = {}
    for operation, argument in walk(items):
        if operation is constants.GROUPREF:
            found[argument] = True
        elif operation is constants.GROUPREF_EXISTS:
            found.setdefault(argument[0], False)
    return found


def with_memory(builder: Builder, items: Sequence[Item], flags: int) -> Nfa:
    """The automaton of a whole pattern with references. Raises ``UnsupportedConstraint`` and ``TooManyStates``."""
    return Reader(references(items)).sequence(builder, items, flags, (), frozenset()).get((), nfa.empty())


class Reader:
    """``groups`` are those referred to. Every method gives an automaton for each memory at the end; ``later`` are the
    groups that what follows refers to."""

    def __init__(self, groups: dict[int, bool]) -> None:
        self.groups = groups

    def reads(self, item: Item) -> bool:
        """Whether a group that is referred to lies in the item."""
        return any(o is constants.SUBPATTERN and a[0] in self.groups for o, a in walk([item]))

    def sequence(
        self, builder: Builder, items: Sequence[Item], flags: int, memory: Memory, later: frozenset[int]
    ) -> dict[Memory, Nfa]:
        """One item after the other."""
        hubs, arcs, now = 1, list[tuple[int, Nfa, int]](), {memory: 0}
        for i, item in enumerate(items):
            needed = later | references(items[i + 1 :]).keys()
            then: dict[Memory, int] = {}
            for before, hub in now.items():
                for after, part in self.item(builder, item, flags, before, needed).items():
                    after = tuple(entry for entry in after if entry[0] in needed)
                    if after not in then:
                        then[after], hubs = hubs, hubs + 1
                    arcs.append((hub, part, then[after]))
            now = then
            check_limit(hubs, limits.PART_STATES)
        return {after: between(hubs, arcs, 0, hub) for after, hub in now.items()}

    def item(
        self, builder: Builder, item: Item, flags: int, memory: Memory, later: frozenset[int]
    ) -> dict[Memory, Nfa]:
        """One item."""
        operation, argument = item
        whole = operation is constants.GROUPREF or operation in (*LOOK, *ATOMIC) or not references([item])
        if whole and not self.reads(item):
            return {memory: nfa.concat(builder._replace(memory=dict(memory)).plain([item], flags))}
        if operation is constants.BRANCH:
            return merged(self.sequence(builder, b, flags, memory, later) for b in argument[1])
        if operation is constants.GROUPREF_EXISTS:
            branch = argument[1] if argument[0] in dict(memory) else argument[2] or []
            return self.sequence(builder, branch, flags, memory, later)
        if operation in REPEAT:
            return self.repeated(builder, argument, flags, memory, later)
        if operation is not constants.SUBPATTERN:
            what = "references to groups within atomic groups, possessive repeats and look-arounds"
            raise builder.refused(what, rf"{BACK_REFERENCE}|\(\?\(")
        number, added, removed, body = argument
        if number in references(body):
            raise builder.refused("a reference to a group from within", rf"{BACK_REFERENCE}|\(\?\(")
        flags = scoped(flags, added, removed)
        if not self.groups.get(number):
            found = self.sequence(builder, body, flags, memory, later)
            if number not in self.groups:
                return found
            return merged({remember(m, number, None): part} for m, part in found.items())
        plain = builder._replace(alphabet=utf8.utf8)
        if builder.alphabet is not utf8.utf8 and any(o in LOOK for o, _ in walk(body)):
            raise builder.refused("look-arounds in a group that is referred to", BACK_REFERENCE)
        texts: dict[Memory, list[Nfa]] = {}
        for m, part in self.sequence(plain, body, flags, memory, later).items():
            for word in words(part, builder):
                text = MARKS.sub(b"", word).decode()
                texts.setdefault(remember(m, number, text), []).append(spelled(word, builder))
        return {m: nfa.union(parts) for m, parts in texts.items()}

    def repeated(
        self,
        builder: Builder,
        argument: tuple[int, int, Sequence[Item]],
        flags: int,
        memory: Memory,
        later: frozenset[int],
    ) -> dict[Memory, Nfa]:
        """A hub for each count and memory; without an upper bound the counts above the lower one are alike."""
        if builder.dollar_is_end:  # ECMA-262 forgets what groups have read when a repeat begins again
            raise builder.refused("references to a group under a repeat", BACK_REFERENCE)
        low, high, body = argument
        endless = high == constants.MAXREPEAT
        needed = later | references(body).keys()
        hub, arcs, queue = {(0, memory): 0}, list[tuple[int, Nfa, int]](), [(0, memory)]
        once: dict[Memory, dict[Memory, Nfa]] = {}
        for count, before in queue:
            if count == high:
                continue
            if before not in once:
                once[before] = self.sequence(builder, body, flags, before, needed)
            for after, part in once[before].items():
                key = (min(count + 1, low) if endless else count + 1, after)
                if key not in hub:
                    hub[key] = len(hub)
                    queue.append(key)
                    check_limit(len(hub), limits.PART_STATES)
                arcs.append((hub[count, before], part, hub[key]))
        ends = [(m, between(len(hub), arcs, 0, h)) for (count, m), h in hub.items() if count >= low]
        return merged({m: part} for m, part in ends)


def remember(memory: Memory, number: int, text: str | None) -> Memory:
    """The memory after a group has read a text."""
    return tuple(sorted([*(entry for entry in memory if entry[0] != number), (number, text)]))


def merged(found: Iterable[dict[Memory, Nfa]]) -> dict[Memory, Nfa]:
    """One automaton for each memory, the union of all."""
    parts: dict[Memory, list[Nfa]] = {}
    for one in found:
        for memory, part in one.items():
            parts.setdefault(memory, []).append(part)
    return {memory: part[0] if len(part) == 1 else nfa.union(part) for memory, part in parts.items()}


def between(hubs: int, arcs: list[tuple[int, Nfa, int]], start: int, end: int) -> Nfa:
    """The network of the arcs that lie on a way to ``end``."""
    entering: dict[int, list[int]] = {}
    for source, _, target in arcs:
        entering.setdefault(target, []).append(source)
    useful, stack = {end}, [end]
    while stack:
        for source in entering.get(stack.pop(), ()):
            if source not in useful:
                useful.add(source)
                stack.append(source)
    return nfa.network(hubs, [arc for arc in arcs if arc[2] in useful], start, end)


def words(automaton: Nfa, builder: Builder) -> list[bytes]:
    """All words, marks among them. Raises ``UnsupportedConstraint`` for more than ``limits.ALTERNATIVES``."""
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
    """A word of UTF-8 and marks in the builder's alphabet."""
    pieces = re.findall(b"(%b)|([^%b)" % (MARKS.pattern, MARKS.pattern[1:]), word)
    parts = [
        nfa.literal(marks) if marks else utf8.string(text.decode(), builder.alphabet)
        for marks, text in pieces
    ]
    return nfa.concat(parts)


def referred(text: str, flags: int, builder: Builder) -> Nfa:
    """The texts that a back-reference to this text matches."""
    return nfa.concat([builder.alphabet(same_in_lower_case(ord(c), flags)) for c in text])
