"""Tools as their providers write them: one test for each row of the page, and what is refused by name."""

import dataclasses
import functools
import json
import os
import re
from pathlib import Path
from typing import Annotated

import pytest

import tractile as tt

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "what-we-read.md"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
GOOGLE = {
    "type": "OBJECT",
    "properties": {"days": {"type": "INTEGER", "format": "int32"}, "city": {"type": "STRING"}},
    "required": ["city"],
    "propertyOrdering": ["city", "days"],
}
TYPED = {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}
OPENAI = [
    {"type": "function", "function": {"name": "f", "description": "", "parameters": SCHEMA, "strict": True}}
]


def f(city: str, days: int = 1) -> None: ...


@dataclasses.dataclass
class Arguments:
    city: str
    days: int = 1


WRITTEN = {
    "OpenAI, chat": [OPENAI, {"functions": [{"name": "f", "parameters": SCHEMA}]}],
    "OpenAI, responses": [[{"type": "function", "name": "f", "parameters": SCHEMA, "strict": True}]],
    "Anthropic": [
        [{"name": "f", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
        [{"type": "custom", "name": "f", "input_schema": SCHEMA}],
    ],
    "Gemini": [
        [{"functionDeclarations": [{"name": "f", "parameters": GOOGLE, "response": GOOGLE}]}],
        {"function_declarations": [{"name": "f", "parameters_json_schema": SCHEMA}]},
        [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}],
    ],
    "Bedrock": [
        {"toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA}}}]}},
        [{"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA}}}, {"cachePoint": {"type": "default"}}],
    ],
    "Cohere": [
        [{"name": "f", "parameter_definitions": {"city": {"type": "str", "required": True}, "days": {"type": "int"}}}]
    ],
    "Mistral": [OPENAI],
    "Ollama": [OPENAI],
    "MCP": [
        {"tools": [{"name": "f", "title": "F", "inputSchema": SCHEMA, "outputSchema": SCHEMA}], "nextCursor": "2"},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "f", "inputSchema": SCHEMA}]}},
    ],
    "Home Assistant": [
        [{"spec": {"name": "f", "parameters": SCHEMA}, "function": {"type": "native", "name": "execute_service"}}],
        [{"name": "f", "description": "", "parameters": SCHEMA}],
    ],
    "LangChain": [
        *([{"name": "f", "args_schema": given}] for given in (SCHEMA, Arguments)),
        [{"name": "f", "args": TYPED}],
    ],
    "AI SDK": [[{"name": "f", key: {"jsonSchema": SCHEMA}}] for key in ("inputSchema", "parameters")],
    "other frameworks": [
        [{"name": "f", key: value}] for key in ("schema", "params", "input") for value in (SCHEMA, TYPED)
    ],
    "a schema with a title": [[{"title": "f", **SCHEMA}], [{"name": "f", **SCHEMA}]],
    "BFCL": [[{"name": "f", "parameters": {**SCHEMA, "type": "dict"}, "response": SCHEMA}]],
    "xLAM": [[{"name": "f", "parameters": {"city": {"type": "str"}, "days": {"type": "int, optional"}}}]],
    "Qwen-Agent": [
        [{"name": "f", "parameters": [{"name": "city", "type": "string", "required": True}, {"name": "days", "type": "integer"}]}]
    ],
    "Python": [[f]],
}  # fmt: skip


def accepted(tools, *arguments, **options):
    """Whether each text is accepted as the arguments of ``f``."""
    calls = tt.constraints.function_calls(tools, **options)
    return [calls.accepts(f'{{"name": "f", "arguments": {text}}}') for text in arguments]


def test_each_row_of_the_page_has_a_test():
    (table,) = re.findall(r"\| written for .*\n\| ---.*\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8"))
    assert [row.split("|")[1].strip() for row in table.splitlines()] == list(WRITTEN)


@pytest.mark.parametrize("name", WRITTEN)
def test_as_providers_write_tools(name):
    for tools in WRITTEN[name]:
        good = accepted(tools, '{"city": "Oslo", "days": 3}', '{"city": "Oslo"}')
        bad = accepted(tools, "{}", '{"days": 3}', '{"city": 3}', '{"city": "Oslo", "x": 1}')
        assert (good, bad) == ([True] * 2, [False] * 4), tools


def test_as_text_and_in_a_file(tmp_path):
    written = {"tools": [{"name": "f", "inputSchema": SCHEMA}]}
    (tmp_path / "tools.json").write_text(json.dumps(written))
    (tmp_path / "tools.jsonl").write_text("\n".join(map(json.dumps, [*written["tools"], {"name": "g"}])))
    given = [json.dumps(written), *(tmp_path / f"tools.{ending}" for ending in ("json", "jsonl"))]
    for tools in (*given, os.fspath(given[1])):
        assert accepted(tools, '{"city": ""}', "{}") == [True, False]


def test_formats_mix_and_have_their_paths():
    mixed = [
        f,
        {"functionDeclarations": [{"name": "g"}, {"name": "h", "parameters": {"x": {"type": "frob"}}}]},
    ]
    with pytest.raises(
        tt.errors.UnsupportedConstraint, match=r"tools\[1\].functionDeclarations\[1\].parameters"
    ):
        tt.constraints.function_calls(mixed)
    bad = [
        f,
        {"tools": [{"name": "g", "inputSchema": {"type": "object", "properties": {"x": {"pattern": "("}}}}]},
    ]
    with pytest.raises(tt.errors.UnsupportedConstraint, match=r"tools\[1\].tools\[0\].inputSchema.x"):
        tt.constraints.function_calls(bad)
    calls = tt.constraints.function_calls([f, {"functionDeclarations": [{"name": "g"}, {"name": "h"}]}])
    assert calls.accepts('{"name": "h", "arguments": {}}')


def test_a_dict_with_tools_as_the_output():
    text = '{"name": "f", "arguments": {"city": "Oslo"}}'
    for tools in (WRITTEN["MCP"][0], WRITTEN["Bedrock"][0], OPENAI[0], {"name": "f", "input_schema": SCHEMA}):
        found = tt.constraints.output_type(tools)
        assert found.parse(text) == tt.constraints.Call("f", {"city": "Oslo"})
        assert not found.constraint.accepts('{"city": "Oslo"}')
    assert tt.constraints.output_type({"title": "f", **SCHEMA}).constraint.accepts('{"city": "Oslo"}')


def test_narrowed_names_the_validators_of_types():
    pydantic = pytest.importorskip("pydantic")

    def even(n: int) -> int:
        return n

    annotated = Annotated[int, pydantic.AfterValidator(even)]
    model = pydantic.create_model("Order", n=annotated, more=(list[annotated], ...))

    def order(n, more):
        "Order."

    order.__annotations__ = {"n": annotated, "more": list[annotated]}
    for tool, path in (
        (model, "tools[0].parameters"),
        (order, "tools[0].parameters"),
        ({"name": "f", "args_schema": model}, "tools[0].args_schema"),
        (
            {"type": "function", "function": {"name": "f", "parameters": model}},
            "tools[0].function.parameters",
        ),
    ):
        narrowed = tt.constraints.function_calls([tool]).narrowed
        cuts = {(cut.path, cut.asked) for cut in narrowed if cut.keyword == "validator"}
        what = f"the values that {even.__qualname__} passes"
        assert cuts == {(f"{path}.n", what), (f"{path}.more/items", what)}
        with pytest.raises(tt.errors.UnsupportedConstraint, match="even"):
            tt.constraints.function_calls([tool], on_narrowed="error")
        for family in ("hermes", "qwen_xml"):
            calls = tt.constraints.tool_calls([tool], family, choice="required")
            assert {cut.path for cut in calls.narrowed} >= {f"{path}.n", f"{path}.more/items"}


def test_functions_that_are_wrapped_and_annotations_that_lead_nowhere():
    pytest.importorskip("pydantic")

    @functools.cache
    def double(n: int) -> int:
        return 2 * n

    calls = tt.constraints.output_type([double])
    assert calls.parse('{"name": "double", "arguments": {"n": 4}}')() == 8
    assert not calls.constraint.accepts('{"name": "double", "arguments": {"n": "4"}}')

    def nowhere(when): ...

    nowhere.__annotations__ = {"when": "no_module.date"}
    with pytest.raises(tt.errors.FormatError, match="no_module"):
        tt.constraints.function_calls([nowhere])
