"""Models of the transformers library as language models."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..errors import ContextTooLong, EvidenceError, VocabularyMismatch
from ..fingerprints import FEWER_OUTPUTS
from ..token_bytes import size_of, tokenizer_fingerprint
from .architectures import cache_argument, cache_of, check_outputs, logits_of, outputs_of
from .base import Prompt, _pin
from .padding import beside, check_layers, check_padding, cut_caches, join_caches
from .products import Multiplies
from .texts import TokenizerTexts
from .twin import twin_of

if TYPE_CHECKING:
    from .shared_prefix import Layers, SharedPrompts


@dataclass
class Known:
    """What has been found out about a model; copies of a :class:`TransformersLM` have one in common.

    ``shares``: whether rows can share their prompts (None: not known yet); ``twin``: the model that attends so; ``pads``: whether
    its treatment of padding has been checked.
    """

    shares: bool | None
    twin: Any = None
    pads: bool = False


@final
class TransformersLM(Multiplies):
    """Any ``AutoModelForCausalLM`` as a language model, at a temperature.

    It keeps the cache of its rows: keys and values, or the states of a state-space model. On a CPU rows share the keys and
    values of their prompt, if the model attends to all of its past or a sliding window through transformers' attention functions
    (``share_prompts=False``: never). Otherwise each row has its own copy, and prompts of unequal length are padded on the left,
    with an attention mask and matching position ids. The last ``keep_prompts`` shared prompts are kept, and not evaluated
    again when a later ``start`` has them too; the model's weights must not change in between.

    If the model has more outputs than the tokenizer has ids (embedding matrices are often padded), ``vocab_size`` is the
    tokenizer's and p_lm is normalised without the other outputs. If it has fewer (Gemma 3, added tokens), ``vocab_size`` is the
    model's, and constraints are compiled without the other tokens. The model is put into evaluation mode. ``tokenizer`` may be
    None if prompts are token ids. ``model``, ``tokenizer`` and ``temperature`` are attributes.

    Raises :class:`EvidenceError` for an encoder–decoder, for a model without a cache or without logits of the next token, and
    for prompts of unequal length if the model takes no position ids and misreads padding; :class:`ContextTooLong` past the
    model's ``max_position_embeddings``; :class:`VocabularyMismatch` for an end token that the model has no output for, and for a
    tokenizer with less than half as many ids as the model has outputs, which is another model's.

    Examples
    --------
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> lm = tt.TransformersLM(model, tokenizer)
    >>> lm.vocab_size
    1024
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        temperature: float = 1.0,
        *,
        eos_token_id: int | None = None,
        share_prompts: bool = True,
        keep_prompts: int = 0,
    ) -> None:
        if not temperature > 0:
            raise EvidenceError(f"TransformersLM: the temperature must be positive, not {temperature}")
        self._cache_argument = cache_argument(model)
        self.model, self.tokenizer, self.temperature = model.eval(), tokenizer, temperature
        self._keep_prompts = keep_prompts
        outputs = outputs_of(model)
        self.vocab_size: int = outputs if tokenizer is None else min(outputs, size_of(tokenizer))
        if 2 * self.vocab_size < outputs:  # embedding matrices are padded by less
            raise VocabularyMismatch(
                f"TransformersLM: the model has {outputs:,} outputs, the tokenizer {self.vocab_size:,} ids: "
                "it is another model's; give the tokenizer of the model"
            )
        self.eos_token_id: int | None = eos_token_id
        if eos_token_id is None and tokenizer is not None:
            self.eos_token_id = tokenizer.eos_token_id
        if self.eos_token_id is not None and self.eos_token_id >= self.vocab_size:
            raise VocabularyMismatch(
                f"TransformersLM: the end token is {self.eos_token_id}, but the model has {outputs:,} outputs and the tokenizer "
                f"{self.vocab_size:,} of these: give the model's own end token as eos_token_id; if that was done, {FEWER_OUTPUTS}"
            )
        self._limit: int | None = getattr(model.config, "max_position_embeddings", None)
        self._accepts = inspect.signature(model.forward).parameters
        self._texts, self._inputs = TokenizerTexts(tokenizer, self.eos_token_id), outputs
        self._log_probs: Float[Tensor, "batch vocab"]
        self._selected: Int[Tensor, " rows"] | None = None  # rows of _log_probs still to be selected
        self._mask: Int[Tensor, "batch length"] | None = None
        self._finished: Bool[Tensor, " batch"]
        self._lengths: Int[Tensor, " batch"]  # in tokens, on the CPU
        # The cache of each row, or the shared one; both None before the first tokens.
        self._cache: Any = None
        self._shared: SharedPrompts | None = None
        self._known = Known(shares=None if share_prompts else False)
        # By prompt that was read: its keys and values, and log p of the next token.
        self._read: dict[tuple[int, ...], tuple[Layers, Tensor]] = {}

    def __repr__(self) -> str:
        return f"TransformersLM({type(self.model).__name__}, {self.vocab_size:,} tokens, temperature {self.temperature:g})"

    @cached_property
    def vocabulary_fingerprint(self) -> str | None:
        """The fingerprint of the tokenizer's vocabulary with this end token; None without a tokenizer that can be read."""
        if self.tokenizer is None or self.eos_token_id is None:
            return None
        return tokenizer_fingerprint(self.tokenizer, self.eos_token_id, self.vocab_size)

    def start(self, prompts: Sequence[Prompt]) -> None:
        rows = [self._texts.encode(prompt) for prompt in prompts]
        if wrong := [token for row in rows for token in row if not 0 <= token < self._inputs]:
            raise VocabularyMismatch(
                f"TransformersLM: a prompt has the token {wrong[0]}, which lies outside the model's {self._inputs:,}; was it "
                "encoded by another tokenizer?"
            )
        self._begin(rows)
        if self._sharing():
            self._start_shared(rows)
            return
        place: dict[tuple[int, ...], int] = {}
        index = [place.setdefault(tuple(row), len(place)) for row in rows]
        distinct = list(place)  # equal prompts are read once
        width = max(len(row) for row in distinct)
        ids = torch.zeros(len(distinct), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(distinct):
            ids[i, width - len(row) :] = torch.tensor(row)
            mask[i, width - len(row) :] = 1
        # Without padding the mask is all ones, and attention is faster without it.
        self._begin(distinct, None if bool(mask.all()) else mask.to(self._finished.device))
        self._check_padding()
        self._log_probs = self._forward(ids.to(self._finished.device))
        if len(distinct) < len(rows):
            self.select(torch.tensor(index))

    def _begin(self, rows: Sequence[Sequence[int]], mask: Int[Tensor, "batch length"] | None = None) -> None:
        self._cache, self._shared, self._mask, self._selected = None, None, mask, None
        self._lengths = torch.tensor([len(row) for row in rows])
        self._finished = torch.zeros(len(rows), dtype=torch.bool, device=self.model.device)
        self._check_lengths()

    def _sharing(self) -> bool:
        """Return whether rows can share their prompts; tested once, on a text of two tokens read with and without sharing."""
        if self._known.shares is None:
            shares = self.model.device.type == "cpu" and "position_ids" in self._accepts
            try:
                if shares:
                    from .shared_prefix import NAME

                    self._known.twin = twin_of(self.model, NAME)
                    token = int(self.eos_token_id == 0)
                    self._start_shared([[token, token], [token]])
                    whole = self._log_probs[0]
                    self.advance(torch.tensor([token, token]))
                    shares = torch.allclose(self._log_probs[1], whole, rtol=0.02, atol=0.02)
            except Exception:  # the model may still work without sharing
                shares = False
            self._read.clear()
            self._known.shares = shares
        return self._known.shares

    def _start_shared(self, rows: Sequence[Sequence[int]]) -> None:
        """Start rows with shared prompts; each prompt is evaluated alone, so that the others do not change a bit of it."""
        from .shared_prefix import SharedPrompts, layers_of

        read = []
        for row in rows:
            one = self._read.pop(tuple(row), None)
            if one is None:
                self._begin([row])
                log_probs = self._forward(torch.tensor([row]))
                one = layers_of(self._cache), log_probs
            self._read[tuple(row)] = one
            read.append(one)
        for old in list(self._read)[: -self._keep_prompts or None]:
            self._read.pop(old, None)  # copies of this model read and drop prompts too
        self._begin(rows)
        self._shared = SharedPrompts([layers for layers, _ in read])
        self._log_probs = torch.cat([log_probs for _, log_probs in read])

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        if self._selected is not None:
            self._log_probs, self._selected = self._log_probs[self._selected], None
        return self._log_probs

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        if bool((tokens < 0).any()):
            self._advance_some(tokens.cpu())
            return
        tokens = tokens.to(self._finished.device)
        if self.eos_token_id is not None:
            self._finished = self._finished | (tokens == self.eos_token_id)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        self._lengths = self._lengths + 1
        self._check_lengths()
        self._log_probs = self._forward(tokens[:, None])

    def join(self, other: TransformersLM) -> None:
        """Append the rows of a copy of this model (:meth:`fork`) behind the own rows; the copy is used up.

        Raises :class:`EvidenceError` for a model that keeps states instead of keys and values.
        """
        if self._shared is not None and other._shared is not None:
            self._shared.join(other._shared)
        else:
            widths = [
                int(one._lengths[0]) if one._mask is None else one._mask.shape[1] for one in (self, other)
            ]
            join_caches(self._cache, other._cache, width := max(widths))
            if self._mask is not None or other._mask is not None or widths[0] != widths[1]:
                self._mask = torch.cat(
                    [pad(one._whole_mask(), (width - one._whole_mask().shape[1], 0)) for one in (self, other)]
                )
                self._check_padding()
                self._cut_padding()
        self._log_probs = torch.cat([self.log_probs(), other.log_probs()])
        self._lengths = torch.cat([self._lengths, other._lengths])
        self._finished = torch.cat([self._finished, other._finished])

    def _whole_mask(self) -> Int[Tensor, "batch length"]:
        """Return the attention mask: of ones, where no row is padded."""
        if self._mask is not None:
            return self._mask
        shape = len(self._lengths), int(self._lengths[0])
        return torch.ones(shape, dtype=torch.long, device=self._finished.device)

    def _cut_padding(self) -> None:
        """Drop the tokens that are padding in every row."""
        assert self._mask is not None
        first = int(self._mask.any(0).long().argmax())
        if first:
            self._mask = self._mask[:, first:]
            cut_caches(self._cache, self._mask.shape[1])

    def fork(self) -> TransformersLM:
        fork = copy(self)
        fork._cache = deepcopy(self._cache)
        fork._shared = None if self._shared is None else self._shared.fork()
        return fork

    def _advance_some(self, tokens: Int[Tensor, " batch"]) -> None:
        """Append tokens to some rows; waiting rows (−1) are not evaluated."""
        moving, waiting = (tokens >= 0).nonzero()[:, 0], (tokens < 0).nonzero()[:, 0]
        if not len(moving):
            return
        finished, log_probs, lengths = self._finished, self.log_probs(), self._lengths
        if self._shared is not None:
            shared = copy(self._shared)
            self.select(moving)
            self.advance(tokens[moving])
            shared.put(moving, self._shared)
            self._shared = shared
        else:
            self._advance_padded(tokens, moving, waiting)
        self._finished = finished.index_copy(0, moving.to(finished.device), self._finished)
        self._log_probs = log_probs.index_copy(0, moving.to(finished.device), self._log_probs)
        self._lengths = lengths.index_copy(0, moving, self._lengths)

    def _advance_padded(
        self, tokens: Int[Tensor, " batch"], moving: Int[Tensor, " some"], waiting: Int[Tensor, " others"]
    ) -> None:
        """Append tokens to the moving rows; waiting rows get one more token of padding on the left."""
        check_layers(self._cache)
        self._mask = mask = self._whole_mask()
        self._check_padding()
        kept = [(layer.keys, layer.values) for layer in self._cache.layers]
        self.select(moving)
        self.advance(tokens[moving])
        for layer, (keys, values) in zip(self._cache.layers, kept, strict=True):
            layer.keys = beside(layer.keys, moving, keys, waiting, 2)
            layer.values = beside(layer.values, moving, values, waiting, 2)
        self._mask = beside(self._mask, moving, mask, waiting, 1)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._lengths = self._lengths[indices.cpu()]
        indices = indices.to(self._finished.device)
        if self._shared is not None:
            self._shared.select(indices)
        else:
            self._cache.reorder_cache(indices)
        self._finished = self._finished[indices]
        # log_probs is wide and often not read before the next token: its rows are selected when it is read.
        self._selected = indices if self._selected is None else self._selected[indices]
        if self._mask is not None:
            self._mask = self._mask[indices]

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._texts.decode(token_ids)

    def at(self, temperature: float) -> TransformersLM:
        """Return a copy at another temperature."""
        if not temperature > 0:
            raise EvidenceError(f"TransformersLM: the temperature must be positive, not {temperature}")
        found = self.fork()
        found.temperature = temperature
        return found

    def check_room(self, prompt: Prompt, new_tokens: int) -> None:
        """Raise :class:`ContextTooLong` if the model has too few positions for a prompt and ``new_tokens`` tokens after it."""
        if self._limit is None:
            return
        length = len(self._texts.encode(prompt))
        if (room := self._limit + 1 - length) < new_tokens:  # the last token is not read
            raise ContextTooLong(
                f"TransformersLM: a prompt of {length} tokens and {new_tokens} new ones are more than the model's {self._limit} "
                f"positions; shorten the prompt{f', or give max_new_tokens={room} or less' * (room > 0)}"
            )

    def _check_lengths(self) -> None:
        longest = int(self._lengths.max())
        if self._limit is not None and longest > self._limit:
            raise ContextTooLong(
                f"TransformersLM: {longest} tokens (prompt and continuation) are more than the model's "
                f"{self._limit} positions; shorten the prompt or lower max_new_tokens"
            )

    def _check_padding(self) -> None:
        """Check the model's treatment of padding, once, before the first padded row."""
        if self._mask is not None and not self._known.pads:
            if "position_ids" not in self._accepts:
                check_padding(self.model)
            self._known.pads = True

    def extend(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Append tokens to each row in one pass; return log p_lm(next token) after each. −1 at the end of a row is padding.

        :meth:`keep` must follow. From here on rows do not share their prompt's keys and values. Raises :class:`EvidenceError`
        for a model that takes no position ids or whose cache is not of keys and values.
        """
        if "position_ids" not in self._accepts or self._cache_argument == "cache_params":
            raise EvidenceError(
                "TransformersLM: drafted tokens need a model that takes position_ids and keeps keys and values"
            )
        from .caches import can_be_cut

        if not can_be_cut(cache := self._cache if self._shared is None else self._shared):
            raise EvidenceError(f"TransformersLM: a cache of type {type(cache).__name__} cannot be cut")
        if self._shared is not None:
            (self._cache, self._mask), self._shared = self._shared.unshared(), None
        self._mask = self._whole_mask()
        self.log_probs()  # select its rows now, before the draft: keep needs them
        new = (tokens >= 0).long()
        self._lengths = self._lengths + new.sum(1)
        self._check_lengths()
        self._mask = torch.cat([self._mask, new.to(self._finished.device)], 1)
        self._extended = tokens
        self._tables = self._read_tokens(tokens.clamp(min=0).to(self._finished.device), tokens.shape[1])
        return self._tables

    def keep(self, counts: Int[Tensor, " batch"]) -> None:
        """Keep the first ``counts[i]`` tokens of the last :meth:`extend` in row i and forget the others."""
        assert self._mask is not None
        given, device, row = self._extended, self._finished.device, torch.arange(len(counts))
        size, most = given.shape[1], int(counts.max()) if len(counts) else 0
        kept = torch.arange(size) < counts[:, None]
        self._lengths = self._lengths - (given >= 0).sum(1) + counts
        self._mask = torch.cat([self._mask[:, :-size], kept[:, :most].long().to(device)], 1)
        if most < size:
            self._cache.crop(most - size)
        if self.eos_token_id is not None:
            self._finished = self._finished | (kept & (given == self.eos_token_id)).any(1).to(device)
        last = self._tables[row, (counts - 1).clamp(min=0)]
        self._log_probs = torch.where((counts > 0)[:, None].to(device), last, self.log_probs())
        self._selected = None

    def _forward(self, ids: Int[Tensor, "batch new"]) -> Float[Tensor, "batch vocab"]:
        """Return log p(next token) after the given tokens."""
        return self._read_tokens(ids, 1)[:, 0]

    @torch.no_grad()
    def _read_tokens(self, ids: Int[Tensor, "batch new"], last: int) -> Float[Tensor, "batch last vocab"]:
        """Return log p(next token) after each of the last ``last`` of the given tokens."""
        from .caches import attends, input_cache

        options: dict[str, Any] = {"logits_to_keep": last}
        if self._shared is not None:
            options["position_ids"] = self._lengths[:, None] - 1
        elif self._mask is not None:
            options["position_ids"] = (self._mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        options = {name: value for name, value in options.items() if name in self._accepts}
        options[self._cache_argument] = input_cache(self._cache if self._shared is None else self._shared)
        # States have absorbed the padding in the first pass, so a model of states alone gets no mask after it.
        masked = self._cache is None or self._cache_argument == "past_key_values" or attends(self._cache)
        model = self.model if self._shared is None else self._known.twin
        with nullcontext() if self._shared is None else self._shared.attended():
            output = model(
                input_ids=ids, attention_mask=self._mask if masked else None, use_cache=True, **options
            )
        if self._shared is None:
            self._cache = cache_of(self.model, output, self._cache_argument)
        self._selected = None
        logits = (
            check_outputs(logits_of(self.model, output)[:, -last:], self.vocab_size).flatten(0, 1).float()
        )
        logits = logits if self.temperature == 1.0 else logits / self.temperature
        finished = self._finished.repeat_interleave(last)
        tables = _pin(torch.log_softmax(logits, dim=-1), finished, self.eos_token_id)
        return tables.view(len(ids), last, -1)
