"""The tokens and statements of a grammar in Lark's format with llguidance's additions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...errors import UnsupportedConstraint

TOKENS = re.compile(
    r"""(?P<COMMENT>[ \t]*(?://|\#)[^\n]*) | (?P<NL>(?:\r?\n)) | (?P<WS>[ \t]+|\\[ ]*\n)
    | (?P<STRING>"(?:\\.|[^"\\\n])*"i?) | (?P<REGEXP>/(?!/)(?:\\.|[^/\\])+/[imslux]*)
    | (?P<DIRECTIVE>%[a-z]+) | (?P<TOKEN><[^<>\n]*>) | (?P<GRAMMAR>@[\w-]+)
    | (?P<NAME>[A-Za-z_]\w*(?:-\w+)*) | (?P<COUNT>\{\s*(?:-?\d+\s*(?:,\s*(?:-?\d+)?\s*)?|,\s*-?\d+\s*)\})
    | (?P<NUMBER>[+-]?\d+(?:\.\d+)?(?!\.\d|\w)|\d+) | (?P<OP>::|->|\.\.|.)""",
    re.VERBOSE,
)
PLAIN = re.compile(r"_?[a-z][_a-z0-9]*|_*[A-Z][_A-Z0-9]*|_\w*")  # names that Lark reads


class Token(NamedTuple):
    """A token of a grammar; ``value`` is the JSON value after a directive."""

    kind: str
    text: str
    line: int
    value: Any = None


def refused(what: str, token: Token) -> UnsupportedConstraint:
    """Return the error for the construct at a token."""
    return UnsupportedConstraint(what, path=f"line {token.line}")


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a grammar; a directive and what follows it, JSON or a grammar in braces, are one token."""
    at, line = 0, 1
    while at < len(text):
        token, end = token_at(text, at, line)
        yield token
        line += text.count("\n", at, end)
        at = end


def token_at(text: str, at: int, line: int) -> tuple[Token, int]:
    """Return the token at a position, and the position after it."""
    match = TOKENS.match(text, at)
    if match is None:
        raise UnsupportedConstraint(
            f"the grammar cannot be read: {text[at : at + 20]!r}", path=f"line {line}"
        )
    kind, found, value, end = str(match.lastgroup), match[0], None, match.end()
    begin = end + len(text[end:]) - len(text[end:].lstrip())
    if found in ("%json", "%regex", "%llguidance"):
        try:
            value, end = json.JSONDecoder().raw_decode(text, begin)
        except json.JSONDecodeError as error:
            raise UnsupportedConstraint(
                f"no JSON follows {found}: {error.msg}", path=f"line {line}"
            ) from None
    elif found == "%lark":
        value, end = in_braces(text, begin, line)
    return Token(kind, found, line, value), end


def in_braces(text: str, at: int, line: int) -> tuple[str, int]:
    """Return the grammar in the braces at a position, after as many empty lines as precede it, and the position after it."""
    begin, depth = at, 0
    while at < len(text):
        token, end = token_at(text, at, line + text.count("\n", begin, at))
        depth += (token.text == "{") - (token.text == "}")
        if depth <= 0:
            break
        at = end
    if depth or at == begin or at == len(text):
        raise UnsupportedConstraint("no grammar in braces follows %lark", path=f"line {line}")
    return "\n" * (line - 1) + text[begin + 1 : at] + "\n", end


def counts(token: Token) -> tuple[int, int | None]:
    """Return the fewest and the most repetitions of ``{n}``, ``{n,}``, ``{,m}`` or ``{n,m}``."""
    low, comma, high = (part.strip() for part in token.text[1:-1].partition(","))
    least = int(low or 0)
    most = (int(high) if high else None) if comma else least
    if least < 0 or (most is not None and most < least):
        raise refused(f"{token.text} is no range of counts", token)
    return least, most


def repeats(body: Sequence[Token], at: int) -> tuple[int, int | None, int]:
    """Return the fewest and the most repetitions that a sign at ``at`` asks for (1 without one), and the position after it."""
    token = body[at] if at < len(body) else None
    if token is None:
        return 1, 1, at
    if token.text in ("*", "+", "?"):
        return int(token.text == "+"), 1 if token.text == "?" else None, at + 1
    if token.kind == "COUNT":
        return (*counts(token), at + 1)
    following = [each.text for each in body[at + 1 : at + 4]]
    if token.text == "~" and following and body[at + 1].kind == "NUMBER":
        ranged = len(following) == 3 and following[1] == ".."
        return int(following[0]), int(following[-1] if ranged else following[0]), at + (4 if ranged else 2)
    return 1, 1, at


def is_terminal(name: str) -> bool:
    """Return whether a name is that of a terminal."""
    return name.lstrip("_")[:1].isupper()


def name_of(name: str) -> str:
    """Return a name that Lark reads: letters of one case, no ``-``."""
    if PLAIN.fullmatch(name):
        return name
    code = "".join(
        f"x{ord(c):x}" if c == "-" else f"y{c}" if c.isupper() != is_terminal(name) and c.isalpha() else c
        for c in name
    )
    return (code.upper() if is_terminal(name) else code.lower()) + ("_N" if is_terminal(name) else "_n")


class Head(NamedTuple):
    """The left side of a rule or terminal; ``length`` counts its tokens, the colon included."""

    name: str
    length: int
    modifiers: str
    more: str
    attributes: dict[str, list[Token]]


def statements(text: str) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, without comments and white space."""
    found, depth = list[Token](), 0
    every = [token for token in tokens(text) if token.kind not in ("COMMENT", "WS")]
    for i, token in enumerate(every):
        if token.kind != "NL":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            found.append(token)
            continue
        following = next((t for t in every[i:] if t.kind != "NL"), None)
        if depth <= 0 and found and (following is None or following.text not in ("|", ":")):
            yield found
            found, depth = [], 0
    if found:
        yield found


def head_of(body: Sequence[Token]) -> Head | None:
    """Parse the left side of a rule or terminal; return None for directives."""
    at, modifiers, more = 0, "", ""
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
    while at < len(body) and body[at].text != ":":
        more += body[at].text
        at += 1
    return None if at == len(body) else Head(name, at + 1, modifiers, more, attributes)


def split(body: Sequence[Token], sign: str) -> list[list[Token]]:
    """Split tokens at each token with the text ``sign``."""
    found: list[list[Token]] = [[]]
    for token in body:
        if token.text == sign:
            found.append([])
        else:
            found[-1].append(token)
    return found


def special_terminals(definitions: Sequence[tuple[str, Sequence[Token]]]) -> set[str]:
    """Return the terminals that Lark cannot write as one pattern, and those made of them."""
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
