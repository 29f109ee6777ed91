"""Prompts of the tasks: short plain text that ends in a newline; the answer follows.

Each task has one format, used alike for the small model, large models and the HMMs' training data. `chat.py` wraps such a
prompt in a model's chat template.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Example, Task

CALL_SYNTAXES = {"json": "JSON call:\n", "python": "Python call:\n"}


def parameter_type(schema: Mapping[str, Any] | bool) -> str:
    """Write a JSON Schema as a short type: ``"a" | "b"``, ``integer``, ``array of string``, ``{x: number, y?: string}``."""
    if isinstance(schema, bool):
        return "any"
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(parameter_type({**schema, "type": one}) for one in kind)
    kind = {"dict": "object", "float": "number", "tuple": "array"}.get(kind, kind)
    if kind == "array" and "items" in schema:
        return f"array of {parameter_type(schema['items'])}"
    if kind == "object" and schema.get("properties"):
        return "{" + _fields(schema) + "}"
    return str(kind)


def function_signature(tool: Mapping[str, Any]) -> str:
    """Write a tool with ``name``, ``description`` and ``parameters`` as ``name(a: string, b?: 1 | 2): what it does``."""
    described = str(tool.get("description", "")).strip().split("\n")[0]
    signature = f"{tool['name']}({_fields(tool.get('parameters') or {})})"
    return f"{signature}: {described}" if described else signature


def _fields(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {parameter_type(one)}"
        for name, one in schema.get("properties", {}).items()
    )


def function_calling(query: str, tools: Sequence[Mapping[str, Any]], syntax: str = "json") -> str:
    """Write a prompt: the functions, one a line; the user's query; the syntax of the call ("json" or "python")."""
    functions = "\n".join(map(function_signature, tools))
    return f"Functions:\n{functions}\nUser: {' '.join(query.split())}\n{CALL_SYNTAXES[syntax]}"


def commongen(concepts: Iterable[str]) -> str:
    """Write a prompt with the concepts that a sentence is to contain (Lin et al. 2020)."""
    return f"Concepts: {' '.join(concepts)}\nSentence:\n"


def text_to_sql(question: str, tables: Mapping[str, Sequence[str]]) -> str:
    """Write a prompt with a database's tables and columns, and a question about the database (Yu et al. 2018)."""
    lines = "\n".join(f"{table}({', '.join(columns)})" for table, columns in tables.items())
    return f"Tables:\n{lines}\nQuestion: {' '.join(question.split())}\nSQL:\n"


def goal_inference(description: str) -> str:
    """Write a prompt with a planning problem in words, whose goal is to be written in PDDL (Zuo et al. 2024)."""
    return f"Problem: {description.strip()}\nGoal in PDDL:\n"


def molecules(examples: Iterable[str]) -> str:
    """Write a prompt with molecules as SMILES, one a line; another one is to follow (Loula et al. 2025)."""
    return "Molecules:\n" + "".join(f"{one}\n" for one in examples)


def few_shot(task: Task, shots: int, longest: int = 700) -> Callable[[Example], str]:
    """Return a function from an example to its prompt behind ``shots`` others with their answers, chosen by the example's id.

    These are of the split "train", of at most ``longest`` characters each.
    """
    if not shots:
        return lambda example: example.prompt
    solved = [e for e in task.examples("train") if len(e.prompt) + len(e.reference) < longest]

    def prompt(example: Example) -> str:
        drawn = random.Random(example.id).sample(solved, min(shots + 1, len(solved)))
        before = [e for e in drawn if e.id != example.id][:shots]
        return "".join(f"{e.prompt}{e.reference}\n\n" for e in before) + example.prompt

    return prompt
