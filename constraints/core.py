"""The compiled core of constraints, ``tractile._core`` (``core/``), or the error that says how to get it."""

from __future__ import annotations

from ..errors import CoreMissing

INTERFACE = 11
"""What the package expects of the core, as a number."""

try:
    from .._core import INTERFACE as BUILT
    from .._core import LIMITS, SLICE, Automaton, Core, Exhausted, LimitPassed, Trie, allow, fill, used

    if BUILT != INTERFACE:
        raise ImportError("it was built from other sources")
except ImportError as error:
    raise CoreMissing(
        f"tractile has no compiled core ({error}): install a C++17 compiler (g++, clang++, or Visual Studio's Build Tools) "
        "and install tractile again; in a checkout: python setup.py build_ext --inplace"
    ) from error

__all__ = [
    "LIMITS", "SLICE", "Automaton", "Core", "Exhausted", "LimitPassed", "Trie", "allow", "fill", "used",
]  # fmt: skip
