"""Corpora: sequences x_1 … x_n ~ p_lm(· | prompt), with what the model itself says of them.

A corpus is a directory: ``manifest.json`` says how it was drawn, and each ``shard-….safetensors`` holds

    tokens     (sequences, n)   continuations; after the first end-of-sequence token there is nothing else
    log_probs  (sequences,)     log p_lm(x | prompt), nats: its mean is minus the entropy that a surrogate cannot beat
    prompt     (sequences,)     which of the manifest's prompts was continued

A shard depends on the seed and its own number only, so an interrupted run goes on where it stopped and ends in the
same corpus.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..errors import FormatError, ShapeError
from .progress import progress, write_atomically

if TYPE_CHECKING:
    from ..inference.smc.lm import LanguageModel, Prompt

FORMAT = "tractile-corpus-1"


@dataclass(frozen=True)
class Manifest:
    """How a corpus was drawn."""

    vocab_size: int
    eos_token_id: int
    max_new_tokens: int
    num_sequences: int
    shard_size: int
    seed: int
    prompts: list[str | list[int]]
    format: str = FORMAT

    @property
    def num_shards(self) -> int:
        """The number of files that make up the corpus."""
        return -(-self.num_sequences // self.shard_size)

    def sequences_in(self, shard: int) -> int:
        """The number of sequences in one shard; the last may be smaller."""
        return min(self.shard_size, self.num_sequences - shard * self.shard_size)


@dataclass(frozen=True)
class Corpus:
    """Sequences of one length, padded with the end-of-sequence token."""

    tokens: Int[Tensor, "sequences length"]
    log_probs: Float[Tensor, " sequences"]
    prompt: Int[Tensor, " sequences"]
    manifest: Manifest

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_tokens(self) -> int:
        """Tokens up to and including the first end of each sequence: padding is not counted."""
        return int((self.tokens[:, :-1] != self.manifest.eos_token_id).sum()) + len(self)

    def select(self, rows: Tensor) -> Corpus:
        """The corpus of some rows (indices or a mask)."""
        return replace(
            self, tokens=self.tokens[rows], log_probs=self.log_probs[rows], prompt=self.prompt[rows]
        )

    def split(self, held_out: float, seed: int = 0) -> tuple[Corpus, Corpus]:
        """A random partition: (training part, a share ``held_out`` of the sequences)."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        count = round(held_out * len(self))
        return self.select(order[count:]), self.select(order[:count])

    @classmethod
    def load(cls, directory: str | Path) -> Corpus:
        """Read what :func:`sample` wrote; raises :class:`FormatError` if it is not a corpus or not complete."""
        path = Path(directory)
        try:
            fields = json.loads((path / "manifest.json").read_text())
            manifest = Manifest(**fields)
            shards = [load(_shard(path, i).read_bytes()) for i in range(manifest.num_shards)]
            parts = [torch.cat([shard[key] for shard in shards]) for key in ("tokens", "log_probs", "prompt")]
        except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
            raise FormatError(
                f"{path} is not a complete corpus; run the same sampling again: {error}"
            ) from error
        if manifest.format != FORMAT:
            raise FormatError(f"{path}/manifest.json: expected format {FORMAT!r}, found {manifest.format!r}")
        return cls(parts[0].long(), parts[1], parts[2].long(), manifest)


def sample(
    lm: LanguageModel,
    out: str | Path,
    num_sequences: int,
    max_new_tokens: int,
    prompts: Sequence[Prompt],
    *,
    seed: int = 0,
    shard_size: int = 4096,
    batch_size: int = 512,
) -> Corpus:
    """Draw a corpus from a language model into a directory, or finish one that was begun there.

    Each sequence continues a prompt chosen uniformly from ``prompts`` (texts or token ids; repeat one to weight it).
    Raises :class:`ShapeError` for empty arguments and :class:`FormatError` if ``out`` holds another corpus.
    """
    if lm.eos_token_id is None:
        raise ShapeError(
            "sample: the language model has no end-of-sequence token, so sequences cannot be padded"
        )
    if num_sequences < 1 or max_new_tokens < 1 or not prompts:
        raise ShapeError(
            "sample: num_sequences and max_new_tokens must be positive and there must be a prompt"
        )
    texts = [prompt if isinstance(prompt, str) else [int(token) for token in prompt] for prompt in prompts]
    manifest = Manifest(
        lm.vocab_size, lm.eos_token_id, max_new_tokens, num_sequences, shard_size, seed, texts
    )
    path = Path(out)
    path.mkdir(parents=True, exist_ok=True)
    file, content = path / "manifest.json", json.dumps(asdict(manifest), indent=1).encode()
    if file.exists() and json.loads(file.read_text()) != json.loads(content):
        raise FormatError(f"{path} holds a corpus drawn with other settings; choose another directory")
    write_atomically(file, content)
    with progress("sampling", num_sequences) as advance:
        for shard in range(manifest.num_shards):
            if not _shard(path, shard).exists():
                write_atomically(_shard(path, shard), save(_draw(lm, manifest, shard, batch_size)))
            advance(manifest.sequences_in(shard), "sampling")
    return Corpus.load(path)


def midway(corpus: Corpus, count: int, max_tokens: int, seed: int = 0) -> list[list[int]]:
    """Prompts that begin in the middle: prefixes of 1 to ``max_tokens`` tokens of random sequences, with their prompt.

    Only prompts of token ids can be continued so; sequences cut at or after their end are left out.
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[list[int]] = []
    while len(found) < count:
        row = int(torch.randint(len(corpus), (), generator=generator))
        cut = int(torch.randint(1, max_tokens + 1, (), generator=generator))
        head, tokens = corpus.manifest.prompts[int(corpus.prompt[row])], corpus.tokens[row, :cut].tolist()
        if isinstance(head, str):
            raise ShapeError("midway: the corpus was drawn from prompts of text; draw it from token ids")
        if corpus.manifest.eos_token_id not in tokens:
            found.append([*head, *tokens])
    return found


def _shard(path: Path, index: int) -> Path:
    return path / f"shard-{index:05d}.safetensors"


@torch.inference_mode()
def _draw(lm: LanguageModel, manifest: Manifest, shard: int, batch_size: int) -> dict[str, Tensor]:
    """One shard. Rows that share a prompt stand together, so that few batches need padding."""
    generator = torch.Generator().manual_seed(manifest.seed * 1_000_003 + shard)
    rows = manifest.sequences_in(shard)
    prompt = torch.randint(len(manifest.prompts), (rows,), generator=generator).sort().values
    tokens = torch.full((rows, manifest.max_new_tokens), manifest.eos_token_id, dtype=torch.int32)
    log_probs = torch.zeros(rows)
    for start in range(0, rows, batch_size):
        live = torch.arange(start, min(start + batch_size, rows))
        lm.start([manifest.prompts[i] for i in prompt[live].tolist()])
        for t in range(manifest.max_new_tokens):
            scores = lm.log_probs()
            drawn = torch.multinomial(scores.exp(), 1, generator=generator)
            tokens[live, t] = drawn[:, 0].int()
            log_probs[live] += scores.gather(1, drawn)[:, 0].float()
            open_rows = (drawn[:, 0] != manifest.eos_token_id).nonzero()[:, 0]
            if len(open_rows) == 0 or t + 1 == manifest.max_new_tokens:
                break
            if len(open_rows) < 0.75 * len(live):  # the model need not go on with rows that have ended
                live, drawn = live[open_rows], drawn[open_rows]
                lm.select(open_rows)
            lm.advance(drawn[:, 0])
    return {"tokens": tokens, "log_probs": log_probs, "prompt": prompt.int()}
