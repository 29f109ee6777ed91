"""The terminals of an indenter of the ``lark`` package, as texts: see ``layout.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..automata import dfa, nfa
from ..automata.nfa import Nfa
from ..narrowing import Narrowing
from .columns import COLUMNS
from .ignored import Ignored
from .lark_syntax import lark_package
from .layout import breaks_of, continuing
from .terminals import Terminal
from .tree import Layout, Text, text_of

NARROWED = (
    Narrowing("postlex", "columns of a block", "any number", COLUMNS, "the columns are states"),
    Narrowing(
        "postlex", "blanks after the last line break", "those of a block", "none", "no line follows them"
    ),
)
"""What is lacking of indented texts."""


def is_indenter(postlex: Any) -> bool:
    """Return whether an object is an indenter that works as Lark's own does."""
    lark = lark_package().indenter.Indenter
    own = ("process", "_process", "handle_NL")
    return isinstance(postlex, lark) and all(getattr(type(postlex), n) is getattr(lark, n) for n in own)


class LayoutReader:
    """Collects the texts of each terminal at the beginning of a line and inside of parentheses.

    ``newline``: the terminal of the line breaks; ``skipped``: the same as an ignored one; ``others``: all terminals;
    ``between``: what is ignored in a line; ``passed``: its terminals; ``end``: what is ignored at the end.
    """

    def __init__(
        self,
        postlex: Any,
        newline: Terminal,
        skipped: Terminal,
        others: Sequence[Terminal],
        between: Ignored,
        passed: Sequence[Terminal],
        end: Text,
    ) -> None:
        name, breaks = postlex.NL_type, breaks_of(newline.texts)
        self.continuing = continuing(newline.texts, breaks)
        self.within = Ignored([*passed, skipped], others)
        signs = {kind: f'"{sign}"' for sign, kind in lark_package().load_grammar._TERMINAL_NAMES.items()}

        def named(kinds: Sequence[str]) -> frozenset[str]:
            return frozenset([*kinds, *(signs[kind] for kind in kinds if kind in signs)])

        self.layout = Layout(
            name,
            postlex.INDENT_type,
            postlex.DEDENT_type,
            named(postlex.OPEN_PAREN_types),
            named(postlex.CLOSE_PAREN_types),
            postlex.tab_len,
            text_of(between.before(breaks, name)),
            end=end,
        )
        self.layout.begun[end] = text_of(dfa.difference(between.at_the_end(), self.continuing))
        self.layout.inside[end] = text_of(nfa.empty())

    def add(self, text: Text, words: Nfa, texts: Nfa, name: str) -> None:
        """Add a terminal.

        ``text``: it as the rules have it; ``words``: its texts after what is ignored in a line; ``texts``: its texts alone.
        """
        begun = dfa.difference(words, self.continuing)
        for found, table in (
            (begun, self.layout.begun),
            (self.within.before(texts, name), self.layout.inside),
        ):
            table[text] = Text(text_of(found).node, text.ends_first, text.before)
