"""Sample corpora from a language model.

A shard depends only on the seed, its index and its size, and is written atomically, so an interrupted run can be resumed and
gives the same corpus. Under ``torchrun`` rank r of w writes shards r, r + w, …; so does share r of w without it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..argument_checks import not_negative, whole, whole_numbers
from ..errors import ShapeError
from ..fingerprints import check_same
from ..inference.threads import one_thread
from ..lm.base import fingerprint_of
from ..token_bytes import tokenizer_fingerprint
from .corpus import Corpus, missing_shards, shard_file
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
) -> Corpus:
    """Sample a corpus from a language model (or a :class:`~tractile.distill.VLLM`) into a directory; resume a run begun there.

    Each sequence continues a prompt chosen uniformly from ``prompts`` (texts or token ids; repeat one to weight it). The
    manifest records the name of the ``model``, the vocabulary's fingerprint, of the language model or of ``tokenizer``, and the
    log-probabilities that the model gives to a few tokens after the first prompt.

    Sequences are drawn ``batch_size`` at a time and kept in files of ``shard_size``. A shard under way is saved at the end of a
    batch, at most every ``save_seconds``, and when an error or Ctrl-C stops the sampling; a
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
    manifest = _planned(lm, num_sequences, max_new_tokens, prompts, seed, shard_size, model, tokenizer)
    path, batch_size = Path(out), whole(batch_size, "sample: batch_size", 1, ShapeError)
    save_seconds = not_negative(save_seconds, "sample: save_seconds")
    with ExitStack() as stack:
        stack.enter_context(one_thread(lm))
        team = stack.enter_context(ranks())
        team.check_same("sample", asdict(manifest))
        team.first(lambda: str(stack.enter_context(locked(path))))
        manifest = Manifest(**team.first(lambda: asdict(begin(path, manifest, lm))))
        if team.rank:  # the models of all ranks are one
            begin(path, manifest, lm)
        elif there := manifest.num_shards - len(missing_shards(path, manifest)):
            _log.info("%s: the corpus goes on with %d of %d shards drawn", path, there, manifest.num_shards)
        _draw(lm, path, manifest, (team.rank, team.size), batch_size, save_seconds)
        team.wait()
    return Corpus.load(path)


def sample_share(
    lm: LanguageModel | VLLM,
    out: str | Path,
    num_sequences: int,
    max_new_tokens: int,
    prompts: Sequence[Prompt],
    *,
    share: int,
    of: int,
    batch_size: int = 512,
    save_seconds: float = 30.0,
    **settings: Any,
) -> int:
    """Draw one share of the corpus of :func:`sample`; return the number of shards that are still missing, 0 if it is whole.

    ``share``: from 0 to ``of`` − 1. The processes that draw the shares, at any time and on any machine that sees the folder, know
    nothing of each other; each has a GPU or a vLLM engine of its own. ``settings``: the other ones of :func:`sample`, which all
    shares must be given alike. Raises as :func:`sample` does, and :class:`ShapeError` for a share that is not there.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import Corpus, sample_share
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.3, 0.2]).log()}, eos_token_id=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     left = [sample_share(lm, folder, 1000, 4, [[]], shard_size=300, share=i, of=2) for i in range(2)]
    ...     len(Corpus.load(folder)), left
    (1000, [2, 0])
    """
    if not 0 <= share < of:
        raise ShapeError(f"sample_share: the shares are 0 to {of - 1}, not {share} of {of}")
    manifest, path = _planned(lm, num_sequences, max_new_tokens, prompts, **settings), Path(out)
    with one_thread(lm), locked(path, f"{share} of {of}"):
        manifest = begin(path, manifest, lm)
        _draw(lm, path, manifest, (share, of), batch_size, save_seconds)
    return len(missing_shards(path, manifest))


def _planned(
    lm: LanguageModel | VLLM,
    num_sequences: int,
    max_new_tokens: int,
    prompts: Sequence[Prompt],
    seed: int = 0,
    shard_size: int = 4096,
    model: str = "",
    tokenizer: Any = None,
) -> Manifest:
    """Check the arguments of :func:`sample`; return the manifest of the corpus that they describe."""
    if lm.eos_token_id is None:
        raise ShapeError(
            "sample: the language model has no end-of-sequence token, so sequences cannot be padded"
        )
    num_sequences, max_new_tokens, shard_size = (
        whole(value, f"sample: {name}", 1, ShapeError)
        for value, name in (
            (num_sequences, "num_sequences"),
            (max_new_tokens, "max_new_tokens"),
            (shard_size, "shard_size"),
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
    made_for = lm.vocabulary_fingerprint if isinstance(lm, VLLM) else fingerprint_of(lm)
    if tokenizer is not None:
        given = tokenizer_fingerprint(tokenizer, lm.eos_token_id, lm.vocab_size)
        check_same("sample: the language model", made_for, "the tokenizer", given)
        made_for = made_for or given
    return Manifest(
        lm.vocab_size,
        lm.eos_token_id,
        max_new_tokens,
        num_sequences,
        shard_size,
        seed,
        texts,
        str(model),
        vocabulary_fingerprint=made_for or "",
    )


def _draw(
    lm: LanguageModel | VLLM,
    path: Path,
    manifest: Manifest,
    share: tuple[int, int],
    batch_size: int,
    save_seconds: float,
) -> None:
    """Draw the shards r, r + w, … of share (r, w) that are not there yet."""
    mine = range(share[0], manifest.num_shards, share[1])
    with progress("sampling", sum(map(manifest.sequences_in, mine)), share[0] == 0) as advance:
        pace = Pace(batch_size, save_seconds, advance)
        for shard in mine:
            if shard_file(path, shard).exists():
                advance(manifest.sequences_in(shard), "sampling")
            else:
                draw_shard(lm, path, manifest, shard, pace)
