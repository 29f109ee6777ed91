"""Formulas as MathML, made when the documentation is built: pages need no script and no network.

A formula that cannot be converted is a warning, and is shown as it is written.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml import converter
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

log = logging.getLogger(__name__)
FONT = re.compile(r"\\(mathbb|mathbf|mathcal|mathrm) *(\w)")  # the converter wants the argument in braces
FUNCTION = re.compile(r"<mi>(log|ln|max|min)</mi>(?!<mo stretchy=\"false\">&#x00028;)")


def mathml(node: nodes.math | nodes.math_block, display: str) -> str:
    """The formula of a node as a `<math>` element; ``display`` is "inline" or "block"."""
    latex = node.astext()
    try:
        formula = converter.convert(FONT.sub(r"\\\1{\2}", latex), display=display)
        if "\\" not in formula:  # an unknown command is copied
            return FUNCTION.sub(r'<mi>\1</mi><mspace width="0.17em"/>', formula)
        reason = "unknown command"
    except Exception as error:  # the converter's errors have no base class of their own
        reason = repr(error)
    log.warning("formula %r: %s", latex, reason, location=node, type="math")
    return f"<code>{escape(latex)}</code>"


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number where it has a label."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(mathml(node, "block"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
