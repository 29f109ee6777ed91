"""What the scripts of this folder share: the sample of JSON Schemas, a vocabulary of 131,072 tokens, packages of an extra.

The data lies beside the repository (``TRACTILE_SHARED``, by default ../shared): see :data:`SAMPLE`.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import sys
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(os.environ.get("TRACTILE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SAMPLE = SHARED / "data" / "jsonschemabench" / "jsonschemabench_dev.jsonl.gz"


def _row(name: str, schema: Any, valid: list[Any], invalid: list[Any]) -> dict[str, Any]:
    tests = [{"valid": True, "data": v} for v in valid] + [{"valid": False, "data": v} for v in invalid]
    return {"id": name, "family": "smoke", "schema": schema, "tests": tests}


SMOKE = [
    _row(
        "bounds", {"type": "integer", "minimum": 3, "exclusiveMaximum": 12}, [3, 11, 4.0], [2, 12, 3.5, "3"]
    ),
    _row("formats", {"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-2-9", 1]),
    _row(
        "one of",
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "null"}}},
        [{"a": None}, {"b": 1}],
        [{}, {"a": None, "b": 1}, {"a": 1}, 3],
    ),
    _row(
        "condition",
        {"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["v"]}},
        [{"k": 1, "v": 2}, {"k": 2}, []],
        [{"k": 1}],
    ),
    _row(
        "tree",
        {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        [[], [[], [[]]]],
        [[[], [], []], [1]],
    ),
]


def rows(first: int = 0, every: int = 1) -> list[dict[str, Any]]:
    """Schemas of the sample, with their instances; those of this file where there is no sample."""
    if not SAMPLE.is_file():
        print(f"no sample at {SAMPLE}: the schemas of {Path(__file__).name}", file=sys.stderr)
        return SMOKE
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][first::every]


@dataclass
class Tokens:
    """A vocabulary: the bytes of each token (b"" for a special one), the end token, and the encoder."""

    bytes: list[bytes]
    eos: int
    num_special: int
    encode: Callable[[str], list[int]]


def tekken() -> Tokens:
    """The 131,072 tokens that come inside mistral-common."""
    path = Path(needed("mistral_common", "peers").__file__).parent / "data" / "tekken_240911.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    special, size = data["config"]["default_num_special_tokens"], data["config"]["default_vocab_size"]
    tokenizer = needed("mistral_common.tokens.tokenizers.tekken", "peers").Tekkenizer.from_file(str(path))
    pieces = [b""] * special + [b64decode(entry["token_bytes"]) for entry in data["vocab"][: size - special]]
    return Tokens(
        pieces, tokenizer.eos_id, special, lambda text: tokenizer.encode(text, bos=False, eos=False)
    )


def needed(module: str, extra: str) -> Any:
    """A module of the extra ``tractile[extra]``; the script ends where it is not installed, and says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        script = Path(sys.argv[0]).name
        sys.exit(f'{script} needs the package {error.name}: pip install -e ".[{extra}]"')
