from importlib.metadata import version as installed_version
from typing import Any

project = "Tractile"
author = "the Tractile authors"
copyright = "the Tractile authors, Apache-2.0"
release = version = installed_version("tractile")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_autodoc_typehints",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
always_document_param_types = False
typehints_defaults = "comma"
typehints_use_signature = True
typehints_use_signature_return = True

html_theme = "furo"
html_title = "Tractile"
suppress_warnings = ["sphinx_autodoc_typehints.forward_reference", "sphinx_autodoc_typehints.guarded_import"]


def typehints_formatter(annotation: Any, config: Any) -> str | None:
    """Write a jaxtyping annotation as its reader knows it: Float[Tensor, "batch vocab"]."""
    if getattr(type(annotation), "__module__", "").startswith("jaxtyping"):
        return f'``{annotation.dtype.__name__}[{annotation.array_type.__name__}, "{annotation.dim_str}"]``'
    return None
