"""Public data sets of function calling as records of one shape.

xLAM         {"id", "query", "tools", "answers"}, tools and answers as JSON or as text that holds JSON (Liu et al. 2024)
BFCL         BFCL_v*.json: {"id", "question", "function"}, answers in possible_answer/ or beside (Patil et al. 2025)
Seal-Tools   tool.jsonl, and {"id", "query", "calling"} for each split (Wu et al. 2024)
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractile.errors import FormatError

from ..files import find, read_jsonl
from ..splits import bfcl_key, is_train
from .matching import Gold, alternatives

SEAL_SPLITS = {"train": ("train", "dev"), "test": ("test_in_domain", "test_out_domain")}
SEAL_WORDS = {"choices": "enum", "example_values": "examples"}


@dataclass(frozen=True)
class Record:
    """A question, the tools that may be called (as the data set spells them), and the gold calls.

    ``problem``: the reason why there are no gold calls, "" if there are."""

    id: str
    query: str
    tools: list[Any]
    gold: list[Gold]
    problem: str = ""


def records(data: Path, split: str, candidates: int) -> Iterator[Record]:
    """Yield the records of a split from a file or a folder. An item that cannot be read becomes a record with a problem.

    ``candidates``: the least number of tools offered with a question, if the data set names only the called ones (Seal-Tools).
    Raises :class:`FormatError`, naming file and item, if no item can be read.
    """
    if split not in SEAL_SPLITS:
        raise FormatError(f"the splits are train and test, not {split!r}")
    if data.is_dir() and any(data.glob("tool.jsonl*")):
        yield from sealtools(data, split, candidates)
        return
    files = [data] if not data.is_dir() else sorted(data.glob("BFCL_*.json*")) or sorted(data.glob("*.json*"))
    files = [file for file in files if "format_sensitivity" not in file.name]  # ids alone
    if not files:
        raise FormatError(f"{data} has no .json or .jsonl file with function calls")
    read, first = False, None
    for file in files:
        answers: dict[str, Any] | None = None
        for index, item in enumerate(read_jsonl(file)):
            id = str(item.get("id", index))
            try:
                if item.keys() >= {"query", "tools", "answers"}:
                    if is_train(f"xlam|{id}") == (split == "train"):
                        yield xlam(id, item)
                elif "question" in item and "id" in item:
                    if is_train(f"bfcl|{bfcl_key(id)}") == (split == "train"):
                        answers = bfcl_answers(file) if answers is None else answers
                        yield bfcl(item, answers)
                else:
                    raise ValueError(f"no format that is known has the keys {sorted(item)}")
                read = True
            except FormatError:
                raise
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                first = first or f"{file}, item {index}: no question with function calls: {error!r}"
                yield Record(
                    id, "", [], [], f"it is no question with function calls ({type(error).__name__})"
                )
    if first is not None and not read:
        raise FormatError(first)


def xlam(id: str, item: Mapping[str, Any]) -> Record:
    """Convert an item of xLAM to a record."""
    tools, answers = (
        json.loads(item[key]) if isinstance(item[key], str) else item[key] for key in ("tools", "answers")
    )
    gold: list[Gold] = [{call["name"]: plain_gold(call["arguments"])} for call in answers]
    return Record(id, item["query"], tools, gold, "" if gold else "no call is asked for")


def plain_gold(arguments: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Convert plain arguments to gold arguments with one accepted value each."""
    return {name: [alternatives(value)] for name, value in arguments.items()}


def bfcl_answers(file: Path) -> dict[str, Any]:
    """Read BFCL's gold calls, by id, from the folder ``possible_answer`` beside the questions; {} if there are none."""
    folder = file.parent / "possible_answer"
    if not folder.is_dir():
        return {}
    try:
        beside = find(folder, file.name)
    except FormatError:
        return {}  # BFCL has no such file for questions that ask for no call
    return {item["id"]: item["ground_truth"] for item in read_jsonl(beside)}


def bfcl(item: Mapping[str, Any], answers: Mapping[str, Any]) -> Record:
    """Convert an item of BFCL to a record."""
    turns, id = item["question"], item["id"]
    gold = item.get("possible_answer") or answers.get(id) or []
    if "involved_classes" in item or any(isinstance(call, list) for call in gold):
        return Record(id, "", [], [], "several turns")
    if not gold:
        return Record(id, "", [], [], "no call is asked for")
    query = turns if isinstance(turns, str) else " ".join(message["content"] for message in turns[0])
    accepted: list[Gold] = [
        {name: {n: v if isinstance(v, list) else [v] for n, v in arguments.items()}}
        for call in gold
        for name, arguments in call.items()
    ]
    functions = item["function"]
    return Record(id, query, functions if isinstance(functions, list) else [functions], accepted)


def sealtools(folder: Path, split: str, candidates: int) -> Iterator[Record]:
    """Yield the records of a split of Seal-Tools, whose questions come without a choice of tools.

    A question is offered the tools that it calls and others, of the same field first, up to ``candidates`` in all. The choice
    and its order depend on the id of the question alone."""
    tools: dict[str, dict[str, Any]] = {}
    fields: dict[str, list[str]] = defaultdict(list)
    for tool in read_jsonl(find(folder, "tool.jsonl")):
        properties = {
            name: {SEAL_WORDS.get(key, key): value for key, value in argument.items()}
            for name, argument in tool["parameters"].items()
        }
        tools[tool["api_name"]] = {
            "name": tool["api_name"], "description": tool.get("api_description", ""),
            "parameters": {"type": "object", "properties": properties, "required": tool["required"]},
        }  # fmt: skip
        fields[tool.get("field", "")].append(tool["api_name"])
    names = list(tools)
    field = {name: members for members in fields.values() for name in members}
    for part in SEAL_SPLITS[split]:
        try:
            file = find(folder, f"{part}.jsonl", f"{part}.half.jsonl")
        except FormatError:
            if part == "train":  # large, and often left out
                continue
            raise
        for item in read_jsonl(file):
            called = list(dict.fromkeys(call["api"] for call in item["calling"]))
            if unknown := [name for name in called if name not in tools]:
                yield Record(item["id"], "", [], [], f"a tool is called that is not described ({unknown[0]})")
                continue
            order = random.Random(item["id"])
            alike = sorted({n for name in called for n in field[name]} - set(called))
            others = order.sample(alike, len(alike)) + order.sample(names, min(candidates, len(names)))
            offered = list(dict.fromkeys(called + others))[: max(len(called), candidates)]
            order.shuffle(offered)
            gold: list[Gold] = [{call["api"]: plain_gold(call["parameters"])} for call in item["calling"]]
            yield Record(item["id"], item["query"], [tools[name] for name in offered], gold)
