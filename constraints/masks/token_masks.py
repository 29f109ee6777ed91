"""The mask of a configuration, and its tokens by the configuration that they lead to.

In free text it is

    tokens of at most ``most`` letters  −  those below an exception  ∪  tokens that leave the text  ∪  walks from exceptions

Masks, and the remainders of tokens that leave text, are cached for a vocabulary by the stack frames that they depend on
(:mod:`~..automata.sharing`); if frames do not suffice, by the configuration's view as far as the longest token reaches.
The mask of a set of stacks is the union of theirs.

With a mask comes an upper bound of the bytes to acceptance after its tokens. Where that is not known,
:meth:`TokenMasks.fresh` says how many bytes, at most, a completion after a token has before a suffix of the completion
before it: configurations of one view agree in that (see :class:`~..automata.lazy.LazyAutomaton`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int32
from numpy import ndarray

from ..automata.arrays import ragged_arange, values_of
from ..automata.lazy import Numbered
from ..automata.sharing import Reach, Sharing
from ..automata.stack import NEVER, Stack, StackAutomaton
from ..vocabulary.trie import Trie, put
from .measures import Fresh, Longest, Measure
from .text_part import TextPart
from .text_tokens import NONE, Bits, Ranks, Remainders, add, keep
from .texts import STRAYS, Texts
from .walk import Pairs, Walk

WORD = np.dtype("<i4")
MASK_BYTES = 1 << 26  # of masks cached for one automaton
ENTRY_BYTES = 1 << 11  # of an entry beside the mask: its place in a table, the key
MAX_EXITS = 1 << 14  # cached sets of tokens that leave free text, for one automaton
ONE_BY_ONE = 64  # tokens that are set one by one
Words = Int32[ndarray, " words"]


class Mask(NamedTuple):
    """A mask, and at most how many bytes it takes to acceptance after its tokens.

    In the cache the bytes are those of :class:`~.measures.Longest`, less the origin's.
    """

    words: Words
    most: int


class Exit(NamedTuple):
    """The remainders that can be read from a configuration.

    ``most``: the most that the measure says of the states after them. ``reach``: how far down the stack the walk goes.
    """

    ranks: Ranks
    most: int
    reach: Reach | None


class TokenMasks:
    """The masks of one automaton through one vocabulary, without budgets."""

    def __init__(self, states: Numbered, trie: Trie, texts: Texts, eos_token_id: int) -> None:
        self.states, self.trie, self.texts, self.eos_token_id = states, trie, texts, eos_token_id
        self.walk = Walk(states)
        self.reach = len(trie.bounds) - 2  # bytes of the longest token
        self._masks: OrderedDict[tuple[str, Hashable], Mask] = OrderedDict()
        self._most_masks = max(16, MASK_BYTES // (trie.num_bytes + ENTRY_BYTES))
        self._fresh: OrderedDict[Hashable, int] = OrderedDict()
        self._exits: OrderedDict[tuple[str, Hashable, Trie, int], Exit] = OrderedDict()
        self._exit_edges: OrderedDict[tuple[int, Trie, int], list[tuple[int, Ranks]]] = OrderedDict()
        self._last: tuple[int, Mask] = (-1, Mask(np.empty(0, WORD), 0))
        self.sharing: Sharing | None = None
        if type(states.automaton) is StackAutomaton:
            self.sharing = Sharing(states.automaton, trie, self.reach)

    def view(self, state: int) -> Hashable:
        """Return the key of all that a token can meet from a state."""
        return self.states.automaton.view(self.states.configurations[state], self.reach)

    # ------------------------------------------------------------ masks

    def mask(self, state: int) -> Mask:
        """Return the mask of a state, EOS included. The words are read-only."""
        last, found = self._last  # at once: another thread may replace it
        if state != last:
            found = self._found(state)
            found = self._corrected(state, found) if self.trie.of_two_names else found
            self._last = state, found
        return found

    def _found(self, state: int) -> Mask:
        """Return a mask from a cache, or compute it."""
        if members := self.walk.members(state):
            return self._united(state, members)
        stack, sharing = self.states.configurations[state], self.sharing
        if sharing is None or not isinstance(stack, Stack):
            return self._by_view(state)
        found = self.texts.masks.find(sharing, stack, self.eos_token_id)
        if found is None:
            found, reach = self._mask(self.states.number(sharing.alike(stack)))
            self.texts.masks.keep(sharing, stack, self.eos_token_id, reach, found)
            if reach is None:
                return keep(self._masks, ("", self.view(state)), self._whole(found, stack), self._most_masks)
        return self._by_view(state) if found is STRAYS else self._whole(found, stack)

    def _whole(self, mask: Mask, stack: Stack) -> Mask:
        """Return a mask with its measure taken to the end of the text."""
        assert self.sharing is not None
        return Mask(mask.words, min(NEVER, mask.most + self.sharing.automaton.longest(stack)))

    def _by_view(self, state: int) -> Mask:
        """Return a mask that is cached by the view of its state."""
        key = ("", self.view(state))
        found = self._masks.get(key)
        if found is None:
            configuration = self.states.configurations[state]
            found, _ = self._mask(state)
            if self.sharing is not None and isinstance(configuration, Stack):
                found = self._whole(found, configuration)
            keep(self._masks, key, found, self._most_masks)
        return found

    def _united(self, state: int, members: Sequence[int]) -> Mask:
        """Return the mask of a set of stacks: the union of theirs."""
        found = self._masks.get(("set", state))
        if found is None:
            masks = [self.mask(member) for member in members]
            words = np.bitwise_or.reduce([mask.words for mask in masks])
            words.flags.writeable = False
            found = Mask(words, max([mask.most for mask in masks]))
            keep(self._masks, ("set", state), found, self._most_masks)
        return found

    def _mask(self, state: int) -> tuple[Mask, Reach | None]:
        """Compute a mask, measured relative to its state, and the reach of the walk."""
        measure = self._longest(state)
        bits, most = self._union(self.trie, [(state, 0)], measure)
        if self.states.accepting(state):
            bits[self.eos_token_id >> 3] |= 1 << (self.eos_token_id & 7)
        bits.flags.writeable = False
        return Mask(bits.view(WORD), most), measure.reach

    def _longest(self, state: int) -> Longest:
        """Return the measure relative to a state."""
        origin = self.states.configurations[state]
        return Longest(
            self.states, origin if self.sharing is not None and isinstance(origin, Stack) else None
        )

    def _corrected(self, state: int, mask: Mask) -> Mask:
        """Return a mask without the tokens that hold a name twice: walks forget the first name."""
        bits, run = mask.words.view(np.uint8), self.states.run
        some = [each for each in self.trie.of_two_names if bits[each[0] >> 3] >> (each[0] & 7) & 1]
        wrong = [token for token, text in some if run(state, text) < 0]
        if not wrong:
            return mask
        words = mask.words.copy()
        put(words.view(np.uint8), np.array(wrong), False)
        words.flags.writeable = False
        return Mask(words, mask.most)

    def fresh(self, state: int) -> int:
        """Return how many bytes a completion after a token has, at most, before a suffix of an old one.

        Old ones are the completions before the token.
        """
        key = self.view(state)
        found = self._fresh.get(key)
        if found is None:
            _, found = self._union(self.trie, [(state, 0)], Fresh(self.states, self.completions(state)))
            keep(self._fresh, key, found, MAX_EXITS)
        return found

    def completions(self, state: int) -> Sequence[bytes]:
        """Return a text to acceptance for each parse of the text so far."""
        return self.states.automaton.completions(self.states.configurations[state])

    def _most(self, ends: Pairs, swept: list[tuple[Ranks, Ranks]], measure: Measure) -> int:
        """Return the largest measure of the states that a walk has met."""
        states = {state for state, _ in ends}
        states.update(*(values_of(some).tolist() for some, _ in swept))
        return max(map(measure.of, states), default=0)

    def _union(self, trie: Trie, pairs: Pairs, measure: Measure) -> tuple[Bits, int]:
        """Return the tokens below nodes that can be read from the states beside them.
        Also the largest measure of the states that they lead to."""
        ends, texts, swept, moved, patterns = self.walk.walk(
            trie, pairs, exact=False, words=measure.by_frames
        )
        measure.moved(moved)
        out, most = None, self._most(ends, swept, measure)
        for state, node in texts:
            more, new = self._text(state, trie, node, measure)
            out = more if out is None else np.bitwise_or(out, more, out=out)
            most = max(most, new)
        if out is None:
            out = np.zeros(trie.num_bytes, np.uint8)
        for state, node in patterns:
            inside, ranks, new = self._pattern(state, trie, node, measure)
            if inside.dtype == np.uint8:
                out |= inside
            else:
                add(out, trie.order[inside])
            add(out, trie.order[ranks])
            most = max(most, new)
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
        return out, most

    def _text(self, state: int, trie: Trie, node: int, measure: Measure) -> tuple[Bits, int]:
        """Compute :meth:`_union` for one state in free text."""
        part = TextPart(self.walk, self.texts, state, trie, node)
        measure.moved(part.moved)
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
        most = measure.within_text(part)
        for least, last, target, child in part.leaving():
            ranks, new = self._exit(target, exits, child, measure)
            add(out, exits.order[part.chosen(ranks, least, last)])
            most = max(most, new)
        if part.others:
            more, new = self._union(trie, part.others, measure)
            out |= more
            most = max(most, new)
        return out, most

    def _pattern(
        self, state: int, trie: Trie, node: int, measure: Measure
    ) -> tuple[Bits | Ranks, Ranks, int]:
        """Compute :meth:`_union` for one state within a pattern.

        Return the tokens that stay within it, as a set or as ranks, those that leave it as ranks, and the measure.
        """
        pattern = self.walk.pattern(state)
        assert pattern is not None
        measure.moved({state})
        number, to, text, reached = self.states.number, pattern.to, None, None
        if pattern.letters is not None:
            text, _ = self.texts.below(self.texts.table(pattern.letters), trie, node)
        part = self.texts.patterns.part(pattern, trie, node, text)
        if text is None:
            reached = (number(to(each, 0)) for each in part.reached())
        most = measure.within_pattern(state, reached)
        if part.ends is None:
            return part.inside, NONE, most
        found, target = list[Ranks](), number(to(*part.ends))
        if text is not None:
            target = self.states.after(target, pattern.leaves)
            child = text.exits.children(0).get(pattern.leaves)
            if child is not None:
                ranks, new = self._exit(target, text.exits, child, measure)
                most = max(most, new)
                ranks = text.exits.origin[ranks]
                found.append(ranks[part.leaves(ranks)])
        if part.onward:
            some = self._ranks(trie, [(target, each) for each in part.onward], measure)
            found.append(some.ranks)
            most = max(most, some.most)
        return part.inside, np.concatenate(found) if found else NONE, most

    def _exit(self, state: int, trie: Remainders, node: int, measure: Measure) -> tuple[Ranks, int]:
        """Return the remainders at and below a node that a state reads, and the largest measure.

        For a set of stacks some are repeated. The measure is of the states that they lead to.
        """
        if members := self.walk.members(state):
            exits = [self._exit(member, trie, node, measure) for member in members]
            return np.concatenate([ranks for ranks, _ in exits]), max([most for _, most in exits])
        stack, sharing, what = self.states.configurations[state], self.sharing, (trie, node)
        if isinstance(measure, Fresh) or sharing is None or not isinstance(stack, Stack):
            found = self._exit_by_view(state, trie, node, measure)
        else:
            found = self.texts.exits.find(sharing, stack, what)
            if found is None:
                own = self._longest(state)
                found = self._ranks(trie, [(state, node)], own)
                self.texts.exits.keep(sharing, stack, what, own.reach, found)
            elif found is STRAYS:
                found = self._exit_by_view(state, trie, node, measure)
        return found.ranks, measure.exit(state, found.most, found.reach)

    def _exit_by_view(self, state: int, trie: Remainders, node: int, measure: Measure) -> Exit:
        """Return remainders that are cached by the view of their state."""
        exact = isinstance(measure, Fresh)
        key = ("fresh" if exact else "", self.view(state), trie, node)
        found = self._exits.get(key)
        if found is None:
            own = Fresh(self.states, self.completions(state)) if exact else self._longest(state)
            found = keep(self._exits, key, self._ranks(trie, [(state, node)], own), MAX_EXITS)
        return found

    def _ranks(self, trie: Trie, pairs: Pairs, measure: Measure) -> Exit:
        """Compute :meth:`_union` as ranks."""
        ends, texts, swept, passed, patterns = self.walk.walk(
            trie, pairs, exact=False, words=measure.by_frames
        )
        measure.moved(passed)
        nodes = np.array([node for _, node in ends], np.int64)
        out = [ragged_arange(trie.low[nodes], trie.own[nodes]), *(ranks for _, ranks in swept)]
        most = self._most(ends, swept, measure)
        for state, node in texts:
            bits, new = self._text(state, trie, node, measure)
            ranks = np.arange(trie.low[node] + trie.own[node], trie.high[node])
            tokens = trie.order[ranks]
            out.append(ranks[(bits[tokens >> 3] >> (tokens & 7) & 1).astype(bool)])
            most = max(most, new)
        for state, node in patterns:
            inside, ranks, new = self._pattern(state, trie, node, measure)
            assert inside.dtype != np.uint8  # a trie of remainders
            out += [inside, ranks]
            most = max(most, new)
        return Exit(np.concatenate(out), most, measure.reach)

    # ------------------------------------------------------------ targets

    def edges(self, state: int) -> dict[int, Int[ndarray, " token"]]:
        """Return the tokens of a mask, EOS apart, by the state that they lead to."""
        grouped: dict[int, list[Ranks]] = {}
        for target, ranks in self._edges(self.trie, [(state, 0)]):
            grouped.setdefault(target, []).append(ranks)
        return {target: self.trie.order[np.concatenate(some)] for target, some in grouped.items()}

    def _edges(self, trie: Trie, pairs: Pairs) -> list[tuple[int, Ranks]]:
        """Return (state, ranks that lead there), in disjoint pieces."""
        ends, texts, swept, _, _ = self.walk.walk(trie, pairs)
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
        counts = text.letters[here] - before
        if part.body.settled is not None:
            counts = np.minimum(counts, max(part.body.settled, 1))
        kinds = grouped(counts * len(text.table.paths) + text.local[here], text.ranks[here])
        for kind, ranks in kinds:
            letters, local = divmod(kind, len(text.table.paths))
            target = self.states.run(part.after(letters), text.table.paths[local])
            yield target, ranks
        for least, most, target, child in part.leaving():
            for after, ranks in self.exit_targets(target, text.exits, child):
                chosen = part.chosen(ranks, least, most)
                if len(chosen):
                    yield after, text.exits.origin[chosen]
        if part.others:
            yield from self._edges(trie, part.others)

    def exit_targets(self, state: int, trie: Remainders, node: int) -> list[tuple[int, Ranks]]:
        """Return the remainders at and below a node by the state that they lead to."""
        key = (state, trie, node)
        found = self._exit_edges.get(key)
        if found is None:
            found = keep(self._exit_edges, key, self._edges(trie, [(state, node)]), MAX_EXITS)
        return found


def grouped(key: Int[ndarray, " n"], values: Int[ndarray, " n"]) -> list[tuple[int, Int[ndarray, " m"]]]:
    """Group values by their keys: return (key, values) in the order of the keys."""
    if not len(key):
        return []
    order = np.argsort(key, kind="stable")
    kinds, begin = np.unique(key[order], return_index=True)
    return list(zip(kinds.tolist(), np.split(values[order], begin[1:]), strict=True))
