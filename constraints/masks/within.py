"""The tokens that lead to wanted states, such as those near acceptance where a budget ends.

Tokens that lead to one state are judged together. In free text these are sets made once for a vocabulary: the tokens of a given
number of letters, the last of which may be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..automata.arrays import mapped
from .text_part import TextPart
from .text_tokens import Bits, TextTokens, add
from .token_masks import TokenMasks
from .walk import Pairs

Wanted = Callable[[int], bool]


def tokens_to(masks: TokenMasks, state: int, wanted: Wanted) -> Bits:
    """Return the tokens, EOS apart, after which a wanted state is reached."""
    known: dict[int, bool] = {}

    def near(target: int) -> bool:
        found = known.get(target)
        if found is None:
            found = known[target] = wanted(target)
        return found

    return _below(masks, [(state, 0)], near)


def _below(masks: TokenMasks, pairs: Pairs, near: Wanted) -> Bits:
    """Return the tokens below nodes that lead from the states beside them to a wanted state."""
    trie, out = masks.trie, np.zeros(masks.trie.num_bytes, np.uint8)
    ends, texts, swept, _, _ = masks.walk.walk(trie, pairs)
    (_, own, low, _, order), tokens = trie.views, list[int]()
    for target, node in ends:
        if near(target):
            tokens += order[low[node] : low[node] + own[node]].tolist()
    if tokens:
        add(out, np.array(tokens))
    for states, ranks in swept:
        add(out, trie.order[ranks[mapped(states, near, bool)]])
    for state, node in texts:
        out |= _in_text(masks, state, node, near)
    return out


def _in_text(masks: TokenMasks, state: int, node: int, near: Wanted) -> Bits:
    """Compute :func:`_below` for one state in free text."""
    trie, texts, states = masks.trie, masks.texts, masks.states
    part = TextPart(masks.walk, texts, state, trie, node, targets=True)
    text, before, exits = part.text, part.before, part.text.exits
    here = np.full(trie.num_bytes, 255, np.uint8)
    if text.node != node:
        here &= texts.tokens_below(trie, node)
    for child in part.exceptional + part.apart:
        here &= ~texts.tokens_below(trie, child)
    out = np.zeros(trie.num_bytes, np.uint8)
    for least, most, local in kinds(text, part):
        some = here & texts.with_letters(text, least, most, local)
        if some.any():
            target = states.run(part.after(least - before), text.table.paths[local])
            if near(target):
                out |= some
    for least, most, target, child in part.leaving():
        for after, ranks in masks.exit_targets(target, exits, child):
            chosen = part.chosen(ranks, least, most)
            if len(chosen) and near(after):
                add(out, exits.order[chosen])
    if part.others:
        out |= _below(masks, part.others, near)
    return out


def kinds(text: TextTokens, part: TextPart) -> Iterator[tuple[int, int, int]]:
    """Yield the kinds of tokens made of letters that lead to one state each.

    A kind is (fewest whole letters, most whole letters, state within the last one).
    """
    settled, before = part.body.settled, part.before
    last = None if settled is None else before + max(settled, 1)
    for local, counts in text.counts.items():
        most = part.most + before - (local > 0)
        for letters in counts:
            if letters < before or letters > most or (last is not None and letters > last):
                continue
            yield letters, most if letters == last else letters, local
        if last is not None and last not in counts and counts[-1] > last and last <= most:
            yield last, most, local
