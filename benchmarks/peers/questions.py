"""What a real language model is asked for JSON: calls of BFCL's tools, and JSONSchemaBench's schemas, whole or in part."""

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


KEPT = ("type", "enum", "minimum", "maximum", "minLength", "maxLength")


def small(shots: int, seed: int = 0) -> Iterator[Question]:
    """A small part of each schema of the development part, in a random order, behind others that are solved.

    Of one of its objects one to three members, all required, that are listed values (50 at most), integers between bounds, or
    strings of at most 20 characters; half of the single ones without their object.
    """
    rng, of = random.Random(seed), dict[str, list[dict[str, Any]]]()
    for row in rows():
        if each := {json.dumps(one, sort_keys=True): one for one in _members(row["schema"])}:
            of[row["id"]] = list(each.values())
    ids, solved = sorted(of), list[str]()
    rng.shuffle(ids)
    while len(solved) < 40:
        schema = _part(of[rng.choice(ids)], rng)
        text = f"Schema: {json.dumps(schema)}\nInstance:\n{json.dumps(_value(schema, rng))}"
        if "null" not in text and len(text) < 300:
            solved.append(text)
    for id in ids:
        schema = _part(of[id], rng)
        if len(text := json.dumps(schema)) < 700:
            kind = f"{len(schema['properties'])} members" if "properties" in schema else "a value alone"
            prompt = "\n\n".join([*rng.sample(solved, shots), f"Schema: {text}\nInstance:\n"])
            yield Question(kind, id, prompt, schema)


def _members(schema: Any) -> Iterator[dict[str, Any]]:
    """The small members of each object that a schema describes."""
    if isinstance(schema, dict):
        members = schema.get("properties")
        each = members.items() if isinstance(members, dict) else ()
        fit = {k: {a: v[a] for a in v if a in KEPT} for k, v in each if len(k) < 30 and _is_small(v)}
        if fit:
            yield fit
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _members(part)


def _is_small(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    values, kind = schema.get("enum"), schema.get("type")
    if isinstance(values, list) and 2 <= len(values) <= 50:
        return all(isinstance(one, str | int | float) and len(str(one)) < 30 for one in values)
    if kind == "integer" and all(isinstance(schema.get(key), int) for key in ("minimum", "maximum")):
        return max(abs(schema["minimum"]), abs(schema["maximum"])) <= 10**6
    return kind == "string" and schema.get("maxLength", 99) <= 20 and not {"pattern", "format"} & set(schema)


def _part(objects: list[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    fit = rng.choice(objects)
    names = rng.sample(sorted(fit), min(len(fit), rng.randint(1, 3)))
    if len(names) == 1 and rng.random() < 0.5:
        return fit[names[0]]
    chosen = {name: fit[name] for name in names}
    return {"type": "object", "properties": chosen, "required": names, "additionalProperties": False}


def _value(schema: dict[str, Any], rng: random.Random) -> Any:
    """A value by chance; null where a string is not listed."""
    if "properties" in schema:
        return {name: _value(part, rng) for name, part in schema["properties"].items()}
    if "enum" in schema:
        return rng.choice(schema["enum"])
    return rng.randint(schema["minimum"], schema["maximum"]) if schema.get("type") == "integer" else None
