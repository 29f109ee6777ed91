"""Decoding with constraints: values of Python types, exact probabilities of texts, beam search, logits processors."""

from pathlib import Path

from .beam import Beam, beam_search
from .choose import Choices, choose
from .generate import generate
from .infill import Infilling, infill
from .logits_processor import ConstraintLogitsProcessor

__all__ = [
    "Beam",
    "Choices",
    "ConstraintLogitsProcessor",
    "Infilling",
    "beam_search",
    "choose",
    "custom_generate_path",
    "infill",
    "generate",
]


def custom_generate_path() -> str:
    """The folder for ``model.generate(custom_generate=…)`` of transformers: generation under a constraint."""
    return str(Path(__file__).parent / "hub")
