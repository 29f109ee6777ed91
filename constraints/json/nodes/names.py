"""The names of an object's members as tables: what stands before a name, the name, the colon after it (``core/names.h``).

``Names`` are a byte automaton from the byte after the opening quote to the colon. Those of many objects share one of the names
that they do not declare, their *base*.
"""

from __future__ import annotations

import math

from ...._core import Names, names_of, names_table
from ...._core import inside as names_inside
from ...automata.work import metered
from ...program.tables import Table
from .. import strings
from ..shapes import Strings
from ..text import Spelling, Style


@metered(maxsize=1024)
def names_tables(
    live: tuple[str, ...], declared: tuple[str, ...], classes: tuple[Strings, ...], style: Style
) -> tuple[Table, Table] | None:
    """Return the tables of the names of a first member and of later ones, which begin with the comma; None if there is no name.

    Labels are those of the ``live`` names, then of the ``classes`` of others, to which no name of ``declared`` belongs.
    Raises ``TooManyStates``.
    """
    parts = tuple(inside(live, declared, classes, spelling, style) for spelling in style.spellings)
    if all(part is None for part in parts):
        return None
    return after_text(parts, style.lead, style), after_text(parts, style.comma, style)


def inside(
    live: tuple[str, ...],
    declared: tuple[str, ...],
    classes: tuple[Strings, ...],
    spelling: Spelling,
    style: Style,
) -> Names | None:
    """Return the automaton of the names, as :func:`names_tables`: a trie of those declared, on that of the classes."""
    if not declared and classes == (Strings(),):
        spelling = spelling.free or spelling
    base = of_classes(classes, spelling, style) if classes else None
    label = {name: i for i, name in enumerate(live)}
    names = live if base is None else declared
    labels = [label.get(name, -1) for name in names]
    return names_inside(names, labels, len(live), base, spelling.letters, spelling.closing, style.joint)


@metered(maxsize=256)
def of_classes(classes: tuple[Strings, ...], spelling: Spelling, style: Style) -> Names | None:
    """Return the automaton of the names of some classes, each labelled by the first class that has it."""
    return names_of([strings.body(kind, spelling) for kind in classes], spelling.closing, style.joint)


def after_text(
    parts: tuple[Names | None, ...],
    before: bytes,
    style: Style,
    labels: tuple[int, ...] | None = None,
    others: tuple[int, ...] = (),
) -> Table:
    """Return the table of a text before a name, its opening quote and the rest, in each of the spellings.

    Parameters
    ----------
    parts
        By spelling, the automaton of the names, None if there is none.
    labels
        The label to write in place of each label of ``parts``, if not the same.
    others
        Labels of members whose name is no part of the table: they are read where a name begins.
    """
    blank = 0 if not before else -1 if style.blank == math.inf else int(style.blank)
    (only, *more) = parts
    shared = None if more or others or only is None else only.base
    base = None if shared is None else after_text_of_base(shared, before, style)
    openings = [spelling.opening for spelling in style.spellings]
    return names_table(parts, before, blank, openings, labels, others, base)


@metered(maxsize=256)
def after_text_of_base(base: Names, before: bytes, style: Style) -> Table:
    """Return the table of a text before a name that objects do not declare."""
    return after_text((base,), before, style)
