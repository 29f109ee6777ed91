"""Read grammars in Lark's notation as rules; its terminals are rules too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata import nfa
from ..automata.work import spend
from ..narrowing import merged
from .definitions import Definition, definitions
from .ignored import Ignored
from .lark_syntax import counts, first_token, refused
from .lark_terminals import TerminalReader, is_terminal
from .layout_reader import NARROWED, LayoutReader
from .operations import json_value
from .sources import Sources
from .terminals import Terminal
from .token_references import ExpressionReader, excludes
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text, text_of

BLANK = " "
"""The rule of what is ignored before a nested grammar or a value in JSON."""


class LarkReader(ExpressionReader):
    """A reader of one grammar: rules are read as they are called, then the terminals that they call.

    ``sources``: where the files lie that it imports from; ``declared``: the right sides of terminals that it only declares;
    ``postlex``: an indenter of the ``lark`` package, or None; ``prefix``: what the names of its rules have before them. Ignored
    terminals may stand before each terminal and at the end.
    """

    def __init__(
        self,
        text: str,
        tokens: Mapping[int, str],
        sources: Sources,
        declared: Mapping[str, str] | None = None,
        postlex: Any = None,
        prefix: str = "",
    ) -> None:
        self.sources, self.postlex = sources, postlex
        self.definitions, self.ignored = definitions(text, sources, declared)
        self.reader = TerminalReader({name: each.tree for name, each in self.definitions.items()})
        super().__init__(tokens)
        self.prefix = prefix
        self.budgets: dict[str, int] = {}
        self.terminals: dict[str, Terminal] = {}
        self.lazy: set[str] = set()  # those that end at their first match
        self.alone: list[int] = []  # the lines of nested grammars and values in JSON
        self._called: list[tuple[str, Definition, dict[Any, Ref]]] = []

    def rules_from(self, start: str) -> Rules:
        """Return the rules that the start rule needs."""
        if start in self.definitions:
            self.call(self.definitions[start].name, ())
            start = self.prefix + start
        for name, definition, given in self._called:  # grows meanwhile
            self.translate(name, definition, given)
        passed = [self.reader.read(tree, "that is ignored", ignored=True) for tree in self.ignored]
        between = Ignored(passed, list(self.terminals.values()))
        end = text_of(between.at_the_end())
        layout = None if self.postlex is None else self.layout_reader(between, passed, end)
        for name, found in self.terminals.items():
            parts = []
            for texts, rest in found.followed or ((found.texts, None),):
                words = between.before(texts, self.short(name))
                parts.append(Text(text_of(words).node, name in self.lazy, rest))
                if layout is not None:
                    layout.add(parts[-1], words, texts, self.short(name))
            self.rules[name] = parts[0] if len(parts) == 1 else Choice(parts)
        if self.alone:
            self.rules[self.prefix + BLANK] = Series(between.alone(min(self.alone)))
        if passed and start in self.rules:
            self.rules[self.prefix] = Series([Ref(start), end])
        found_layout = None if layout is None else layout.layout
        return Rules(self.rules, self.lines, merged(self.narrowed), self.budgets, found_layout)

    def layout_reader(self, between: Ignored, passed: Sequence[Terminal], end: Text) -> LayoutReader:
        """Return what collects the terminals for the indenter."""
        name = self.postlex.NL_type
        if name not in self.terminals:
            raise UnsupportedConstraint(f"no rule has the terminal {name!r} of the indenter", path="postlex")
        skipped = self.reader.read(self.reader.tree(self.definitions[name].name), name, ignored=True)
        self.narrowed += NARROWED
        others = list(self.terminals.values())
        return LayoutReader(self.postlex, self.terminals[name], skipped, others, between, passed, end)

    def short(self, name: str) -> str:
        """Return the name of a terminal as the grammar has it."""
        return name.removeprefix(self.prefix)

    def translate(self, name: str, definition: Definition, given: Mapping[Any, Ref]) -> None:
        """Add the rule or terminal of a definition; ``given``: what its parameters stand for."""
        tree, attributes = definition.tree, definition.attributes
        if self.postlex is not None and definition.name in (
            self.postlex.INDENT_type,
            self.postlex.DEDENT_type,
        ):
            self.rules[name] = Series([])
            return
        if is_terminal(definition.name):
            self.terminals[name] = self.reader.read(self.reader.tree(definition.name), definition.name)
            return
        if tree is None:
            raise refused(f"the rule {definition.name.value!r} is declared, and not defined", definition.name)
        if "max_tokens" in attributes:
            self.budgets[name] = int(attributes["max_tokens"])
        ends_first = attributes.keys() & {"lazy", "suffix", "stop"}
        end = attributes.get("suffix") or attributes.get("stop")
        end = None if end is not None and is_empty(end) else end
        if not ends_first or (ends_first == {"stop"} and end is None):  # the model's own end is no text
            self.rules[name] = self.expression(tree, given)
        else:
            self.terminals[name] = self.reader.lazy(tree, end)
            self.lazy.add(name)

    def call(self, name: Any, given: Sequence[Ref]) -> Ref:
        """Return a call of a rule or terminal, or of what a template makes of what it is given."""
        definition = self.definitions[name]
        if definition.parameters and not given:  # a template that is given to another
            return Ref(str(name), name.line)
        if len(given) != len(definition.parameters):
            raise refused(
                f"{name.value!r} has {len(definition.parameters)} parameters, not {len(given)}", name
            )
        made = self.prefix + (f"{name}{{{','.join(each.rule for each in given)}}}" if given else name)
        if made not in self.lines:
            spend(20 + len(made))
            self.lines[made] = definition.name.line
            self._called.append((made, definition, dict(zip(definition.parameters, given, strict=True))))
        return Ref(made, name.line)

    # ------------------------------------------------------------ expressions

    def expression(self, tree: Any, given: Mapping[Any, Ref]) -> Expression:
        """Return the expression of a tree. ``given``: what the parameters of its rule stand for."""
        spend(5)
        match tree.data, tree.children:
            case "choice", parts:
                return Choice([self.expression(part, given) for part in parts])
            case "series", parts:
                return Series([self.expression(part, given) for part in parts])
            case (("optional" | "times"), [part, *times]):
                low, high = counts(*times) if times else (0, 1)
                if part.data == "token" and excludes(part.children[0]):
                    return self.reference(part.children[0], low, high)
                return Repeat(self.expression(part, given), low, high)
            case "token", [token]:
                return self.reference(token)
            case "alias", [part, _]:
                return self.expression(part, given)
            case "call", [name]:
                return given[name] if name in given else self.call(name, ())
            case "template", [name, *arguments]:
                head = self.definitions[given[name].rule].name if name in given else name
                return self.call(head, [self.argument(each, given) for each in arguments])
            case "json", [token]:
                node, narrowed = json_value(token.value, token.line)
                self.narrowed += narrowed
                return self.standing_alone(token, Text(node))
            case "grammar", [token]:
                return self.standing_alone(token, self.nested(token))
            case (("both" | "other"), _):
                raise refused("& and ~ stand in terminals alone", first_token(tree))
        if is_empty(tree):
            return Series([])
        name = "..".join(tree.children) if tree.data != "pieces" else json.dumps(tree.children[0].value)
        return self.terminal(name, first_token(tree).line, lambda: self.reader.read(tree, name))

    def argument(self, tree: Any, given: Mapping[Any, Ref]) -> Ref:
        """Return what is given to a template."""
        found = self.expression(tree, given)
        if not isinstance(found, Ref):
            raise refused("a template is given the empty text", first_token(tree))
        return found

    def terminal(self, name: str, line: int, read: Callable[[], Terminal]) -> Ref:
        """Return a call of a terminal that is written where it stands."""
        name = self.prefix + name
        if name not in self.terminals:
            self.terminals[name], self.lines[name] = read(), line
        return Ref(name, line)

    def word(self, text: str, line: int) -> Ref:
        """Return a call of the terminal of one text."""
        name = json.dumps(text, ensure_ascii=False)
        return self.terminal(name, line, lambda: Terminal(nfa.literal(text.encode())))

    def standing_alone(self, token: Any, found: Expression) -> Ref:
        """Return a call of a nested grammar or a value in JSON, behind what is ignored."""
        name = f"{self.prefix}{token} {len(self.alone)}"
        self.alone.append(token.line)
        self.rules[name], self.lines[name] = Series([Ref(self.prefix + BLANK), found]), token.line
        return Ref(name, token.line)

    def nested(self, token: Any) -> Ref:
        """Add the rules of a nested grammar, and return a call of its start."""
        spend(2 * len(token.value))
        prefix = f"{self.prefix}{token} {len(self.alone)}."
        inner = LarkReader(token.value, self.tokens, self.sources, prefix=prefix).rules_from("start")
        if prefix + "start" not in inner.rules:
            raise refused("the grammar within the grammar (%lark) has no rule 'start'", token)
        self.rules |= inner.rules
        self.lines |= inner.lines
        self.budgets |= inner.budgets
        self.narrowed += inner.narrowed
        return Ref(prefix if prefix in inner.rules else f"{prefix}start", token.line)


def is_empty(tree: Any) -> bool:
    """Return whether a tree is the empty string."""
    return bool(tree.data == "string" and tree.children[0] == '""')
