"""The mask of a configuration, and the tokens by the configuration that they lead to.

A mask is kept by the configuration's view as far as the longest token reaches, so all configurations that differ only in
registers far from their limits share it. In free text it is

    tokens of at most ``most`` letters  −  those below an exception  ∪  tokens that leave the text  ∪  walks from exceptions

where what follows after leaving is kept by the view of the configuration there.

Short views come first, where the automaton has them (:mod:`~..automata.sharing`): far more configurations share those.

Kept with a mask is how many bytes, at most, it takes to acceptance after a token. Where that is not known,
:meth:`TokenMasks.fresh` says how many bytes, at most, a completion after a token has before an end of the completion
before it: configurations of one view agree in that (see :class:`~..automata.lazy.LazyAutomaton`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence, Set
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int32
from numpy import ndarray

from ..automata.arrays import spans
from ..automata.lazy import Configuration, Numbered
from ..automata.sharing import Sharing
from ..automata.stack import NEVER, Stack, StackAutomaton
from ..vocabulary.trie import Trie, put
from .completions import common_end
from .text_part import TextPart
from .text_tokens import NONE, Bits, Ranks, Remainders, add, keep
from .texts import Texts
from .walk import Pairs, Walk

WORD = np.dtype("<i4")
MASK_BYTES = 1 << 26  # of masks kept for one automaton
MAX_EXITS = 1 << 14  # sets of tokens that leave free text, kept for one automaton
MOST_MOVED = 2000  # states that a walk moves on from and that are looked at for a short view
ONE_BY_ONE = 64  # tokens that are set one by one
Words = Int32[ndarray, " words"]


class Mask(NamedTuple):
    """A mask, and what the measure says of the states after its tokens, at most."""

    words: Words
    most: int


class Exit(NamedTuple):
    """The remainders that can be read from a configuration, with what the measure says of the states after them, at most.

    ``moved``: the states that were moved on from; ``None`` where more than the short view of the configuration told."""

    ranks: Ranks
    most: int
    moved: frozenset[int] | None


class Longest:
    """A measure of states: the bytes to acceptance, bounded by the frames of their stacks alone.

    ``states``: those that walks have moved on from; ``None`` once the short view of ``origin`` does not cover one of them."""

    def __init__(self, masks: TokenMasks, origin: Configuration) -> None:
        self.masks, self.origin = masks, origin
        self.states: set[int] | None = set()
        if masks.sharing is None:
            self.states = None

    def of(self, state: int) -> int:
        """At least the bytes of the shortest text from a state to acceptance."""
        sharing, configurations = self.masks.sharing, self.masks.states.configurations
        return NEVER if sharing is None else sharing.automaton.longest(configurations[state])

    def moved(self, states: Set[int] | None) -> None:
        """Look at the states that a walk has moved on from."""
        sharing, origin, known = self.masks.sharing, self.origin, self.states
        if known is None:
            return
        assert sharing is not None
        configurations = self.masks.states.configurations
        if (
            states is not None
            and len(states) <= MOST_MOVED
            and not any(sharing.strays(origin, configurations[state]) for state in states - known)
        ):
            known |= states
        else:
            self.states = None

    def exit(self, state: int, found: Exit) -> int:
        """The same of the remainders from a state on."""
        self.moved(found.moved)
        return found.most

    def within_text(self, part: TextPart) -> int:
        """The same of the states within free text."""
        return self.of(part.state)

    def within_pattern(self, state: int) -> int:
        """The same of the states within a pattern."""
        return self.of(state)


class Fresh:
    """A measure of states: the bytes that their completion has before an end of one of those in ``base``."""

    states = None

    def __init__(self, masks: TokenMasks, base: Sequence[bytes]) -> None:
        self.masks, self.base = masks, base

    def of(self, state: int) -> int:
        states = self.masks.states
        text = states.automaton.completion(states.configurations[state])
        return len(text) - max([common_end(text, one) for one in self.base])

    def moved(self, states: Set[int] | None) -> None:
        pass

    def exit(self, state: int, found: Exit) -> int:
        return self.of(state) + found.most

    def within_text(self, part: TextPart) -> int:
        """The same of the states within free text."""
        new = max([self.of(part.after(k)) for k in part.counts()], default=0) + part.table.longest_rest
        return new + part.table.longest_letter if part.body.within and part.body.exceptions else new

    def within_pattern(self, state: int) -> int:
        """The same of the states within a pattern."""
        configuration = self.masks.states.configurations[state]
        longest = min([stack.machine.longest or NEVER for stack in self.masks.stacks(configuration)])
        return min(NEVER, longest + 1)


Measure = Longest | Fresh


class TokenMasks:
    """The masks of one automaton through one vocabulary, without budgets."""

    def __init__(self, states: Numbered, trie: Trie, texts: Texts, eos_token_id: int) -> None:
        self.states, self.trie, self.texts, self.eos_token_id = states, trie, texts, eos_token_id
        self.walk = Walk(states)
        self.reach = len(trie.bounds) - 2  # bytes of the longest token
        self._masks: OrderedDict[tuple[str, Hashable], Mask | None] = OrderedDict()
        self._most_masks = max(16, MASK_BYTES // max(1, trie.num_bytes))
        self._fresh: OrderedDict[Hashable, int] = OrderedDict()
        self._exits: OrderedDict[tuple[str, Hashable, Trie, int], Exit | None] = OrderedDict()
        self._exit_edges: OrderedDict[tuple[int, Trie, int], list[tuple[int, Ranks]]] = OrderedDict()
        self.sharing: Sharing | None = None
        if type(states.automaton) is StackAutomaton:
            self.sharing = Sharing(states.automaton, trie, self.reach)

    def view(self, state: int) -> Hashable:
        """The key of all that a token can meet from a state."""
        return self.states.automaton.view(self.states.configurations[state], self.reach)

    def short(self, state: int) -> Hashable | None:
        """The key of what a token usually meets from a state, ``None`` where there is no such key."""
        return None if self.sharing is None else self.sharing.key(self.states.configurations[state])

    def stacks(self, configuration: Configuration) -> Sequence[Stack]:
        """The stacks of a configuration that read the next byte."""
        automaton = self.states.automaton
        return automaton.active(configuration)[0] if isinstance(automaton, StackAutomaton) else ()

    # ------------------------------------------------------------ masks

    def mask(self, state: int) -> Mask:
        """The tokens that may follow a state, EOS too; the words are not to be written to."""
        if members := self.walk.members(state):
            return self._united(state, members)
        kept, short = self._masks, self.short(state)
        if short is not None:
            if (found := kept.get(("short", short))) is not None:
                return found
            if ("short", short) not in kept:  # otherwise it is known that walks stray
                assert self.sharing is not None
                alike = self.sharing.alike(self.states.configurations[state])
                found, strays = self._mask(self.states.number(alike))
                keep(kept, ("short", short), None if strays else found, self._most_masks)
                if not strays:
                    return found
                keep(kept, ("", self.view(state)), found, self._most_masks)
        key = ("", self.view(state))
        if (found := kept.get(key)) is None:
            found, _ = self._mask(state)
            keep(kept, key, found, self._most_masks)
        return found

    def _united(self, state: int, members: Sequence[int]) -> Mask:
        """The mask of a set of stacks: the union of theirs."""
        found = self._masks.get(("set", state))
        if found is None:
            masks = [self.mask(member) for member in members]
            words = np.bitwise_or.reduce([mask.words for mask in masks])
            words.flags.writeable = False
            found = Mask(words, max([mask.most for mask in masks]))
            keep(self._masks, ("set", state), found, self._most_masks)
        return found

    def _mask(self, state: int) -> tuple[Mask, bool]:
        """A mask, anew; whether more than the short view told."""
        measure = Longest(self, self.states.configurations[state])
        bits, most = self._union(self.trie, [(state, 0)], measure)
        if self.states.accepting(state):
            bits[self.eos_token_id >> 3] |= 1 << (self.eos_token_id & 7)
        bits.flags.writeable = False
        return Mask(bits.view(WORD), most), measure.states is None

    def fresh(self, state: int) -> int:
        """The completion after each token that may follow is at most so many bytes and then an end of one before it."""
        key = self.view(state)
        found = self._fresh.get(key)
        if found is None:
            _, found = self._union(self.trie, [(state, 0)], Fresh(self, self.completions(state)))
            keep(self._fresh, key, found, MAX_EXITS)
        return found

    def completions(self, state: int) -> Sequence[bytes]:
        """Texts from a state to acceptance, one for each way in which the text so far can be understood."""
        return self.states.automaton.completions(self.states.configurations[state])

    def _most(self, ends: Pairs, swept: list[tuple[Ranks, Ranks]], measure: Measure) -> int:
        """The most that the measure says of the states that a walk has met."""
        states = {state for state, _ in ends}
        states.update(*(np.unique(some).tolist() for some, _ in swept))
        return max(map(measure.of, states), default=0)

    def _union(self, trie: Trie, pairs: Pairs, measure: Measure) -> tuple[Bits, int]:
        """The tokens below some nodes that can be read from the states beside them; the most that the measure says."""
        ends, texts, swept, moved, patterns = self.walk.walk(trie, pairs, exact=False)
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
        """:meth:`_union` for one state in free text."""
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
            found = self._exit(target, exits, child, measure)
            add(out, exits.order[part.chosen(found.ranks, least, last)])
            most = max(most, measure.exit(target, found))
        if part.others:
            more, new = self._union(trie, part.others, measure)
            out |= more
            most = max(most, new)
        return out, most

    def _pattern(
        self, state: int, trie: Trie, node: int, measure: Measure
    ) -> tuple[Bits | Ranks, Ranks, int]:
        """:meth:`_union` for one state within a pattern: the tokens within it as a set or as ranks, the others as ranks."""
        pattern = self.walk.pattern(state)
        assert pattern is not None
        measure.moved({state})
        text, _ = self.texts.below(self.texts.table(pattern.letters), trie, node)
        part, most = self.texts.patterns.part(pattern, trie, node, text), measure.within_pattern(state)
        if part.ends is None:
            return part.inside, NONE, most
        target = self.states.after(self.states.number(pattern.to(*part.ends)), pattern.leaves)
        child = text.exits.children(0).get(pattern.leaves)
        found = list[Ranks]()
        if child is not None:
            exits = self._exit(target, text.exits, child, measure)
            most = max(most, measure.exit(target, exits))
            ranks = text.exits.origin[exits.ranks]
            found.append(ranks[part.leaves(ranks)])
        if part.at_once >= 0:
            some = self._ranks(trie, [(target, part.at_once)], measure)
            found.append(some.ranks)
            most = max(most, some.most)
        return part.inside, np.concatenate(found) if found else NONE, most

    def _exit(self, state: int, trie: Remainders, node: int, measure: Measure) -> Exit:
        """The remainders at and below a node that can be read from the state there; of a set of stacks some may be repeated."""
        if members := self.walk.members(state):
            exits = [self._exit(member, trie, node, measure) for member in members]
            moved = [exit.moved for exit in exits]
            return Exit(
                np.concatenate([exit.ranks for exit in exits]),
                max([exit.most for exit in exits]),
                None if None in moved else frozenset().union(*moved),  # type: ignore[arg-type]
            )
        exact, kept, short = (
            isinstance(measure, Fresh),
            self._exits,
            None if isinstance(measure, Fresh) else self.short(state),
        )
        if short is not None and (found := kept.get(("short", short, trie, node))) is not None:
            return found
        key = ("fresh" if exact else "", self.view(state), trie, node)
        found = kept.get(key)
        if found is None:
            own: Measure = Longest(self, self.states.configurations[state])
            if exact:
                own = Fresh(self, self.completions(state))
            found = self._ranks(trie, [(state, node)], own)
            if short is not None and found.moved is not None:
                key = ("short", short, trie, node)
            keep(kept, key, found, MAX_EXITS)
        return found

    def _ranks(self, trie: Trie, pairs: Pairs, measure: Measure) -> Exit:
        """:meth:`_union` as ranks."""
        ends, texts, swept, passed, patterns = self.walk.walk(trie, pairs, exact=False)
        measure.moved(passed)
        nodes = np.array([node for _, node in ends], np.int64)
        out = [spans(trie.low[nodes], trie.own[nodes]), *(ranks for _, ranks in swept)]
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
        moved = None if measure.states is None else frozenset(measure.states)
        return Exit(np.concatenate(out), most, moved)

    # ------------------------------------------------------------ targets

    def edges(self, state: int) -> dict[int, Int[ndarray, " token"]]:
        """The tokens that may follow a state, EOS apart, by the state that they lead to."""
        grouped: dict[int, list[Ranks]] = {}
        for target, ranks in self._edges(self.trie, [(state, 0)]):
            grouped.setdefault(target, []).append(ranks)
        return {target: self.trie.order[np.concatenate(some)] for target, some in grouped.items()}

    def _edges(self, trie: Trie, pairs: Pairs) -> list[tuple[int, Ranks]]:
        """(state, ranks that lead there), in disjoint pieces."""
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
        """The remainders at and below a node by the state that they lead to."""
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
