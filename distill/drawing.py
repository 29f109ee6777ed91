"""Draw one shard of a corpus, batch by batch; what is drawn is kept when the drawing stops in the middle.

    partial-00003.safetensors     the sequences of shard 3 drawn so far, and the state of the random numbers after them

The file is written at the end of a batch, at most every ``save_seconds``, and when an error or Ctrl-C stops the drawing. It is
removed when the shard is complete. A shard drawn in several runs with one ``batch_size`` is the shard drawn in one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ..errors import EvidenceError, FormatError
from ..inference.smc.proposals import draw_tokens
from ..lm.base import LanguageModel, Prompt
from ..storage import remove_abandoned
from .corpus import write_shard
from .manifest import Manifest
from .tensor_file import read_tensors, write_tensors
from .vllm import VLLM

_log = logging.getLogger(__name__)


class Pace(NamedTuple):
    """How a shard is drawn: sequences at once, seconds between saves, and who hears of progress.

    ``advance`` is called with the number of sequences that have come to be there, and a description.
    """

    batch_size: int
    save_seconds: float
    advance: Callable[[int, str], None]


@torch.inference_mode()
def draw_shard(lm: LanguageModel | VLLM, path: Path, manifest: Manifest, shard: int, pace: Pace) -> None:
    """Draw a shard and write it. Rows are sorted by prompt, so that few batches need padding."""
    generator = torch.Generator().manual_seed(manifest.seed * 1_000_003 + shard)
    rows = manifest.sequences_in(shard)
    prompt = torch.randint(len(manifest.prompts), (rows,), generator=generator).sort().values
    prompts = [manifest.prompts[i] for i in prompt.tolist()]
    if isinstance(lm, VLLM):  # one call: the engine makes its own batches
        seeds = torch.randint(2**62, (rows,), generator=generator).tolist()
        found = Drawn(*lm.continuations(prompts, manifest.max_new_tokens, seeds))
        pace.advance(rows, "sampling")
        if not bool(found.log_probs.isfinite().all()):
            raise EvidenceError("sample: the engine gives log-probabilities that are NaN or infinite")
    else:
        found = _in_batches(lm, path, manifest, shard, prompts, generator, pace)
    write_shard(path, shard, manifest, {**found._asdict(), "prompt": prompt.int()})
    with suppress(OSError):
        partial_file(path, shard).unlink(missing_ok=True)
        remove_abandoned(partial_file(path, shard))


class Drawn(NamedTuple):
    """Tokens, their log-probabilities in nats and the most probable tokens, each (sequences, n)."""

    tokens: Tensor
    log_probs: Tensor
    best: Tensor


def partial_file(path: Path, shard: int) -> Path:
    """Return the path of what is drawn of an unfinished shard."""
    return path / f"partial-{shard:05d}.safetensors"


def _in_batches(
    lm: LanguageModel,
    path: Path,
    manifest: Manifest,
    shard: int,
    prompts: Sequence[Prompt],
    generator: Generator,
    pace: Pace,
) -> Drawn:
    """Draw a sequence for each prompt, beginning with those that a former run has kept."""
    tokens = torch.full((len(prompts), manifest.max_new_tokens), manifest.eos_token_id, dtype=torch.int32)
    found = Drawn(tokens, torch.zeros(tokens.shape), tokens.clone())
    file = partial_file(path, shard)
    done = kept = _restore(file, manifest, found, generator)
    state, since = generator.get_state(), time.monotonic()
    pace.advance(done, "sampling")

    def keep() -> None:
        tensors = {name: x[:done] for name, x in found._asdict().items()} | {"state": state}
        write_tensors(file, tensors, {"corpus": manifest.digest})

    try:
        while done < len(prompts):
            batch = torch.arange(done, min(done + pace.batch_size, len(prompts)))
            _continue(lm, prompts, batch, manifest, found, generator)
            done, state = done + len(batch), generator.get_state()
            pace.advance(len(batch), "sampling")
            if done < len(prompts) and time.monotonic() - since >= pace.save_seconds:
                keep()
                kept, since = done, time.monotonic()
    except BaseException:  # Ctrl-C too: only the batch under way is lost
        if done > kept:
            keep()
        raise
    return found


def _restore(file: Path, manifest: Manifest, found: Drawn, generator: Generator) -> int:
    """Read what a former run drew of a shard into ``found`` and set the generator; return the number of sequences.

    A file that is damaged or of another corpus is not used.
    """
    if not file.exists():
        return 0
    try:
        tensors, header = read_tensors(file)
        if header.get("corpus") != manifest.digest:
            raise ValueError("it is of another corpus")
        state = tensors.pop("state")
        done = len(tensors["tokens"])
        for name, into in found._asdict().items():
            into[:done] = tensors[name]
        generator.set_state(state)
    except (FormatError, ValueError, KeyError, RuntimeError) as error:
        _log.warning("%s is not used, its sequences are drawn anew: %s", file, error)
        return 0
    return done


def _continue(
    lm: LanguageModel,
    prompts: Sequence[Prompt],
    live: Tensor,
    manifest: Manifest,
    found: Drawn,
    generator: Generator,
) -> None:
    """Draw the sequences of the rows ``live`` and write them into ``found``."""
    n, eos = manifest.max_new_tokens, manifest.eos_token_id
    lm.start([prompts[i] for i in live.tolist()])
    for t in range(n):
        scores = lm.log_probs()
        drawn, total = draw_tokens(scores.exp(), generator)  # where the scores are: a table may be gigabytes
        if not bool(((total > 0) & total.isfinite()).all()):
            row = int(live[int((~((total > 0) & total.isfinite())).nonzero()[0, 0])])
            raise EvidenceError(
                f"sample: after {t} tokens of the prompt {prompts[row]!r:.60} the language model gives log-probabilities that "
                "are NaN, infinite, or all −inf; try another precision or device"
            )
        found.log_probs[live, t] = scores.gather(1, drawn[:, None])[:, 0].float().cpu()
        found.best[live, t] = scores.argmax(1).int().cpu()
        drawn = drawn.cpu()
        found.tokens[live, t] = drawn.int()
        open_rows = (drawn != eos).nonzero()[:, 0]
        if len(open_rows) == 0 or t + 1 == n:
            break
        if len(open_rows) < 0.75 * len(live):  # drop rows that have ended, if there are many
            live, drawn = live[open_rows], drawn[open_rows]
            lm.select(open_rows)
        lm.advance(drawn)
