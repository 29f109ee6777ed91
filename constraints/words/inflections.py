"""Keywords without a dictionary of inflected forms: the words as they are written, and a narrowing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any, ParamSpec

from ...errors import UnsupportedConstraint
from ..constraint import Constraint
from ..narrowing import Narrowing, merged, report

INSTALL = 'pip install "tractile[inflections]"'


P = ParamSpec("P")


def as_written_without_dictionary(build: Callable[P, Constraint]) -> Callable[P, Constraint]:
    """Let ``build(words, inflections=None)`` use inflected forms if ``lemminflect`` is installed.

    Without it only the words as written are used. Fewer texts are accepted then; ``narrowed`` and a warning say so.
    """

    @wraps(build)
    def built(*arguments: P.args, **options: P.kwargs) -> Constraint:
        inflections = options.get("inflections")
        if inflections is not None and not isinstance(inflections, bool):
            raise UnsupportedConstraint(
                f"inflections is True, False or None, not {inflections!r}", path="inflections"
            )
        if inflections is not None or installed():
            return build(*arguments, **options)
        options["inflections"] = False
        found = build(*arguments, **options)
        words: Any = arguments[0] if arguments else options["words"]
        plain = [word for word in words if isinstance(word, str)]
        if not plain:
            return found
        narrowing = Narrowing(
            path="words",
            keyword="inflections",
            asked=f"every form of {', '.join(plain)}",
            given="the words as they are written",
            why=f"lemminflect is not installed: {INSTALL}, or pass inflections=False",
        )
        report((narrowing,), "warn")
        return Constraint(found.nfa, merged(found.narrowed, (narrowing,)))

    return built


def installed() -> bool:
    """Return whether the dictionary of inflected forms (``lemminflect``) is installed."""
    return find_spec("lemminflect") is not None
