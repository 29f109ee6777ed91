"""Calls as nodes.

call       {"name":  a name of the tools  , "arguments":  its arguments  }        a name of the tools  ( its arguments )
calls      [ call , call … ]
"""

from __future__ import annotations

from collections.abc import Mapping

from ..automata.nfa import literal
from ..json.nodes.leaves import blanks
from ..json.text import Style
from ..program import nodes
from ..program.labelled import labelled
from ..program.node import Node
from ..program.nodes import NOTHING
from .tools import json_text


def call(tools: Mapping[str, Node], keys: tuple[str, str], style: Style) -> Node:
    """Return the node of a call of one of the tools, given the node of the arguments of each.

    ``keys``: the names of the two members, ``style``: the syntax of the call, in JSON.
    """
    blank, (name, arguments) = blanks(style.blank), map(json_text, keys)
    after_name = nodes.seq(blank, spaced(style, style.comma, arguments, style.colon), blank)
    options = {json_text(tool): nodes.seq(after_name, after) for tool, after in tools.items()}
    head = spaced(style, b"{", name, style.colon)
    return nodes.seq(head, blank, one_of(options), blank, nodes.text(b"}"))


def calls(one: Node, low: int, high: int | None, style: Style) -> Node:
    """Return the node of a list of ``low`` to ``high`` calls, without an upper bound for None."""
    blank = blanks(style.blank)
    comma = nodes.seq(nodes.text(style.comma), blank)
    some = nodes.repeat(nodes.seq(one, blank), low, high, comma)
    return nodes.seq(nodes.text(b"["), blank, some, nodes.text(b"]"))


def one_of(options: Mapping[bytes, Node]) -> Node:
    """Return the texts of the options: a key and what follows it. The keys are read together, so their number costs little."""
    live = {key: after for key, after in options.items() if after is not NOTHING}
    table = labelled([literal(key) for key in live])
    return NOTHING if table is None else nodes.bag(table, table, live.values(), 0, low=1, high=1)


def spaced(style: Style, *parts: bytes) -> Node:
    """Return the node of some texts in a row, with the white space of a style between them."""
    if not style.blank:
        return nodes.text(b"".join(parts))
    return nodes.seq(*[each for part in parts for each in (blanks(style.blank), nodes.text(part))][1:])
