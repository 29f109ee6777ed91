"""Corpora: sequences x_1 … x_n ~ p_lm(· | prompt), with the model's own log-probabilities.

A corpus is a directory: ``manifest.json`` says how it was drawn, and each ``shard-….safetensors`` holds

    tokens     (sequences, n)   continuations, padded with the end-of-sequence token
    log_probs  (sequences, n)   log p_lm(x_t | prompt, x_<t), nats, 0 after the end; minus their mean is the language model's
                                entropy, below which no HMM's cross-entropy lies (up to sampling error)
    best       (sequences, n)   the model's most probable token at each position
    prompt     (sequences,)     index of the prompt in the manifest

A corpus of existing text has no ``log_probs`` and no ``best``. Shards are memory-mapped: a corpus may be larger
than memory. Each holds a checksum and the digest of its manifest, so damaged or foreign shards are detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import FormatError, ShapeError, VocabularyMismatch
from ..fingerprints import check_same
from ..token_bytes import tokenizer_fingerprint
from .manifest import Manifest, read_manifest
from .tensor_file import digest, read_tensors, write_tensors


@dataclass(frozen=True)
class Corpus:
    """Sequences of one length, padded with the end-of-sequence token: the ``rows`` of the concatenated shards, in this order.

    Examples
    --------
    >>> import torch
    >>> from tractile.distill import Corpus
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2]]), vocab_size=3, eos_token_id=2)
    >>> len(corpus), corpus.num_tokens  # 3 + 4: each end is counted once
    (2, 7)
    >>> train, test = corpus.split(held_out=0.5)
    >>> len(train), len(test)
    (1, 1)
    """

    shards: Sequence[Mapping[str, Tensor]]
    rows: Int[Tensor, " sequences"]
    manifest: Manifest

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """A hash of the content: the manifest, the shards and the selected rows."""
        sums = [digest(shard) for shard in self.shards]
        out = hashlib.sha256(f"{self.manifest.digest} {sums} ".encode())
        out.update(self.rows.numpy().tobytes())
        return out.hexdigest()[:16]

    def take(self, rows: Int[Tensor, " batch"]) -> Int[Tensor, "batch length"]:
        """Gather the tokens of some sequences."""
        return self._gather("tokens", self.rows[rows]).long()

    @property
    def tokens(self) -> Int[Tensor, "sequences length"]:
        """All tokens."""
        return self._gather("tokens", self.rows).long()

    @property
    def prompt(self) -> Int[Tensor, " sequences"]:
        """The index of each sequence's prompt in the manifest."""
        return self._gather("prompt", self.rows).long()

    @property
    def vocabulary_fingerprint(self) -> str | None:
        """The fingerprint of the vocabulary; None if it is not known."""
        return self.manifest.vocabulary_fingerprint or None

    @property
    def token_log_probs(self) -> Float[Tensor, "sequences length"] | None:
        """The model's own log p of each token, nats; None for existing text."""
        return self._gather("log_probs", self.rows) if "log_probs" in self.shards[0] else None

    @property
    def log_probs(self) -> Float[Tensor, " sequences"] | None:
        """The model's own log p of each sequence, nats; None for existing text."""
        each = self.token_log_probs
        return None if each is None else each.sum(1)

    @property
    def best(self) -> Int[Tensor, "sequences length"] | None:
        """The model's most probable token at each position; None for existing text."""
        return self._gather("best", self.rows).long() if "best" in self.shards[0] else None

    @cached_property
    def num_tokens(self) -> int:
        """The number of tokens up to and including each sequence's first end token; padding is not counted."""
        tokens = self._gather("tokens", self.rows)
        return int((tokens[:, :-1] != self.manifest.eos_token_id).sum()) + len(self)

    def select(self, rows: Tensor) -> Corpus:
        """Select rows, by indices or a mask."""
        return replace(self, rows=self.rows[rows])

    def split(self, held_out: float, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Split at random into (training part, a share ``held_out`` of the sequences)."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        count = round(held_out * len(self))
        return self.select(order[count:]), self.select(order[:count])

    @classmethod
    def of(
        cls,
        tokens: Int[Tensor, "sequences length"],
        vocab_size: int,
        eos_token_id: int,
        prompts: Sequence[str | list[int]] | None = None,
        vocabulary_fingerprint: str | None = None,
    ) -> Corpus:
        """Build a corpus in memory from token sequences, each with its prompt if ``prompts`` are given.

        ``vocabulary_fingerprint``: of the tokens' vocabulary, if known. Raises :class:`ShapeError`, and
        :class:`VocabularyMismatch` for ids outside the vocabulary.
        """
        tokens = _ended(tokens, vocab_size, eos_token_id)
        count, length = tokens.shape
        if prompts is not None and len(prompts) != count:
            raise ShapeError(f"a corpus of {count} sequences needs as many prompts, not {len(prompts)}")
        asked = [[]] if prompts is None else list(prompts)
        known = vocabulary_fingerprint or ""
        manifest = Manifest(
            vocab_size, eos_token_id, length, count, count, 0, asked, vocabulary_fingerprint=known
        )
        prompt = torch.arange(count, dtype=torch.int32) % len(asked)
        return cls([{"tokens": tokens.int(), "prompt": prompt}], torch.arange(count), manifest)

    @classmethod
    def load(cls, directory: str | Path) -> Corpus:
        """Memory-map a corpus from its directory. Raises :class:`FormatError` if it is no corpus, incomplete or damaged."""
        path = Path(directory)
        manifest = read_manifest(path)
        missing = missing_shards(path, manifest)
        if missing:
            raise FormatError(
                f"{path} is not a complete corpus: {len(missing)} of {manifest.num_shards} shards are missing, "
                f"{shard_file(path, missing[0]).name} first; run the same sampling again"
            )
        shards = [_read_shard(path, i, manifest) for i in range(manifest.num_shards)]
        return cls(shards, torch.arange(manifest.num_sequences), manifest)

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Raise :class:`VocabularyMismatch` if the corpus was made with another tokenizer, or another end token."""
        manifest = self.manifest
        cure = f"give the model that the corpus was drawn from{manifest.model and f', {manifest.model}'}"
        found = tokenizer_fingerprint(tokenizer, manifest.eos_token_id, manifest.vocab_size)
        check_same("the corpus", self.vocabulary_fingerprint, "this tokenizer", found, cure)

    def _gather(self, key: str, rows: Tensor) -> Tensor:
        if len(self.shards) == 1:
            return self.shards[0][key][rows]
        bounds = self.manifest.bounds
        out = self.shards[0][key].new_empty((len(rows), *self.shards[0][key].shape[1:]))
        which = torch.searchsorted(bounds, rows, right=True)
        for i in which.unique().tolist():
            here = which == i
            out[here] = self.shards[i][key][rows[here] - (int(bounds[i - 1]) if i else 0)]
        return out


def shard_file(path: Path, index: int) -> Path:
    """Return the path of a shard."""
    return path / f"shard-{index:05d}.safetensors"


def missing_shards(path: Path, manifest: Manifest) -> list[int]:
    """Return the numbers of the shards that are not there; the folder is read anew, where other machines write in it."""
    names = {file.name for file in path.iterdir()}
    return [i for i in range(manifest.num_shards) if shard_file(path, i).name not in names]


def write_shard(path: Path, index: int, manifest: Manifest, tensors: Mapping[str, Tensor]) -> None:
    """Write a shard atomically. Raises :class:`StorageError`."""
    write_tensors(shard_file(path, index), tensors, {"corpus": manifest.digest})


def _read_shard(path: Path, index: int, manifest: Manifest) -> dict[str, Tensor]:
    file = shard_file(path, index)
    cure = f"delete {file.name} and run the same sampling again: only this shard is drawn anew"
    try:
        tensors, header = read_tensors(file)
    except FormatError as error:
        raise FormatError(f"{error}; {cure}") from error
    shape = (manifest.sequences_in(index), manifest.max_new_tokens)
    if header.get("corpus") != manifest.digest or tensors["tokens"].shape != shape:
        raise FormatError(f"{file} is not a shard of this corpus; {cure}")
    return tensors


def _ended(tokens: Tensor, vocab_size: int, eos_token_id: int) -> Tensor:
    """Repeat the end token after its first occurrence in each row; check that all ids are tokens."""
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ShapeError(f"a corpus is made of (sequences, length) tokens, not {tuple(tokens.shape)}")
    if not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise VocabularyMismatch(
            f"tokens {int(tokens.min())} … {int(tokens.max())} are not all among the {vocab_size} of the vocabulary"
        )
    return tokens.masked_fill((tokens == eos_token_id).int().cumsum(1) > 0, eos_token_id)
