"""A trie over the bytes of tokens, stored as sorted tokens: the tokens with a common prefix, a trie node, are a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

Place = tuple[int, int, int]
"""A trie node (low, high, depth): the tokens ``order[low:high]``, which share their first ``depth`` bytes."""


class Node(NamedTuple):
    """The children of a trie node: their bytes, ascending, and the index in ``order`` at which the tokens of each begin."""

    bytes: Int[ndarray, " children"]
    starts: Int[ndarray, " children"]


@final
class TokenTrie:
    """A trie of the tokens that spell at least one byte; ``order`` has their ids, sorted by their bytes."""

    def __init__(self, token_bytes: Sequence[bytes | None]) -> None:
        spelled = sorted((s, token) for token, s in enumerate(token_bytes) if s)
        self._spelling = [s for s, _ in spelled]
        self.order: Int[ndarray, " tokens"] = np.array([token for _, token in spelled], dtype=np.int64)
        self._nodes: dict[Place, Node] = {}

    @property
    def root(self) -> Place:
        """The node of the empty prefix."""
        return 0, len(self.order), 0

    def node(self, place: Place) -> Node:
        """Return the children of a node; cached."""
        if place not in self._nodes:
            low, high, depth = place
            starts: list[int] = []
            found: list[int] = []
            for i in range(low, high):
                spelling = self._spelling[i]
                if len(spelling) > depth and (not found or found[-1] != spelling[depth]):
                    starts.append(i)
                    found.append(spelling[depth])
            self._nodes[place] = Node(np.array(found, dtype=np.int64), np.array(starts, dtype=np.int64))
        return self._nodes[place]

    def ending(self, place: Place) -> list[int]:
        """Return the ids of the tokens whose bytes end at a node."""
        low, high, _ = place
        starts = self.node(place).starts
        found: list[int] = self.order[low : int(starts[0]) if len(starts) else high].tolist()
        return found

    def child(self, place: Place, index: int) -> Place:
        """Return the child number ``index`` of a node."""
        starts = self.node(place).starts
        stop = starts[index + 1] if index + 1 < len(starts) else place[1]
        return int(starts[index]), int(stop), place[2] + 1

    def masses(self, place: Place, sorted_weights: Float[ndarray, " tokens"]) -> Float[ndarray, " children"]:
        """Sum the weights of the tokens below each child; ``sorted_weights[i]`` belongs to the token ``order[i]``."""
        starts = self.node(place).starts
        if not len(starts):
            return np.zeros(0)
        found: Float[ndarray, " children"] = np.add.reduceat(sorted_weights[: place[1]], starts)
        return found
