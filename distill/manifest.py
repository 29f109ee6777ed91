"""The manifest of a corpus: how it was drawn, from which model, and how many sequences each of its shards has."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import FormatError
from ..storage import make_directory, write_atomically
from .run_folder import differences
from .same_model import check_same_model, probe

if TYPE_CHECKING:
    from ..lm.base import LanguageModel
    from .vllm import VLLM

FORMAT = "tractile-corpus-3"


@dataclass(frozen=True)
class Manifest:
    """The settings with which a corpus was drawn.

    ``vocabulary_fingerprint``: fingerprint of the tokenizer's vocabulary, "" if unknown. ``text``: the SHA-256 of existing text,
    "" for a corpus that was drawn. ``probe``: tokens after the first prompt and the log-probabilities that the model gave them
    (nats), none for existing text. ``grown``: the numbers of sequences before each enlargement.
    """

    vocab_size: int
    eos_token_id: int
    max_new_tokens: int
    num_sequences: int
    shard_size: int
    seed: int
    prompts: list[str | list[int]]
    model: str = ""
    format: str = FORMAT
    vocabulary_fingerprint: str = ""
    text: str = ""
    probe: dict[str, list[Any]] = field(default_factory=dict)
    grown: list[int] = field(default_factory=list)

    @cached_property
    def bounds(self) -> Int[Tensor, " shards"]:
        """The number of sequences up to the end of each shard; the last one before an enlargement may be smaller."""
        ends, start = list[int](), 0
        for total in [*self.grown, self.num_sequences]:
            ends += [*range(start + self.shard_size, total, self.shard_size), total]
            start = total
        return torch.tensor(ends)

    @property
    def num_shards(self) -> int:
        """The number of files that make up the corpus."""
        return len(self.bounds)

    def sequences_in(self, shard: int) -> int:
        """Return the number of sequences in one shard."""
        return int(self.bounds[shard]) - (int(self.bounds[shard - 1]) if shard else 0)

    def to_json(self) -> bytes:
        """Return the content of ``manifest.json``."""
        return json.dumps(asdict(self), indent=1).encode()

    @property
    def settings(self) -> dict[str, Any]:
        """What all shards of the corpus have in common, however many there are."""
        return {k: v for k, v in asdict(self).items() if k not in ("num_sequences", "probe", "grown")}

    @cached_property
    def digest(self) -> str:
        """A hash of the settings, which its shards hold."""
        return hashlib.sha256(json.dumps(self.settings).encode()).hexdigest()[:16]


def begin(path: Path, manifest: Manifest, lm: LanguageModel | VLLM | None = None) -> Manifest:
    """Create the directory and manifest of a corpus, or take up the one that is there; return its manifest.

    ``lm``: the model to draw from, None for existing text. Raises the errors of :func:`~tractile.distill.sample` if the
    directory holds another corpus.
    """
    make_directory(path)
    if not (path / "manifest.json").exists():
        said = {} if lm is None else probe(lm, manifest.prompts[0], manifest.max_new_tokens)
        manifest = replace(manifest, probe=said)
        write_atomically(path / "manifest.json", manifest.to_json())
        return manifest
    there = read_manifest(path)
    if there.settings != manifest.settings:
        sized = ({**one.settings, "num_sequences": one.num_sequences} for one in (there, manifest))
        found = differences(*sized)
        raise FormatError(
            f"{path} holds a corpus made with other settings: {found}; choose another directory"
        )
    if lm is not None:
        check_same_model(there.probe, lm, there.prompts[0], str(path), there.model)
    if there.num_sequences == manifest.num_sequences:
        return there
    if there.num_sequences > manifest.num_sequences:
        raise FormatError(
            f"{path} holds a corpus made with other settings: num_sequences was {there.num_sequences}, is "
            f"{manifest.num_sequences}; a corpus only grows: choose another directory"
        )
    grown = [*there.grown, there.num_sequences]
    manifest = replace(there, num_sequences=manifest.num_sequences, grown=grown)
    write_atomically(path / "manifest.json", manifest.to_json())
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a corpus. Raises :class:`FormatError` if there is none."""
    try:
        fields = json.loads((path / "manifest.json").read_text())
        if fields["format"] != FORMAT:
            raise ValueError(f"its format is {fields['format']!r}, not {FORMAT!r}: sample anew")
        return Manifest(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{path} is not a corpus (`tractile distill sample` makes one): {error}") from error
