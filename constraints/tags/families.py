"""Tool calls as families of language models write them, from their published chat formats: see :data:`FAMILIES`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from ...errors import UnsupportedConstraint
from ..calls.arguments import arguments, of_types
from ..calls.nodes import one_of
from ..calls.tools import Tool, read_tools
from ..constraint import Constraint
from ..json.text import STYLES
from ..narrowing import Narrowing, OnNarrowed, check_choice, merged, report
from ..program import nodes
from ..program.node import Node
from ..program.prune import pruned
from ..regex.constraint import regex
from ..words.free_text import free
from ..words.literals import literal
from .answers import AnswerReader, HarmonyReader
from .schemas import schema_values
from .tags import choice as one_of_several
from .tags import dispatched, in_a_row, sections, tag
from .xml_styles import COHERE, DEEPSEEK, DSML, GEMMA, GLM, M3, MINIMAX, MINIMAX_M3, QWEN, ParameterStyle


class Family(NamedTuple):
    """The format of calls.

    ``trigger``: the text that starts a call, or a list of calls, within free text. ``call``: a call, with its ``{name}``, its
    ``{arguments}``, and ``{number}`` for any number. ``around``: of a list, the text between the trigger and the first call,
    and that after the last.
    """

    trigger: str
    call: str
    between: str = ""
    around: tuple[str, str] | None = None
    style: ParameterStyle | None = None  # None: JSON

    def calls(self, tools: list[Tool], on_narrowed: OnNarrowed, begun: str = "") -> Constraint:
        """Return the constraint of one call of a tool. ``begun``: the beginning of the call, which stands there already."""
        head, tail, end = map(numbered, re.split("{name}|{arguments}", self.call[len(begun) :]))
        found, cuts = self.arguments(tools)
        in_json, options = '{"name": "' in self.call, dict[bytes, Node]()
        for name, after in found.items():
            written = json.dumps(name)[1:-1] if in_json else name
            options[written.encode()] = nodes.seq(tail, after)
        program = pruned(nodes.seq(head, one_of(options), end))
        made = Constraint(program, merged(cuts))
        report(made.narrowed, on_narrowed)
        return made

    def arguments(self, tools: list[Tool]) -> tuple[dict[str, Node], list[Narrowing]]:
        """Return by tool the node of its arguments, and what these lack."""
        if self.style is None:
            plain, space = [replace(tool, plain=True) for tool in tools], STYLES["space"]
            return arguments(plain, space, space, "any", "any")
        found, cuts = dict[str, Node](), of_types(tools)
        for tool in tools:
            each = schema_values(
                tool.schema(),
                self.style,
                path=tool.path,
                any_order=self.style.any_order,
                on_narrowed="ignore",
            )
            found[tool.name], cuts = each.program, [*cuts, *each.narrowed]
        return found, cuts


def numbered(text: str) -> Node:
    """Return the node of a text in which ``{number}`` stands for any number."""
    first, *rest = (nodes.text(each.encode()) for each in text.split("{number}"))
    digits = regex("[0-9]+").program
    return nodes.seq(first, *(part for each in rest for part in (digits, each)))


def in_element(name: str, call: str, style: ParameterStyle, mark: str = "") -> Family:
    """Return a format whose list of calls is an element of this name. ``mark``: what stands before each of its tags."""
    return Family(f"{mark}<{name}>", call, "", ("\n", f"{mark}</{name}>"), style)


INVOKED = f'<{DSML}invoke name="{{name}}">\n{{arguments}}</{DSML}invoke>\n'
FAMILIES: dict[str, Family] = {
    # Hermes 2 Pro, Qwen 2.5, Qwen 3
    "hermes": Family("<tool_call>", '<tool_call>\n{"name": "{name}", "arguments": {arguments}}\n</tool_call>', "\n"),
    # Qwen3-Coder; a parameter is <parameter=x>\n1\n</parameter>\n
    "qwen_xml": Family("<tool_call>", "<tool_call>\n<function={name}>{arguments}</function>\n</tool_call>", "\n", style=QWEN),
    # Llama 3.1 to 3.3
    "llama": Family('{"name": "', '{"name": "{name}", "parameters": {arguments}}', "; "),
    # Mistral's tokenizers of version 11 and later, and of versions 3 to 7
    "mistral": Family("[TOOL_CALLS]", "[TOOL_CALLS]{name}[ARGS]{arguments}"),
    "mistral_v3": Family("[TOOL_CALLS]", '{"name": "{name}", "arguments": {arguments}}', ", ", ("[", "]")),
    # DeepSeek V3.1; V3 and R1; V3.2; V4
    "deepseek": Family(
        "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>",
        around=("", "<｜tool▁calls▁end｜>"),
    ),
    "deepseek_v3": Family(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>",
        "\n", ("", "<｜tool▁calls▁end｜>"),
    ),
    "deepseek_v3_2": in_element(f"{DSML}function_calls", INVOKED, DEEPSEEK),
    "deepseek_v4": in_element(f"{DSML}tool_calls", INVOKED, DEEPSEEK),
    # GLM-4.5, and GLM-4.7 without line breaks; a parameter is <arg_key>x</arg_key>\n<arg_value>1</arg_value>\n
    "glm": Family("<tool_call>", "<tool_call>{name}{arguments}</tool_call>", "\n", style=GLM),
    # Kimi K2
    "kimi": Family(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
        around=("", "<|tool_calls_section_end|>"),
    ),
    # MiniMax M2, M3 (arrays and objects are elements, too)
    "minimax": in_element("minimax:tool_call", '<invoke name="{name}">\n{arguments}</invoke>\n', MINIMAX),
    "minimax_m3": in_element("tool_call", f'{M3}<invoke name="{{name}}">{{arguments}}{M3}</invoke>\n', MINIMAX_M3, M3),
    # Cohere; a parameter is <cofl:value name="x" type="json">1</cofl:value>
    "cohere": Family(
        "<cofl:tool_calls>", '<cofl:tool_call id="{number}" name="{name}">{arguments}</cofl:tool_call>',
        around=("", "</cofl:tool_calls>"), style=COHERE,
    ),
    # EXAONE 4
    "exaone": Family("<tool_call>", '<tool_call>{"name": "{name}", "arguments": {arguments}}</tool_call>', "\n"),
    # Gemma 3, as asked for JSON; Gemma 4; FunctionGemma: {city:<|"|>Oslo<|"|>,days:3}
    "gemma3": Family('{"name": "', '{"name": "{name}", "parameters": {arguments}}', "\n"),
    "gemma4": Family("<|tool_call>", "<|tool_call>call:{name}{arguments}<tool_call|>", style=GEMMA),
    "functiongemma": Family(
        "<start_function_call>", "<start_function_call>call:{name}{arguments}<end_function_call>",
        style=GEMMA._replace(quote="<escape>", marks=("<escape>",)),
    ),
    # MiMo
    "mimo": Family("<tool_call>", "<tool_call><function={name}>{arguments}</function></tool_call>", "\n", style=QWEN),
}  # fmt: skip
"""The formats of calls by family, beside "harmony" (gpt-oss)."""


def tool_calls(
    tools: Any,
    family: str,
    *,
    choice: Literal["auto", "required", "none", "text_then_calls"] | Mapping[str, Any] = "auto",
    parallel: bool = True,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the answers of a language model that may call tools, in the format of its family.

    ``tt.generate`` returns them as :class:`Answer`: the text, and the calls as :class:`Call`. Combined with other
    constraints, this one gives plain texts.

    Args:
        tools: as for :func:`~tractile.constraints.function_calls`.
        family: a key of ``FAMILIES``, such as "hermes", or "harmony".
        choice: OpenAI's ``tool_choice``. "auto": free text, in which calls may stand; "required": calls and nothing else;
            "none": free text without a call; "text_then_calls": free text, which may be empty, then calls;
            ``{"type": "function", "function": {"name": "f"}}``: a call of that tool;
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
        found = harmony(read, asked, parallel, on_narrowed)
        found.reader = HarmonyReader(tools, read, [Family("", call) for call in HARMONY])
    else:
        found = answers(FAMILIES[family], read, asked, parallel, on_narrowed)
        found.reader = AnswerReader(tools, read, FAMILIES[family])
    return found


def answers(
    style: Family, read: list[Tool], asked: str, parallel: bool, on_narrowed: OnNarrowed
) -> Constraint:
    """Accept answers with calls of the tools ``read``; ``asked``: "auto", "required", "none" or "text_then_calls"."""
    if asked == "none":
        return free(without=style.trigger)
    if asked == "text_then_calls":
        return free(without=style.trigger) + answers(style, read, "required", parallel, on_narrowed)
    if asked == "auto" and style.around is None:
        rest = style.calls(read, on_narrowed, style.trigger)
        return dispatched({style.trigger: rest}, loop=parallel, without=[], ends=None)
    calls = in_a_row(style.calls(read, on_narrowed), style.between, True, parallel)
    if style.around is None:
        return calls
    begin, end = style.around
    if asked == "required":
        return sections(style.trigger + begin, calls, end)
    return dispatched(
        {style.trigger: literal(begin) + calls + literal(end)}, loop=False, without=[], ends=None
    )


def chosen(
    tools: list[Tool], choice: str | Mapping[str, Any], parallel: bool
) -> tuple[list[Tool], str, bool]:
    """Return the tools that a choice leaves, what it asks, as :func:`answers` takes it, and whether there may be several calls.

    Raises ``UnsupportedConstraint`` for any other choice, and for tools that there are not.
    """
    named: list[Any] = []
    match choice:
        case "auto" | "required" | "none" | "text_then_calls":
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
            words = "'auto', 'required', 'none', 'text_then_calls'"
            why = f"choice is {words}, or names tools as OpenAI's tool_choice does, not {choice!r:.80}"
            raise UnsupportedConstraint(why, path="choice")
    found = [tool for tool in tools if tool.name in named]
    if not named or len(found) < len(set(named)):
        raise UnsupportedConstraint(
            f"choice names {named}; the tools are {[t.name for t in tools]}", path="choice"
        )
    return found, asked, parallel


HARMONY = (
    "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>",
    "<|channel|>commentary to=functions.{name}<|constrain|>json<|message|>{arguments}<|call|>",
    " to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>{arguments}<|call|>",
    " to=functions.{name}<|channel|>commentary json<|message|>{arguments}<|call|>",
)
"""A call in gpt-oss: the recipient stands in the channel or in the role."""


def harmony(tools: list[Tool], asked: str, parallel: bool, on_narrowed: OnNarrowed) -> Constraint:
    """Accept the channels of gpt-oss after ``<|start|>assistant``: analysis, then a final text or calls."""
    header = "<|start|>assistant"
    analysis = tag("<|channel|>analysis<|message|>", None, "<|end|>") + literal(header)
    calls = [Family("", call).calls(tools, on_narrowed) for call in HARMONY]
    answer = in_a_row(one_of_several(calls), header, True, parallel)
    if asked == "text_then_calls":
        answer = (tag("<|channel|>commentary<|message|>", None, "<|end|>") + literal(header)).repeat(
            0, 1
        ) + answer
    elif asked != "required":
        marks = ("<|end|>", "<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
        final = sections("<|channel|>final<|message|>", free(without=marks))
        answer = final if asked == "none" else answer | final
    return analysis.repeat(0) + answer
