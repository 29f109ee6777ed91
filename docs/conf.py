import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from importlib import import_module

from public import public_names
from sphinx.util.nodes import make_refnode

from tractile.constraints import limits

project = "Tractile"
author = "the Tractile authors"
copyright = "the Tractile authors, Apache-2.0"
release = version = installed_version("tractile")

extensions = [
    "mathml",
    "myst_parser",
    "notebooks",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "api/public-names.md"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

PAGES, PUBLIC = public_names()
BARE = {defined.rpartition(".")[2]: defined for defined in PUBLIC}
autosummary_generate = True
autosummary_context = {"public": PAGES}
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 100
nitpicky = True  # a reference that leads nowhere is a warning
OUTSIDE = r"(torch|numpy|jaxtyping|nx|collections|pathlib|abc|enum|os|re|sqlite3|threading)\..*|nn\.Module.*"
ALIASES = r"Tensor|ndarray|Float|Int|Path|Figure|FA|Guide|Prompt|Region|Block|Incidence|Inputs|Model"
AXES = r"'[a-z ]+'"  # of arrays, in annotations
nitpick_ignore_regex = [(r"py:.*", OUTSIDE), (r"py:class", ALIASES), (r"py:class", AXES)]
suppress_warnings = ["ref.python"]  # a name in a signature that several modules have links to one

html_theme = "furo"
html_title = "Tractile"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["cards.css", "widths.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_search_scorer = str(Path(__file__).parent / "_static" / "search_scorer.js")  # pages before names

# Docstrings are plain text: `name` is code, *words* are emphasised, any other star is a star, and an indented block is
# shown as it stands; below "Args:" or an underlined heading (Parameters, Notes, …) it is what the line above it means.
default_role = "code"
highlight_language = "none"
UNDERLINE = re.compile(r"-{3,}")
ITEM = re.compile(r"(-|\d+\.) ")
QUOTED = re.compile(r"(``.+?``|:[\w:]+:`.+?`|`.+?`|(?<!\S)\*[A-Za-z][\w -]*\*(?![\w*]))")


def as_plain_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place, from plain text to reStructuredText."""
    out = ["..", ""] if what in ("attribute", "property") else []  # or napoleon takes "text:" for a type
    head, verbatim = "", False  # the last unindented line, and whether we are in an indented block below it
    sections = False  # whether there was an underlined heading
    example = False  # whether we are in an example, which ends with a blank line
    for line in lines:
        indented = line.startswith("  ")
        if line.strip() and not indented:
            if verbatim or (ITEM.match(line) and not ITEM.match(head)):
                out.append("")
            head, verbatim = line, False
        sections = sections or bool(UNDERLINE.fullmatch(line))
        plain = sections or head == "Args:" or head.endswith("::") or ITEM.match(head)
        if indented and not verbatim and not plain:
            out += ["", "::", ""]
            verbatim = True
        example = line.startswith(">>>") or (example and bool(line.strip()))
        if verbatim or example:
            out.append(line)
        else:
            parts = QUOTED.split(line)
            parts[::2] = [re.sub(r"([*|])", r"\\\1", part) for part in parts[::2]]
            parts[::2] = [re.sub(r"(\w)_(?!\w)", r"\1\\_", part) for part in parts[::2]]
            out.append("".join(parts))
    lines[:] = out


def by_definition(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve a reference by the module of the definition, or by the bare name (`ShapeError`).

    A type that is not public is named without a link.
    """
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].split(".")
    while len(name) > 1 and name[0] not in BARE and name[0] != "tractile":
        name = name[1:]
    target, rest = ".".join([BARE.get(name[0], name[0]), *name[1:]]), ""
    while target and target not in PUBLIC:
        target, _, last = target.rpartition(".")
        rest = f".{last}{rest}"
    if not target:
        module, _, last = node["reftarget"].rpartition(".")
        internal = node["reftype"] in ("class", "obj") and hasattr(sys.modules.get(module), last)
        return contnode if internal else None
    known = env.domains["py"].objects.get(PUBLIC[target] + rest)
    if known is None:
        return None
    return make_refnode(
        app.builder, node["refdoc"], known.docname, known.node_id, contnode, PUBLIC[target] + rest
    )


def constant(name: str) -> Any:
    """Return the value of a constant of the constraints, by its module; an attribute of it after a colon."""
    path, _, attribute = name.partition(":")
    module, _, found = path.rpartition(".")
    value = getattr(import_module(f"tractile.constraints.{module}"), found)
    return getattr(value, attribute) if attribute else value


def with_limits(app: Any, page: str, source: list[str]) -> None:
    """Write the table of limits where a page asks for it."""
    if "{{limits}}" in source[0]:
        source[0] = source[0].replace("{{limits}}", limits.table(constant))


def setup(app: Any) -> None:
    app.connect("source-read", with_limits)
    app.connect(
        "autodoc-process-docstring", as_plain_text, priority=400
    )  # before napoleon reads the sections
    app.connect("missing-reference", by_definition)
