"""Which tokens may follow: a program read through a vocabulary.

    mask(state)        = { t : some tokens after t reach acceptance }
    mask(state, left)  = { t : at most ``left`` tokens after t reach acceptance }

The end token reads nothing: it may follow a text that is accepted, and counts as a token. The distances are exact; if a
search for one passes its limit, its state counts as one without completion: the mask is narrower, whatever was asked before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Int, Int32
from numpy import ndarray

from ..program.node import Kind, Node
from ..program.nodes import reachable
from ..vocabulary.vocabulary import Vocabulary
from .crossing import PerToken, Weight, cheapest
from .steps import NO_STATE, Steps

Words = Int32[ndarray, " words"]

SINK = -2
"""The state after the end token, which may be read again."""
NEVER = 1 << 62
"""The distance of a state that has no completion."""
FREE = 1 << 60
"""Tokens from which on any number may follow."""
MOST_STATES = 200_000
"""States from which on a new automaton takes over."""
MASK_BYTES = 1 << 26
"""Bytes of masks that an automaton keeps."""


@final
class ProgramTokens:
    """The automaton over tokens of a program, its states made when they are met; see ``TokenStates`` of the masks.

    States are those of :class:`~.steps.Steps` at the end of a token, :data:`~.steps.NO_STATE` and :data:`SINK`.
    ``require_eos``: whether a text is finished only by the end token.
    """

    def __init__(self, node: Node, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.node, self.vocab, self.require_eos = node, vocab, require_eos
        self.eos_token_id, self.vocabulary_fingerprint = vocab.eos_token_id, vocab.fingerprint
        self.vocab_size = len(vocab)
        self.steps = Steps(node)
        self._spells = not self.steps.has_budgets and are_tokens(reachable(self.steps.program), vocab)
        self._completions: dict[int, Weight | None] = {}
        self._edges: dict[int, dict[int, list[int]]] = {}
        self._masks: dict[tuple[int, int], Words] = {}
        self.is_exact = True
        self.start_state = self.steps.start if self.is_live(self.steps.start) else NO_STATE

    @property
    def full(self) -> bool:
        """Whether so many states have been met that a new automaton should take over."""
        return len(self.steps.configurations) > MOST_STATES

    def renewed(self) -> ProgramTokens:
        """Return an automaton that has met no states yet."""
        return ProgramTokens(self.node, self.vocab, self.require_eos)

    # ------------------------------------------------------------ steps

    def step(self, state: int, token: int) -> int:
        """Return the state after a token, -1 if the token may not follow."""
        if token == self.eos_token_id:
            return SINK if state == SINK or self.steps.accepting(state) else NO_STATE
        word = self.vocab.token_bytes[token]
        if state < 0 or not word:
            return NO_STATE
        target = self.steps.token_end(self.steps.run(state, word))
        return target if self.is_live(target) else NO_STATE

    def after(self, rows: Sequence[tuple[Any, ...]], tokens: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return each row after its token: (state, tokens left, row before). A row with no tokens left keeps its state."""
        return [
            (self.step(row[0], token), row[1] - 1, row) if row[1] > 0 else (row[0], 0, row)
            for row, token in zip(rows, tokens, strict=True)
        ]

    def reads(self, text: bytes) -> bool:
        """Return whether a text is accepted, byte by byte."""
        return self.steps.accepting(self.steps.run(self.start_state, text))

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in this state as it is, without another end token."""
        return state == SINK or (not self.require_eos and self.steps.accepting(state))

    # ------------------------------------------------------------ distances

    def completion(self, state: int) -> Weight | None:
        """Return the fewest tokens from a state to acceptance, without the end token, and the text that they write.

        None if there are none, or none was found.
        """
        if state not in self._completions:
            configuration = self.steps.configurations[state]
            self._completions[state] = cheapest(PerToken(self.vocab.trie), configuration)
        return self._completions[state]

    def is_live(self, state: int) -> bool:
        """Return whether some tokens lead from a state to acceptance."""
        return state != NO_STATE and (self._spells or self.completion(state) is not None)

    def fewest(self, state: int) -> int:
        """Return the fewest tokens from a state to acceptance, :data:`NEVER` if there are none."""
        if state < 0:
            return 0 if state == SINK else NEVER
        found = self.completion(state)
        return NEVER if found is None else found.cost + self.require_eos

    def exact(self, state: int, budget: int) -> bool:
        """Return whether the mask of a state with a budget is exact."""
        return self.is_exact

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""
        return self.fewest(state) <= left

    # ------------------------------------------------------------ masks

    def edges(self, state: int) -> dict[int, list[int]]:
        """Return the states that tokens lead to, each with those tokens; not the end token."""
        if state < 0:
            return {}
        if state not in self._edges:
            self._edges[state] = self._walk(state)
        return self._edges[state]

    def _walk(self, state: int) -> dict[int, list[int]]:
        """Read the trie from a state."""
        trie, steps = self.vocab.trie, self.steps
        found: dict[int, list[int]] = {}
        todo = [(0, state)]
        while todo:
            node, before = todo.pop()
            for byte, child in trie.children(node).items():
                after = steps.step(before, byte)
                if after == NO_STATE:
                    continue
                todo.append((child, after))
                low, own = trie.views.low[child], trie.views.own[child]
                target = steps.token_end(after)
                if own and self.is_live(target):
                    found.setdefault(target, []).extend(trie.order[low : low + own].tolist())
        return found

    def words_within(self, state: int, left: int = NEVER) -> Words:
        """Return as a bit mask the tokens that may follow a state and after which ``left`` tokens suffice."""
        if (state, left) not in self._masks:
            if 4 * len(self._masks) * (self.vocab_size // 32) > MASK_BYTES:
                self._masks.clear()
            self._masks[state, left] = self._within(state, left)
        return self._masks[state, left].copy()

    def _within(self, state: int, left: int) -> Words:
        if left < 0:
            return _packed([], self.vocab_size)
        tokens = [
            token
            for target, some in self.edges(state).items()
            if left >= FREE or self.fewest(target) <= left
            for token in some
        ]
        if state == SINK or self.steps.accepting(state):
            tokens.append(self.eos_token_id)
        return _packed(tokens, self.vocab_size)

    def allows(self, state: int, budget: int, token: int) -> bool:
        """Return whether the mask of a state with a budget has a token."""
        return bool(self.words_within(state, budget - 1)[token >> 5] >> (token & 31) & 1)

    def fill(self, rows: Sequence[tuple[Any, ...]], out: Int32[ndarray, "row words"]) -> None:
        """Write the masks of rows, each of which begins with its state and its budget; words past the vocabulary become zero."""
        for line, (state, budget, *_) in zip(out, rows, strict=True):
            words = self.words_within(state, budget - 1)
            line[: len(words)], line[len(words) :] = words, 0


def _packed(tokens: Iterable[int], size: int) -> Words:
    """Return a set of tokens as words of 32 bits."""
    bits = np.zeros(-(-size // 32) * 32, bool)
    bits[list(tokens)] = True
    return np.packbits(bits, bitorder="little").view(np.int32)


def are_tokens(program: Iterable[Node], vocab: Vocabulary) -> bool:
    """Return whether each byte that the nodes of a program read is a token by itself."""
    if vocab.trie.single.all():
        return True
    used: Int[ndarray, " bytes"] = np.zeros(257, int)
    for node in program:
        for table in node.tables if node.kind is not Kind.WITHIN else ():
            np.add.at(used, table.edges[:, 1], 1)
            np.subtract.at(used, table.edges[:, 2] + 1, 1)
    return not ((np.cumsum(used)[:256] > 0) & ~vocab.trie.single).any()
