"""Python types as output formats: a constraint, and a parser from text to value."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, Flag
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from ..circuits.automaton import Automaton
from ..errors import FormatError
from . import validation
from .calls.formats import holds_tools, is_tool_alone
from .calls.functions import function_calls
from .calls.python_tools import call_reader, is_tool
from .constraint import Constraint
from .json.constraint import json_schema
from .json.python_types import is_type, reader, type_name
from .regex.constraint import regex
from .validation import short
from .words.free_text import free
from .words.literals import any_of

T = TypeVar("T")


@dataclass(frozen=True)
class OutputType(Generic[T]):
    """A constraint with a parser for its texts.

    ``parse`` raises ``FormatError`` if the type's validator refuses a text. Samplers and the logits processor take an output type
    in place of its constraint; only ``parse`` runs validators then. ``json``: whether texts are JSON; a stream shows what of it
    is complete (:class:`.Part`); ``after``: the text that ends the reasoning before it, "" for none.

    Examples
    --------
    >>> import tractile as tt
    >>> found = tt.constraints.OutputType(tt.constraints.regex("[0-9]+"), int)
    >>> found.constraint.accepts("12"), found.parse("12")
    (True, 12)
    """

    constraint: Constraint
    parse: Callable[[str], T]
    json: bool = True
    after: str = ""

    def json_of(self, text: str) -> str | None:
        """Return the JSON of a text that may be unfinished, None if there is none yet."""
        _, found, rest = text.partition(self.after) if self.after else ("", "", text)
        return rest if self.json and len(found) == len(self.after) else None

    def compiled_for(self, vocab: Any, eos_token_id: int | None = None, size: int | None = None) -> Automaton:
        """Return the constraint compiled for a vocabulary or tokenizer: :meth:`.Constraint.compiled_for`."""
        return self.constraint.compiled_for(vocab, eos_token_id, size)

    def accepts(self, text: str) -> bool:
        """Return whether ``parse`` succeeds on a text that satisfies the constraint."""
        try:
            self.parse(text)
        except FormatError:
            return False
        return True


def output_type(
    output: Any,
    *,
    strict: bool = False,
    order: Literal["auto", "declared", "any"] | None = None,
    whitespace: Literal["none", "space", "flexible"] = "space",
    max_whitespace: int | None = None,
    documents: Mapping[str, Any] | None = None,
    thinking: str | None = None,
) -> OutputType[Any]:
    """Return the constraint for a Python type, with a parser for its texts.

    ===============================================  ====================================  =========================
    ``output``                                       text                                  value
    ===============================================  ====================================  =========================
    ``str``                                          any                                   the text
    ``Literal["a", "b"]``, an ``Enum``               ``a`` or ``b``, without quotes        the literal or the member
    any other type: a Pydantic model, a dataclass,   JSON of its schema; classes are       an object of the type
    ``TypedDict``, ``int``, ``list[T]``, ``A | B``   closed, integers have no point
    a function, a list of functions and classes      the JSON call of one                  a :class:`Call`
    a list of tools as dicts, or a dict that holds   the JSON call of one                  a :class:`Call`
    tools, as MCP's and Gemini's do
    ``re.compile(…)``                                a full match of the pattern           the text
    ``re.compile(…)`` with named groups              a full match of the pattern           what they capture, a dict
    a JSON Schema,                                   JSON of the schema; integers          dicts, lists, numbers, …
    given as a dict                                  have no point
    :func:`tool_calls` of a model's family           the calls in its format, beside text  an :class:`Answer`
    another :class:`Constraint`                      what it accepts                       the text, or its captures
    ===============================================  ====================================  =========================

    A type may refuse what its JSON Schema allows, by a validator for example; ``parse`` and ``accepts`` say so, and
    :func:`.generate` gives such texts weight zero. The constraint's ``narrowed`` names the validators. Each type is written as it
    is read: :doc:`/howto/what-we-read` has the texts of all.

    Parameters
    ----------
    output
        The type, as in the table.
    strict
        Whether keywords and formats of a JSON Schema that no draft defines are refused, such as the misspelt ``propertys``.
        Default: they are ignored, with a warning for keywords that look misspelt.
    order
        The order of the members of an object, or of a call's arguments: :func:`json_schema`, :func:`function_calls`. Default: the
        declared one for a type and for a call, any for a JSON Schema.
    whitespace
        The white space between the tokens of JSON: :func:`json_schema`.
    max_whitespace
        The most characters of ``"flexible"`` white space in a row.
    documents
        Other schemas by URI, to which a JSON Schema refers: :func:`json_schema`.
    thinking
        The text that ends the reasoning of a model that reasons first, such as ``"</think>"``, with the white space after it.
        Free text up to its first occurrence then stands before the output, and is no part of the value. Within a budget the
        reasoning ends while the tokens left suffice for the output.

    Raises
    ------
    FormatError
        ``output`` is none of these, Pydantic cannot describe it, or Pydantic is not installed.
    UnsupportedConstraint
        As :func:`json_schema`.

    Examples
    --------
    >>> from typing import Literal
    >>> import tractile as tt
    >>> size = tt.constraints.output_type(Literal["small", "large"])
    >>> size.constraint.accepts("small"), size.parse("small")
    (True, 'small')
    >>> tt.constraints.output_type(list[int]).parse("[1, 2]")
    [1, 2]
    """
    if thinking is not None:
        answer = output_type(
            output,
            strict=strict,
            order=order,
            whitespace=whitespace,
            max_whitespace=max_whitespace,
            documents=documents,
        )
        end = validation.check_text(thinking, "thinking")
        parse, json = partial(read_after, end, answer.parse), answer.json and not answer.after
        return OutputType(free(until=end) + answer.constraint, parse, json, end)
    if isinstance(output, OutputType):
        return output
    if isinstance(output, Constraint):
        return OutputType(output, output.reader or str, json=output.reader is None)
    if isinstance(output, re.Pattern):
        return OutputType(regex(output), partial(captures, output) if output.groupindex else str, False)
    if isinstance(output, Mapping) and not is_tool_alone(output):
        found = json_schema(
            output,
            numbers="plain",
            strict=strict,
            order=order or "auto",
            whitespace=whitespace,
            max_whitespace=max_whitespace,
            documents=documents,
        )
        return OutputType(found, read_json)
    if output is str:
        return OutputType(regex(".*", re.DOTALL), str, json=False)
    if is_type(output):
        choices = choices_of(output)
        if choices:
            return OutputType(any_of(*choices), partial(chosen, choices), json=False)
        found = json_schema(
            output, order=order or "auto", whitespace=whitespace, max_whitespace=max_whitespace
        )
        return OutputType(found, reader(output))
    tools = output if isinstance(output, list | tuple) else [output]
    other = [i for i, tool in enumerate(tools) if not (is_tool(tool) or names_tool(tool))]
    if tools and not other:
        arguments: Literal["declared", "any"] = "any" if order in ("any", "auto") else "declared"
        calls = function_calls(tools, order=arguments, whitespace=whitespace, max_whitespace=max_whitespace)
        return OutputType(calls, call_reader(tools))
    if other and isinstance(output, list | tuple):
        raise FormatError(
            f"output[{other[0]}] is {short(output[other[0]])}, which names no tool; a list has functions, classes and dicts with "
            "a name; for one output for each prompt, tt.generate takes a list of prompts too"
        )
    raise FormatError(
        f"output is {short(output)}; give a type, functions, re.compile(…), a JSON Schema as a dict (json.loads) or a constraint"
    )


def captures(pattern: re.Pattern[str], text: str) -> dict[str, str | None]:
    """Return what the named groups of a pattern capture of a text. Raise ``FormatError`` for a text that it does not match."""
    found = pattern.fullmatch(text)
    if found is None:
        raise FormatError(f"{short(text)} is no match of {pattern.pattern!r:.60}")
    return found.groupdict()


def read_after(end: str, parse: Callable[[str], T], text: str) -> T:
    """Return the value of what follows the first occurrence of a text. Raise ``FormatError`` if it does not occur."""
    _, found, answer = text.partition(end)
    if not found:
        raise FormatError(f"{text[-60:]!r} has no {end!r}, which ends the reasoning")
    return parse(answer)


def names_tool(value: Any) -> bool:
    """Return whether a value describes tools to call: a function, a tool as a dict, or a dict that contains tools."""
    return holds_tools(value) or (callable(value) and not is_type(value))


def is_list_of_tools(output: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether a list has a function or a dict that names a tool, and otherwise only these and classes."""
    return any(map(names_tool, output)) and all(names_tool(each) or isinstance(each, type) for each in output)


def outputs_of(output: Any, prompts: int) -> list[Any]:
    """Return the output for each of several prompts: one for all, or a list of one for each.

    A list with a function or with a dict that names a tool, and otherwise only with these and classes, is one output: its tools.
    Raises ``FormatError`` for a list of another length.
    """
    if not isinstance(output, list | tuple):
        return [output] * prompts
    if is_list_of_tools(output):
        return [output] * prompts
    if len(output) != prompts:
        raise FormatError(
            f"output is a list of {len(output)} for {prompts} prompts; give one output for each prompt, or one for all: the "
            "calls of classes are tt.constraints.output_type([…])"
        )
    return list(output)


def read_json(text: str) -> Any:
    """Return the value of a JSON text. Raise ``FormatError`` for what Python does not read, such as very deep nesting."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"Python cannot read {short(text)} as JSON: {error}") from None


def choices_of(described: Any) -> dict[str, Any]:
    """Map the text of each value of a ``Literal`` or ``Enum`` to the value; empty for other types.

    Raises ``FormatError`` if two values have the same text.
    """
    if typing.get_origin(described) is typing.Literal:
        values = [(value, value) for value in typing.get_args(described)]
    elif isinstance(described, type) and issubclass(described, Enum) and not issubclass(described, Flag):
        values = [(member.value, member) for member in described]
    else:
        return {}
    found: dict[str, Any] = {}
    for value, meant in values:
        value = value.value if isinstance(value, Enum) else value
        if not isinstance(value, str | int | float | bool | None):
            raise FormatError(
                f"{type_name(described)} has the value {short(value)}, which is no text, number or boolean"
            )
        text = value if isinstance(value, str) else json.dumps(value)
        if text in found:
            raise FormatError(
                f"two values of {type_name(described)} are written {text!r}; leave one out, or give tt.constraints.any_of(…)"
            )
        found[text] = meant
    return found


def chosen(choices: Mapping[str, Any], text: str) -> Any:
    """Return the value of a text. Raise ``FormatError`` if it has none."""
    if text not in choices:
        raise FormatError(f"{text!r} is none of {', '.join(map(repr, choices))}")
    return choices[text]
