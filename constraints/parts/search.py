"""Decide whether a strand can be completed within the limits of its parts and the tokens left.

Bounds decide nearly always. Otherwise a best-first search over tokens does, which expands the strand with the fewest
estimated tokens to the end:

    within(s, n)  =  enough(s) <= n   or   some token leads to s' with within(s', n - 1)

The result is exact unless the search is abandoned after :data:`MOST_STRANDS` strands. Then the strand counts as one that
cannot be completed, so whatever is allowed can always be completed.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush

from jaxtyping import Int
from numpy import ndarray

from ...circuits.automaton import UNREACHABLE
from .. import limits
from ..automata import request_limits
from ..automata.region import Machine
from ..automata.stack import Stack, StackAutomaton, stacks_of
from ..masks.lazy_tokens import LazyTokens
from ..masks.text_tokens import keep
from ..vocabulary.vocabulary import Vocabulary
from .automaton import BEFORE, Counts, Part, PartAutomaton, Strand, Twins
from .bounds import BOUNDS, Layout, Layouts, LowerBounds
from .top_frames import Stretches

MOST_STRANDS = limits.POSITIONS // 3  # strands that one search visits
STRAND_UNITS = 200  # of work
MOST_GIVEN_UP = 2  # abandoned searches of bounds, beyond which a search is abandoned too
MAX_EDGES = 1 << 12  # stacks whose edges are cached
MAX_STRANDS = 1 << 16  # strands whose answers are cached
Edges = list[tuple[int, Int[ndarray, " token"]]]


class Strands:
    """The strands of a machine with parts: their successors by token, and which can be completed.

    ``tokens`` reads one token, by the numbers of marked stacks. ``given_up`` counts the searches that were abandoned at their
    limit, ``looked_at`` the strands that all searches visited.
    """

    def __init__(self, root: Machine, vocab: Vocabulary, require_eos: bool) -> None:
        self.automaton, self.eos, self._given_up = PartAutomaton(root), int(require_eos), 0
        self.looked_at = 0
        self.tokens = LazyTokens(self.automaton, vocab, require_eos)
        self.twins = Twins()
        plain = StackAutomaton(self.twins.of(root))
        self.stretches = Stretches(vocab, self.twins)
        self.layouts = Layouts(self.stretches, self._least)
        self.lower = LowerBounds(plain, vocab, require_eos, self.twins)
        self._edges: OrderedDict[int, Edges] = OrderedDict()
        self._enough: dict[Strand, int] = {}  # numbers of tokens that suffice to complete a strand
        self._too_few: dict[Strand, int] = {}  # numbers of tokens that do not suffice

    def start(self) -> Strand:
        """Return the strand of the empty text."""
        root = self.automaton.root
        assert root is not None
        return Strand(self.automaton.stack(root, root.start(), None), ())

    def number(self, strand: Strand) -> int:
        """Return the number of a strand's stack."""
        return self.tokens.states.number(strand.stack)

    # ------------------------------------------------------------ steps

    def edges(self, number: int) -> Edges:
        """Return the tokens that a stack can read, EOS apart, by the configuration they lead to."""
        found = self._edges.get(number)
        if found is None:
            found = list(self.tokens.masks.edges(number).items())
            keep(self._edges, number, found, MAX_EDGES)
        return found

    def after(self, configuration: int, counts: Counts) -> list[Strand]:
        """Return the strands after a token to a configuration; ``counts`` are those before the token."""
        stacks = stacks_of(self.tokens.states.configurations[configuration])
        return [self.automaton.after_token(stack, counts) for stack in stacks]

    # ------------------------------------------------------------ distances to the end

    @property
    def given_up(self) -> int:
        """The number of searches that were abandoned at their limit."""
        return self._given_up + self.stretches.given_up + self.lower.given_up

    def within(self, strand: Strand, left: int) -> bool:
        """Return whether a strand can be completed with ``left`` tokens, EOS included if it is required."""
        known = self._answer(strand, left)
        return self._search(strand, left) if known is None else known

    def surely_within(self, strand: Strand, left: int) -> bool:
        """Return whether upper bounds at hand already prove :meth:`within`, without a search."""
        layout = self.layouts.of(strand.stack)
        needed, allowed = self._range(layout, strand.counts, left)
        known = self._enough.get(strand, UNREACHABLE)
        return known <= min(left, UNREACHABLE - 1) or self.tokens_of(layout, needed) <= allowed

    def searched(self, strand: Strand, left: int) -> bool:
        """Return whether :meth:`within` follows from a long search in the stretch on top."""
        layout = self.layouts.of(strand.stack)
        needed, allowed = self._range(layout, strand.counts, left)
        return not needed and self.stretches.searched(layout.stretch, allowed)

    def enough(self, strand: Strand) -> int:
        """Return a number of tokens that suffices to complete a strand; ``UNREACHABLE`` if none is known."""
        return self._enough[strand] if self.within(strand, UNREACHABLE) else UNREACHABLE

    def starts_within(self, left: int) -> bool:
        """Return :meth:`within` of the empty text. Before it says no, the distances of parts are sharpened."""
        if self.within(self.start(), left):
            return True
        while self.layouts.sharpen():
            self._too_few.clear()
            if self.within(self.start(), left):
                return True
        return False

    def tokens_of(self, layout: Layout, needed: int) -> int:
        """Return a number >= ``needed`` of tokens that the stretch on top can take, or ``UNREACHABLE``."""
        found = self.stretches.bound(layout.stretch)
        if found >= needed:
            return found
        least, step, _ = self.stretches.room(layout.stretch)
        return least if least >= needed else least - (least - needed) // step * step

    def tokens_left(self, strand: Strand) -> int:
        """Return an upper bound of the tokens to the end of the text if there were no limits."""
        layout = self.layouts.of(strand.stack)
        return self.stretches.bound(layout.stretch) + layout.end

    def _range(self, layout: Layout, counts: Counts, left: int) -> tuple[int, int]:
        """Return the fewest and the most tokens of the stretch on top, if a token ends at its end."""
        needed, allowed = 0, min(left, UNREACHABLE - 1) - self.eos - layout.end
        for part, count, leave in zip(layout.parts, counts, layout.leave, strict=True):
            needed = max(needed, part.at_least - count - leave)
            if part.at_most is not None:
                allowed = min(allowed, part.at_most - count - leave)
        return needed, allowed

    def _answer(self, strand: Strand, left: int) -> bool | None:
        """Return :meth:`within` if bounds decide it; None otherwise."""
        if self._enough.get(strand, UNREACHABLE) <= min(left, UNREACHABLE - 1):
            return True
        if left <= self._too_few.get(strand, -1):
            return False
        layout = self.layouts.of(strand.stack)
        needed, allowed = self._range(layout, strand.counts, left)
        tokens = self.tokens_of(layout, needed)
        if tokens > allowed and self.layouts.sharpness == BOUNDS:
            self.layouts.sharpen()
            return self._answer(strand, left)
        if tokens > allowed and self._may_take(layout.stretch, needed, allowed):
            tokens = min(allowed, max(needed, self.stretches.fewest(layout.stretch)))
        if tokens <= allowed:
            self._note(self._enough, strand, tokens + layout.end + self.eos)
            return True
        if self._is_too_short(layout, strand.counts):
            self._note(self._too_few, strand, UNREACHABLE)
            return False
        too_long = layout.last and not self.stretches.within(layout.stretch, allowed)
        if too_long or self._exceeds(strand, layout, left):
            self._note(self._too_few, strand, left)
            return False
        return None

    def _may_take(self, stretch: Stack | None, needed: int, allowed: int) -> bool:
        """Return whether the fewest tokens of a stretch are between ``needed`` and ``allowed``."""
        within = self.stretches.within
        return needed <= allowed and within(stretch, allowed) and not within(stretch, needed - 1)

    def _is_too_short(self, layout: Layout, counts: Counts) -> bool:
        """Return whether the innermost part surely lacks more tokens than it can have bytes."""
        lacking = layout.parts[-1].at_least - counts[-1] if layout.on_part else 0
        return lacking > 0 and lacking > self.stretches.room(layout.stretch).most

    def _exceeds(self, strand: Strand, layout: Layout, left: int) -> bool:
        """Return whether a lower bound exceeds the tokens left in the text or a part.

        Limits that the stretch on top obeys by its upper bound are not checked.
        """
        room, within = list[int](), self.stretches.within
        for part, count, leave in zip(layout.parts, strand.counts, layout.leave, strict=True):
            most = UNREACHABLE if part.at_most is None else part.at_most - count
            room.append(UNREACHABLE if most == UNREACHABLE or within(layout.stretch, most - leave) else most)
        enough = left >= UNREACHABLE // 2 or within(layout.stretch, left - self.eos - layout.end)
        return self.lower.exceed(strand.stack, room, UNREACHABLE if enough else left)

    def _search(self, start: Strand, left: int) -> bool:
        """Decide :meth:`within` by a best-first search over the successors of a strand."""
        visited: dict[Strand, int] = {start: left}
        before: dict[Strand, Strand] = {}
        queue: list[tuple[int, int, Strand]] = [(0, 0, start)]
        order, given_up = 0, self.given_up
        while queue:
            request_limits.search(STRAND_UNITS)
            _, _, strand = heappop(queue)
            rest = visited[strand] - 1
            for configuration, _ in self.edges(self.number(strand)):
                for target in self.after(configuration, strand.counts):
                    if visited.get(target, -1) >= rest:
                        continue
                    known, order = self._answer(target, rest), order + 1
                    self.looked_at += 1
                    if order > MOST_STRANDS or self.given_up - given_up > MOST_GIVEN_UP:
                        self._given_up += 1
                        self._note(self._too_few, start, left)
                        return False
                    if known is False:
                        continue
                    visited[target], before[target] = rest, strand
                    if known:
                        self._found(target, before, start)
                        return True
                    heappush(queue, (left - rest + self.tokens_left(target), order, target))
        for strand, tokens in visited.items():
            self._note(self._too_few, strand, tokens)
        return False

    def _found(self, last: Strand, before: dict[Strand, Strand], start: Strand) -> None:
        """Record a sufficient number of tokens for each strand on the path to ``last``."""
        tokens = self._enough[last]
        while last != start:
            last, tokens = before[last], tokens + 1
            self._note(self._enough, last, tokens)

    def _note(self, kept: dict[Strand, int], strand: Strand, tokens: int) -> None:
        if len(kept) >= MAX_STRANDS:
            kept.clear()
        known = kept.get(strand)
        if known is not None:
            tokens = min(known, tokens) if kept is self._enough else max(known, tokens)
        kept[strand] = tokens

    def _least(self, part: Part) -> int:
        """Return a number of tokens that suffices for a text of a part."""
        start = Strand(self.automaton.stack(part, BEFORE, None), ())
        return self._enough[start] - self.eos if self._search(start, UNREACHABLE) else UNREACHABLE
