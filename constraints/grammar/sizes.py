"""Estimate how much the ``lark`` package would make of a grammar, before it does.

The package expands every rule to its alternatives (a hundred ``[x]`` in a row give 2¹⁰⁰), every terminal to one pattern with
the terminals it names written out, and every use of a template to a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..automata.work import spend

NAIVE = 50
"""Repeats of fewer are written out; others are split into rules of at most ``SPLIT`` parts."""
SPLIT = 5
MOST = 10**18


class Size(NamedTuple):
    """The size of a part of a rule.

    The number of alternatives, the symbols of all of them together and of the longest; ``aside``: the symbols of helper
    rules.
    """

    alternatives: int
    symbols: int
    longest: int
    aside: int = 0


def count_terminals(text: str, load: Any) -> None:
    """Charge the cost of a grammar's terminal patterns before ``lark.load_grammar`` expands them.

    Raises ``TooManyStates``, and the errors of lark.
    """
    statements = load._parse_grammar(text, "<string>").children
    trees = {str(s.children[0]): s.children[-1] for s in statements if s.data == "term"}
    known: dict[str, tuple[int, int]] = {}
    stack = list(trees)
    entered: set[str] = set()
    while stack:
        name = stack[-1]
        named = [str(s.name) for s in trees[name].scan_values(lambda value: hasattr(value, "name"))]
        if name not in entered:
            entered.add(name)
            stack.extend(other for other in named if other in trees and other not in entered)
            continue
        stack.pop()
        if name not in known:
            known[name] = measured_pattern(trees[name], known)
            spend(4 * sum(known[name]))


def count_rules(builder: Any) -> None:
    """Charge the cost of the rules of a ``lark.load_grammar.GrammarBuilder``. Raises ``TooManyStates``."""
    rules = {
        n: (d.params, d.tree) for n, d in builder._definitions.items() if d.tree is not None and not d.is_term
    }
    todo = [(name, tuple[str, ...]()) for name, (params, _) in rules.items() if not params]
    seen = set(todo)
    sizes: dict[str, int] = {}
    for name, arguments in todo:  # grows during the loop
        params, tree = rules[name]
        if name not in sizes:
            size = measured_rule(tree)
            sizes[name] = size.symbols + size.alternatives + size.aside
        spend(10 * sizes[name] + sum(map(len, arguments)))
        for use in uses(tree, dict(zip(params, arguments, strict=False))):
            if use not in seen and use[0] in rules:
                seen.add(use)
                todo.append(use)


def below(tree: Any) -> Iterator[Any]:
    """Iterate over the subtrees of a tree, children before parents."""
    stack, entered = [tree], set[int]()
    while stack:
        node = stack[-1]
        if id(node) in entered:
            yield stack.pop()
        else:
            entered.add(id(node))
            stack.extend(c for c in node.children if hasattr(c, "children"))


def measured_pattern(tree: Any, terminals: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the characters of a terminal's pattern, and those read to find its alternatives' lengths."""
    known: dict[int, tuple[int, int]] = {}
    for node in below(tree):
        parts = [
            known[id(c)]
            if hasattr(c, "children")
            else terminals.get(str(getattr(c, "name", "")), (len(str(c)), 0))
            for c in node.children
        ]
        length, read = 4 + sum(p[0] for p in parts), sum(p[1] for p in parts)
        if node.data == "expansions" and len(parts) > 1:
            read += length
        known[id(node)] = min(length, MOST), min(read, MOST)
    return known[id(tree)]


def measured_rule(tree: Any) -> Size:
    """Return the size of the alternatives that ``lark`` makes of a rule."""
    known: dict[int, Size] = {}
    for node in below(tree):
        parts = [known[id(c)] for c in node.children if hasattr(c, "children")]
        known[id(node)] = Size(*(min(n, MOST) for n in combined(node, parts)))
    return known[id(tree)]


def combined(node: Any, parts: list[Size]) -> Size:
    """Return the size of a tree, given those of its subtrees."""
    aside = sum(p.aside for p in parts)
    if node.data == "expansion":
        size = Size(1, 0, 0)
        for part in parts:
            size = in_a_row(size, part)
        return size._replace(aside=aside)
    if node.data == "expansions":
        return Size(
            sum(p.alternatives for p in parts),
            sum(p.symbols for p in parts),
            max(p.longest for p in parts),
            aside,
        )
    if node.data == "maybe":
        inner = parts[0]
        return Size(inner.alternatives + 1, inner.symbols + inner.longest, inner.longest, aside)
    if node.data == "alias":
        return parts[0]
    if node.data == "expr":
        return repeated(parts[0], node.children[1], [int(n) for n in node.children[2:]])
    return Size(1, 1, 1)  # a symbol, a literal or the use of a template


def in_a_row(left: Size, right: Size) -> Size:
    """Return the size of a concatenation, with the alternatives of both sides multiplied out."""
    return Size(
        min(MOST, left.alternatives * right.alternatives),
        min(MOST, left.symbols * right.alternatives + right.symbols * left.alternatives),
        left.longest + right.longest,
    )


def repeated(inner: Size, operator: str, times: list[int]) -> Size:
    """Return the size of a repeat."""
    if operator == "?":
        return inner._replace(alternatives=inner.alternatives + 1)
    if operator in ("*", "+"):  # a helper rule: one item, or the helper rule and one item
        aside = inner.aside + 2 * inner.symbols + 3 * inner.alternatives
        return Size(1 + (operator == "*"), 1, 1, aside)
    least, most = times[0], times[-1]
    if most >= NAIVE:
        aside = 2 * most.bit_length() * SPLIT * (inner.symbols + 1) * inner.alternatives ** (SPLIT - 1)
        return Size(1, 2, 2, inner.aside + aside)
    size, row = Size(0, 0, 0), Size(1, 0, 0)
    for n in range(most + 1):
        if n >= least:
            size = Size(size.alternatives + row.alternatives, size.symbols + row.symbols, row.longest)
        row = in_a_row(row, inner)
    return size._replace(aside=inner.aside)


def uses(tree: Any, given: dict[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the templates that a rule uses with their arguments; ``given`` are its own arguments."""
    names: dict[int, str] = {}
    for node in below(tree):
        if node.data == "template_usage":
            head = str(node.children[0].name)
            name, arguments = given.get(head, head), tuple(names[id(c)] for c in node.children[1:])
            names[id(node)] = f"{name}{{{','.join(arguments)}}}"
            yield name, arguments
        else:
            child = node.children[0] if node.children else ""
            text = names.get(id(child)) or str(getattr(child, "name", child))
            names[id(node)] = given.get(text, text)
