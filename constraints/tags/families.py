"""Tool calls as families of language models write them, from their published chat formats.

hermes      <tool_call>\\n{"name": "f", "arguments": {…}}\\n</tool_call>               Hermes 2 Pro, Qwen 2.5, Qwen 3
qwen_xml    <tool_call>\\n<function=f>\\n<parameter=x>\\n1\\n</parameter>\\n</function>\\n</tool_call>      Qwen3-Coder
llama       {"name": "f", "parameters": {…}}                                          Llama 3.1 to 3.3
mistral     [TOOL_CALLS]f[ARGS]{…}                                                    tokenizers of version 11 and later
mistral_v3  [TOOL_CALLS][{"name": "f", "arguments": {…}}]                             versions 3 to 7
deepseek    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜><｜tool▁calls▁end｜>      V3.1
deepseek_v3 as deepseek, with function<｜tool▁sep｜>f\\n```json\\n{…}\\n``` in each call    V3, R1
glm         <tool_call>f\\n<arg_key>x</arg_key>\\n<arg_value>1</arg_value>\\n</tool_call>     GLM-4.5; GLM-4.7 without \\n
harmony     <|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>    gpt-oss
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from ...errors import UnsupportedConstraint
from ..calls.tools import Tool, read_tools
from ..constraint import Constraint, literal
from ..json.constraint import json_schema
from ..narrowing import OnNarrowed, check_choice
from ..words.free_text import free
from .parameters import parameters
from .tags import choice as one_of
from .tags import closed, dispatched, in_a_row, sections, tag
from .xml_styles import GLM, QWEN, Parameters


class Family(NamedTuple):
    """The format of calls: ``begin`` (with the name as ``{name}``), the arguments, ``end``.

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

    def call(self, tool: Tool, on_narrowed: OnNarrowed) -> Constraint:
        """Return the constraint of a call of one tool, without the opening."""
        schema = tool.schema()
        if self.style is None:
            arguments = json_schema(schema, numbers="plain", on_narrowed=on_narrowed)
        else:
            arguments = parameters(schema, self.style, f"tools/{tool.name}", on_narrowed)
        name = json.dumps(tool.name)[1:-1] if '"' in self.begin else tool.name
        begin = self.begin.replace("{name}", name)
        return closed(literal(begin) + arguments, [self.end])


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
    "glm": Family("<tool_call>", "<tool_call>{name}", "</tool_call>", between="\n", style=GLM),
}


def tool_calls(
    tools: Any,
    family: str,
    *,
    choice: Literal["auto", "required"] = "auto",
    parallel: bool = True,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the answers of a language model that may call tools, in the format of its family.

    Args:
        tools: as for :func:`~tractile.constraints.function_calls`.
        family: "hermes", "qwen_xml", "llama", "mistral", "mistral_v3", "deepseek", "deepseek_v3", "glm" or "harmony".
        choice: "auto": free text, in which calls may stand; "required": calls and nothing else.
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
    if choice not in ("auto", "required"):
        raise UnsupportedConstraint(f"choice is 'auto' or 'required', not {choice!r}", path="choice")
    if family != "harmony" and family not in FAMILIES:
        names = ", ".join([*FAMILIES, "harmony"])
        raise UnsupportedConstraint(f"the family {family!r} is not known; there are {names}", path="family")
    read = read_tools(tools, tuples=False)
    if family == "harmony":
        return harmony(read, choice, parallel, on_narrowed)
    style = FAMILIES[family]
    calls = one_of([style.call(tool, on_narrowed) for tool in read])
    block = closed(in_a_row(calls, style.between, True, parallel), [style.closing])
    if choice == "required":
        return sections(style.opening, block) if style.opening else block
    if style.opening:
        return dispatched({style.opening: block}, loop=False, without=[], ends=None)
    rest = [style._replace(begin=style.begin[len(style.trigger) :]).call(tool, on_narrowed) for tool in read]
    return dispatched({style.trigger: one_of(rest)}, loop=parallel, without=[], ends=None)


def harmony(tools: list[Tool], asked: str, parallel: bool, on_narrowed: OnNarrowed) -> Constraint:
    """Accept the channels of gpt-oss after ``<|start|>assistant``: analysis, then a final text or calls."""
    header = "<|start|>assistant"
    analysis = tag("<|channel|>analysis<|message|>", None, "<|end|>") + literal(header)
    style = Family("", "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>", "<|call|>")
    calls = one_of([style.call(tool, on_narrowed) for tool in tools])
    answer = in_a_row(calls, header, True, parallel)
    if asked == "auto":
        marks = ("<|end|>", "<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
        answer = answer | sections("<|channel|>final<|message|>", free(without=marks))
    return analysis.repeat(0) + answer
