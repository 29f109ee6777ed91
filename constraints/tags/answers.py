"""Read the answers of language models that may call tools: the text, and the calls as values.

Sure.<tool_call>\\n{"name": "f", "arguments": {"x": 1}}\\n</tool_call>  →  Answer("Sure.", (Call("f", {"x": 1}),))
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import FormatError
from ..calls.python_tools import Call, call_maker
from ..calls.tools import Tool
from .xml_reader import XmlReader

if TYPE_CHECKING:
    from .families import Family


class Answer(NamedTuple):
    """The answer of a language model that may call tools.

    ``text``: the text without the calls, their markers, and what separates two calls. ``calls``: in order of appearance.
    ``reasoning``: the reasoning, if the format has a channel for it (gpt-oss), else empty.

    Examples
    --------
    >>> import tractile as tt
    >>> def add(a: int, b: int) -> int:
    ...     return a + b
    >>> calls = tt.constraints.output_type(tt.constraints.tool_calls([add], "hermes"))
    >>> answer = calls.parse('Sure.<tool_call>\\n{"name": "add", "arguments": {"a": 1, "b": 2}}\\n</tool_call>')
    >>> answer.text, answer.calls[0].name, answer.calls[0]()
    ('Sure.', 'add', 3)
    """

    text: str
    calls: tuple[Call, ...] = ()
    reasoning: str = ""


class AnswerReader:
    """A reader of answers in the format of a family. Raises ``FormatError`` for what does not have it.

    ``given``: the tools as the user gave them, functions and classes to be called; ``tools``: as they were read.
    """

    def __init__(self, given: Any, tools: Sequence[Tool], family: Family) -> None:
        self.family, self.tools = family, {tool.name: tool for tool in tools}
        self.made = call_maker(given)
        head, _, rest = family.call.partition("{name}")
        middle, _, self.tail = rest.partition("{arguments}")
        in_json = '{"name": "' in family.call
        names = {(json.dumps(name)[1:-1] if in_json else name): name for name in self.tools}
        self.names = names
        longest = sorted(names, key=len, reverse=True)
        self.head = re.compile(f"{template(head)}({'|'.join(map(re.escape, longest))}){template(middle)}")
        self.after = re.compile(template(self.tail))

    def __call__(self, text: str) -> Answer:
        """Return the answer of a text."""
        family, at, free, calls = self.family, 0, "", list[Call]()
        while (begin := text.find(family.trigger, at)) >= 0:
            between = text[at:begin]
            free += "" if calls and between == family.between else between
            at = begin
            if family.around is not None:
                at += len(family.trigger) + len(family.around[0])
            call, at = self.call(text, at)
            calls.append(call)
            while family.around is not None and not text.startswith(family.around[1], at):
                call, at = self.call(text, at + len(family.between))
                calls.append(call)
            at += 0 if family.around is None else len(family.around[1])
        return Answer(free + text[at:], tuple(calls))

    def call(self, text: str, at: int) -> tuple[Call, int]:
        """Return the call that stands at a position, and where it ends."""
        begun = self.head.match(text, at)
        if begun is None:
            raise FormatError(f"{text[at:][:60]!r} is no call of {', '.join(self.tools)}")
        tool = self.tools[self.names[begun[1]]]
        arguments, at = self.arguments(text, begun.end(), tool)
        ended = self.after.match(text, at)
        if ended is None:
            raise FormatError(f"{text[at:][:60]!r} does not end a call of {tool.name}")
        return self.made(tool.name, arguments), ended.end()

    def arguments(self, text: str, at: int, tool: Tool) -> tuple[dict[str, Any], int]:
        """Return the arguments of a tool that stand at a position, and where they end."""
        if self.family.style is not None:
            found, at = XmlReader(self.family.style, tool.schema()).members(text, at, tool.schema())
            blank = re.compile(r"[ \n\r\t]*").match(text, at)
            last = len(text) if blank is None else blank.end()
            return found, next((i for i in range(at, last + 1) if self.after.match(text, i)), at)
        try:
            value, at = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"the arguments of {tool.name} cannot be read as JSON: {error}") from None
        return value, at


class HarmonyReader:
    """A reader of the channels of gpt-oss: analysis, a preamble, a final text or calls. ``written``: the formats of a call."""

    def __init__(self, given: Any, tools: Sequence[Tool], written: Sequence[Family]) -> None:
        self.readers = [AnswerReader(given, tools, each) for each in written]

    def __call__(self, text: str) -> Answer:
        """Return the answer of a text."""
        at, reasoning, said, calls = 0, list[str](), list[str](), list[Call]()
        while at < len(text):
            if message := MESSAGE.match(text, at):
                (reasoning if message["channel"] == "analysis" else said).append(message["content"])
                at = message.end()
                continue
            reader = next((each for each in self.readers if each.head.match(text, at)), self.readers[0])
            call, at = reader.call(text, at)
            calls.append(call)
            at += len(START) * text.startswith(START, at)
        return Answer("\n".join(said), tuple(calls), "\n".join(reasoning))


START = "<|start|>assistant"
MESSAGE = re.compile(
    r"<\|channel\|>(?P<channel>analysis|commentary|final)<\|message\|>(?P<content>.*?)(?:<\|end\|><\|start\|>assistant|\Z)",
    re.DOTALL,
)
"""A message of gpt-oss that is no call."""


def template(text: str) -> str:
    """Return the pattern of a text in which ``{number}`` stands for any number."""
    return re.escape(text).replace(re.escape("{number}"), "[0-9]+")
