"""Masks where no limit is near: every token that the bytes allow may follow.

The number of tokens that is far enough is computed once for each marked stack, whatever the counts are. If no token leaves
the stretch on top, it is computed from that stretch, otherwise from the targets of all tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...circuits.automaton import UNREACHABLE
from ..automata.stack import Stack, stacks_of
from ..masks.text_tokens import keep
from ..masks.token_masks import Words
from ..vocabulary.trie import put
from .automaton import Strand, parts_from_before
from .bounds import Layout
from .search import Strands

MAX_WORDS = 1 << 10  # masks in the cache


class Ample(NamedTuple):
    """Numbers of tokens that suffice after any next token, for a marked stack.

    ``leave[i]``: tokens into the i-th open part; ``end``: tokens to the end of the text. If a part still lacks tokens, a
    completion can be longer by ``more`` tokens or more, in steps of ``step``.
    """

    leave: tuple[int, ...]
    end: int
    more: int
    step: int


class Far:
    """Masks of strands as if no limit were near, and from how many tokens left they are exact."""

    def __init__(self, strands: Strands) -> None:
        self.strands = strands
        self._ample: dict[int, Ample] = {}
        self._stays: dict[int, bool] = {}
        self._words: OrderedDict[int, Words] = OrderedDict()

    def mask(self, strand: Strand, number: int) -> tuple[Words, int]:
        """Return the tokens that can be read, and the tokens left from which all of them may follow.

        The second is ``UNREACHABLE`` if the limit of a part is near.
        """
        layout = self.strands.layouts.of(strand.stack)
        if number not in self._ample and self._stays_in_text(strand, number, layout):
            for tokens in self._ample_in_text(layout):
                leave = tuple([tokens + each for each in layout.leave])
                end = tokens + layout.end + self.strands.eos
                if (enough := self._enough(strand, layout, Ample(leave, end, UNREACHABLE, 1))) < UNREACHABLE:
                    return self._words_of(layout, number), enough
        ample = self._ample.get(number)
        if ample is None:
            ample = self._ample[number] = self._found_ample(strand, number)
        return self.strands.tokens.words_from(number), self._enough(strand, layout, ample)

    def _enough(self, strand: Strand, layout: Layout, ample: Ample) -> int:
        lacking = [part.at_least - n - 1 for part, n in zip(layout.parts, strand.counts, strict=True)]
        more = max([0, *lacking])
        if more > 0:
            more = max(more, ample.more) + ample.step - 1
        if ample.end >= UNREACHABLE or more >= UNREACHABLE:
            return UNREACHABLE
        for part, count, leave in zip(layout.parts, strand.counts, ample.leave, strict=True):
            if part.at_most is not None and count + 1 + leave + more > part.at_most:
                return UNREACHABLE
        return ample.end + more

    # ------------------------------------------------------------ from the stretch on top

    def _stays_in_text(self, strand: Strand, number: int, layout: Layout) -> bool:
        """Return whether no token leaves the stretch on top of a stack."""
        found = self._stays.get(number)
        if found is None:
            found = layout.last
            if layout.stretch is not None and not found:
                all_words = self.strands.tokens.words_from(number)
                found = not (all_words & ~self.strands.stretches.words(layout.stretch)).any()
            self._stays[number] = found and layout.stretch is not None
        return self._stays[number]

    def _ample_in_text(self, layout: Layout) -> Iterator[int]:
        """Yield ever tighter numbers of tokens that suffice to end the stretch after any next token."""
        tokens, state = self.strands.stretches.tokens, self.strands.stretches.number(layout.stretch)
        for ample in (tokens.enough, tokens.ample, tokens.ample_in_tokens):
            if (found := ample(state)) < UNREACHABLE:
                yield found

    def _words_of(self, layout: Layout, number: int) -> Words:
        """Return the tokens of the stretch on top, and EOS if the whole text may end."""
        assert layout.stretch is not None
        words, eos = self.strands.stretches.words(layout.stretch), self.strands.tokens.eos_token_id
        may_end = self.strands.tokens.states.accepting(number)
        if bool(words.view(np.uint8)[eos >> 3] >> (eos & 7) & 1) == may_end:
            return words
        if (found := self._words.get(number)) is None:
            found = words.copy()
            put(found.view(np.uint8), np.array([eos]), may_end)
            keep(self._words, number, found, MAX_WORDS)
        return found

    # ------------------------------------------------------------ from all targets

    def _found_ample(self, strand: Strand, number: int) -> Ample:
        size, edges, states = len(strand.counts), self.strands.edges(number), self.strands.tokens.states
        leave, end, more, step = [0] * size, self.strands.eos, 0, 1
        for configuration, _ in edges:
            each = [self._after(stack) for stack in stacks_of(states.configurations[configuration])]
            best = min(each, key=lambda ample: ample.end)
            for i, tokens in enumerate(best.leave):
                leave[i] = max(leave[i], tokens)
            end, more, step = max(end, best.end), max(more, best.more), max(step, best.step)
        return Ample(tuple(leave), end, more, step)

    def _after(self, stack: Stack) -> Ample:
        """Return the tokens that one target needs, in the parts open before the token and in all."""
        strands, layout, old = self.strands, self.strands.layouts.of(stack), parts_from_before(stack)
        own = list(zip(layout.parts, layout.leave, strict=True))[old:]
        tokens = strands.tokens_of(layout, max([part.at_least - 1 - leave for part, leave in own], default=0))
        end = min(UNREACHABLE, tokens + layout.end + strands.eos)
        if any(part.at_most is not None and 1 + tokens + leave > part.at_most for part, leave in own):
            end = UNREACHABLE
        room = strands.stretches.room(layout.stretch)
        more = UNREACHABLE if own else max(0, room.least - tokens)
        leave = [min(UNREACHABLE, tokens + each) for each in layout.leave[:old]]
        return Ample(tuple(leave), end, more, room.step)
