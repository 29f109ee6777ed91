"""The language model and the HMM that ship with Tractile: small, and trained on children's stories.

``lm/`` is a Llama of about a million parameters as ``save_pretrained`` writes it, ``hmm/`` an HMM distilled from it; each
folder has a card (``README.md``) with data, licence and measured quality. They are for trying things out and for tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ..circuits.hmm import HMM

LM_PATH = Path(__file__).resolve().parent / "lm"
HMM_PATH = Path(__file__).resolve().parent / "hmm"


def load_lm() -> tuple[Any, Any]:
    """(model, tokenizer): a ``LlamaForCausalLM`` in float32 and evaluation mode, and its fast tokenizer."""
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(LM_PATH)
    model: Any = LlamaForCausalLM.from_pretrained(LM_PATH, dtype=torch.float32)
    return model.eval(), tokenizer


def load_hmm() -> HMM:
    """The HMM distilled from :func:`load_lm`'s model: continuations of up to 48 tokens, padded with ``</s>``."""
    return HMM.from_pretrained(HMM_PATH)
