"""The token automaton of a constraint with budgets of parts: transitions and masks.

A token is in a mask exactly if one of the strands that it leads to can be completed. Where no limit is near, that is every
token that the bytes allow (``far.py``).
"""

from __future__ import annotations

from collections import OrderedDict
from operator import le

import numpy as np

from ...circuits.automaton import UNREACHABLE
from ...errors import EmptyLanguage
from ..automata.region import Machine
from ..automata.stack import Stack
from ..masks.lazy_tokens import NO_STATE, SINK
from ..masks.steps import Steps
from ..masks.text_tokens import keep
from ..masks.token_masks import WORD, Words
from ..vocabulary.trie import put
from ..vocabulary.vocabulary import Vocabulary
from .automaton import Counts, Strand, frames, lacks_tokens, parts_of
from .far import Far
from .search import MOST_STRANDS, Strands

MAX_MASKS = 1 << 10  # masks near a limit in the cache
MOST_GIVEN_UP = 1  # abandoned searches of one mask, after which only bounds decide
MOST_TRIED = 8  # tokens' targets that are searched for longer if the mask would be empty
State = frozenset[Strand]


class LimitedTokens(Steps):
    """A lazy token automaton whose states are sets of strands of a machine with parts.

    States are numbers; ``SINK`` follows EOS. ``given_up``: see :class:`~.search.Strands`. Raises ``EmptyLanguage`` if no text
    obeys the limits.
    """

    def __init__(self, root: Machine, vocab: Vocabulary, require_eos: bool = True) -> None:
        super().__init__()
        self._root = root
        self.strands = Strands(root, vocab, require_eos)
        self.vocab, self.require_eos, self.vocab_size = vocab, require_eos, len(vocab)
        self.eos_token_id, self.vocabulary_fingerprint = vocab.eos_token_id, vocab.fingerprint
        self._states: list[State] = []
        self._number: dict[State, int] = {}
        self._far, self._cut_short = Far(self.strands), 0
        self._masks: OrderedDict[tuple[Strand, int], tuple[Words, int]] = OrderedDict()
        start = self.strands.start()
        if not self.strands.starts_within(UNREACHABLE):
            raise EmptyLanguage(self._reason(root))
        self.start_state = self._numbered(frozenset([start]))

    @property
    def full(self) -> bool:
        return len(self._states) > self.most_states or self.strands.tokens.full

    def renewed(self) -> LimitedTokens:
        """Return the automaton without the states that it has met."""
        return LimitedTokens(self._root, self.vocab, self.require_eos)

    @property
    def given_up(self) -> int:
        """The number of searches that were abandoned, and of masks for which too much was searched."""
        return self.strands.given_up + self._cut_short

    def _reason(self, root: Machine) -> str:
        """Return the message that says why no text obeys the limits."""
        strands = self.strands
        for part in parts_of(root):
            if strands.layouts.least(part) == UNREACHABLE:
                fewest = strands.layouts.least(part.part)
                if fewest >= UNREACHABLE:
                    return f"no text obeys {part.name}: the vocabulary cannot write a text of this part"
                if part.at_most is not None and fewest > part.at_most:
                    return (
                        f"no text obeys {part.name}: this part takes {fewest} tokens or more; raise at_most"
                    )
                return f"no text obeys {part.name}: no text of this part is found that takes as many tokens; lower at_least"
        return "no text obeys the limits of all parts together; raise at_most, or lower at_least"

    # ------------------------------------------------------------ steps

    def _numbered(self, state: State) -> int:
        found = self._number.get(state)
        if found is None:
            found = self._number[state] = len(self._states)
            self._states.append(state)
        return found

    def _step(self, state: int, token: int) -> int:
        if token == self.eos_token_id:
            return SINK if state == SINK or self._may_end(state) else NO_STATE
        if state < 0:
            return NO_STATE
        strands, found = self.strands, list[Strand]()
        for strand in self._states[state]:
            target = strands.tokens.step(strands.number(strand), token)
            if target >= 0:
                found += strands.after(target, strand.counts)
        return self._numbered(smallest(found)) if found else NO_STATE

    def _may_end(self, state: int) -> bool:
        tokens = self.strands.tokens
        return state >= 0 and any(
            tokens.states.accepting(self.strands.number(strand)) for strand in self._states[state]
        )

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in this state without a further token."""
        return state == SINK or (not self.require_eos and self._may_end(state))

    # ------------------------------------------------------------ budgets

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""
        if state < 0:
            return state == SINK and left >= 0
        if state == self.start_state:
            return self.strands.starts_within(left)
        return any(self.strands.within(strand, left) for strand in self._states[state])

    def bound(self, state: int) -> int:
        """Return an upper bound of the tokens from a state to acceptance."""
        if state < 0:
            return 0 if state == SINK else UNREACHABLE
        return min([self.strands.enough(strand) for strand in self._states[state]])

    def fewest(self, state: int) -> int:
        """Return the fewest tokens from a state to acceptance."""
        most = self.bound(state)
        while 0 < most < UNREACHABLE and self.within(state, most - 1):
            most -= 1
        return most

    # ------------------------------------------------------------ masks

    def words_from(self, state: int) -> Words:
        """Return the tokens that may follow a state, EOS included, as a bit mask; not to be written to."""
        return self.words_within(state, UNREACHABLE)

    def words_within(self, state: int, left: int) -> Words:
        """Return the tokens after which ``left`` tokens suffice, as a bit mask; not to be written to."""
        if state < 0:
            return self.strands.tokens.words_from(state)
        words = [self._mask(strand, left)[0] for strand in self._states[state]]
        return words[0] if len(words) == 1 else np.bitwise_or.reduce(words)

    def enough(self, state: int) -> int:
        """Return a number of tokens that suffices after each token that may follow a state."""
        if state < 0:
            return 0
        return max([self._mask(strand, UNREACHABLE)[1] for strand in self._states[state]])

    def ample(self, state: int) -> int:
        """Return :meth:`enough`."""
        return self.enough(state)

    def _mask(self, strand: Strand, left: int) -> tuple[Words, int]:
        """Return the mask of a strand, and the number of tokens left from which it does not grow."""
        number = self.strands.number(strand)
        words, enough = self._far.mask(strand, number)
        if enough < UNREACHABLE and enough <= left:
            return words, enough
        found = self._masks.get((strand, left))
        if found is None:
            found = keep(self._masks, (strand, left), self._near(strand, number, left), MAX_MASKS)
        return found

    def _near(self, strand: Strand, number: int, left: int) -> tuple[Words, int]:
        """Compute :meth:`_mask` near a limit: check the targets of each token."""
        strands, enough, given_up = self.strands, 0, self.strands.given_up + MOST_GIVEN_UP
        looked_at = strands.looked_at + MOST_STRANDS
        out = np.zeros(self.vocab.trie.num_bytes, np.uint8)
        if strands.tokens.states.accepting(number):
            put(out, np.array([self.eos_token_id]), True)
        edges = [
            (strands.after(configuration, strand.counts), tokens)
            for configuration, tokens in strands.edges(number)
        ]
        for targets, tokens in edges:
            if strands.given_up < given_up and strands.looked_at > looked_at:
                self._cut_short, given_up = self._cut_short + 1, 0
            within = strands.within if strands.given_up < given_up else strands.surely_within
            allowed = [target for target in targets if within(target, left)]
            if allowed:
                put(out, tokens, True)
                enough = max(enough, min([strands.enough(target) for target in allowed]))
        if not out.any() and strands.given_up >= given_up:  # one token suffices to go on
            edges.sort(key=lambda edge: min([strands.tokens_left(target) for target in edge[0]]))
            for targets, tokens in edges[:MOST_TRIED]:
                if any(strands.searched(target, left) for target in targets):
                    put(out, tokens, True)
                    break
        return out.view(WORD), enough


def smallest(strands: list[Strand]) -> State:
    """Drop each strand with another of the same stack and lower counts, if no part lacks tokens."""
    if len(strands) < 2:
        return frozenset(strands)
    by_stack: dict[Stack, list[Counts]] = {}
    for stack, counts in strands:
        by_stack.setdefault(stack, []).append(counts)
    found = list[Strand]()
    for stack, some in by_stack.items():
        if len(some) > 1 and not any(lacks_tokens(frame) for frame in frames(stack)):
            some = [a for a in set(some) if not any(b != a and all(map(le, b, a)) for b in some)]
        found += [Strand(stack, counts) for counts in some]
    return frozenset(found)
