"""HMMs on the Hugging Face Hub, by ``ModelHubMixin`` of huggingface_hub.

A wrapper class derives from the mixin, not the HMM: the mixin attaches a configuration to each new object, and new HMMs are
made inside ``torch.func`` transforms and compiled code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from huggingface_hub import ModelHubMixin, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from ...errors import FormatError

FILES = [
    "config.json",
    "model.safetensors",
    "pytorch_model.bin",
    "context.safetensors",  # written by tractile.distill, like the next file
    "copying.safetensors",
]


class Saves(Protocol):
    """A model that writes itself into a directory."""

    def save_pretrained(self, directory: Path) -> None: ...


class Hub(ModelHubMixin, library_name="tractile", tags=["hidden-markov-model", "controlled-generation"]):
    """An HMM with its model card, in the form that the mixin uploads."""

    def __init__(self, hmm: Saves, card: str | None = None) -> None:
        self.hmm, self.card = hmm, card

    def _save_pretrained(self, save_directory: Path) -> None:
        self.hmm.save_pretrained(save_directory)
        if self.card is not None:
            (save_directory / "README.md").write_text(self.card)


def download(name: str, **options: Any) -> Path:
    """Download an HMM from the Hub and return its directory in the local cache.

    ``options`` are passed to ``snapshot_download`` (revision, token …). Raises :class:`FormatError` if there is no such
    repository or the Hub cannot be reached.
    """
    try:
        return Path(snapshot_download(name, allow_patterns=FILES, **options))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise FormatError(
            f"{name!r} is neither a directory nor a repository of the Hugging Face Hub that can be read: {error}"
        ) from error
