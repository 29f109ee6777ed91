"""Format a task's prompt with a model's chat template."""

from __future__ import annotations

from typing import Any

from tractile.errors import EvidenceError


def chat_prompt(tokenizer: Any, prompt: str) -> list[int]:
    """Return the token ids of the prompt as a user's turn, up to the start of the model's turn.

    Raises :class:`EvidenceError` if the tokenizer has no chat template.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise EvidenceError("the model's tokenizer has no chat template: leave --chat out")
    turn = [{"role": "user", "content": prompt.removesuffix("\n")}]
    text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    # Templates write the special tokens themselves.
    return [int(token) for token in tokenizer(text, add_special_tokens=False).input_ids]
