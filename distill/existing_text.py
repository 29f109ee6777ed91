"""Corpora of existing text, cut into sequences; ranks of ``torchrun`` share the reading and the writing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from ..argument_checks import whole
from ..errors import ShapeError
from ..token_bytes import size_of, tokenizer_fingerprint
from .corpus import Corpus, shard_file, write_shard
from .distributed import ranks
from .manifest import Manifest, begin
from .run_folder import locked


def from_text(
    texts: Iterable[str],
    tokenizer: Any,
    out: str | Path,
    max_new_tokens: int,
    *,
    shard_size: int = 4096,
    model: str = "",
) -> Corpus:
    """Make a corpus of existing text: documents are cut into sequences of ``max_new_tokens``, the last one ends with EOS.

    Raises :class:`ShapeError` if there is no text, and as :func:`sample` does.

    Examples
    --------
    >>> import tempfile
    >>> import tractile as tt
    >>> from tractile.distill import from_text
    >>> _, tokenizer = tt.embedded.load_lm()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = from_text(["Once upon a time there was a girl.", "The end."], tokenizer, folder, max_new_tokens=8)
    >>> [tokenizer.decode(row) for row in corpus.tokens]
    ['Once upon a time there was a girl', '.</s></s></s></s></s></s></s>', 'The end.</s></s></s></s></s>']
    """
    whole(max_new_tokens, "from_text: max_new_tokens", 1, ShapeError)
    whole(shard_size, "from_text: shard_size", 1, ShapeError)
    if tokenizer.eos_token_id is None:
        raise ShapeError("from_text: the tokenizer needs an end-of-sequence token")
    documents, eos = list(texts), tokenizer.eos_token_id

    @cache
    def tokens_of(number: int) -> list[int]:
        ids = [*tokenizer(documents[number], add_special_tokens=False).input_ids, eos]
        return ids if len(ids) > 1 else []

    path = Path(out)
    with ExitStack() as stack:
        team = stack.enter_context(ranks())
        rows = torch.zeros(
            len(documents), dtype=torch.long
        )  # each rank counts some; it reads again what it writes
        for number in range(team.rank, len(documents), team.size):
            rows[number] = -(-len(tokens_of(number)) // max_new_tokens)
        team.sum([rows])
        ends = rows.cumsum(0)
        if not len(documents) or not int(ends[-1]):
            raise ShapeError("from_text: there is no text")
        manifest = Manifest(
            size_of(tokenizer),
            eos,
            max_new_tokens,
            int(ends[-1]),
            shard_size,
            0,
            [""],
            str(model),
            vocabulary_fingerprint=tokenizer_fingerprint(tokenizer) or "",
            text=sha256(json.dumps(documents).encode()).hexdigest(),
        )
        team.check_same("from_text", asdict(manifest))
        team.first(lambda: str(stack.enter_context(locked(path))))
        team.first(lambda: asdict(begin(path, manifest)))
        for shard in range(team.rank, manifest.num_shards, team.size):
            if shard_file(path, shard).exists():
                continue
            start, count = shard * shard_size, manifest.sequences_in(shard)
            first, last = torch.searchsorted(
                ends, torch.tensor([start, start + count - 1]), right=True
            ).tolist()
            skipped = start - int(ends[first] - rows[first])
            cut = [
                ids[i : i + max_new_tokens]
                for ids in map(tokens_of, range(first, last + 1))
                for i in range(0, len(ids), max_new_tokens)
            ][skipped : skipped + count]
            tokens = torch.tensor(
                [row + [eos] * (max_new_tokens - len(row)) for row in cut], dtype=torch.int32
            )
            write_shard(
                path, shard, manifest, {"tokens": tokens, "prompt": torch.zeros(count, dtype=torch.int32)}
            )
        team.wait()
    return Corpus.load(path)
