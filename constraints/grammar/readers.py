"""Grammar texts → rules: Lark's own format, GBNF (llama.cpp), plain EBNF. All are read with the ``lark`` package."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ...errors import TooManyStates, TractileError, UnsupportedConstraint
from ..automata import nfa, utf8
from ..automata.nfa import Nfa
from ..json.constraint import inner_texts
from ..narrowing import Narrowing, merged
from ..regex.constraint import regex
from .dialect import Extensions, Token, extended
from .operations import TerminalReader, structured
from .operations import written as written_json
from .parameters import instantiated
from .sizes import count_rules, count_terminals
from .terminals import Places, Terminal, never_beside, read_terminal
from .tree import Call, Choice, Expression, Repeat, Rules, Series, Text, Without

GBNF = r"""
    start: rule+
    rule: HEAD choice
    choice: series ("|" series)*
    series: item*
    item: atom TIMES?
    ?atom: STRING -> string | CLASS -> char_class | "." -> any_char | NAME -> call | "(" choice ")" | TOKEN -> token
    HEAD.2: /[\w-]+\s*::=/
    NAME: /[\w-]+/
    STRING: /"(\\.|[^"\\])*"/
    CLASS: /\[(\\.|[^\]\\])*\]/
    TIMES: /[*+?]|\{\s*\d*\s*(,\s*\d*\s*)?\}/
    TOKEN: /!?<[^>\n]*>/
    %ignore /\s+|#[^\n]*/
"""
EBNF = r"""
    start: rule+
    rule: HEAD choice (";" | ".")?
    choice: series ("|" series)*
    series: (term ","?)*
    ?term: item | item "-" item -> without
    item: atom TIMES? | COUNT atom -> counted
    ?atom: STRING -> string | STRING ".." STRING -> char_range | REGEX -> regex | NAME -> call
         | "(" choice ")" | "[" choice "]" -> optional | "{" choice "}" -> many
    HEAD.2: /(<[^<>\n]+>|[a-zA-Z_][\w-]*)\s*(::=|:=|=|:)/
    NAME: /<[^<>\n]+>|[a-zA-Z_][\w-]*/
    STRING: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/
    REGEX: /\/(\\.|[^\/\\\n])+\//
    COUNT: /\d+\s*\*/
    TIMES: /[*+?]/
    %ignore /\s+|#[^\n]*|\(\*([^*]|\*(?!\)))*\*\)/
"""
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|([^\\])", re.DOTALL)
SHORT = {"n": "\n", "r": "\r", "t": "\t"}
PLAIN = "\\\"'[]^-/"


def lark_package() -> Any:
    """The ``lark`` package. Raises ``TractileError`` if it is not installed."""
    try:
        import lark
    except ImportError:
        raise TractileError('grammars are read with lark: pip install "tractile[grammars]"') from None
    return lark


# ---------------------------------------------------------------- GBNF and EBNF


def read_bnf(text: str, syntax: str) -> Rules:
    """The rules of a GBNF or EBNF text. Raises ``UnsupportedConstraint`` with the line."""
    lark = lark_package()
    try:
        tree = bnf_parser(syntax).parse(text)
    except lark.exceptions.UnexpectedInput as error:
        raise UnsupportedConstraint(
            f"the {syntax.upper()} grammar cannot be read: {short(error)}", path=f"line {error.line}"
        ) from None
    rules: dict[str, Expression] = {}
    lines: dict[str, int] = {}
    for rule in tree.children:
        head, body = rule.children
        name = re.sub(r"\s*(::=|:=|=|:)$", "", head)
        if name in rules:
            raise UnsupportedConstraint(
                f"the rule {name!r} is defined on line {lines[name]} already", path=f"line {head.line}"
            )
        rules[name], lines[name] = expression(body), head.line
    return Rules(rules, lines)


@lru_cache(maxsize=2)
def bnf_parser(syntax: str) -> Any:
    """The parser of one of the two formats."""
    return lark_package().Lark(GBNF if syntax == "gbnf" else EBNF, parser="lalr", propagate_positions=True)


def short(error: Any) -> str:
    """The first line of a message of ``lark``."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else "a terminal or rule is not defined"


def expression(node: Any) -> Expression:
    """The expression of a node of the parse tree."""
    kind, parts = node.data, node.children
    if kind == "choice":
        return Choice([expression(p) for p in parts])
    if kind == "series":
        return Series([expression(p) for p in parts])
    if kind == "item":
        return Repeat(expression(parts[0]), *bounds(parts[1])) if len(parts) > 1 else expression(parts[0])
    if kind in ("optional", "many"):
        return Repeat(expression(parts[0]), 0, 1 if kind == "optional" else None)
    if kind == "counted":
        times = int(parts[0].rstrip("* \t\n"))
        return Repeat(expression(parts[1]), times, times)
    if kind == "without":
        return Without(expression(parts[0]), expression(parts[1]), node.meta.line)
    token: Any = parts[0] if parts else None
    if kind == "call":
        return Call(str(token), token.line)
    if kind == "string":
        return Text(nfa.literal("".join(unescaped(token[1:-1], token.line)).encode()))
    if kind == "char_range":
        low, high = ("".join(unescaped(t[1:-1], t.line)) for t in parts)
        if not len(low) == len(high) == 1 or low > high:
            raise UnsupportedConstraint(
                f"{parts[0]}..{parts[1]} is no range of characters", path=f"line {token.line}"
            )
        return Text(utf8.utf8(utf8.normalize([(ord(low), ord(high))])))
    if kind == "regex":
        try:
            return Text(regex(token[1:-1]).nfa)
        except UnsupportedConstraint as error:
            raise UnsupportedConstraint(str(error), path=f"line {token.line}") from None
    if kind == "char_class":
        return Text(utf8.utf8(char_class(token)))
    if kind == "any_char":
        return Text(utf8.utf8(utf8.EVERY))
    raise UnsupportedConstraint(
        f"{token} asks for a token of the model, not for text", path=f"line {token.line}"
    )


def bounds(times: str) -> tuple[int, int | None]:
    """The least and largest number of times of ``* + ?`` or ``{low,high}``."""
    if times in "*+?":
        return int(times == "+"), 1 if times == "?" else None
    low, comma, high = (part.strip() for part in times[1:-1].partition(","))
    return int(low or 0), (int(high) if high else None) if comma else int(low or 0)


def unescaped(text: str, line: int) -> list[str]:
    """The characters of a text with escapes."""
    found = []
    for match in ESCAPE.finditer(text):
        *codes, letter, plain = match.groups()
        code = next((c for c in codes if c), None)
        if code is not None and int(code, 16) <= 0x10FFFF:
            found.append(chr(int(code, 16)))
        elif plain or (letter and letter in PLAIN):
            found.append(plain or letter)
        elif letter in SHORT:
            found.append(SHORT[letter])
        else:
            raise UnsupportedConstraint(f"unknown escape {match[0]!r}", path=f"line {line}")
    return found


def char_class(token: Any) -> utf8.CodePoints:
    """The characters of ``[a-z\\n]`` or ``[^…]``."""
    negated = token[1] == "^"
    body = token[1 + negated : -1]
    ranges = []
    for match in re.finditer(
        r"((?:\\(?:x..|u.{4}|U.{8}|.)|[^\\]))(?:-((?:\\(?:x..|u.{4}|U.{8}|.)|[^\\])))?", body, re.DOTALL
    ):
        low = unescaped(match[1], token.line)[0]
        high = unescaped(match[2], token.line)[0] if match[2] else low
        if low > high:
            raise UnsupportedConstraint(f"{match[0]!r} is no range of characters", path=f"line {token.line}")
        ranges.append((ord(low), ord(high)))
    points = utf8.normalize(ranges)
    return utf8.negate(points) if negated else points


# ---------------------------------------------------------------- Lark


def read_lark(text: str, start: str) -> tuple[Rules, Places]:
    """The rules of a Lark grammar; what it ignores may stand before each terminal and at the end. Also the marks of terminals
    that depend on what stands beside them."""
    lark = lark_package()
    extensions = extended(text)
    written, text = text, extensions.text
    try:
        count_terminals(text, lark.load_grammar)
        builder = lark.load_grammar.GrammarBuilder()
        builder.load_grammar(text, "<string>")
        count_rules(builder)
        keep = "*" if extensions.text is not written else set()
        definitions, expansions, ignore = builder.build().compile([start, *extensions.kept], keep)
    except TooManyStates:
        raise
    except lark.exceptions.UnexpectedInput as error:
        raise UnsupportedConstraint(
            f"the grammar cannot be read: {short(error)}", path=f"line {error.line}"
        ) from None
    except Exception as error:  # the package lets errors of its own regular expressions through
        raise UnsupportedConstraint(
            f"the grammar cannot be read: {short(error)}", path=place(text, str(error))
        ) from None
    standing_for, narrowed = read_extensions(extensions, {t.name: t.pattern for t in definitions}, lark)
    named = {s.name for rule in expansions for s in rule.expansion if s.is_term}
    terminals = {
        t.name: terminal(t.pattern, t.name, text)
        for t in definitions
        if t.name not in ignore and (keep != "*" or t.name in named)
    }
    terminals |= {name: Terminal(words) for name, words in standing_for.items() if name in named}
    passed = {
        t.name: terminal(t.pattern, t.name, text, ignored=True) for t in definitions if t.name in ignore
    }
    for name in ignore:
        if name in standing_for:
            passed[name] = terminals.pop(name, Terminal(standing_for[name]))
    terminals |= {
        t.name: terminal(t.pattern, t.name, text) for t in definitions if t.name in named & passed.keys()
    }
    known = list({id(found): found for found in [*terminals.values(), *passed.values()]}.values())
    free = [one for one in passed.values() if never_beside(one, (o for o in known if o is not one))]
    places = Places(one for one in known if one not in free)
    words = {name: places.words(found) for name, found in terminals.items()}
    between = nfa.star(
        nfa.union([one.texts if one in free else places.words(one) for one in passed.values()])
    )
    words_of = {
        name: Text(nfa.concat([between, found]), name, name in extensions.lazy)
        for name, found in words.items()
    }
    rules: dict[str, list[Expression]] = {}
    lines: dict[str, int] = {}
    for rule in expansions:
        name = str(rule.origin.name)
        lines.setdefault(name, line_of(text, name))
        parts: list[Expression] = []
        for symbol in rule.expansion:
            if not symbol.is_term:
                parts.append(Call(str(symbol.name), lines[name]))
            elif symbol.name in words_of:
                parts.append(words_of[symbol.name])
            elif symbol.name in extensions.repeats:
                once, low, high = extensions.repeats[symbol.name]
                parts.append(Repeat(Call(once), low, high))
            elif symbol.name in extensions.steps or symbol.name in extensions.conditions:
                parts.append(Text(nfa.empty(), str(symbol.name)))
            else:
                raise UnsupportedConstraint(
                    f"the terminal {symbol.name!r} has no pattern", path=f"line {lines[name]}"
                )
        rules.setdefault(name, []).append(Series(parts))
    choices: dict[str, Expression] = {name: Choice(options) for name, options in rules.items()}
    if ignore and start in choices:
        choices[""] = Series([Call(start), Text(between)])
    found = Rules(choices, lines, narrowed, bool(extensions.lazy))
    if extensions.parametric:
        first = "" if "" in choices else start
        made = instantiated(found, first, extensions.parametric, extensions.steps, extensions.conditions)
        found = Rules(made.rules, lines, narrowed, bool(extensions.lazy))
    return found, places


def read_extensions(
    extensions: Extensions, patterns: dict[str, Any], lark: Any
) -> tuple[dict[str, Nfa], tuple[Narrowing, ...]]:
    """The texts of the declared terminals that stand for texts, and what the schemas among them leave out."""

    def literal(token: Token) -> str:
        try:
            written = lark.Token("STRING" if token.text[0] == '"' else "REGEXP", token.text)
            return str(lark.load_grammar._literal_to_pattern(written).to_regexp())
        except (lark.exceptions.GrammarError, AssertionError) as error:
            raise UnsupportedConstraint(str(error), path=f"line {token.line}") from None

    def pattern(name: str) -> str | None:
        return str(patterns[name].to_regexp()) if name in patterns else None

    reader = TerminalReader(extensions, literal, pattern)
    schemas = {name: inner_texts(*written_json(*schema), 3) for name, schema in extensions.schemas.items()}
    narrowed = merged(*(schema.narrowed for schema in schemas.values()))
    found = {name: schema.bytes_automaton for name, schema in schemas.items()}
    found |= {name: structured(*value) for name, value in extensions.regexes.items()}
    found |= {name: reader.read(body) for name, body in extensions.terminals.items()}
    found |= {name: reader.lazy(lazy) for name, lazy in extensions.lazy.items()}
    return found, narrowed


def terminal(pattern: Any, name: str, text: str, ignored: bool = False) -> Terminal:
    """What a terminal takes, or what is passed over where it is ignored. Raises ``UnsupportedConstraint`` with the line."""
    try:
        if pattern.type == "str" and not pattern.flags and pattern.value:
            return Terminal(nfa.literal(pattern.value.encode()))
        return read_terminal(pattern.to_regexp(), ignored)
    except UnsupportedConstraint as error:
        line, shown = line_of(text, name), name
        if name.startswith("__") and pattern.raw:  # written within a rule
            lines = (i for i, each in enumerate(text.splitlines(), 1) if pattern.raw in each)
            line, shown = next(lines, line), pattern.raw
        raise UnsupportedConstraint(f"the terminal {shown}: {error}", path=f"line {line}") from None


def place(text: str, message: str) -> str:
    """Where a message of ``lark`` is about: the line it gives, or that of the rule it names."""
    if found := re.search(r"line (\d+)", message):
        return f"line {found[1]}"
    names = re.findall(r"'(\w+)'|in (?:rule|terminal) (\w+)", message)
    lines = [line_of(text, a or b, anywhere=bool(a)) for a, b in names]
    return f"line {max(lines, default=0)}"


def line_of(text: str, name: str, anywhere: bool = False) -> int:
    """The line on which a rule or terminal is defined (or, ``anywhere``, last named); 0 if there is none."""
    sign = rf"\b{re.escape(name)}\b" if anywhere else rf"^\s*[?!]?{re.escape(name)}\b"
    lines = [i for i, line in enumerate(text.splitlines(), 1) if re.search(sign, line)]
    return (lines[-1] if anywhere else lines[0]) if lines else 0
