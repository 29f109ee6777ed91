"""The public names: which module documents each, and where a name is found that is written by the place of its definition."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

MODULES = [
    "tractile",
    "tractile.constraints",
    "tractile.circuits",
    "tractile.circuits.builders",
    "tractile.layers",
    "tractile.inference",
    "tractile.inference.smc",
    "tractile.lm",
    "tractile.decoding",
    "tractile.distill",
    "tractile.embedded",
    "tractile.errors",
    "tractile.testing",
]


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: its ``__all__``, or what it defines."""
    defined = [
        n
        for n, v in vars(module).items()
        if getattr(v, "__module__", None) == module.__name__ and n[0] != "_"
    ]
    names = getattr(module, "__all__", defined)
    return [n for n in names if n[0] != "_" and not inspect.ismodule(getattr(module, n))]


def public_names() -> tuple[dict[str, list[str]], dict[str, str]]:
    """The names that each module documents (an object only once), and the public name of each place of definition."""
    pages: dict[str, list[str]] = {}
    public: dict[str, str] = {}
    seen: set[int] = set()
    for path in MODULES:
        module = import_module(path)
        pages[path] = []
        for name in names_of(module):
            value = getattr(module, name)
            if id(value) in seen:
                continue
            seen.add(id(value))
            pages[path].append(name)
            if hasattr(value, "__qualname__"):
                public[f"{value.__module__}.{value.__qualname__}"] = f"{path}.{name}"
            elif isinstance(value, dict | tuple | list):
                public[f"{type(value).__name__}.{name}"] = f"{path}.{name}"
        pages[path].sort(key=str.lower)
    return pages, public
