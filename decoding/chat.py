"""Prompts as people write them for chat models: messages, and a description of the output that is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..constraints import tool_schemas
from ..constraints.json.python_types import is_type, type_schema
from ..constraints.output_type import choices_of, names_tool
from ..errors import EvidenceError
from ..lm.base import Prompt


def is_chat(prompt: Any) -> bool:
    """Return whether a prompt is a list of messages, each with a role and a content."""
    return (
        isinstance(prompt, Sequence) and len(prompt) > 0 and all(isinstance(each, Mapping) for each in prompt)
    )


def the_prompt(prompt: Any, tokenizer: Any, description: str | None) -> Any:
    """Return a prompt as text or token ids: a chat as the tokenizer's template writes it.

    The description is at the end of the last message of a chat, and a paragraph before a text. Raises :class:`EvidenceError` for
    a chat without a template, and for a description beside token ids.
    """
    if is_chat(prompt):
        return _templated([dict(message) for message in prompt], tokenizer, description)
    if description is None:
        return prompt
    if not isinstance(prompt, str):
        raise EvidenceError("generate: describe=True needs a text or a chat as the prompt, not token ids")
    return f"{description}\n\n{prompt}"


def _templated(messages: list[dict[str, Any]], tokenizer: Any, description: str | None) -> Prompt:
    if not getattr(tokenizer, "chat_template", None):
        raise EvidenceError(
            "generate: prompt is a chat, but the tokenizer has no chat_template; give a text, or the tokenizer of a chat model"
        )
    if description is not None:
        content = messages[-1].get("content")
        if isinstance(content, list):
            messages[-1]["content"] = [*content, {"type": "text", "text": description}]
        else:
            messages[-1]["content"] = f"{content}\n\n{description}"
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # of jinja2, by the template
        raise EvidenceError(f"generate: chat_template refuses the messages: {error}") from None
    ids: list[int] = tokenizer(text, add_special_tokens=False).input_ids
    return ids


def described(output: Any) -> str:
    """Return a description of an output for the prompt: its JSON Schema, its tools or its choices.

    Raises :class:`EvidenceError` for an output that has none of these, such as a pattern.
    """
    if isinstance(output, list | tuple) or names_tool(output):
        tools = json.dumps(
            tool_schemas(output if isinstance(output, list | tuple) else [output]), ensure_ascii=False
        )
        return f"Answer with a call of one of these functions, as JSON with name and arguments:\n{tools}"
    if isinstance(output, Mapping):
        return _as_schema(output)
    if is_type(output) and output is not str:
        choices = choices_of(output)
        if choices:
            return f"Answer with one of: {', '.join(choice.strip() for choice in choices)}"
        return _as_schema(type_schema(output, exact=False))
    raise EvidenceError(
        "generate: describe=True needs an output with a JSON Schema, tools or choices; describe this one in the prompt"
    )


def _as_schema(schema: Any) -> str:
    return f"Answer in JSON with this schema:\n{json.dumps(schema, ensure_ascii=False, default=str)}"
