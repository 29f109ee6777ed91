"""The cases of suites that can be read without running them: JSON-Schema-Test-Suite, llama.cpp's, llguidance's in Rust.

Each function gets the folder of an unpacked suite and gives its cases as tests/conformance/suites/suite_recorder.py writes them.
"""

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from suite_literals import NotALiteral, Reader, tokens

Case = dict[str, Any]
SPELLING = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def json_schema_cases(folder: Path) -> Iterator[Case]:
    """JSON-Schema-Test-Suite, from the folder that holds its ``tests``."""
    for draft, spelling in SPELLING.items():
        parts = {"*.json": "annotate", "optional/*.json": "annotate", "optional/format/*.json": "assert"}
        for path, formats in [
            (path, formats)
            for pattern, formats in parts.items()
            for path in sorted((folder / "tests" / draft).glob(pattern))
        ]:
            for group in json.loads(path.read_text(encoding="utf-8")):
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": spelling, **schema}
                case = {
                    "suite": f"JSON-Schema-Test-Suite {draft}{' optional' * (path.parent.name != draft)}",
                    "kind": "json_schema",
                    "spec": schema,
                }
                case["options"] = {"order": "any", "formats": formats}
                for test in group["tests"]:
                    text = json.dumps(test["data"], ensure_ascii=False)
                    name = f"{path.stem}: {group['description']}: {test['description']}"
                    yield {**case, "test": name, "text": text, "accepts": test["valid"]}


def llama_cases(folder: Path) -> Iterator[Case]:
    """llama.cpp, from the folder that holds its ``tests`` and ``grammars``."""
    path = folder / "tests" / "test-grammar-integration.cpp"
    source = tokens(path.read_text(encoding="utf-8"))
    calls = {"test_grammar": "gbnf", "test_schema": "json_schema"}
    for at, (kind, token) in enumerate(source):
        if kind == "name" and token in calls and source[at + 1] == ("mark", "("):
            try:
                described, spec, passing, failing = Reader(source, at + 1).value()
            except (NotALiteral, ValueError, TypeError):
                continue
            passing, failing = passing or [], failing or []
            case = {
                "suite": "llama.cpp", "kind": calls[token], "spec": spec, "options": {}, "test": described,
            }  # fmt: skip
            for text in passing:
                yield {**case, "text": text, "accepts": True}
            for text in failing:
                yield {**case, "text": text, "accepts": False}
    for path in sorted((folder / "grammars").glob("*.gbnf")):
        case = {"suite": "llama.cpp", "kind": "gbnf", "spec": path.read_text(encoding="utf-8"), "options": {}}
        yield {**case, "test": path.name, "text": "", "accepts": None}
    for name in ("test-json-schema-to-grammar.cpp", "test-grammar-parser.cpp"):
        path = folder / "tests" / name
        source = tokens(path.read_text(encoding="utf-8")) if path.exists() else []
        for at, (_, token) in enumerate(source):
            if token == "test" and source[at + 1 : at + 3] == [("mark", "("), ("mark", "{")]:
                strings = [value for kind, value in source[at : at + 12] if kind == "string"]
                if len(strings) < 3:
                    continue
                case = {"suite": "llama.cpp", "options": {}, "test": f"{name}: {strings[0]}", "text": ""}
                if source[at + 3][1].endswith("FAILURE"):
                    yield {**case, "kind": "json_schema", "spec": strings[1], "text": None, "accepts": False}
                    continue
                yield {**case, "kind": "json_schema", "spec": strings[1], "accepts": None}
                yield {**case, "kind": "gbnf", "spec": strings[2], "accepts": None}
            elif token in ("verify_parsing", "verify_failure") and source[at + 2][0] == "string":
                read = token == "verify_parsing"
                case = {"suite": "llama.cpp", "kind": "gbnf", "spec": source[at + 2][1], "options": {}}
                yield {**case, "test": name, "text": "" if read else None, "accepts": None if read else False}


class Body:
    """What the body of one Rust test asks, with ``names`` for its arguments: lets, loops over literals, and the calls."""

    def __init__(self, source: list[tuple[str, Any]], names: dict[str, Any]) -> None:
        self.source, self.names = source, names

    def cases(self, begin: int, end: int) -> Iterator[Case]:
        """The cases between two places."""
        at = begin
        while at < end:
            kind, token = self.source[at]
            reader = Reader(self.source, at + 1, self.names)
            if kind == "name" and token in ("let", "const"):
                self.let(reader)
            elif (kind, token) == ("name", "for"):
                at = yield from self.loop(reader)
                continue
            elif kind == "name" and token in CALLS and self.source[at + 1] == ("mark", "("):
                try:
                    yield from asked(token, reader.value())
                except (NotALiteral, TypeError, ValueError):
                    yield {
                        "suite": "llguidance (Rust)",
                        "kind": "unread",
                        "spec": token,
                        "options": {},
                    } | UNREAD
            at += 1

    def let(self, reader: Reader) -> None:
        """``let name = value;``"""
        name = reader.peek()[1]
        reader.at += 1
        if reader.takes(":"):
            while reader.peek() != ("mark", "=") and reader.peek()[1]:
                reader.at += 1
        self.names.pop(name, None)
        if reader.takes("="):
            try:
                value = reader.value()
                if reader.takes(";"):
                    self.names[name] = value
            except NotALiteral:
                pass

    def loop(self, reader: Reader) -> Any:
        """``for name in values { … }``; gives where it ends."""
        start = reader.at
        name = reader.peek()[1]
        while reader.peek() != ("name", "in"):
            reader.at += 1
        reader.at += 1
        try:
            values = reader.value()
            if reader.takes("..="):
                values = range(values, reader.value() + 1)
            elif reader.takes(".."):
                values = range(values, reader.value())
        except (NotALiteral, TypeError):
            return start
        if reader.peek() != ("mark", "{") or not isinstance(values, list | range | tuple):
            return start
        end = closing(self.source, reader.at)
        for value in values:
            self.names[name] = value
            yield from self.cases(reader.at + 1, end)
        return end + 1


UNREAD: Case = {"text": "", "accepts": None}
CALLS = (
    "json_schema_check", "json_test_many", "lark_str_test_many", "lark_str_test", "lark_err_test", "json_err_test", "lark_ok",
)  # fmt: skip


def closing(source: list[tuple[str, Any]], at: int) -> int:
    """Where the bracket that opens at ``at`` closes."""
    depth = 0
    for place in range(at, len(source)):
        if source[place] in (("mark", "{"), ("mark", "("), ("mark", "[")):
            depth += 1
        elif source[place] in (("mark", "}"), ("mark", ")"), ("mark", "]")):
            depth -= 1
            if not depth:
                return place
    return len(source)


def asked(call: str, values: Any) -> Iterator[Case]:
    """The cases of one call of the suite's helpers."""
    kind = "json_schema" if call.startswith("json") else "lark"
    case = {"suite": "llguidance (Rust)", "kind": kind, "spec": values[0], "options": {}}

    def written(value: Any) -> Any:
        if kind == "lark":
            return value.removeprefix("FINAL_REJECT:")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    if call.endswith("err_test"):
        yield {**case, "text": None, "accepts": False}
    elif call == "lark_ok":
        yield {**case, "text": "", "accepts": None}
    elif call.endswith("many"):
        for text in values[1]:
            yield {**case, "text": written(text), "accepts": True}
        for text in values[2]:
            yield {**case, "text": written(text), "accepts": False}
    elif call == "lark_str_test":
        yield {**case, "text": written(values[2]), "accepts": values[1]}
    else:
        yield {**case, "text": written(values[1]), "accepts": values[2]}


def llguidance_cases(folder: Path) -> Iterator[Case]:
    """llguidance's tests in Rust, from the folder that holds its ``parser``; what has to be run to be known is left out."""
    for path in sorted((folder / "parser" / "tests").glob("*.rs")):
        text = re.sub(r"^/\*.*?^\*/", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        shared = statics(tokens(text))
        for match in re.finditer(
            r"((?:^[ ]*#\[.*?\]\s*(?://[^\n]*\n\s*)*)+)^[ ]*(?:pub )?fn (\w+)", text, re.M | re.S
        ):
            source = tokens(text[match.end() :])
            open_ = next(i for i, token in enumerate(source) if token == ("mark", "{"))
            end = closing(source, open_)
            for names in arguments(match[1], source[: closing(source, 0) + 1]):
                for case in Body(source, {**shared, **names}).cases(open_ + 1, end):
                    yield {**case, "test": f"{path.stem}: {match[2]}"}


def statics(source: list[tuple[str, Any]]) -> dict[str, Any]:
    """What a file declares for all its tests: ``static ref NAME: Value = value;``."""
    found: dict[str, Any] = {}
    for at, (kind, token) in enumerate(source):
        if (kind, token) == ("name", "ref") and source[at + 2] == ("mark", ":"):
            begin = next((i for i in range(at, len(source)) if source[i] == ("mark", "=")), len(source))
            try:
                found[source[at + 1][1]] = Reader(source, begin + 1, found).value()
            except NotALiteral:
                continue
    return found


def outlines_core_cases(folder: Path) -> Iterator[Case]:
    """outlines-core's tests in Rust: tuples of a schema, perhaps its pattern, texts that match and texts that do not."""
    source = tokens((folder / "src" / "json_schema" / "mod.rs").read_text(encoding="utf-8"))
    names = {token: token for kind, token in source if kind == "name" and token.isupper()}
    for at in range(len(source) - 1):
        if source[at] == ("mark", "(") and source[at + 1][0] == "string":
            try:
                values = Reader(source, at, names).value()
            except (NotALiteral, ValueError, TypeError):
                continue
            if len(values) in (3, 4) and isinstance(values[-1], list) and isinstance(values[-2], list):
                case = {"suite": "outlines-core (Rust)", "kind": "json_schema", "spec": values[0]}
                case |= {"options": {}, "test": f"json_schema: {values[0][:60]!r}"}
                yield from ({**case, "text": text, "accepts": True} for text in values[-2])
                yield from ({**case, "text": text, "accepts": False} for text in values[-1])


def arguments(attributes: str, signature: list[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """The arguments of a parametrised test, one dict for each combination of its cases and values."""
    declared: list[tuple[str, list[Any] | None]] = []
    values: list[Any] | None = None
    for at, (kind, token) in enumerate(signature):
        if (kind, token) == ("name", "values"):
            try:
                values = list(Reader(signature, at + 1).value())
            except NotALiteral:
                return
        elif kind == "name" and signature[at + 1] == ("mark", ":"):
            declared.append((token, values))
            values = None
    rows: list[tuple[Any, ...]] = []
    cut = tokens(attributes)
    for at, (kind, token) in enumerate(cut):
        if kind == "name" and token.split("::")[0] == "case" and cut[at + 1] == ("mark", "("):
            try:
                rows.append(Reader(cut, at + 1).value())
            except NotALiteral:
                continue
    fixed = [name for name, listed in declared if listed is None]
    for row in rows or [()]:
        for chosen in product(*(listed for _, listed in declared if listed is not None)):
            free = [name for name, listed in declared if listed is not None]
            yield {**dict(zip(fixed, row, strict=False)), **dict(zip(free, chosen, strict=True))}


SOURCES = {
    "json-schema": json_schema_cases,
    "llama.cpp": llama_cases,
    "llguidance": llguidance_cases,
    "outlines-core": outlines_core_cases,
}
