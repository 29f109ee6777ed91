"""The mask of a configuration, and the tokens by the configuration that they lead to.

A mask is kept by the configuration's view as far as the longest token reaches, so all configurations that differ only in
registers far from their limits share it. In free text it is

    tokens of at most ``most`` letters  −  those below an exception  ∪  tokens that leave the text  ∪  walks from exceptions

where what follows after leaving is kept by the view of the configuration there.

Kept with a mask is how many bytes, at most, a completion after a token has before an end of the completion before it:
configurations of one view agree in that (see :class:`~..automata.lazy.LazyAutomaton`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int32
from numpy import ndarray

from ..automata.arrays import spans
from ..automata.lazy import Numbered
from ..vocabulary.trie import Trie, put
from .completions import common_end
from .text_part import Ranks, TextPart
from .text_tokens import Bits, Remainders, Texts, add, keep
from .walk import Pairs, Walk

WORD = np.dtype("<i4")
MASK_BYTES = 1 << 26  # of masks kept for one automaton
MAX_EXITS = 1 << 14  # sets of tokens that leave free text, kept for one automaton
ONE_BY_ONE = 64  # tokens that are set one by one
Words = Int32[ndarray, " words"]


class Mask(NamedTuple):
    """A mask. The completion after each of its tokens is at most ``fresh`` bytes and then an end of one before it."""

    words: Words
    fresh: int


class Exit(NamedTuple):
    """The remainders that can be read from a configuration; ``fresh`` as for :class:`Mask`."""

    ranks: Ranks
    fresh: int


class TokenMasks:
    """The masks of one automaton through one vocabulary, without budgets."""

    def __init__(self, states: Numbered, trie: Trie, texts: Texts, eos_token_id: int) -> None:
        self.states, self.trie, self.texts, self.eos_token_id = states, trie, texts, eos_token_id
        self.walk = Walk(states)
        self.reach = len(trie.bounds) - 2  # bytes of the longest token
        self._masks: OrderedDict[Hashable, Mask] = OrderedDict()
        self._most_masks = max(16, MASK_BYTES // max(1, trie.num_bytes))
        self._exits: OrderedDict[tuple[Hashable, Trie, int], Exit] = OrderedDict()
        self._exit_edges: OrderedDict[tuple[int, Trie, int], list[tuple[int, Ranks]]] = OrderedDict()

    def view(self, state: int) -> Hashable:
        """The key of all that a token can meet from a state."""
        return self.states.automaton.view(self.states.configurations[state], self.reach)

    # ------------------------------------------------------------ masks

    def mask(self, state: int) -> Mask:
        """The tokens that may follow a state, EOS too; the words are not to be written to."""
        key = self.view(state)
        found = self._masks.get(key)
        if found is None:
            bits, fresh = self._union(self.trie, [(state, 0)], self.completions(state))
            if self.states.accepting(state):
                bits[self.eos_token_id >> 3] |= 1 << (self.eos_token_id & 7)
            bits.flags.writeable = False
            found = Mask(bits.view(WORD), fresh)
            keep(self._masks, key, found, self._most_masks)
        return found

    def completions(self, state: int) -> Sequence[bytes]:
        """Texts from a state to acceptance, one for each way in which the text so far can be understood."""
        return self.states.automaton.completions(self.states.configurations[state])

    def _fresh(self, ends: Pairs, swept: list[tuple[Ranks, Ranks]], base: Sequence[bytes]) -> int:
        """The most bytes before an end of one of ``base`` in the completions of the states that a walk has met."""
        states = {state for state, _ in ends}
        states.update(*(np.unique(some).tolist() for some, _ in swept))
        return max([self._new_bytes(state, base) for state in states], default=0)

    def _new_bytes(self, state: int, base: Sequence[bytes]) -> int:
        text = self.states.automaton.completion(self.states.configurations[state])
        return len(text) - max([common_end(text, one) for one in base])

    def _union(self, trie: Trie, pairs: Pairs, base: Sequence[bytes]) -> tuple[Bits, int]:
        """The tokens below some nodes that can be read from the states beside them; see :meth:`_fresh`."""
        ends, texts, swept = self.walk.walk(trie, pairs)
        out, fresh = None, self._fresh(ends, swept, base)
        for state, node in texts:
            more, new = self._text(state, trie, node, base)
            out = more if out is None else np.bitwise_or(out, more, out=out)
            fresh = max(fresh, new)
        if out is None:
            out = np.zeros(trie.num_bytes, np.uint8)
        (_, own, low, _, order), tokens = trie.views, list[int]()
        for _, node in ends:
            at = low[node]
            tokens.append(order[at])
            if own[node] > 1:
                tokens += order[at + 1 : at + own[node]]
        if tokens:
            add(out, np.array(tokens))
        for _, ranks in swept:
            add(out, trie.order[ranks])
        return out, fresh

    def _text(self, state: int, trie: Trie, node: int, base: Sequence[bytes]) -> tuple[Bits, int]:
        """:meth:`_union` for one state in free text."""
        part = TextPart(self.walk, self.texts, state, trie, node)
        exits = part.text.exits
        out = self.texts.made_of_letters(part.text, part.most + part.before).copy()
        if part.text.node != node:
            out &= self.texts.tokens_below(trie, node)
        for child in part.exceptional:
            ranks = trie.order[int(trie.low[child]) : int(trie.high[child])]
            if len(ranks) <= ONE_BY_ONE:
                put(out, ranks, False)
            else:
                out &= ~self.texts.tokens_below(trie, child)
        after = [self._new_bytes(part.after(k), base) for k in part.counts()]
        fresh = max(after, default=0) + part.table.longest_rest
        if part.body.within and part.body.exceptions:
            fresh += part.table.longest_letter
        for least, most, target, child in part.leaving():
            found = self._exit(target, exits, child)
            add(out, exits.order[part.chosen(found.ranks, least, most)])
            fresh = max(fresh, self._new_bytes(target, base) + found.fresh)
        if part.others:
            more, new = self._union(trie, part.others, base)
            out |= more
            fresh = max(fresh, new)
        return out, fresh

    def _exit(self, state: int, trie: Remainders, node: int) -> Exit:
        """The remainders at and below a node that can be read from the state there."""
        key = (self.view(state), trie, node)
        found = self._exits.get(key)
        if found is None:
            found = keep(
                self._exits, key, self._ranks(trie, [(state, node)], self.completions(state)), MAX_EXITS
            )
        return found

    def _ranks(self, trie: Trie, pairs: Pairs, base: Sequence[bytes]) -> Exit:
        """:meth:`_union` as ranks."""
        ends, texts, swept = self.walk.walk(trie, pairs)
        nodes = np.array([node for _, node in ends], np.int64)
        out = [spans(trie.low[nodes], trie.own[nodes]), *(ranks for _, ranks in swept)]
        fresh = self._fresh(ends, swept, base)
        for state, node in texts:
            bits, new = self._text(state, trie, node, base)
            ranks = np.arange(trie.low[node] + trie.own[node], trie.high[node])
            tokens = trie.order[ranks]
            out.append(ranks[(bits[tokens >> 3] >> (tokens & 7) & 1).astype(bool)])
            fresh = max(fresh, new)
        return Exit(np.concatenate(out), fresh)

    # ------------------------------------------------------------ targets

    def edges(self, state: int) -> dict[int, Int[ndarray, " token"]]:
        """The tokens that may follow a state, EOS apart, by the state that they lead to."""
        grouped: dict[int, list[Ranks]] = {}
        for target, ranks in self._edges(self.trie, [(state, 0)]):
            grouped.setdefault(target, []).append(ranks)
        return {target: self.trie.order[np.concatenate(some)] for target, some in grouped.items()}

    def _edges(self, trie: Trie, pairs: Pairs) -> list[tuple[int, Ranks]]:
        """(state, ranks that lead there), in disjoint pieces."""
        ends, texts, swept = self.walk.walk(trie, pairs)
        (_, own, low, _, _) = trie.views
        out = [(state, np.arange(low[node], low[node] + own[node])) for state, node in ends]
        for states, ranks in swept:
            out += grouped(states, ranks)
        for state, node in texts:
            out += self._text_edges(state, trie, node)
        return out

    def _text_edges(self, state: int, trie: Trie, node: int) -> Iterator[tuple[int, Ranks]]:
        part = TextPart(self.walk, self.texts, state, trie, node, targets=True)
        text, before = part.text, part.before
        here = (text.letters >= before) & (text.letters + (text.local > 0) <= part.most + before)
        here &= part.inside(text.ranks)
        kinds = grouped(
            (text.letters[here] - before) * len(text.table.paths) + text.local[here], text.ranks[here]
        )
        for kind, ranks in kinds:
            letters, local = divmod(kind, len(text.table.paths))
            target = self.states.run(part.after(letters), text.table.paths[local])
            yield target, ranks
        for least, most, target, child in part.leaving():
            for after, ranks in self._exit_targets(target, text.exits, child):
                chosen = part.chosen(ranks, least, most)
                if len(chosen):
                    yield after, text.exits.origin[chosen]
        if part.others:
            yield from self._edges(trie, part.others)

    def _exit_targets(self, state: int, trie: Remainders, node: int) -> list[tuple[int, Ranks]]:
        key = (state, trie, node)
        found = self._exit_edges.get(key)
        if found is None:
            found = keep(self._exit_edges, key, self._edges(trie, [(state, node)]), MAX_EXITS)
        return found


def grouped(key: Int[ndarray, " n"], values: Int[ndarray, " n"]) -> list[tuple[int, Int[ndarray, " m"]]]:
    """The values by their keys."""
    if not len(key):
        return []
    order = np.argsort(key, kind="stable")
    kinds, begin = np.unique(key[order], return_index=True)
    return list(zip(kinds.tolist(), np.split(values[order], begin[1:]), strict=True))
