"""Structural tags in the format of XGrammar, vLLM and SGLang: a JSON tree of formats → a constraint.

    {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<function="], "tags": [
        {"type": "tag", "begin": "<function=f>", "content": {"type": "json_schema", "json_schema": {…}}, "end":
        "</function>"}]}}

If the content of a tag ends in free text, the first occurrence of one of the tag's end strings ends that free text.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from functools import partialmethod, reduce
from typing import Any, Literal

from ...errors import FormatError, UnsupportedConstraint
from .. import limits, validation
from ..constraint import Constraint
from ..grammar.constraint import grammar
from ..json.text import MOST_BLANK, Space
from ..narrowing import OnNarrowed, check_choice
from ..regex.constraint import regex
from ..words.free_text import strings, until_first, without_any
from ..words.literals import literal
from .schemas import schema_values
from .tags import Tag, check_triggers, choice, closed, dispatched, grouped, in_a_row
from .token_names import TokenNames, get
from .xml_styles import STYLES, ParameterStyle

Ends = list[str] | None
"""The strings whose first occurrence ends a format; the format includes that string.

None: nothing ends it.
"""
FORMATS = (
    "const_string", "regex", "grammar", "json_schema", "qwen_xml_parameter", "any_text", "sequence", "or", "optional", "plus",
    "star", "repeat", "tag", "tags_with_separator", "triggered_tags", "dispatch", "token", "exclude_token", "any_tokens",
    "token_triggered_tags", "token_dispatch",
)  # fmt: skip

FREE_TEXT = "any_text", "any_tokens"
"""The formats that apply ``max_tokens`` themselves: the string that ends them is no part of their budget."""
LEAVES = "const_string", "regex", "grammar", "json_schema", "qwen_xml_parameter", "token", "exclude_token"
"""The formats that a string only follows."""


def structural_tag(
    spec: Mapping[str, Any] | str,
    *,
    tokens: Mapping[int, str] | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the texts of a structural tag: a dict or JSON text, as in XGrammar 0.2 or in vLLM's older form.

    Objects have no members but those that their schema names, in declared order unless ``any_order``. ``max_tokens`` of any
    format is the token budget of its part. A format of single tokens (``token``, ``any_tokens``, …) stands for the texts of the
    tokens: give the vocabulary those of special tokens (:meth:`~.Vocabulary.with_special`). A number that is not in ``tokens``
    names a special token without a text.

    Args:
        tokens: the texts of the tokens that the formats name by number.

    Raises ``FormatError`` for what is not a structural tag, ``UnsupportedConstraint`` with the path of what is not supported.

    Examples
    --------
    >>> import tractile as tt
    >>> content = {"type": "regex", "pattern": "[0-9]"}
    >>> tag = {"type": "tag", "begin": "<n>", "content": content, "end": "</n>"}
    >>> spec = {"type": "structural_tag", "format": tag}
    >>> found = tt.constraints.structural_tag(spec)
    >>> found.accepts("<n>7</n>"), found.accepts("<n>x</n>")
    (True, False)
    """
    check_choice(on_narrowed)
    try:
        spec = json.loads(spec.removeprefix("\ufeff")) if isinstance(spec, str) else spec
    except ValueError as error:
        raise FormatError(f"the structural tag is not JSON: {error}") from None
    if not isinstance(spec, Mapping):
        raise FormatError(f"a structural tag is an object, not {spec!r:.60}")
    if "structures" in spec:
        tags = [
            {"type": "tag", "begin": get(each, "begin", f"structures/{i}"), "end": get(each, "end", f"structures/{i}"),
             "content": {"type": "json_schema", "json_schema": each.get("schema", True)}}
            for i, each in enumerate(get(spec, "structures", ""))
        ]  # fmt: skip
        spec = {"type": "triggered_tags", "triggers": get(spec, "triggers", ""), "tags": tags}
    inner = spec.get("format") if spec.get("type") == "structural_tag" else spec
    reader = FormatReader(on_narrowed, validation.token_texts(tokens))
    found = reader.read(inner, "format", None)
    if reader.unnamed:  # again, as free text must not contain what stands for these tokens
        found = reader.read(inner, "format", None) + reader.names()
    return found


class FormatReader(TokenNames):
    """A recursive translator of formats to constraints.

    Each method takes a format, its path, and the strings that end it.
    """

    def __init__(self, on_narrowed: OnNarrowed, tokens: Mapping[int, str]) -> None:
        super().__init__(tokens)
        self.on_narrowed = on_narrowed

    def read(self, spec: Any, path: str, ends: Ends) -> Constraint:
        """Return the constraint of a format, by its ``type``. Raises ``FormatError`` for a type that is not known."""
        kind = get(spec, "type", path)
        if not isinstance(kind, str) or kind not in FORMATS:
            raise FormatError(f"{path}: {kind!r} is no format of a structural tag")
        method: Callable[[Any, str, Ends], Constraint] = getattr(self, f"_{kind}")
        most = spec.get("max_tokens")
        if most is None or kind in FREE_TEXT:
            return method(spec, path, ends)
        if ends is not None and kind not in LEAVES:
            why = f"'max_tokens' goes with free text, and within a tag with {', '.join(LEAVES)}; give it to a part of this one"
            raise UnsupportedConstraint(why, path=f"{path}/max_tokens")
        found = method(spec, path, None)
        return closed(found.tokens(at_most=validation.count(most, f"{path}/max_tokens")), ends)

    def _const_string(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return closed(literal(get(spec, "value", path)), ends)

    def _regex(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return closed(regex(get(spec, "pattern", path), re.ASCII | re.DOTALL), ends)

    def _grammar(self, spec: Any, path: str, ends: Ends) -> Constraint:
        text = get(spec, "grammar", path) + "\n"  # never the path of a file
        syntax: Literal["gbnf", "lark"] = "gbnf" if "::=" in text else "lark"
        return closed(grammar(text, syntax=syntax, on_narrowed=self.on_narrowed), ends)

    def _json_schema(self, spec: Any, path: str, ends: Ends) -> Constraint:
        schema, style = get(spec, "json_schema", path), spec.get("style", "json")
        without = strings(spec.get("excludes", ()), f"{path}/excludes", least=0)
        most = self.count(spec, "max_whitespace_cnt", path, MOST_BLANK)
        written: ParameterStyle | Space = "flexible" if most is None else most
        if isinstance(style, str) and style in STYLES:
            written = STYLES[style].relaxed(most)
        elif style != "json":
            raise UnsupportedConstraint(f"the style {style!r} is not supported", path=f"{path}/style")
        place, told, any_order = f"{path}/json_schema", self.on_narrowed, bool(spec.get("any_order", False))
        found = schema_values(
            schema, written, path=place, without=without, any_order=any_order, on_narrowed=told
        )
        return closed(found, ends)

    def count(self, spec: Any, key: str, path: str, most: int = limits.COUNT) -> int | None:
        """Return a number that a format may have."""
        return None if spec.get(key) is None else validation.count(spec[key], f"{path}/{key}", 0, most)

    def _qwen_xml_parameter(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return self._json_schema({**spec, "style": "qwen_xml"}, path, ends)

    def _any_text(self, spec: Any, path: str, ends: Ends) -> Constraint:
        bad = self.banned(spec, path)
        most = self.count(spec, "max_chars", path)
        budget = spec.get("max_tokens")
        stops = self.stops(ends, path)
        text = without_any([*bad, *stops], most)
        text = text if budget is None else text.tokens(at_most=budget)
        if not stops:
            return text
        ended = until_first(stops, stops, bad, most, budget)
        return ended | text if ends and "" in ends else ended

    def _sequence(self, spec: Any, path: str, ends: Ends) -> Constraint:
        elements = get(spec, "elements", path)
        found = [
            self.read(each, f"{path}/elements/{i}", ends if i == len(elements) - 1 else None)
            for i, each in enumerate(elements)
        ]
        return reduce(operator.add, found) if found else closed(literal(""), ends)

    def _or(self, spec: Any, path: str, ends: Ends) -> Constraint:
        options = get(spec, "elements", path)
        return choice([self.read(each, f"{path}/elements/{i}", ends) for i, each in enumerate(options)])

    def _optional(self, spec: Any, path: str, ends: Ends) -> Constraint:
        content = self.read(get(spec, "content", path), f"{path}/content", ends)
        return content | closed(literal(""), ends)

    def _repeat(self, spec: Any, path: str, ends: Ends) -> Constraint:
        most = get(spec, "max", path)
        return self._times(spec, path, ends, get(spec, "min", path), None if most == -1 else most)

    def _times(self, spec: Any, path: str, ends: Ends, low: int, high: int | None) -> Constraint:
        return closed(self.read(get(spec, "content", path), f"{path}/content", None).repeat(low, high), ends)

    _star = partialmethod(_times, low=0, high=None)
    _plus = partialmethod(_times, low=1, high=None)

    def _tag(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return closed(self.tag(spec, path).after(), ends)

    def tag(self, spec: Any, path: str) -> Tag:
        """Translate a tag; its end is a part of its content."""
        begin, end = self.mark(spec, "begin", path), self.mark(spec, "end", path)
        stops: list[str] = [end] if isinstance(end, str) else list(end)
        if not isinstance(begin, str) or not all(isinstance(stop, str) for stop in stops) or not stops:
            why = f"begin is a text, and end a text or several, not {begin!r:.60} and {end!r:.60}"
            raise FormatError(f"{path}: {why}")
        return Tag(begin, self.read(get(spec, "content", path), f"{path}/content", stops))

    def tags(self, spec: Any, path: str) -> list[Tag]:
        """Translate the tags of a format."""
        return [self.tag(each, f"{path}/tags/{i}") for i, each in enumerate(get(spec, "tags", path))]

    def _tags_with_separator(self, spec: Any, path: str, ends: Ends) -> Constraint:
        one = choice([tag.after() for tag in self.tags(spec, path)])
        several, least = not spec.get("stop_after_first", False), spec.get("at_least_one", False)
        return closed(in_a_row(one, get(spec, "separator", path), least, several), ends)

    def _triggered_tags(self, spec: Any, path: str, ends: Ends) -> Constraint:
        by_token = spec["type"] == "token_triggered_tags"
        for i, each in enumerate(get(spec, "tags", path)):
            if isinstance(get(each, "begin", f"{path}/tags/{i}", object), Mapping) != by_token:
                what = "a token" if by_token else "a text"
                raise FormatError(f"{path}/tags/{i}/begin: {each['begin']!r:.60} is not {what}")
        tags = self.tags(spec, path)
        rules = grouped(tags, strings(get(spec, "triggers", path), f"{path}/triggers"))
        first = choice([tag.after() for tag in tags]) if spec.get("at_least_one", False) else None
        loop = not spec.get("stop_after_first", False)
        return self.dispatched(rules, loop, spec, path, ends, first)

    def _dispatch(self, spec: Any, path: str, ends: Ends) -> Constraint:
        rules: dict[str, Constraint] = {}
        for i, rule in enumerate(get(spec, "rules", path)):
            match rule:
                case [str(pattern), inner] if pattern:
                    content = self.read(inner, f"{path}/rules/{i}", None)
                    rules[pattern] = rules[pattern] | content if pattern in rules else content
                case _:
                    raise FormatError(f"{path}/rules/{i}: {rule!r:.60} is no pair of a text and a format")
        check_triggers(rules)
        return closed(self.dispatched(rules, spec.get("loop", True), spec, path, None, None), ends)

    # ------------------------------------------------------------ formats of single tokens, by their texts

    def _token(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return closed(literal(self.text(get(spec, "token", path), f"{path}/token")), ends)

    def _exclude_token(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return closed(without_any(self.excluded(spec, path)).tokens(at_least=1, at_most=1), ends)

    def _any_tokens(self, spec: Any, path: str, ends: Ends) -> Constraint:
        return self._any_text({**spec, "excludes": self.excluded(spec, path)}, path, ends)

    def _token_triggered_tags(self, spec: Any, path: str, ends: Ends) -> Constraint:
        named = get(spec, "trigger_tokens", path)
        triggers = [self.text(token, f"{path}/trigger_tokens") for token in named]
        asked = {**spec, "triggers": triggers, "excludes": self.excluded(spec, path)}
        return self._triggered_tags(asked, path, ends)

    def _token_dispatch(self, spec: Any, path: str, ends: Ends) -> Constraint:
        rules = list(get(spec, "rules", path))
        for i, rule in enumerate(rules):
            if isinstance(rule, list | tuple) and rule:
                rules[i] = [self.text(rule[0], f"{path}/rules/{i}"), *rule[1:]]
        return self._dispatch({**spec, "rules": rules, "excludes": self.excluded(spec, path)}, path, ends)

    def dispatched(
        self,
        rules: Mapping[str, Constraint],
        loop: bool,
        spec: Any,
        path: str,
        ends: Ends,
        first: Constraint | None,
    ) -> Constraint:
        """Return free text in which each pattern starts its content; ``first`` replaces its beginning."""
        stops, bad = self.stops(ends, path), self.banned(spec, path)
        for pattern in rules:
            if inner := next((each for each in bad if each in pattern), None):
                why = f"{inner!r} occurs in {pattern!r}, which could never come: leave out one of them"
                raise UnsupportedConstraint(why, path=f"{path}/excludes")
        ended = dispatched(rules, loop=loop, without=bad, ends=stops, first=first)
        if not stops or "" not in (ends or []):
            return ended
        return ended | dispatched(rules, loop=loop, without=[*bad, *stops], ends=None, first=first)

    def stops(self, ends: Ends, path: str) -> list[str]:
        """Return the strings that end free text. Raises ``UnsupportedConstraint`` if it is in a tag without an end."""
        if ends == [""]:
            raise UnsupportedConstraint("nothing ends this free text: its tag needs an end", path=path)
        return [end for end in ends or [] if end]
