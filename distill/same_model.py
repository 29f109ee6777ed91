"""Whether a language model is the one that a corpus was drawn from, by the log-probabilities of a few tokens in its manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import EvidenceError, VocabularyMismatch
from ..lm.base import LanguageModel
from .vllm import VLLM

PROBE_TOKENS = 8
TOLERANCE = 0.05
"""Nats by which a log-probability may differ: by the rounding of another device or precision, not by other parameters."""


@torch.inference_mode()
def probe(
    lm: LanguageModel | VLLM, prompt: str | list[int], n: int, tokens: Sequence[int] | None = None
) -> dict[str, list[Any]]:
    """Return ``tokens`` after the prompt and their log-probabilities in nats; by default the most probable ones, up to ``n``.

    An engine, which cannot be asked for given tokens, draws ``n`` by a fixed seed.
    """
    if isinstance(lm, VLLM):
        drawn, log_probs, _ = lm.continuations([prompt], n, [0])
        return {"tokens": drawn[0].tolist(), "log_probs": log_probs[0].tolist()}
    found: dict[str, list[Any]] = {"tokens": [], "log_probs": []}
    lm.start([prompt])
    for t in range(min(n, PROBE_TOKENS) if tokens is None else len(tokens)):
        scores = lm.log_probs()[0].cpu()
        token = int(scores.argmax()) if tokens is None else tokens[t]
        value = round(float(scores[token]), 6)
        if value != value:
            raise EvidenceError(
                f"sample: the language model gives log-probabilities that are NaN after {t} tokens of the prompt {prompt!r:.60}"
            )
        found["tokens"].append(token)
        found["log_probs"].append(max(value, -1e9))  # JSON has no infinity
        if token == lm.eos_token_id:
            break
        lm.advance(torch.tensor([token]))
    return found


def check_same_model(
    known: dict[str, list[Any]], lm: LanguageModel | VLLM, prompt: str | list[int], folder: str, model: str
) -> None:
    """Raise :class:`VocabularyMismatch` if the model does not give the ``known`` tokens their log-probabilities."""
    now = probe(lm, prompt, len(known["tokens"]), known["tokens"])
    before, after = (list(zip(found["tokens"], found["log_probs"], strict=True)) for found in (known, now))
    alike = [a[0] == b[0] for a, b in zip(before, after, strict=False)]
    same = alike.index(False) if False in alike else len(alike)  # an engine's rounding may turn a later token
    if same and all(abs(a[1] - b[1]) <= TOLERANCE for a, b in zip(before[:same], after[:same], strict=True)):
        return
    name = f"the model {model!r}" if model else "a model"
    raise VocabularyMismatch(
        f"{folder} holds a corpus of {name} that gives the tokens {known['tokens']} after its first prompt the log-probabilities "
        f"{_short(known)}; this model gives {now['tokens']} {_short(now)}: it is another one; give the model of the corpus, or "
        "choose another directory"
    )


def _short(found: dict[str, list[Any]]) -> list[float]:
    return [round(value, 3) for value in found["log_probs"]]
