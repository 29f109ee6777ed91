"""Rewrite llguidance's dialect of Lark grammars to Lark's own format.

An extension that Lark lacks becomes a declared terminal without a pattern; :class:`Extensions` says what the terminal stands
for. These are ``%json {…}``, ``%lark {…}``, ``%regex {…}``, tokens other than some, terminals with ``&`` and ``~``, and rules
with ``[lazy]``, ``[suffix=…]`` or ``[stop=…]``. ``x{n,m}`` becomes ``x~n..m``, and
``-`` in names is encoded. ``[max_tokens=…]`` is left out of the text.
Lines keep their numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..narrowing import Narrowing
from .statements import (
    PLAIN,
    Head,
    Token,
    counts,
    head_of,
    is_terminal,
    name_of,
    refused,
    repeats,
    special_terminals,
    statements,
    tokens,
)
from .token_references import excludes, lost, narrowings, other_tokens, referred
from .tree import Text

SIGNS = re.compile(
    r"""%(?:json|regex|lark|llguidance|if)\b|::|&|\{\s*-?\d*\s*,?\s*-?\d*\s*\}|<[^<>\n]*>|@[a-z]|\w-\w|\"\"|~\s*[^\s\d]|\b_*[a-z]\w*[A-Z]|\b_*[A-Z]\w*[a-z]|\\u\{"""
    r"""|^\s*[?!]*[\w-]+\s*\[""",
    re.MULTILINE,
)
"""A pattern of everything that may be an extension; a grammar without a match is not rewritten."""
CODE = re.compile(r"((?<!\\)(?:\\\\)*)\\u\{([0-9a-fA-F]{1,6})\}")
INLINE = 20  # most repetitions that stay a repeat of Lark's own
HARMLESS = {"capture", "stop_capture", "temperature"}
SAMPLING_OPTIONS = {"no_forcing"}
PARAMETERS = (
    "rules with a parameter (rule::_, %if) are not read: write a rule for each value of the parameter"
)


@dataclass
class Lazy:
    """A rule with ``[lazy]``, ``[suffix=…]`` or ``[stop=…]``: the tokens of its body and of the suffix."""

    body: list[Token]
    suffix: list[Token] | None


@dataclass
class Extensions:
    """The rewritten grammar, and what its declared terminals stand for, by name."""

    text: str
    schemas: dict[str, tuple[Any, int]] = field(default_factory=dict)
    regexes: dict[str, tuple[Any, int]] = field(default_factory=dict)
    grammars: dict[str, str] = field(default_factory=dict)
    terminals: dict[str, list[Token]] = field(default_factory=dict)
    lazy: dict[str, Lazy] = field(default_factory=dict)
    repeats: dict[str, tuple[str, int, int | None]] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)  # the most tokens of a rule
    others: dict[str, Text] = field(default_factory=dict)  # tokens other than those named
    kept: list[str] = field(default_factory=list)  # rules that only declared terminals call
    narrowed: list[Narrowing] = field(default_factory=list)


def extended(text: str, tokens: Mapping[int, str]) -> Extensions:
    """Return the grammar in Lark's own format, with the meanings of its declared terminals."""
    if not SIGNS.search(text):
        return Extensions(text)
    rewriter = Rewriter(text, tokens)
    return rewriter.extensions if rewriter.changed else Extensions(text)


class Rewriter:
    """A translator of one grammar, statement by statement."""

    def __init__(self, text: str, texts: Mapping[int, str]) -> None:
        self.extensions, self.texts = Extensions(""), texts
        self.added: list[str] = []
        self.changed = False
        self.names = {token.text for token in tokens(text) if token.kind == "NAME"}
        self.statements = list(statements(text))
        heads = [head_of(body) for body in self.statements]
        self.special = special_terminals(
            [(h.name, body[h.length :]) for h, body in zip(heads, self.statements, strict=True) if h]
        )
        lines: dict[int, str] = {}
        for head, body in zip(heads, self.statements, strict=True):
            if body:
                lines[body[0].line] = self.statement(head, body)
        last = max(lines, default=0)
        shown = [lines.get(i, "") for i in range(1, last + 1)]
        declared = [*self.extensions.schemas, *self.extensions.regexes, *self.extensions.terminals]
        declared += [*self.extensions.lazy, *self.extensions.repeats]
        declared += [*self.extensions.others, *self.extensions.grammars]
        if declared:
            self.added.append("%declare " + " ".join(declared))
        self.extensions.text = "\n".join([*shown, *self.added]) + "\n"

    def fresh(self, kind: str) -> str:
        """Return a new name that the grammar does not use."""
        self.changed = True
        i = len(self.names)
        while (name := f"{kind}_{i}") in self.names:
            i += 1
        self.names.add(name)
        return name

    def named(self, name: str) -> str:
        """Return a rule's or terminal's name in Lark's format."""
        self.changed |= PLAIN.fullmatch(name) is None
        return name_of(name)

    def statement(self, head: Head | None, body: list[Token]) -> str:
        """Return a statement in Lark's own format.

        ``head``: the name that it defines, None for a directive such as ``%ignore``.
        """
        first = body[0]
        if head is None:
            if first.text == "%llguidance":
                self.changed = True
                options = first.value if isinstance(first.value, dict) else {"": first.value}
                for name, value in options.items():
                    if name not in SAMPLING_OPTIONS or not isinstance(value, bool):
                        raise refused(f"{name}: {value!r} of %llguidance is not supported", first)
                return ""
            return self.body(body)
        rest = body[head.length :]
        if head.name in self.special:
            self.changed = True
            self.extensions.terminals[name_of(head.name)] = rest
            return ""
        self.changed |= bool(head.attributes)
        if "::" in head.more:
            raise refused(PARAMETERS, first)
        if head.attributes and is_terminal(head.name):
            raise refused(f"the terminal {head.name!r} has attributes: give them to a rule", first)
        lazy = {"lazy", "suffix", "stop"} & head.attributes.keys()
        unknown = head.attributes.keys() - HARMLESS - {"lazy", "suffix", "stop", "max_tokens"}
        if unknown:
            raise refused(f"the attribute {min(unknown)!r} of {head.name!r} is not supported", first)
        if "max_tokens" in head.attributes:
            most = "".join(token.text for token in head.attributes["max_tokens"])
            if not most.isdecimal():
                raise refused(f"max_tokens of {head.name!r} is a number of tokens, not {most!r}", first)
            self.extensions.budgets[name_of(head.name)] = int(most)
        start = f"{head.modifiers}{self.named(head.name)}{head.more}: "
        if lazy:
            suffix = head.attributes.get("suffix") or head.attributes.get("stop")
            if suffix and suffix[0].text == '""':
                suffix = None
            if (
                lazy == {"stop"} and suffix is None
            ):  # only the model's end token ends the rule: it is an ordinary rule
                return start + self.body(rest)
            name = self.fresh("LAZY")
            self.extensions.lazy[name] = Lazy(rest, suffix)
            return start + name
        return start + self.body(rest, not is_terminal(head.name))

    def body(self, body: Sequence[Token], rule: bool = True) -> str:
        """Rewrite the right side of a rule or terminal."""
        found: list[str] = []  # pieces, each an atom or an operator
        i = 0
        while i < len(body):
            token = body[i]
            i += 1
            kind, text = token.kind, token.text
            if text in ("::", "%if"):
                raise refused(PARAMETERS, token)
            if not rule and (text in ("%json", "%lark") or kind in ("TOKEN", "GRAMMAR")):
                raise refused(f"{text} cannot stand in a terminal", token)
            if kind == "DIRECTIVE" and text == "%json":
                name = self.fresh("JSON")
                self.extensions.schemas[name] = token.value, token.line
                found.append(name)
            elif kind == "DIRECTIVE" and text == "%lark":
                name = self.fresh("GRAMMAR")
                self.extensions.grammars[name] = token.value
                found.append(name)
            elif kind == "DIRECTIVE" and text == "%regex":
                name = self.fresh("REGEX")
                self.extensions.regexes[name] = (token.value, token.line)
                found.append(name)
            elif kind == "NAME":
                found.append(self.named(text))
            elif kind == "REGEXP" and "\\u{" in text:
                self.changed = True
                found.append(CODE.sub(lambda m: m[1] + f"\\U{int(m[2], 16):08x}", text))
            elif text == '""' and rule:
                self.changed = True
                found.append("()")
            elif kind == "COUNT":
                self.changed = True
                self.repeat(found, token, rule)
            elif kind == "TOKEN" and excludes(text):
                texts, name = referred(text, self.texts, token.line), self.fresh("OTHERS")
                low, high, i = repeats(body, i)
                self.extensions.others[name] = other_tokens(texts, low, high)
                self.extensions.narrowed += lost(texts, token.line)
                found.append(name)
            elif kind == "TOKEN":
                self.changed = True
                texts = referred(text, self.texts, token.line)
                self.extensions.narrowed += narrowings(texts, token.line)
                found.append(f"( {' | '.join(map(quoted, texts))} )")
            elif kind == "GRAMMAR":
                raise refused(f"{text} refers to another grammar: write its rules in %lark {{…}}", token)
            else:
                found.append(text)
        return " ".join(found)

    def repeat(self, found: list[str], token: Token, rule: bool) -> None:
        """Replace the last atom of ``found`` by its repeat."""
        low, high = counts(token)
        begin, depth = len(found) - 1, 0
        if begin < 0:
            raise refused("a repeat of nothing", token)
        while begin:
            depth += (found[begin] in (")", "]")) - (found[begin] in ("(", "["))
            if depth <= 0:
                break
            begin -= 1
        if begin >= 2 and found[begin - 1] == "..":
            begin -= 2
        atom = " ".join(found[begin:])
        if max(low, high or 0) <= INLINE or not rule:
            if high is not None:
                more = f"{atom}~{low}..{high}" if high else ""
            else:
                more = f"( {atom}~{low} {atom}* )" if low else f"{atom}*"
        else:
            once, more = self.fresh("repeated"), self.fresh("REPEAT")
            self.added.append(f"{once}: {atom}")
            self.extensions.kept.append(once)
            self.extensions.repeats[more] = once, low, high
        found[begin:] = [more]


def quoted(text: str) -> str:
    """Return a text as a string literal of Lark."""
    return json.dumps(text, ensure_ascii=False)
