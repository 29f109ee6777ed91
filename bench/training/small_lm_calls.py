"""Function calls in public data sets: dialogues, slots and tool lists, all as a query, a tool and its arguments."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractile_bench import splits
from tractile_bench.files import find, read_json, read_jsonl

Tool = dict[str, Any]
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
TYPES = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object",
    "tuple": "array", "double": "number",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """What the user says, the tool that is right, and its arguments."""

    query: str
    tool: Tool
    arguments: Mapping[str, Any]


def call_text(name: str, arguments: Mapping[str, Any], syntax: str) -> str:
    """``{"name": "f", "arguments": {"a": 1}}`` or ``f(a=1)``."""
    if syntax == "json":
        return json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"{name}({', '.join(f'{key}={python_literal(value)}' for key, value in arguments.items())})"


def python_literal(value: Any) -> str:
    """A JSON value as Python writes it, but strings in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(python_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{python_literal(k)}: {python_literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def pieces(name: str) -> list[str]:
    """``FindRestaurants``, ``find_restaurants`` -> ``["find", "restaurants"]``."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)] or ["f"]


def properties(tool: Tool) -> dict[str, Any]:
    found: dict[str, Any] = tool["parameters"]["properties"]
    return found


def sgd_tools(folder: Path) -> dict[tuple[str, str], Tool]:
    """The intents of the Schema-Guided Dialogue services as tools, by (service, intent)."""
    tools = {}
    for service in read_json(find(folder, "train_schema.json")):
        slots = {slot["name"]: slot for slot in service["slots"]}
        for intent in service["intents"]:
            fields = {}
            for name in [*intent["required_slots"], *intent["optional_slots"]]:
                values = slots[name]["possible_values"]
                if values and set(values) <= {"True", "False"}:
                    fields[name] = {"type": "boolean"}
                elif values and all(value.isdigit() for value in values):
                    fields[name] = {"type": "integer"}
                elif slots[name]["is_categorical"] and values:
                    fields[name] = {"type": "string", "enum": values}
                else:
                    fields[name] = {"type": "string"}
            parameters = {"type": "object", "properties": fields, "required": intent["required_slots"]}
            tools[service["service_name"], intent["name"]] = {
                "name": intent["name"],
                "description": intent["description"],
                "parameters": parameters,
                "defaults": intent["optional_slots"],
            }
    return tools


def said(value: str, text: str) -> bool:
    """Whether a text mentions a value, as it is or as a word for a number."""
    low = text.lower()
    if value.isdigit() and int(value) < len(NUMBERS):
        return bool(re.search(rf"\b({value}|{NUMBERS[int(value)]})\b", low))
    return bool(re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", low))


def sgd_calls(folder: Path) -> Iterator[Call]:
    """The calls of dialogues whose values the user has said, with the user's turns that say them."""
    tools = sgd_tools(folder)
    for dialogue in read_jsonl(find(folder, "train.jsonl")):
        turns: list[str] = []
        since = 0
        for turn in dialogue["turns"]:
            if turn["s"] == "U":
                turns.append(turn["t"])
            for call in turn.get("calls", ()):
                tool = tools.get((call["service"], call["method"]))
                if tool is None or not turns:
                    continue
                given = {}
                needed = {min(since, len(turns) - 1)}
                for name, field in properties(tool).items():
                    value = call["parameters"].get(name)
                    if value is None or value in ("dontcare", tool["defaults"].get(name)):
                        continue
                    where = [index for index, text in enumerate(turns) if said(value, text)]
                    if field["type"] == "boolean":
                        where = [len(turns) - 1]
                    if not where:
                        break
                    needed.add(where[-1])
                    given[name] = {"True": True, "False": False}.get(value, value)
                    if field["type"] == "integer" and value.isdigit():
                        given[name] = int(value)
                else:
                    query = " ".join(turns[index] for index in sorted(needed))
                    if set(tool["parameters"]["required"]) <= given.keys() and len(query) < 400:
                        yield Call(query, tool, given)
                since = len(turns)


def snips_calls(folder: Path) -> Iterator[Call]:
    """Intents with their slots; a slot of one span is a string, and of several the first one."""
    rows = list(read_jsonl(find(folder, "train.jsonl")))
    fields: dict[str, dict[str, Any]] = {}
    for row in rows:
        fields.setdefault(row["intent"], {}).update({slot: {"type": "string"} for slot in row["slots"]})
    for row in rows:
        if "\ufffd" in row["text"] or not row["slots"]:
            continue
        tool = {
            "name": row["intent"],
            "description": " ".join(pieces(row["intent"])).capitalize(),
            "parameters": {"type": "object", "properties": fields[row["intent"]], "required": []},
        }
        yield Call(row["text"].strip(), tool, {name: spans[0] for name, spans in row["slots"].items()})


def sealtools_tools(folder: Path) -> dict[str, Tool]:
    """The tools of Seal-Tools, by name."""
    tools = {}
    for row in read_jsonl(find(folder, "tool.jsonl")):
        fields = {
            name: {
                "type": TYPES.get(field["type"], field["type"]),
                "description": field.get("description", ""),
            }
            for name, field in row["parameters"].items()
        }
        parameters = {"type": "object", "properties": fields, "required": row["required"]}
        tools[row["api_name"]] = {
            "name": row["api_name"],
            "description": row["api_description"],
            "parameters": parameters,
        }
    return tools


def sealtools_calls(folder: Path) -> Iterator[Call]:
    """The dev queries with one call."""
    tools = sealtools_tools(folder)
    for row in read_jsonl(find(folder, "dev.jsonl")):
        if len(row["calling"]) == 1 and (tool := tools.get(row["calling"][0]["api"])):
            yield Call(
                row["query"], tool, typed(dict(row["calling"][0]["parameters"].items()), properties(tool))
            )


def typed(arguments: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with numbers that came as text read as the schema says, in the order of the schema."""
    for name, value in arguments.items():
        kind = fields.get(name, {}).get("type")
        if kind in ("integer", "number") and isinstance(value, str):
            try:
                arguments[name] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                return {}
    return {name: arguments[name] for name in fields if name in arguments}


def bfcl_calls(folder: Path) -> Iterator[Call]:
    """The training side of the one-call cases of the Berkeley leaderboard."""
    for kind in ("simple_python", "live_simple", "multiple", "live_multiple"):
        for row in read_jsonl(find(folder, f"BFCL_v4_{kind}.jsonl")):
            if not splits.is_train(splits.bfcl_key(row["id"])) or len(row["possible_answer"]) != 1:
                continue
            query = " ".join(turn["content"] for turn in row["question"][0] if turn["role"] == "user")
            [(name, accepted)] = row["possible_answer"][0].items()
            tool = next((tool for tool in row["function"] if tool["name"] == name), None)
            if tool is None or len(query) > 500:
                continue
            arguments = {}
            for field in properties(tool):
                values = [best for best in accepted.get(field, [""]) if best != ""]
                if not values or ("" in accepted[field] and not any(said(str(v), query) for v in values)):
                    continue
                arguments[field] = plain(next((v for v in values if said(str(v), query)), values[0]))
            yield Call(query, tool | {"others": [t for t in row["function"] if t is not tool]}, arguments)


def plain(value: Any) -> Any:
    """The first of the accepted values of every field of an object."""
    if isinstance(value, dict):
        return {key: plain(one[0]) if isinstance(one, list) and one else one for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def toolalpaca_calls(folder: Path) -> Iterator[Call]:
    """The instructions with one call, of both evaluation files."""
    for name in ("eval_simulated.half.jsonl", "eval_real.half.jsonl"):
        for api in read_jsonl(find(folder, name)):
            tools = {}
            for block in re.split(r"\n\n(?=\d+\. Name)", api.get("Functions", "")):
                found = re.match(r"\d+\. Name: (\S+)\nDescription: (.*)\nInput: (.*)", block)
                try:
                    inputs = ast.literal_eval(found[3]) if found else None
                except (ValueError, SyntaxError):
                    continue
                if not isinstance(inputs, dict) or found is None:
                    continue
                fields = {
                    key: {"type": (re.findall(r"integer|number|boolean|array|object", text.lower()) or ["string"])[0]}
                    for key, text in inputs.items()
                }  # fmt: skip
                required = [key for key, text in inputs.items() if text.startswith("Required")]
                parameters = {"type": "object", "properties": fields, "required": required}
                tools[found[1]] = {"name": found[1], "description": found[2], "parameters": parameters}
            for query, golden in zip(api["Instructions"], api["Golden_Answers"], strict=False):
                try:
                    [action] = golden
                    arguments = json.loads(action["Action_Input"])
                except (ValueError, TypeError, KeyError):
                    continue
                if (
                    action["Action"] in tools
                    and arguments.keys() <= properties(tools[action["Action"]]).keys()
                ):
                    yield Call(query, tools[action["Action"]], arguments)
