"""What a grammar in Lark's notation defines, with what it imports from the grammars that come with the ``lark`` package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from .lark_syntax import parsed, refused
from .lark_terminals import is_terminal, literal
from .readers import lark_package

IMPORTED = ("common", "lark", "python", "unicode")  # grammars that come with the package
ATTRIBUTES = {"lazy", "suffix", "stop", "max_tokens", "capture", "stop_capture", "temperature"}
SAMPLING_OPTIONS = {"no_forcing"}


@dataclass(frozen=True)
class Definition:
    """A rule or terminal as it is written.

    ``name``: a token; ``tree``: its right side, None if it was declared without one; ``parameters``: names that stand for what is
    given where the rule is called; ``attributes``: tokens, trees or None, by name.
    """

    name: Any
    tree: Any
    parameters: tuple[Any, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


Definitions = dict[str, Definition]


def definitions(text: str) -> tuple[Definitions, list[Any]]:
    """Return what a grammar defines, by name, and the trees of what it ignores.

    Raises ``UnsupportedConstraint`` with the line for what cannot be read, and for names that are not defined, or twice.
    """
    statements = parsed(text).children
    found, ignored = Definitions(), list[Any]()
    for one in imports(statements):
        add(found, one)
    for statement in statements:
        match statement.data:
            case "definition":
                add(found, defined(statement))
            case "override" | "extend":
                change(found, defined(statement.children[0]), statement.data)
            case "declare":
                for name in statement.children:
                    add(found, Definition(name, None))
            case "ignore":
                ignored += statement.children
            case "options":
                check_options(statement.children[0])
    check(found, ignored)
    return found, ignored


def defined(statement: Any) -> Definition:
    """Return the definition of a statement."""
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


def add(found: Definitions, one: Definition) -> None:
    """Add a definition. Raises ``UnsupportedConstraint`` if there is one of that name."""
    if one.name in found:
        raise refused(f"{one.name.value!r} is defined more than once", one.name)
    found[one.name] = one


def change(found: Definitions, one: Definition, how: str) -> None:
    """Replace a definition (``how="override"``), or add alternatives to it in place (``"extend"``)."""
    before = found.get(one.name)
    if before is None or (how == "extend" and (before.tree is None or before.parameters != one.parameters)):
        raise refused(
            f"%{how} of {one.name.value!r}, which is not defined before, or in another way", one.name
        )
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


def imports(statements: Sequence[Any]) -> Iterator[Definition]:
    """Yield the definitions of the grammars that are imported from. Raises ``UnsupportedConstraint`` for any other file."""
    wanted: dict[str, dict[str, Any]] = {}  # by grammar: its names, and what they become
    for statement in statements:
        if statement.data not in ("import", "import_several"):
            continue
        path, *names = statement.children
        parts, line = list(path.children), path.children[0]
        if statement.data == "import":
            name = parts.pop()
            aliases = {name: names[0] if names else name}
        else:
            aliases = dict(zip(names, names, strict=True))
        source = ".".join(parts)
        if path.data == "relative" or source not in IMPORTED:
            known = ", ".join(IMPORTED)
            raise refused(
                f"%import of {source!r}: only {known} can be imported from; write the rules into the grammar",
                line,
            )
        wanted.setdefault(source, {}).update(aliases)
    for source, aliases in wanted.items():
        text = (files("lark") / "grammars" / f"{source}.lark").read_text(encoding="utf-8")
        yield from renamed(definitions(text)[0].values(), source, aliases)


def renamed(given: Iterable[Definition], source: str, aliases: Mapping[str, Any]) -> Iterable[Definition]:
    """Return the definitions of another grammar under ``aliases``, or with the ``source`` behind their names.

    A terminal in a terminal is put in its place: it stays as it is where the name is overridden, and is extended with it.
    """
    lark, line = lark_package(), next(iter(aliases.values())).line

    def changed(part: Any) -> Any:
        if isinstance(part, lark.Tree):
            return lark.Tree(part.data, [changed(each) for each in part.children])
        name = aliases.get(part, f"{part}@{source}") if part.type == "NAME" else part
        return lark.Token(part.type, str(name), line=line)

    found = Definitions()
    for one in given:
        tree = one.tree and changed(one.tree)
        name, *parameters = map(changed, (one.name, *one.parameters))
        found[name] = Definition(name, tree, tuple(parameters))
    for name in filter(is_terminal, found):
        for call in list(found[name].tree.find_data("call")) if found[name].tree else ():
            call.data, call.children = "choice", found[call.children[0]].tree.children
    return found.values()
