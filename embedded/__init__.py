"""The small language models that ship with Tractile, and an HMM distilled from one, for trying things out and for tests.

``lm/`` is a Llama of about a million parameters as ``save_pretrained`` writes it, trained on children's stories; ``masked_lm/``
a masked diffusion model of the same tokens. Each folder has a card (``README.md``) with data, licence and measured quality.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..circuits.hmm import HMM

__all__ = ["HMM_PATH", "LM_PATH", "MASKED_LM_PATH", "load_hmm", "load_lm", "load_masked_lm"]

LM_PATH = Path(__file__).resolve().parent / "lm"
"""The folder of the language model."""
HMM_PATH = Path(__file__).resolve().parent / "hmm"
"""The folder of the HMM."""
MASKED_LM_PATH = Path(__file__).resolve().parent / "masked_lm"
"""The folder of the masked diffusion model."""


def load_lm() -> tuple[Any, Any]:
    """Load (model, tokenizer): a ``LlamaForCausalLM`` in float32 and evaluation mode, and its fast tokenizer.

    Examples
    --------
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> model.config.vocab_size
    1024
    """
    return load_llama(LM_PATH)


def load_llama(path: Path) -> tuple[Any, Any]:
    """Load a Llama and its fast tokenizer from a folder, in float32 and evaluation mode.

    Examples
    --------
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_llama(tt.embedded.LM_PATH)
    >>> tokenizer.decode(tokenizer("Once upon a time").input_ids)
    '<s> Once upon a time'
    """
    return _load(path, "LlamaForCausalLM")


def load_masked_lm() -> tuple[Any, Any]:
    """Load (model, tokenizer): a ``BertForMaskedLM`` of 64 positions in float32 and evaluation mode, and its fast tokenizer.

    Examples
    --------
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_masked_lm()
    >>> model.config.vocab_size, tokenizer.mask_token
    (1025, '<mask>')
    """
    return _load(MASKED_LM_PATH, "AutoModelForMaskedLM")


def _load(path: Path, kind: str) -> tuple[Any, Any]:
    import transformers
    from transformers.utils import logging

    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(path)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model: Any = getattr(transformers, kind).from_pretrained(path)
    finally:
        if shown:
            logging.enable_progress_bar()
    return model.float().eval(), tokenizer


def load_hmm() -> HMM:
    """Load the HMM distilled from :func:`load_lm`'s model: continuations of up to 48 tokens, padded with ``</s>``.

    Examples
    --------
    >>> import tractile as tt
    >>> hmm = tt.embedded.load_hmm()
    >>> hmm.hidden, hmm.vocab_size
    (512, 1024)
    """
    return HMM.from_pretrained(HMM_PATH)
