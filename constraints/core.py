"""Check that the compiled core of constraints, ``tractile._core`` (``core/``), is there and fits; else say how to get it."""

from ..errors import CoreMissing

INTERFACE = 12
"""What the package expects of the core, as a number."""

try:
    from .._core import INTERFACE as BUILT

    if BUILT != INTERFACE:
        raise ImportError("it was built from other sources")
except ImportError as error:
    raise CoreMissing(
        f"tractile has no compiled core ({error}): install a C++17 compiler (g++, clang++, or Visual Studio's Build Tools) "
        "and install tractile again; in a checkout: python setup.py build_ext --inplace"
    ) from error
