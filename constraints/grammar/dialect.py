"""Lark grammars as llguidance writes them, rewritten to Lark's own format.

What Lark has no word for becomes a terminal that is declared and has no pattern; ``Extensions`` says what it stands for:
``%json {…}``, ``%regex {…}``, terminals with ``&`` and ``~``, rules with ``[lazy]``, ``[suffix=…]`` or ``[stop=…]``, rules with a
parameter (``parameters.py``). ``x{n,m}`` becomes ``x~n..m``, and ``-`` in names ``_``. Lines keep their numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import UnsupportedConstraint
from .parameters import Condition, Step, condition, step

TOKENS = re.compile(
    r"""(?P<COMMENT>[ \t]*(?://|\#)[^\n]*) | (?P<NL>(?:\r?\n)) | (?P<WS>[ \t]+|\\[ ]*\n)
    | (?P<STRING>"(?:\\.|[^"\\\n])*"i?) | (?P<REGEXP>/(?!/)(?:\\.|[^/\\])+/[imslux]*)
    | (?P<DIRECTIVE>%[a-z]+) | (?P<TOKEN><[^<>\n]*>) | (?P<GRAMMAR>@[\w-]+)
    | (?P<NAME>[A-Za-z_]\w*(?:-\w+)*) | (?P<COUNT>\{\s*(?:-?\d+\s*(?:,\s*(?:-?\d+)?\s*)?|,\s*-?\d+\s*)\})
    | (?P<NUMBER>[+-]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?!\.\d|\w))|\d+) | (?P<OP>::|->|\.\.|.)""",
    re.VERBOSE,
)
SIGNS = re.compile(
    r"""%(?:json|regex|lark|llguidance|if)\b|::|&|\{\s*-?\d*\s*,?\s*-?\d*\s*\}|<[^<>\n]*>|@[a-z]|\w-\w|\"\"|~\s*[^\s\d]|\b_*[a-z]\w*[A-Z]|\b_*[A-Z]\w*[a-z]|\\u\{"""
    r"""|^\s*[?!]*[\w-]+\s*\[""",
    re.MULTILINE,
)
"""What may be such an extension; what is none of these is left as it is."""
CODE = re.compile(r"((?<!\\)(?:\\\\)*)\\u\{([0-9a-fA-F]{1,6})\}")
PLAIN = re.compile(r"_?[a-z][_a-z0-9]*|_*[A-Z][_A-Z0-9]*|_\w*")  # names as Lark writes them
INLINE = 20  # repeats of at most so many times stay repeats of Lark's
HARMLESS = {"capture", "stop_capture", "temperature"}
SAMPLING_OPTIONS = {"no_forcing"}


class Token(NamedTuple):
    """A token of a grammar; ``value`` is the JSON of a directive."""

    kind: str
    text: str
    line: int
    value: Any = None


@dataclass
class Lazy:
    """A rule with ``[lazy]``, ``[suffix=…]`` or ``[stop=…]``: the tokens of its body and of the suffix."""

    body: list[Token]
    suffix: list[Token] | None


@dataclass
class Extensions:
    """What declared terminals stand for, by their names."""

    text: str
    schemas: dict[str, tuple[Any, int]] = field(default_factory=dict)
    regexes: dict[str, tuple[Any, int]] = field(default_factory=dict)
    terminals: dict[str, list[Token]] = field(default_factory=dict)
    lazy: dict[str, Lazy] = field(default_factory=dict)
    repeats: dict[str, tuple[str, int, int | None]] = field(default_factory=dict)
    conditions: dict[str, Condition] = field(default_factory=dict)
    steps: dict[str, tuple[str, Step]] = field(default_factory=dict)
    parametric: set[str] = field(default_factory=set)
    kept: list[str] = field(default_factory=list)  # rules that only declared terminals call


def extended(text: str) -> Extensions:
    """The grammar in Lark's own format, and what its declared terminals stand for."""
    if not SIGNS.search(text):
        return Extensions(text)
    rewriter = Rewriter(text)
    return rewriter.extensions if rewriter.changed else Extensions(text)


def refused(what: str, token: Token) -> UnsupportedConstraint:
    """The error for what is written at a token."""
    return UnsupportedConstraint(what, path=f"line {token.line}")


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a grammar; a directive with JSON behind it is one."""
    at, line = 0, 1
    while at < len(text):
        match = TOKENS.match(text, at)
        if match is None:
            raise UnsupportedConstraint(
                f"the grammar cannot be read: {text[at : at + 20]!r}", path=f"line {line}"
            )
        kind, found, value = str(match.lastgroup), match[0], None
        end = match.end()
        if found in ("%json", "%regex", "%llguidance"):
            begin = end + len(text[end:]) - len(text[end:].lstrip())
            try:
                value, end = json.JSONDecoder().raw_decode(text, begin)
            except json.JSONDecodeError as error:
                raise UnsupportedConstraint(
                    f"no JSON follows {found}: {error.msg}", path=f"line {line}"
                ) from None
        yield Token(kind, found, line, value)
        line += text.count("\n", at, end)
        at = end


class Rewriter:
    """Rewrites one grammar, statement by statement."""

    def __init__(self, text: str) -> None:
        self.extensions = Extensions("")
        self.added: list[str] = []
        self.changed = False
        self.names = {token.text for token in tokens(text) if token.kind == "NAME"}
        self.statements = list(statements(text))
        heads = [head_of(body) for body in self.statements]
        self.special = special_terminals(
            [(h.name, body[h.length :]) for h, body in zip(heads, self.statements, strict=True) if h]
        )
        self.extensions.parametric = {h.name for h in heads if h and h.parametric}
        lines: dict[int, str] = {}
        for head, body in zip(heads, self.statements, strict=True):
            if body:
                lines[body[0].line] = self.statement(head, body)
        last = max(lines, default=0)
        shown = [lines.get(i, "") for i in range(1, last + 1)]
        declared = [*self.extensions.schemas, *self.extensions.regexes, *self.extensions.terminals]
        declared += [*self.extensions.lazy, *self.extensions.repeats, *self.extensions.conditions]
        declared += [*self.extensions.steps]
        if declared:
            self.added.append("%declare " + " ".join(declared))
        self.extensions.text = "\n".join([*shown, *self.added]) + "\n"
        self.extensions.kept += sorted(self.extensions.parametric)

    def fresh(self, kind: str) -> str:
        """A name that the grammar does not have."""
        self.changed = True
        i = len(self.names)
        while (name := f"{kind}_{i}") in self.names:
            i += 1
        self.names.add(name)
        return name

    def named(self, name: str) -> str:
        """A rule's or terminal's name as Lark writes it."""
        self.changed |= PLAIN.fullmatch(name) is None
        return name_of(name)

    def statement(self, head: Head | None, body: list[Token]) -> str:
        """A statement in Lark's own format."""
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
        self.changed |= bool(head.attributes or head.parametric)
        if head.attributes and is_terminal(head.name):
            raise refused(f"the terminal {head.name!r} has attributes: give them to a rule", first)
        lazy = {"lazy", "suffix", "stop"} & head.attributes.keys()
        unknown = head.attributes.keys() - HARMLESS - {"lazy", "suffix", "stop"}
        if unknown:
            raise refused(f"the attribute {min(unknown)!r} of {head.name!r} is not supported", first)
        start = f"{head.modifiers}{self.named(head.name)}{head.more}: "
        if lazy:
            suffix = head.attributes.get("suffix") or head.attributes.get("stop")
            if suffix and suffix[0].text == '""':
                suffix = None
            if (
                lazy == {"stop"} and suffix is None
            ):  # the end token of the model ends it: any text of the rule
                return start + self.body(rest)
            name = self.fresh("LAZY")
            self.extensions.lazy[name] = Lazy(rest, suffix)
            return start + name
        return start + self.body(rest, not is_terminal(head.name))

    def body(self, body: Sequence[Token], rule: bool = True) -> str:
        """The right side of a rule or terminal."""
        found: list[str] = []  # pieces, each an atom or a sign
        i = 0
        while i < len(body):
            token = body[i]
            i += 1
            kind, text = token.kind, token.text
            called = kind == "NAME" and i < len(body) and body[i].text == "::"
            if not rule and (text in ("%json", "%if") or called or kind in ("TOKEN", "GRAMMAR")):
                raise refused(f"{text} cannot stand in a terminal", token)
            if kind == "DIRECTIVE" and text == "%json":
                name = self.fresh("JSON")
                self.extensions.schemas[name] = token.value, token.line
                found.append(name)
            elif kind == "DIRECTIVE" and text == "%regex":
                name = self.fresh("REGEX")
                self.extensions.regexes[name] = (token.value, token.line)
                found.append(name)
            elif kind == "DIRECTIVE" and text == "%if":
                test, i = argument(body, i)
                name = self.fresh("IF")
                self.extensions.conditions[name] = condition(test, token.line)
                found.insert(last_alternative(found), name)
            elif called:
                if text not in self.extensions.parametric:
                    raise refused(f"the rule {text!r} has no parameter", token)
                value, i = argument(body, i + 1)
                name = self.fresh("STEP")
                self.extensions.steps[name] = name_of(text), step(value, token.line)
                found.append(name)
            elif kind == "NAME":
                if text in self.extensions.parametric and found[:1] != ["%declare"]:
                    raise refused(f"the rule {text!r} needs a parameter", token)
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
            elif kind == "TOKEN":
                raise refused(f"{text} asks for a token of the model, not for text", token)
            elif kind == "GRAMMAR":
                raise refused(f"{text} refers to another grammar: write its rules in this one", token)
            elif kind == "DIRECTIVE" and text == "%lark":
                raise refused(
                    "grammars within grammars (%lark) are not supported: write its rules here", token
                )
            else:
                found.append(text)
        return " ".join(found)

    def repeat(self, found: list[str], token: Token, rule: bool) -> None:
        """Put a repeat in the place of the last atom."""
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


def last_alternative(pieces: Sequence[str]) -> int:
    """Where the last alternative begins."""
    depth = begin = 0
    for i, piece in enumerate(pieces):
        depth += (piece in ("(", "[")) - (piece in (")", "]"))
        if piece == "|" and depth == 0:
            begin = i + 1
    return begin


def counts(token: Token) -> tuple[int, int | None]:
    """The least and largest number of times of ``{n}``, ``{n,}``, ``{,m}`` or ``{n,m}``."""
    low, comma, high = (part.strip() for part in token.text[1:-1].partition(","))
    least = int(low or 0)
    most = (int(high) if high else None) if comma else least
    if least < 0 or (most is not None and most < least):
        raise refused(f"{token.text} is no range of counts", token)
    return least, most


def is_terminal(name: str) -> bool:
    """Whether a name is that of a terminal."""
    return name.lstrip("_")[:1].isupper()


def name_of(name: str) -> str:
    """A name as Lark writes it: in letters of one case, without ``-``."""
    if PLAIN.fullmatch(name):
        return name
    code = "".join(
        f"x{ord(c):x}" if c == "-" else f"y{c}" if c.isupper() != is_terminal(name) and c.isalpha() else c
        for c in name
    )
    return (code.upper() if is_terminal(name) else code.lower()) + ("_N" if is_terminal(name) else "_n")


def argument(body: Sequence[Token], at: int) -> tuple[str, int]:
    """The text of a parameter or condition that begins at a token, and where it ends."""
    found = body[at].text if at < len(body) else ""
    depth, end = found.count("[") + found.count("(") - found.count(")"), at + 1
    while end < len(body) and (depth or body[end].text == "("):
        depth += (body[end].text in ("(", "[")) - (body[end].text in (")", "]"))
        found += body[end].text
        end += 1
    return found, end


# ---------------------------------------------------------------- statements


class Head(NamedTuple):
    """The left side of a rule or terminal: ``length`` tokens."""

    name: str
    length: int
    modifiers: str
    more: str
    attributes: dict[str, list[Token]]
    parametric: bool


def statements(text: str) -> Iterator[list[Token]]:
    """The tokens of each statement, without comments and white space."""
    found, depth = list[Token](), 0
    every = [token for token in tokens(text) if token.kind not in ("COMMENT", "WS")]
    for i, token in enumerate(every):
        if token.kind != "NL":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            found.append(token)
            continue
        following = next((t for t in every[i:] if t.kind != "NL"), None)
        if depth <= 0 and found and (following is None or following.text not in ("|", ":", "%if")):
            yield found
            found, depth = [], 0
    if found:
        yield found


def head_of(body: Sequence[Token]) -> Head | None:
    """The left side of a rule or terminal; ``None`` for directives."""
    at, modifiers, more, parametric = 0, "", "", False
    while at < len(body) and body[at].text in ("?", "!"):
        modifiers += body[at].text
        at += 1
    if at == len(body) or body[at].kind != "NAME":
        return None
    name = body[at].text
    at += 1
    attributes: dict[str, list[Token]] = {}
    if at < len(body) and body[at].text == "[":
        end = next((k for k in range(at, len(body)) if body[k].text == "]"), len(body))
        for part in split(body[at + 1 : end], ","):
            if len(part) == 2 or len(part) > 3 or (len(part) == 3 and part[1].text != "="):
                raise refused(f"the attributes of {name!r} cannot be read", body[at])
            if part:
                attributes[part[0].text] = part[2:]
        at = end + 1
    if [t.text for t in body[at : at + 2]] == ["::", "_"]:
        parametric, at = True, at + 2
    while at < len(body) and body[at].text != ":":
        more += body[at].text
        at += 1
    return None if at == len(body) else Head(name, at + 1, modifiers, more, attributes, parametric)


def split(body: Sequence[Token], sign: str) -> list[list[Token]]:
    """The parts between signs."""
    found: list[list[Token]] = [[]]
    for token in body:
        if token.text == sign:
            found.append([])
        else:
            found[-1].append(token)
    return found


def special_terminals(definitions: Sequence[tuple[str, Sequence[Token]]]) -> set[str]:
    """The terminals that Lark cannot write as one pattern, and those that are made of them."""
    found: set[str] = set()
    size = -1
    while len(found) > size:
        size = len(found)
        for name, body in definitions:
            if is_terminal(name) and any(
                token.text in found
                or token.text in ("&", "%regex")
                or (token.text == "~" and (k + 1 == len(body) or body[k + 1].kind != "NUMBER"))
                for k, token in enumerate(body)
            ):
                found.add(name)
    return found
