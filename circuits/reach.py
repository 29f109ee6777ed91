"""What an automaton over tokens can still do from a state: the way to acceptance, and its tokens as bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32
from torch import Tensor

if TYPE_CHECKING:
    from .automaton import Automaton

UNREACHABLE = 1 << 60  # tokens
BIT = [1 << i for i in range(31)] + [-1 << 31]  # of a word


def distances(automaton: Automaton) -> Int[np.ndarray, " states"]:
    """The fewest tokens from each state to acceptance, backwards from there."""
    out = np.full(automaton.num_states, UNREACHABLE)
    reached, r = automaton.final[0] > 0, 0
    while bool(reached.any()):
        out[reached.numpy()] = r
        before = torch.zeros_like(reached)
        if automaton.num_edges:
            before[automaton.edge_source[reached[automaton.edge_target]]] = True
        reached, r = before & torch.from_numpy(out == UNREACHABLE), r + 1
    return out


def acceptance_extends(automaton: Automaton) -> bool:
    """Whether every accepting state can go on to an accepting one."""
    if not automaton.num_edges:
        return not automaton.accept_states
    final = automaton.final[0] > 0
    again = torch.zeros_like(final)
    again[automaton.edge_source[final[automaton.edge_target]]] = True
    return not bool((final & ~again).any())


def trimmed(automaton: Automaton) -> Automaton:
    """Only the states that lie on a path from start to acceptance (at least one start state is kept)."""
    from .automaton import Automaton

    source, target = automaton.edge_source, automaton.edge_target
    alive = closure(automaton, automaton.initial[0] > 0, source, target)
    alive &= closure(automaton, automaton.final[0] > 0, target, source)
    alive[automaton.start_states[0]] |= not bool(alive.any())
    number = torch.cumsum(alive, 0) - 1
    s, c, d = automaton.transitions.T
    keep = alive[s] & alive[d]
    return Automaton(
        torch.stack([number[s[keep]], c[keep], number[d[keep]]], 1),
        automaton.labels.tokens,
        [int(number[i]) for i in automaton.start_states if alive[i]],
        [int(number[i]) for i in automaton.accept_states if alive[i]],
        int(alive.sum()),
        automaton.eos_token_id,
        trusted=True,
    ).for_vocabulary(automaton.vocabulary_fingerprint)


def closure(
    automaton: Automaton,
    states: Bool[Tensor, " states"],
    tail: Int[Tensor, " edges"],
    head: Int[Tensor, " edges"],
) -> Bool[Tensor, " states"]:
    """The states that edges from ``tail`` to ``head`` reach from these."""
    states = states.clone()
    if not len(automaton.transitions):
        return states
    while True:
        reached = torch.zeros_like(states).index_put_((head[states[tail]],), torch.tensor(True)) | states
        if bool((reached == states).all()):
            return states
        states = reached


def pack(allowed: Bool[np.ndarray, " vocab"]) -> Int32[np.ndarray, " words"]:
    """Booleans as bits of little-endian 32-bit words."""
    packed = np.zeros(-(-len(allowed) // 32) * 4, np.uint8)
    bits = np.packbits(allowed, bitorder="little")
    packed[: len(bits)] = bits
    return packed.view("<i4")


def set_bits(words: Int32[np.ndarray, " words"], tokens: Iterable[int]) -> None:
    """Set the bits of tokens, one by one."""
    bits = words.data
    for token in tokens:
        bits[token >> 5] |= BIT[token & 31]
