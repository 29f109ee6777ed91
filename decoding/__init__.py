"""Decoding with constraints: values of Python types, the most probable text, beam search, speculation, logits processors."""

from inspect import signature
from pathlib import Path

from ..errors import TractileError
from .asynchronous import generate_async, stream_async
from .beam import Beam, beam_search
from .canvas import Canvas, canvas
from .confidence import Confidence
from .diffusion import Denoised, denoise
from .engine import Engine
from .generate import generate
from .logits_processor import ConstraintLogitsProcessor
from .mode import MostProbable, mode
from .speculative import Speculation, speculative
from .stream import Part, Stream
from .training import constraint_loss, log_kept

__all__ = [
    "Beam",
    "Canvas",
    "Confidence",
    "ConstraintLogitsProcessor",
    "Denoised",
    "Engine",
    "MostProbable",
    "Part",
    "Speculation",
    "Stream",
    "beam_search",
    "canvas",
    "constraint_loss",
    "custom_generate_path",
    "denoise",
    "generate",
    "generate_async",
    "log_kept",
    "mode",
    "speculative",
    "stream_async",
]


def custom_generate_path() -> str:
    """Return the folder to give to transformers as ``model.generate(custom_generate=…)``, for constrained generation.

    Raises :class:`TractileError` if the installed transformers has no ``custom_generate`` (before 4.52).

    Examples
    --------
    >>> import os, tractile as tt
    >>> sorted(name for name in os.listdir(tt.decoding.custom_generate_path()) if not name.startswith("_"))
    ['README.md', 'custom_generate']
    """
    from transformers import GenerationMixin, __version__

    if "custom_generate" not in signature(GenerationMixin.generate).parameters:
        raise TractileError(
            f"custom_generate needs transformers>=4.52, not {__version__}: pip install --upgrade transformers, or use "
            "ConstraintLogitsProcessor or tt.smc"
        )
    return str(Path(__file__).parent / "hub")
