"""Records of what a language lacks of what was asked for, with the warning or error for it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any, Literal

from ..circuits.narrowing import VALIDATOR
from ..circuits.narrowing import Narrowing as Narrowing
from ..errors import UnsupportedConstraint
from . import validation

logger = logging.getLogger("tractile.constraints")

OnNarrowed = Literal["warn", "error", "ignore"]
CHOICES = ("warn", "error", "ignore")


def merged(*parts: Iterable[Narrowing]) -> tuple[Narrowing, ...]:
    """Concatenate narrowings and drop duplicates; the order is kept."""
    found: dict[tuple[str, ...], Narrowing] = {}
    for part in parts:
        for each in part:
            found.setdefault((each.path, each.keyword, repr(each.asked), repr(each.given)), each)
    return tuple(found.values())


def check_choice(on_narrowed: Any) -> None:
    """Raise ``UnsupportedConstraint`` unless ``on_narrowed`` is "warn", "error" or "ignore"."""
    validation.choice(on_narrowed, "on_narrowed", CHOICES)


def report(
    narrowed: tuple[Narrowing, ...], on_narrowed: OnNarrowed, chosen: Collection[str] = frozenset()
) -> None:
    """Log one warning for the whole constraint, raise ``UnsupportedConstraint``, or do nothing.

    ``chosen``: keywords of narrowings that the caller asked for by an option; they cause no warning. With
    ``on_narrowed="error"`` the first narrowing raises, chosen or not. Narrowings that lose no value are ignored, but for those of
    validators with ``on_narrowed="error"``.
    """
    wider = tuple(each for each in narrowed if each.keyword == VALIDATOR)
    narrowed = tuple(each for each in narrowed if each.loses_values)
    if on_narrowed == "error" and (narrowed or wider):
        first = (*narrowed, *wider)[0]
        what = "would be narrowed" if narrowed else "has values that the type refuses"
        raise UnsupportedConstraint(f"the language {what}: {first}", path=first.path)
    narrowed = tuple(each for each in narrowed if each.keyword not in chosen)
    if not narrowed or on_narrowed == "ignore":
        return
    more = f", and {len(narrowed) - 1} more" if len(narrowed) > 1 else ""
    logger.warning(
        "a constraint accepts less than was asked: %s%s; see Constraint.narrowed", narrowed[0], more
    )
