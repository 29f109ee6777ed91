"""Programs as finite automata over bytes: their recursive transition network, written out.

A *place* is a node with a register, and the frames of its callers. Three things can be done with frames:

    all are kept                       exactly the program's texts; refused if a node is called within itself, but at its end
    a rule within itself is cut        at most the texts: rules nest to a depth
    only the nearest are kept          at least the texts: a node returns to every caller that it may have had

The register is the index of the next part of a ``SEQ``, (items read, whether one comes next) of a ``REPEAT``, and of a ``BAG``
(bits, members read, whether a member was skipped), the bits being those of :func:`~..program.counting.read_label`. Without an
upper bound it counts up to the lower one, at least to 1, so that the first is known from the others.

The last is regular approximation by Nederhof (2000, "Practical experiments with regular approximation of context-free
languages", section 5). What counts and compares is rewritten before: see ``regular.py``.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import accumulate, compress, takewhile
from typing import Any, final

from ...errors import TooManyStates
from ..automata import dfa
from ..automata.nfa import Nfa, Rows, Skip, of_rows
from ..automata.work import spend
from ..program import tables
from ..program.counting import alive, allowed, may_end, read_label, written_out
from ..program.node import Kind, Node
from ..program.tables import Table

LEAVES = (Kind.LEX, Kind.COUNT, Kind.WITHIN)
UNITS_A_PLACE = 10.0

Frame = tuple[Node, Hashable]  # a caller and its register after the call; a rule that is followed, and None


@final
class Context:
    """Where a node returns when it ends; contexts are compared by identity.

    ``called``: the node that was called, where frames are forgotten; ``frames``: those of the callers, the nearest first;
    ``exit``: the state in which what was called has ended.
    """

    __slots__ = ("called", "exit", "frames")

    def __init__(self, called: Node | None, frames: tuple[Frame, ...], exit: int) -> None:
        self.called, self.frames, self.exit = called, frames, exit


def expanded(program: Node, most_states: int, *, depth: int | None = None, kept: int | None = None) -> Nfa:
    """Return an automaton with epsilon transitions of a program's texts.

    Parameters
    ----------
    program
        It does not count tokens or compare items (``TOKENS``, ``APART``).
    depth
        How often a rule is followed within itself; None: such a rule is refused.
    kept
        How many frames are told apart; None: all.

    Raises ``TooManyStates`` beyond ``most_states`` states, and for a rule that is refused.
    """
    return _Expansion(most_states, depth, kept).run(program)


@final
class _Expansion:
    """The places of a program that have been met, and the moves between them."""

    def __init__(self, most_states: int, depth: int | None, kept: int | None) -> None:
        self.most, self.depth, self.kept = most_states, depth, kept
        self.size = 0
        self.blocks: list[tuple[int, Rows]] = []
        self.places: dict[tuple[Node, Hashable, Context], int] = {}
        self.order: list[tuple[int, Node, Hashable, Context]] = []
        self.contexts: dict[tuple[Node | None, tuple[Frame, ...]], Context] = {}
        self.skips: list[Skip] = []
        self.within: dict[Node, Table | None] = {}

    def run(self, program: Node) -> Nfa:
        top = self.context(None, ())
        start = self.enter(program, top)
        for here, node, register, context in self.order:  # grows meanwhile
            self.follow(here, node, register, context)
        rows: Rows = [[] for _ in range(self.size)]
        for first, block in self.blocks:
            for state, row in enumerate(block, first):
                rows[state] = [(low, high, first + target) for low, high, target in row]
        return of_rows(rows, [] if start is None else [start], [top.exit], self.skips)

    def new(self, block: Rows | None = None) -> int:
        """Add a state, or those of a block with their moves among each other, and return the number of the first."""
        first = self.size
        self.size += 1 if block is None else len(block)
        spend(UNITS_A_PLACE)
        if self.size > self.most:
            raise TooManyStates(f"the program has more than {self.most:,} states", limit=self.most)
        if block is not None:
            self.blocks.append((first, block))
        return first

    def context(self, called: Node | None, frames: tuple[Frame, ...]) -> Context:
        found = self.contexts.get((called, frames))
        if found is None:
            found = self.contexts[called, frames] = Context(called, frames, self.new())
        return found

    def enter(self, node: Node, context: Context) -> int | None:
        """Return the state in which a node begins; None if it is cut."""
        while node.kind is Kind.RULE:
            if self.depth is not None:
                markers = list(takewhile(lambda frame: frame[1] is None, context.frames))
                if (node, None) in markers:  # at the end of itself: a loop
                    context = self.context(None, context.frames[markers.index((node, None)) :])
                elif context.frames.count((node, None)) > self.depth:
                    return None
                else:
                    inside = self.context(None, ((node, None), *context.frames))
                    self.skips.append((inside.exit, context.exit))
                    context = inside
            (node,) = node.parts
        return self.place(node, begin(node), context)

    def place(self, node: Node, register: Hashable, context: Context) -> int:
        """Return the state of a node, its register and its context."""
        key = node, register, context
        found = self.places.get(key)
        if found is None:
            if node.kind in LEAVES:
                found = self.block(self.table(node), context)
            else:
                found = self.new()
                self.order.append((found, *key))
            self.places[key] = found
        return found

    def table(self, node: Node) -> Table | None:
        """Return the texts of a leaf."""
        match node.kind:
            case Kind.LEX:
                return node.tables[0]
            case Kind.COUNT:
                if alive(node).num_states > self.most:
                    raise TooManyStates(f"the program has more than {self.most:,} states", limit=self.most)
                return written_out(node)
        if node not in self.within:
            self.within[node] = None  # a part within itself: no texts
            inside = _Expansion(self.most, self.depth, self.kept).run(node.parts[0])
            both = dfa.intersect(inside, tables.to_nfa(node.tables[0]))
            self.within[node] = tables.of_nfa(both)
        return self.within[node]

    def block(self, found: Table | None, context: Context) -> int:
        """Add the states and moves of a table at a context, and return the first; of None, one state that reads nothing."""
        if found is None:
            return self.new()
        first = self.new(found.rows)
        self.skips += [(first + state, context.exit) for state in found.ends]
        return first

    def follow(self, here: int, node: Node, register: Any, context: Context) -> None:
        """Add what leaves a state."""
        if ends(node, register):
            self.skips.append((here, context.exit))
        if node.kind is Kind.BAG:
            self.follow_names(here, node, register, context)
            return
        for called, rest in calls(node, register):
            self.call(here, node, called, rest, context)

    def call(self, here: int, node: Node, called: Node, rest: Hashable, context: Context) -> None:
        inside = context
        if rest is not None:
            frames = ((node, rest), *context.frames)
            if self.depth is None and self.kept is None and frames[0] in context.frames:
                raise TooManyStates("the program calls a node within itself", limit=self.most)
            inside = self.context(None if self.kept is None else called, frames[: self.kept])
            self.skips.append((inside.exit, self.place(node, rest, context)))
        there = self.enter(called, inside)
        if there is not None:
            self.skips.append((here, there))

    def follow_names(self, here: int, node: Node, register: tuple[int, int, int], context: Context) -> None:
        """Add the names that may come next in a bag, and the values after them.

        Of an ordered bag, that is the next member; or it is skipped, to a register of its own, so that what a place adds does not
        grow with the members after it.
        """
        bits, count, skipped = register
        labels = allowed(node, bits, count)
        if node.ordered:
            members = labels & ((1 << node.members) - 1)
            labels = (members & -members) | (0 if skipped else labels - members)
            after = members & (members - 1)
            if after:
                passed = (after & -after) - 1
                if not node.required & passed & ~bits:
                    self.skips.append((here, self.place(node, (bits | passed, count, -1), context)))
        if not labels:
            return
        table = node.tables[1 if count else 0]
        spend(table.num_states * (1 + table.labels.bit_length() / 1000) / 30)
        moves, ends = names(table, labels)
        first = self.new(moves)
        self.skips.append((here, first))
        for state, label in ends:
            read = read_label(node, bits, count, label)
            rest = (*read, 0) if allowed(node, *read) else None
            self.call(first + state, node, node.parts[label], rest, context)


@lru_cache(maxsize=256)
def names(found: Table, labels: int) -> tuple[Rows, list[tuple[int, int]]]:
    """Return the moves of the part of a table that reads some labels, and its states that accept, with their labels."""
    live = [bool(ahead & labels) for ahead in found.labels_ahead]
    live[0] = True
    number = list(accumulate(live, initial=0))
    moves = [
        [(low, high, number[target]) for low, high, target in row if live[target]]
        for row in compress(found.rows, live)
    ]
    label = found.label.tolist()
    return moves, [(number[state], label[state]) for state in found.ends if labels >> label[state] & 1]


def begin(node: Node) -> Hashable:
    """Return the register of a node of which nothing has been read."""
    if node.kind is Kind.BAG:
        return (0, 0, 0)
    return (0, 0) if node.kind is Kind.REPEAT else 0


def calls(node: Node, register: Any) -> list[tuple[Node, Hashable | None]]:
    """Return the nodes that a node may call: (node, register after it), None if nothing can follow but the end."""
    match node.kind:
        case Kind.SEQ if register < len(node.parts):
            last = register + 1 == len(node.parts)
            return [(node.parts[register], None if last else register + 1)]
        case Kind.ALT | Kind.ITEM:
            return [(part, None) for part in node.parts]
        case Kind.REPEAT:
            return _calls_item(node, *register)
    return []


def _calls_item(node: Node, count: int, is_next: int) -> list[tuple[Node, Hashable | None]]:
    if count == node.high:
        return []
    if count and not is_next:
        return [(node.parts[1], (count, 1))]
    after = count + 1 if node.high is not None else min(count + 1, max(node.low, 1))
    return [(node.parts[0], None if after == node.high else (after, 0))]


def ends(node: Node, register: Any) -> bool:
    """Return whether a node may end here."""
    match node.kind:
        case Kind.SEQ:
            return bool(register == len(node.parts))
        case Kind.REPEAT:
            return not register[1] and register[0] >= node.low
        case Kind.BAG:
            return not register[2] and may_end(node, *register[:2])
    return False
