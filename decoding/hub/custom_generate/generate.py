"""Generation under a constraint, for ``model.generate(custom_generate=tractile.decoding.custom_generate_path(), …)``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import tractile as tt


def generate(
    model: Any,
    *,
    constraint: Any,
    tokenizer: Any,
    hmm: Any = None,
    method: str = "logits",
    particles: int = 16,
    seed: int = 0,
    inputs: Tensor | None = None,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    max_new_tokens: int | None = None,
    num_return_sequences: int = 1,
    logits_processor: Any = None,
    **settings: Any,
) -> Any:
    """Generate texts that satisfy a constraint within a budget of ``max_new_tokens`` tokens.

    Args:
        constraint: a constraint of Tractile, or a compiled one.
        tokenizer: the model's tokenizer.
        hmm: an HMM or its folder, which guides the texts (P-GCD).
        method: "logits": any decoding of ``model.generate``, its logits constrained; "smc": draws from p_lm(x | constraint).
        particles, seed: used by "smc" only.
        max_new_tokens: the budget; by default that of a generation_config in ``settings``, else 64.

    Returns what ``model.generate`` does; with "smc" the prompts and draws, (batch · num_return_sequences, length).
    Raises ``tractile.errors.EvidenceError`` for another method, and what the processor and ``tractile.smc`` raise.
    """
    prompts = input_ids if inputs is None else inputs
    if method not in ("logits", "smc") or prompts is None:
        raise tt.errors.EvidenceError(
            f"custom_generate: give prompts, and the method 'logits' or 'smc', not {method!r}"
        )
    given = {key: value for key, value in settings.items() if value is not None}
    if max_new_tokens is None:
        max_new_tokens = getattr(given.get("generation_config"), "max_new_tokens", None) or 64
    if method == "logits":
        processor = tt.ConstraintLogitsProcessor(constraint, hmm, max_new_tokens, tokenizer=tokenizer)
        return model.generate(
            prompts,
            attention_mask=attention_mask,
            logits_processor=[*(logits_processor or []), processor],
            max_new_tokens=max_new_tokens,
            num_return_sequences=num_return_sequences,
            **given,
        )
    pad = given.get("pad_token_id", tokenizer.eos_token_id)
    rows, kept = [], torch.ones_like(prompts) if attention_mask is None else attention_mask
    for prompt, mask in zip(prompts, kept, strict=True):
        found = tt.smc(
            model,
            prompt[mask.bool()].tolist(),
            constraint,
            "gcd" if hmm is None else "pgcd",
            hmm,
            particles,
            max_new_tokens,
            seed,
            tokenizer=tokenizer,
        )
        draws = found.sample(num_return_sequences, seed=seed)
        rows += [
            torch.cat([prompt, torch.tensor(list(one.token_ids), device=prompt.device)]) for one in draws
        ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
