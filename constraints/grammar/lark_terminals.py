"""The texts of terminals in Lark's notation.

A terminal that Lark can write is one pattern, whose texts ``terminals.py`` tells. One with ``&``, ``~`` or ``%regex``, or made of
such, is a set of texts; the preference of ``re`` among matches plays no role there, nor in a rule that ends at its first match:

    lazy(L) = { w in L : no proper prefix of w is in L }        suffix and stop: lazy(L S)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, TypeVar

from ...errors import UnsupportedConstraint
from .. import validation
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.work import spend
from ..regex.pattern import compile_pattern
from .lark_syntax import counts, first_token, lark_package, refused
from .operations import structured
from .terminals import Terminal, read_terminal

CODE = re.compile(r"((?<!\\)(?:\\\\)*)\\u\{([0-9a-fA-F]{1,6})\}")
V = TypeVar("V")


class NoPattern(Exception):
    """No pattern says what ``&``, ``~`` or ``%regex`` say."""


def is_terminal(name: str) -> bool:
    """Return whether a name is that of a terminal."""
    return name.lstrip("_")[:1].isupper()


class TerminalReader:
    """Reads terminals. ``trees``: the right sides of those with a name, None for one without."""

    def __init__(self, trees: Mapping[str, Any]) -> None:
        self.trees = trees
        self._words: dict[str, Nfa] = {}
        self._patterns: dict[str, Any] = {}
        self._open: set[str] = set()

    def read(self, tree: Any, name: str, ignored: bool = False) -> Terminal:
        """Return the terminal of a tree; ``ignored``: as an ignored one. Raises ``UnsupportedConstraint`` with the line."""
        try:
            pattern = self.pattern(tree)
            if pattern.type == "str" and not pattern.flags and pattern.value:
                return Terminal(nfa.literal(pattern.value.encode()))
            return read_terminal(pattern.to_regexp(), ignored)
        except NoPattern:
            return Terminal(dfa.simplify(self.words(tree)))
        except UnsupportedConstraint as error:
            if error.path is not None and error.path.startswith("line"):
                raise
            raise refused(f"the terminal {name}: {error}", first_token(tree)) from None

    def lazy(self, body: Any, suffix: Any) -> Terminal:
        """Return the texts of a rule that ends at its first match; ``suffix``: the tree of what ends it, or None."""
        parts = [self.words(tree) for tree in (body, suffix) if tree is not None]
        return Terminal(dfa.first_matches(nfa.concat(parts)))

    def tree(self, name: Any) -> Any:
        """Return the right side of a terminal. Raises ``UnsupportedConstraint``."""
        if not is_terminal(name):
            raise refused(f"a rule, and no terminal, stands here: {name}", name)
        if self.trees[name] is None:
            raise refused(
                f"the terminal {str(name)!r} is declared, and has no pattern: give one, declared={{{str(name)!r}: '/…/'}}, "
                "or the indenter that makes it, postlex=…",
                name,
            )
        return self.trees[name]

    def named(self, name: Any, known: dict[str, V], read: Callable[[Any], V]) -> V:
        """Return what ``read`` makes of the terminal with a name. ``known``: its results by name."""
        if name in self._open:
            raise refused(f"the terminal {name} is made of itself", name)
        if name not in known:
            self._open.add(name)
            try:
                known[name] = read(self.tree(name))
            finally:
                self._open.discard(name)
        return known[name]

    def words(self, tree: Any) -> Nfa:
        """Return the automaton of the texts of a terminal's parse tree."""
        parts = tree.children
        match tree.data:
            case "choice":
                return nfa.union([self.words(part) for part in parts])
            case "both":
                return reduce(dfa.intersect, [dfa.simplify(self.words(part)) for part in parts])
            case "series":
                return nfa.concat([self.words(part) for part in parts])
            case "times":
                return repeat(self.words(parts[0]), *counts(parts[1]))
            case "optional":
                return nfa.optional(self.words(parts[0]))
            case "other":
                return dfa.difference(utf8.any_text(), self.words(parts[0]))
            case "pieces":
                return structured(parts[0].value, parts[0].line)
            case "string" if parts[0] == '""':
                return nfa.literal(b"")
            case "call":
                with suppress(NoPattern):
                    return compile_pattern(self.pattern(tree).to_regexp(), 0, utf8.utf8)
                return self.named(parts[0], self._words, self.words)
        return compile_pattern(self.pattern(tree).to_regexp(), 0, utf8.utf8)

    def pattern(self, tree: Any) -> Any:
        """Return the ``lark.lexer.Pattern`` of a tree, as Lark makes it."""
        pattern, parts = lark_package().lexer.PatternRE, tree.children
        match tree.data:
            case "choice":
                options = sorted(map(self.pattern, parts), key=longest_first)
                spend(4 * sum(len(option.value) for option in options))
                joined = "|".join(option.to_regexp() for option in options)
                return options[0] if len(options) == 1 else pattern(f"(?:{joined})")
            case "series":
                found = list(map(self.pattern, parts))
                spend(4 * sum(len(part.value) for part in found))
                return found[0] if len(found) == 1 else pattern("".join(part.to_regexp() for part in found))
            case "times" | "optional":
                inner = self.pattern(parts[0])
                low, high = counts(parts[1]) if tree.data == "times" else (0, 1)
                most = "" if high is None else high
                return pattern(f"(?:{inner.to_regexp()}){{{low},{most}}}", inner.flags)
            case "range":
                if any(len(literal(part).value) != 1 for part in parts):
                    raise refused(f"{parts[0]}..{parts[1]} is no range of characters", parts[0])
                return pattern(f"[{parts[0][1:-1]}-{parts[1][1:-1]}]")
            case "string" | "regexp":
                return literal(parts[0])
            case "call":
                return self.named(parts[0], self._patterns, self.pattern)
            case "both" | "other" | "pieces":
                raise NoPattern
            case "alias":
                raise refused("a name (->) cannot stand in a terminal", parts[1])
        raise refused(f"{parts[0]} cannot stand in a terminal", parts[0])


def literal(token: Any) -> Any:
    """Return the pattern of a string or regular expression. Raises ``UnsupportedConstraint``."""
    lark = lark_package()
    if token.type == "REGEXP":
        token = token.update(value=CODE.sub(lambda m: m[1] + f"\\U{int(m[2], 16):08x}", token))
    try:
        found = lark.load_grammar._literal_to_pattern(token)
    except (lark.exceptions.GrammarError, AssertionError, ValueError) as error:
        raise refused(f"{token} cannot be read: {error.args[-1] if error.args else error}", token) from None
    validation.check_text(found.value, f"line {token.line}")
    return found


def longest_first(pattern: Any) -> tuple[int, int, int]:
    """Return the key by which Lark sorts the alternatives of a terminal."""
    try:
        return -pattern.max_width, -pattern.min_width, -len(pattern.value)
    except Exception as error:  # the package lets errors of its own regular expressions through
        raise UnsupportedConstraint(f"{pattern.value!r} is no regular expression: {error}") from None
