"""The columns of indented blocks: a program in which two signs stand for them, written for each number of columns.

    AROUND   the columns of the block
    DEEPER   more columns than those; what follows it in its rule is a block with these

A block is a rule that begins with DEEPER. At column c it reads a text of c' ≤ c columns, a blank that passes c, any more
blanks, and then its lines at the column k > c that they lead to:

    block(c)  =  ⋃ text(c') blank lines(k),    k = c' + width of the blank > c
    lines(k)  =  the block's rule at column k, or " " lines(k + 1), or a tab and lines(k + tab)
"""

from __future__ import annotations

from ..automata import nfa
from ..automata.work import spend
from ..program import nodes, tables
from ..program.node import Kind, Node
from ..program.nodes import EMPTY
from ..program.prune import pruned
from ..program.rewrite import parts_first, rebuilt
from .tree import Text

COLUMNS = 40
"""The most columns of an indentation."""
AROUND, DEEPER = (Text(nodes.text(bytes([sign]))) for sign in (0xF8, 0xF9))  # UTF-8 has no such bytes


def is_block(node: Node) -> bool:
    """Return whether a node, the body of a rule, begins with more columns."""
    return (node.parts[0] if node.kind is Kind.SEQ and node.parts else node) is DEEPER.node


def with_columns(root: Node, tab: int) -> Node:
    """Return a program whose blocks begin at written-out columns, from column 0 on; ``tab``: the columns of a tab."""
    columns = range(COLUMNS + 1)
    order = indented(root)
    lines = {rule: [nodes.rule() for _ in columns] for rule in order if rule.kind is Kind.RULE}
    blocks = {rule: [nodes.rule() for _ in columns] for rule in lines if is_block(rule.parts[0])}
    texts = [of_columns(k, tab) for k in columns]
    widths = ((nodes.text(b" "), 1), (nodes.text(b"\t"), tab))
    found = root
    for k in reversed(columns):
        spend(10 * len(order))
        new = {AROUND.node: texts[k], DEEPER.node: EMPTY}
        for node in order:
            if node in blocks:
                new[node] = blocks[node][k]
            elif node in lines:
                new[node] = lines[node][k]
            elif node not in new:
                new[node] = rebuilt(node, tuple(new.get(part, part) for part in node.parts))
        for rule, copies in lines.items():
            body = new.get(rule.parts[0], rule.parts[0])
            if rule in blocks:
                more = [nodes.seq(blank, copies[k + w]) for blank, w in widths if k + w <= COLUMNS]
                body = nodes.alt(body, *more)
                ways = [
                    nodes.seq(texts[to - w], blank, copies[to])
                    for blank, w in widths
                    for to in range(k + 1, min(k + w, COLUMNS) + 1)
                    if to >= w
                ]
                nodes.define(blocks[rule][k], nodes.alt(*ways))
            nodes.define(copies[k], body)
        found = new.get(root, root)
    return pruned(found)


def indented(root: Node) -> list[Node]:
    """Return the nodes in which columns are read, each after its parts, but for the bodies of rules."""
    order = parts_first(root)
    callers: dict[Node, list[Node]] = {}
    for node in order:
        for part in node.parts:
            callers.setdefault(part, []).append(node)
    reached = {AROUND.node: None, DEEPER.node: None}
    for node in (todo := list(reached)):  # grows meanwhile
        more = dict.fromkeys(each for each in callers.get(node, ()) if each not in reached)
        reached |= more
        todo += more
    return [node for node in order if node in reached]


def of_columns(columns: int, tab: int) -> Node:
    """Return the texts of blanks with this many columns."""
    size = columns + 1
    rows = [
        [(low, low, at + width) for low, width in ((9, tab), (32, 1)) if at + width < size]
        for at in range(size)
    ]
    return nodes.lex(tables.of_nfa(nfa.of_rows(rows, [0], [columns])))
