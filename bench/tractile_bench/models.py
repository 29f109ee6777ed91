"""The small language model that answers the tasks, and HMMs of its answers, one for each task.

``small_lm/`` is a Llama of four million parameters; ``small_hmm/`` holds the HMMs. Each has a card (``README.md``) with data,
licence and measured quality.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tractile.circuits.hmm import HMM
from tractile.embedded import load_llama

SMALL_LM_PATH = Path(__file__).resolve().parent / "small_lm"
SMALL_HMM_PATH = Path(__file__).resolve().parent / "small_hmm"
SMALL_HMMS: dict[str, dict[str | None, str]] = {
    "function-calling": {None: "calls", "json": "calls", "python": "calls"},
    "commongen": {None: "commongen"},
    "spider": {None: "sql"},
    "goal-inference": {None: "goals"},
    "molecules": {None: "molecules"},
}
"""The folders of HMMs in :data:`SMALL_HMM_PATH`, by task and syntax.

An HMM whose folder holds ``copying.safetensors`` copies from the prompt (:class:`guides.Copying`)."""


def load_small_lm() -> tuple[Any, Any]:
    """Load (model, tokenizer): a ``LlamaForCausalLM`` in float32 and evaluation mode, and its fast tokenizer."""
    return load_llama(SMALL_LM_PATH)


def small_hmm_path(task: str, syntax: str | None = None) -> Path:
    """Return the folder of the HMM of the small model's answers to ``task``; ``syntax`` is for "function-calling" only.

    Raises :class:`ValueError` for a task without an HMM, naming the tasks with one.
    """
    names = SMALL_HMMS.get(task, {})
    if syntax not in names:
        given = task if syntax is None else f"{task} in {syntax}"
        raise ValueError(f"no HMM of the small model for {given}: there is one for {', '.join(SMALL_HMMS)}")
    return SMALL_HMM_PATH / names[syntax]


def load_small_hmm(task: str, syntax: str | None = None) -> HMM:
    """Load the HMM of the small model's answers to a task. Raises as :func:`small_hmm_path`."""
    return HMM.from_pretrained(small_hmm_path(task, syntax))
