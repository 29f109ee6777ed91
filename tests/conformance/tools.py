"""Do the tools of public data sets compile, and are their gold calls in the language?

For each distinct tool, in JSON and in Python syntax: one constraint. A gold call is rendered in the declared order of
the arguments (``json.dumps``, ``repr``) and put to the constraint of its tool. Columns:

    tools     distinct tools; compiled: those that compile; ms: CPU time until texts can be read, median and largest
    calls     gold calls; fit: those that satisfy their tool's own schema, according to the ``jsonschema`` package
    in        gold calls that the constraint accepts, and the same as a share of those that fit

Everything that does not compile or is not accepted is counted with its reason. The data lies beside the repository
(``TRACTILE_SHARED``, by default ../shared); without it only the tools written here are run.

    python tests/conformance/tools.py [--smoke] [--sets NAME …] [--reasons N]
"""

import argparse
import ast
import io
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samples import SHARED, needed

import tractile as tt
from tractile.constraints.calls.tools import read_tools

jsonschema = needed("jsonschema", "test")

Call = tuple[dict[str, Any], dict[str, Any] | str]  # a tool, and the gold arguments (or why there are none)

WEATHER = {
    "name": "weather.forecast",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
            "at": {"type": "tuple", "items": {"type": "float"}},
        },
        "required": ["city"],
    },
}
CONVERT = {
    "name": "convert",
    "parameters": {
        "amounts": {"type": "List[float]", "description": "what to convert"},
        "rates": {"type": "Dict[str, float]", "description": "by currency"},
        "exact": {"type": "bool, optional", "description": "no rounding"},
    },
}
OWN: list[Call] = [
    (WEATHER, {"city": "Oslo", "days": 3, "at": [59.9, 10.75]}),
    (WEATHER, {"city": "Côte d'Ivoire", "units": "metric"}),
    (CONVERT, {"amounts": [1, 2.5], "rates": {"NOK": 11.5}}),
]


def lines(path: Path) -> Iterator[Any]:
    """The objects of a JSON Lines file, compressed or not."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        import zstandard

        data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
    text = data.decode()
    return iter(json.loads(text)) if path.stem.endswith(".json") else map(json.loads, text.splitlines())


# ---------------------------------------------------------------- the data sets: every tool, and every gold call


def bfcl(folder: Path) -> Iterator[Call]:
    """Berkeley function calling leaderboard, single turn and multi turn."""
    documents = {tool["name"]: tool for file in folder.glob("multi_turn_func_doc/*") for tool in lines(file)}
    for file in sorted(folder.glob("*.zst")):
        for case in lines(file):
            tools = {tool["name"]: tool for tool in case.get("function", [])}
            for tool in tools.values():
                yield tool, "no call"
            for gold in case.get("possible_answer", []):
                for name, accepted in gold.items() if isinstance(gold, dict) else []:
                    yield tools[name], {k: first(v) for k, v in accepted.items() if first(v) != ""}
                for text in gold if isinstance(gold, list) else []:
                    call = ast.parse(text, mode="eval").body
                    tool = documents[call.func.id]
                    names = [*tool["parameters"]["properties"]][: len(call.args)]
                    values = dict(zip(names, map(ast.literal_eval, call.args), strict=True))
                    yield tool, values | {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    for tool in documents.values():
        yield tool, "no call"


def first(accepted: Any) -> Any:
    """The first of the accepted values; members of nested objects list theirs too."""
    value = accepted[0] if isinstance(accepted, list) and accepted else accepted

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            members = {k: (v[0] if isinstance(v, list) and v else v) for k, v in value.items()}
            return {k: plain(v) for k, v in members.items() if v != ""}
        return [plain(v) for v in value] if isinstance(value, list) else value

    return plain(value)


def taubench(folder: Path) -> Iterator[Call]:
    """tau-bench, retail and airline."""
    for domain in ("retail", "airline"):
        tools = {t["function"]["name"]: t for t in json.loads((folder / f"{domain}_tools.json").read_text())}
        for tool in tools.values():
            yield tool, "no call"
        for file in sorted(folder.glob(f"{domain}_tasks_*")):
            for task in lines(file):
                for action in task["actions"]:
                    yield tools[action["name"]], action["kwargs"]


def sealtools(folder: Path) -> Iterator[Call]:
    """Seal-Tools."""
    tools = {}
    for tool in lines(folder / "tool.jsonl.zst"):
        schema = {"type": "object", "properties": tool["parameters"], "required": tool["required"]}
        choices = {"choices": "enum", "example_values": "examples"}
        schema["properties"] = {
            name: {choices.get(k, k): v for k, v in p.items()} for name, p in schema["properties"].items()
        }
        tools[tool["api_name"]] = {"name": tool["api_name"], "parameters": schema}
        yield tools[tool["api_name"]], "no call"
    for name in ("dev", "test_in_domain.half", "test_out_domain.half"):
        for case in lines(folder / f"{name}.jsonl.zst"):
            for call in case["calling"]:
                yield tools[call["api"]], call["parameters"]


def toolalpaca(folder: Path) -> Iterator[Call]:
    """ToolAlpaca; the arguments are described in a sentence each."""
    kinds = {"Array": "list", "Object": "object"}
    for file in sorted(folder.glob("*.zst")):
        for api in lines(file):
            tools = {}
            for name, text in api["Function_Description"].items():
                found = re.search(r"Parameters: (.*)\nOutput", text, re.DOTALL)
                arguments = {}
                for argument, said in json.loads(found[1] if found else "{}").items():
                    kind = re.match(r"[A-Za-z]+", said.removeprefix("Required. "))
                    arguments[argument] = {
                        "type": kinds.get(kind[0], kind[0]) if kind else "any",
                        "required": said.startswith("Required."),
                    }
                if name != "components":
                    tools[name] = {"name": name, "parameters": arguments}
                    yield tools[name], "no call"
            for call in (call for answer in api["Golden_Answers"] for call in answer):
                if call["Action"] not in tools:
                    yield OWN[0][0], "the gold call is of an unknown tool"
                    continue
                try:
                    yield tools[call["Action"]], json.loads(call["Action_Input"])
                except ValueError:
                    yield tools[call["Action"]], "the gold arguments are not JSON"


def nestful(folder: Path) -> Iterator[Call]:
    """NESTFUL: three collections."""
    for name in ("executable", "non-executable-glaive", "non-executable-sgd"):
        tools = {}
        for tool in lines(folder / f"{name}-spec.json.zst"):
            keys = ("query_parameters", "path_parameters", "parameters", "arguments")
            arguments: dict[str, Any] = next((tool[k] for k in keys if k in tool), {})
            tools[tool["name"]] = {
                "name": tool["name"],
                "parameters": {n: nestful_argument(a) for n, a in arguments.items()},
            }
            yield tools[tool["name"]], "no call"
        for case in lines(folder / f"{name}-data.half.jsonl.zst"):
            for call in case["output"]:
                if call["name"] != "var_result":
                    yield (
                        tools.get(call["name"], OWN[0][0]),
                        (
                            call["arguments"]
                            if call["name"] in tools
                            else "the gold call is of an unknown tool"
                        ),
                    )


def nestful_argument(argument: dict[str, Any]) -> dict[str, Any]:
    """One of NESTFUL's arguments with the usual words for its type and its values."""
    words = {"Enum": "string", "Date (yyyy-mm-dd)": "string", None: "string"}
    values = argument.get("allowed_values") or argument.get("possible_values") or argument.get("enum")
    kept = {
        k: argument[k] for k in ("items", "properties", "required", "optional", "default") if k in argument
    }
    kind = words.get(argument.get("type"), argument.get("type"))
    return {**kept, "type": kind, **({"enum": values} if isinstance(values, list) else {})}


SETS: dict[str, Callable[[Path], Iterator[Call]]] = {
    "bfcl": bfcl, "taubench": taubench, "sealtools": sealtools, "toolalpaca": toolalpaca, "nestful": nestful,
}  # fmt: skip
REFERENCES = r"API_call_\d+|.*\$\w+(\.[^$]*)?\$.*"
"""The results of earlier calls, which Seal-Tools and NESTFUL put in place of any value."""


# ---------------------------------------------------------------- what is counted


@dataclass
class Row:
    """The figures of one data set in one syntax."""

    tools: int = 0
    times: list[float] = field(default_factory=list)
    calls: int = 0
    fit: int = 0
    accepted: int = 0
    accepted_fit: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def measure(calls: Iterator[Call], syntax: str, limit: int | None) -> Row:
    """Compile every distinct tool, and ask for every gold call."""
    row = Row()
    compiled: dict[str, tt.constraints.Constraint | str] = {}
    for tool, arguments in calls:
        key = json.dumps(tool)
        if key not in compiled:
            if limit is not None and row.tools >= limit:
                continue
            row.tools += 1
            begin = time.process_time()
            try:
                compiled[key] = tt.constraints.function_calls([tool], syntax=syntax, references=REFERENCES)
                assert not compiled[key].is_empty()
                row.times.append(time.process_time() - begin)
            except tt.TractileError as error:
                compiled[key] = f"{type(error).__name__}: {error}"
                row.reasons[f"tool: {compiled[key]}"] += 1
        constraint = compiled[key]
        if arguments == "no call":
            continue
        row.calls += 1
        if isinstance(arguments, str) or isinstance(constraint, str):
            row.reasons[arguments if isinstance(arguments, str) else "call: its tool does not compile"] += 1
            continue
        accepted = constraint.accepts(rendered(tool, arguments, syntax))
        problem = misfit(tool, arguments)
        row.fit += not problem
        row.accepted += accepted
        row.accepted_fit += accepted and not problem
        if not accepted:
            row.reasons[f"call: {problem or 'FITS ITS SCHEMA BUT IS NOT ACCEPTED'}"] += 1
    return row


def rendered(tool: dict[str, Any], arguments: dict[str, Any], syntax: str) -> str:
    """The gold call as text."""
    (known,) = read_tools([tool], tuples=True)
    ordered = {
        n: in_declared_order(known.arguments.get(n), arguments[n]) for n in known.arguments if n in arguments
    }
    ordered |= {k: v for k, v in arguments.items() if k not in ordered}
    if syntax == "json":
        return json.dumps({"name": known.name, "arguments": ordered}, ensure_ascii=False)
    return f"{known.name}({', '.join(f'{k}={v!r}' for k, v in ordered.items())})"


def in_declared_order(schema: Any, value: Any) -> Any:
    """The value with members in the order of their declaration, and tuples where they are declared."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        names = [n for n in properties if n in value] + [n for n in value if n not in properties]
        return {n: in_declared_order(properties.get(n), value[n]) for n in names}
    if isinstance(value, list | tuple):
        items = [in_declared_order(schema.get("items"), v) for v in value]
        return tuple(items) if schema.get("type") == "tuple" else items
    return value


def misfit(tool: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Why the arguments do not satisfy the tool's own schema; references to earlier results count as fitting."""
    (known,) = read_tools([tool], tuples=False)
    validator = jsonschema.Draft202012Validator(known.schema())
    for error in validator.iter_errors(arguments):
        if not (isinstance(error.instance, str) and re.fullmatch(REFERENCES, error.instance)):
            what = {"type": f"is not of type {error.validator_value}", "enum": "is not one of its enum"}
            return f"the gold call breaks its tool's schema: a value {what.get(error.validator, error.validator)}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--smoke", action="store_true", help="only the tools written in this file, 20 of each set"
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="only these data sets")
    parser.add_argument("--reasons", type=int, default=12, help="how many reasons to list for each set")
    options = parser.parse_args()
    root = SHARED / "data"
    print(
        f"{'set':<12}{'syntax':<8}{'tools':>7}{'compiled':>9}{'ms':>14}{'calls':>7}{'fit':>7}{'in':>7}{'of fit':>9}"
    )
    chosen = {name: SETS[name] for name in options.sets}
    for name, read in {"own": lambda _: iter(OWN), **chosen}.items():
        if name != "own" and not (root / name).is_dir():
            print(f"{name:<12}skipped: no {root / name}")
            continue
        reasons: dict[str, Counter[str]] = {}
        for syntax in ("json", "python"):
            row = measure(read(root / name), syntax, 20 if options.smoke else None)
            times = [1e3 * t for t in row.times]
            spent = f"{statistics.median(times):.0f}/{max(times):.0f}"
            share = f"{row.accepted_fit / max(row.fit, 1):.1%}"
            print(
                f"{name:<12}{syntax:<8}{row.tools:>7}{len(times):>9}{spent:>14}{row.calls:>7}{row.fit:>7}"
                f"{row.accepted:>7}{share:>9}",
                flush=True,
            )
            reasons[syntax] = row.reasons
        for syntax, counted in reasons.items():
            for reason, count in counted.most_common(options.reasons):
                print(f"    {syntax:<7}{count:>5}  {reason[:140]}")


if __name__ == "__main__":
    main()
