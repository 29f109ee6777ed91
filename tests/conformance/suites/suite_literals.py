"""Reads the values that tests in C++ and Rust write down: strings (raw ones too), numbers, lists, ``json!`` objects.

``tokens`` cuts source text; ``Reader`` takes values from it one after another, looking names up in ``names``. What is neither
a literal nor a known name raises ``NotALiteral``: such a test cannot be read without running it.
"""

import json
import math
import operator
import re
from typing import Any

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<cpp_raw>R"(?P<fence>[^\s()\\]{0,16})\((?P<cpp>.*?)\)(?P=fence)")
    |(?P<rust_raw>r(?P<hashes>\#*)"(?P<rust>.*?)"(?P=hashes))
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<char>'(?:[^'\\]|\\[^u]|\\u\{[^}]*\})')
    |(?P<number>-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[iuf](?:8|16|32|64|size))?)
    |(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*!?)
    |(?P<mark>\.\.=|\.\.|=>|==|>=|<=|!=|&&|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
WORDS = {"true": True, "false": False, "null": None}
ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F_]+)\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\n\s*)|(.))", re.DOTALL
)
OPERATORS = {
    "||": (1, lambda a, b: a or b), "&&": (2, lambda a, b: a and b), "==": (3, operator.eq), "!=": (3, operator.ne),
    "<": (3, operator.lt), "<=": (3, operator.le), ">": (3, operator.gt), ">=": (3, operator.ge), "+": (4, operator.add),
    "-": (4, operator.sub), "*": (5, operator.mul),
    "%": (5, lambda a, b: math.fmod(a, b) if isinstance(a, float) else int(math.fmod(a, b))),
}  # fmt: skip


class NotALiteral(ValueError):
    """What stands here has to be run to know its value."""


def unescaped(text: str) -> str:
    """The text of a string literal between its quotation marks; bytes written ``\\xNN`` are read as UTF-8."""

    def one(match: re.Match[str]) -> str:
        for digits in match.groups()[1:4]:
            if digits:
                return chr(int(digits, 16))
        if match[1]:
            return chr(int(match[1], 16) + (0xDC00 if int(match[1], 16) > 127 else 0))
        return "" if match[5] else PLAIN.get(match[6], match[6])

    return ESCAPE.sub(one, text).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def tokens(source: str) -> list[tuple[str, Any]]:
    """The tokens of a source text: ("string", value), ("number", value), ("name", text), ("mark", text)."""
    found: list[tuple[str, Any]] = []
    for match in TOKEN.finditer(source):
        kind = match.lastgroup
        if match["cpp_raw"] is not None:
            found.append(("string", match["cpp"]))
        elif match["rust_raw"] is not None:
            found.append(("string", match["rust"]))
        elif match["string"] is not None:
            found.append(("string", unescaped(match["string"][1:-1])))
        elif match["char"] is not None:
            found.append(("string", unescaped(match["char"][1:-1])))
        elif match["number"] is not None:
            digits = re.sub(r"[iuf](8|16|32|64|size)$", "", match["number"]).replace("_", "")
            found.append(("number", float(digits) if re.search(r"[.eE]", digits) else int(digits)))
        elif match["skip"] is None:
            found.append((str(kind), match[0]))
    return found


class Reader:
    """Values from a list of tokens, from ``at`` on."""

    def __init__(
        self, source: list[tuple[str, Any]], at: int = 0, names: dict[str, Any] | None = None
    ) -> None:
        self.source, self.at = source, at
        self.names: dict[str, Any] = {} if names is None else names

    def peek(self, ahead: int = 0) -> tuple[str, Any]:
        """The token ``ahead`` of the next; at the end an empty mark."""
        return self.source[self.at + ahead] if self.at + ahead < len(self.source) else ("mark", "")

    def takes(self, mark: str) -> bool:
        """Whether the next token is this mark; it is then passed over."""
        if self.peek() == ("mark", mark):
            self.at += 1
            return True
        return False

    def value(self, above: int = 0) -> Any:
        """The value of the expression that begins here, of operators that bind more tightly than ``above``."""
        value = self.operand()
        while (found := OPERATORS.get(self.peek()[1])) and self.peek()[0] == "mark" and found[0] > above:
            self.at += 1
            value = found[1](value, self.value(found[0]))
        return value

    def operand(self) -> Any:
        """The value that begins here, without what Rust appends to it (``.to_string()``, ``.iter()``)."""
        while self.takes("&") or self.takes("*"):
            pass
        kind, token = self.peek()
        self.at += 1
        if kind == "string":
            while self.peek()[0] == "string":
                token += self.peek()[1]
                self.at += 1
            value: Any = token
        elif kind == "number":
            value = token
        elif token == "-":
            value = -self.operand()
        elif kind == "mark" and token and token in "{[(":
            value = self.items({"{": "}", "[": "]", "(": ")"}[token])
        elif kind == "name" and token in ("json!", "vec!", "Some"):
            value = self.value()
            if token != "vec!" and isinstance(value, tuple) and len(value) == 1:
                value = value[0]
        elif (kind, token) == ("name", "format!") and self.takes("("):
            value = self.formatted(self.items(")"))
        elif (kind, token) == ("name", "match"):
            value = self.chosen()
        elif kind == "name" and token in ("std::string", "String::from") and self.takes("("):
            value = self.items(")")[0]
        elif kind == "name" and (token in WORDS or token in self.names):
            value = WORDS[token] if token in WORDS else self.names[token]
        elif kind == "name" and token[0].isupper() and "::" in token:
            value = token
        else:
            raise NotALiteral(str(token))
        return self.suffixed(value)

    def suffixed(self, value: Any) -> Any:
        while self.peek() == ("mark", ".") and self.peek(2) == ("mark", "("):
            if self.peek(1)[1] not in ("to_string", "iter", "into", "to_owned", "clone", "as_str", "abs"):
                raise NotALiteral(str(self.peek(1)[1]))
            if self.peek(3) != ("mark", ")"):
                raise NotALiteral(str(self.peek(1)[1]))
            if self.peek(1)[1] == "abs":
                value = abs(value)
            self.at += 4
        return value

    def formatted(self, values: tuple[Any, ...]) -> str:
        """``format!``: names in braces, or the values after the text one by one."""
        rest = list(values[1:])

        def one(match: re.Match[str]) -> str:
            if match[0] in ("{{", "}}"):
                return match[0][0]
            if match[1] and match[1] not in self.names:
                raise NotALiteral(match[1])
            value = self.names[match[1]] if match[1] else rest.pop(0)
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

        return re.sub(r"\{\{|\}\}|\{(\w*)\}", one, values[0])

    def chosen(self) -> Any:
        """``match value { pattern => value, … }`` where the patterns are paths or literals."""
        asked, found, any_found = self.operand(), None, False
        if not self.takes("{"):
            raise NotALiteral("match")
        while not self.takes("}"):
            pattern = None if self.takes("_") or self.peek() == ("name", "_") else self.operand()
            if self.peek() == ("name", "_"):
                self.at += 1
            if not self.takes("=>"):
                raise NotALiteral("match")
            braced = self.peek() == ("mark", "{")
            value = self.value()
            if braced and isinstance(value, list) and len(value) == 1:
                value = value[0]
            self.takes(",")
            if not any_found and pattern in (None, asked):
                found, any_found = value, True
        return found

    def items(self, end: str) -> Any:
        """What stands up to ``end``: a dict if its items have keys, else a list, or a tuple in parentheses."""
        listed: list[Any] = []
        keyed: dict[str, Any] = {}
        while not self.takes(end):
            value = self.value()
            if self.takes(":"):
                keyed[value] = self.value()
            else:
                listed.append(value)
            if not self.takes(",") and self.peek() != ("mark", end):
                raise NotALiteral(str(self.peek()[1]))
        if end == ")":
            return tuple(listed)
        return keyed if keyed or (end == "}" and not listed) else listed
