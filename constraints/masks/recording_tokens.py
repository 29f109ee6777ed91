"""Token masks of stack automata with comparisons: those of the stacks, less what these bar.

Comparisons can forbid a token only if the current item may still become one that was seen, or if the token ends one item and
goes on with the next. The first are found on the way down the vocabulary's trie along the items that were seen; the second
are few, and are read one by one.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata.comparing_stack import Reading, Readings, RecordingAutomaton, frames, is_recorded, plain_part
from ..automata.lazy import Configuration
from ..automata.stack import StackAutomaton
from ..vocabulary.trie import put
from ..vocabulary.vocabulary import Vocabulary
from .completions import NEVER, Completions, Distances
from .item_tokens import tokens_of
from .lazy_tokens import LazyTokens
from .steps import Steps
from .text_tokens import Bits, keep
from .token_masks import WORD, Words

RECORDED = 1 << 40
"""The number of the first state with records."""
MOST_RECORDED = 1 << 13
"""The most states with records that are found again by their readings."""
BETWEEN = b", \t\n\r]"
Forbidden = tuple[list[int], list[int], int]


class Recorded(int):
    """A state with records: its number, and what is known of it.

    It lives as long as a query or a table refers to it. The texts of items make ever new ones, so tables keep the latest
    only. A state that is met again later gets another number.
    """

    readings: Readings
    plain: int  # the state of the stacks alone
    forbidden: Forbidden | None
    promised: bytes | None  # a text to acceptance that an earlier mask has allowed
    promises: dict[int, Recorded]  # by token, the state after it if a mask has promised a text


class RecordingTokens(Steps):
    """The token-level automaton of a stack automaton with comparisons.

    Distances are exact, except near items that must differ from others: there they are those of a completion. The memory that
    states with records take is bounded.
    """

    most_steps = 1 << 15

    def __init__(self, automaton: StackAutomaton, vocab: Vocabulary, require_eos: bool = True) -> None:
        super().__init__()
        self.base = LazyTokens(automaton, vocab, require_eos)
        self._texts_bounds = Completions(self.base.states, vocab, require_eos)
        if automaton.needs_distinct:
            self.base.distances = self._texts_bounds
        self.plain, self.recording = automaton, RecordingAutomaton(automaton)
        self.vocab, self.vocab_size, self.require_eos = vocab, len(vocab), require_eos
        self.eos_token_id, self.vocabulary_fingerprint = vocab.eos_token_id, vocab.fingerprint
        self._recorded: OrderedDict[Readings, Recorded] = OrderedDict()
        self._forbidden: dict[int, Forbidden] = {}  # of states without records
        self._numbers = itertools.count(RECORDED)
        self._read: tuple[int, dict[bytes, set[Reading]]] = -1, {}  # a state, readings by the text after it
        start = self.recording.start()
        self.start_state = -1 if start is None else self.state(start)

    @property
    def full(self) -> bool:
        return self.base.full

    def renewed(self) -> RecordingTokens:
        """Return the automaton without the states that it has met."""
        return RecordingTokens(self.plain.renewed(), self.vocab, self.require_eos)

    @property
    def distances(self) -> Distances:
        """The distances of the stacks."""
        return self.base.distances

    # ------------------------------------------------------------ states

    def state(self, configuration: Configuration) -> int:
        """Return the state of a configuration."""
        if not isinstance(configuration, Readings):
            return self.base.states.number(configuration)
        found = self._recorded.get(configuration)
        if found is None:
            found = Recorded(next(self._numbers))
            found.readings, found.plain = configuration, self.base.states.number(plain_part(configuration))
            found.forbidden, found.promised, found.promises = None, None, {}
            keep(self._recorded, configuration, found, MOST_RECORDED)
        return found

    def configuration(self, state: int) -> Configuration:
        """Return the configuration of a state."""
        return state.readings if isinstance(state, Recorded) else self.base.states.configurations[state]

    def plain_state(self, state: int) -> int:
        """Return the state of the stacks alone, without records."""
        return state.plain if isinstance(state, Recorded) else state

    def step(self, state: int, token: int) -> int:
        """Return the state after a token, −1 if it is not allowed."""
        if isinstance(state, Recorded):
            return state.promises.get(token) or super().step(state, token)
        if not self.plain.compares:
            after = self.base.step(state, token)
            if not self.plain.compares:
                return after
        return super().step(state, token)

    def _step(self, state: int, token: int) -> int:
        if token == self.eos_token_id:
            return self.base.step(self.plain_state(state), token)
        if state < RECORDED:
            after = self.base.step(state, token)
            if after < 0 or not is_recorded(self.base.states.configurations[after]):
                return after
        word = self.vocab.token_bytes[token]
        return -1 if word is None else self._compared_after(state, word)

    def read(self, state: int, word: bytes) -> int:
        """Return the state after some bytes, −1 if they may not come."""
        if state < RECORDED:
            after = self.base.read(state, word)
            if after < 0 or not is_recorded(self.base.states.configurations[after]):
                return after
        return self._compared_after(state, word)

    def _compared_after(self, state: int, word: bytes) -> int:
        found = self.recording.configuration(self._readings_after(state, word))
        return -1 if found is None else self.state(found)

    def _readings_after(self, state: int, word: bytes) -> set[Reading]:
        """Return the readings after a text, perhaps some that cannot be completed.
        Those after its prefixes are kept for the last state."""
        last, known = self._read  # at once: another thread may replace it
        if last != state:
            known = {b"": set(self.recording.readings(self.configuration(state)))}
            self._read = state, known
        at = len(word)
        while word[:at] not in known:
            at -= 1
        now = known[word[:at]]
        for end in range(at + 1, len(word) + 1):
            now = known[word[:end]] = self.recording.all_after(now, word[end - 1 : end])
        return now

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in this state as it is."""
        return self.base.accepting(self.plain_state(state))

    # ------------------------------------------------------------ masks

    def words_from(self, state: int) -> Words:
        """Return the mask of a state, EOS included, as packed words. They are read-only."""
        words = self.base.words_from(self.plain_state(state))
        if state < 0 or not self.plain.compares:
            return words
        forbidden, _, _ = self.forbidden(state)
        return without(words, forbidden)

    def forbidden(self, state: int) -> Forbidden:
        """Return the tokens that comparisons forbid, those checked and allowed, and a bound.

        The bound is on the bytes of a completion after one of the allowed ones.
        """
        found = state.forbidden if isinstance(state, Recorded) else self._forbidden.get(state)
        if found is None:
            found = self._compared(state)
            if isinstance(state, Recorded):
                state.forbidden = found
            else:
                self._forbidden[state] = found
        return found

    def _compared(self, state: int) -> tuple[list[int], list[int], int]:
        words = self.base.words_from(self.plain_state(state)).view(np.uint8)
        readings = self.recording.readings(self.configuration(state))
        barred, passed, most = list[int](), list[int](), 0
        near: dict[int, set[Reading]] = {}
        if state >= RECORDED:
            near = self._along(set(readings), words, barred)
        for live in {id(live): live for live in near.values()}.values():
            most = max(most, self.recording.completion_size(live))
        passed += near
        for token in self._between_items(state, readings, words):
            if token in near:
                continue
            target = self.step(state, token)
            (passed if target != -1 else barred).append(token)
            if target >= RECORDED:
                most = max(most, len(self.recording.completion(self.configuration(target))))
        return barred, passed, most

    def _along(
        self, readings: set[Reading], words: Int[ndarray, " bytes"], barred: list[int]
    ) -> dict[int, set[Reading]]:
        """Return the tokens after which an item may still become one that was seen, with the readings after each.

        ``barred`` gets the tokens after which it must.
        """
        trie, near = self.vocab.trie, dict[int, set[Reading]]()
        todo = [(readings, 0)]
        while todo:
            here, node = todo.pop()
            onward = self._onward(here)
            for byte, child in trie.children(node).items() if onward else ():
                if byte not in onward:
                    continue
                after = {one for reading in here for one in self.recording.after(reading, byte)}
                live = {reading for reading in after if self.recording.is_live(reading)}
                if live:
                    own = trie.order[int(trie.low[child]) : int(trie.low[child] + trie.own[child])]
                    near.update(
                        dict.fromkeys(own[(words[own >> 3] >> (own & 7) & 1).astype(bool)].tolist(), live)
                    )
                    todo.append((live, child))
                else:
                    below = trie.order[int(trie.low[child]) : int(trie.high[child])]
                    barred += below[(words[below >> 3] >> (below & 7) & 1).astype(bool)].tolist()
        return near

    def _onward(self, readings: set[Reading]) -> set[int]:
        """Return the bytes that may go on towards items that were seen, or end an item."""
        found = set[int]()
        for stack, records in readings:
            for record, frame in zip(records, frames(stack), strict=True):
                rivals, text = record.rivals, record.text or b""
                if record.text is None:
                    rivals = record.seen
                for value in rivals:
                    found.update(frame.machine.towards(text, value) or b"")
                if rivals or not frame.machine.may_end(frame.local):
                    found.update(BETWEEN)
        return found

    def _between_items(self, state: int, readings: Iterable[Reading], words: Bits) -> list[int]:
        """Return tokens of a mask, among them all that end an item and go on with the next."""
        level = 0
        if state >= RECORDED:
            level = min(self._closers(reading) for reading in readings)
        between = self.vocab.item_tokens.between
        some = words & between[min(level, len(between) - 1)]
        body = self.base.masks.walk.body(self.plain_state(state))
        if body is not None:
            text, _ = self.base.texts.below(self.base.texts.table(body.letters), self.vocab.trie, 0)
            some &= ~self.base.texts.made_of_letters(text, text.most)
        return tokens_of(some)

    def _closers(self, reading: Reading) -> int:
        """Return how many containers must be closed before the item ends."""
        stack, records = reading
        depth, opened = records[-1].depth if records else -1, 0
        frame = stack
        while frame.depth > depth and frame.parent is not None:
            opened += frame.machine.ends_with in (b"]", b"}")
            frame = frame.parent
        return opened

    # ------------------------------------------------------------ budgets

    def enough(self, state: int) -> int:
        """Return a budget, in tokens, that reaches acceptance after each token of the mask."""
        found = self.base.enough(self.plain_state(state))
        if state < 0 or not self.plain.compares:
            return found
        return max(found, self.forbidden(state)[2] + self.require_eos)

    def ample(self, state: int) -> int:
        """Return a bound as :meth:`enough`, often lower."""
        return self.base.ample(state) if self._has_plain_distances(state) else self.enough(state)

    def ample_in_tokens(self, state: int) -> int:
        """Return a bound as :meth:`ample`, often lower."""
        return self.base.ample_in_tokens(state) if self._has_plain_distances(state) else self.enough(state)

    def _has_plain_distances(self, state: int) -> bool:
        """Return whether the distances of the stacks hold for a state and those after it."""
        return state < RECORDED and not self.plain.needs_distinct

    def is_free(self, state: int) -> bool:
        """Return whether comparisons cannot affect the distance to acceptance."""
        return not isinstance(state, Recorded) or all(map(self.recording.is_free, state.readings))

    def bound(self, state: int) -> int:
        """Return an upper bound of the tokens from a state to acceptance."""
        if self.is_free(state):
            return self.base.bound(self.plain_state(state))
        return self._texts_bounds.of_text(self._shortest(state))

    def _shortest(self, state: int) -> bytes:
        """Return the completion or the promised text to acceptance, whichever takes fewer tokens."""
        texts = [self.recording.completion(self.configuration(state))]
        if isinstance(state, Recorded) and state.promised is not None:
            texts.append(state.promised)
        return min(texts, key=self._texts_bounds.of_text)

    def fewest(self, state: int) -> int:
        """Return the fewest tokens to acceptance; those of a completion if items must differ."""
        return self.base.fewest(self.plain_state(state)) if self.is_free(state) else self.bound(state)

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance; see :meth:`fewest`."""
        if self.is_free(state):
            return self.base.within(self.plain_state(state), left)
        return self.bound(state) <= left

    def words_within(self, state: int, left: int) -> Words:
        """Return the tokens of the mask after which ``left`` tokens reach acceptance. Read-only."""
        if state < 0 or not self.plain.compares:
            return self.base.words_within(state, left)
        if left >= self.enough(state):
            return self.words_from(state)
        words = self.base.words_within(self.plain_state(state), left - self._more(state))
        barred, passed, _ = self.forbidden(state)
        far = [token for token in passed if not self.within(self.step(state, token), left)]
        return self._with_completion(state, left, without(words, [*barred, *far]))

    def _more(self, state: int) -> int:
        """Return a bound on the tokens that a completion takes beyond one of the stacks.

        It holds after tokens of the mask that were not checked: items that are required must differ.
        """
        if not isinstance(state, Recorded):
            return 0
        return max(
            sum(
                frame.machine.longest or NEVER
                for frame in frames(stack)
                if not frame.machine.may_end(frame.local)
            )
            for stack, _ in state.readings
        )

    def _with_completion(self, state: int, left: int, words: Words) -> Words:
        """Add the first token of a completion to a mask, if the completion fits the budget."""
        if self.is_free(state):
            return words
        text = self._shortest(state)
        tokens = self._texts_bounds.tokens(text)
        if not tokens or len(tokens) + self.require_eos - 1 > left:
            return words
        target = self.step(state, tokens[0])
        rest = text[len(self.vocab.token_bytes[tokens[0]] or b"") :]
        if isinstance(state, Recorded) and isinstance(target, Recorded):
            known = target.promised
            if known is None or self._texts_bounds.of_text(rest) < self._texts_bounds.of_text(known):
                target.promised = rest
            state.promises[tokens[0]] = target
        out = words.copy()
        put(out.view(np.uint8), np.array(tokens[:1]), True)
        return out.view(WORD)


def without(words: Words, tokens: list[int]) -> Words:
    """Return a mask without some tokens."""
    if not tokens:
        return words
    out = words.copy()
    put(out.view(np.uint8), np.array(tokens), False)
    return out.view(WORD)
