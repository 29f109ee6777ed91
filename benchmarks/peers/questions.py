"""What a real language model is asked for JSON: calls of BFCL's tools, and documents of JSONSchemaBench's schemas."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from samples import rows

from tractile_bench.function_calling.task import FunctionCalling
from tractile_bench.function_calling.tools import tools_of
from tractile_bench.prompts import few_shot

LONGEST = 1500  # characters of a question


class Question(NamedTuple):
    """A prompt and the schema of its answer; ``right`` tells whether a valid answer is the right one."""

    kind: str
    id: str
    prompt: str
    schema: dict[str, Any]
    right: Callable[[str], bool] = lambda text: False


def calls(data: Path, shots: int) -> Iterator[Question]:
    """Questions of BFCL: one call of one of the tools."""
    task = FunctionCalling(data, calls="one")
    asked = few_shot(task, shots)
    for example in task.examples("test"):
        if len(example.prompt) >= LONGEST:
            continue
        tools = tools_of(json.dumps(example.facts["tools"])).schemas.values()
        schemas = [
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": tool.schema()},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for tool in tools
        ]
        yield Question(
            "calls",
            example.id,
            asked(example),
            {"anyOf": schemas},
            lambda text, example=example: task.scores(example, text)["accuracy"] == 1,
        )


def documents(shots: int) -> Iterator[Question]:
    """Schemas to be answered by an instance, each behind others with theirs."""
    solved = {}
    for row in rows():
        text = f"Schema: {json.dumps(row['schema'])}\nInstance: "
        valid = [json.dumps(test["data"]) for test in row["tests"] if test["valid"]]
        if valid and isinstance(row["schema"], dict) and len(text) < LONGEST and row["family"] != "BFCL":
            solved[row["id"]] = row["schema"], text, valid[0]
    short = {
        id: text + answer for id, (_, text, answer) in solved.items() if len(text + answer) < LONGEST / 2
    }
    for id, (schema, text, _) in solved.items():
        drawn = [
            one for one in random.Random(id).sample(sorted(short), min(shots + 1, len(short))) if one != id
        ]
        before = "".join(f"{short[one]}\n\n" for one in drawn[:shots])
        yield Question("documents", id, before + text, schema)
