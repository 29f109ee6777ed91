"""The language models and the HMMs that ship with Tractile, small ones, each distilled from one of the models.

``lm/`` is a Llama of about a million parameters as ``save_pretrained`` writes it, trained on children's stories, and
``hmm/`` an HMM distilled from it: for trying things out and for tests. ``small_lm/`` is a Llama of four million
parameters that answers the tasks of :mod:`tractile.tasks`, and ``small_hmm/`` holds HMMs of its answers, one for each
task. Every folder has a card (``README.md``) with data, licence and measured quality.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ..circuits.hmm import HMM

LM_PATH = Path(__file__).resolve().parent / "lm"
HMM_PATH = Path(__file__).resolve().parent / "hmm"
SMALL_LM_PATH = Path(__file__).resolve().parent / "small_lm"
SMALL_HMM_PATH = Path(__file__).resolve().parent / "small_hmm"
SMALL_HMMS: dict[str, dict[str | None, str]] = {
    "function-calling": {None: "calls", "json": "calls", "python": "calls"},
    "commongen": {None: "commongen"},
    "spider": {None: "sql"},
    "goal-inference": {None: "goals"},
    "molecules": {None: "molecules"},
}
"""The folders in :data:`SMALL_HMM_PATH`, by task and its syntax. Those that hold ``copying.safetensors`` are read by
:class:`tractile.distill.Copying` too, which has them copy from prompts."""


def load_lm() -> tuple[Any, Any]:
    """(model, tokenizer): a ``LlamaForCausalLM`` in float32 and evaluation mode, and its fast tokenizer."""
    return _load(LM_PATH)


def load_small_lm() -> tuple[Any, Any]:
    """(model, tokenizer): the model for the tasks, a ``LlamaForCausalLM`` in float32 and evaluation mode; its fast tokenizer."""
    return _load(SMALL_LM_PATH)


def _load(path: Path) -> tuple[Any, Any]:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(path)
    model: Any = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model.eval(), tokenizer


def load_hmm() -> HMM:
    """The HMM distilled from :func:`load_lm`'s model: continuations of up to 48 tokens, padded with ``</s>``."""
    return HMM.from_pretrained(HMM_PATH)


def small_hmm_path(task: str, syntax: str | None = None) -> Path:
    """The folder of the HMM of the small model's answers to ``task``, "function-calling" in ``syntax`` "json" or "python".

    Raises :class:`ValueError` for a task without an HMM, naming those that have one.
    """
    names = SMALL_HMMS.get(task, {})
    if syntax not in names:
        asked = task if syntax is None else f"{task} in {syntax}"
        raise ValueError(f"no HMM of the small model for {asked}: there is one for {', '.join(SMALL_HMMS)}")
    return SMALL_HMM_PATH / names[syntax]


def load_small_hmm(task: str, syntax: str | None = None) -> HMM:
    """The HMM of the answers of :func:`load_small_lm`'s model to a task; :func:`small_hmm_path` says which there are."""
    return HMM.from_pretrained(small_hmm_path(task, syntax))
