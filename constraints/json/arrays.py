"""Array shapes: dropping redundant conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .shapes import ANY, Arrays, Need


def settle(shape: Arrays, empty: Callable[[Need], bool]) -> Arrays | None:
    """Return the shape without redundant conditions, ``None`` if no array has it.
    A ``contains`` that every item satisfies becomes a bound on the number of items."""
    contains, least = [], shape.least
    for c in shape.contains:
        if c.need == ANY:  # every item satisfies it
            least = max(least, c.least + c.start if c.least else 0)
            if c.most is not None:
                most = c.most + c.start
                shape = replace(shape, most=most if shape.most is None else min(most, shape.most))
        elif c.least and empty(c.need):
            return None
        elif c.least or c.most is not None:
            contains.append(c)
            least = max(least, c.least + c.start if c.least else 0)
    if shape.most is not None and least > shape.most:
        return None
    shape = replace(shape, least=least, contains=tuple(contains))
    if shape.unique and shape.most is not None and shape.most < 2:
        shape = replace(shape, unique=None)
    return shape
