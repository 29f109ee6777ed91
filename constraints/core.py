"""The compiled core of constraints, ``tractile._core`` (``core/``), or the error that says how to get it."""

from __future__ import annotations

from ..errors import CoreMissing

INTERFACE = 12
"""What the package expects of the core, as a number."""

try:
    from .._core import INTERFACE as BUILT
    from .._core import (
        LIMITS,
        MANY_STATES,
        SLICE,
        Account,
        Alive,
        Automaton,
        Core,
        Exhausted,
        Letters,
        LimitPassed,
        Names,
        Nfa,
        Table,
        Trie,
        account,
        alive,
        allow,
        around,
        between_bounds,
        byte_ranges,
        complement,
        concat,
        copied,
        determinize,
        difference,
        empty,
        enter,
        erased,
        fill,
        first_matches,
        inside,
        intersect,
        letters,
        literal,
        loop,
        looped,
        minimize,
        names_of,
        names_table,
        network,
        of_nfa,
        of_rows,
        of_text,
        optional,
        plus,
        resolved,
        sequences,
        simplify,
        spend,
        star,
        table,
        to_nfa,
        together,
        union,
        used,
        watch,
        with_fresh_start,
        words,
        written_out,
    )

    if BUILT != INTERFACE:
        raise ImportError("it was built from other sources")
except ImportError as error:
    raise CoreMissing(
        f"tractile has no compiled core ({error}): install a C++17 compiler (g++, clang++, or Visual Studio's Build Tools) "
        "and install tractile again; in a checkout: python setup.py build_ext --inplace"
    ) from error

__all__ = [
    "Account", "Alive", "Automaton", "Core", "Exhausted", "LIMITS", "Letters", "LimitPassed", "MANY_STATES", "Names", "Nfa",
    "SLICE", "Table", "Trie", "account", "alive", "allow", "around", "between_bounds", "byte_ranges", "complement", "concat",
    "copied", "determinize", "difference", "empty", "enter", "erased", "fill", "first_matches", "inside", "intersect", "letters",
    "literal", "loop", "looped", "minimize", "names_of", "names_table", "network", "of_nfa", "of_rows", "of_text", "optional",
    "plus", "resolved", "sequences", "simplify", "spend", "star", "table", "to_nfa", "together", "union", "used",
    "watch", "with_fresh_start", "words", "written_out",
]  # fmt: skip
