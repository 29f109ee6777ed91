"""The lazy automaton of a JSON Schema, with the options of ``json_schema``."""

from __future__ import annotations

from typing import Any

from ....errors import UnsupportedConstraint
from ...automata.stack import Machine, StackAutomaton
from ...narrowing import Narrowing
from ..document import Document, Schema
from ..numbers import Notation
from .blanks import Surrounded
from .survey import Survey
from .values import Machines


def lazy_schema(
    root: Schema, strict: bool, options: tuple[Any, ...], inner: bool = False
) -> tuple[StackAutomaton, tuple[Narrowing, ...]]:
    """The texts of the values that a schema allows, and what they lack of it.

    Parameters
    ----------
    root
        A schema as ``read_schema`` gives it.
    strict
        Whether to refuse keywords and formats that no draft defines.
    options
        White space, order, greatest depth, greatest length, whether objects are open, what formats mean, whether numbers are
        plain, most digits: as ``build`` in ``json/constraint.py`` takes them. The order ``"auto"`` means any. The greatest
        depth and length are not needed, and mean nothing here.
    inner
        Of a value within a larger text, around which no white space stands.

    Raises ``UnsupportedConstraint`` with the path of what is not supported, ``TooManyStates`` where schemas combine too many
    alternatives; a pattern that takes too much work raises that when a text gets there.
    """
    whitespace, order, _, _, open_objects, formats, plain, digits = options
    document = Document(root, strict)
    asserts_format = formats == "assert" or (formats == "auto" and document.draft < 2019)
    notation = Notation(document.draft == 4, plain, digits)
    machines = Machines(document, whitespace, order, open_objects, asserts_format, notation)
    narrowed = Survey(document, asserts_format, notation).narrowings()
    try:
        need = machines.keywords.root()
        machines.check(need)
        machine: Machine | None = None
        if not machines.is_empty(need):
            machine = machines.machine(need)
            if machines.style.blank and not inner:
                machine = Surrounded(machine)
    except RecursionError:
        raise UnsupportedConstraint("the schema nests too deep", path="/") from None
    return StackAutomaton(machine), narrowed
