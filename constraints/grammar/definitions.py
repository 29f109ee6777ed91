"""What a grammar in Lark's notation defines, with what it imports from other grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata.work import spend
from .lark_syntax import lark_package, parsed, refused
from .lark_terminals import is_terminal, literal
from .sources import Sources, name_of

WORDS = re.compile(r"""\w+|"[^"\n]*"|'[^'\n]*'|[^\s\w"']+|["']""")
ATTRIBUTES = {"lazy", "suffix", "stop", "max_tokens", "capture", "stop_capture", "temperature"}
SAMPLING_OPTIONS = {"no_forcing"}


@dataclass(frozen=True)
class Definition:
    """A rule or terminal as it is written.

    ``name``: a token; ``tree``: its right side, None if it was declared without one; ``parameters``: names that stand for what is
    given where the rule is called; ``attributes``: tokens, trees or None, by name; ``given``: whether
    the right side is an argument of the caller.
    """

    name: Any
    tree: Any
    parameters: tuple[Any, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    given: bool = False


Definitions = dict[str, Definition]


def cost_of_parsing(text: str) -> float:
    """Return the work to parse a grammar."""
    return 2 * len(text) + 25 * sum(1 for _ in WORDS.finditer(text))


def definitions(
    text: str, sources: Sources, declared: Mapping[str, str] | None = None
) -> tuple[Definitions, list[Any]]:
    """Return what a grammar defines, by name, and the trees of what it ignores.

    ``sources``: where the files lie that it imports from; ``declared``: the right sides of terminals that it only declares.
    Raises ``UnsupportedConstraint`` with the line for what cannot be read, and for names that are not defined, or twice.
    """
    statements = parsed(text).children
    found, ignored = Definitions(), list[Any]()
    for one in imports(statements, sources):
        add(found, one)
    for statement in statements:
        match statement.data:
            case "definition":
                add(found, defined(statement))
            case "override" | "extend":
                change(found, defined(statement.children[0]), statement.data)
            case "declare":
                for name in statement.children:
                    given = name in (declared or {})
                    add(found, Definition(name, given_tree(name, declared or {}), given=given))
            case "ignore":
                ignored += statement.children
            case "options":
                check_options(statement.children[0])
    if unknown := (declared or {}).keys() - {name for name, one in found.items() if one.given}:
        name = min(unknown)
        raise UnsupportedConstraint(f"no %declare names {name!r}", path=f"declared[{name!r}]")
    check(found, ignored)
    return found, ignored


def defined(statement: Any) -> Definition:
    """Return the definition that a statement's tree (name, attributes, parameters, …, right side) is."""
    name, attributes, parameters, *_, tree = statement.children
    given = {
        str(key): value[0] if value else None for key, *value in (a.children for a in attributes.children)
    }
    if given and is_terminal(name):
        raise refused(f"the terminal {name.value!r} has attributes: give them to a rule", name)
    if unknown := given.keys() - ATTRIBUTES:
        raise refused(f"the attribute {min(unknown)!r} of {name.value!r} is not supported", name)
    if is_terminal(name) and next(tree.scan_values(lambda _: True), None) is None:
        raise refused(f"the terminal {name.value!r} is empty", name)
    if "max_tokens" in given and not (
        isinstance(given["max_tokens"], str) and given["max_tokens"].isdecimal()
    ):
        raise refused(f"max_tokens of {name.value!r} is not a number of tokens", name)
    return Definition(name, tree, tuple(parameters.children), given)


def given_tree(name: Any, declared: Mapping[str, str]) -> Any:
    """Return the right side that is given for a terminal that the grammar only declares, None without one."""
    if name not in declared:
        return None
    try:
        [statement] = (
            each for each in parsed(f"{name}: {declared[name]}").children if each.data == "definition"
        )
    except (UnsupportedConstraint, ValueError) as error:
        raise UnsupportedConstraint(
            f"{declared[name]!r} is no right side of a terminal: {error}", path=f"declared[{name.value!r}]"
        ) from None
    return statement.children[-1]


def add(found: Definitions, one: Definition) -> None:
    """Add a definition. Raises ``UnsupportedConstraint`` if there is one of that name."""
    if one.name in found:
        raise refused(f"{one.name.value!r} is defined more than once", one.name)
    found[one.name] = one


def change(found: Definitions, one: Definition, how: str) -> None:
    """Replace a definition (``how="override"``), or add alternatives to it in place (``"extend"``)."""
    before = found.get(one.name)
    if before is None or (how == "extend" and (before.tree is None or before.parameters != one.parameters)):
        raise refused(f"%{how} of {one.name.value!r}, which is not defined before, or otherwise", one.name)
    if how == "extend":
        before.tree.children.insert(0, one.tree)
    else:
        found[one.name] = one


def check_options(token: Any) -> None:
    """Raise ``UnsupportedConstraint`` for options of ``%llguidance`` that would change the language."""
    options = token.value if isinstance(token.value, dict) else {"": token.value}
    for name, value in options.items():
        if name not in SAMPLING_OPTIONS or not isinstance(value, bool):
            raise refused(f"{name}: {value!r} of %llguidance is not supported", token)


def check(found: Definitions, ignored: Sequence[Any]) -> None:
    """Raise ``UnsupportedConstraint`` for names that are not defined and expressions that cannot be read, used or not."""
    for one in [*found.values(), *(Definition(None, tree) for tree in ignored)]:
        for i, name in enumerate(one.parameters):
            if name in found or name in one.parameters[:i]:
                raise refused(f"the parameter {name.value!r} has the name of a rule or of another", name)
        for node in one.tree.iter_subtrees() if one.tree is not None else ():
            first: Any = node.children[0] if node.children else None
            if node.data in ("call", "template") and first not in found and first not in one.parameters:
                kind = "Terminal" if is_terminal(first) else "Rule"
                raise refused(f"{kind} {first.value!r} used but not defined", first)
            for token in node.children if node.data in ("regexp", "string", "range") else ():
                if token != '""':  # the empty text, which is no terminal of lark
                    literal(token)


# ---------------------------------------------------------------- imports


def imports(statements: Sequence[Any], sources: Sources) -> Iterator[Definition]:
    """Yield the definitions that the ``%import`` statements name, with all that these need.

    Raises ``UnsupportedConstraint`` for files and names that are not there.
    """
    # by grammar: its names, and what they become
    wanted: dict[tuple[tuple[str, ...], bool], dict[Any, Any]] = {}
    for statement in statements:
        if statement.data not in ("import", "import_several"):
            continue
        path, *names = statement.children
        parts = list(path.children)
        if statement.data == "import":
            name = parts.pop()
            aliases = {name: names[0] if names else name}
        else:
            aliases = dict(zip(names, names, strict=True))
        if not parts:
            raise refused(f"%import .{name}: a grammar and a name in it are needed", name)
        wanted.setdefault((tuple(map(str, parts)), path.data == "relative"), {}).update(aliases)
    for (source, relative), aliases in wanted.items():
        line, name = next(iter(aliases)), name_of(source, relative)
        text, inner = sources.find(source, relative, line)
        spend(cost_of_parsing(text))
        try:
            found = definitions(text, inner)[0]
        except UnsupportedConstraint as error:
            raise refused(f"%import of {name!r}: {error}", line) from None
        if missing := [each for each in aliases if each not in found]:
            raise refused(f"%import of {name!r}: it has no {missing[0].value!r}", missing[0])
        yield from renamed(found.values(), name, aliases)


def renamed(given: Iterable[Definition], source: str, aliases: Mapping[str, Any]) -> Iterable[Definition]:
    """Rename the definitions of an imported grammar: to ``aliases``, other names to ``name@source``.

    A terminal in a terminal is put in its place: it stays as it is where the name is overridden, and is extended with it.
    """
    lark, line = lark_package(), next(iter(aliases.values())).line

    def changed(part: Any) -> Any:
        if isinstance(part, lark.Tree):
            return lark.Tree(part.data, [changed(each) for each in part.children])
        name = aliases.get(part, f"{part}@{source}") if part.type == "NAME" else part
        token = lark.Token(part.type, str(name), line=line)
        if part.type != "NAME":
            token.value = part.value
        return token

    found = Definitions()
    for one in given:
        tree = one.tree and changed(one.tree)
        name, *parameters = map(changed, (one.name, *one.parameters))
        attributes = {key: value and changed(value) for key, value in one.attributes.items()}
        found[name] = Definition(name, tree, tuple(parameters), attributes)
    for name in filter(is_terminal, found):
        for call in list(found[name].tree.find_data("call")) if found[name].tree else ():
            inner = found[call.children[0]].tree
            if inner is not None:
                call.data, call.children = "choice", inner.children
    return found.values()
