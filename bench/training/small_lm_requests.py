"""Function calls to learn from, as (prompt, answer) pairs: those of the data sets and invented ones, in many dresses.

Names, the order of parameters and the other tools are drawn anew each time, so that the model learns to read the list.
"""
# ruff: noqa: SIM905 (word lists read better as text)

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from small_lm_calls import (
    TYPES,
    Call,
    Tool,
    bfcl_calls,
    call_text,
    pieces,
    properties,
    sealtools_calls,
    sealtools_tools,
    sgd_calls,
    sgd_tools,
    snips_calls,
    toolalpaca_calls,
)

from tractile_bench import prompts

CITIES = """Paris London Berlin Tokyo Madrid Rome Vienna Oslo Lisbon Dublin Cairo Lima Sydney Toronto Chicago Boston Seattle
Austin Denver Dallas Miami Houston Prague Warsaw Athens Mumbai Delhi Beijing Shanghai Seoul Bangkok Nairobi Helsinki""".split()
FIRST = "Anna Ben Clara David Emma Felix Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Victor".split()
LAST = "Smith Jones Brown Miller Davis Wilson Moore Taylor Clark Lewis Walker Young King Wright Hill Green".split()
WORDS = """apple river window market garden winter summer coffee music camera table engine paper silver orange purple planet
forest island letter doctor bridge castle dragon guitar piano rocket ticket travel weather history science project report budget
meeting holiday football chicken pasta salad bread cheese laptop phone battery keyboard jacket shoes""".split()
OPENINGS = (
    "{}", "Please {}", "Can you {}", "I want to {}", "I need to {}", "Could you {}", "I'd like to {}", "{} for me",
    "Help me {}", "Hey, {}", "Let's {}", "I would like you to {}",
)  # fmt: skip
LINKS = ("with", "using", "for", "where", "and set", "given")
PREFIXES = ("get", "set", "user", "input", "target", "new", "my", "the", "main", "current", "start", "base")
SUFFIXES = ("name", "value", "id", "text", "info", "code", "type", "key")


def invented_value(name: str, field: Mapping[str, Any], rng: random.Random) -> Any:
    """A value for a parameter, from its type, its name and the examples in its description; None where hard."""
    if "enum" in field:
        return rng.choice(field["enum"])
    kind = TYPES.get(field.get("type", "string"), field.get("type", "string"))
    if kind == "integer":
        return rng.choice(
            (rng.randint(1, 12), rng.randint(1, 100), rng.randint(100, 99999), rng.randint(1900, 2030))
        )
    if kind == "number":
        return rng.choice((round(rng.uniform(0, 100), rng.randint(1, 2)), rng.randint(1, 500)))
    if kind == "boolean":
        return rng.random() < 0.6
    if kind != "string":
        return None
    examples = re.search(r"\(e\.?g\.?,? ?:?([^)]*)\)", field.get("description", ""))
    if examples and rng.random() < 0.6:
        choices = [one.strip(" '\"") for one in re.split(r", | or ", examples[1]) if one.strip(" '\"")]
        if choices:
            return rng.choice(choices)
    low = name.lower()
    if low.endswith("id") or "code" in low or "number" in low:
        return "".join(
            rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz0123456789", k=rng.randint(3, 9))
        )
    if "date" in low:
        return f"{rng.randint(2015, 2026)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    if "time" in low:
        return f"{rng.randint(0, 23):02}:{rng.choice((0, 15, 30, 45)):02}"
    if any(word in low for word in ("city", "location", "place", "destination", "origin", "from", "to_")):
        return rng.choice(CITIES)
    if any(word in low for word in ("user", "name", "person", "author", "artist", "owner")):
        return rng.choice((rng.choice(FIRST), f"{rng.choice(FIRST)} {rng.choice(LAST)}"))
    return " ".join(rng.sample(WORDS, rng.choice((1, 1, 2, 3))))


def invented_query(tool: Tool, rng: random.Random) -> Call | None:
    """A request put together from the tool's own description and invented values."""
    fields = properties(tool)
    required = set(tool["parameters"].get("required", ()))
    chosen = [name for name in fields if name in required or rng.random() < 0.4]
    values = {name: invented_value(name, fields[name], rng) for name in chosen}
    if any(value is None for value in values.values()) or not tool.get("description"):
        return None
    goal = tool["description"].split("\n")[0].split(". ")[0].rstrip(".")
    goal = goal[:1].lower() + goal[1:]
    goal = re.sub(r"^(\w\w+[^s\W])s\b", r"\1", goal)  # "calculates" -> "calculate"
    phrases = []
    for name in rng.sample(chosen, len(chosen)):
        words, value = " ".join(pieces(name)), values[name]
        if isinstance(value, bool):
            phrases.append(
                f"{words} {rng.choice(('on', 'enabled', 'yes')) if value else rng.choice(('off', 'disabled', 'no'))}"
            )
        else:
            quote = rng.choice(("", "", "'", '"')) if isinstance(value, str) else ""
            phrases.append(
                f"{rng.choice(('', 'the ', 'a '))}{words} {rng.choice(('', '', 'of ', 'is ', '= '))}{quote}{value}{quote}"
            )
    text = goal + "".join(
        f"{rng.choice((' ', ', '))}{rng.choice(LINKS)} {phrase}"
        if index == 0
        else f"{rng.choice((' and ', ', '))}{phrase}"
        for index, phrase in enumerate(phrases)
    )
    text = rng.choice(OPENINGS).format(text)
    return Call(text[:1].upper() + text[1:] + rng.choice((".", "", "?", ".")), tool, values)


def new_numbers(call: Call, rng: random.Random) -> Call:
    """Other numbers of the same length in query and arguments, where a number occurs once in the query."""
    query, arguments = call.query, dict(call.arguments)
    for name, value in arguments.items():
        if isinstance(value, int) and not isinstance(value, bool):
            found = re.findall(rf"(?<![\w.]){value}(?![\w]|\.\d)", query)
            same = sum(value == other for other in arguments.values())
            if len(found) == 1 and same == 1 and value > 0:
                low = 10 ** (len(str(value)) - 1)
                fresh = rng.randint(low, 10 * low - 1)
                query = re.sub(rf"(?<![\w.]){value}(?![\w]|\.\d)", str(fresh), query)
                arguments[name] = fresh
    return Call(query, call.tool, arguments)


def renamed(name: str, rng: random.Random) -> str:
    """A name in one of the usual styles, now and then with a word before or after it."""
    parts = pieces(name)
    draw = rng.random()
    parts = (
        [rng.choice(PREFIXES), *parts]
        if draw < 0.12
        else [*parts, rng.choice(SUFFIXES)]
        if draw < 0.24
        else parts
    )
    style = rng.random()
    if style < 0.5:
        return "_".join(parts)
    if style < 0.8:
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style < 0.9:
        return "".join(part.capitalize() for part in parts)
    return f"{parts[0]}.{'_'.join(parts[1:])}" if len(parts) > 1 else parts[0]


def varied(
    tool: Tool, rng: random.Random, keep: float, arguments: Mapping[str, Any]
) -> tuple[Tool, dict[str, Any]]:
    """The tool with names in other styles and parameters in another order, and its arguments likewise."""
    fields, required = properties(tool), set(tool["parameters"].get("required", ()))
    same = rng.random() < keep
    order = list(fields)
    if not same:
        rng.shuffle(order)
    extra = [name for name in order if name not in arguments and name not in required]
    dropped = set(rng.sample(extra, rng.randint(0, len(extra)))) if not same or len(extra) > 4 else set()
    names = {
        name: name if same else renamed(name, rng).replace(".", "_") for name in order if name not in dropped
    }
    new_fields, given = {}, {}
    for name, new in names.items():
        field = {key: value for key, value in fields[name].items() if key != "description"}
        if "enum" in field and not same:
            some = set(rng.sample(field["enum"], rng.randint(1, min(5, len(field["enum"]))))) | {
                arguments.get(name)
            }
            field["enum"] = [value for value in field["enum"] if value in some]
            rng.shuffle(field["enum"])
        if new not in new_fields:
            new_fields[new] = field
            if name in arguments:
                given[new] = arguments[name]
    parameters = {
        "type": "object",
        "properties": new_fields,
        "required": [new for name, new in names.items() if name in required],
    }
    shown = str(tool.get("description", "")).strip().split("\n")[0]
    described = "" if rng.random() < 0.1 else shown if same else shown.split(". ")[0][:120]
    named = tool["name"] if same else renamed(tool["name"], rng)
    return {"name": named, "description": described, "parameters": parameters}, given


def document(call: Call, others: Sequence[Tool], rng: random.Random, keep: float = 0.3) -> tuple[str, str]:
    """(prompt, answer): the right tool among up to three others, in a random syntax."""
    tool, arguments = varied(call.tool, rng, keep, call.arguments)
    own = call.tool.get("others", ())
    count = len(own) if own else rng.choices((0, 1, 2, 3), (40, 25, 20, 15))[0]
    pool = list(own) if own else [rng.choice(others) for _ in range(count)]
    tools = [varied(other, rng, keep, {})[0] for other in pool]
    tools = [other for other in tools if other["name"] != tool["name"]][:4]
    tools.insert(rng.randint(0, len(tools)), tool)
    syntax = rng.choice(("json", "python"))
    return prompts.function_calling(call.query, tools, syntax), call_text(tool["name"], arguments, syntax)


def function_calls(data: Path, rng: random.Random) -> dict[str, list[tuple[str, str]]]:
    """(prompt, answer) pairs by source; those of the held-out share of sources are split off by the caller."""
    sgd, snips = list(sgd_calls(data / "sgd")), list(snips_calls(data / "snips"))
    seal_tools = list(sealtools_tools(data / "sealtools").values())
    real = [*sealtools_calls(data / "sealtools"), *toolalpaca_calls(data / "toolalpaca")]
    bfcl = list(bfcl_calls(data / "bfcl"))
    sgd_specs = list(sgd_tools(data / "sgd").values())
    specs = seal_tools + 4 * [call.tool for call in bfcl] + 6 * sgd_specs
    found: dict[str, list[tuple[str, str]]] = {
        "sgd": [],
        "snips": [],
        "tools": [],
        "bfcl": [],
        "invented": [],
    }
    for call in sgd:
        pool = sgd_specs if rng.random() < 0.6 else specs
        found["sgd"].append(document(call, pool, rng))
    for call in snips:
        found["snips"].append(document(call, specs, rng, keep=0.1))
    for call in real:
        found["tools"] += [document(new_numbers(call, rng), seal_tools, rng, keep=0.5) for _ in range(12)]
    for call in bfcl:
        found["bfcl"] += [document(new_numbers(call, rng), specs, rng, keep=0.6) for _ in range(24)]
    for _ in range(10):
        for tool in seal_tools + 3 * [call.tool for call in bfcl]:
            bare = {key: value for key, value in tool.items() if key != "others"}
            if call := invented_query(bare, rng):
                found["invented"].append(document(call, specs, rng))
    return found
