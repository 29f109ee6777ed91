"""Tool calls as families of language models write them, from their published chat formats.

hermes      <tool_call>\\n{"name": "f", "arguments": {…}}\\n</tool_call>               Hermes 2 Pro, Qwen 2.5, Qwen 3
qwen_xml    <tool_call>\\n<function=f>\\n<parameter=x>\\n1\\n</parameter>\\n</function>\\n</tool_call>      Qwen3-Coder
llama       {"name": "f", "parameters": {…}}                                          Llama 3.1 to 3.3
mistral     [TOOL_CALLS]f[ARGS]{…}                                                    tokenizers of version 11 and later
mistral_v3  [TOOL_CALLS][{"name": "f", "arguments": {…}}]                             versions 3 to 7
deepseek    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜><｜tool▁calls▁end｜>      V3.1
deepseek_v3 as deepseek, with function<｜tool▁sep｜>f\\n```json\\n{…}\\n``` in each call    V3, R1
deepseek_v3_2   <｜DSML｜function_calls>\\n<｜DSML｜invoke name="f">\\n<｜DSML｜parameter …>…</｜DSML｜invoke>\\n…        V3.2
deepseek_v4 the same in <｜DSML｜tool_calls>
glm         <tool_call>f\\n<arg_key>x</arg_key>\\n<arg_value>1</arg_value>\\n</tool_call>     GLM-4.5; GLM-4.7 without \\n
kimi        <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>…      K2
minimax     <minimax:tool_call>\\n<invoke name="f">\\n<parameter name="x">1</parameter>\\n</invoke>\\n</minimax:tool_call>      M2
minimax_m3  as minimax, with ]<]minimax[>[ before each mark; arrays and objects are elements
cohere      <cofl:tool_calls><cofl:tool_call id="0" name="f"><cofl:value name="x" type="json">1</cofl:value></cofl:tool_call>…
exaone      as hermes, without \\n                                                        EXAONE 4
mimo        as qwen_xml, without \\n between the marks                                   MiMo
harmony     <|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>    gpt-oss
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from ...errors import UnsupportedConstraint
from ..calls.arguments import placed
from ..calls.nodes import one_of
from ..calls.tools import Tool, read_tools
from ..constraint import Constraint
from ..json.document import read_schema
from ..json.nodes import Reading, value_node
from ..json.numbers import Notation
from ..json.text import STYLES
from ..narrowing import Narrowing, OnNarrowed, check_choice, merged, report
from ..program import nodes
from ..program.node import Node
from ..regex.constraint import regex
from ..words.free_text import free
from ..words.literals import literal
from .parameters import parameters
from .tags import choice as one_of_several
from .tags import closed, dispatched, in_a_row, sections, tag
from .xml_styles import COHERE, DEEPSEEK, DSML, GLM, M3, MINIMAX, MINIMAX_M3, QWEN, Parameters


class Family(NamedTuple):
    """The format of calls: ``begin`` (with ``{name}``, and ``{number}`` for any number), the arguments, ``end``.

    ``opening`` and ``closing`` enclose the list of calls; ``between`` separates two. ``trigger``: the text that starts a call
    within free text.
    """

    trigger: str
    begin: str
    end: str
    opening: str = ""
    closing: str = ""
    between: str = ""
    style: Parameters | None = None  # None: JSON

    def calls(self, tools: list[Tool], on_narrowed: OnNarrowed, begun: str = "") -> Constraint:
        """Return the constraint of a call of one of the tools, without the opening, after ``begun``, the first part of it."""
        head, tail = map(numbered, self.begin[len(begun) :].split("{name}"))
        in_json, options, cuts = '{"name": "' in self.begin, dict[bytes, Node](), list[Narrowing]()
        for tool in tools:
            arguments, lacking = self.arguments(tool)
            name = json.dumps(tool.name)[1:-1] if in_json else tool.name
            options[name.encode()] = nodes.seq(tail, arguments)
            cuts += lacking
        program = nodes.seq(head, one_of(options), nodes.text(self.end.encode()))
        found = Constraint(program, merged(cuts), partial(Family.calls, self, tools, "ignore", begun))
        report(found.narrowed, on_narrowed)
        return found

    def arguments(self, tool: Tool) -> tuple[Node, tuple[Narrowing, ...]]:
        """Return the node of the arguments of a tool, and what it lacks of their schema."""
        schema, place = read_schema(tool.schema()), f"tools/{tool.name}"
        if self.style is not None:
            found = parameters(schema, self.style, place, "ignore")
            return found.program, found.narrowed
        with placed(place):
            return value_node(schema, STYLES["space"], Reading(notation=Notation(plain=True)))


def numbered(text: str) -> Node:
    """Return the node of a text in which ``{number}`` stands for any number."""
    first, *rest = (nodes.text(each.encode()) for each in text.split("{number}"))
    digits = regex("[0-9]+").program
    return nodes.seq(first, *(part for each in rest for part in (digits, each)))


def dsml(calls: str) -> Family:
    """Return the format of DeepSeek's markup: ``calls`` is the name of the list."""
    opening, closing = f"<{DSML}{calls}>", f"</{DSML}{calls}>"
    begin, end = f'<{DSML}invoke name="{{name}}">\n', f"</{DSML}invoke>\n"
    return Family(opening, begin, end, f"{opening}\n", closing, style=DEEPSEEK)


def invoked(prefix: str, style: Parameters, space: str, mark: str = "") -> Family:
    """Return a format of MiniMax: ``prefix`` of the list's name, and the mark before each tag."""
    opening, closing = f"{mark}<{prefix}tool_call>", f"{mark}</{prefix}tool_call>"
    begin, end = f'{mark}<invoke name="{{name}}">{space}', f"{mark}</invoke>\n"
    return Family(opening, begin, end, f"{opening}\n", closing, style=style)


FAMILIES: dict[str, Family] = {
    "hermes": Family(
        "<tool_call>", '<tool_call>\n{"name": "{name}", "arguments": ', "}\n</tool_call>", between="\n"
    ),
    "qwen_xml": Family(
        "<tool_call>",
        "<tool_call>\n<function={name}>",
        "</function>\n</tool_call>",
        between="\n",
        style=QWEN,
    ),
    "llama": Family('{"name": "', '{"name": "{name}", "parameters": ', "}", between="; "),
    "mistral": Family("[TOOL_CALLS]", "[TOOL_CALLS]{name}[ARGS]", ""),
    "mistral_v3": Family("[TOOL_CALLS]", '{"name": "{name}", "arguments": ', "}", "[TOOL_CALLS][", "]", ", "),
    "deepseek": Family(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "deepseek_v3": Family(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "\n",
    ),
    "deepseek_v3_2": dsml("function_calls"),
    "deepseek_v4": dsml("tool_calls"),
    "glm": Family("<tool_call>", "<tool_call>{name}", "</tool_call>", between="\n", style=GLM),
    "kimi": Family(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
    ),
    "minimax": invoked("minimax:", MINIMAX, "\n"),
    "minimax_m3": invoked("", MINIMAX_M3, "", M3),
    "cohere": Family(
        "<cofl:tool_calls>",
        '<cofl:tool_call id="{number}" name="{name}">',
        "</cofl:tool_call>",
        "<cofl:tool_calls>",
        "</cofl:tool_calls>",
        style=COHERE,
    ),
    "exaone": Family(
        "<tool_call>", '<tool_call>{"name": "{name}", "arguments": ', "}</tool_call>", between="\n"
    ),
    "mimo": Family(
        "<tool_call>", "<tool_call><function={name}>", "</function></tool_call>", between="\n", style=QWEN
    ),
}


def tool_calls(
    tools: Any,
    family: str,
    *,
    choice: Literal["auto", "required", "none"] | Mapping[str, Any] = "auto",
    parallel: bool = True,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the answers of a language model that may call tools, in the format of its family.

    Args:
        tools: as for :func:`~tractile.constraints.function_calls`.
        family: a key of ``FAMILIES``, such as "hermes", or "harmony".
        choice: OpenAI's ``tool_choice``. "auto": free text, in which calls may stand; "required": calls and nothing else;
            "none": free text without a call; ``{"type": "function", "function": {"name": "f"}}``: a call of that tool;
            ``{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": […]}}``: some of the tools.
        parallel: whether there may be several calls.

    If the family's markers are special tokens of the tokenizer, give the vocabulary their texts
    (:meth:`~.Vocabulary.with_special`). Reasoning before the answer is a section of its own:
    ``free(until="</think>") + tool_calls(…)``; "harmony" has it in the analysis channel.

    Raises ``UnsupportedConstraint`` for an unknown family or choice, and what ``function_calls`` raises.

    >>> from tractile.constraints import tool_calls
    >>> tools = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]
    >>> tool_calls(tools, "hermes").accepts('Sure.<tool_call>\\n{"name": "f", "arguments": {"x": 1}}\\n</tool_call>')
    True
    """
    check_choice(on_narrowed)
    if family != "harmony" and family not in FAMILIES:
        names = ", ".join([*FAMILIES, "harmony"])
        raise UnsupportedConstraint(f"the family {family!r} is not known; there are {names}", path="family")
    read, asked, parallel = chosen(read_tools(tools, tuples=False), choice, parallel)
    if family == "harmony":
        return harmony(read, asked, parallel, on_narrowed)
    style = FAMILIES[family]
    if asked == "none":
        return free(without=style.trigger)
    if asked == "auto" and not style.opening:
        rest = style.calls(read, on_narrowed, style.trigger)
        return dispatched({style.trigger: rest}, loop=parallel, without=[], ends=None)
    calls = in_a_row(style.calls(read, on_narrowed), style.between, True, parallel)
    block = closed(calls, [style.closing])
    if asked == "required":
        return sections(style.opening, block) if style.opening else block
    block = literal(style.opening[len(style.trigger) :]) + block
    return dispatched({style.trigger: block}, loop=False, without=[], ends=None)


def chosen(
    tools: list[Tool], choice: str | Mapping[str, Any], parallel: bool
) -> tuple[list[Tool], str, bool]:
    """Return the tools that a choice leaves, "auto", "required" or "none", and whether there may be several calls.

    Raises ``UnsupportedConstraint`` for any other choice, and for tools that there are not.
    """
    named: list[Any] = []
    match choice:
        case "auto" | "required" | "none":
            return tools, choice, parallel
        case {"type": "function", "function": {"name": name}}:
            named, asked, parallel = [name], "required", False
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as asked, "tools": list(listed)},
        }:
            named = [
                each.get("function", {}).get("name") if isinstance(each, Mapping) else each for each in listed
            ]
        case _:
            why = f"choice is 'auto', 'required', 'none', or names tools as OpenAI's tool_choice does, not {choice!r:.80}"
            raise UnsupportedConstraint(why, path="choice")
    found = [tool for tool in tools if tool.name in named]
    if not named or len(found) < len(set(named)):
        raise UnsupportedConstraint(
            f"choice names {named}; the tools are {[t.name for t in tools]}", path="choice"
        )
    return found, asked, parallel


HARMONY = (
    "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>",
    "<|channel|>commentary to=functions.{name}<|constrain|>json<|message|>",
    " to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>",
    " to=functions.{name}<|channel|>commentary json<|message|>",
)
"""The headers of a call in gpt-oss: the recipient stands in the channel or in the role."""


def harmony(tools: list[Tool], asked: str, parallel: bool, on_narrowed: OnNarrowed) -> Constraint:
    """Accept the channels of gpt-oss after ``<|start|>assistant``: analysis, then a final text or calls."""
    header = "<|start|>assistant"
    analysis = tag("<|channel|>analysis<|message|>", None, "<|end|>") + literal(header)
    calls = [Family("", begin, "<|call|>").calls(tools, on_narrowed) for begin in HARMONY]
    answer = in_a_row(one_of_several(calls), header, True, parallel)
    if asked != "required":
        marks = ("<|end|>", "<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
        final = sections("<|channel|>final<|message|>", free(without=marks))
        answer = final if asked == "none" else answer | final
    return analysis.repeat(0) + answer
