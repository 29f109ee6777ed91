"""Make corpora: sample from a language model, or cut existing text.

A shard depends only on the seed, its index and its size, and is written atomically, so an interrupted run can be resumed and
gives the same corpus. Under ``torchrun`` rank r of w draws shards r, r + w, ….
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..argument_checks import not_negative, whole, whole_numbers
from ..errors import ShapeError
from ..fingerprints import check_same
from ..inference.threads import one_thread
from ..lm.base import fingerprint_of
from ..token_bytes import size_of, tokenizer_fingerprint
from .corpus import Corpus, shard_file, tokenizer_hash, write_shard
from .distributed import ranks
from .drawing import Pace, draw_shard
from .manifest import Manifest, begin
from .progress import progress
from .run_folder import locked
from .vllm import VLLM

if TYPE_CHECKING:
    from ..lm.base import LanguageModel, Prompt

_log = logging.getLogger(__name__)


def sample(
    lm: LanguageModel | VLLM,
    out: str | Path,
    num_sequences: int,
    max_new_tokens: int,
    prompts: Sequence[Prompt],
    *,
    seed: int = 0,
    shard_size: int = 4096,
    batch_size: int = 512,
    model: str = "",
    tokenizer: Any = None,
    save_seconds: float = 30.0,
    clock: Callable[[], float] = time.monotonic,
) -> Corpus:
    """Sample a corpus from a language model (or a :class:`~tractile.distill.VLLM`) into a directory; resume a run begun there.

    Each sequence continues a prompt chosen uniformly from ``prompts`` (texts or token ids; repeat one to weight it). The
    manifest records the name of the ``model``, the vocabulary's fingerprint, of the language model or of ``tokenizer``, and the
    log-probabilities that the model gives to a few tokens after the first prompt.

    Sequences are drawn ``batch_size`` at a time and kept in files of ``shard_size``. A shard under way is saved at the end of a
    batch, at most every ``save_seconds`` (by the ``clock``), and when an error or Ctrl-C stops the sampling; a
    :class:`~tractile.distill.VLLM` draws each shard in one go. The same call goes on from there. With a larger
    ``num_sequences`` it enlarges the corpus: what is there stays, and the rest is added.

    Raises :class:`ShapeError` for empty arguments, :class:`VocabularyMismatch` if ``out`` holds the corpus of another model,
    finished or not, :class:`FormatError` if it holds one made with other settings, a larger one, or a damaged one,
    :class:`EvidenceError` if the model's log-probabilities are NaN, :class:`FolderInUse` if another process writes there,
    :class:`StorageError` if the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import sample
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.3, 0.2]).log()}, eos_token_id=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = sample(lm, folder, num_sequences=1000, max_new_tokens=4, prompts=[[]])
    >>> corpus.tokens[0], corpus.token_log_probs[0].exp()  # after the end there is nothing to predict
    (tensor([1, 2, 2, 2]), tensor([0.3000, 0.2000, 1.0000, 1.0000]))
    """
    if lm.eos_token_id is None:
        raise ShapeError(
            "sample: the language model has no end-of-sequence token, so sequences cannot be padded"
        )
    num_sequences, max_new_tokens, shard_size, batch_size = (
        whole(value, f"sample: {name}", 1, ShapeError)
        for value, name in (
            (num_sequences, "num_sequences"),
            (max_new_tokens, "max_new_tokens"),
            (shard_size, "shard_size"),
            (batch_size, "batch_size"),
        )
    )
    seed = whole(seed, "sample: seed", None, ShapeError)
    if isinstance(prompts, str) or not len(prompts):
        raise ShapeError("sample: there must be a prompt; prompts are a list")
    texts = [
        prompt
        if isinstance(prompt, str)
        else whole_numbers(list(prompt), "sample: token ids of a prompt").tolist()
        for prompt in prompts
    ]
    hashed = "" if tokenizer is None else tokenizer_hash(tokenizer)
    made_for = lm.vocabulary_fingerprint if isinstance(lm, VLLM) else fingerprint_of(lm)
    if tokenizer is not None:
        given = tokenizer_fingerprint(tokenizer, lm.eos_token_id, lm.vocab_size)
        check_same("sample: the language model", made_for, "the tokenizer", given)
        made_for = made_for or given
    manifest = Manifest(
        lm.vocab_size,
        lm.eos_token_id,
        max_new_tokens,
        num_sequences,
        shard_size,
        seed,
        texts,
        str(model),
        hashed,
        vocabulary_fingerprint=made_for or "",
    )
    path = Path(out)
    with ExitStack() as stack:
        stack.enter_context(one_thread(lm))
        team = stack.enter_context(ranks())
        team.check_same("sample", asdict(manifest))
        if team.rank == 0:
            stack.enter_context(locked(path))
            manifest = begin(path, manifest, lm)
            there = sum(shard_file(path, shard).exists() for shard in range(manifest.num_shards))
            if there:
                _log.info(
                    "%s: the corpus goes on with %d of %d shards drawn", path, there, manifest.num_shards
                )
        team.wait()
        if team.rank:
            manifest = begin(path, manifest, lm)
        save_seconds = not_negative(save_seconds, "sample: save_seconds")
        mine = range(team.rank, manifest.num_shards, team.size)
        with progress("sampling", sum(map(manifest.sequences_in, mine)), team.rank == 0) as advance:
            pace = Pace(batch_size, save_seconds, clock, advance)
            for shard in mine:
                if shard_file(path, shard).exists():
                    advance(manifest.sequences_in(shard), "sampling")
                else:
                    draw_shard(lm, path, manifest, shard, pace)
        team.wait()
    return Corpus.load(path)


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
    rows = []
    for text in texts:
        ids = [*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        rows += [ids[i : i + max_new_tokens] for i in range(0, len(ids), max_new_tokens) if len(ids) > 1]
    if not rows:
        raise ShapeError("from_text: there is no text")
    tokens = torch.full((len(rows), max_new_tokens), tokenizer.eos_token_id, dtype=torch.int32)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row)
    hashed = tokenizer_hash(tokenizer)
    manifest = Manifest(
        size_of(tokenizer),
        tokenizer.eos_token_id,
        max_new_tokens,
        len(rows),
        shard_size,
        0,
        [""],
        str(model),
        hashed,
        vocabulary_fingerprint=tokenizer_fingerprint(tokenizer) or "",
    )
    path = Path(out)
    with locked(path):
        begin(path, manifest)
        for shard, part in enumerate(torch.split(tokens, shard_size)):
            prompt = torch.zeros(len(part), dtype=torch.int32)
            write_shard(path, shard, manifest, {"tokens": part.contiguous(), "prompt": prompt})
    return Corpus.load(path)


def sample_prefixes(corpus: Corpus, count: int, max_tokens: int, seed: int = 0) -> list[list[int]]:
    """Sample prompts from a corpus: the prompt of a random sequence and its first 1 to ``max_tokens`` tokens.

    Prefixes that contain the end token are skipped. Raises :class:`ShapeError` for prompts that are text, for ``max_tokens``
    below one, and where every sequence is empty.

    Examples
    --------
    >>> import torch
    >>> from tractile.distill import Corpus, sample_prefixes
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 1, 3], [2, 2, 0, 3]]), vocab_size=4, eos_token_id=3)
    >>> sample_prefixes(corpus, count=4, max_tokens=3)
    [[0], [2], [2], [2, 2]]
    """
    count = whole(count, "sample_prefixes: count", 0, ShapeError)
    max_tokens = whole(max_tokens, "sample_prefixes: max_tokens", None, ShapeError)
    generator = torch.Generator().manual_seed(seed)
    found: list[list[int]] = []
    prompts, everything = corpus.prompt, corpus.tokens
    if max_tokens < 1 or bool((everything[:, :1] == corpus.manifest.eos_token_id).all()):
        raise ShapeError(
            f"sample_prefixes: no prefix of 1 to {max_tokens} tokens is without an end token; give max_tokens of at least 1 "
            "and a corpus of sequences that do not begin with the end"
        )
    while len(found) < count:
        row = int(torch.randint(len(corpus), (), generator=generator))
        cut = int(torch.randint(1, max_tokens + 1, (), generator=generator))
        head, tokens = corpus.manifest.prompts[int(prompts[row])], everything[row, :cut].tolist()
        if isinstance(head, str):
            raise ShapeError(
                "sample_prefixes: the corpus was drawn from prompts of text; draw it from token ids"
            )
        if corpus.manifest.eos_token_id not in tokens:
            found.append([*head, *tokens])
    return found
