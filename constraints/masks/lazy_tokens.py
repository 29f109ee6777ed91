"""A lazy byte automaton read through a vocabulary: token steps, masks, masks within budgets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from .. import limits
from ..automata.lazy import LazyAutomaton, Numbered
from ..automata.stack import StackAutomaton, forgets_names
from ..lifting.lazy_distances import Distances as Exact
from ..lifting.lazy_distances import short_search
from ..vocabulary.trie import put
from ..vocabulary.vocabulary import Vocabulary
from .completions import NEVER, Completions, Distances
from .steps import Steps
from .text_tokens import Bits
from .texts import Texts
from .token_masks import WORD, TokenMasks, Words
from .within import Wanted, tokens_to

MOST_NAMES = 500  # searches of one mask from names that must differ from others
BOUND_POSITIONS = (
    2  # times ``limits.POSITIONS``: of a search for an upper bound, where another has been given up
)
START_POSITIONS = 100  # times ``limits.POSITIONS``: of a search for the least budget of a constraint
LAST_POSITIONS = (
    10**7
)  # of a search for a token where no other is left: there is one unless the budget was passed by
MAX_PROMISES = 1 << 12  # texts to acceptance that are remembered
NO_STATE, SINK = -1, -2  # after a token that is not allowed; after EOS


class GivenUp(Exception):
    """A distance that a mask needs takes too long to find."""


class LazyTokens(Steps):
    """The token-level automaton of a lazy byte automaton, created on demand.

    States are numbers of configurations; :data:`SINK` follows EOS and reads EOS again, so that an accepted text can always
    be made longer. ``distances`` makes the distances to acceptance from the numbered states (default: a search on demand).
    """

    def __init__(
        self,
        automaton: LazyAutomaton,
        vocab: Vocabulary,
        require_eos: bool = True,
        distances: Callable[[Numbered], Distances] | None = None,
        texts: Texts | None = None,
    ) -> None:
        super().__init__()
        self.states, self.vocab, self.require_eos = Numbered(automaton), vocab, require_eos
        self.eos_token_id, self.vocabulary_fingerprint = vocab.eos_token_id, vocab.fingerprint
        self.vocab_size = len(vocab)
        self.texts = vocab.text_tokens if texts is None else texts
        self.masks = TokenMasks(self.states, vocab.trie, self.texts, vocab.eos_token_id)
        self.completions = Completions(self.states, vocab, require_eos)
        self.distances: Distances = (
            Exact(self.states, vocab, require_eos, short_search(vocab))
            if distances is None
            else distances(self.states)
        )
        self._promises: dict[int, bytes] = {}  # state -> a text to acceptance
        self.start_state = self.states.start()  # NO_STATE if no text is accepted
        self._only_eos = np.zeros(vocab.trie.num_bytes // 4, WORD)
        put(self._only_eos.view(np.uint8), np.array([vocab.eos_token_id]), True)
        self._nothing = np.zeros_like(self._only_eos)

    @property
    def full(self) -> bool:
        return len(self.states.configurations) > self.most_states

    # ------------------------------------------------------------ steps

    def _step(self, state: int, token: int) -> int:
        if token == self.eos_token_id:
            return SINK if state == SINK or (state >= 0 and self.states.accepting(state)) else NO_STATE
        word = self.vocab.token_bytes[token]
        return NO_STATE if word is None or state < 0 else self.read(state, word)

    def read(self, state: int, word: bytes) -> int:
        """Return the state after some bytes, −1 if they may not come.
        Letters of free text are read together."""
        states, walk, at, last = self.states, self.masks.walk, 0, len(word) - 1
        while True:
            if at < last and (body := walk.body(state)) is not None and word[at] not in body.exceptions:
                table = self.texts.table(body.letters)
                letters, count = table.counted(word[at:])
                if letters and (body.most is None or letters <= body.most):
                    if body.settled is not None:
                        letters = min(letters, max(1, body.settled))
                    state, at = states.number(body.after(letters)), at + count
                    if at > last:
                        return state
            state, at = states.alone(state, word, at)
            if state < 0 or at > last:
                return state

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in this state as it is, without another EOS."""
        return state == SINK or (not self.require_eos and state >= 0 and self.states.accepting(state))

    # ------------------------------------------------------------ masks

    def words_from(self, state: int) -> Words:
        """Return the mask of a state, EOS included, as packed words. They are read-only."""
        if state < 0:
            return self._only_eos if state == SINK else self._nothing
        return self.masks.mask(state).words

    def edges_from(self, state: int) -> list[tuple[int, Int[ndarray, " token"]]]:
        """Return the states that tokens lead to, each with those tokens; EOS included."""
        out = [] if state < 0 else list(self.masks.edges(state).items())
        if state == SINK or (state >= 0 and self.states.accepting(state)):
            out.append((SINK, np.array([self.eos_token_id])))
        return out

    # ------------------------------------------------------------ budgets

    def enough(self, state: int) -> int:
        """Return a bound as :meth:`ample`, quicker and often larger; :data:`NEVER` if unknown."""
        if state < 0:
            return 0
        return (
            min(NEVER, self.masks.mask(state).most + self.require_eos)
            if self.vocab.trie.spells_all
            else NEVER
        )

    def ample(self, state: int) -> int:
        """Return a budget, in tokens, that reaches acceptance after each token of the mask.

        If all bytes are tokens it counts a token for each byte; see :meth:`ample_in_tokens`.
        """
        if state < 0:
            return 0
        if not self.vocab.trie.spells_all:
            return self.ample_in_tokens(state)
        longest = max(map(len, self.masks.completions(state)))
        return longest + self.masks.fresh(state) + self.require_eos

    def ample_in_tokens(self, state: int) -> int:
        """Return a bound as :meth:`ample`, often smaller: completions take the fewest tokens."""
        if state < 0:
            return 0
        if self.vocab.trie.spells_all:
            return self.completions.bound_of_ends(state) + self.masks.fresh(state)
        return max([self.bound(target) for target, _ in self.edges_from(state)], default=0)

    def bound(self, state: int) -> int:
        """Return an upper bound of the tokens from a state to acceptance."""
        if state < 0:
            return 0 if state == SINK else NEVER
        return self.distances.bound(state)

    def fewest(self, state: int) -> int:
        """Return the fewest tokens from a state to acceptance."""
        if state < 0:
            return 0 if state == SINK else NEVER
        if state != self.start_state:
            return self.distances.fewest(state)
        with self.distances.up_to(START_POSITIONS * limits.POSITIONS):
            return self.distances.fewest(state)

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""
        if state < 0:
            return state == SINK and left >= 0
        if state != self.start_state:
            return self.distances.within(state, left)
        if self.distances.bound(state) <= left:
            return True
        return self.distances.lower_bound(state) <= left and self.fewest(state) <= left

    def words_within(self, state: int, left: int) -> Words:
        """Return the tokens of the mask after which ``left`` tokens reach acceptance. Read-only."""
        if left >= self.enough(state) or left >= self.ample(state) or left >= self.ample_in_tokens(state):
            return self.words_from(state)
        out, exact = np.zeros(self.vocab.trie.num_bytes, np.uint8), True
        if state >= 0:
            try:
                out = self._near(state, left, search=True)
            except GivenUp:
                with self.distances.up_to(BOUND_POSITIONS * limits.POSITIONS):
                    out, exact = self._near(state, left, search=False), False
        if state == SINK or (state >= 0 and self.states.accepting(state)):
            put(out, np.array([self.eos_token_id]), True)
        if state < 0 or out.any():
            return out.view(WORD)
        if (token := self._promised(state, left)) is not None:
            put(out, np.array([token]), True)
        elif not exact:
            edges = sorted(
                self.masks.edges(state).items(), key=lambda edge: (self.bound(edge[0]), edge[1].min())
            )
            for positions in (30 * limits.POSITIONS, 300 * limits.POSITIONS, LAST_POSITIONS):
                for target, tokens in edges:
                    if not out.any() and self.distances.searched(target, left, positions):
                        put(out, tokens, True)
        return out.view(WORD)

    def _near(self, state: int, left: int, search: bool) -> Bits:
        """Return the tokens of :meth:`words_within`, EOS apart.

        With ``search`` all distances are exact; raises :class:`GivenUp` where that takes too long, whatever was searched before.
        Without, upper bounds stand for them.
        """
        distances, searches = self.distances, MOST_NAMES

        def near(target: int) -> bool:
            nonlocal searches
            if target < 0:
                return False
            # states that differ in names are many
            if self.masks.walk.forgetful(target) != target:
                if self.bound(target) <= left or not search:
                    return self.bound(target) <= left
                searches -= distances.depends_on_names(target, left)
                if searches <= 0:
                    distances.given_up += 1
                    raise GivenUp
            if not search:
                return distances.lowered_bound(target, left) <= left
            given_up = distances.given_up
            found = self.within(target, left)
            if not found and distances.given_up > given_up:
                raise GivenUp
            return found

        found = self._for_any_names(state, left, near, search)
        return tokens_to(self.masks, state, near) if found is None else found

    def _promised(self, state: int, left: int) -> int | None:
        """Return the first token of a completion that takes ``left`` tokens after it; ``None`` if it takes more.

        What follows it is remembered: the state after it may have another completion, of more tokens.
        """
        texts = [self._promises[state]] if state in self._promises else []
        for text in (*texts, *self.masks.completions(state)):
            if text and self.completions.of_text(text) <= left + 1:
                token = self.completions.tokens(text)[0]
                if len(self._promises) >= MAX_PROMISES:
                    self._promises.pop(next(iter(self._promises)))
                self._promises[self.step(state, token)] = text[len(self.vocab.token_bytes[token] or b"") :]
                return token
        return None

    def _for_any_names(self, state: int, left: int, near: Wanted, search: bool) -> Bits | None:
        """Compute the tokens of :meth:`words_within` without the texts of names, each of which makes a state of its own.

        Of a name, a class of its first byte is kept. Tokens for which that does not decide are judged one by one, by ``near``.
        Return ``None`` if they are many, or if the automaton compares no names here. Raises :class:`GivenUp` in a ``search``.
        """
        states, trie = self.states, self.vocab.trie
        automaton = states.automaton
        if type(automaton) is not StackAutomaton:
            return None
        begin = states.number(automaton.names_forgotten(states.configurations[state]))
        if begin == state:
            return None
        judged: dict[int, bool | None] = {}

        def near_any(target: int) -> bool:
            if forgets_names(states.configurations[target]):
                given_up = self.distances.given_up
                judged[target] = self.distances.within_for_any_names(target, left, search)
                if self.distances.given_up > given_up:
                    raise GivenUp
            else:
                judged[target] = near(target)
            return bool(judged[target])

        out, apart = tokens_to(self.masks, begin, near_any), dict(trie.of_two_names)
        if None in judged.values():
            unknown = tokens_to(self.masks, begin, lambda target: judged.get(target) is None)
            tokens = np.flatnonzero(np.unpackbits(unknown, bitorder="little")).tolist()
            if len(tokens) > MOST_NAMES:
                return None
            apart |= {token: self.vocab.token_bytes[token] for token in tokens}
        for token, text in apart.items():
            target = states.run(state, text)
            put(out, np.array([token]), target >= 0 and near(target))
        return out
