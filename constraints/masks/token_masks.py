"""The mask of a configuration, and the tokens by the configuration that they lead to.

A mask is kept by the configuration's view as far as the longest token reaches, so all configurations that differ only in
registers far from their limits share it. In free text it is

    tokens of at most ``most`` letters  −  those below an exception  ∪  tokens that leave the text  ∪  walks from exceptions

where what follows after leaving is kept by the view of the configuration there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator

import numpy as np
from jaxtyping import Bool, Int, Int32
from numpy import ndarray

from ..automata.arrays import spans
from ..automata.lazy import Body, Numbered
from ..vocabulary.trie import Trie, put
from .text_tokens import NONE, Bits, Remainders, Texts, keep
from .walk import Pairs, Walk

WORD = np.dtype("<i4")
MASK_BYTES = 1 << 26  # of masks kept for one automaton
MAX_EXITS = 1 << 14  # sets of tokens that leave free text, kept for one automaton
ONE_BY_ONE = 64  # tokens that are set one by one
Words = Int32[ndarray, " words"]
Ranks = Int[ndarray, " token"]  # positions of tokens in the lexicographic order of a trie


class TokenMasks:
    """The masks of one automaton through one vocabulary, without budgets."""

    def __init__(self, states: Numbered, trie: Trie, texts: Texts, eos_token_id: int) -> None:
        self.states, self.trie, self.texts, self.eos_token_id = states, trie, texts, eos_token_id
        self.walk = Walk(states)
        self.reach = len(trie.bounds) - 2  # bytes of the longest token
        self._masks: OrderedDict[Hashable, Words] = OrderedDict()
        self._most_masks = max(16, MASK_BYTES // max(1, trie.num_bytes))
        self._exits: OrderedDict[tuple[Hashable, Trie, int], Ranks] = OrderedDict()
        self._exit_edges: OrderedDict[tuple[int, Trie, int], list[tuple[int, Ranks]]] = OrderedDict()

    def view(self, state: int) -> Hashable:
        """The key of all that a token can meet from a state."""
        return self.states.automaton.view(self.states.configurations[state], self.reach)

    # ------------------------------------------------------------ masks

    def mask(self, state: int) -> Words:
        """The tokens that may follow a state, EOS too; not to be written to."""
        key = self.view(state)
        found = self._masks.get(key)
        if found is None:
            bits = self._union(self.trie, [(state, 0)])
            if self.states.accepting(state):
                bits[self.eos_token_id >> 3] |= 1 << (self.eos_token_id & 7)
            found = bits.view(WORD)
            found.flags.writeable = False
            keep(self._masks, key, found, self._most_masks)
        return found

    def _union(self, trie: Trie, pairs: Pairs) -> Bits:
        """The tokens below some nodes that can be read from the states beside them."""
        ends, texts, swept = self.walk.walk(trie, pairs)
        out = None
        for state, node in texts:
            more = self._text(state, trie, node)
            out = more if out is None else np.bitwise_or(out, more, out=out)
        if out is None:
            out = np.zeros(trie.num_bytes, np.uint8)
        (_, own, low, _, order), tokens = trie.views, list[int]()
        for _, node in ends:
            at = low[node]
            tokens.append(order[at])
            if own[node] > 1:
                tokens += order[at + 1 : at + own[node]]
        if tokens:
            put(out, np.array(tokens), True)
        for _, ranks in swept:
            put(out, trie.order[ranks], True)
        return out

    def _text(self, state: int, trie: Trie, node: int) -> Bits:
        """The tokens below a node from a state in free text."""
        part = _Part(self, state, trie, node)
        out = self.texts.made_of_letters(part.text, part.most + part.before).copy()
        if part.text.node != node:
            out &= self.texts.tokens_below(trie, node)
        for child in part.exceptional:
            ranks = trie.order[int(trie.low[child]) : int(trie.high[child])]
            if len(ranks) <= ONE_BY_ONE:
                put(out, ranks, False)
            else:
                out &= ~self.texts.tokens_below(trie, child)
        for least, most, target, child in part.leaving():
            ranks = part.chosen(self._exit(target, part.text.exits, child), least, most)
            put(out, part.text.exits.order[ranks], True)
        if part.others:
            out |= self._union(trie, part.others)
        return out

    def _exit(self, state: int, trie: Remainders, node: int) -> Ranks:
        """The remainders at and below a node that can be read from the state there."""
        key = (self.view(state), trie, node)
        found = self._exits.get(key)
        if found is None:
            found = keep(self._exits, key, self._ranks(trie, [(state, node)]), MAX_EXITS)
        return found

    def _ranks(self, trie: Trie, pairs: Pairs) -> Ranks:
        """:meth:`_union` as ranks."""
        ends, texts, swept = self.walk.walk(trie, pairs)
        nodes = np.array([node for _, node in ends], np.int64)
        out = [_ranks_at(trie, nodes), *(ranks for _, ranks in swept)]
        for state, node in texts:
            bits, ranks = self._text(state, trie, node), np.arange(trie.low[node] + trie.own[node], trie.high[node])
            tokens = trie.order[ranks]
            out.append(ranks[(bits[tokens >> 3] >> (tokens & 7) & 1).astype(bool)])
        return np.concatenate(out)

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
        part = _Part(self, state, trie, node)
        text, before = part.text, part.before
        here = (text.letters >= before) & (text.letters + (text.local > 0) <= part.most + before)
        here &= part.inside(text.ranks)
        kinds = grouped((text.letters[here] - before) * len(text.table.paths) + text.local[here], text.ranks[here])
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


class _Part:
    """The tokens below one node from one state in free text: what they are made of.

    ``text`` and ``before``: the text tokens, of this node or of one so many letters above it. ``most``: letters that may
    follow. ``exceptional``: children where the text is left at once or is treated apart. ``others``: what is to be walked.
    """

    def __init__(self, masks: TokenMasks, state: int, trie: Trie, node: int) -> None:
        body = masks.walk.body(state)
        assert body is not None
        self.body: Body = body
        self.states, self.state, self.trie, self.node = masks.states, state, trie, node
        table = masks.texts.table(body.letters)
        self.text, self.before = masks.texts.below(table, trie, node)
        within = self.text.most - self.before
        self.most = within if body.most is None else min(body.most, within)
        after, self.exceptional, self.others = self.states.after, list[int](), Pairs()
        children = trie.children(node)
        for byte, child in children.items():
            apart = byte in body.exceptions
            if apart or byte not in table.begins or body.most == 0:
                if apart:
                    self.exceptional.append(child)
                if (target := after(state, byte)) >= 0:
                    self.others.append((target, child))
        if body.most is not None and body.most <= self.text.most - self.before:
            self._after_most(table.begins)

    def _after_most(self, begins: frozenset[int]) -> None:
        """Tokens that go on, after the last letter, with a byte that begins another one: elsewhere it may lead on."""
        onward = self.after(self.body.most or 0)
        moves = [(low, high) for low, high, _ in self.states.moves(onward)]
        bytes_on = [b for low, high in moves for b in range(low, high + 1) if b in begins]
        if not bytes_on or not self.body.most:
            return
        nodes = self.text.between[self.text.between[:, 1] == self.body.most + self.before, 0]
        trie = self.trie
        nodes = nodes[self.inside(trie.low[nodes])]
        for byte in bytes_on:
            child = trie.child(nodes, np.full(len(nodes), byte))
            target = self.states.after(onward, byte)
            self.others += [(target, c) for c in child.tolist() if c >= 0]

    def after(self, letters: int) -> int:
        """The state after some letters."""
        if letters == 0:
            return self.state
        settled = self.body.settled
        return self.states.number(self.body.after(letters if settled is None else min(letters, max(settled, 1))))

    def inside(self, ranks: Ranks) -> Bool[ndarray, " token"]:
        """Which ranks lie below the node and below no exception."""
        trie, node = self.trie, self.node
        out = (ranks >= trie.low[node] + trie.own[node]) & (ranks < trie.high[node])
        for child in self.exceptional:
            out &= (ranks < trie.low[child]) | (ranks >= trie.high[child])
        return np.asarray(out)

    def chosen(self, ranks: Ranks, least: int, most: int) -> Ranks:
        """Of some remainders those that follow ``least`` to ``most`` letters, inside the part."""
        exits = self.text.exits
        letters = exits.letters_before[ranks] - self.before
        kept = (letters >= least) & (letters <= most)
        if self.text.node != self.node or self.exceptional:
            kept &= self.inside(exits.origin[ranks])
        return np.asarray(ranks[kept])

    def leaving(self) -> list[tuple[int, int, int, int]]:
        """(least letters, most letters, state, node of the remainders there) for the bytes that leave the text."""
        children = self.text.exits.children(0)
        if not children:
            return []
        last = min(self.text.most_leaving - self.before, self.body.most or self.text.most_leaving)
        if self.body.most == 0:
            return []
        settled = self.body.settled
        runs: list[list[int]] = []
        open_runs: dict[tuple[int, int], list[int]] = {}
        k = 1
        while k <= last:
            until = last if settled is not None and k >= settled else k
            state, still = self.after(k), dict[tuple[int, int], list[int]]()
            for low, high, target in self.states.moves(state):
                for byte in range(low, high + 1) if high - low < len(children) else children:
                    if low <= byte <= high and (child := children.get(byte)) is not None:
                        run = open_runs.get((target, child))
                        if run is None:
                            run = [k, until, target, child]
                            runs.append(run)
                        run[1] = until
                        still[target, child] = run
            open_runs, k = still, until + 1
        return [(a, b, target, child) for a, b, target, child in runs]


def grouped(key: Int[ndarray, " n"], values: Int[ndarray, " n"]) -> list[tuple[int, Int[ndarray, " m"]]]:
    """The values by their keys."""
    if not len(key):
        return []
    order = np.argsort(key, kind="stable")
    kinds, begin = np.unique(key[order], return_index=True)
    return list(zip(kinds.tolist(), np.split(values[order], begin[1:]), strict=True))


def _ranks_at(trie: Trie, nodes: Int[ndarray, " n"]) -> Ranks:
    """The tokens that end at some nodes."""


    return spans(trie.low[nodes], trie.own[nodes]) if len(nodes) else NONE


