"""Whether a strand can be completed within the limits of its parts and the tokens left.

Bounds answer nearly always. Between them a search by tokens decides, the strands first that seem to be nearest to the end:

    within(s, n)  =  enough(s) <= n   or   some token leads to s' with within(s', n - 1)

It is exact unless it has been given up after :data:`MOST_STRANDS` strands; then a strand counts as one that cannot be
completed. So what is allowed can always be completed.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush

from jaxtyping import Int
from numpy import ndarray

from ...circuits.automaton import NEVER
from ..automata.stack import Machine, Stack, StackAutomaton, stacks_of
from ..masks.lazy_tokens import LazyTokens
from ..masks.text_tokens import keep
from ..vocabulary.vocabulary import Vocabulary
from .automaton import BEFORE, Counts, Part, PartAutomaton, Strand, Twins, frames
from .bounds import LowerBounds, UpperBounds

MOST_STRANDS = 2_000  # of one search
MAX_EDGES = 1 << 12  # stacks whose edges are kept
MAX_STRANDS = 1 << 16  # of which it is kept whether they can be completed
Edges = list[tuple[int, Int[ndarray, " token"]]]


class Strands:
    """The strands of a machine with parts: what tokens lead to, and which can be completed.

    ``tokens`` reads one token, by the numbers of marked stacks. ``given_up`` counts the searches that took too long.
    """

    def __init__(self, root: Machine, vocab: Vocabulary, require_eos: bool) -> None:
        self.automaton, self.eos, self.given_up = PartAutomaton(root), int(require_eos), 0
        self.tokens = LazyTokens(self.automaton, vocab, require_eos)
        self.twins = Twins()
        plain = StackAutomaton(self.twins.of(root))
        self.upper = UpperBounds(vocab, self.twins, self._least)
        self.lower = LowerBounds(plain, vocab, require_eos, self.twins)
        self._edges: OrderedDict[int, Edges] = OrderedDict()
        self._parts: dict[Stack, tuple[Part, ...]] = {}
        self._enough: dict[Strand, int] = {}  # tokens with which a strand can be completed
        self._too_few: dict[Strand, int] = {}  # and with which it cannot

    def start(self) -> Strand:
        """The strand of the empty text."""
        root = self.automaton.root
        assert root is not None
        return Strand(self.automaton.stack(root, root.start(), None), ())

    def number(self, strand: Strand) -> int:
        """The number of the stack of a strand."""
        return self.tokens.states.number(strand.stack)

    def parts(self, stack: Stack) -> tuple[Part, ...]:
        """The open parts of a stack, the outermost first."""
        found = self._parts.get(stack)
        if found is None:
            found = self._parts[stack] = tuple(
                [f.machine for f in frames(stack) if isinstance(f.machine, Part) and f.local != BEFORE]
            )
        return found

    # ------------------------------------------------------------ steps

    def edges(self, number: int) -> Edges:
        """The tokens that can be read from a stack, EOS apart, by the configuration that they lead to."""
        found = self._edges.get(number)
        if found is None:
            found = list(self.tokens.masks.edges(number).items())
            keep(self._edges, number, found, MAX_EDGES)
        return found

    def after(self, configuration: int, counts: Counts) -> list[Strand]:
        """The strands after a token that led to a configuration."""
        stacks = stacks_of(self.tokens.states.configurations[configuration])
        return [self.automaton.after_token(stack, counts) for stack in stacks]

    # ------------------------------------------------------------ the way to the end

    def within(self, strand: Strand, left: int) -> bool:
        """Whether a strand can be completed with so many tokens, EOS among them where it must be there."""
        known = self._answer(strand, left)
        return self._search(strand, left) if known is None else known

    def enough(self, strand: Strand) -> int:
        """A number of tokens with which a strand can be completed, ``NEVER`` where none is known."""
        found = self._enough.get(strand, NEVER)
        for exact in (False, True):
            found = found if found < NEVER else self._estimate(strand, exact)
        return found if found < NEVER or not self.within(strand, NEVER) else self._enough[strand]

    def _answer(self, strand: Strand, left: int) -> bool | None:
        """:meth:`within`, where bounds answer."""
        most = min(left, NEVER - 1)
        if self._enough.get(strand, NEVER) <= most or self._estimate(strand, False) <= most:
            return True
        if left <= self._too_few.get(strand, -1):
            return False
        if self._is_too_short(strand):
            self._note(self._too_few, strand, NEVER)
            return False
        found = self._estimate(strand, True)
        if found <= most:
            self._note(self._enough, strand, found)
            return True
        if self._exceeds(strand, left):
            self._note(self._too_few, strand, left)
            return False
        return None

    def _is_too_short(self, strand: Strand) -> bool:
        """Whether the rest of the innermost part has fewer bytes than the part lacks tokens, as far as that is seen at once."""
        parts = self.parts(strand.stack)
        lacking = parts[-1].at_least - strand.counts[-1] if parts else 0
        return lacking > 0 and lacking > self.upper.most_bytes(strand.stack)

    def _exceeds(self, strand: Strand, left: int) -> bool:
        """Whether a lower bound is above the tokens left in the whole or in a part; only those are asked for that may be."""
        leave, end = self.upper.of(strand.stack, True)
        room = [
            NEVER if part.at_most is None or count + tokens <= part.at_most else part.at_most - count
            for part, count, tokens in zip(self.parts(strand.stack), strand.counts, leave, strict=True)
        ]
        return self.lower.exceed(strand.stack, room, NEVER if end + self.eos <= left else left)

    def _estimate(self, strand: Strand, exact: bool) -> int:
        """A number of tokens with which a strand can be completed, by upper bounds."""
        leave, end = self.upper.of(strand.stack, exact)
        each = list(zip(self.parts(strand.stack), strand.counts, leave, strict=True))
        more = max([part.at_least - count - tokens for part, count, tokens in each], default=0)
        more = max(more, 0)
        if more > 0:
            more = max(more, self.upper.room(strand.stack).more)
        if end >= NEVER or more >= NEVER:
            return NEVER
        for part, count, tokens in each:
            if part.at_most is not None and count + tokens + more > part.at_most:
                return NEVER
        return end + more + self.eos

    def _search(self, start: Strand, left: int) -> bool:
        """:meth:`within` by going through what tokens lead to."""
        visited: dict[Strand, int] = {start: left}
        before: dict[Strand, Strand] = {}
        queue: list[tuple[int, int, Strand]] = [(0, 0, start)]
        order = 0
        while queue:
            _, _, strand = heappop(queue)
            if len(visited) > MOST_STRANDS:
                self.given_up += 1
                self._note(self._too_few, start, left)
                return False
            rest = visited[strand] - 1
            for configuration, _ in self.edges(self.number(strand)):
                for target in self.after(configuration, strand.counts):
                    if visited.get(target, -1) >= rest:
                        continue
                    known = self._answer(target, rest)
                    if known is False:
                        continue
                    visited[target], before[target], order = rest, strand, order + 1
                    if known:
                        self._found(target, before, start)
                        return True
                    end = self.upper.of(target.stack, False).end
                    heappush(queue, (left - rest + end, order, target))
        for strand, tokens in visited.items():
            self._note(self._too_few, strand, tokens)
        return False

    def _found(self, last: Strand, before: dict[Strand, Strand], start: Strand) -> None:
        """Note what all strands on a way need that can be completed."""
        tokens = self._enough.get(last, NEVER)
        for exact in (False, True):
            tokens = min(tokens, self._estimate(last, exact))
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
        """Tokens that are enough for a text of a part."""
        start = Strand(self.automaton.stack(part, BEFORE, None), ())
        return self._enough[start] - self.eos if self._search(start, NEVER) else NEVER
