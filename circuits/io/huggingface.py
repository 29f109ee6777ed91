"""HMMs on the Hugging Face Hub, through huggingface_hub's own mixin.

The mixin is put on a holder, not on the HMM: it gives each object that is made a configuration of its own, and HMMs are made
and remade inside ``torch.func`` transforms and compiled code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelHubMixin, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from ...errors import FormatError

if TYPE_CHECKING:
    from ..hmm import HMM

FILES = [
    "config.json",
    "model.safetensors",
    "pytorch_model.bin",
    "context.safetensors",  # what tractile.distill puts beside an HMM
    "copying.safetensors",
]


class Hub(ModelHubMixin, library_name="tractile", tags=["hidden-markov-model", "controlled-generation"]):
    """An HMM with its model card, as the mixin wants it."""

    def __init__(self, hmm: HMM, card: str | None = None) -> None:
        self.hmm, self.card = hmm, card

    def _save_pretrained(self, save_directory: Path) -> None:
        self.hmm.save_pretrained(save_directory)
        if self.card is not None:
            (save_directory / "README.md").write_text(self.card)


def download(name: str, **options: Any) -> Path:
    """The directory of an HMM on the Hub, in the local cache; ``options`` go to ``snapshot_download`` (revision, token …).

    Raises :class:`FormatError` if there is none or the Hub cannot be asked.
    """
    try:
        return Path(snapshot_download(name, allow_patterns=FILES, **options))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise FormatError(
            f"{name!r} is neither a directory nor a repository of the Hugging Face Hub that can be read: {error}"
        ) from error
