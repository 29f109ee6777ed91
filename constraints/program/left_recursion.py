"""Left recursion: rules that reach themselves before a byte has been read, found and rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...errors import UnsupportedConstraint
from . import nodes
from .counting import may_end
from .node import Kind, Node
from .nodes import EMPTY, NOTHING, reachable
from .prune import pruned
from .rewrite import least, parts_first, rewritten
from .tables import Table, table, with_fresh_start


def nullable(root: Node) -> set[Node]:
    """Return the nodes of a program that read the empty text. ``APART`` is left aside."""
    return least(parts_first(root), _is_nullable)


def _is_nullable(node: Node, has: Callable[[Node], bool]) -> bool:
    match node.kind:
        case Kind.LEX | Kind.COUNT:
            return bool(node.tables[0].label[0] >= 0) and node.low == 0
        case Kind.BAG:
            return may_end(node, 0, 0)
        case Kind.REPEAT:
            return node.low == 0 or (has(node.parts[0]) and (node.low == 1 or has(node.parts[1])))
        case Kind.ALT | Kind.RULE:
            return any(has(part) for part in node.parts)
        case Kind.WITHIN:
            return bool(node.tables[0].label[0] >= 0) and has(node.parts[0])
    return (node.kind is not Kind.TOKENS or node.low == 0) and all(has(part) for part in node.parts)


def first_parts(node: Node, is_empty: Callable[[Node], bool]) -> list[Node]:
    """Return the parts of a node that may be read before any byte; ``is_empty``: whether a node reads the empty text."""
    if node.kind is Kind.BAG:
        return []
    found: list[Node] = []
    for part in node.parts:
        found.append(part)
        if node.kind in (Kind.SEQ, Kind.REPEAT) and not is_empty(part):
            break
    return found


def begun(given: Iterable[Node], is_empty: Callable[[Node], bool]) -> list[Node]:
    """Return some nodes and what may be read in them before any byte; ``is_empty``: see :func:`first_parts`."""
    found = dict.fromkeys(given)
    for node in (todo := list(found)):  # grows meanwhile
        fresh = dict.fromkeys(part for part in first_parts(node, is_empty) if part not in found)
        found |= fresh
        todo += fresh
    return todo


def left_recursive(root: Node) -> list[set[Node]]:
    """Return the sets of rules that reach themselves and each other before a byte has been read."""
    rules = (node for node in reachable(root) if node.kind is Kind.RULE)
    first = begun(rules, lambda node: bool(node.parts) or _is_nullable(node, bool))
    empty = least(first, _is_nullable).__contains__
    if len(least(first, lambda node, has: all(map(has, first_parts(node, empty))))) == len(first):
        return []
    import networkx as nx

    graph = nx.DiGraph([(node, part) for node in first for part in first_parts(node, empty)])
    connected = nx.strongly_connected_components(graph)
    circles = [some for some in connected if len(some) > 1 or graph.has_edge(*some, *some)]
    return [{node for node in some if node.kind is Kind.RULE} for some in circles]


def without_left_recursion(root: Node) -> Node:
    """Return a program of the same texts in which no rule begins with itself.

    Of rules that begin with each other, ``Ri = Bi | Rj Tij | …`` becomes the union of ``Bj Pji``, where ``Pji`` reads tails from
    j to i: a program that recurs at its right (Moore, 2000). Raises ``UnsupportedConstraint`` for a rule that begins with
    itself inside ``WITHIN``, ``TOKENS``, ``APART`` or ``ITEM``.
    """
    if not left_recursive(root):
        return root
    return pruned(Rewriter(rewritten(root, lambda node: node)).root)


def repeated(item: Node, low: int, high: int | None) -> Node:
    """Return the texts of ``item``, ``low`` to ``high`` times. Items without text are not counted: none need be there."""
    if item not in nullable(item):
        return nodes.repeat(item, low, high)
    return nodes.repeat(Rewriter(item).nonempty(item), 0, high)


class Split(NamedTuple):
    """The nonempty texts of a node: ``base``, and a text of a rule before a tail."""

    base: Node
    tails: tuple[tuple[Node, Node], ...] = ()

    def then(self, *after: Node) -> Split:
        """Return these texts before others."""
        tails = tuple((rule, nodes.seq(tail, *after)) for rule, tail in self.tails)
        return Split(nodes.seq(self.base, *after), tails)


def union(splits: Iterable[Split]) -> Split:
    """Return the texts of all."""
    found = list(splits)
    return Split(
        nodes.alt(*(each.base for each in found)), tuple(tail for each in found for tail in each.tails)
    )


class Rewriter:
    """Rewrites the rules of ``root`` in place."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._empty = dict.fromkeys(nullable(root), True)
        groups = [sorted(some, key=lambda rule: rule.number) for some in left_recursive(root)]
        rules = [rule for some in groups for rule in some]
        self._nonempty = {rule: nodes.rule() for rule in rules}  # the rules of their nonempty texts
        for some in groups:
            self.rewrite(some)
        for rule in rules:
            nodes.define(rule, nodes.alt(*([EMPTY] if self.is_empty(rule) else []), self._nonempty[rule]))

    def rewrite(self, rules: list[Node]) -> None:
        """Define the nonempty texts of rules that begin with each other."""
        import networkx as nx

        splits = {rule: self.split(rule.parts[0], frozenset(rules)) for rule in rules}
        if len(rules) == 1:
            return self.rewrite_one(rules[0], splits[rules[0]])
        units = nx.DiGraph()  # j to i where a text of j is one of i
        units.add_nodes_from(rules)
        tails: dict[tuple[Node, Node], list[Node]] = {}
        for after in rules:
            for before, tail in splits[after].tails:
                if self.is_empty(tail):
                    units.add_edge(before, after)
                tails.setdefault((before, after), []).append(self.nonempty(tail))
        same = {}
        for rule in rules:
            alike = nx.descendants(units, rule) | {rule}
            same[rule] = [each for each in rules if each in alike]
        paths = {(before, after): nodes.rule() for before in rules for after in rules}
        for (before, after), path in paths.items():
            steps = [
                nodes.seq(tail, paths[there, after])
                for here in same[before]
                for there in rules
                for tail in tails.get((here, there), ())
            ]
            nodes.define(path, nodes.alt(*([EMPTY] if after in same[before] else []), *steps))
        for rule in rules:
            options = (nodes.seq(splits[other].base, paths[other, rule]) for other in rules)
            nodes.define(self._nonempty[rule], nodes.alt(*options))

    def rewrite_one(self, rule: Node, split: Split) -> None:
        """Define ``R = B | R T`` as ``B T*``. Where R ends B or T, it need only be B, as ``T* T*`` is ``T*``."""
        base = nodes.rule()
        end = nodes.alt(*([EMPTY] if self.is_empty(rule) else []), base)
        ends = {rule: end, self._nonempty[rule]: base}
        nodes.define(base, ending(split.base, ends))
        tails = nodes.alt(*(ending(self.nonempty(tail), ends) for _, tail in split.tails))
        if tails is base.parts[0]:
            body = nodes.repeat(tails, 1)
        else:
            body = nodes.seq(base, nodes.repeat(tails))
        nodes.define(self._nonempty[rule], body)

    def is_empty(self, node: Node) -> bool:
        """Return whether a node, which may be new, reads the empty text."""
        found = self._empty.get(node)
        if found is None:
            found = self._empty[node] = node.kind is not Kind.RULE and _is_nullable(node, self.is_empty)
        return found

    def nonempty(self, node: Node) -> Node:
        """Return the node of the texts of ``node`` that are not empty."""
        return self.split(node, frozenset()).base

    def split(self, node: Node, rules: frozenset[Node]) -> Split:
        """Return the nonempty texts of a node, those apart that begin with a text of one of ``rules``."""
        if node in rules:
            return Split(NOTHING, ((node, EMPTY),))
        if not self.begins(node, rules):
            if not self.is_empty(node):
                return Split(node)
            if node.kind is Kind.RULE:
                return Split(self.nonempty_rule(node))
        match node.kind:
            case Kind.LEX | Kind.COUNT:
                return Split(rebuilt_on(node, without_empty(node.tables[0])))
            case Kind.ALT | Kind.RULE:
                return union(self.split(part, rules) for part in node.parts)
            case Kind.SEQ:
                found = []
                for i, part in enumerate(node.parts):
                    found.append(self.split(part, rules).then(*node.parts[i + 1 :]))
                    if not self.is_empty(part):
                        break
                return union(found)
            case Kind.REPEAT:
                return self.split_repeat(node, rules)
            case Kind.BAG:
                (first, later), least = node.tables, max(node.low, 1)
                required = [label for label in range(node.members) if node.required >> label & 1]
                return Split(
                    nodes.bag(
                        first, later, node.parts, node.members, required, least, node.high, node.ordered
                    )
                )
        if self.begins(node, rules) or node.kind in (Kind.APART, Kind.ITEM):
            raise UnsupportedConstraint(
                f"a rule begins with itself inside {node.kind.name.lower()}: write the rule so that a byte comes first"
            )
        part = self.nonempty(node.parts[0])
        if node.kind is Kind.WITHIN:
            return Split(nodes.within(part, node.tables[0]))
        return Split(nodes.tokens(part, max(node.low, 1), node.high))

    def split_repeat(self, node: Node, rules: frozenset[Node]) -> Split:
        item, separator = node.parts
        more = nodes.seq(separator, item)

        def after(count: int) -> Node:
            return nodes.repeat(
                more, max(0, node.low - count), None if node.high is None else node.high - count
            )

        found = [self.split(item, rules).then(after(1))]
        if self.is_empty(item) and (node.high is None or node.high > 1):
            found.append(self.split(separator, rules).then(item, after(2)))
        return union(found)

    def nonempty_rule(self, rule: Node) -> Node:
        if rule not in self._nonempty:
            self._nonempty[rule] = nodes.rule()
            nodes.define(self._nonempty[rule], self.nonempty(rule.parts[0]))
        return self._nonempty[rule]

    def begins(self, node: Node, rules: frozenset[Node]) -> bool:
        """Return whether a text of a node may begin with a text of one of ``rules``."""
        return not rules.isdisjoint(begun([node] if rules else [], self.is_empty))


def ending(node: Node, ends: dict[Node, Node]) -> Node:
    """Return a node in which other nodes stand for some that end its texts."""
    if node in ends:
        return ends[node]
    if node.kind is Kind.SEQ and node.parts:
        return nodes.seq(*node.parts[:-1], ending(node.parts[-1], ends))
    if node.kind is Kind.ALT:
        return nodes.alt(*(ending(part, ends) for part in node.parts))
    return node


def without_empty(found: Table) -> Table | None:
    """Return the table of the texts of ``found`` that are not empty; None if there are none."""
    if found.label[0] < 0:
        return found
    fresh = with_fresh_start(found)
    if not (fresh.edges[:, 0] == 0).any():
        return None
    return table(fresh.edges, [-1, *fresh.label[1:]], fresh.between)


def rebuilt_on(node: Node, found: Table | None) -> Node:
    """Return a copy of ``node``, a leaf that reads a table, which reads ``found`` instead."""
    return nodes.lex(found) if node.kind is Kind.LEX else nodes.count(found, node.low, node.high)
