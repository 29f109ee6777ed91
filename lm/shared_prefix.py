"""A cache in which rows share the keys and values of their prompt: each prompt is stored once, a row stores its own tokens.

The attention of a transformers model is then one softmax over two parts; the first is one product for all rows of a prompt:

    softmax [ q Kᵀ of the prompt | q Kᵀ of the row's own tokens ] · [ V of the prompt ; V of the row's own tokens ]

So neither a step nor a copy of a row copies the prompt's keys and values. In a layer with a window of W tokens the token at p
attends to those after p − W. A twin of the model runs with this module's attention function, which gets the prompt's part from
the cache that runs in the same context (thread or task). A model that attends in any other way raises :class:`NotShared`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad
from transformers import AttentionInterface, cache_utils
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


class PromptLayer(NamedTuple):
    """A prompt's keys and values in a layer, (heads, length, dim); ``window``: how many last tokens a token sees (None: all)."""

    keys: Tensor
    values: Tensor
    window: int | None


Layers = Sequence[PromptLayer]

BLOCK = 32  # tokens by which the buffers of the rows grow
NAME = "tractile_shared_prompts"
LAYERS = DynamicLayer, getattr(cache_utils, "DynamicSlidingWindowLayer", DynamicLayer)
# Arguments of an attention function that do not change the attention of one last token to all tokens before it.
KNOWN = {
    "dropout", "is_causal", "position_ids", "cache_position", "use_cache", "logits_to_keep", "output_hidden_states",
}  # fmt: skip


class NotShared(Exception):
    """The error for a model whose attention does not go through :func:`attend`, or needs more than that function does."""


def layers_of(cache: Any) -> Layers:
    """Return the keys and values in a cache of one row. Raises :class:`NotShared` if the cache holds anything else."""
    layers = getattr(cache, "layers", [None])
    if any(type(layer) not in LAYERS for layer in layers):
        raise NotShared
    return [
        PromptLayer(layer.keys[0], layer.values[0], getattr(layer, "sliding_window", None))
        for layer in layers
    ]


@final
class SharedPrompts(Cache):
    """A cache for rows of several prompts, in any order; fastest if the rows of a prompt are adjacent."""

    def __init__(self, prompts: Sequence[Layers]) -> None:
        super().__init__(layers=[])
        self._prompts = prompts
        self._owner: Int[Tensor, " rows"] = torch.arange(len(prompts))
        self._own = torch.zeros_like(self._owner)  # tokens of each row after its prompt
        self._groups = _groups(self._owner)
        # Buffers of keys and values for each layer: (rows, heads, room, dim).
        self._rooms = [
            [x.new_zeros(len(prompts), len(x), 0, x.shape[2]) for x in (one.keys, one.values)]
            for one in prompts[0]
        ]
        self._handed: tuple[int, Tensor | None] = (0, None)
        self._size, self._alike = 1, True  # most own tokens with the next; whether all rows have equally many

    @property
    def has_windows(self) -> bool:
        """Whether some layer does not keep the keys and values of all tokens."""
        return any(layer.window is not None for layer in self._prompts[0])

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep these rows, in this order, with repetitions."""
        self._owner, self._own = self._owner[indices], self._own[indices]
        self._groups = _groups(self._owner)
        self._rooms = [[x.index_select(0, indices) for x in both] for both in self._rooms]

    def put(self, rows: Int[Tensor, " some"], others: SharedPrompts) -> None:
        """Replace the rows at ``rows`` by those of ``others``, which continue the same prompts."""
        self._own = self._own.index_copy(0, rows, others._own)
        for both, theirs in zip(self._rooms, others._rooms, strict=True):
            for i, new in enumerate(theirs):
                both[i] = _with_room(both[i], new.shape[2])
                both[i][rows, :, : new.shape[2]] = new

    def join(self, other: SharedPrompts) -> None:
        """Append the rows of another cache of the same model; prompts that have no rows left are dropped."""
        size = max(int(one._own.max()) for one in (self, other))
        owners, prompts = list[Tensor](), list[Layers]()
        for one in (self, other):
            there, owner = one._owner.unique(return_inverse=True)
            owners.append(owner + len(prompts))
            prompts += [one._prompts[prompt] for prompt in there.tolist()]
        self._prompts, self._owner = prompts, torch.cat(owners)
        self._own = torch.cat([self._own, other._own])
        self._groups = _groups(self._owner)
        self._rooms = [
            [torch.cat([_with_room(x[:, :, :size], size) for x in pair]) for pair in zip(a, b, strict=True)]
            for a, b in zip(self._rooms, other._rooms, strict=True)
        ]

    def fork(self) -> SharedPrompts:
        """Return an independent copy; prompts are shared."""
        fork = copy(self)
        fork._rooms = [[x.clone() for x in both] for both in self._rooms]
        return fork

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Run a twin of the model (:mod:`.twin`) on this cache: inside the block it may append one token to each row.

        Raises :class:`NotShared` if a layer's attention is not :func:`attend`.
        """
        self._size = int(self._own.max()) + 1
        self._alike = bool((self._own == self._size - 1).all())
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
        if self._handed[1] is not None:
            raise NotShared
        self._own = self._own + 1

    def unshared(self) -> tuple[DynamicCache, Int[Tensor, "rows length"]]:
        """Return an ordinary cache, in which each row has a copy of its prompt, padded on the left, and its attention mask."""
        lengths = torch.tensor([prompt[0][0].shape[1] for prompt in self._prompts])[self._owner]
        longest, size = int(lengths.max()), int(self._own.max())
        cache = DynamicCache()
        for layer, rooms in enumerate(self._rooms):
            whole = list[Tensor]()
            for part, room in enumerate(rooms):
                prompts = [self._prompts[owner][layer][part] for owner in self._owner.tolist()]
                padded = torch.stack([pad(x, (0, 0, longest - x.shape[1], 0)) for x in prompts])
                whole.append(torch.cat([padded, room[:, :, :size]], 2))
            cache.update(whole[0], whole[1], layer)
        before = torch.arange(longest) >= (longest - lengths)[:, None]
        behind = torch.arange(size) < self._own[:, None]
        return cache, torch.cat([before, behind], 1).long()

    # ------------------------------------------------------------ called by the model

    def get_seq_length(self, layer_idx: int = 0) -> int:
        longest = max(prompt[layer_idx][0].shape[1] for prompt in self._prompts)
        return int(longest) + int(self._own.max())

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append one token's keys and values, (rows, heads, 1, dim); return the ones of all tokens after the prompts."""
        if self._handed[1] is not None or key_states.shape[2] != 1:
            raise NotShared
        rooms, size = self._rooms[layer_idx], self._size
        if size > rooms[0].shape[2]:
            rooms[:] = [_with_room(x, size - 1 + BLOCK) for x in rooms]
        for room, new in zip(rooms, (key_states, value_states), strict=True):
            if self._alike:
                room[:, :, size - 1] = new[:, :, 0]
            else:
                room[torch.arange(len(self._own)), :, self._own] = new[:, :, 0]
        keys, values = (room[:, :, :size] for room in rooms)
        self._handed = (layer_idx, keys)
        return keys, values

    def attention(
        self,
        query: Float[Tensor, "rows heads 1 dim"],
        key: Float[Tensor, "rows groups own dim"],
        value: Float[Tensor, "rows groups own out"],
        scaling: float | None,
        window: int | None,
    ) -> Float[Tensor, "rows 1 heads out"]:
        """Compute the attention of a layer; ``key`` and ``value`` must be what :meth:`update` has just returned."""
        layer, handed = self._handed
        if key is not handed or window != self._prompts[0][layer].window:
            raise NotShared
        self._handed = (layer, None)
        rows, heads, _, dim = query.shape
        groups, size = key.shape[1:3]
        prompts = [(where, *self._prompts[prompt][layer][:2]) for prompt, where in self._groups]
        longest = max(keys.shape[1] for _, keys, _ in prompts)
        q = query.reshape(rows, groups, heads // groups, dim) * (dim**-0.5 if scaling is None else scaling)
        scores = q.new_full((groups, rows, heads // groups, longest + size), -torch.inf)
        own = scores[..., longest:]
        own.copy_((q @ key.transpose(2, 3)).transpose(0, 1))
        if not self._alike:
            own.masked_fill_((torch.arange(size) > self._own[:, None])[:, None], -torch.inf)
        width = math.inf if window is None else window
        before = self._own[:, None] - width  # what comes up to there is out of the window
        if size > width:
            own.masked_fill_((torch.arange(size) <= before)[:, None], -torch.inf)
        q = q.transpose(0, 1)
        for where, keys, _ in prompts:
            found = q[:, where].flatten(1, 2) @ keys.transpose(1, 2)
            found = found.unflatten(1, (-1, heads // groups))
            if size + (length := keys.shape[1]) > width:
                found.masked_fill_((torch.arange(length) - length <= before[where])[:, None], -torch.inf)
            scores[:, where, :, : keys.shape[1]] = found
        weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
        out = (weights[..., longest:].transpose(0, 1) @ value).transpose(0, 1)
        for where, _, values in prompts:
            found = weights[:, where, :, : values.shape[1]].flatten(1, 2) @ values
            out[:, where] += found.unflatten(1, (-1, heads // groups))
        return out.transpose(0, 1).reshape(rows, 1, heads, -1)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend over the current :class:`SharedPrompts`; the attention function that transformers calls."""
    if attention_mask is not None or any(options[name] is not None for name in options.keys() - KNOWN):
        raise NotShared
    return _current.get().attention(query, key, value, scaling, sliding_window), None


_current: ContextVar[SharedPrompts] = ContextVar(NAME)
AttentionInterface.register(NAME, attend)


def _groups(owner: Int[Tensor, " rows"]) -> list[tuple[int, slice | Tensor]]:
    """Return each prompt with the indices of its rows, as a slice if the rows are adjacent."""
    if bool((owner == owner[0]).all()):
        return [(int(owner[0]), slice(None))]
    order = owner.argsort(stable=True)
    found: list[tuple[int, slice | Tensor]] = []
    for rows in order.split(torch.unique(owner, return_counts=True)[1].tolist()):
        first, last = int(rows[0]), int(rows[-1])
        together = last - first + 1 == len(rows)
        found.append((int(owner[first]), slice(first, last + 1) if together else rows))
    return found


def _with_room(x: Tensor, size: int) -> Tensor:
    """Grow a tensor with zeros to hold at least ``size`` tokens."""
    return pad(x, (0, 0, 0, max(0, size - x.shape[2])))
